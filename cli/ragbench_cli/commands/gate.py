"""``ragbench gate``: may this run pass?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragbench.core.record import Record, field
from ragbench.errors import ConfigError, InterruptedRunError, RagbenchError, RunMismatchError
from ragbench.masking import mask_text
from ragbench_cli import console
from ragbench_cli.console import ExitCode
from ragbench_cli.options import Labelled, Panel, RunArgument, option, takes_records
from ragbench_cli.output import Output, draw

if TYPE_CHECKING:
    from ragbench.core.gate_result import GateResult
    from ragbench.gate.config import GateConfig
    from ragbench.verbs.gate import Reask
    from ragbench.views.document import Document

Several = list[str] | None
"""The values of an option that may be repeated."""
demand = partial(option, panel=Panel.DEMANDED)
asking = partial(option, panel=Panel.ASKING)


class GateOptions(Record):
    """The run, what is demanded of it, and who is asked again."""

    run: RunArgument
    baseline: Annotated[str | None, option("PATH", "--baseline", "-b")] = None
    """Compare with this: a run folder, a baseline file, or auto for the best earlier run."""
    config: Annotated[Path | None, option("--config", "-c")] = None
    """YAML file with a section gate. By default ragbench.yaml, where there is one."""
    minimum: Annotated[
        Several, demand("METRIC=NUMBER", "--min", envvar="RAGBENCH_GATE_MINIMUM")
    ] = None
    """Smallest allowed value of a metric; repeatable."""
    maximum: Annotated[
        Several, demand("METRIC=NUMBER", "--max", envvar="RAGBENCH_GATE_MAXIMUM")
    ] = None
    """Largest allowed value of a metric; repeatable."""
    max_drop: Annotated[Several, demand("METRIC=NUMBER")] = None
    """Largest tolerated loss against the baseline; repeatable."""
    max_latency: Annotated[Several, demand("STAGE:FIGURE=SECONDS", rare=True)] = None
    """Time limit of a stage in seconds, such as generate:p95=2.5; repeatable."""
    max_cost: Annotated[Several, demand("EXTENT=NUMBER", rare=True)] = None
    """Budget for the cost of judging: case=NUMBER for the mean of a case, all=NUMBER for the run;
    repeatable."""
    max_tokens: Annotated[Several, demand("EXTENT=NUMBER", rare=True)] = None
    """Budget for the tokens that the RAG reports (metric total_tokens): case=NUMBER, all=NUMBER;
    repeatable."""
    must_pass: Annotated[Several, demand("CASE")] = None
    """Case that may not be lost, by id, tag:NAME or language:CODE; repeatable."""
    strict: Annotated[bool, demand()] = False
    """Block inconclusive checks, too (exit 3): for releases."""
    settle: Annotated[bool, asking("--rerun-inconclusive")] = False
    """Ask both systems again about inconclusive checks, the baseline's from its commit, until a
    test that may be stopped at any time decides. The level is shared: half for the gate's test,
    half for that one."""
    reask_baseline: Annotated[bool, asking(rare=True)] = False
    """Ask the baseline's system, from its commit, the cases that are new or edited: they are then
    compared, too."""
    ask: Annotated[str | None, asking("OPTIONS", "--rerun-options", rare=True)] = None
    """With --rerun-inconclusive or --reask-baseline: the options of ragbench eval that ask the
    system, such as '--pipeline rag.yaml'. By default those that the run keeps."""
    max_asked: Annotated[int | None, asking("--max-reruns", min=1, rare=True)] = None
    """With --rerun-inconclusive: how often both systems may be asked. By default ten times per
    case."""
    labelled: Labelled = field(default_factory=Labelled)


class GateOutput(Output):
    """The forms of a result, with those that machines of continuous integration read."""

    junit: Path | None = None
    """Write the verdict as JUnit XML."""
    annotations: Annotated[Literal["github"] | None, option("FORGE", rare=True)] = None
    """Also print annotations for a code host: github."""


@takes_records
def command(options: GateOptions, output: GateOutput) -> None:
    """Decide whether a run may pass.

    Checks absolute limits, regressions against a baseline, failed cases and latency. A
    regression fails the gate when it is statistically significant, not when chance can explain it.

    \b
    Exit codes:
      0  passed, perhaps with a warning: a loss that chance can explain
      1  failed: a limit is broken, a loss larger than tolerated is shown, or too little is left
      2  cannot run: bad usage, no such run, a demand that cannot be judged
      3  inconclusive: the runs do not compare, too few cases measured, or, with --strict, too few
         to decide

    \b
    Examples:
      ragbench gate run --min recall@5=0.8
      ragbench gate run --baseline main-run --max-drop recall@5=0.02
      ragbench gate run --config ragbench.yaml --md summary.md --junit gate.xml
      ragbench gate run --baseline main-run --rerun-inconclusive --max-reruns 2000
    """
    from ragbench.io.atomic import write_whole
    from ragbench.views.gate import comment_marker, github_annotations, junit_report, verdict_object
    from ragbench_cli.comparison_tables import gate_blocks

    try:
        config = _demanded_config(options)
        verdict = _judged_run(options, config)
    except RagbenchError as error:
        # After Ctrl-C the same command continues: it writes the files then.
        if not isinstance(error, InterruptedRunError):
            with suppress(RagbenchError):  # where the problem cannot be written either
                _write_problem(output, str(error))
        raise
    if output.junit is not None:
        write_whole(output.junit, junit_report(verdict))
    output.show(
        partial(_verdict_document, verdict, config.labels),
        data=partial(verdict_object, verdict),
        screen=lambda: draw(gate_blocks(verdict)),
        marker=f"{comment_marker(verdict)}\n\n",
    )
    if output.annotations is not None:
        # GitHub reads commands from both streams; standard output may be the user's JSON.
        console.say(github_annotations(verdict).rstrip("\n"))
    if verdict.outcome.exit_code:
        raise typer.Exit(ExitCode(verdict.outcome.exit_code))


def _write_problem(output: GateOutput, message: str) -> None:
    """Writes the files of a gate that could not judge.

    Files of an earlier run may say that it passed.

    Args:
        message: of the error, in which keys are masked.
    """
    from ragbench.io.atomic import write_whole
    from ragbench.views.gate import github_error, junit_error, unjudged_document

    # Others read the files that CI keeps: a key in the message must not get into them.
    message = mask_text(message)
    if output.junit is not None:
        write_whole(output.junit, junit_error(message))
    # The marker lets the comment on a pull request be found and replaced.
    output.write(lambda: unjudged_document(message), marker="<!-- ragbench-gate -->\n\n")
    if output.annotations is not None:
        console.say(github_error(message).rstrip("\n"))


def _demanded_config(options: GateOptions) -> GateConfig:
    """The gate's limits from the options and the file.

    Options that do not go together are refused before anything is judged.
    """
    from ragbench.gate.config import OPTIONS, demanded

    asks_again = options.settle or options.reask_baseline
    # Options of asking again without an option that asks would be ignored.
    has_stray_options = options.ask is not None and not asks_again
    has_stray_limit = options.max_asked is not None and not options.settle
    if has_stray_options or has_stray_limit:
        raise ConfigError(
            "--max-reruns needs --rerun-inconclusive, --rerun-options that or --reask-baseline"
        )
    limits: dict[str, Sequence[str]] = {}
    for name in OPTIONS:  # the options that limit a figure, such as --min
        limits[name] = getattr(options, name) or ()
    config = demanded(
        options.config,
        baseline=options.baseline,
        strict=options.strict,
        must_pass=options.must_pass or (),
        labels=options.labelled.labels or (),
        **limits,
    )
    # Asking again and labels both change the figures of a check: nothing would show which of them
    # did.
    if options.settle and config.labels:
        raise ConfigError(
            "--rerun-inconclusive asks the systems again, --labels people: choose one"
        )
    return config


def _judged_run(options: GateOptions, config: GateConfig) -> GateResult:
    """The verdict on a run, for which systems are asked again where the options want that.

    Args:
        config: the limits, and the baseline.
    """
    from ragbench.verbs.gate import gate_run

    # The usual gate: stored scores are compared, and nobody is asked.
    if not (options.settle or options.reask_baseline):
        return gate_run(options.run, config)
    from ragbench_cli.settle import reasked_baseline, settled_gate  # few gates ask a system

    reask: Reask | None = None
    if options.reask_baseline:
        reask = partial(reasked_baseline, options.run, options.ask)
    if not options.settle:
        return gate_run(options.run, config, reask=reask)
    return settled_gate(
        options.run, config, ask=options.ask, max_asked=options.max_asked, reask=reask
    )


def _verdict_document(verdict: GateResult, labels: Sequence[str]) -> Document:
    """The document of a verdict, with the run's causes, and its cases beside the baseline's.

    It is made only where Markdown or a page is asked for, as it reads the cases of both runs.

    Args:
        labels: files with labels of people.
    """
    from ragbench.gate.compare import cases_beside
    from ragbench.gate.runs import read_run
    from ragbench.io.people import LabelBook
    from ragbench.verbs.label import with_labels
    from ragbench.views.document import MOST_CHANGED_CASES
    from ragbench.views.gate import gate_document

    book: LabelBook | None = None
    if labels:
        book = LabelBook.read(labels)
    run = with_labels(read_run(verdict.run.source), book)
    against = None
    if verdict.baseline is not None:
        with suppress(RunMismatchError):  # no case in common, which the verdict says
            baseline = with_labels(read_run(verdict.baseline.source), book)
            against = cases_beside(run, baseline, max_texts=MOST_CHANGED_CASES)
    return gate_document(verdict, run.causes, against)
