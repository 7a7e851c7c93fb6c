"""``ragbench compare``: stored runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ragbench_cli.options import (
    OUTPUT,
    HtmlFolderOption,
    HtmlOption,
    JsonOption,
    argument,
    check_stdout,
    option,
    show,
)


def command(
    runs: Annotated[
        list[Path],
        argument(
            metavar="RUN RUN...",
            help="Two or more run folders or baseline files. The others are "
            "compared with the first.",
        ),
    ],
    metrics: Annotated[
        str | None,
        option(
            "--metrics",
            "-m",
            help="Metrics to compare, separated by commas; by default all. Fewer metrics make "
            "stronger tests.",
            metavar="LIST",
        ),
    ] = None,
    main: Annotated[
        str | None,
        option(
            "--main",
            help="Metrics that decide whether a case passes, separated by commas. By default "
            "one per group: recall, answer_correct, abstention_accuracy.",
            metavar="LIST",
        ),
    ] = None,
    only_common_cases: Annotated[
        bool,
        option(
            "--only-common-cases",
            help="If the datasets differ, compare only the cases that are the same.",
            rare=True,
        ),
    ] = False,
    cases: Annotated[
        int | None,
        option(
            "--cases",
            help="How many cases of each kind are spelled out; by default none on the screen and "
            "20 in Markdown.",
            metavar="N",
            min=0,
        ),
    ] = None,
    md: Annotated[
        str | None,
        option(
            "--md",
            help="Write the comparison as Markdown; - prints it.",
            metavar="FILE",
            panel=OUTPUT,
        ),
    ] = None,
    html: HtmlOption = None,
    html_folder: HtmlFolderOption = None,
    json: JsonOption = False,
) -> None:
    """Compare runs of the same cases.

    Prints what is better or worse beyond chance, then the main metrics and those that differ, and
    the cases that newly fail or newly pass. It does not decide anything: ragbench gate does.

    \b
    Examples:
      ragbench compare reports/main reports/branch
      ragbench compare main branch --cases 5
      ragbench compare main branch-1 branch-2 -m recall@5,token_f1
      ragbench compare main branch --md changes.md
    """
    import msgspec

    from ragbench.gate.compare import compare
    from ragbench.gate.runs import read_run
    from ragbench.metrics.spelling import split_metrics
    from ragbench.views.comparison import comparison_document
    from ragbench_cli.comparison_tables import print_comparison

    check_stdout(json=json, md=md)
    comparison = compare(
        [read_run(run) for run in runs],
        metrics=None if metrics is None else split_metrics(metrics),
        main=None if main is None else split_metrics(main),
        only_common_cases=only_common_cases,
    )
    show(
        lambda: comparison_document(comparison, cases=20 if cases is None else cases),
        data=(lambda: {"schema_version": 2, **msgspec.to_builtins(comparison)}) if json else None,
        screen=lambda: print_comparison(comparison, named=metrics is not None, cases=cases or 0),
        md=md,
        html=html,
        html_folder=html_folder,
    )
