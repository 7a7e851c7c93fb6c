"""The case with the outcomes of all its stages; as RAGAS' twelve fields.

ragas' own ``SingleTurnSample`` drops unknown keys in silence, takes ids of any type and never
compares lengths. This row checks all of that, and costs no import of ragas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from numbers import Integral
from typing import Any, cast

from ragbench.core.case import Case
from ragbench.core.matched import GoldSearch
from ragbench.core.outcome import Outcome
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.validation import Verdict
from ragbench.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """One case of a run, with the outcome of each stage that it went through."""

    case: Case
    retrieval: Outcome[RetrievalResult[Any]]
    """What the RAG's retrieval gave. A RAG that only generates: skipped."""
    generation: Outcome[GenerationResult[Any]]
    """What the RAG's generation gave. A RAG that only retrieves: skipped."""
    post_retrieval: Outcome[RetrievalResult[Any]] | None = None
    """What stood after post-retrieval; None when the run has no such stage."""
    validation: Outcome[Verdict] | None = None
    """The verdict on what generation was given; None when the run has no such stage."""
    location: Outcome[GoldSearch] | None = None
    """Where the gold is that retrieval should have found; None when the run has no such stage."""

    @property
    def context(self) -> Outcome[RetrievalResult[Any]]:
        """What generation was given: post-retrieval's outcome, or else retrieval's."""
        return self.retrieval if self.post_retrieval is None else self.post_retrieval


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """What a source gives: a case with the outcomes that are already known."""

    case: Case
    recorded: Mapping[str, Outcome[Any]]
    """By stage: ``"retrieve"``, ``"locate"``, ``"post_retrieve"``, ``"validate"``,
    ``"generate"``; empty for a dataset. A stage's recorded outcome is not asked for again."""

    @property
    def id(self) -> str:
        return self.case.id


_TEXT_FIELDS = (
    "user_input", "response", "reference", "persona_name", "query_style", "query_length",
)  # fmt: skip
_LIST_FIELDS = ("retrieved_contexts", "reference_contexts", "multi_responses")
_STRINGS = frozenset({str})
_ID_FIELDS = ("retrieved_context_ids", "reference_context_ids")


class SampleRowError(InputError):
    """A value cannot stand in a sample row."""

    def __init__(self, field: str, problem: str, *, case: str | None = None) -> None:
        self.field = field
        self.problem = problem
        self.case = case
        place = "" if case is None else f"case '{case}': "
        super().__init__(f"{place}field '{field}': {problem}")


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleRow:
    """What RAGAS can be told of one case: the fields of ragas 0.4.3's ``SingleTurnSample``.

    None always means "not known": not given, not reached, or failed. Lists are kept as the objects
    that were given.

    Example:
        >>> SampleRow(user_input="Capital of France?", response="Paris").reference is None
        True

    Raises:
        SampleRowError: a value has the wrong type, or there are not as many
            ``retrieved_context_ids`` as ``retrieved_contexts``.
    """

    user_input: str | None = None
    """What the RAG was asked."""
    retrieved_contexts: Sequence[str] | None = None
    """The texts that generation was given, best first."""
    reference_contexts: Sequence[str] | None = None
    """Texts that hold the answer."""
    retrieved_context_ids: Sequence[str] | None = None
    """An id for each of ``retrieved_contexts``."""
    reference_context_ids: Sequence[str] | None = None
    """Ids of the chunks or documents that hold the answer."""
    response: str | None = None
    """The generated answer."""
    multi_responses: Sequence[str] | None = None
    """Candidate answers, best first."""
    reference: str | None = None
    """The right answer."""
    rubrics: Mapping[str, str] | None = None
    """What each grade of a judge means, by its name."""
    persona_name: str | None = None
    """Who is asking, where the query was made for a persona."""
    query_style: str | None = None
    """The query's style, such as ``"formal"``."""
    query_length: str | None = None
    """The query's length class, such as ``"short"``."""

    def __post_init__(self) -> None:
        for name in _TEXT_FIELDS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise SampleRowError(name, f"must be a string, not {_kind(value)}")
        for name in (*_LIST_FIELDS, *_ID_FIELDS):
            _check_strings(name, getattr(self, name))
        _check_rubrics(self.rubrics)
        ids, contexts = self.retrieved_context_ids, self.retrieved_contexts
        if ids is not None and contexts is not None and len(ids) != len(contexts):
            raise SampleRowError(
                "retrieved_context_ids",
                f"has {len(ids)} ids for {len(contexts)} retrieved_contexts",
            )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], *, case: str | None = None) -> SampleRow:
        """A row from a mapping, such as a parsed line of a RAGAS file."""
        for key in values:
            if key not in _FIELDS:
                raise SampleRowError(str(key), _unknown(key), case=case)
        named = dict(values)
        try:
            for name in _ID_FIELDS:
                named[name] = _normalise_ids(name, values.get(name))
            return cls(**named)
        except SampleRowError as error:
            raise SampleRowError(error.field, error.problem, case=case) from None

    def as_mapping(self) -> dict[str, Any]:
        """All twelve fields by name, in order; the values are the row's own objects."""
        return {name: getattr(self, name) for name in _FIELDS}


