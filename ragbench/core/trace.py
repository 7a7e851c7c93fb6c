"""The case with the outcomes of all its stages; as RAGAS' twelve fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from msgspec import structs

from ragbench.core.attribution import Attribution
from ragbench.core.case import Case
from ragbench.core.matched import GoldSearch, Matched
from ragbench.core.outcome import Cell, Judgement, Outcome
from ragbench.core.record import Record
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.validation import Verdict

STAGES = {
    "retrieve": "retrieval",
    "locate": "location",
    "post_retrieve": "post_retrieval",
    "validate": "validation",
    "generate": "generation",
}
"""In the order in which a case goes through them, each with the field of its outcome."""


class Trace(Record):
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

    @property
    def stages(self) -> list[tuple[str, Outcome[Any]]]:
        """The stages that the case went through, in order, each with how it ended."""
        before, after = (self.retrieval, self.location), (self.validation, self.generation)
        each = zip(STAGES, (*before, self.post_retrieval, *after), strict=True)
        return [(stage, outcome) for stage, outcome in each if outcome is not None]


class Entry(Record):
    """A record of a source: a case with the outcomes that are already known."""

    case: Case
    recorded: Mapping[str, Outcome[Any]]
    """By stage: ``"retrieve"``, ``"locate"``, ``"post_retrieve"``, ``"validate"``,
    ``"generate"``; empty for a dataset. A stage's recorded outcome is not asked for again."""

    @property
    def id(self) -> str:
        return self.case.id


class StageOutcome(NamedTuple):
    """A stage's outcome for a case, and what work downstream depends on."""

    outcome: Outcome[Any]
    texts: bytes
    """Digests of the context texts, one behind the other."""
    digest: bytes
    """Digest of the whole output."""


@dataclass(slots=True)
class RunCase:
    """A case of a run on its way through the stages, or read back from the journal."""

    number: int
    """In the journal; stays the same for a case id as long as that lives."""
    case: Case
    digest: bytes
    """Of the case: its id and all that is known of it."""
    settled: dict[str, StageOutcome] = field(default_factory=dict[str, StageOutcome])
    """What each stage gave so far, by its name."""
    cells: tuple[Cell | None, ...] = ()
    """One per metric of the run; None where it has not been computed."""
    judgements: tuple[tuple[Judgement, ...], ...] = ()
    """What each cell rests on, in the same order."""
    matches: Mapping[str, Matched] = field(default_factory=dict[str, Matched])
    """Which chunks are relevant contexts, by the stage that gave them."""
    attribution: Attribution | None = None
    """What became of it, where that is stored."""
    _trace: Trace | None = None

    @property
    def trace(self) -> Trace:
        """The case with its outcomes; only once retrieval and generation are settled."""
        if self._trace is None:
            outcomes: dict[str, Any] = {
                STAGES[stage]: settled.outcome for stage, settled in self.settled.items()
            }
            self._trace = Trace(case=self.case, **outcomes)
        return self._trace


class SampleRow(Record):
    """What RAGAS is given of one case: the fields of ragas 0.4.3's ``SingleTurnSample``.

    None always means "not known": not given, not reached, or failed. Lists are kept as the objects
    that were given; what a RAG returned was checked when it was returned.

    Example:
        >>> SampleRow(user_input="Capital of France?", response="Paris").reference is None
        True
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

    def as_mapping(self) -> dict[str, Any]:
        """All twelve fields by name, in order; the values are the row's own objects."""
        return structs.asdict(self)


def sample_row(trace: Trace) -> SampleRow:
    """The row of one case of a run.

    A stage that failed or was skipped leaves its fields None, never empty: an empty list means
    that retrieval found nothing. An abstention is a response like any other.
    """
    case = trace.case
    retrieved = trace.context.value
    generated = trace.generation.value
    references = case.references
    contexts: Sequence[str] | None = None
    if retrieved is not None and not retrieved.is_ids_alone:
        contexts = retrieved.contexts
    return SampleRow(
        user_input=case.query,
        retrieved_contexts=contexts,
        reference_contexts=case.reference_contexts,
        retrieved_context_ids=None if retrieved is None else retrieved.context_ids,
        reference_context_ids=reference_ids(case),
        response=None if generated is None else generated.response,
        multi_responses=None if generated is None else generated.multi_responses,
        reference=references[0] if references else None,
        rubrics=_rubrics(case.metadata.get("rubrics")),
        persona_name=_text(case.metadata.get("persona_name")),
        query_style=_text(case.metadata.get("query_style")),
        query_length=_text(case.metadata.get("query_length")),
    )


def reference_ids(case: Case) -> Sequence[str] | None:
    """The reference ids, or else those that the grades call relevant."""
    if case.reference_context_ids is not None or case.grades is None:
        return case.reference_context_ids
    return list(case.relevant_ids)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _rubrics(value: object) -> Mapping[str, str] | None:
    """A dataset's field of that name, where it is what RAGAS calls rubrics."""
    if not isinstance(value, Mapping):
        return None
    rubrics = cast("Mapping[object, object]", value)
    is_text = all(isinstance(part, str) for pair in rubrics.items() for part in pair)
    return cast("Mapping[str, str]", rubrics) if is_text else None
