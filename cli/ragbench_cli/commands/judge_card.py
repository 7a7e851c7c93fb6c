"""``ragbench judge-card``: is a judge worth its verdicts?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from msgspec import structs

from ragbench.core.labels import CardFigure, JudgeCard, ProbeFigure, Usefulness
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.io.labels import read_labels
from ragbench.io.only import Selection
from ragbench.metrics.registry import parse_metric
from ragbench.verbs.judge_card import judge_card, probes_named, rehearse_card
from ragbench_cli import console
from ragbench_cli.console import ExitCode
from ragbench_cli.models import JudgeChoice, ModelChoice, ModelsInUse, say_receipt, show_estimate
from ragbench_cli.options import JsonOption, Panel, argument, option, takes_records
from ragbench_cli.output import entry, show


class Asked(Record):
    PANEL: ClassVar = Panel.MEASURED

    labels: Annotated[Path, argument("LABELS")]
    """File with claims, their evidence and human labels. See docs/judge_card.md."""
    metric: Annotated[str, option("-m")] = "support"
    """How claims are judged: support, or another metric that asks a model about an answer and its
    contexts, such as ragas:faithfulness."""
    limit: Annotated[int | None, option(panel=Panel.CASES)] = None
    """Take only the first N claims."""
    sample: Annotated[int | None, option(panel=Panel.CASES)] = None
    """Draw N claims at random."""
    seed: Annotated[int, option(panel=Panel.CASES, rare=True)] = 0
    """Seed of the draw and of intervals."""
    repeats: Annotated[int, option(min=1)] = 3
    """How often each claim is judged, to see whether the judge agrees with itself."""
    probes: Annotated[str, option("LIST")] = "position,verbosity,injection"
    """Robustness probes to run, separated by commas: position, verbosity, injection (a text gives
    orders to the judge); all or none. Each takes about a call per claim."""
    quiet: Annotated[bool, option("-q", panel=Panel.OUTPUT)] = False
    """Show no progress and no hints."""


@takes_records
def command(asked: Asked, judge: JudgeChoice, json: JsonOption = False) -> None:
    """Measure a judge against human labels.

    Shows how far the judge agrees with them (Cohen's kappa beside the base rate, precision and
    recall of each level, rank correlation, with intervals), whether it agrees with itself, how
    order, length and instructions in the texts change its verdict, how many of its quotes are not
    in the evidence, the cost of a verdict, and a recommendation; exit code 1 if you should
    not use the judge.

    \b
    Examples:
      ragbench judge-card labels.jsonl --llm-model gpt-4o-mini
      ragbench judge-card wice.jsonl --sample 100 --metric ragas:faithfulness --json
    """
    judged = parse_metric(asked.metric)
    tried = probes_named(asked.probes.split(","))
    drawn = Selection(limit=asked.limit, sample=asked.sample, seed=asked.seed).apply(
        read_labels(asked.labels, judged.name)
    )
    claims = tuple(drawn)
    choice = ModelChoice(**structs.asdict(judge), repeats=asked.repeats)
    with console.stop_on_signal() as stopped, ExitStack() as stack:
        models = ModelsInUse(choice, [judged], stack)
        judging, counted = models.judging, models.dry_run
        if judging is None:
            raise ConfigError(f"{judged.name} asks no model: there is no judge to measure")
        if counted is not None:
            rehearse_card(claims, judged, judging, counted, probes=tried)
            show_estimate(counted.estimate(), counted.cases, as_json=json)
            return
        try:
            card = judge_card(
                claims, judged, labels=str(asked.labels), probes=tried, seed=asked.seed,
                judging=judging, stopped=stopped,
            )  # fmt: skip
        finally:
            if not asked.quiet:
                say_receipt(models.session.receipt(), models.session.not_sent())
    show(_object(card), partial(_print, card), json=json)
    if card.conclusion.usefulness is Usefulness.DO_NOT_USE:
        raise typer.Exit(ExitCode.FAILED)


def _object(card: JudgeCard) -> dict[str, object]:
    conclusion = card.conclusion
    return {
        **asdict(card),
        "probes": [{**asdict(probe), "share": probe.share} for probe in card.probes],
        "cost": None if card.cost is None else f"{card.cost:f}",
        "conclusion": {"usefulness": conclusion.usefulness, "reasons": conclusion.reasons},
    }


def _print(card: JudgeCard) -> None:
    asked = card.judge["chat"] or card.judge["embeddings"]
    typer.echo(f"{asked['model']} with {card.metric} on {card.labels}")
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in card.reasons)
    typer.echo(
        f"{card.judged:,} of {card.claims:,} claims judged{f' ({reasons})' if reasons else ''}"
    )
    if card.judged:
        typer.echo("")
        _print_table(card)
    typer.echo("")
    for name, text in _rows(card):
        typer.echo(entry(name, text, width=22))
    found = card.conclusion
    typer.echo("")
    typer.echo(found.usefulness if not found.reasons else f"{found.usefulness}:")
    for reason in found.reasons:
        typer.echo(f"  {reason}")


def _rows(card: JudgeCard) -> Iterator[tuple[str, str]]:
    base = "-" if card.base_rate is None else f"{card.base_rate:.3f}"
    yield "agreement", f"{_figure(card.agreement)}; always the most frequent label: {base}"
    yield "kappa", _figure(card.kappa)
    yield "quadratic kappa", _figure(card.quadratic_kappa)
    yield "rank correlation", _figure(card.rank_correlation)
    for one in card.classes:
        text = f"precision {_figure(one.precision)}, recall {_figure(one.recall)}"
        yield one.level.replace("_", " "), text
    yield "same each time", f"{_figure(card.consistency)}, {card.consistency.count:,} claims"
    yield from map(_probe_row, card.probes)
    quotes = card.fabricated_quotes
    yield "invented quotes", f"{_figure(quotes)}, {quotes.count:,} quotes"
    yield "support unproved", f"{_figure(card.unproved)}, {card.unproved.count:,} verdicts"
    tokens = (card.prompt_tokens, card.completion_tokens)
    text = "not reported by the endpoint"
    if None not in tokens:
        text = f"{card.prompt_tokens:,.0f} in, {card.completion_tokens:,.0f} out"
    yield "tokens a verdict", text
    known = "not known" if card.cost is None else f"{card.cost:.6f} {card.currency or ''}"
    yield "cost a verdict", known.rstrip()


_PROBES = {
    "position": "order changes",
    "verbosity": "padding changes",
    "injection_answer": "ordered in the answer",
    "injection_context": "ordered in a passage",
}


def _probe_row(probe: ProbeFigure) -> tuple[str, str]:
    if not probe.count:
        return _PROBES[probe.probe], "- (no claim that it could be tried on)"
    verb = "raised" if probe.is_injection else "changed"
    interval = "" if probe.low is None else f" ({probe.low:.3f} .. {probe.high:.3f})"
    text = f"{probe.share:.3f}{interval}, {probe.hits:,} of {probe.count:,} verdicts {verb}"
    if not probe.is_injection and probe.changed:
        text += f", {probe.raised:,} upwards"
    if probe.unproved:
        text += f"; {probe.unproved:,} more gave in without a proof"
    return _PROBES[probe.probe], text


def _print_table(card: JudgeCard) -> None:
    names = [level.replace("_", " ") for level in card.table.levels]
    width = max(map(len, names)) + 2
    corner = "people / judge"
    typer.echo(f"{corner:<{width}}" + "".join(f"{name:>{width}}" for name in names))
    for name, row in zip(names, card.table.counts, strict=True):
        typer.echo(f"{name:<{width}}" + "".join(f"{count:>{width},}" for count in row))


def _figure(figure: CardFigure) -> str:
    if figure.value is None:
        return "-"
    interval = "" if figure.low is None else f" ({figure.low:.3f} .. {figure.high:.3f})"
    return f"{figure.value:.3f}{interval}"
