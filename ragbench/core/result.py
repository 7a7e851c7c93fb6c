"""The two results that a RAG returns for one query: of retrieval, and of generation.

Both keep the objects that they are built of and copy nothing. Construction checks everything that
needs no walk over the lists; the elements are checked once, where a result enters ragbench
(`ragbench.rag.fallback`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, FrozenInstanceError, dataclass, fields
from difflib import get_close_matches
from typing import Any, Generic, Self, TypeAlias, cast

from typing_extensions import TypeVar

from ragbench.core.chunk import Chunk
from ragbench.core.scalars import plain_number, plain_scalar
from ragbench.errors import InterfaceError

Metadata: TypeAlias = Mapping[str, Any]
"""Metadata of no particular type: any keys, any values."""

MetaT = TypeVar("MetaT", default=Metadata, covariant=True)
"""The user's own type of metadata; any mapping when not given. Results are frozen, so that one with
a ``dict`` will do where one with a ``Mapping`` is expected."""
_NewMetaT = TypeVar("_NewMetaT", default=Metadata)
"""The type of metadata of a result that a static method builds."""


class _Result:
    """The conversion of both results to mappings and back."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The result's known fields by name, with the values as they are: nothing is copied.

        Fields that are None are left out. `from_mapping` builds an equal result of it.
        """
        values: dict[str, Any] = {}
        for field in fields(cast("Any", self)):
            value = getattr(self, field.name)
            if value is not None:
                values[field.name] = value
        return values

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """The reverse of `to_dict`: builds a result of fields by name; None is "not known".

        Answers of services, and retrievals that a run stored, come as such mappings.

        Raises:
            InterfaceError: ``contexts`` or ``response`` is missing, or a key is not a field.
        """
        result_type: Any = cls  # for type checkers, which see no dataclass in this base
        names = [field.name for field in fields(result_type)]
        # The first field of each result is the only one that must be there.
        required = names[0]
        if values.get(required) is None:
            raise InterfaceError(f"a {cls.__name__} needs '{required}'; there are {sorted(values)}")
        for key in values:
            if key not in names:
                close = get_close_matches(key, names, n=1)
                hint = "other things go into 'metadata'"
                if close:
                    hint = f"did you mean '{close[0]}'?"
                raise InterfaceError(f"a {cls.__name__} has no field '{key}': {hint}")
        result: Self = result_type(**values)
        return result


@dataclass(frozen=True, slots=True)
class RetrievalResult(_Result, Generic[MetaT]):
    """The result of retrieval for one query, best first.

    Example:
        >>> RetrievalResult(["Paris is the capital."], context_ids=["fr-1"], scores=[0.93])
        RetrievalResult(contexts=['Paris is the capital.'], context_ids=['fr-1'], scores=[0.93], \
context_metadata=None, metadata=None)

    Raises:
        InterfaceError: ``contexts`` is a bare string or no sequence, or lengths disagree.

    A list of mappings as ``metadata``, one per context, is taken as ``context_metadata``.
    """

    contexts: Sequence[str]
    """The texts, best first. The same object that was passed, not a copy."""
    _: KW_ONLY
    context_ids: Sequence[str] | None = None
    """A unique id per context, usable as ``retrieved_context_ids`` in RAGAS."""
    scores: Sequence[float] | None = None
    """A similarity per context, higher is better."""
    context_metadata: Sequence[Mapping[str, Any]] | None = None
    """A mapping per context: source, time, page ..."""
    metadata: MetaT | None = None
    """Facts about the retrieval as a whole. Any keys; its type is yours."""

    def __post_init__(self) -> None:
        """Refuses lists that disagree in length: scores would be those of other contexts.

        A list of mappings as ``metadata`` becomes ``context_metadata``, as old systems return it.
        """
        if not isinstance(self.contexts, list):
            _check_sequence("contexts", self.contexts)
        size = len(self.contexts)
        metadata: object = self.metadata
        if isinstance(metadata, (list, tuple)):
            # Old systems return a mapping per context here, not one for the whole retrieval.
            if self.context_metadata is not None:
                raise InterfaceError(
                    "metadata must be a mapping, not a list, where context_metadata is given"
                )
            per_context = self._mapping_per_context(cast("Sequence[object]", metadata), size)
            # Past `_refuse`: the result is frozen, also for its own class.
            object.__setattr__(self, "context_metadata", per_context)
            object.__setattr__(self, "metadata", None)
        for name in ("context_ids", "scores", "context_metadata"):
            values = cast("Sequence[Any] | None", getattr(self, name))
            # A list of the right length, which is the rule, passes without the cost of a call.
            if values is not None and (not isinstance(values, list) or len(values) != size):
                _check_sequence(name, values, size)

    @staticmethod
    def _mapping_per_context(metadata: Sequence[object], size: int) -> list[Mapping[str, Any]]:
        """The mappings, one per context, of a list that a system gave as metadata.

        Old systems do so. None in the list becomes an empty mapping; raises where the list does not
        fit.

        Args:
            size: number of contexts.
        """
        mappings: list[Mapping[str, Any]] = []
        for position, entry in enumerate(metadata):
            # A context without metadata, and not the end of the list.
            if entry is None:
                mappings.append({})
            elif isinstance(entry, Mapping):
                mappings.append(cast("Mapping[str, Any]", entry))
            else:
                raise InterfaceError(
                    f"metadata[{position}] must be a mapping, not {kind_of(entry)}: a list of "
                    "metadata holds one a context"
                )
        if len(mappings) != size:
            raise InterfaceError(
                f"metadata is a list of {len(mappings)} for {size} contexts: give a mapping a "
                "context, or one mapping for all"
            )
        return mappings

    @property
    def is_ids_alone(self) -> bool:
        """Whether the retrieval's chunks have ids and none has a text: their texts are not known.

        Metrics that read texts are skipped then, instead of judging empty ones.
        """
        return self.context_ids is not None and bool(self.contexts) and not any(self.contexts)

    def __len__(self) -> int:
        """The number of retrieved contexts, also of those whose text is not known."""
        return len(self.contexts)

    def __bool__(self) -> bool:
        """Always true: a retrieval that found nothing is still a result.

        By its length it would be false, and pass for a missing one.
        """
        return True

    def to_chunks(self) -> list[Chunk]:
        """The retrieval's contexts as chunks, which operators take.

        Without ids, a chunk's id is its position, from ``"0"``.
        """
        chunks: list[Chunk] = []
        for position, text in enumerate(self.contexts):
            # Only within this result: another one's first chunk is "0", too.
            id_ = str(position)
            if self.context_ids is not None:
                id_ = self.context_ids[position]
            score: float | None = None
            if self.scores is not None:
                score = self.scores[position]
            metadata: Mapping[str, Any] = {}
            if self.context_metadata is not None:
                metadata = self.context_metadata[position]
            chunks.append(Chunk(id=id_, text=text, score=score, metadata=metadata))
        return chunks

    @staticmethod
    def from_chunks(
        chunks: Sequence[Chunk], *, metadata: _NewMetaT | None = None
    ) -> RetrievalResult[_NewMetaT]:
        """A retrieval of these chunks, best first; it has scores only when every chunk has one.

        A result has scores for all of its contexts or for none.
        """
        scores = [chunk.score for chunk in chunks if chunk.score is not None]
        # For all or for none, as a list with gaps would give scores to other contexts.
        are_all_scored = len(scores) == len(chunks)
        return RetrievalResult(
            [chunk.text for chunk in chunks],
            context_ids=[chunk.id for chunk in chunks],
            scores=scores if are_all_scored else None,
            context_metadata=[chunk.metadata for chunk in chunks],
            metadata=metadata,
        )


@dataclass(frozen=True, slots=True)
class GenerationResult(_Result, Generic[MetaT]):
    """The result of generation for one query.

    Example:
        >>> GenerationResult("Paris", multi_responses=["Paris", "Lyon"], confidence=0.8).response
        'Paris'

    Raises:
        InterfaceError: ``response`` is not a string, ``multi_responses`` is a bare string, or
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
        """Refuses what a score could not be computed of: users' systems build this.

        Numbers and flags of NumPy and the like become Python's own.
        """
        if not isinstance(self.response, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InterfaceError(f"response must be a string, not {kind_of(self.response)}")
        if self.multi_responses is not None:
            _check_sequence("multi_responses", self.multi_responses)
        if self.confidence is not None:
            _check_confidence(self.confidence)
            object.__setattr__(self, "confidence", plain_number(self.confidence))
        abstained: object = plain_scalar(self.abstained)
        object.__setattr__(self, "abstained", abstained)
        if abstained is not None and abstained is not True and abstained is not False:
            raise InterfaceError(f"abstained must be True, False or None, not {abstained!r}")

    @property
    def candidates(self) -> Sequence[str]:
        """All answers that the system offers: ``multi_responses``, or the response alone.

        Metrics of several answers take one answer as a list of one.
        """
        if self.multi_responses:
            return self.multi_responses
        return (self.response,)


def _refuse(self: object, name: str, value: object) -> None:
    """Raises for any assignment to a result: it is the ``__setattr__`` of both frozen results.

    What Python writes into a frozen dataclass with slots raises TypeError for other names, and
    ``RetrievalResult[MyMeta](...)`` could not be built.
    """
    raise FrozenInstanceError(f"cannot assign to field '{name}'")


# What Python 3.11's dataclass writes into a frozen class with slots raises TypeError for names that
# are not fields, and typing sets one: RetrievalResult[MyMeta](...) could not be built.
for _class in (RetrievalResult, GenerationResult):
    _class.__setattr__ = _refuse  # type: ignore[method-assign]


def _check_confidence(value: Any) -> None:
    """Refuses a confidence outside [0, 1], or of a type that cannot be compared with numbers.

    Calibration is measured on confidences as probabilities.
    """
    try:
        is_share = bool(0.0 <= value <= 1.0)  # false for NaN, too
    except (TypeError, ValueError):
        raise InterfaceError(f"confidence must be a number, not {kind_of(value)}") from None
    if not is_share:
        raise InterfaceError(f"confidence must lie in [0, 1], not {value!r}")


def _check_sequence(name: str, value: object, size: int | None = None) -> None:
    """Refuses a field of a result that is no list, or has another length than the contexts.

    A text or an array is no list here. Every result is checked, so the cheap check is first.
    """
    # list and tuple are checked first: an abstract Sequence check costs ten times as much.
    if not isinstance(value, (list, tuple)):
        is_text = isinstance(value, (str, bytes))
        if is_text or not isinstance(value, Sequence):
            hint = "; call its tolist()" if hasattr(value, "tolist") else ""
            raise InterfaceError(f"{name} must be a list, not {kind_of(value)}{hint}")
    actual_size = len(cast("Sequence[object]", value))
    if size is not None and actual_size != size:
        raise InterfaceError(f"{name} has {actual_size} elements for {size} contexts")


def kind_of(value: object) -> str:
    """The kind of a value as error messages call it: ``None``, ``a list``, ``a str``."""
    if value is None:
        return "None"
    return f"a {type(value).__name__}"
