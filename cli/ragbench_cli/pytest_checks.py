"""A gate's checks and a run's cases as tests, and the fixture that evaluates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from ragbench.core.attribution import LOSSES, Cause
from ragbench.core.gate_result import GateOutcome, GateResult
from ragbench.core.report import CaseRow, Report
from ragbench.errors import RagbenchError
from ragbench.gate.config import Undecided, demanded
from ragbench.gate.gate import bearing
from ragbench.safe_text import shown_line
from ragbench.stages.stage import CallSettings
from ragbench.stages.system import EvalSettings
from ragbench.verbs.evaluate import GivenCases, evaluate
from ragbench.verbs.gate import gate_run
from ragbench.verbs.report import report_of
from ragbench.views.gate import limit_text, refusal_text
from ragbench.views.write import write_reports


def tests_of(session: pytest.Session) -> Iterator[pytest.Item]:
    """The tests of the runs that pytest's options name: those of cases before those of checks.

    pytest then reports them like any other test.

    Raises:
        pytest.UsageError: a run cannot be read, or not be judged.
    """
    parent: _TestsOfRuns = _TestsOfRuns.from_parent(  # pyright: ignore[reportUnknownMemberType]  # its **kw
        session, name="ragbench", nodeid="ragbench"
    )
    run_of_cases = _text_option(session.config, "--ragbench-cases")
    if run_of_cases is not None:
        yield from _case_tests(run_of_cases, parent)
    run = _text_option(session.config, "--ragbench")
    if run is not None:
        yield from _check_tests(run, session.config, parent)


def _case_tests(run: str, parent: _TestsOfRuns) -> Iterator[pytest.Item]:
    """A test for each case of a run, which fails with the cause where the case is lost.

    A run that cannot be read is an error of usage, as pytest reports wrong options.
    """
    try:
        cases = [_case_of(row) for row in report_of(run).rows()]
    except RagbenchError as error:
        raise pytest.UsageError(f"ragbench: {error}") from error
    for case in cases:
        item: _CaseItem = _CaseItem.from_parent(  # pyright: ignore[reportUnknownMemberType]
            parent, name=f"case[{case.id}]"
        )
        item.case = case
        yield item


def _check_tests(run: str, config: pytest.Config, parent: _TestsOfRuns) -> Iterator[pytest.Item]:
    """A test for each check of a run's gate, and one for the verdict as a whole.

    Errors name the options of pytest, not those of ``ragbench gate``.
    """
    baseline = _text_option(config, "--ragbench-baseline")
    config_file = _text_option(config, "--ragbench-config")
    strict = bool(config.getoption("--ragbench-strict"))
    try:
        config_path = None if config_file is None else Path(config_file)
        gate_config = demanded(config_path, baseline=baseline, strict=strict)
        verdict = gate_run(run, gate_config)
    except RagbenchError as error:
        # The message names options of the command.
        text = str(error).replace("--baseline", "--ragbench-baseline")
        raise pytest.UsageError(f"ragbench: {text}") from error
    for name, outcome, reason in _test_outcomes(verdict, gate_config.undecided):
        item: _CheckItem = _CheckItem.from_parent(  # pyright: ignore[reportUnknownMemberType]
            parent, name=shown_line(name)
        )
        item.outcome = outcome
        item.reason = shown_line(reason)
        yield item


def _text_option(config: pytest.Config, name: str) -> str | None:
    """The value of an option of pytest as text; None where it is not on the command line.

    The plugin's options are all texts, but ``--ragbench-strict``.
    """
    value = config.getoption(name)
    if value is None:
        return None
    return str(value)


def _test_outcomes(
    verdict: GateResult, undecided: Undecided
) -> Iterator[tuple[str, GateOutcome, str]]:
    """The name, outcome and reason of each test of a gate: its refusals, its checks, its verdict.

    Names stay the same from run to run, so that servers can follow a check over builds.
    """
    for refusal in verdict.refusals:
        yield f"comparable: {refusal.what}", GateOutcome.INCONCLUSIVE, refusal_text(refusal)
    for check in verdict.checks:
        # A check without a limit only shows a figure: as a test it would always pass.
        if check.outcome is GateOutcome.NOT_JUDGED:
            continue
        yield f"{check.name} ({limit_text(check)})", bearing(check, undecided), check.reason
    yield "verdict", verdict.outcome, verdict.headline


class _CheckFailedError(Exception):
    """A check that did not pass, or a case that is lost."""


class _TestsOfRuns(pytest.Collector):
    """The parent of cases and checks, which pytest wants each test to have."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        """No further tests.

        pytest asks every parent for its tests; those of runs are made of stored results instead.
        """
        return []


class _CheckItem(pytest.Item):
    """One check as a test."""

    outcome: GateOutcome
    reason: str

    def runtest(self) -> None:
        """Passes a check of a gate, or fails with its reason; undecided checks fail, too.

        The command ``ragbench gate`` ends with the exit code 3 for those.
        """
        # The reason is in pytest's report also where the check passes.
        self.add_report_section("call", "ragbench", self.reason)
        if self.outcome is GateOutcome.FAILED:
            raise _CheckFailedError(self.reason)
        if self.outcome is GateOutcome.INCONCLUSIVE:
            raise _CheckFailedError(f"inconclusive: {self.reason}")

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> str:
        """The text of a failed check.

        It is the check's reason alone: a traceback through ragbench would hide it.
        """
        if isinstance(excinfo.value, _CheckFailedError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The place and heading of a check's failure in pytest's report.

        pytest heads a failure with it; a check has no line of code.
        """
        return self.path, None, f"ragbench: {self.name}"


