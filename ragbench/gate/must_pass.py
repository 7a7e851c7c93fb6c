"""Cases that must pass: one that is lost fails the gate, and no statistics are asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.core.gate_result import CaseChange, CheckKind, GateCheck, GateOutcome, Ground
from ragbench.core.outcome import Cell
from ragbench.core.run_scores import MetricColumn, RunScores, labels_of
from ragbench.errors import ConfigError
from ragbench.gate.cases import main_metrics, passes
from ragbench.gate.words import worded
from ragbench.safe_text import did_you_mean

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
    main = main_metrics(run.metrics)
    ids = _meant(selectors, run, baseline)
    places = dict(zip(ids, run.table.places(ids).tolist(), strict=True))
    silent = [
        id_
        for id_, at in places.items()
        if at >= 0 and all(passes(run, at, each) is None for each in main)
    ]
    if silent:
        raise ConfigError(
            f"must_pass: {', '.join(silent[:3])}: none of {', '.join(c.name for c in main)} "
            "decides whether it passes. Give it a reference answer, or relevant ids"
        )
    then = [-1] * len(ids) if baseline is None else baseline.table.places(ids).tolist()
    failing = [
        change
        for (id_, at), before in zip(places.items(), then, strict=True)
        for change in _failing(id_, run, at, baseline, before, main)
    ]
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


def _meant(selectors: Sequence[str], run: RunScores, baseline: RunScores | None) -> list[str]:
    """The ids of the cases that are named, or have the tag or language, in either run."""
    found: dict[str, None] = {}
    both = [run] if baseline is None else [run, baseline]
    known = [{*one.table.ids} for one in both]
    for selector in selectors:
        if selector.startswith(("tag:", "language:")) and selector not in known[0]:
            ids = [
                id_
                for one in both
                for id_, labels in zip(one.table.ids, labels_of(one), strict=True)
                if selector in labels
            ]
        else:
            ids = [selector] if any(selector in there for there in known) else []
        if not ids:
            meant = did_you_mean(selector, run.table.ids)
            raise ConfigError(f"must_pass: '{selector}' names no case of this run.{meant}")
        found |= dict.fromkeys(ids)
    return list(found)


def _failing(
    id_: str,
    run: RunScores,
    at: int,
    baseline: RunScores | None,
    before: int,
    main: Sequence[MetricColumn],
) -> Iterator[CaseChange]:
    """How a case fails, if it does: with a loss of 1 where that is new, of 0 where it is not."""
    if at < 0:
        yield CaseChange(id=id_, metric="", before=None, after=None, loss=1.0, status="gone")
        return
    if before < 0 or (
        baseline is not None and baseline.table.fingerprints[before] != run.table.fingerprints[at]
    ):
        baseline = None  # a question that is new, as one that was edited is
    found: list[CaseChange] = []
    for column in main:
        if passes(run, at, column) is not False:
            continue
        cell = run.cells(column.name)[at] or _NONE
        old = _NONE if baseline is None else baseline.cells(column.name)[before] or _NONE
        is_old = baseline is not None and passes(baseline, before, column) is False
        found.append(
            CaseChange(
                id=id_, metric=column.name, before=old.value, after=cell.value,
                loss=float(not is_old), status=cell.status.value, reason=cell.reason,
            )
        )  # fmt: skip
    yield from sorted(found, key=lambda change: -change.loss)[:1]
