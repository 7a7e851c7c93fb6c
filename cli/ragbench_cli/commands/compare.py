"""``ragbench compare``: stored runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import structs

from ragbench.core.record import Record, field, replace
from ragbench.errors import ConfigError
from ragbench_cli.options import Labelled, argument, option, takes_records
from ragbench_cli.output import Output, draw


class Asked(Record):
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
def command(asked: Asked, shown: Output) -> None:
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
    from ragbench_cli.comparison_tables import comparison_blocks

    if len(asked.runs) > 1 and is_one_run(asked.runs):
        raise ConfigError(f"{asked.runs[0]} is compared with itself: name another run")
    book = asked.labelled.book
    runs = [with_labels(read_run(run), book) for run in asked.runs]
    cases = (0 if shown.md is None else 20) if asked.cases is None else asked.cases
    comparison = compare(
        runs,
        metrics=None if asked.metrics is None else split_metrics(asked.metrics),
        main=None if asked.main is None else split_metrics(asked.main),
        only_common_cases=asked.only_common_cases,
        same=asked.same,
        told=None if shown.json or shown.page.is_wanted else cases,
    )
    comparison = replace(comparison, notes=(*comparison.notes, *notes_of(book, runs)))
    named = asked.metrics is not None
    shown.show(
        lambda: comparison_document(comparison, cases=20 if asked.cases is None else asked.cases),
        data=lambda: {"schema_version": 2, **structs.asdict(comparison)},
        screen=lambda: draw(comparison_blocks(comparison, named=named, cases=asked.cases or 0)),
    )
