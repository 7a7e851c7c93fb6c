"""A case with the outcomes of its stages: as metrics see it, in the loop, and as a row for RAGAS.

`Trace` is what metrics read, `Entry` what a source yields, `RunCase` what the loop works on.
"""

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
"""The stages in the order in which a case goes through them, each with its field of `Trace`."""


class Trace(Record):
    """One case of a run, with the outcome of each stage that it went through."""

    case: Case
    retrieval: Outcome[RetrievalResult[Any]]
    """The chunks that the RAG retrieved. Skipped for a RAG that only generates."""
    generation: Outcome[GenerationResult[Any]]
    """The answer that the RAG generated. Skipped for a RAG that only retrieves."""
    post_retrieval: Outcome[RetrievalResult[Any]] | None = None
    """The chunks after post-retrieval; None when the run has no such stage."""
    validation: Outcome[Verdict] | None = None
    """The verdict on the chunks that generation was given; None when the run has no such stage."""
    location: Outcome[GoldSearch] | None = None
    """Where the gold is that retrieval should have found; None when the run has no such stage."""

    @property
    def context(self) -> Outcome[RetrievalResult[Any]]:
        """The chunks that generation was given: post-retrieval's outcome, or else retrieval's.

        Metrics of contexts judge these, and not what an operator dropped.
        """
        if self.post_retrieval is None:
            return self.retrieval
        return self.post_retrieval

    @property
    def stages(self) -> list[tuple[str, Outcome[Any]]]:
        """The stages that the case went through, in order, each with its outcome.

        The names are those of journals and reports: ``"retrieve"``, ``"generate"`` ...
        """
        stages: list[tuple[str, Outcome[Any]]] = []
        for stage, field_name in STAGES.items():
            outcome = getattr(self, field_name)
            if outcome is not None:
                stages.append((stage, outcome))
        return stages


class Entry(Record):
    """A record of a source: a case with the outcomes that the source recorded."""

    case: Case
    recorded: Mapping[str, Outcome[Any]]
    """By stage: ``"retrieve"``, ``"locate"``, ``"post_retrieve"``, ``"validate"``,
    ``"generate"``; empty for a dataset. A stage's recorded outcome is not asked for again."""

    @property
    def id(self) -> str:
        """The id of the entry's case, by which readers name it in messages."""
        return self.case.id


class StageOutcome(NamedTuple):
    """A stage's outcome for a case, with the digests that are in the keys of later stages."""

    outcome: Outcome[Any]
    texts: bytes
    """Digests of the context texts, concatenated."""
    digest: bytes
    """Digest of the whole output."""


@dataclass(slots=True)
class RunCase:
    """A case of a run on its way through the stages, or read back from the journal."""

    number: int
    """Its number in the journal; a case id has the same number in every run of that journal."""
    case: Case
    digest: bytes
    """Digest of the whole case, its id included."""
    settled: dict[str, StageOutcome] = field(default_factory=dict[str, StageOutcome])
    """The outcomes so far, by stage."""
    cells: tuple[Cell | None, ...] = ()
    """One per metric of the run; None where it has not been computed."""
    judgements: tuple[tuple[Judgement, ...], ...] = ()
    """The judgements that each cell is made of, in the order of the cells."""
    matches: Mapping[str, Matched] = field(default_factory=dict[str, Matched])
    """Which chunks are relevant contexts, by the stage that gave the chunks."""
    attribution: Attribution | None = None
    """Why it went right or wrong; None where that is not stored."""
    _trace: Trace | None = None
    """The trace, once it was made."""

    @property
    def trace(self) -> Trace:
        """The case with its outcomes, as metrics read it.

        Only to be read once retrieval and generation are settled: the trace is made at the first
        reading and kept, so that a later outcome does not get into it.
        """
        if self._trace is None:
            outcomes: dict[str, Any] = {}
            for stage, stage_outcome in self.settled.items():
                outcomes[STAGES[stage]] = stage_outcome.outcome
            self._trace = Trace(case=self.case, **outcomes)
        return self._trace


class SampleRow(Record):
    """One case as a sample for RAGAS: the fields of ragas 0.4.3's ``SingleTurnSample``.

    None always means "not known": not given, not reached, or failed. Lists are the same objects as
    in the case and its outcomes; what a RAG returned was checked when it was returned.

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
        """All twelve fields of the sample by name, in order; the values are the row's own objects.

        Names and order are those of RAGAS, and of exported tables.
        """
        return structs.asdict(self)


def sample_row(trace: Trace) -> SampleRow:
    """The sample for RAGAS of one case of a run.

    A stage that failed or was skipped leaves its fields None, never empty: an empty list means
    that retrieval found nothing. An abstention is a response like any other.
    Exports and judges of RAGAS read it.
    """
    case = trace.case
    # The contexts that generation was given: they are what RAGAS means by retrieved contexts.
    retrieval = trace.context.value
    generation = trace.generation.value
    references = case.references
    contexts: Sequence[str] | None = None
    context_ids: Sequence[str] | None = None
    if retrieval is not None:
        context_ids = retrieval.context_ids
        # The texts of ids alone are empty in place of unknown ones: they must not be judged.
        if not retrieval.is_ids_alone:
            contexts = retrieval.contexts
    response: str | None = None
    multi_responses: Sequence[str] | None = None
    if generation is not None:
        response = generation.response
        multi_responses = generation.multi_responses
    reference: str | None = None
    if references:
        reference = references[0]
    return SampleRow(
        user_input=case.query,
        retrieved_contexts=contexts,
        reference_contexts=case.reference_contexts,
        retrieved_context_ids=context_ids,
        reference_context_ids=reference_ids(case),
        response=response,
        multi_responses=multi_responses,
        reference=reference,
        rubrics=_rubrics(case.metadata.get("rubrics")),
        persona_name=_text(case.metadata.get("persona_name")),
        query_style=_text(case.metadata.get("query_style")),
        query_length=_text(case.metadata.get("query_length")),
    )


def reference_ids(case: Case) -> Sequence[str] | None:
    """The ids of the chunks or documents that hold the answer, as RAGAS calls them reference ids.

    Without such ids, those with a grade above 0; None when neither is known.
    """
    if case.reference_context_ids is not None or case.grades is None:
        return case.reference_context_ids
    return list(case.relevant_ids)


def _text(value: object) -> str | None:
    """A field of the case's record for a RAGAS sample if it is a text, else None.

    RAGAS refuses a sample with any other kind.
    """
    if isinstance(value, str):
        return value
    return None


def _rubrics(value: object) -> Mapping[str, str] | None:
    """A field of the case's record if it is what RAGAS calls rubrics, else None.

    Rubrics map the name of each grade to its meaning, both texts; RAGAS refuses anything else.
    """
    if not isinstance(value, Mapping):
        return None
    for grade, meaning in cast("Mapping[object, object]", value).items():
        if not isinstance(grade, str) or not isinstance(meaning, str):
            return None
    return cast("Mapping[str, str]", value)
