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
            for stage, given, before in _reused(row, stages, journal):
                now = stage.ask_once(given, in_loop, calls.timeout)
                if now.value is not None and _content(stage, now) != _content(stage, before):
                    return f"{stage.name} of {row.case.id}"
    return ""


def _reused(
    row: RunCase, stages: Sequence[Stage], journal: Journal
) -> Iterator[tuple[CallStage[Any, Any], object, Outcome[Any]]]:
    """The stages whose stored outcome would be used again, with their input and that outcome."""
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
        recorded = known.get((row.number, RECORDED))
        stored = recorded or known.get((row.number, fixed_digest(stage.identity, given.digest)))
        if stored is None:
            return
        entry = row.settled[stage.name] = restored(stage.name, stored, journal)
        has_value = recorded is None and entry.outcome.value is not None
        if has_value and stage.name in ("retrieve", "generate"):
            yield called, given.input, entry.outcome


def _content(stage: CallStage[Any, Any], outcome: Outcome[Any]) -> object:
    """What is compared, as the journal gives it back: metadata may hold times."""
    encoded = encode_outcome(stage.name, outcome)
    value = CODECS[stage.name].decode(encoded.texts, encoded.body)
    if isinstance(value, RetrievalResult):
        return [*value.contexts], value.context_ids and [*value.context_ids]
    return value.response
