"""What a RAG returns for one query: interface V2's two results.

Both keep references to what they are given and copy nothing. Construction checks what can be
checked without walking the lists; the elements are checked once, where a result enters ragbench
(`ragbench.rag.fallback`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, FrozenInstanceError, dataclass, fields
from difflib import get_close_matches
from typing import Any, Generic, Self, TypeAlias, cast

from typing_extensions import TypeVar

from ragbench.core.chunk import Chunk
from ragbench.errors import InterfaceError

Metadata: TypeAlias = Mapping[str, Any]
"""Metadata of no particular type: any keys, any values."""

MetaT = TypeVar("MetaT", default=Metadata, covariant=True)
"""The user's own type of metadata; any mapping when not given. Results are frozen, so that one with
a ``dict`` will do where one with a ``Mapping`` is expected."""
_GivenT = TypeVar("_GivenT", default=Metadata)


class _Result:
    """What both results can be turned into, and made of."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields that are known, by name, as they are: nothing is copied or converted."""
        found = {one.name: getattr(self, one.name) for one in fields(cast("Any", self))}
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """The reverse of `to_dict`: builds a result of fields by name; None is "not known".

        Raises:
            InterfaceError: ``contexts`` or ``response`` is missing, or a key is not a field.
        """
        made: Any = cls
        names = [one.name for one in fields(made)]
        if values.get(names[0]) is None:
            raise InterfaceError(f"a {cls.__name__} needs '{names[0]}'; there are {sorted(values)}")
        for key in values:
            if key not in names:
                close = get_close_matches(key, names, n=1)
                hint = f"did you mean '{close[0]}'?" if close else "other things go into 'metadata'"
                raise InterfaceError(f"a {cls.__name__} has no field '{key}': {hint}")
        result: Self = made(**values)
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

    A list of mappings as ``metadata``, one a context, is taken as ``context_metadata``.
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
        if not isinstance(self.contexts, list):
            _check_sequence("contexts", self.contexts)
        size = len(self.contexts)
        metadata: object = self.metadata
        if isinstance(metadata, (list, tuple)):
            # Old systems give a mapping a context where one of the whole retrieval is expected.
            if self.context_metadata is None:
                spread = self._spread(cast("Sequence[object]", metadata), size)
                object.__setattr__(self, "context_metadata", spread)
                object.__setattr__(self, "metadata", None)
            else:
                raise InterfaceError(
                    "metadata must be a mapping, not a list, where context_metadata is given"
                )
        for name in ("context_ids", "scores", "context_metadata"):
            given = cast("Sequence[Any] | None", getattr(self, name))
            # As it should be, it costs no call.
            if given is not None and (not isinstance(given, list) or len(given) != size):
                _check_sequence(name, given, size)

    @staticmethod
    def _spread(given: Sequence[object], size: int) -> list[Mapping[str, Any]]:
        """A mapping a context, of a list that was given as metadata."""
        found: list[Mapping[str, Any]] = []
        for position, one in enumerate(given):
            if one is not None and not isinstance(one, Mapping):
                raise InterfaceError(
                    f"metadata[{position}] must be a mapping, not {kind_of(one)}: a list of "
                    "metadata holds one a context"
                )
            found.append({} if one is None else cast("Mapping[str, Any]", one))
        if len(found) != size:
            raise InterfaceError(
                f"metadata is a list of {len(found)} for {size} contexts: give a mapping a "
                "context, or one mapping for all"
            )
        return found

    @property
    def is_ids_alone(self) -> bool:
        """Whether its chunks have ids and none has a text: their texts are not known."""
        return self.context_ids is not None and bool(self.contexts) and not any(self.contexts)

    def __len__(self) -> int:
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

    @staticmethod
    def from_chunks(
        chunks: Sequence[Chunk], *, metadata: _GivenT | None = None
    ) -> RetrievalResult[_GivenT]:
        """A result of chunks, best first. Scores are kept only when every chunk has one."""
        scores = [chunk.score for chunk in chunks if chunk.score is not None]
        return RetrievalResult(
            [chunk.text for chunk in chunks],
            context_ids=[chunk.id for chunk in chunks],
            scores=scores if len(scores) == len(chunks) else None,
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
        if not isinstance(self.response, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InterfaceError(f"response must be a string, not {kind_of(self.response)}")
        if self.multi_responses is not None:
            _check_sequence("multi_responses", self.multi_responses)
        if self.confidence is not None:
            _check_confidence(self.confidence)
        flag: object = self.abstained
        if flag is not None and flag is not True and flag is not False:
            raise InterfaceError(f"abstained must be True, False or None, not {flag!r}")

    @property
    def candidates(self) -> Sequence[str]:
        """``multi_responses``, or the response alone."""
        return self.multi_responses if self.multi_responses else (self.response,)


def _refuse(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field '{name}'")


# What Python 3.11's dataclass writes into a frozen class with slots raises TypeError for names that
# are not fields, and typing sets one: RetrievalResult[MyMeta](...) could not be built.
for _class in (RetrievalResult, GenerationResult):
    _class.__setattr__ = _refuse  # type: ignore[method-assign]


def _check_confidence(value: Any) -> None:
    try:
        # Also false for NaN.
        inside = bool(0.0 <= value <= 1.0)
    except (TypeError, ValueError):
        raise InterfaceError(f"confidence must be a number, not {kind_of(value)}") from None
    if not inside:
        raise InterfaceError(f"confidence must lie in [0, 1], not {value!r}")


def _check_sequence(name: str, value: object, size: int | None = None) -> None:
    # list and tuple are checked first: an abstract Sequence check costs ten times as much.
    if not isinstance(value, (list, tuple)) and (
        isinstance(value, (str, bytes)) or not isinstance(value, Sequence)
    ):
        hint = "; call its tolist()" if hasattr(value, "tolist") else ""
        raise InterfaceError(f"{name} must be a list, not {kind_of(value)}{hint}")
    found = len(cast("Sequence[object]", value))
    if size is not None and found != size:
        raise InterfaceError(f"{name} has {found} elements for {size} contexts")


def kind_of(value: object) -> str:
    """What a value is, for a message: ``None`` or ``a list``."""
    return "None" if value is None else f"a {type(value).__name__}"
