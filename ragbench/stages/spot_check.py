"""Some of the outcomes that would be reused, asked for again: the test of all that was compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from ragbench.core.outcome import Outcome
from ragbench.core.result import RetrievalResult
from ragbench.ledger.codec import CODECS, encode_outcome
from ragbench.ledger.fingerprint import fixed_digest
from ragbench.ledger.journal import RECORDED, Journal
from ragbench.stages.call_stage import CallStage
from ragbench.stages.calls import Manner, run_async, run_plain
from ragbench.stages.stage import (
    AbsentStage,
    CallSettings,
    InLoop,
    RunCase,
    Stage,
    StageOutcome,
    restored,
    skipped,
)

ASKED = 3
"""Cases that are asked again."""


def differing_case(
    stages: Sequence[Stage], journal: Journal, calls: CallSettings, in_loop: InLoop, *, seed: str
) -> str:
    """The stage and the id of the first case drawn that has another outcome now; empty if none."""
    for window in journal.cases(journal.drawn_ids(ASKED, seed)):
        for stored in window:
            row = RunCase(stored.number, stored.case, stored.digest)
            for name, before, now in _asked_again(row, stages, journal, calls, in_loop):
                if now.value is not None and _content(name, now) != _content(name, before):
                    return f"{name} of {row.case.id}"
    return ""


def _asked_again(
    row: RunCase, stages: Sequence[Stage], journal: Journal, calls: CallSettings, in_loop: InLoop
) -> Iterator[tuple[str, Outcome[Any], Outcome[Any]]]:
    """What the RAG gave for a case before, and what it gives now, as far as it is stored."""
    for stage in stages:
        if isinstance(stage, AbsentStage):
            row.settled[stage.name] = skipped(stage.reason)
        if not isinstance(stage, CallStage):
            continue
        called = cast("CallStage[Any, Any]", stage)
        given = called.reads(row)
        if isinstance(given, StageOutcome):
            row.settled[stage.name] = given
            continue
        known = journal.outcomes(stage.name, [row.number])
        key = fixed_digest(stage.identity, given.digest)
        recorded = known.get((row.number, RECORDED))
        stored = recorded or known.get((row.number, key))
        if stored is None:
            return
        entry = row.settled[stage.name] = restored(stage.name, stored, journal)
        has_value = recorded is None and entry.outcome.value is not None
        if has_value and stage.name in ("retrieve", "generate"):
            yield stage.name, entry.outcome, _asked(called, given.input, calls, in_loop)


def _asked(
    stage: CallStage[Any, Any], given: object, calls: CallSettings, in_loop: InLoop
) -> Outcome[Any]:
    manner = Manner(stage=stage.name, timeout=calls.timeout)
    found: list[Outcome[Any]] = []
    if stage.call is not None:
        for _, outcomes in run_plain(stage.call, [[given]], manner):
            found += outcomes
    elif stage.call_async is not None:
        in_loop(run_async(stage.call_async, [[given]], manner, lambda _, some: found.extend(some)))
    return found[0]


def _content(name: str, outcome: Outcome[Any]) -> object:
    """What is compared, as the journal gives it back: metadata may hold times."""
    encoded = encode_outcome(name, outcome)
    value = CODECS[name].decode(encoded.texts, encoded.body)
    if isinstance(value, RetrievalResult):
        return [*value.contexts], value.context_ids and [*value.context_ids]
    return value.response
