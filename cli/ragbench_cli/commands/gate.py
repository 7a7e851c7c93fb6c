"""``ragbench gate``: may this run pass?"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome, GateResult
from ragbench.errors import ConfigError, InterruptedRunError, RagbenchError, RunMismatchError
from ragbench.gate.compare import cases_beside
from ragbench.gate.config import OPTIONS, demanded
from ragbench.gate.runs import read_run
from ragbench.io.atomic import write_whole
from ragbench.masking import mask_text
from ragbench.safe_text import shown_line
from ragbench.verbs.gate import gate_run
from ragbench.views.comparison import change_lines, change_title, kinds_text
from ragbench.views.document import number_text
from ragbench.views.gate import (
    after_text,
    check_cells,
    comment_marker,
    gate_document,
    github_annotations,
    github_error,
    junit_error,
    junit_report,
    refusal_text,
    unjudged_document,
    verdict_object,
)
from ragbench_cli import console
from ragbench_cli.console import ExitCode
from ragbench_cli.options import (
    ASKING,
    DEMANDED,
    Labelled,
    RunArgument,
    option,
    takes_records,
)
from ragbench_cli.output import Blocks, Cell, Output, draw_fitted, fitted_table, paragraph, styled
from ragbench_cli.report_tables import corrected_blocks, run_text

if TYPE_CHECKING:
    from rich.console import Console

    from ragbench.views.document import Document


_ROWS, _PASSED = 5, 2
_FEW = 3
"""How many cases and changes of the system are shown; --md and the page have more."""
_WORDS = {
    GateOutcome.PASSED: ("passed", "green"),
    GateOutcome.FAILED: ("failed", "red"),
    GateOutcome.INCONCLUSIVE: ("inconclusive", "yellow"),
}

Limits = Annotated[list[str] | None, option("METRIC=NUMBER", panel=DEMANDED)]
Budgets = Annotated[list[str] | None, option("EXTENT=NUMBER", panel=DEMANDED, rare=True)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    run: RunArgument
    baseline: Annotated[str | None, option("PATH", "--baseline", "-b")] = None
    """Compare with this: a run folder, a baseline file, or auto for the best earlier run."""
    config: Annotated[Path | None, option("--config", "-c")] = None
    """YAML file with a section gate. By default ragbench.yaml, where there is one."""
    minimum: Annotated[
        list[str] | None,
        option("METRIC=NUMBER", "--min", panel=DEMANDED, envvar="RAGBENCH_GATE_MINIMUM"),
    ] = None
    """Smallest allowed value of a metric; repeatable."""
    maximum: Annotated[
        list[str] | None,
        option("METRIC=NUMBER", "--max", panel=DEMANDED, envvar="RAGBENCH_GATE_MAXIMUM"),
    ] = None
    """Largest allowed value of a metric; repeatable."""
    max_drop: Limits = None
    """Largest tolerated loss against the baseline; repeatable."""
    max_latency: Annotated[
        list[str] | None, option("STAGE:FIGURE=SECONDS", panel=DEMANDED, rare=True)
    ] = None
    """Time limit of a stage in seconds, such as generate:p95=2.5; repeatable."""
    max_cost: Budgets = None
    """Budget for the cost of judging: case=NUMBER for the mean of a case, all=NUMBER for the run;
    repeatable."""
    max_tokens: Budgets = None
    """Budget for the tokens that the RAG reports (metric total_tokens): case=NUMBER, all=NUMBER;
    repeatable."""
    must_pass: Annotated[list[str] | None, option("CASE", panel=DEMANDED)] = None
    """Case that may not be lost, by id, tag:NAME or language:CODE; repeatable."""
    strict: Annotated[bool, option(panel=DEMANDED)] = False
    """Block inconclusive checks, too (exit 3): for releases."""
    settle: Annotated[bool, option("--rerun-inconclusive", panel=ASKING)] = False
    """Ask both systems again about inconclusive checks, the baseline's from its commit, until a
    test that may be stopped at any time decides. The level is shared: half for the gate's test,
    half for that one."""
    reask_baseline: Annotated[bool, option(panel=ASKING)] = False
    """Ask the baseline's system, from its commit, the cases that are new or edited: they are then
    compared, too."""
    ask: Annotated[str | None, option("OPTIONS", "--rerun-options", panel=ASKING, rare=True)] = None
    """With --rerun-inconclusive or --reask-baseline: the options of ragbench eval that ask the
    system, such as '--pipeline rag.yaml'. By default those that the run keeps."""
    max_asked: Annotated[int | None, option("--max-reruns", min=1, panel=ASKING, rare=True)] = None
    """With --rerun-inconclusive: how often both systems may be asked. By default ten times per
    case."""
    labelled: Labelled = field(default_factory=Labelled)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown(Output):
    md: Annotated[str | None, option("FILE")] = None
    """Write the verdict as Markdown; - prints it."""
    junit: Path | None = None
    """Write the verdict as JUnit XML."""
    annotations: Annotated[Literal["github"] | None, option("FORGE", rare=True)] = None
    """Also print annotations for a code host: github."""


@takes_records
def command(asked: Asked, shown: Shown) -> None:
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
    try:
        verdict = _verdict(asked)
    except RagbenchError as error:
        if not isinstance(error, InterruptedRunError):
            with suppress(RagbenchError):  # where that cannot be written either
                _explain(shown, str(error))
        raise
    if shown.junit is not None:
        write_whole(shown.junit, junit_report(verdict))
    shown.show(
        partial(_document, verdict),
        data=partial(verdict_object, verdict),
        screen=lambda: draw_fitted(partial(_blocks, verdict)),
        marker=f"{comment_marker(verdict)}\n\n",
    )
    if shown.annotations is not None:
        # GitHub reads commands from both streams; standard output may be the user's JSON.
        console.say(github_annotations(verdict).rstrip("\n"))
    if verdict.outcome.exit_code:
        raise typer.Exit(ExitCode(verdict.outcome.exit_code))


def _explain(shown: Shown, message: str) -> None:
    """Writes why nothing could be judged: what is shown of an earlier run would say it passed."""
    message = mask_text(message)
    if shown.junit is not None:
        write_whole(shown.junit, junit_error(message))
    shown.write(lambda: unjudged_document(message), marker="<!-- ragbench-gate -->\n\n")
    if shown.annotations is not None:
        console.say(github_error(message).rstrip("\n"))


def _verdict(asked: Asked) -> GateResult:
    asks = asked.settle or asked.reask_baseline
    if (asked.ask is not None and not asks) or (asked.max_asked is not None and not asked.settle):
        raise ConfigError(
            "--max-reruns needs --rerun-inconclusive, --rerun-options that or --reask-baseline"
        )
    wanted = demanded(
        asked.config,
        baseline=asked.baseline,
        strict=asked.strict,
        must_pass=asked.must_pass or (),
        labels=asked.labelled.labels or (),
        **{name: getattr(asked, name) or () for name in OPTIONS},
    )
    if asked.settle and wanted.labels:
        raise ConfigError(
            "--rerun-inconclusive asks the systems again, --labels people: choose one"
        )
    if not (asked.settle or asked.reask_baseline):
        return gate_run(asked.run, wanted)
    from ragbench_cli.settle import reasked_baseline, settled_gate  # few gates ask a system

    reask = partial(reasked_baseline, asked.run, asked.ask) if asked.reask_baseline else None
    if asked.settle:
        most = asked.max_asked
        return settled_gate(asked.run, wanted, ask=asked.ask, max_asked=most, reask=reask)
    return gate_run(asked.run, wanted, reask=reask)


def _document(verdict: GateResult) -> Document:
    """With the run's causes, and its cases next to those of the baseline that are the same."""
    run, against = read_run(verdict.run.source), None
    if verdict.baseline is not None:
        with suppress(RunMismatchError):  # no case in common, which the verdict says
            against = cases_beside(run, read_run(verdict.baseline.source))
    return gate_document(verdict, run.causes, against)


