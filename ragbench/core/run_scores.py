"""A stored run as a gate or a comparison sees it: its scores a case, and what they rest on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ragbench.core.attribution import CauseCount, RightShare
from ragbench.core.case_table import CaseTable, Cells
from ragbench.core.history import Drift, MainRun
from ragbench.core.metric import Direction, Metric, Need
from ragbench.core.origin import Origin
from ragbench.core.outcome import Status
from ragbench.core.record import Record
from ragbench.core.report import Latency, StageCount
from ragbench.plugins import Floats, Integers, np


class MetricColumn(Record):
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
    probability: bool = False
    """Whether each value is the probability of an outcome of 0 or 1; see `mean_interval`."""
    is_judged: bool = False
    """Whether a model computes it: an opinion, until labels correct it."""
    reads_answer: bool = True
    reads_contexts: bool = True
    """What it judges of a case; a label is of that."""

    @classmethod
    def of(cls, metric: Metric, score: float | None = None) -> MetricColumn:
        known = metric.definition
        shared = ("version", "direction", "low", "high", "unit", "aggregate", "digest")
        return cls(
            name=metric.name,
            group=known.group.value,
            score=score,
            has_cells=known.deterministic,
            probability=known.probability,
            is_judged=metric.is_judged,
            reads_answer=Need.RESPONSE in known.needs,
            reads_contexts=Need.RETRIEVED_CONTEXTS in known.needs,
            **{name: getattr(known, name) for name in shared},
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
    cases: CaseTable
    """In the dataset's order; in a baseline file, by id."""
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

    @property
    def table(self) -> CaseTable:
        """The cases as columns."""
        return self.cases

    @property
    def clusters(self) -> Sequence[str | None]:
        """What each case shares with others; None: nothing."""
        return self.table.fact("cluster") or (None,) * len(self.cases)

    @property
    def has_labels(self) -> bool:
        return any(self.table.fact("labels"))

    def column(self, metric: str) -> MetricColumn | None:
        """The metric of that name, written as the run writes it; None when it has none."""
        return next((column for column in self.metrics if column.name == metric), None)

    def measures(self, column: MetricColumn) -> bool:
        """Whether it has a metric by the same formula."""
        own = self.column(column.name)
        return own is not None and own.identity == column.identity

    def cells(self, metric: str) -> Cells:
        """A metric over the cases; of one that the run does not measure, none."""
        known, size = self.table.cells.get(metric), len(self.cases)
        return known or Cells.packed(np.full(size, np.nan), np.zeros(size, np.uint8))

    def graded(self, column: MetricColumn) -> Floats:
        """Its values so that larger is better; what was declined has the worst one, if any."""
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
        places = [place for place, id_ in enumerate(self.table.ids) if id_ in ids]
        return self if len(places) == len(self.cases) else self.at(np.array(places, np.int64))

    def at(self, places: Integers) -> RunScores:
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