_FIELDS = tuple(field.name for field in fields(SampleRow))


def sample_row(trace: Trace) -> SampleRow:
    """The row of one case of a run.

    A stage that failed or was skipped leaves its fields None, never empty: an empty list means
    that retrieval found nothing. An abstention is a response like any other.
    """
    case = trace.case
    retrieved = trace.context.value
    generated = trace.generation.value
    references = case.references
    try:
        return SampleRow(
            user_input=case.query,
            retrieved_contexts=None if retrieved is None else retrieved.contexts,
            reference_contexts=case.reference_contexts,
            retrieved_context_ids=None
            if retrieved is None
            else _normalise_ids("retrieved_context_ids", retrieved.context_ids),
            reference_context_ids=_normalise_ids("reference_context_ids", _reference_ids(case)),
            response=None if generated is None else generated.response,
            multi_responses=None if generated is None else generated.multi_responses,
            reference=references[0] if references else None,
            rubrics=_rubrics(case.metadata.get("rubrics")),
            persona_name=_text(case.metadata.get("persona_name")),
            query_style=_text(case.metadata.get("query_style")),
            query_length=_text(case.metadata.get("query_length")),
        )
    except SampleRowError as error:
        raise SampleRowError(error.field, error.problem, case=case.id) from None


def normalise_id(value: object) -> str:
    """An id as a string: whole numbers are spelled out, strings stay as they are."""
    if isinstance(value, str):
        return value
    # bool is a whole number to Python; numpy's integers are none of `int`, but are Integral.
    if not isinstance(value, bool) and isinstance(value, Integral):
        return str(int(value))
    raise TypeError(f"an id must be a string or a whole number, not {_kind(value)}")


def _normalise_ids(name: str, values: object) -> Sequence[str] | None:
    if values is None:
        return None
    listed = _sequence(name, values)
    if _all_exact_strings(listed) or all(isinstance(value, str) for value in listed):
        return cast("Sequence[str]", listed)
    normal: list[str] = []
    for position, value in enumerate(listed):
        try:
            normal.append(normalise_id(value))
        except TypeError as error:
            raise SampleRowError(name, f"element {position}: {error}") from None
    return normal


def _reference_ids(case: Case) -> Sequence[str] | None:
    """The reference ids, or else those that the grades call relevant."""
    if case.reference_context_ids is not None or case.grades is None:
        return case.reference_context_ids
    return [id_ for id_, grade in case.grades.items() if grade > 0]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _rubrics(value: object) -> Mapping[str, str] | None:
    try:
        _check_rubrics(value)
    except SampleRowError:
        return None
    return cast("Mapping[str, str] | None", value)


def _check_rubrics(value: object) -> None:
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise SampleRowError("rubrics", f"must be a mapping, not {_kind(value)}")
    for key, text in cast("Mapping[object, object]", value).items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise SampleRowError("rubrics", f"must map strings to strings; see key {key!r}")


def _check_strings(name: str, value: object) -> None:
    if value is None:
        return
    listed = _sequence(name, value)
    if _all_exact_strings(listed):
        return
    for position, item in enumerate(listed):
        if not isinstance(item, str):
            raise SampleRowError(name, f"element {position} must be a string, not {_kind(item)}")


def _all_exact_strings(values: Sequence[object]) -> bool:
    # One pass in C: this is where nearly all values end. Subclasses of str take the slow way.
    return _STRINGS.issuperset(map(type, values))


def _sequence(name: str, value: object) -> Sequence[object]:
    # list and tuple are checked first: an abstract Sequence check costs ten times as much.
    if isinstance(value, (list, tuple)):
        return cast("Sequence[object]", value)
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise SampleRowError(name, f"must be a list of strings, not {_kind(value)}")
    return cast("Sequence[object]", value)


def _unknown(key: object) -> str:
    close = get_close_matches(str(key), _FIELDS, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"is not a field of a sample.{hint} Known: {', '.join(_FIELDS)}"


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
