"""A case's turn at scoring, and the keys that its cells are kept under."""

from __future__ import annotations

from typing import NamedTuple

from ragbench.records.metrics import Metric, Need
from ragbench.runs.fingerprint import fixed_digest
from ragbench.runs.journal import StoredCase
from ragbench.runs.trace import Trace
from ragbench.scoring.matching import Matching

__all__ = ["Column", "Turn", "cell_keys"]

_GENERATED = frozenset(
    {
        Need.RESPONSE,
        Need.MULTI_RESPONSES,
        Need.CONFIDENCE,
        Need.TOKENS,
        Need.GENERATION_LATENCY,
    }
)


class Turn(NamedTuple):
    """A case's turn at scoring."""

    stored: StoredCase
    trace: Trace
    retrieved: bytes
    """Digest of what was retrieved."""
    generated: bytes
    """Digest of what was generated."""


class Column(NamedTuple):
    """A metric's place in the journal."""

    metric: Metric
    identity: str
    """The metric's own, under which its cells are stored."""
    reads_answer: bool
    """Whether its cells depend on what was generated."""
    judge: bytes = b""
    """What its cells depend on beside the case; empty for one that nobody judges."""

    @classmethod
    def of(cls, metric: Metric, judge: bytes = b"") -> Column:
        """The column of a metric."""
        needs, abstains = metric.definition.needs, metric.definition.abstains
        reads_answer = abstains or not needs.isdisjoint(_GENERATED)
        return cls(metric, metric.identity, reads_answer, judge)

    def key(self, keys: tuple[bytes, bytes]) -> bytes:
        """The key of the column's cell.

        Args:
            keys: those of the case; see `cell_keys`.
        """
        key = keys[self.reads_answer]
        return fixed_digest(key, self.judge) if self.judge else key


def cell_keys(turn: Turn, matching: Matching) -> tuple[bytes, bytes]:
    """Digests of all that a cell depends on, besides the metric itself.

    Returns:
        The key of metrics that read no answer, which keep their cells when only the answers
        change, and the key of those that do. `Column.reads_answer` is the index.
    """
    question = fixed_digest(turn.stored.digest, turn.retrieved, matching.encode())
    return question, fixed_digest(question, turn.generated)
