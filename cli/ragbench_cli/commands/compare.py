"""``ragbench compare``: stored runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import structs

from ragbench.core.record import Record, field, replace
from ragbench.errors import ConfigError
from ragbench_cli.options import Labelled, argument, option, takes_records
from ragbench_cli.output import Output, draw

_CASES_IN_DOCUMENT = 20
"""Cases of each kind that Markdown spells out, unless --cases says otherwise."""


class CompareOptions(Record):
    """Which runs are compared, by which metrics."""

    runs: Annotated[list[Path], argument("RUN RUN...")]
    """Two or more run folders or baseline files. The others are compared with the first."""
    metrics: Annotated[str | None, option("LIST", "--metrics", "-m")] = None
    """Metrics to compare, separated by commas; by default all. Fewer metrics make stronger
    tests."""
    main: Annotated[str | None, option("LIST", "--pass-metrics")] = None
    """Metrics that decide whether a case passes, separated by commas. By default whether it is
    right (answer_correct, abstention_accuracy); else one per group, such as recall."""
    only_common_cases: Annotated[bool, option(rare=True)] = False
    """If the datasets differ, compare only the cases that are the same."""
    same: Annotated[Literal["content", "id"], option(rare=True)] = "content"
    """How cases of two runs are matched: by content, or by id, which compares two ways to ask the
    same: a last turn and its rewrite."""
    cases: Annotated[int | None, option(min=0)] = None
    """How many cases of each kind are spelled out; by default none on the screen and 20 in
    Markdown."""
    labelled: Labelled = field(default_factory=Labelled)


@takes_records
def command(options: CompareOptions, output: Output) -> None:
    """Compare runs of the same cases.

    Prints the significant differences, then the pass metrics and those that differ, and the cases
    that newly fail or newly pass. It does not decide anything: ragbench gate does.

    \b
    Examples:
      ragbench compare reports/main reports/branch
      ragbench compare main branch --cases 5
      ragbench compare main branch-1 branch-2 -m recall@5,token_f1
      ragbench compare main branch --md changes.md
    """
    from ragbench.gate.compare import compare
    from ragbench.gate.labels import notes_of
    from ragbench.gate.runs import read_run
    from ragbench.ledger.folder import is_one_run
    from ragbench.metrics.registry import split_metrics
    from ragbench.verbs.label import with_labels
    from ragbench.views.comparison import comparison_document
    from ragbench.views.document import MOST_CHANGED_CASES
    from ragbench_cli.comparison_tables import MOST_NAMED, comparison_blocks

    if len(options.runs) > 1 and is_one_run(options.runs):
        raise ConfigError(f"{options.runs[0]} is compared with itself: name another run")
    book = options.labelled.book
    runs = [with_labels(read_run(run), book) for run in options.runs]
    # How many cases of each kind are spelled out: on the screen none without --cases.
    cases_on_screen = 0
    cases_in_document = _CASES_IN_DOCUMENT
    if options.cases is not None:
        cases_on_screen = options.cases
        cases_in_document = options.cases
    # Of the cases that are not spelled out no text is read. JSON spells out all.
    read_texts: int | None = max(cases_on_screen, MOST_NAMED)
    if output.json:
        read_texts = None
    elif output.page.is_wanted:
        read_texts = max(cases_in_document, MOST_CHANGED_CASES)
    elif output.md is not None:
        read_texts = max(cases_in_document, MOST_NAMED)
    metrics = None
    if options.metrics is not None:
        metrics = split_metrics(options.metrics)
    main_metrics = None
    if options.main is not None:
        main_metrics = split_metrics(options.main)
    comparison = compare(
        runs,
        metrics=metrics,
        main=main_metrics,
        only_common_cases=options.only_common_cases,
        same=options.same,
        told=read_texts,
    )
    comparison = replace(comparison, notes=(*comparison.notes, *notes_of(book, runs)))
    blocks = comparison_blocks(comparison, named=metrics is not None, cases=cases_on_screen)
    output.show(
        lambda: comparison_document(comparison, cases=cases_in_document),
        data=lambda: {"schema_version": 2, **structs.asdict(comparison)},
        screen=lambda: draw(blocks),
    )
