"""``ragbench gate``: may this run pass?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragbench_cli import console
from ragbench_cli.console import ExitCode
from ragbench_cli.options import (
    ASKING,
    DEMANDED,
    OUTPUT,
    HtmlFolderOption,
    HtmlOption,
    JsonOption,
    argument,
    check_stdout,
    option,
    show,
)

if TYPE_CHECKING:
    from ragbench.core.comparison import Against
    from ragbench.core.gate_result import GateResult
    from ragbench.gate.config import GateConfig


Limits = list[str] | None


def command(
    run: Annotated[Path, argument(metavar="RUN", help="Folder of a run.")],
    baseline: Annotated[
        str | None,
        option(
            "--baseline",
            "-b",
            help="What to compare it with: a run folder, a baseline file, or "
            "auto for the best earlier run.",
            metavar="PATH",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        option(
            "--config",
            "-c",
            help="YAML file with a section gate. By default ragbench.yaml, where there is one.",
            metavar="FILE",
        ),
    ] = None,
    minimum: Annotated[
        Limits,
        option(
            "--min",
            help="Smallest allowed value of a metric; repeatable.",
            metavar="METRIC=NUMBER",
            panel=DEMANDED,
        ),
    ] = None,
    maximum: Annotated[
        Limits,
        option(
            "--max",
            help="Largest allowed value of a metric; repeatable.",
            metavar="METRIC=NUMBER",
            panel=DEMANDED,
        ),
    ] = None,
    max_drop: Annotated[
        Limits,
        option(
            "--max-drop",
            help="Largest tolerated loss against the baseline; repeatable.",
            metavar="METRIC=NUMBER",
            panel=DEMANDED,
        ),
    ] = None,
    max_latency: Annotated[
        Limits,
        option(
            "--max-latency",
            help="Time limit of a stage in seconds, such as generate:p95=2.5; repeatable.",
            metavar="STAGE:FIGURE=SECONDS",
            panel=DEMANDED,
            rare=True,
        ),
    ] = None,
    max_cost: Annotated[
        Limits,
        option(
            "--max-cost",
            help="Budget for what judging cost: case=NUMBER for the mean of a case, all=NUMBER "
            "for the run; repeatable.",
            metavar="EXTENT=NUMBER",
            panel=DEMANDED,
            rare=True,
        ),
    ] = None,
    max_tokens: Annotated[
        Limits,
        option(
            "--max-tokens",
            help="Budget for the tokens that the RAG reports (metric total_tokens): case=NUMBER, "
            "all=NUMBER; repeatable.",
            metavar="EXTENT=NUMBER",
            panel=DEMANDED,
            rare=True,
        ),
    ] = None,
    strict: Annotated[
        bool,
        option(
            "--strict",
            help="Block what is undecided, too (exit 3): for releases.",
            panel=DEMANDED,
        ),
    ] = False,
    settle: Annotated[
        bool,
        option(
            "--settle",
            help="Ask both systems again about what is undecided, the baseline's from its commit, "
            "until a test that may be stopped at any time decides. The level is shared: half for "
            "the gate's test, half for that one.",
            panel=ASKING,
        ),
    ] = False,
    ask: Annotated[
        str | None,
        option(
            "--ask",
            help="With --settle: the options of ragbench eval that ask the system, such as "
            "'--pipeline rag.yaml'. By default those that the run keeps.",
            metavar="OPTIONS",
            panel=ASKING,
            rare=True,
        ),
    ] = None,
    max_asked: Annotated[
        int | None,
        option(
            "--max-asked",
            help="With --settle: how often both systems may be asked. By default ten times per "
            "case.",
            metavar="N",
            min=1,
            panel=ASKING,
            rare=True,
        ),
    ] = None,
    md: Annotated[
        str | None,
        option(
            "--md",
            help="Write the verdict as Markdown; - prints it.",
            metavar="FILE",
            panel=OUTPUT,
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        option(
            "--junit",
            help="Write the verdict as JUnit XML.",
            metavar="FILE",
            panel=OUTPUT,
        ),
    ] = None,
    html: HtmlOption = None,
    html_folder: HtmlFolderOption = None,
    annotations: Annotated[
        str | None,
        option(
            "--annotations",
            help="Also print annotations for a code host: github.",
            metavar="FORGE",
            panel=OUTPUT,
            rare=True,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Decide whether a run may pass.

    Checks absolute limits, regressions against a baseline, failed cases and latency. A
    regression fails the gate when it is statistically significant, not when chance can explain it.

    \b
    Exit codes:
      0  passed
      1  failed: a limit is broken, or a loss larger than tolerated is shown
      2  cannot run: bad usage, no such run, a demand that cannot be judged
      3  cannot tell: the runs do not compare, or, with --strict, too few cases to decide

    \b
    Examples:
      ragbench gate run --min recall@5=0.8
      ragbench gate run --baseline main-run --max-drop recall@5=0.02
      ragbench gate run --config ragbench.yaml --md summary.md --junit gate.xml
      ragbench gate run --baseline main-run --settle --max-asked 2000
    """
    from ragbench.errors import ConfigError
    from ragbench.gate.config import demanded, with_options
    from ragbench.gate.runs import reported_causes
    from ragbench.io.atomic import written_whole
    from ragbench.verbs.gate import gate_run
    from ragbench.views.gate import (
        comment_marker,
        gate_document,
        github_annotations,
        junit_report,
        verdict_object,
    )
    from ragbench_cli.gate_tables import print_verdict
    from ragbench_cli.options import one_of

    if annotations is not None:
        one_of(annotations, ["github"], "--annotations")
    check_stdout(json=json, md=md)
    if not settle and (ask is not None or max_asked is not None):
        raise ConfigError("--ask and --max-asked belong to --settle")
    wanted = with_options(
        demanded(config, baseline=baseline, strict=strict),
        minimum=minimum or (), maximum=maximum or (), max_drop=max_drop or (),
        max_latency=max_latency or (), max_cost=max_cost or (), max_tokens=max_tokens or (),
    )  # fmt: skip
    verdict = _settled(run, wanted, ask, max_asked) if settle else gate_run(run, wanted)
    if junit is not None:
        with written_whole(junit) as file:
            file.write(junit_report(verdict))
    show(
        lambda: gate_document(
            verdict, reported_causes(Path(verdict.run.source)), _against(verdict)
        ),
        data=partial(verdict_object, verdict) if json else None,
        screen=partial(print_verdict, verdict),
        md=md,
        html=html,
        html_folder=html_folder,
        marker=f"{comment_marker(verdict)}\n\n",
    )
    if annotations is not None:
        # GitHub reads commands from both streams; standard output may be the user's JSON.
        console.say(github_annotations(verdict).rstrip("\n"))
    if verdict.outcome.exit_code:
        raise typer.Exit(ExitCode(verdict.outcome.exit_code))


def _settled(run: Path, wanted: GateConfig, ask: str | None, max_asked: int | None) -> GateResult:
    """The gate's result with what was undecided asked again; each test has half of the level."""
    from dataclasses import replace

    from ragbench.verbs.gate import gate_run
    from ragbench_cli.settle import settled_gate

    wanted = replace(wanted, alpha=wanted.alpha / 2.0)
    return settled_gate(gate_run(run, wanted), run, wanted, ask=ask, max_asked=max_asked)


def _against(verdict: GateResult) -> Against | None:
    """The run's cases next to the baseline's; None where there is none with such cases."""
    from ragbench.errors import RunMismatchError
    from ragbench.gate.compare import cases_beside
    from ragbench.gate.runs import read_run

    if verdict.baseline is None:
        return None
    run = read_run(Path(verdict.run.source))
    try:
        return cases_beside(run, read_run(Path(verdict.baseline.source)))
    except RunMismatchError:
        return None  # no case in common, which the verdict says; or a folder without a report
