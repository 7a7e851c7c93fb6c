"""A stored run as a gate or a comparison sees it: its scores a case, and what they rest on."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast, overload

from ragbench.core.attribution import Cause, CauseCount, RightShare
from ragbench.core.history import Drift, MainRun
from ragbench.core.metric import Direction, Metric, Need
from ragbench.core.origin import Origin
from ragbench.core.outcome import Cell, Repeats, Status
from ragbench.core.report import Latency, StageCount

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64]

GOLD = "gold: "
"""How a cluster's name begins that is made of the cases' gold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricColumn:
    """One metric of a run: the facts of its definition, and its figure over the run."""

    name: str
    """With parameters and cutoff, such as ``"nDCG@10"``."""
    version: int
    """Of its formula: scores of different versions do not compare."""
    group: str
    direction: Direction
    low: float | None
    """Smallest value that it can take; None when unbounded."""
    high: float | None
    """Largest value that it can take; None when unbounded."""
    unit: str = ""
    aggregate: str | None = None
    """What makes the figure of the values; None when it is their mean."""
    score: float | None = None
    """Its figure over the run; None when no case was measured."""
    has_cells: bool = True
    """False for measured times: a report holds their figure, but no value a case."""
    digest: str = ""
    """Of the source of a user's formula; empty for ragbench's own."""
    is_judged: bool = False
    """Whether a model computes it: an opinion, until labels correct it."""
    reads_answer: bool = True
    reads_contexts: bool = True
    """What it judges of a case; a label is of that."""

    @classmethod
    def of(cls, metric: Metric, score: float | None = None) -> MetricColumn:
        known = metric.definition
        return cls(
            name=metric.name,
            version=known.version,
            group=known.group.value,
            direction=known.direction,
            low=known.low,
            high=known.high,
            unit=known.unit,
            aggregate=known.aggregate,
            score=score,
            has_cells=known.deterministic,
            digest=known.digest,
            is_judged=metric.is_judged,
            reads_answer=Need.RESPONSE in known.needs,
            reads_contexts=Need.RETRIEVED_CONTEXTS in known.needs,
        )

    @property
    def identity(self) -> str:
        return f"{self.name} v{self.version}{f' {self.digest}' if self.digest else ''}"

    @property
    def no_mean(self) -> str:
        """Why no mean of its cases' values can be compared; empty where it can be."""
        if not self.has_cells:
            return "a report holds no per-case values of it"
        return "" if self.aggregate is None else "its figure is not a mean over cases"

    @property
    def bounds(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def sign(self) -> float:
        """1 where a higher value is better, else -1."""
        return 1.0 if self.direction is Direction.HIGHER else -1.0

    @property
    def scale(self) -> float | None:
        """Largest change that one case can show; None when unbounded."""
        return None if self.bounds is None else self.bounds[1] - self.bounds[0]

    @property
    def reach(self) -> tuple[float, float] | None:
        """Between which a difference of two values lies; None when unbounded."""
        return None if self.scale is None else (-self.scale, self.scale)


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
    def marks(self) -> NDArray[np.int64]:
        """A row for each case: numbers that tell its retrieved ids, and its answer, from others."""
        ...

    def at(self, places: Sequence[int]) -> Texts:
        """Those of some cases alone."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredCase:
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

    def asked(self, metric: str) -> Repeats:
        """What a metric gave each time; once, where the case was not asked repeatedly."""
        return self.repeats.get(metric) or Repeats(cells=(self.scores.get(metric),))


_STATES = {status: ord(status.value[0]) for status in Status}
_STATUSES = {code: status for status, code in _STATES.items()}
_FACTS = ("cluster", "tags", "language", "stages", "cause", "labels", "judged")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cells:
    """One metric over the cases of a run."""

    known: NDArray[np.float64]
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
    def packed(cls, values: NDArray[np.float64], states: NDArray[np.uint8]) -> Cells:
        """Of a value for each case, NaN where there is none."""
        known, which = _distinct(values)
        return cls(known=known, which=which, states=states)

    @classmethod
    def joined(cls, parts: Sequence[Cells]) -> Cells:
        """One metric over the cases of all parts."""
        import numpy as np

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
        import numpy as np

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
    def values(self) -> NDArray[np.float64]:
        """A value for each case, NaN where there is none."""
        found: NDArray[np.float64] = self.known[self.which]
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
    def coverage(self) -> NDArray[np.float64]:
        """Share of the times that it was measured when it applied; NaN: it never did."""
        import numpy as np

        applies = (self.states != 0) & ~self.has(Status.SKIPPED)
        found = np.where(applies, self.has(Status.MEASURED).astype(float), np.nan)
        for place, repeats in self.repeats.items():
            known = [state for state in repeats.coverage if state is not None]
            found[place] = sum(known) / len(known) if known else np.nan
        return found

    def asked(self, place: int) -> Repeats:
        return self.repeats.get(place) or Repeats(cells=(self[place],))

    def take(self, places: Places) -> Cells:
        return replace(
            self,
            which=self.which[places],
            states=self.states[places],
            why=None if self.why is None else self.why[places],
            repeats=_taken(self.repeats, places),
        )


def _distinct(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.unsignedinteger[Any]]]:
    """Each value once, to the last bit, and the place of each of the values among them."""
    import numpy as np

    bits, places = np.unique(values.view(np.int64), return_inverse=True)
    return bits.view(float), places.astype(np.min_scalar_type(len(bits)))


def _taken(repeats: Mapping[int, Repeats], places: Places) -> dict[int, Repeats]:
    kept = enumerate(places.tolist()) if repeats else ()
    return {now: repeats[before] for now, before in kept if before in repeats}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CaseTable(Sequence[ScoredCase]):
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
    _places: dict[str, int] = field(default_factory=dict[str, int], init=False, repr=False)

    @classmethod
    def of(cls, cases: Iterable[ScoredCase]) -> CaseTable:
        import numpy as np

        if isinstance(cases, CaseTable):
            return cases
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

    @overload
    def __getitem__(self, place: int) -> ScoredCase: ...
    @overload
    def __getitem__(self, place: slice) -> CaseTable: ...
    def __getitem__(self, place: int | slice) -> ScoredCase | CaseTable:
        import numpy as np

        if isinstance(place, slice):
            return self.take(np.arange(len(self))[place])
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

    def places(self, ids: Sequence[str]) -> Places:
        """Where cases stand; -1 for those that are not here."""
        import numpy as np

        if ids is self.ids or ids == self.ids:
            return np.arange(len(ids))
        if not self._places:
            self._places.update((id_, place) for place, id_ in enumerate(self.ids))
        return np.array([self._places.get(id_, -1) for id_ in ids], np.int64)

    def take(self, places: Places) -> CaseTable:
        order: list[int] = places.tolist()
        return CaseTable(
            ids=[self.ids[place] for place in order],
            fingerprints=self.fingerprints[places],
            facts={name: [known[at] for at in order] for name, known in self.facts.items()},
            cells={name: cells.take(places) for name, cells in self.cells.items()},
            texts=None if self.texts is None else self.texts.at(order),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RunScores:
    """A run as its files hold it; nothing is computed anew."""

    source: str
    """Where it was read from, as the user named it."""
    dataset: str
    rag: str
    fingerprints: Mapping[str, str]
    """Of the parts of its manifest: ``dataset``, ``metrics``, ``rag``, ``settings`` ..."""
    matching: str
    """How retrieved chunks were compared with the relevant ones."""
    commit: str | None
    """Commit of the working folder; None outside a repository."""
    dirty: bool
    metrics: tuple[MetricColumn, ...]
    cases: Sequence[ScoredCase]
    """In the dataset's order; in a baseline file, by id. They are kept as a `CaseTable`."""
    stages: tuple[StageCount, ...] = ()
    latencies: tuple[Latency, ...] = ()
    """Empty when ``timings.json`` is not there."""
    judge_cost: float | None = None
    """What the answers of its judge cost; None where none is kept, or a price is not known."""
    currency: str | None = None
    judge: str = ""
    """Its judge's models; empty without one, and where no file says."""
    causes: tuple[CauseCount, ...] = ()
    """What became of its cases; empty for a baseline file."""
    right: RightShare | None = None
    """How many of them are right; None for a baseline file, and where it is not known."""
    date: str | None = None
    """When it was made, ISO 8601; None where no file says. The newest one's, of several runs."""
    made_of: tuple[MainRun, ...] = ()
    """The runs that a baseline's scores are the means of, oldest first; empty for a single run."""
    origins: tuple[Origin, ...] | None = None
    """What the outcomes of its stages came from, of the newest of several runs; None where no file
    says. A stage that was not asked, because its outcomes were recorded, has none."""

    is_old: bool = False
    """Whether an earlier version wrote its cases down, so that none is recognised."""
    drift: Drift | None = None
    """Of a baseline file: main over all its merges."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "cases", CaseTable.of(self.cases))

    @property
    def table(self) -> CaseTable:
        """The cases as columns."""
        return cast("CaseTable", self.cases)

    @property
    def clusters_are_of_gold(self) -> bool:
        """Whether cases are clustered by their gold, because none names a cluster."""
        return any(name is not None and name.startswith(GOLD) for name in self.clusters)

    @property
    def clusters(self) -> Sequence[str | None]:
        """What each case shares with others; None: nothing."""
        return self.table.fact("cluster") or (None,) * len(self.cases)

    @property
    def has_labels(self) -> bool:
        return any(self.table.fact("labels"))

    @property
    def facts(self) -> dict[str, Any]:
        """What a `RunOrigin` says of it."""
        names = ("source", "dataset", "rag", "commit", "dirty")
        return {"cases": len(self.cases)} | {name: getattr(self, name) for name in names}

    def column(self, metric: str) -> MetricColumn | None:
        """The metric of that name, written as the run writes it; None when it has none."""
        return next((column for column in self.metrics if column.name == metric), None)

    def measures(self, column: MetricColumn) -> bool:
        """Whether it has a metric by the same formula."""
        own = self.column(column.name)
        return own is not None and own.identity == column.identity

    def cells(self, metric: str) -> Cells:
        """A metric over the cases; of one that the run does not measure, none."""
        import numpy as np

        known, size = self.table.cells.get(metric), len(self.cases)
        return known or Cells.packed(np.full(size, np.nan), np.zeros(size, np.uint8))

    def graded(self, column: MetricColumn) -> NDArray[np.float64]:
        """Its values so that larger is better; what was declined has the worst one, if any."""
        import numpy as np

        cells, worst = self.cells(column.name), column.low if column.sign > 0.0 else column.high
        declined = np.nan if worst is None else worst
        return column.sign * np.where(cells.has(Status.ABSTAINED), declined, cells.values)

    def values(self, metric: str) -> dict[str, float | None]:
        """A metric's value by case id; None for a case that was not measured."""
        found = self.cells(metric).values.tolist()
        known = (value if value == value else None for value in found)
        return dict(zip(self.table.ids, known, strict=True))

    def on(self, ids: Collection[str]) -> RunScores:
        """The run with these cases alone; itself where it has no others."""
        import numpy as np

        places = [place for place, id_ in enumerate(self.table.ids) if id_ in ids]
        return self if len(places) == len(self.cases) else self.at(np.array(places, np.int64))

    def at(self, places: Places) -> RunScores:
        return replace(self, cases=self.table.take(places))

    def beside(self, other: RunScores) -> RunScores:
        """The run with the cases of another one, in its order; it has all of them."""
        if self.table.ids == other.table.ids:
            return self
        return self.at(self.table.places(other.table.ids))


def labels_of(run: RunScores) -> Iterator[list[str]]:
    """Tags and language of each case, as slices of them are named."""
    table = run.table
    tags = table.fact("tags") or ((),) * len(table)
    for of_case, language in zip(tags, table.fact("language") or (None,) * len(table), strict=True):
        found = [f"tag:{tag}" for tag in dict.fromkeys(of_case)]
        yield found if language is None else [*found, f"language:{language}"]


def unchanged(first: RunScores, *others: RunScores) -> set[str]:
    """The ids of the cases that all runs have, the same to the last letter."""
    import numpy as np

    kept = np.ones(len(first.cases), bool)
    for run in others:
        places = run.table.places(first.table.ids)
        there = np.flatnonzero(places >= 0)
        kept[places < 0] = False
        known = run.table.fingerprints[places[there]]
        kept[there] &= first.table.fingerprints[there] == known
    return {id_ for id_, is_kept in zip(first.table.ids, kept.tolist(), strict=True) if is_kept}


RunT = TypeVar("RunT", bound=RunScores)


def under_ids_of(run: RunScores, earlier: RunT) -> tuple[RunT, dict[str, str]]:
    """An earlier run with its cases under a later one's ids; and the new ids with the old ones.

    A case is known by its fingerprint. Ids that count rows move with each row that is inserted.
    """
    same = unchanged(run, earlier)
    if len(same) == len(run.cases):
        return earlier, {}
    mine, theirs = (
        {
            id_: known
            for id_, known in zip(one.table.ids, one.table.fingerprints.tolist(), strict=True)
            if id_ not in same
        }
        for one in (run, earlier)
    )
    free: dict[bytes, list[str]] = {}
    for id_, fingerprint in reversed(mine.items()):
        free.setdefault(fingerprint, []).append(id_)
    names = {
        id_: free[fingerprint].pop() for id_, fingerprint in theirs.items() if free.get(fingerprint)
    }
    if not names:
        return earlier, {}
    taken, known = {*names.values()}, {new: old for old, new in names.items()}
    ids = [names.get(id_) or f"{id_}{' (before)' * (id_ in taken)}" for id_ in earlier.table.ids]
    drift = _renamed(earlier.drift, known)
    return replace(earlier, cases=replace(earlier.table, ids=ids), drift=drift), known


def _renamed(drift: Drift | None, names: Mapping[str, str]) -> Drift | None:
    """With the cases under their new ids; ``names`` has the old ones by the new."""
    if drift is None:
        return None
    new = {id_: id_ for id_ in drift.cases if id_ not in names} | {o: n for n, o in names.items()}
    return replace(drift, cases={new[id_]: sums for id_, sums in drift.cases.items() if id_ in new})


def clusters_by_gold(clusters: Sequence[str | None], gold: Sequence[int]) -> Sequence[str | None]:
    """Cases with the same gold as one cluster, where none names a cluster.

    Five questions about one document rise and fall together, whether somebody wrote that down or
    not.

    Args:
        gold: a number for each case's gold, by `gold_number`; -1 without.
    """
    import numpy as np

    if any(name is not None for name in clusters):
        return clusters
    numbers, counts = np.unique(np.array(gold, np.int64), return_counts=True)
    kept = zip(numbers.tolist(), counts.tolist(), strict=True)
    # A name is a digest: baseline files hold the names of clusters, and no ids of chunks.
    shared = {one: f"{GOLD}{one:012x}" for one, count in kept if count > 1 and one >= 0}
    return [shared.get(number) for number in gold]


def gold_number(ids: Sequence[str]) -> int:
    joined = "\0".join(sorted(ids)).encode("utf-8", "surrogatepass")
    return int(hashlib.sha256(joined).hexdigest()[:12], 16)