def _blocks(verdict: GateResult, page: Console) -> Blocks:
    word, style = _WORDS[verdict.outcome]
    if verdict.outcome is GateOutcome.PASSED and verdict.colour == "yellow":
        word, style = "passed with a warning", "yellow"
    yield styled((word, f"bold {style}"), f": {verdict.headline}")
    yield ""
    yield styled(("run       ", "dim"), run_text(verdict.run))
    if verdict.baseline is not None:
        yield styled(("baseline  ", "dim"), run_text(verdict.baseline))
    if verdict.pair is not None:
        yield styled(("cases     ", "dim"), kinds_text(verdict.pair))
    if passed := [check for check in verdict.checks if check.outcome is GateOutcome.PASSED]:
        yield styled(("passed    ", "dim"), _passed(passed))
    refusals = ((refusal_text(one), "yellow") for one in verdict.refusals)
    yield from paragraph("not compared", refusals)
    # Slices that are too small to tell are most checks, and do not count.
    small = {GateOutcome.PASSED: [*CheckKind], GateOutcome.INCONCLUSIVE: [CheckKind.SLICE]}
    against = [one for one in verdict.checks if one.kind not in small.get(one.outcome, ())]
    if against:
        columns = ("check", "", "now", "change", "interval", "limit", "n")
        rows: list[Sequence[Cell]] = [
            (one.label, _WORDS[one.outcome], *check_cells(one)) for one in against[:_ROWS]
        ]
        yield ""
        yield fitted_table(page, columns, rows, missed=("n", "interval"), sparse=True)
        if len(against) > _ROWS:
            yield styled((f"and {len(against) - _ROWS:,} more: see --md or --json", "dim"))
    if corrections := [check.corrected for check in verdict.checks if check.corrected]:
        yield from corrected_blocks(corrections, page)
    if verdict.outcome is GateOutcome.FAILED:
        yield from _behind(verdict, page)
    else:
        yield from paragraph("why", (f"{check.name} {check.reason}" for check in against[:1]))
    yield from paragraph("notes", verdict.notes)
    if command := _next_step(verdict):
        yield ""
        yield styled(("next      ", "dim"), command)


