"""Which field of a source means which field of a record: the names that other tools use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from ragbench.errors import ConfigError

CASE_FIELDS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "_id", "qid", "query_id", "case_id", "question_id", "sample_id", "example_id"),
    "query": ("query", "question", "user_input", "input", "prompt", "query_text"),
    "reference": (
        *("reference", "answer", "ground_truth", "ground_truths", "expected_output"),
        *("expected_answer", "ideal", "reference_answer", "gold_answer", "correct_answer"),
    ),
    "answers": ("answers", "reference_answers", "gold_answers", "references"),
    "alternative_references": (
        *("alternative_references", "alternative_answers", "answer_aliases"),
        "acceptable_answers",
    ),
    "reference_contexts": (
        *("reference_contexts", "reference_context", "ground_truth_contexts"),
        *("ground_truth_context", "gold_contexts", "gold_context", "relevant_contexts"),
        *("gold_passages", "relevant_passages"),
    ),
    "reference_context_ids": (
        *("reference_context_ids", "reference_context_id", "relevant_ids", "gold_ids"),
        *("gold_context_ids", "gold_doc_ids", "relevant_doc_ids", "relevant_document_ids"),
        *("relevant_context_ids", "ground_truth_context_ids", "expected_context_ids"),
        *("positive_ids", "positive_doc_ids", "positive_passage_ids", "ground_truth_ids"),
        *("gold_chunk_ids", "gold_passage_ids", "relevant_chunk_ids", "relevant_passage_ids"),
    ),
    "grades": ("grades", "qrels", "relevance_judgements", "relevance_judgments"),
    "evidence": ("evidence",),
    "answerable": ("answerable", "is_answerable"),
    "unanswerable": ("unanswerable", "is_impossible", "is_unanswerable"),
    "cluster": ("cluster", "cluster_id", "group", "group_id", "document_id", "doc_id"),
    "tags": ("tags", "tag"),
    "language": ("language", "lang"),
    "metadata": ("metadata",),
}
"""Field of a case (or ``answers``, ``unanswerable``) to the names recognised for it.

Names are compared without case, spaces, ``_``, ``-`` and ``.``.
"""

OUTCOME_FIELDS: Mapping[str, tuple[str, ...]] = {
    "response": (
        *("response", "actual_output", "generated_answer", "generated_response"),
        *("generated_text", "model_answer", "model_response", "model_output", "system_answer"),
        *("system_response", "system_output", "rag_answer", "rag_response", "bot_answer"),
        *("bot_response", "llm_answer", "llm_response", "llm_output", "predicted_answer"),
        "prediction",
    ),
    "multi_responses": ("multi_responses", "candidate_responses", "candidate_answers"),
    "retrieved_contexts": (
        *("retrieved_contexts", "retrieved_context", "retrieval_context", "contexts"),
        *("retrieved_documents", "retrieved_docs", "retrieved_passages", "retrieved_chunks"),
        *("retrieved_texts", "source_documents", "source_nodes", "chunks"),
    ),
    "retrieved_context_ids": (
        *("retrieved_context_ids", "retrieved_ids", "retrieved_doc_ids"),
        *("retrieved_document_ids", "retrieved_chunk_ids"),
    ),
    "retrieved_scores": ("retrieved_scores", "retrieved_context_scores", "retrieval_scores"),
    "confidence": ("confidence",),
    "abstained": ("abstained", "is_refusal"),
    "error": ("error", "error_message", "exception", "generation_error"),
    "retrieval_error": ("retrieval_error",),
    "seconds": (
        *("seconds", "generation_seconds", "latency_seconds", "latency_s", "duration_seconds"),
        "response_seconds",
    ),
    "milliseconds": (
        *("milliseconds", "generation_ms", "latency_ms", "duration_ms", "response_time_ms"),
        "generation_latency_ms",
    ),
    "retrieval_seconds": ("retrieval_seconds", "retrieval_latency_seconds"),
    "retrieval_milliseconds": (
        *("retrieval_milliseconds", "retrieval_ms", "retrieval_latency_ms", "retrieval_time_ms"),
    ),
    "usage": ("usage", "token_usage", "usage_metadata"),
    "prompt_tokens": ("prompt_tokens", "input_tokens"),
    "completion_tokens": ("completion_tokens", "output_tokens", "response_tokens"),
    "total_tokens": ("total_tokens",),
}
"""What a system did with a case, and the names recognised for it.

