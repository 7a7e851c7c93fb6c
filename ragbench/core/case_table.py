"""The cases of a run as columns: what each was scored, and what is known of it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any, NamedTuple, Protocol

from ragbench.core.attribution import Cause
from ragbench.core.case import Case
from ragbench.core.outcome import Cell, Repeats, Status
from ragbench.core.record import Record, field, replace
from ragbench.plugins import Floats, Integers, NDArray, np
from ragbench.safe_text import counted

GOLD = "gold: "
"""How a cluster's name begins that is made of the cases' gold."""


class Label(NamedTuple):
    """What people say of one case, on a metric's scale."""

    value: float
    people: int
    is_drawn: bool
    """Whether chance chose the case."""
    is_of_pairs: bool = False
    """Whether it chose among those alone of which two runs' answers differ."""


class CaseTexts(NamedTuple):
    """What a run's folder holds of a case besides its scores; a baseline file holds none of it."""

    query: str | None = None
    response: str | None = None
    """None too when nothing was generated."""
    retrieved_ids: tuple[str, ...] | None = None
    """Best first. None when the RAG gives no ids."""
    gold: tuple[str, ...] = ()
    """Ids of what should be retrieved."""
    right: str = ""
    """Changes with what is known of the right answer alone."""


class Texts(Protocol):
    """The texts of a run's cases, which are read when somebody asks for them."""

    def of(self, places: Iterable[int]) -> Iterator[CaseTexts]: ...
    def marks(self) -> Integers:
        """A row for each case: numbers that tell its retrieved ids, and its answer, from others."""
        ...

    def at(self, places: Sequence[int]) -> Texts:
        """Those of some cases alone."""
        ...


class ScoredCase(Record):
    id: str
    fingerprint: str
    """Changes with anything that is known of the case but its id and labels: question, reference,
    relevance ..."""
    scores: Mapping[str, Cell]
    """By metric name. Why a cell failed stands in its ``reason``; its failure is not kept."""
    cluster: str | None = None
    tags: tuple[str, ...] = ()
    language: str | None = None
    stages: Mapping[str, Status] = field(default_factory=dict[str, Status])
    """How each stage ended; empty in a baseline file."""
    cause: Cause | None = None
    """What became of it; None where the file does not say."""
    repeats: Mapping[str, Repeats] = field(default_factory=dict[str, Repeats])
    """By metric, where it was measured more than once; the cell of such a metric is the mean."""
    labels: Mapping[str, Label] = field(default_factory=dict[str, Label])
    """By metric what people say; empty without a file of labels."""
    judged: tuple[str, str, str | None] | None = None
    """Digests of question, answer and contexts; None without a file of labels."""

    def value(self, metric: str) -> float | None:
        cell = self.scores.get(metric)
        return None if cell is None else cell.value


_STATES = {status: ord(status.value[0]) for status in Status}
_FACTS = ("cluster", "tags", "language", "stages", "cause", "labels", "judged")
_STATUSES = {code: status for status, code in _STATES.items()}


