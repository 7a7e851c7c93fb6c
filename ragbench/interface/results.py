"""What a RAG returns for one query: interface V2's two results.

Both keep references to what they are given and copy nothing. Construction checks what can be
checked without walking the lists; the elements are checked once, where a result enters ragbench
(`ragbench.interface.coerce`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, Self

from typing_extensions import TypeVar

from ragbench.errors import InterfaceError
from ragbench.records.corpus import Chunk

__all__ = ["GenerationResult", "MetaT", "RetrievalResult"]

MetaT = TypeVar("MetaT", default=Mapping[str, Any])
"""The user's own type of metadata; any mapping when not given."""


@dataclass(frozen=True, slots=True)
class RetrievalResult(Generic[MetaT]):
    """What retrieval returned for one query, best first.

    Example:
        >>> RetrievalResult(["Paris is the capital."], context_ids=["fr-1"], scores=[0.93])
        RetrievalResult(contexts=['Paris is the capital.'], context_ids=['fr-1'], scores=[0.93], \
context_metadata=None, metadata=None)

    Raises:
        InterfaceError: ``contexts`` is a bare string or no sequence, or lengths disagree.
    """

    contexts: Sequence[str]
    """The texts, best first. The same object that was given."""
    _: KW_ONLY
    context_ids: Sequence[str] | None = None
    """A unique id a context, usable as ``retrieved_context_ids`` in RAGAS."""
    scores: Sequence[float] | None = None
    """A similarity a context, higher is better."""
    context_metadata: Sequence[Mapping[str, Any]] | None = None
    """A mapping a context: source, time, page ..."""
    metadata: MetaT | None = None
    """What belongs to the retrieval as a whole. Any keys; its type is yours."""

    def __post_init__(self) -> None:
        """Checks shapes and lengths, not elements."""
        _check_sequence("contexts", self.contexts)
        size = len(self.contexts)
        if self.context_ids is not None:
            _check_length("context_ids", self.context_ids, size)
        if self.scores is not None:
            _check_length("scores", self.scores, size)
        if self.context_metadata is not None:
            _check_length("context_metadata", self.context_metadata, size)

    def __len__(self) -> int:
        """How many contexts there are."""
        return len(self.contexts)

    def __bool__(self) -> bool:
        """Always true: a retrieval that found nothing is still a result."""
        return True

    def to_chunks(self) -> list[Chunk]:
        """The contexts as chunks; one without an id is named by its position, from ``"0"``."""
        return [
            Chunk(
                id=str(position) if self.context_ids is None else self.context_ids[position],
                text=text,
                score=None if self.scores is None else self.scores[position],
                metadata={} if self.context_metadata is None else self.context_metadata[position],
            )
            for position, text in enumerate(self.contexts)
        ]

    @classmethod
    def from_chunks(cls, chunks: Sequence[Chunk], *, metadata: MetaT | None = None) -> Self:
        """A result of chunks, best first. Scores are kept only when every chunk has one."""
        scores = [chunk.score for chunk in chunks if chunk.score is not None]
        return cls(
            [chunk.text for chunk in chunks],
            context_ids=[chunk.id for chunk in chunks],
            scores=scores if len(scores) == len(chunks) else None,
            context_metadata=[chunk.metadata for chunk in chunks],
            metadata=metadata,
        )


@dataclass(frozen=True, slots=True)
class GenerationResult(Generic[MetaT]):
    """What generation returned for one query.

    Example:
        >>> GenerationResult("Paris", multi_responses=["Paris", "Lyon"], confidence=0.8).response
        'Paris'

    Raises:
        InterfaceError: ``response`` is no string, ``multi_responses`` is a bare string, or
            ``confidence`` is outside [0, 1].
    """

    response: str
    """The answer."""
    _: KW_ONLY
    multi_responses: Sequence[str] | None = None
    """Candidate answers, best first; ``response`` may be among them."""
    confidence: float | None = None
    """How sure the system is of ``response``, in [0, 1]."""
    abstained: bool | None = None
    """True when the system declines to answer, False when it answers; None leaves it to be
    recognised from the response's wording."""
    metadata: MetaT | None = None
    """Tokens, times, model ... Any keys; its type is yours."""

    def __post_init__(self) -> None:
        """Checks types and the range of the confidence."""
        if not isinstance(self.response, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InterfaceError(f"response must be a string, not {_kind(self.response)}")
        if self.multi_responses is not None:
            _check_sequence("multi_responses", self.multi_responses)
        confidence = self.confidence
        # `not (0 <= x <= 1)` is also true for NaN.
        if confidence is not None and not (0.0 <= confidence <= 1.0):
            raise InterfaceError(f"confidence must lie in [0, 1], not {confidence!r}")

    @property
    def candidates(self) -> Sequence[str]:
        """``multi_responses``, or the response alone."""
        return self.multi_responses if self.multi_responses else (self.response,)


def _check_sequence(name: str, value: object) -> None:
    # list and tuple are checked first: an abstract Sequence check costs ten times as much.
    if isinstance(value, (list, tuple)):
        return
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise InterfaceError(f"{name} must be a list, not {_kind(value)}")


def _check_length(name: str, value: Sequence[object], size: int) -> None:
    _check_sequence(name, value)
    if len(value) != size:
        raise InterfaceError(f"{name} has {len(value)} elements for {size} contexts")


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
