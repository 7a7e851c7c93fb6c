"""The checks of a gate's verdict as tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ragbench.errors import RagbenchError
from ragbench.evaluation.gate_run import gate_run
from ragbench.gate.config import GateConfig
from ragbench.gate.config_file import read_gate_config
from ragbench.records.verdicts import Check, CheckKind, GateOutcome, Verdict
from ragbench.reports.plain_text import one_line
from ragbench.reports.verdict_text import limit_text

__all__ = ["GateChecks"]

_DEFAULT_CONFIG = Path("ragbench.yaml")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Judged:
    """What one test says."""

    name: str
    outcome: GateOutcome
    reason: str


@dataclass(frozen=True, kw_only=True)
class GateChecks:
    """A plugin that adds a test for each check, and one for the verdict as a whole."""

    run: str
    baseline: str | None
    config: str | None
    strict: bool

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        """Adds the tests behind those that were collected.

        Raises:
            pytest.UsageError: the run cannot be judged.
        """
        try:
            verdict = gate_run(Path(self.run), self._demands())
        except RagbenchError as error:
            raise pytest.UsageError(f"ragbench: {error}") from error
        parent: _Gate = _Gate.from_parent(  # pyright: ignore[reportUnknownMemberType]  # its **kw
            session, name="ragbench", nodeid="ragbench"
        )
        for judged in _judged(verdict):
            items.append(_CheckItem.of(parent, judged, strict=self.strict))

    def _demands(self) -> GateConfig:
        config = GateConfig()
        if self.config is not None:
            config = read_gate_config(Path(self.config))
        elif _DEFAULT_CONFIG.is_file():
            config = read_gate_config(_DEFAULT_CONFIG, optional=True)
        return config if self.baseline is None else replace(config, baseline=self.baseline)


def _judged(verdict: Verdict) -> Iterator[_Judged]:
    for refusal in verdict.refusals:
        yield _Judged(
            name=f"comparable: {refusal.what}",
            outcome=GateOutcome.INCONCLUSIVE,
            reason=f"{refusal.reason}. To go on, {refusal.remedy}",
        )
    for check in verdict.checks:
        yield _Judged(
            name=one_line(f"{check.name} ({limit_text(check)})"),
            outcome=_counted(check, verdict),
            reason=check.reason,
        )
    yield _Judged(name="verdict", outcome=verdict.outcome, reason=verdict.headline)


def _counted(check: Check, verdict: Verdict) -> GateOutcome:
    """How a check bears on the verdict: what does not count passes."""
    is_open = check.outcome is GateOutcome.INCONCLUSIVE
    if check.informational or (is_open and check.kind is CheckKind.SLICE):
        return GateOutcome.PASSED
    if is_open and check.kind is CheckKind.DROP and check.drop is not None:
        counts = {"pass": GateOutcome.PASSED, "fail": GateOutcome.FAILED}
        return counts.get(str(verdict.settings.get("undecided")), check.outcome)
    return check.outcome


class _CheckFailedError(Exception):
    """A check that did not pass."""


class _Gate(pytest.Collector):
    """What the tests hang on."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        """Nothing: the tests are made with the verdict."""
        return []


class _CheckItem(pytest.Item):
    """One check."""

    judged: _Judged
    strict: bool

    @classmethod
    def of(cls, parent: _Gate, judged: _Judged, *, strict: bool) -> _CheckItem:
        """The test of a check."""
        item = cls.from_parent(  # pyright: ignore[reportUnknownMemberType]  # its **kw
            parent, name=judged.name
        )
        item.judged, item.strict = judged, strict
        return item

    def runtest(self) -> None:
        """Passes, fails, or is skipped when the check cannot tell."""
        reason = one_line(self.judged.reason)
        self.add_report_section("call", "ragbench", reason)
        if self.judged.outcome is GateOutcome.FAILED:
            raise _CheckFailedError(reason)
        if self.judged.outcome is GateOutcome.INCONCLUSIVE:
            if self.strict:
                raise _CheckFailedError(f"cannot tell: {reason}")
            pytest.skip(f"{self.name}: cannot tell: {reason}")

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> str:
        """The reason alone: where in ragbench it was raised helps nobody."""
        if isinstance(excinfo.value, _CheckFailedError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """How the terminal names it."""
        return self.path, None, f"ragbench: {self.name}"