def _passed(checks: Sequence[GateCheck]) -> str:
    metrics = [check for check in checks if check.kind is not CheckKind.COVERAGE]
    shown = [
        f"{check.marked} {now}{'' if check.drop is None else f' ({change})'}"
        for check in metrics[:_PASSED]
        for now, change, *_ in [check_cells(check)]
    ]
    rest = len(checks) - len(shown)
    more = f"{rest:,} {'more' if shown else 'checks of how many cases failed or were measured'}"
    return " and ".join(filter(None, (", ".join(shown), more if rest else "")))


def _behind(verdict: GateResult, page: Console) -> Blocks:
    if verdict.system is not None and not verdict.refusals:
        title = change_title("the baseline", "this run")
        yield from paragraph(title, change_lines(verdict.system, most=_FEW))
    lost = verdict.lost_cases
    first = f", the first {_FEW}" if len(lost) > _FEW else ""
    cases = (
        f"{one.id}: {one.metric} {number_text(one.before)}, now {after_text(one)}"
        f"{f'; {one.query}' if one.query else ''}"
        for one in lost[:_FEW]
    )
    lines = (shown_line(text, longest=page.width - 6) for text in cases)
    yield from paragraph(f"cases that lost: {len(lost):,}{first}", lines)


def _next_step(verdict: GateResult) -> str:
    if verdict.outcome is GateOutcome.PASSED or verdict.refusals:
        return ""
    if verdict.outcome is GateOutcome.INCONCLUSIVE:
        if any(check.can_settle for check in verdict.checks):
            return "the same command with --rerun-inconclusive asks both systems again"
        return ""
    run = shlex.quote(verdict.run.source)
    first = verdict.checks[0]
    if first.drop is not None and verdict.baseline is not None:
        return f"ragbench compare {shlex.quote(verdict.baseline.source)} {run} --cases 5"
    return f"ragbench explain {run}" if Path(verdict.run.source).is_dir() else ""