class Cells(Record, eq=False):
    """One metric over the cases of a run."""

    known: Floats
    """Each value once: most metrics have few, and a run has many cases."""
    which: NDArray[np.unsignedinteger[Any]]
    """The place of each case's value among them."""
    states: NDArray[np.uint8]
    """The first letter of each cell's status; 0 without a cell."""
    reasons: Sequence[str] = ()
    """Why cells have no value: each reason once."""
    why: NDArray[np.signedinteger[Any]] | None = None
    """The place of each cell's reason, -1 without one; None without any."""
    repeats: Mapping[int, Repeats] = field(default_factory=dict[int, Repeats])
    """By the case's place, where it was asked more than once."""

    @classmethod
    def packed(cls, values: Floats, states: NDArray[np.uint8]) -> Cells:
        """Of a value for each case, NaN where there is none."""
        known, which = _distinct(values)
        return cls(known=known, which=which, states=states)

    @classmethod
    def joined(cls, parts: Sequence[Cells]) -> Cells:
        """One metric over the cases of all parts."""
        ends = np.cumsum([len(part.known) for part in parts])
        known, places = _distinct(np.concatenate([part.known for part in parts]))
        each = zip(np.split(places, ends[:-1]), parts, strict=True)
        which = np.concatenate([own[part.which] for own, part in each])
        states = np.concatenate([part.states for part in parts])
        return cls(known=known, which=which, states=states)

    @classmethod
    def repeated(cls, asked: Sequence[tuple[Cell | None, ...]]) -> Cells:
        """Of what each case gave each time, oldest first; the cells are the means.

        None where the case was not asked, or the metric did not apply.
        """
        repeats = [Repeats(cells=each) for each in asked]
        several = any(len(each) > 1 for each in asked)
        return cls.of([one.mean for one in repeats], dict(enumerate(repeats)) if several else {})

    @classmethod
    def of(cls, cells: Sequence[Cell | None], repeats: Mapping[int, Repeats]) -> Cells:
        reasons: dict[str | None, int] = {None: -1}
        why = [-1 if c is None else reasons.setdefault(c.reason, len(reasons) - 1) for c in cells]
        values = np.array([None if cell is None else cell.value for cell in cells], float)
        return replace(
            cls.packed(
                values, np.array([0 if c is None else _STATES[c.status] for c in cells], np.uint8)
            ),
            reasons=[one for one in reasons if one is not None],
            why=np.array(why, np.int32),
            repeats=repeats,
        )

    @property
    def values(self) -> Floats:
        """A value for each case, NaN where there is none."""
        found: Floats = self.known[self.which]
        return found

    def __getitem__(self, place: int) -> Cell | None:
        status = _STATUSES.get(int(self.states[place]))
        value = float(self.known[self.which[place]])
        if status is None:
            return None
        if value == value:
            return Cell(status=status, value=value)
        at = -1 if self.why is None else int(self.why[place])
        return Cell(status=status, reason=self.reasons[at] if at >= 0 else None)

    def cell(self, place: int) -> Cell:
        """What there is; of a case without a cell, that it was skipped."""
        return self[place] or Cell.skipped("")

    def has(self, status: Status) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.states == _STATES[status]
        return found

    @property
    def coverage(self) -> Floats:
        """Share of the times that it was measured when it applied; NaN: it never did."""
        applies = (self.states != 0) & ~self.has(Status.SKIPPED)
        found = np.where(applies, self.has(Status.MEASURED).astype(float), np.nan)
        for place, repeats in self.repeats.items():
            known = [state for state in repeats.coverage if state is not None]
            found[place] = sum(known) / len(known) if known else np.nan
        return found

    def asked(self, place: int) -> Repeats:
        """What it gave each time; once, where the case was not asked repeatedly."""
        return self.repeats.get(place) or Repeats(cells=(self[place],))

    def take(self, places: Integers) -> Cells:
        repeats, kept = self.repeats, enumerate(places.tolist()) if self.repeats else ()
        return replace(
            self,
            which=self.which[places],
            states=self.states[places],
            why=None if self.why is None else self.why[places],
            repeats={now: repeats[before] for now, before in kept if before in repeats},
        )