A time counts only where its name says the unit. What stands beside an answer (all but the first
five) counts only where there is an answer or a retrieval in the same record.
"""

HIT_FIELDS: Mapping[str, str] = {
    "chunk_id": "id",
    "chunk_text": "text",
    "chunk_score": "score",
    "chunk_metadata": "metadata",
}
"""What only a user's mapping names: a path in a retrieved chunk that is an object, and the field
of the chunk that stands there."""

ENTRY_FIELDS: Mapping[str, tuple[str, ...]] = {**CASE_FIELDS, **OUTCOME_FIELDS}

DOCUMENT_FIELDS: Mapping[str, tuple[str, ...]] = {
    "id": (
        *("id", "_id", "pid", "doc_id", "docid", "docno", "document_id", "chunk_id"),
        *("passage_id", "context_id"),
    ),
    "text": ("text", "content", "contents", "body", "passage", "context", "page_content"),
    "title": ("title", "heading"),
    "metadata": ("metadata",),
}

_IGNORED = re.compile(r"[\s_.\-]+")
_MOST_PLANS = 1000
ANSWER_FIELDS = frozenset(
    {"response", "multi_responses", "retrieved_contexts", "retrieved_context_ids"}
)
"""Fields without which a record holds nothing that a system did."""


def is_known_field(name: str) -> bool:
    """Whether a name is one of those recognised, for cases or for documents."""
    return _squash(name) in _KNOWN


def _squash(name: str) -> str:
    return _IGNORED.sub("", name).casefold()


_KNOWN = frozenset(
    _squash(name)
    for recognised in (ENTRY_FIELDS, DOCUMENT_FIELDS)
    for names in recognised.values()
    for name in names
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldPlan:
    bindings: tuple[tuple[str, str], ...]
    """Field of the record and field of the source, in the order of the source."""
    rest: tuple[str, ...]
    """Fields of the source that mean nothing known: they become metadata."""
    chunks: str | None = None
    """The field of the source that holds what was retrieved."""


@dataclass(kw_only=True, slots=True)
class FieldMap:
    """Makes plans: names given by the user first, then the names that are recognised.

    ``overrides`` maps a field of the record to a field of the source; the names otherwise
    recognised for it then count no more. An empty name means that no field has it.

    Raises:
        ConfigError: an override is for a field that does not exist.
    """

    recognised: Mapping[str, tuple[str, ...]]
    overrides: Mapping[str, str] = field(default_factory=dict[str, str])
    has_answers: bool = False
    """Whether a system's answers stand in the source, also when a record has none: what stands
    beside an answer then counts in every record."""
    unseen: set[str] = field(init=False)
    """Fields with an override whose source field no record had so far."""
    _targets: dict[str, str] = field(init=False)
    _plans: dict[tuple[str, ...], FieldPlan] = field(
        default_factory=dict[tuple[str, ...], FieldPlan]
    )

    def __post_init__(self) -> None:
        names = (*self.recognised, *(HIT_FIELDS if "response" in self.recognised else ()))
        for target in self.overrides:
            if target not in names:
                close = get_close_matches(target, names, n=1)
                hint = f" Did you mean '{close[0]}'?" if close else ""
                known = ", ".join(names)
                raise ConfigError(f"no field '{target}' to map to.{hint} Known: {known}")
        self.unseen = {
            target
            for target, source in self.overrides.items()
            if source and target not in HIT_FIELDS
        }
        self._targets = {
            _squash(name): target
            for target, names in self.recognised.items()
            if target not in self.overrides
            for name in names
        }

    def plan(self, names: Iterable[str]) -> FieldPlan:
        """The plan for records with these field names; made once for each set of names."""
        key = tuple(names)
        found = self._plans.get(key)
        if found is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            found = self._plans[key] = self._make(key)
        return found

    def _make(self, names: tuple[str, ...]) -> FieldPlan:
        present = frozenset(names)
        bindings = [
            (target, source)
            for target, source in self.overrides.items()
            if source in present and target not in HIT_FIELDS
        ]
        self.unseen.difference_update(target for target, _ in bindings)
        taken = {source for _, source in bindings}
        free = [name for name in names if name not in taken]
        recognised = [(self._targets.get(_squash(name)), name) for name in free]
        if "response" in self.recognised:
            recognised = self._without_stray_outcomes(recognised, {t for t, _ in bindings})
        bindings += [(target, name) for target, name in recognised if target is not None]
        rest = tuple(name for target, name in recognised if target is None)
        chunks = next((name for target, name in bindings if target == "retrieved_contexts"), None)
        return FieldPlan(bindings=tuple(bindings), rest=rest, chunks=chunks)

    def _without_stray_outcomes(
        self, recognised: list[tuple[str | None, str]], given: set[str]
    ) -> list[tuple[str | None, str]]:
        """Settles what a name means by what stands beside it.

        Early RAGAS files hold question, contexts, answer and ground_truth: there ``answer`` is
        what a system said. Elsewhere it is the right answer. A confidence, an error or a time
        belongs to a system only where the system's answer stands beside it.
        """
        targets = given | {target for target, _ in recognised if target is not None}
        references = [name for target, name in recognised if target == "reference"]
        if len(references) + ("reference" in given) > 1 and "retrieved_contexts" in targets:
            said = "response" if "response" not in targets | self.overrides.keys() else None
            recognised = [
                (said if target == "reference" and _squash(name) == "answer" else target, name)
                for target, name in recognised
            ]
        if self.has_answers or not targets.isdisjoint(ANSWER_FIELDS):
            return recognised
        return [(None if t in OUTCOME_FIELDS else t, name) for t, name in recognised]