_UNDECIDED = (Cause.UNCHECKED, Cause.SHOWN)
"""Causes of cases whose answer was compared with nothing: neither passed nor failed."""
_LONGEST_ID = 100
"""Letters of a case's id in the name of its test."""
_LONGEST_TEXT = 1000
"""Letters of a line of what a failed test shows."""


class _Case(NamedTuple):
    """A case of the run, as its test needs it."""

    id: str
    cause: Cause
    text: str
    """The cause with the facts of the case, then question, answer and reference."""


def _case_of(row: CaseRow) -> _Case:
    """A case of a run as its test needs it: the row itself would hold the texts of all chunks.

    Its text is what a failed test shows: cause, question, answer, reference and remedy.
    """
    cause = row.attribution.cause
    answer = "none"
    if row.response is not None:
        answer = row.response
    lines = [
        f"{cause.label}: {row.attribution.explanation}",
        f"question: {row.query}",
        f"answer: {answer}",
    ]
    if row.reference is not None:
        lines.append(f"reference: {row.reference}")
    if cause.remedy:
        lines.append(f"next: {cause.remedy}")
    # A line each: a text with many lines would hide the others in pytest's output.
    text = "\n".join(shown_line(line, longest=_LONGEST_TEXT) for line in lines)
    return _Case(id=shown_line(row.id, longest=_LONGEST_ID), cause=cause, text=text)


class _CaseItem(pytest.Item):
    """One case as a test."""

    case: _Case

    def runtest(self) -> None:
        """Fails with the cause where the case is lost.

        A case whose answer was compared with nothing is skipped: it neither passed nor failed.
        """
        if self.case.cause in _UNDECIDED:
            pytest.skip(self.case.text.partition("\n")[0])
        if self.case.cause in LOSSES:
            raise _CheckFailedError(self.case.text)

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> str:
        """The text of a lost case.

        It is the case's cause alone: a traceback through ragbench would hide it.
        """
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The place and heading of a lost case in pytest's report.

        pytest heads a failure with it; a case has no line of code.
        """
        return self.path, None, f"ragbench: {self.name}"


class Evaluation:
    """Evaluates RAGs inside of a test."""

    def __init__(self, home: Path) -> None:
        """The evaluation of a test that has not evaluated a RAG yet.

        The fixture ``ragbench_eval`` gives it to the test.

        Args:
            home: the test's own folder, in which each evaluation makes a folder for its run.
        """
        self._home = home
        self.folder: Path | None = None
        """The last run's folder; it holds report.json and all that ``ragbench eval`` writes."""

    def __call__(
        self,
        rag: object,
        cases: GivenCases,
        *,
        metrics: str | Sequence[str] | None = None,
        top_k: int | None = None,
        limits: CallSettings | None = None,
    ) -> Report:
        """Evaluates a RAG within a test, each time in a new folder, and writes the reports there.

        A run in the folder of an earlier one would take over its stored answers.
        """
        # Counted from 1: a test may evaluate several times in its own folder.
        number = 1
        folder = self._home / f"ragbench-{number}"
        while folder.exists():
            number += 1
            folder = self._home / f"ragbench-{number}"
        settings = EvalSettings(top_k=top_k, limits=limits)
        report = evaluate(cases, rag, out=folder, metrics=metrics, settings=settings)
        write_reports(report, folder)
        # For the test that wants to read the files afterwards.
        self.folder = folder
        return report
