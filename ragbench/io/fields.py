"""Which field of a source means which field of a record, and by which files folders are known."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Any, Literal

from ragbench.errors import ConfigError
from ragbench.safe_text import listed_names

Names = Mapping[str, tuple[str, ...]]
"""Field of a record to the names recognised for it."""

HIT_FIELDS: Mapping[str, str] = {
    "chunk_id": "id",
    "chunk_text": "text",
    "chunk_score": "score",
    "chunk_metadata": "metadata",
}
"""What only a user's mapping names: a path in a retrieved chunk that is an object, and the field
of the chunk that stands there."""

_IGNORED = re.compile(r"[\s_.\-]+")
_MOST_PLANS = 1000
ANSWER_FIELDS = frozenset(
    {"response", "multi_responses", "retrieved_contexts", "retrieved_context_ids"}
)
"""Fields without which a record holds nothing that a system did."""


@cache
def read_table(name: str) -> dict[str, Any]:
    """A file of data of this package."""
    file = resources.files("ragbench.io").joinpath(name)
    return tomllib.loads(file.read_text(encoding="utf-8"))


@cache
def named(kind: str) -> Names:
    """A table of ``fields.toml``: the names of each thing in it, the more telling ones first."""
    return {name: tuple(names.split()) for name, names in read_table("fields.toml")[kind].items()}


case_fields = partial(named, "case")
outcome_fields = partial(named, "outcome")
"""What a system did with a case."""
document_fields = partial(named, "document")


@cache
def entry_fields() -> Names:
    """Everything that a record of a case may hold."""
    return {**case_fields(), **outcome_fields()}


@cache
def _targets(kind: Literal["cases", "documents"]) -> Mapping[str, str]:
    """Field of a record by each name that is recognised for it."""
    recognised = entry_fields() if kind == "cases" else document_fields()
    return {_squash(name): target for target, names in recognised.items() for name in names}


def is_known_field(name: str) -> bool:
    """Whether a name is one of those recognised, for cases or for documents."""
    return _squash(name) in _targets("cases") or _squash(name) in _targets("documents")


def _squash(name: str) -> str:
    return _IGNORED.sub("", name).casefold()


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldPlan:
    bindings: tuple[tuple[str, str], ...]
    """Field of the record and field of the source, in the order of the source."""
    rest: tuple[str, ...]
    """Fields of the source that mean nothing known: they become metadata."""
    chunks: str | None = None
    """The field of the source that holds what was retrieved."""
    has_outcome: bool = False
    """Whether any of the fields is what a system did."""


class FieldMap(dict[tuple[str, ...], FieldPlan]):
    """Plans by the names of a record's fields, each made when it is first asked for.

    Names given by the user count first, then those that are recognised.

    Args:
        overrides: field of the record to field of the source; the names otherwise recognised for
            it then count no more. An empty name means that no field has it.
        has_answers: whether a system's answers stand in the source, also when a record has none:
            what stands beside an answer then counts in every record.

    Raises:
        ConfigError: an override is for a field that does not exist.
    """

    def __init__(
        self,
        kind: Literal["cases", "documents"],
        overrides: Mapping[str, str],
        *,
        has_answers: bool = False,
    ) -> None:
        self.overrides = overrides
        self._has_answers = has_answers
        self._targets = _targets(kind)
        names = (*entry_fields(), *HIT_FIELDS) if kind == "cases" else (*document_fields(),)
        for target in overrides:
            if target not in names:
                raise ConfigError(f"no field '{target}' to map to.{listed_names(target, names)}")
        self.unseen = {name for name, source in overrides.items() if source} - HIT_FIELDS.keys()
        """Fields with an override whose source field no record had so far."""

    def __missing__(self, names: tuple[str, ...]) -> FieldPlan:
        if len(self) >= _MOST_PLANS:
            self.clear()
        given = [(t, s) for t, s in self.overrides.items() if s in names and t not in HIT_FIELDS]
        self.unseen.difference_update(target for target, _ in given)
        taken = {source for _, source in given}
        found: list[tuple[str | None, str]] = []
        for name in names:
            if name not in taken:
                target = self._targets.get(_IGNORED.sub("", name).casefold())
                found.append((None if target in self.overrides else target, name))
        outcomes = outcome_fields()
        has_outcome = any(target in outcomes for target, _ in (*given, *found))
        if has_outcome:
            found = self._settled(found, {target for target, _ in given})
            has_outcome = any(target in outcomes for target, _ in (*given, *found))
        bindings = (*given, *((target, name) for target, name in found if target is not None))
        plan = self[names] = FieldPlan(
            bindings=bindings,
            rest=tuple(name for target, name in found if target is None),
            chunks=next(
                (name for target, name in bindings if target == "retrieved_contexts"), None
            ),
            has_outcome=has_outcome,
        )
        return plan

    def _settled(
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
        if self._has_answers or not targets.isdisjoint(ANSWER_FIELDS):
            return recognised
        return [(None if t in outcome_fields() else t, name) for t, name in recognised]


# --- folders

CASES_FILE, CORPUS_FILE = "cases.jsonl", "corpus.jsonl"
"""In a folder of ragbench's own form; BEIR's corpus is called so, too."""
QUERIES_FILE, QRELS_FOLDER = "queries.jsonl", "qrels"
"""By which a folder of BEIR is known."""
QUERY_FILES = ("queries.tsv", "topics.tsv", "queries.txt", "topics.txt")
"""By one of which a folder of TREC is."""
