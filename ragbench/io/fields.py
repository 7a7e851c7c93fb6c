"""The formats that are read, and which field of a source means which field of a record."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from ragbench.errors import ConfigError
from ragbench.io.source import Kind
from ragbench.plugins import Registry

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


def _read(name: str) -> dict[str, dict[str, Any]]:
    file = resources.files("ragbench.io").joinpath(name)
    return tomllib.loads(file.read_text(encoding="utf-8"))


@cache
def _table() -> Mapping[str, Names]:
    return {
        kind: {target: tuple(names.split()) for target, names in fields.items()}
        for kind, fields in _read("fields.toml").items()
    }


def case_fields() -> Names:
    return _table()["case"]


def outcome_fields() -> Names:
    """What a system did with a case."""
    return _table()["outcome"]


@cache
def entry_fields() -> Names:
    """Everything that a record of a case may hold."""
    return {**case_fields(), **outcome_fields()}


def document_fields() -> Names:
    return _table()["document"]


@cache
def _known() -> frozenset[str]:
    recognised = (*entry_fields().values(), *document_fields().values())
    return frozenset(_squash(name) for names in recognised for name in names)


def is_known_field(name: str) -> bool:
    """Whether a name is one of those recognised, for cases or for documents."""
    return _squash(name) in _known()


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


@dataclass(kw_only=True, slots=True)
class FieldMap:
    """Makes plans: names given by the user first, then the names that are recognised.

    ``overrides`` maps a field of the record to a field of the source; the names otherwise
    recognised for it then count no more. An empty name means that no field has it.

    Raises:
        ConfigError: an override is for a field that does not exist.
    """

    recognised: Names
    overrides: Mapping[str, str] = field(default_factory=dict[str, str])
    has_answers: bool = False
    """Whether a system's answers stand in the source, also when a record has none: what stands
    beside an answer then counts in every record."""
    unseen: set[str] = field(init=False)
    """Fields with an override whose source field no record had so far."""
    _targets: dict[str, str] = field(init=False)
    plans: dict[tuple[str, ...], FieldPlan] = field(
        default_factory=dict[tuple[str, ...], FieldPlan]
    )
    """Those made so far, by the fields that records have."""

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
        found = self.plans.get(key)
        if found is None:
            if len(self.plans) >= _MOST_PLANS:
                self.plans.clear()
            found = self.plans[key] = self._make(key)
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
        has_outcome = any(target in outcome_fields() for target, _ in bindings)
        return FieldPlan(
            bindings=tuple(bindings), rest=rest, chunks=chunks, has_outcome=has_outcome
        )

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
        return [(None if t in outcome_fields() else t, name) for t, name in recognised]


# --- formats

CASES_FILE, CORPUS_FILE = "cases.jsonl", "corpus.jsonl"
"""In a folder of ragbench's own form; BEIR's corpus is called so, too."""
QUERIES_FILE, QRELS_FOLDER = "queries.jsonl", "qrels"
"""By which a folder of BEIR is known."""
QUERY_FILES = ("queries.tsv", "topics.tsv", "queries.txt", "topics.txt")
"""By one of which a folder of TREC is."""

_BOTH: tuple[Kind, ...] = ("cases", "documents")


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatInfo:
    name: str
    summary: str
    example: str
    reader: str
    """Where its ``RowReader`` is, below this package: ``module:function``."""
    reads: tuple[Kind, ...] = _BOTH
    records: str = ""
    """What a system did that it can hold, in a few words; empty when it can hold nothing of it."""
    suffixes: tuple[str, ...] = ()
    """Suffixes that it is recognised by; empty when it is recognised by its shape."""
    streamed: bool = True
    extra: str | None = None


@cache
def formats() -> Mapping[str, FormatInfo]:
    """Every format that ragbench brings, by name, in the order of ``ragbench show formats``."""
    return {
        name: msgspec.convert({**row, "name": name}, FormatInfo)
        for name, row in _read("formats.toml").items()
    }


@cache
def readers() -> Registry:
    """Name of a format to its ``RowReader``; packages add theirs as ``ragbench.formats``."""
    builtin = {name: f"ragbench.io.{info.reader}" for name, info in formats().items()}
    return Registry(kind="formats", builtin=builtin)
