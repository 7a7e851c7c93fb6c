"""What a verdict says besides its checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.gate.comparable import Comparison
from ragbench.gate.config import GateConfig, Undecided
from ragbench.gate.demands import Demand
from ragbench.gate.wording import cases as told_cases
from ragbench.records.cells import Status
from ragbench.records.verdicts import Check, CheckKind, GateOutcome

__all__ = ["is_undecided", "notes_on"]


def is_undecided(check: Check) -> bool:
    """Whether it is a drop that statistics cannot decide, and not a lack of any cases."""
    is_open = check.outcome is GateOutcome.INCONCLUSIVE and check.drop is not None
    return is_open and check.kind is CheckKind.DROP


def notes_on(
    compared: Comparison, demands: Sequence[Demand], checks: Sequence[Check], config: GateConfig
) -> Iterator[str]:
    """What a reader must know besides the checks."""
    yield from _no_longer_measured(compared, demands)
    open_drops = [c for c in checks if is_undecided(c) and not c.informational]
    if open_drops and config.undecided is Undecided.PASS:
        names = ", ".join(check.subject for check in open_drops)
        yield f"Could not be decided, and counts as passed (undecided: pass): {names}."
    unsettled = [
        check
        for check in checks
        if check.kind is CheckKind.SLICE and check.outcome is GateOutcome.INCONCLUSIVE
    ]
    if unsettled:
        yield (f"{len(unsettled):,} of the checks on slices cannot be decided; they do not count.")


def _no_longer_measured(compared: Comparison, demands: Sequence[Demand]) -> Iterator[str]:
    """A system that declines what it used to get wrong has a better mean, and is no better."""
    run, baseline = compared.run, compared.baseline
    if run is None or baseline is None:
        return
    told: dict[str, list[str]] = {}
    for demand in demands:
        name = demand.column.name
        before = baseline.values(name)
        gone = [
            case.scores[name].status
            for case in run.cases
            if case.scores[name].value is None and before.get(case.id) is not None
        ]
        if gone:
            counts = [(gone.count(status), status.value) for status in Status]
            listed = ", ".join(f"{count:,} {word}" for count, word in counts if count)
            told.setdefault(f"{told_cases(len(gone))} ({listed})", []).append(name)
    for cases, names in told.items():
        yield (
            f"{', '.join(names)}: {cases} that the baseline measured are not measured now, so the "
            "comparison leaves them out. A gate on answer_rate judges newly declined answers."
        )