def _distinct(values: Floats) -> tuple[Floats, NDArray[np.unsignedinteger[Any]]]:
    """Each value once, to the last bit, and the place of each of the values among them."""
    bits, places = np.unique(values.view(np.int64), return_inverse=True)
    return bits.view(float), places.astype(np.min_scalar_type(len(bits)))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CaseTable:
    """The cases of a run as columns; a case is made of them when it is asked for.

    Of a hundred thousand cases an object each, with one for each of its cells, takes a gigabyte.
    """

    ids: Sequence[str]
    fingerprints: NDArray[np.bytes_]
    facts: Mapping[str, Sequence[Any]]
    """By the name of a field of a case, those that any case has."""
    cells: Mapping[str, Cells]
    texts: Texts | None = None
    """None of a baseline file."""
    _places: dict[str, int] = dataclasses.field(
        default_factory=dict[str, int], init=False, repr=False
    )

    @classmethod
    def of(cls, cases: Iterable[ScoredCase]) -> CaseTable:
        rows = [*cases]
        columns = {name: [getattr(row, name) for row in rows] for name in _FACTS}
        names = dict.fromkeys(name for row in rows for name in row.scores)
        return cls(
            ids=[row.id for row in rows],
            fingerprints=np.array([row.fingerprint.encode() for row in rows], np.bytes_),
            facts={name: found for name, found in columns.items() if any(found)},
            cells={
                name: Cells.of(
                    [row.scores.get(name) for row in rows],
                    {at: row.repeats[name] for at, row in enumerate(rows) if name in row.repeats},
                )
                for name in names
            },
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CaseTable) and [*self] == [*other]

    def __iter__(self) -> Iterator[ScoredCase]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, place: int) -> ScoredCase:
        cells = {name: cell for name, one in self.cells.items() if (cell := one[place]) is not None}
        repeats = {n: one.repeats[place] for n, one in self.cells.items() if place in one.repeats}
        return ScoredCase(
            id=self.ids[place],
            fingerprint=self.fingerprints[place].decode(),
            scores=cells,
            repeats=repeats,
            **{name: known[place] for name, known in self.facts.items()},
        )

    def fact(self, name: str) -> Sequence[Any]:
        """A field of all cases; nothing where none has it."""
        return self.facts.get(name, ())

    def texts_of(self, places: Iterable[int]) -> Iterator[CaseTexts]:
        return repeat(CaseTexts()) if self.texts is None else self.texts.of(places)

    def places(self, ids: Sequence[str]) -> Integers:
        """Where cases stand; -1 for those that are not here."""
        if ids is self.ids or ids == self.ids:
            return np.arange(len(ids))
        if not self._places:
            self._places.update((id_, place) for place, id_ in enumerate(self.ids))
        return np.array([self._places.get(id_, -1) for id_ in ids], np.int64)

    def take(self, places: Integers) -> CaseTable:
        order: list[int] = places.tolist()
        return CaseTable(
            ids=[self.ids[place] for place in order],
            fingerprints=self.fingerprints[places],
            facts={name: [known[at] for at in order] for name, known in self.facts.items()},
            cells={name: cells.take(places) for name, cells in self.cells.items()},
            texts=None if self.texts is None else self.texts.at(order),
        )


def clusters_of(names: Sequence[str | None], gold: Sequence[int]) -> Sequence[str | None]:
    """The cluster that each case names; where none does, one of those that share a gold passage.

    Five questions about one passage rise and fall together, whether somebody wrote that down or
    not. Of two passages the one counts that more cases share: were everything one cluster that a
    chain of shared passages connects, most questions of two hops would be. Of more passages all
    have to be the same. benchmarks/interval_coverage.py compares these ways.

    Args:
        gold: `Case.gold_pair` of each case, one behind the other.
    """
    if any(names):
        return names
    # Sorted, a million passages of a case each take a third of what a counter of them takes.
    several = {one for one, other in pairwise(sorted(gold)) if one == other >= 0}
    if not several:
        return names
    shared = Counter(one for one in gold if one in several)
    chosen = [
        second
        if second in shared and (shared.get(first, 0), first) < (shared[second], second)
        else first
        for first, second in zip(gold[::2], gold[1::2], strict=True)
    ]
    counts = Counter(chosen)
    # A name is a digest: baseline files hold the names of clusters, and no ids of chunks.
    known = {one: f"{GOLD}{one:012x}" for one, n in counts.items() if n > 1 and one >= 0}
    return [known.get(one) for one in chosen]


def clusters_among(cases: Sequence[Case]) -> Sequence[str | None]:
    gold = [number for case in cases for number in case.gold_pair]
    return clusters_of([case.cluster for case in cases], gold)


def clusters_note(clusters: Sequence[str | None]) -> str | None:
    """How many observations the cases are to intervals and tests; None where each is one."""
    named = {*clusters} - {None}
    groups = len(named) + clusters.count(None)
    if groups == len(clusters):
        return None
    is_of_gold = any(name.startswith(GOLD) for name in named if name is not None)
    which = "that share gold" if is_of_gold else "of one cluster"
    counts = f"{counted(len(clusters), 'case')}, {counted(groups, 'cluster')}"
    return f"Cases {which} count as one observation: {counts}."
