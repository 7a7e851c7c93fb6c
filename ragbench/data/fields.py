"""Which field of a source means which field of a record: the names that other tools use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from ragbench.errors import ConfigError

__all__ = ["CASE_FIELDS", "DOCUMENT_FIELDS", "FieldMap", "FieldPlan", "is_known_field"]

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

Names are compared without case, spaces, ``_``, ``-`` and ``.``. ``contexts``,
``retrieved_contexts`` and ``response`` are not here: they are what a system answered.
"""

DOCUMENT_FIELDS: Mapping[str, tuple[str, ...]] = {
    "id": (
        *("id", "_id", "pid", "doc_id", "docid", "docno", "document_id", "chunk_id"),
        *("passage_id", "context_id"),
    ),
    "text": ("text", "content", "contents", "body", "passage", "context", "page_content"),
    "title": ("title", "heading"),
    "metadata": ("metadata",),
}
"""Field of a document to the names recognised for it."""

_IGNORED = re.compile(r"[\s_.\-]+")
_OUTPUT_FIELDS = frozenset({"contexts", "retrievedcontexts"})
_MOST_PLANS = 1000


def is_known_field(name: str) -> bool:
    """Whether a name is one of those recognised, for cases or for documents."""
    return _squash(name) in _KNOWN


def _squash(name: str) -> str:
    return _IGNORED.sub("", name).casefold()


_KNOWN = frozenset(
    _squash(name)
    for recognised in (CASE_FIELDS, DOCUMENT_FIELDS)
    for names in recognised.values()
    for name in names
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldPlan:
    """How records with one set of field names are read."""

    bindings: tuple[tuple[str, str], ...]
    """Field of the record and field of the source, in the order of the source."""
    rest: tuple[str, ...]
    """Fields of the source that mean nothing known: they become metadata."""


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
    unseen: set[str] = field(init=False)
    """Fields with an override whose source field no record had so far."""
    _targets: dict[str, str] = field(init=False)
    _plans: dict[tuple[str, ...], FieldPlan] = field(
        default_factory=dict[tuple[str, ...], FieldPlan]
    )

    def __post_init__(self) -> None:
        """Turns the names round and checks the overrides."""
        for target in self.overrides:
            if target not in self.recognised:
                close = get_close_matches(target, self.recognised, n=1)
                hint = f" Did you mean '{close[0]}'?" if close else ""
                known = ", ".join(self.recognised)
                raise ConfigError(f"no field '{target}' to map to.{hint} Known: {known}")
        self.unseen = {target for target, source in self.overrides.items() if source}
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
        bindings = [(t, source) for t, source in self.overrides.items() if source in present]
        self.unseen.difference_update(target for target, _ in bindings)
        taken = {source for _, source in bindings}
        free = [name for name in names if name not in taken]
        recognised = [(self._targets.get(_squash(name)), name) for name in free]
        recognised = _without_system_answer(recognised, {_squash(name) for name in names})
        bindings += [(target, name) for target, name in recognised if target is not None]
        rest = tuple(name for target, name in recognised if target is None)
        return FieldPlan(bindings=tuple(bindings), rest=rest)


def _without_system_answer(
    recognised: list[tuple[str | None, str]], names: set[str]
) -> list[tuple[str | None, str]]:
    # Early RAGAS files hold question, contexts, answer and ground_truth: there `answer` is what
    # a system said. Elsewhere `answer` is the right answer.
    others = sum(target == "reference" for target, _ in recognised) - 1
    if others < 1 or names.isdisjoint(_OUTPUT_FIELDS):
        return recognised
    return [
        (None if target == "reference" and _squash(name) == "answer" else target, name)
        for target, name in recognised
    ]
