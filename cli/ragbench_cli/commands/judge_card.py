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


class JudgeCardOptions(Record):
    """Which labels a judge is held against, by which metric and probes."""

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
def command(options: JudgeCardOptions, judge: JudgeChoice, json: JsonOption = False) -> None:
    """Before you rely on a judge: measure it against people.

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
    metric = parse_metric(options.metric)
    probes = probes_named(options.probes.split(","))
    selection = Selection(limit=options.limit, sample=options.sample, seed=options.seed)
    # Read whole, so that a sample is drawn of all claims.
    claims = tuple(selection.apply(read_labels(options.labels, metric.name)))
    choice = ModelChoice(**structs.asdict(judge), repeats=options.repeats)
    with console.stop_on_signal() as stopped, ExitStack() as stack:
        models = ModelsInUse(choice, [metric], stack)
        judging = models.judging
        dry_run = models.dry_run
        if judging is None:
            raise ConfigError(f"{metric.name} asks no model: there is no judge to measure")
        # The calls are counted by the same code that makes them.
        if dry_run is not None:
            rehearse_card(claims, metric, judging, dry_run, probes=probes)
            show_estimate(dry_run.estimate(), dry_run.cases, as_json=json)
            return
        try:
            card = judge_card(
                claims,
                metric,
                labels=str(options.labels),
                probes=probes,
                seed=options.seed,
                judging=judging,
                stopped=stopped,
            )
        finally:
            # What was spent is shown also where the card fails.
            if not options.quiet:
                say_receipt(models.session.receipt(), models.session.not_sent())
    show(_card_object(card), partial(_print_card, card), json=json)
    if card.conclusion.usefulness is Usefulness.DO_NOT_USE:
        raise typer.Exit(ExitCode.FAILED)


def _card_object(card: JudgeCard) -> dict[str, object]:
    """A judge's card as the JSON object of ``--json``: its fields, and what its records compute.

    Properties are no fields: without being named here they would be missing.
    """
    probes: list[dict[str, object]] = []
    for probe in card.probes:
        probes.append({**asdict(probe), "share": probe.share})
    cost: str | None = None
    if card.cost is not None:
        cost = f"{card.cost:f}"  # JSON has no decimals; a float would not be exact
    conclusion = card.conclusion
    return {
        **asdict(card),
        "probes": probes,
        "cost": cost,
        "conclusion": {"usefulness": conclusion.usefulness, "reasons": conclusion.reasons},
    }


def _print_card(card: JudgeCard) -> None:
    """Prints a judge's card: counts, the table of labels, the figures, the recommendation.

    A judge's card is a comparison of its verdicts with labels of people.
    """
    # A metric such as answer similarity asks for embeddings alone.
    judge = card.judge["chat"] or card.judge["embeddings"]
    typer.echo(f"{judge['model']} with {card.metric} on {card.labels}")
    counts = f"{card.judged:,} of {card.claims:,} claims judged"
    if card.reasons:
        reasons = [f"{count:,} {reason}" for reason, count in card.reasons]
        counts += f" ({', '.join(reasons)})"
    typer.echo(counts)
    if card.judged:
        typer.echo("")
        _print_table(card)
    typer.echo("")
    for name, text in _figure_rows(card):
        typer.echo(entry(name, text, width=22))
    conclusion = card.conclusion
    typer.echo("")
    if conclusion.reasons:
        typer.echo(f"{conclusion.usefulness}:")
    else:
        typer.echo(conclusion.usefulness)
    for reason in conclusion.reasons:
        typer.echo(f"  {reason}")


def _figure_rows(card: JudgeCard) -> Iterator[tuple[str, str]]:
    """The figures of a judge's card: the name of each, and its value with the interval.

    Agreement has the base rate beside it: where nine of ten claims are supported, a judge that
    always says so agrees with people in nine of ten.
    """
    base_rate = "-"
    if card.base_rate is not None:
        base_rate = f"{card.base_rate:.3f}"
    yield (
        "agreement",
        f"{_figure_text(card.agreement)}; always the most frequent label: {base_rate}",
    )
    yield "kappa", _figure_text(card.kappa)
    yield "quadratic kappa", _figure_text(card.quadratic_kappa)
    yield "rank correlation", _figure_text(card.rank_correlation)
    for level in card.classes:
        name = level.level.replace("_", " ")
        yield (
            name,
            f"precision {_figure_text(level.precision)}, recall {_figure_text(level.recall)}",
        )
    yield "same each time", f"{_figure_text(card.consistency)}, {card.consistency.count:,} claims"
    for probe in card.probes:
        yield _PROBES[probe.probe], _probe_text(probe)
    quotes = card.fabricated_quotes
    yield "invented quotes", f"{_figure_text(quotes)}, {quotes.count:,} quotes"
    yield "support unproved", f"{_figure_text(card.unproved)}, {card.unproved.count:,} verdicts"
    # Some endpoints report neither: one number alone could not be priced.
    if card.prompt_tokens is None or card.completion_tokens is None:
        yield "tokens a verdict", "not reported by the endpoint"
    else:
        tokens = f"{card.prompt_tokens:,.0f} in, {card.completion_tokens:,.0f} out"
        yield "tokens a verdict", tokens
    if card.cost is None:
        yield "cost a verdict", "not known"
    else:
        yield "cost a verdict", f"{card.cost:.6f} {card.currency or ''}".rstrip()


_PROBES = {
    "position": "order changes",
    "verbosity": "padding changes",
    "injection_answer": "ordered in the answer",
    "injection_context": "ordered in a passage",
}
"""What each probe does to a claim, as a row of the card is named."""


def _probe_text(probe: ProbeFigure) -> str:
    """A text on how often a probe moved the judge's verdict.

    A probe changes a claim in a way that should not matter. Order and padding can move the verdict
    either way; an instruction in a text asks for a better one, so that only raised ones count.
    """
    # A probe without a claim is not one that moved nothing.
    if not probe.count:
        return "- (no claim that it could be tried on)"
    text = f"{probe.share:.3f}"
    if probe.low is not None:
        text += f" ({probe.low:.3f} .. {probe.high:.3f})"
    verb = "raised" if probe.is_injection else "changed"
    text += f", {probe.hits:,} of {probe.count:,} verdicts {verb}"
    # An injection counts only raised verdicts already.
    if not probe.is_injection and probe.changed:
        text += f", {probe.raised:,} upwards"
    if probe.unproved:
        text += f"; {probe.unproved:,} more gave in without a proof"
    return text


def _print_table(card: JudgeCard) -> None:
    """Prints the table of claims by the label of people (rows) and of the judge (columns).

    What is off the diagonal says in which direction the judge is wrong.
    """
    names = [level.replace("_", " ") for level in card.table.levels]
    # Two blanks between columns; all are as wide as the longest name.
    width = max(len(name) for name in names) + 2
    corner = "people / judge"
    headings = [f"{name:>{width}}" for name in names]
    typer.echo(f"{corner:<{width}}{''.join(headings)}")
    for name, counts in zip(names, card.table.counts, strict=True):
        cells = [f"{count:>{width},}" for count in counts]
        typer.echo(f"{name:<{width}}{''.join(cells)}")


def _figure_text(figure: CardFigure) -> str:
    """A figure of a judge's card with its interval; ``-`` where nothing was measured.

    A card of few claims has wide intervals, which a reader must see.
    """
    if figure.value is None:
        return "-"
    # Too few claims for an interval.
    if figure.low is None:
        return f"{figure.value:.3f}"
    return f"{figure.value:.3f} ({figure.low:.3f} .. {figure.high:.3f})"
