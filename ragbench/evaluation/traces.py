"""What a stored run holds for each case, read back from its journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ragbench.evaluation.run import NO_GENERATION, NO_RETRIEVAL, generate_key, retrieve_key
from ragbench.evaluation.scores import Column, Turn, cell_keys
from ragbench.records.cells import Cell, Outcome, Status
from ragbench.records.metrics import Metric
from ragbench.runs.codec import decode_failure, decode_generation, decode_retrieval
from ragbench.runs.fingerprint import SIZE
from ragbench.runs.journal import Journal, StoredCase, StoredOutcome
from ragbench.runs.manifest import Manifest
from ragbench.runs.trace import Trace
from ragbench.scoring.matching import Matching

__all__ = ["StoredTraces", "TracedCase"]


class TracedCase(NamedTuple):
    """A case of a stored run."""

    trace: Trace
    cells: tuple[Cell | None, ...]
    """A cell a metric; None where it has not been computed yet."""
    fingerprint: bytes
    """Digest of the case: its id and everything that is known of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredTraces:
    """Reads a run's cases with their outcomes and cells, in order, a window at a time."""

    journal: Journal
    manifest: Manifest
    metrics: tuple[Metric, ...]
    with_texts: bool
    """Whether context texts are read too; without, each context is an empty string."""

    def __iter__(self) -> Iterator[TracedCase]:
        """Every case of the run."""
        columns = [Column.of(metric) for metric in self.metrics]
        for window in self.journal.cases():
            yield from self._window(window, columns)

    def _window(
        self, window: Sequence[StoredCase], columns: Sequence[Column]
    ) -> Iterator[TracedCase]:
        numbers = [stored.number for stored in window]
        retrieved = self.journal.outcomes("retrieve", numbers)
        generated = self.journal.outcomes("generate", numbers)
        cells = self.journal.cells(numbers)
        retrieve_identity = bytes.fromhex(self.manifest.rag.stages["retrieve"])
        generate_identity = bytes.fromhex(self.manifest.rag.stages["generate"])
        matching = Matching(self.manifest.settings["matching"])
        for stored in window:
            query = stored.case.query
            first = retrieved.get((stored.number, retrieve_key(retrieve_identity, query)))
            texts = b"" if first is None else first.texts
            second = generated.get((stored.number, generate_key(generate_identity, query, texts)))
            if first is not None and first.status == Status.FAILED:
                second = first
            turn = Turn(
                stored,
                Trace(
                    case=stored.case,
                    retrieval=self._outcome(first, NO_RETRIEVAL, self._retrieval),
                    generation=self._outcome(second, NO_GENERATION, _generation),
                ),
                b"" if first is None else first.digest,
                b"" if second is None else second.digest,
            )
            keys = cell_keys(turn, matching)
            found = [
                cells.get((stored.number, column.identity, keys[column.reads_answer]))
                for column in columns
            ]
            yield TracedCase(turn.trace, tuple(found), stored.digest)

    def _retrieval(self, stored: StoredOutcome) -> Any:
        if self.with_texts:
            return decode_retrieval(self.journal.texts(stored.texts), stored.body)
        return decode_retrieval([""] * (len(stored.texts) // SIZE), stored.body)

    @staticmethod
    def _outcome(
        stored: StoredOutcome | None, absent: str, decode: Callable[[StoredOutcome], Any]
    ) -> Outcome[Any]:
        if stored is None:
            return Outcome(status=Status.SKIPPED, reason=absent)
        if stored.status == Status.FAILED:
            failure = decode_failure(stored.body)
            return Outcome(status=stored.status, failure=failure, seconds=stored.seconds)
        return Outcome(status=stored.status, value=decode(stored), seconds=stored.seconds)


def _generation(stored: StoredOutcome) -> Any:
    return decode_generation(stored.body)
