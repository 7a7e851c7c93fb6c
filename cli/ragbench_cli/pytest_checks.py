"""A gate's checks as tests, and the fixture that evaluates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ragbench.core.gate_result import GateOutcome, GateResult
from ragbench.core.report import Report
from ragbench.errors import RagbenchError
from ragbench.gate.config import Undecided, demanded
from ragbench.gate.gate import bearing
from ragbench.safe_text import shown_line
from ragbench.stages.stage import CallSettings
from ragbench.stages.system import EvalSettings
from ragbench.verbs.evaluate import GivenCases, evaluate
from ragbench.verbs.gate import gate_run
from ragbench.views.gate import limit_text, refusal_text
from ragbench.views.write import write_reports


def tests_of(session: pytest.Session) -> Iterator[pytest.Item]:
    """A test for each check of the run that the options name, and one for the verdict as a whole.

    Raises:
        pytest.UsageError: the run cannot be judged.
    """
    run = _text_option(session.config, "--ragbench")
    baseline = _text_option(session.config, "--ragbench-baseline")
    config_file = _text_option(session.config, "--ragbench-config")
    strict = bool(session.config.getoption("--ragbench-strict"))
    try:
        config_path = None if config_file is None else Path(config_file)
        config = demanded(config_path, baseline=baseline, strict=strict)
        verdict = gate_run(str(run), config)
    except RagbenchError as error:
        # The message names options of the command.
        text = str(error).replace("--baseline", "--ragbench-baseline")
        raise pytest.UsageError(f"ragbench: {text}") from error
    parent: _Gate = _Gate.from_parent(  # pyright: ignore[reportUnknownMemberType]  # its **kw
        session, name="ragbench", nodeid="ragbench"
    )
    for name, outcome, reason in _outcomes(verdict, config.undecided):
        item: _CheckItem = _CheckItem.from_parent(  # pyright: ignore[reportUnknownMemberType]
            parent, name=shown_line(name)
        )
        item.outcome = outcome
        item.reason = shown_line(reason)
        yield item


def _text_option(config: pytest.Config, name: str) -> str | None:
    value = config.getoption(name)
    return None if value is None else str(value)


def _outcomes(verdict: GateResult, undecided: Undecided) -> Iterator[tuple[str, GateOutcome, str]]:
    """The name, the outcome and the reason of each test."""
    for refusal in verdict.refusals:
        yield f"comparable: {refusal.what}", GateOutcome.INCONCLUSIVE, refusal_text(refusal)
    for check in verdict.checks:
        if check.outcome is GateOutcome.NOT_JUDGED:
            continue
        yield f"{check.name} ({limit_text(check)})", bearing(check, undecided), check.reason
    yield "verdict", verdict.outcome, verdict.headline


class _CheckFailedError(Exception):
    """A check that did not pass."""


class _Gate(pytest.Collector):
    """The parent of the checks, which pytest wants each test to have."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        """Nothing: the tests are made with the verdict."""
        return []


class _CheckItem(pytest.Item):
    """One check as a test."""

    outcome: GateOutcome
    reason: str

    def runtest(self) -> None:
        """Passes, or fails with the reason: like the command, which ends with 3 then."""
        self.add_report_section("call", "ragbench", self.reason)
        if self.outcome is GateOutcome.FAILED:
            raise _CheckFailedError(self.reason)
        if self.outcome is GateOutcome.INCONCLUSIVE:
            raise _CheckFailedError(f"inconclusive: {self.reason}")

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> str:
        """The reason alone: where in ragbench it was raised helps nobody."""
        if isinstance(excinfo.value, _CheckFailedError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"ragbench: {self.name}"


class Evaluation:
    """Evaluates RAGs inside of a test."""

    def __init__(self, home: Path) -> None:
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
        """Evaluates a RAG in a folder of its own, and writes the reports of the run there."""
        number = 1
        folder = self._home / f"ragbench-{number}"
        while folder.exists():
            number += 1
            folder = self._home / f"ragbench-{number}"
        settings = EvalSettings(top_k=top_k, limits=limits)
        report = evaluate(cases, rag, out=folder, metrics=metrics, settings=settings)
        write_reports(report, folder)
        self.folder = folder
        return report
