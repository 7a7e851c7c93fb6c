"""``ragbench judge-card``: is a judge worth its verdicts?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragbench_cli import console
from ragbench_cli.llm_options import (
    ConfigOption,
    LLMBaseUrlOption,
    LLMKeyFileOption,
    LLMKeyVariableOption,
    LLMModelOption,
)
from ragbench_cli.options import JsonOption, argument, option

if TYPE_CHECKING:
    from ragbench.records.judge_cards import Figure, JudgeCard

__all__ = ["command"]


def command(
    labels: Annotated[
        Path,
        argument(
            metavar="LABELS",
            help="File with claims, their evidence and what people said. See docs/judging.md.",
        ),
    ],
    metric: Annotated[
        str,
        option(
            "--metric",
            "-m",
            help="How claims are judged: support, or another metric that asks a model about an "
            "answer and its contexts, such as ragas:faithfulness.",
            metavar="NAME",
            show_default=True,
        ),
    ] = "support",
    limit: Annotated[
        int | None, option("--limit", help="Take only the first N claims.", metavar="N")
    ] = None,
    sample: Annotated[
        int | None, option("--sample", help="Draw N claims at random.", metavar="N")
    ] = None,
    seed: Annotated[
        int,
        option("--seed", help="Seed of the draw and of intervals.", metavar="N", show_default=True),
    ] = 0,
    repeats: Annotated[
        int,
        option(
            "--repeats",
            help="How often each claim is judged, to see whether the judge agrees with itself.",
            metavar="N",
            min=1,
            show_default=True,
        ),
    ] = 3,
    no_swap: Annotated[
        bool,
        option("--no-swap", help="Do not judge with the passages in reverse order as well."),
    ] = False,
    llm_model: LLMModelOption = None,
    llm_base_url: LLMBaseUrlOption = None,
    llm_api_key_env: LLMKeyVariableOption = None,
    llm_api_key_file: LLMKeyFileOption = None,
    config: ConfigOption = None,
    max_cost: Annotated[
        str | None,
        option(
            "--max-cost",
            help="The most that this command may cost; needs a known price.",
            metavar="AMOUNT",
        ),
    ] = None,
    no_preflight: Annotated[
        bool,
        option("--no-preflight", help="Do not try the model before the first judgement."),
    ] = False,
    quiet: Annotated[bool, option("--quiet", "-q", help="No progress and no hints.")] = False,
    json: JsonOption = False,
) -> None:
    """Measure a judge on labels of people.

    Tells how far the judge agrees with them (Cohen's kappa beside the base rate, with intervals),
    whether it agrees with itself, whether the order of passages changes its verdict, how many of
    its quotes stand nowhere in the evidence, and what a verdict costs.

    \b
    Examples:
      ragbench judge-card labels.jsonl --llm-model gpt-4o-mini
      ragbench judge-card wice.jsonl --sample 100 --metric ragas:faithfulness --json
    """
    from ragbench.data.labels import read_labels
    from ragbench.errors import ConfigError
    from ragbench.evaluation.judge_card import judge_card
    from ragbench.evaluation.selection import Selection
    from ragbench.scoring.registry import parse_metric
    from ragbench_cli.cost_tables import say_receipt
    from ragbench_cli.models_in_use import ModelChoice, models_in_use

    judged = parse_metric(metric)
    selection = Selection(limit=limit, sample=sample, seed=seed)
    claims = tuple(selection.apply(read_labels(labels)))
    choice = ModelChoice(
        model=llm_model,
        base_url=llm_base_url,
        api_key_env=llm_api_key_env,
        api_key_file=llm_api_key_file,
        config=config,
        max_cost=max_cost,
        repeats=repeats,
        preflight=not no_preflight,
    )
    with (
        console.stop_on_signal() as stopped,
        models_in_use(choice, [judged], dry_run=False) as models,
    ):
        if models.judging is None:
            raise ConfigError(f"{metric} asks no model: there is no judge to measure")
        try:
            card = judge_card(
                claims,
                judged,
                models.judging,
                labels=str(labels),
                swap=not no_swap,
                seed=seed,
                stopped=stopped,
            )
        finally:
            if not quiet:
                say_receipt(models.session.receipt())
    if json:
        console.print_json(_object(card))
    else:
        _print(card)


def _object(card: JudgeCard) -> dict[str, object]:
    from dataclasses import asdict

    return {**asdict(card), "cost": None if card.cost is None else f"{card.cost:f}"}


def _print(card: JudgeCard) -> None:
    from ragbench_cli.columns import entry

    asked = card.judge["chat"] or card.judge["embeddings"]
    typer.echo(f"{asked['model']} with {card.metric} on {card.labels}")
    told = ", ".join(f"{count:,} {reason}" for reason, count in card.reasons)
    typer.echo(f"{card.judged:,} of {card.claims:,} claims judged{f' ({told})' if told else ''}")
    if card.judged:
        typer.echo("")
        _print_table(card)
    typer.echo("")
    base = "-" if card.base_rate is None else f"{card.base_rate:.3f}"
    cost = "not known" if card.cost is None else f"{card.cost:.6f} {card.currency or ''}".rstrip()
    tokens = (
        "not told by the endpoint"
        if card.prompt_tokens is None or card.completion_tokens is None
        else f"{card.prompt_tokens:,.0f} in, {card.completion_tokens:,.0f} out"
    )
    for name, text in (
        ("agreement", f"{_figure(card.agreement)}; always the most frequent label: {base}"),
        ("kappa", _figure(card.kappa)),
        ("quadratic kappa", _figure(card.quadratic_kappa)),
        ("same each time", f"{_figure(card.consistency)}, {card.consistency.count:,} claims"),
        ("order changes", f"{_figure(card.order_changes)}, {card.order_changes.count:,} claims"),
        (
            "invented quotes",
            f"{_figure(card.fabricated_quotes)}, {card.fabricated_quotes.count:,} quotes",
        ),
        ("support unquoted", f"{_figure(card.unquoted)}, {card.unquoted.count:,} verdicts"),
        ("tokens a verdict", tokens),
        ("cost a verdict", cost),
    ):
        typer.echo(entry(name, text, width=18))


def _print_table(card: JudgeCard) -> None:
    names = [level.replace("_", " ") for level in card.table.levels]
    width = max(map(len, names)) + 2
    corner = "people / judge"
    typer.echo(f"{corner:<{width}}" + "".join(f"{name:>{width}}" for name in names))
    for name, row in zip(names, card.table.counts, strict=True):
        typer.echo(f"{name:<{width}}" + "".join(f"{count:>{width},}" for count in row))


def _figure(figure: Figure) -> str:
    if figure.value is None:
        return "-"
    interval = "" if figure.low is None else f" ({figure.low:.3f} .. {figure.high:.3f})"
    return f"{figure.value:.3f}{interval}"
