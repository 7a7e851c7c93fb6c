"""``ragbench flaky``: cases whose verdict changes though the system does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ragbench_cli import console
from ragbench_cli.options import JsonOption, argument, option

if TYPE_CHECKING:
    from ragbench.core.gate_result import Flakiness, UnstableCase


def command(
    runs: Annotated[
        list[Path],
        argument(
            metavar="RUN RUN...",
            help="Two or more runs of one unchanged system on the same cases, each in a folder of "
            "its own.",
        ),
    ],
    main: Annotated[
        str | None,
        option(
            "--main",
            help="Metrics that decide whether a case passes, separated by commas. By default "
            "one per group: recall, token_f1, abstention_accuracy.",
            metavar="LIST",
        ),
    ] = None,
    threshold: Annotated[
        float,
        option(
            "--threshold",
            help="Threshold at which a case passes, as a share of a main metric's scale.",
            metavar="SHARE",
            show_default=True,
        ),
    ] = 0.5,
    only_common_cases: Annotated[
        bool,
        option("--only-common-cases", help="Compare only the cases that are the same in all runs."),
    ] = False,
    cases: Annotated[
        int,
        option("--cases", help="How many cases are listed.", metavar="N", min=0, show_default=True),
    ] = 20,
    json: JsonOption = False,
) -> None:
    """List the cases whose verdict is unstable.

    Cases on which several runs of one unchanged system disagree are noise: they cost a gate
    power, and raise no false alarms.

    \b
    Examples:
      ragbench flaky run-1 run-2 run-3
      ragbench flaky run-1 run-2 run-3 --json
    """
    from ragbench.gate.flaky import flakiness
    from ragbench.gate.runs import read_run
    from ragbench.metrics.spelling import split_metrics
    from ragbench.views.ablation import flakiness_object

    found = flakiness(
        [read_run(run) for run in runs],
        main=None if main is None else split_metrics(main),
        threshold=threshold,
        only_common_cases=only_common_cases,
    )
    if json:
        console.print_json(flakiness_object(found))
    else:
        _print(found, cases)


def _print(found: Flakiness, shown: int) -> None:
    from ragbench.safe_text import shown_line
    from ragbench_cli.tables import paragraph, print_block, styled

    page = console.data_console()
    unstable = len(found.unstable)
    head = f" on {found.dataset}, {len(found.sources)} runs of {found.cases:,} cases"
    print_block(page, styled((shown_line(found.rag), "bold"), shown_line(head)))
    word = "case is" if unstable == 1 else "cases are"
    print_block(page, styled((f"{unstable:,} {word} unstable", "yellow" if unstable else "green")))
    print_block(page, f"{_rate(found)} of the cases flip between two runs")
    for block in paragraph("unstable", ((line, "") for line in _lines(found, shown))):
        print_block(page, block)
    names = ", ".join(found.main)
    main = f", or when {names} lies below {found.threshold:g} of its scale" if names else ""
    notes = [f"A case fails when a stage failed{main}.", *found.notes]
    for block in paragraph("notes", ((shown_line(note), "") for note in notes)):
        print_block(page, block)


def _rate(found: Flakiness) -> str:
    interval = found.flip_interval
    if interval is None:
        return f"{found.flip_rate:.1%}"
    return f"{found.flip_rate:.1%} ({interval.low:.1%} .. {interval.high:.1%})"


def _lines(found: Flakiness, shown: int) -> Iterator[str]:
    for case in found.unstable[:shown]:
        yield from _case(case)
    if len(found.unstable) > shown:
        yield f"and {len(found.unstable) - shown:,} more: see --cases or --json"


def _case(case: UnstableCase) -> Iterator[str]:
    from ragbench.safe_text import shown_line
    from ragbench.views.gate import number_text

    query = f"; {shown_line(case.query, longest=80)}" if case.query else ""
    yield f"{shown_line(case.id)}{query}"
    for subject in case.subjects:
        rate, runs = subject.pass_rate, subject.passed + subject.failed
        outcomes = [
            outcome if isinstance(outcome, str) else number_text(outcome)
            for outcome in subject.outcomes
        ]
        yield (
            f"  {shown_line(subject.subject)}: passed {subject.passed} of {runs} "
            f"({rate.low:.0%} .. {rate.high:.0%}): {', '.join(outcomes)}"
        )
    seen = [
        f"{count} different {what}"
        for count, what in ((case.responses, "responses"), (case.id_lists, "lists of ids"))
        if count is not None and count > 1
    ]
    if seen:
        yield f"  {', '.join(seen)}"
