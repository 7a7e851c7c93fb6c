"""Cases that must pass: one that is lost fails the gate, and no statistics are asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragbench.core.gate_result import CaseChange, CheckKind, GateCheck, GateOutcome, Ground
from ragbench.core.outcome import Cell
from ragbench.core.run_scores import MetricColumn, RunScores, ScoredCase
from ragbench.errors import ConfigError
from ragbench.gate.cases import main_metrics, passes
from ragbench.gate.words import worded
from ragbench.safe_text import did_you_mean

_Cases = Mapping[str, ScoredCase]
_NONE = Cell.skipped("")


def must_pass_check(
    run: RunScores, baseline: RunScores | None, selectors: Sequence[str]
) -> Iterator[GateCheck]:
    """Whether a case fails that passed in the baseline, or that is new and must pass.

    A case passes where each of the run's main metrics does, as in `ragbench.gate.cases`; one that
    was asked repeatedly, where it passes at least half of the time.
    """
    if not selectors:
        return
    now = {case.id: case for case in run.cases}
    before = {} if baseline is None else {case.id: case for case in baseline.cases}
    main = main_metrics(run.metrics)
    ids = _meant(selectors, now, before)
    silent = [
        id_ for id_ in ids if id_ in now and all(passes(now[id_], each) is None for each in main)
    ]
    if silent:
        raise ConfigError(
            f"must_pass: {', '.join(silent[:3])}: none of {', '.join(c.name for c in main)} "
            "decides whether it passes. Give it a reference answer, or relevant ids"
        )
    failing = [change for id_ in ids for change in _failing(id_, now, before, main)]
    lost = [change for change in failing if change.loss]
    share = 1.0 - len(lost) / len(ids)
    yield worded(
        GateCheck(
            kind=CheckKind.MUST_PASS,
            subject="must pass",
            outcome=GateOutcome.FAILED if lost else GateOutcome.PASSED,
            ground=Ground.BROKEN if lost else Ground.HOLDS,
            observed=share,
            limit=1.0,
            bound="min",
            cases=len(ids),
            unit="share",
            lost=tuple(lost),
            failed_before=len(failing) - len(lost),
        )
    )


def _meant(selectors: Sequence[str], now: _Cases, before: _Cases) -> list[str]:
    """The ids of the cases that are named, or have the tag or language, in either run."""
    found: dict[str, None] = {}
    for selector in selectors:
        by, colon, value = selector.partition(":")
        if colon and by in ("tag", "language") and selector not in now:
            both = (*now.values(), *before.values())
            ids = [c.id for c in both if value in (c.tags if by == "tag" else (c.language,))]
        else:
            ids = [selector] if selector in now or selector in before else []
        if not ids:
            meant = did_you_mean(selector, now)
            raise ConfigError(f"must_pass: '{selector}' names no case of this run.{meant}")
        found |= dict.fromkeys(ids)
    return list(found)


def _failing(
    id_: str, now: _Cases, before: _Cases, main: Sequence[MetricColumn]
) -> Iterator[CaseChange]:
    """How a case fails, if it does: with a loss of 1 where that is new, of 0 where it is not."""
    earlier = before.get(id_)
    if id_ not in now:
        yield CaseChange(id=id_, metric="", before=None, after=None, loss=1.0, status="gone")
        return
    case = now[id_]
    if earlier is not None and earlier.fingerprint != case.fingerprint:
        earlier = None  # a question that was edited is a new one
    found: list[CaseChange] = []
    for column in main:
        if passes(case, column) is not False:
            continue
        cell = case.scores.get(column.name, _NONE)
        old = _NONE if earlier is None else earlier.scores.get(column.name, _NONE)
        is_old = earlier is not None and passes(earlier, column) is False
        found.append(
            CaseChange(
                id=id_, metric=column.name, before=old.value, after=cell.value,
                loss=float(not is_old), status=cell.status.value, reason=cell.reason,
                query=case.query,
            )
        )  # fmt: skip
    yield from sorted(found, key=lambda change: -change.loss)[:1]
