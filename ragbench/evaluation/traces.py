"""What a stored run holds for each case, read back from its journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ragbench.evaluation.judge_info import judge_key
from ragbench.evaluation.post_retrieve import handed_over, post_retrieve_key
from ragbench.evaluation.run import (
    NO_GENERATION,
    NO_RETRIEVAL,
    context_digest,
    generate_key,
    given_contexts,
    retrieve_key,
)
from ragbench.evaluation.scored_turn import Column, Turn, cell_keys
from ragbench.evaluation.validate_stage import VALIDATE, decode_validation, validate_key
from ragbench.postretrieval.on_result import POST_RETRIEVE
from ragbench.records.cells import Cell, Outcome, Status
from ragbench.records.judgements import Judgement
from ragbench.records.metrics import Metric
from ragbench.runs.codec import decode_failure, decode_generation, decode_retrieval
from ragbench.runs.fingerprint import NOTHING, SIZE
from ragbench.runs.journal import Journal, StoredCase, StoredOutcome
from ragbench.runs.manifest import Manifest
from ragbench.runs.trace import Trace
from ragbench.scoring.matching import Matching

__all__ = ["StoredTraces", "TracedCase"]


_ABSENT = {
    "retrieve": NO_RETRIEVAL,
    POST_RETRIEVE: NO_RETRIEVAL,
    VALIDATE: NO_RETRIEVAL,
    "generate": NO_GENERATION,
}
_INTERRUPTED = "not asked yet: the run was interrupted"


class TracedCase(NamedTuple):
    """A case of a stored run."""

    trace: Trace
    cells: tuple[Cell | None, ...]
    """A cell a metric; None where it has not been computed yet."""
    judgements: tuple[tuple[Judgement, ...], ...]
    """What each cell rests on, in the same order; none for a cell that nobody judged."""
    fingerprint: bytes
    """Digest of the case: its id and everything that is known of it."""


@dataclass(frozen=True, kw_only=True)
class StoredTraces:
    """Reads a run's cases with their outcomes and cells, in order, a window at a time."""

    journal: Journal
    manifest: Manifest
    metrics: tuple[Metric, ...]
    with_texts: bool
    """Whether context texts are read too; without, each context is an empty string."""

    def __iter__(self) -> Iterator[TracedCase]:
        """Every case of the run."""
        judge = self.manifest.judge
        columns = [Column.of(metric, judge_key(judge, metric)) for metric in self.metrics]
        for window in self.journal.cases():
            yield from self._window(window, columns)

    def _window(
        self, window: Sequence[StoredCase], columns: Sequence[Column]
    ) -> Iterator[TracedCase]:
        numbers = [stored.number for stored in window]
        known = {stage: self.journal.outcomes(stage, numbers) for stage in self._identities}
        cells = self.journal.cells(numbers)
        judged = {} if self.manifest.judge is None else self.journal.judgements(numbers)
        matching = Matching(self.manifest.settings["matching"])
        for stored in window:
            first, between, second = self._stored(stored, known)
            given = between if POST_RETRIEVE in self._identities else first
            verdict = self._verdict(stored, given, known)
            turn = Turn(
                stored,
                Trace(
                    case=stored.case,
                    retrieval=self._outcome("retrieve", first, self._retrieval),
                    generation=self._outcome("generate", second, _generation),
                    post_retrieval=self._outcome(POST_RETRIEVE, between, self._retrieval)
                    if POST_RETRIEVE in self._identities
                    else None,
                    validation=self._outcome(VALIDATE, verdict, _verdict)
                    if VALIDATE in self._identities
                    else None,
                ),
                context_digest(
                    NOTHING if first is None else first.digest,
                    None if between is None else between.digest,
                ),
                NOTHING if second is None else second.digest,
            )
            keys = cell_keys(turn, matching)
            places = [(stored.number, column.identity, column.key(keys)) for column in columns]
            found = tuple(map(cells.get, places))
            judgements = tuple(judged.get(place, ()) for place in places) if judged else ()
            yield TracedCase(turn.trace, found, judgements or ((),) * len(found), stored.digest)

    @cached_property
    def _identities(self) -> dict[str, bytes]:
        """The stages that the RAG has, and what their outcomes are kept under."""
        stages = self.manifest.rag.stages
        return {stage: bytes.fromhex(identity) for stage, identity in stages.items()}

    def _stored(
        self, stored: StoredCase, known: Mapping[str, Mapping[tuple[int, bytes], StoredOutcome]]
    ) -> tuple[StoredOutcome | None, StoredOutcome | None, StoredOutcome | None]:
        """What each stage gave for a case; None where there is nothing, or nothing yet."""
        identities, number, query = self._identities, stored.number, stored.case.query
        first = last = between = None
        if "retrieve" in identities:
            first = known["retrieve"].get((number, retrieve_key(identities["retrieve"], query)))
            if first is None:
                return None, None, None
            last, texts = first, first.texts
        else:
            _, texts = given_contexts(stored.case)
        if POST_RETRIEVE in identities and first is not None:
            if first.status is Status.FAILED:
                between = first._replace(seconds=None)
            else:
                key = post_retrieve_key(identities[POST_RETRIEVE], first.digest, query)
                between = known[POST_RETRIEVE].get((number, key))
                if between is None:
                    return first, None, None
                texts = self._handed_over(between)
            last = between
        if "generate" not in identities:
            return first, between, None
        if last is not None and last.status is Status.FAILED:
            return first, between, last._replace(seconds=None)
        key = generate_key(identities["generate"], query, texts)
        return first, between, known["generate"].get((number, key))

    def _verdict(
        self,
        stored: StoredCase,
        given: StoredOutcome | None,
        known: Mapping[str, Mapping[tuple[int, bytes], StoredOutcome]],
    ) -> StoredOutcome | None:
        """What validation said of what generation was given; None where there is nothing yet."""
        if VALIDATE not in self._identities or given is None:
            return None
        if given.status is Status.FAILED:
            return given._replace(seconds=None)
        identity = self._identities[VALIDATE]
        key = validate_key(identity, given.digest, stored.case.query)
        return known[VALIDATE].get((stored.number, key))

    def _handed_over(self, stored: StoredOutcome) -> bytes:
        """Digests of the texts that generation was given."""
        if stored.status is Status.FAILED:
            return stored.texts
        empty = [""] * (len(stored.texts) // SIZE)
        return handed_over(decode_retrieval(empty, stored.body), stored.texts)[1]

    def _retrieval(self, stored: StoredOutcome) -> Any:
        if self.with_texts:
            return decode_retrieval(self.journal.texts(stored.texts), stored.body)
        return decode_retrieval([""] * (len(stored.texts) // SIZE), stored.body)

    def _outcome(
        self, stage: str, stored: StoredOutcome | None, decode: Callable[[StoredOutcome], Any]
    ) -> Outcome[Any]:
        if stored is None:
            reason = _INTERRUPTED if stage in self._identities else _ABSENT[stage]
            return Outcome(status=Status.SKIPPED, reason=reason)
        if stored.status is Status.FAILED:
            failure = decode_failure(stored.body)
            return Outcome(status=stored.status, failure=failure, seconds=stored.seconds)
        return Outcome(status=stored.status, value=decode(stored), seconds=stored.seconds)


def _verdict(stored: StoredOutcome) -> Any:
    return decode_validation(stored.body)


def _generation(stored: StoredOutcome) -> Any:
    return decode_generation(stored.body)
