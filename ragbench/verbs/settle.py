"""An undecided gate to a decided one: both systems are asked again until a test decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ragbench.core.gate_result import GateCheck, GateResult
from ragbench.core.metric import Direction
from ragbench.core.run_scores import RunScores
from ragbench.gate.config import GateConfig
from ragbench.gate.gate import with_settled
from ragbench.gate.settle import SettleQuestion, Settling

Ask = Callable[[int, Sequence[str], Sequence[str]], tuple[RunScores, RunScores]]
"""Asks both systems: the round, the metrics, the cases drawn; gives the baseline's scores and the
run's, of cases called "0", "1" ... as drawn."""

_FIRST = 40
"""Cases that the first round asks about; each further round asks about as many as all before."""


def open_checks(verdict: GateResult) -> list[GateCheck]:
    """The checks that asking again can settle: whole metrics with a scale that count."""
    return [check for check in verdict.checks if check.is_open_drop and not check.informational]


def settle(
    verdict: GateResult,
    run: RunScores,
    baseline: RunScores,
    config: GateConfig,
    ask: Ask,
    *,
    most: int,
    tell: Callable[[str], None] = lambda _: None,
) -> GateResult:
    """Asks both systems again about what a gate left open."""
    questions = [
        question
        for check in open_checks(verdict)
        if (question := _question(check, run, baseline)) is not None
    ]
    if not questions:
        return verdict
    names = [question.metric for question in questions]
    turned = {name for name in names if _lower_is_better(run, name)}
    settling = Settling(questions, alpha=config.alpha)
    asked = number = 0
    while not settling.is_done and asked < most:
        drawn = settling.draw(min(most - asked, max(_FIRST, asked)))
        settling.see(_differences(ask(number, names, drawn), names, turned, len(drawn)))
        asked, number = asked + len(drawn), number + 1
        tell(f"asked {asked:,} times: {_told(settling)}")
    return with_settled(verdict, settling.settled(), config)


def _question(check: GateCheck, run: RunScores, baseline: RunScores) -> SettleQuestion | None:
    column = run.column(check.subject)
    if column is None or column.scale is None:
        return None
    before, after = baseline.values(check.subject), run.values(check.subject)
    sign = -1.0 if column.direction is Direction.LOWER else 1.0
    fingerprints = {case.id: case.fingerprint for case in baseline.cases}
    same = (c.id for c in run.cases if fingerprints.get(c.id) == c.fingerprint)
    differences = {
        id_: sign * (now - earlier)
        for id_ in same
        if (now := after[id_]) is not None and (earlier := before[id_]) is not None
    }
    return SettleQuestion(
        metric=check.subject,
        tolerance=check.limit,
        scale=column.scale,
        differences=differences,
    )


def _lower_is_better(run: RunScores, metric: str) -> bool:
    column = run.column(metric)
    return column is not None and column.direction is Direction.LOWER


def _differences(
    found: tuple[RunScores, RunScores], names: Sequence[str], turned: set[str], count: int
) -> list[Mapping[str, float | None]]:
    before, after = ({name: each.values(name) for name in names} for each in found)

    def one(name: str, id_: str) -> float | None:
        old, new = before[name].get(id_), after[name].get(id_)
        if old is None or new is None:
            return None
        return old - new if name in turned else new - old

    return [{name: one(name, str(at)) for name in names} for at in range(count)]


def _told(settling: Settling) -> str:
    return ", ".join(
        f"{name} {known.change} (drop {known.drop or 0.0:+.3f})"
        for name, known in settling.settled().items()
    )
