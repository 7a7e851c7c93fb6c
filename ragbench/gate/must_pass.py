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
    main, ids = main_metrics(run.metrics), _meant(selectors, run, baseline)
    places = run.table.places(ids).tolist()
    silent = [
        id_
        for id_, at in zip(ids, places, strict=True)
        if at >= 0 and all(passes(run, at, each) is None for each in main)
    ]
    if silent:
        raise ConfigError(
            f"must_pass: {', '.join(silent[:3])}: none of {', '.join(c.name for c in main)} "
            "decides whether it passes. Give it a reference answer, or relevant ids"
        )
    failing = _failing(run, baseline, ids, main)
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
    run: RunScores, baseline: RunScores | None, ids: Sequence[str], main: Sequence[MetricColumn]
) -> list[CaseChange]:
    """How each case that fails does so."""
    places = run.table.places(ids).tolist()
    before = [-1] * len(ids) if baseline is None else baseline.table.places(ids).tolist()
    failing: list[CaseChange] = []
    for id_, at, then in zip(ids, places, before, strict=True):
        if at < 0:
            failing.append(
                CaseChange(id=id_, metric="", before=None, after=None, loss=1.0, status="gone")
            )
            continue
        known = baseline if then >= 0 else None
        if known is not None and known.table.fingerprints[then] != run.table.fingerprints[at]:
            known = None  # a question that was edited is a new one
        changes = [
            _change(run, at, known, then, column)
            for column in main
            if passes(run, at, column) is False
        ]
        failing += sorted(changes, key=lambda change: -change.loss)[:1]
    return failing


def _change(
    run: RunScores, at: int, baseline: RunScores | None, then: int, column: MetricColumn
) -> CaseChange:
    """How a case fails by a metric: with a loss of 1 where that is new, of 0 where it is not."""
    cell, old, is_old = run.cells(column.name)[at] or _NONE, _NONE, False
    if baseline is not None:
        old = baseline.cells(column.name)[then] or _NONE
        is_old = passes(baseline, then, column) is False
    return CaseChange(
        id=run.table.ids[at], metric=column.name, before=old.value, after=cell.value,
        loss=float(not is_old), status=cell.status.value, reason=cell.reason,
    )  # fmt: skip
