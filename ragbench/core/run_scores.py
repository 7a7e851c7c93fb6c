"""A stored run as the gate and comparisons read it: a score per case and metric, and its settings.

A run's folder, a baseline file and the mean of several runs of main all become a `RunScores`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ragbench.core.attribution import AnswerCounts, CauseCount
from ragbench.core.case_table import CaseTable, Cells
from ragbench.core.history import Drift, MainRun
from ragbench.core.metric import Direction, Metric, Need
from ragbench.core.origin import Origin
from ragbench.core.outcome import Status
from ragbench.core.record import Record
from ragbench.core.report import Latency, StageCount, has_known_level
from ragbench.plugins import Floats, Integers, np


class MetricColumn(Record):
    """One metric of a run: its definition as far as it is stored, and its figure over the run."""

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
    """How the figure is made of the values; None when it is their mean."""
    score: float | None = None
    """Its figure over the run; None when no case was measured."""
    has_cells: bool = True
    """False for measured times: a report has their figure, and no value per case."""
    digest: str = ""
    """Of the source of a user's formula; empty for ragbench's own."""
    probability: bool = False
    """Whether each value is the probability of an outcome of 0 or 1; see `mean_interval`."""
    is_judged: bool = False
    """Whether a model computes it: an opinion, until labels correct it."""
    reads_answer: bool = True
    """Whether it judges the answer: a label of a person then holds for this answer alone."""
    reads_contexts: bool = True
    """Whether it judges the contexts: a label of a person then holds for these contexts alone."""

    @classmethod
    def of(cls, metric: Metric, score: float | None = None) -> MetricColumn:
        """The column of a metric as a comparison reads it, with its figure over the run.

        Formulas stay behind: baseline files hold no code.
        """
        definition = metric.definition
        # Copied and not referred to: baseline files store these fields, and no code.
        return cls(
            name=metric.name,
            version=definition.version,
            group=definition.group.value,
            direction=definition.direction,
            low=definition.low,
            high=definition.high,
            unit=definition.unit,
            aggregate=definition.aggregate,
            score=score,
            has_cells=definition.deterministic,
            digest=definition.digest,
            probability=definition.probability,
            is_judged=metric.is_judged,
            reads_answer=Need.RESPONSE in definition.needs,
            reads_contexts=Need.RETRIEVED_CONTEXTS in definition.needs,
        )

    @property
    def identity(self) -> str:
        """Name, version and digest of the metric's formula.

        Scores of metrics with different identities do not compare. The spelling is that of
        `Metric.identity`, since baseline files hold such texts.
        """
        identity = f"{self.name} v{self.version}"
        if self.digest:
            identity += f" {self.digest}"
        return identity

    @property
    def has_known_level(self) -> bool:
        """Whether an interval of the metric's mean holds the true value, so that it may be shown.

        See `has_known_level` of reports: words rank answers, and do not give the share of right
        ones.
        """
        return has_known_level(self.name)

    @property
    def no_mean(self) -> str:
        """Why no mean of the metric's values per case can be compared; empty where it can be.

        Without such a mean the metric is not tested for a difference.
        """
        if not self.has_cells:
            return "a report holds no per-case values of it"
        if self.aggregate is not None:
            return "its figure is not a mean over cases"
        return ""

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The smallest and the largest value of the metric; None when it is unbounded on a side.

        Intervals of a mean need both.
        """
        if self.low is None or self.high is None:
            return None
        return self.low, self.high

    @property
    def sign(self) -> float:
        """1 where a higher value of the metric is better, else -1.

        Values times this sign are better when larger.
        """
        return 1.0 if self.direction is Direction.HIGHER else -1.0

    @property
    def scale(self) -> float | None:
        """Largest change of the metric that one case can show; None when it is unbounded.

        Sizes of changes of different metrics compare as shares of it.
        """
        if self.bounds is None:
            return None
        low, high = self.bounds
        return high - low

    @property
    def reach(self) -> tuple[float, float] | None:
        """The bounds of a difference of two values of the metric; None when it is unbounded.

        Tests of mean differences need them.
        """
        if self.scale is None:
            return None
        return -self.scale, self.scale


@dataclass(frozen=True, kw_only=True, slots=True)
class RunScores:
    """The scores of a run with all that a comparison needs of it, read from its files."""

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
    """Price of its judge's answers; None where none is stored, or a price is unknown."""
    currency: str | None = None
    judge: str = ""
    """Its judge's models; empty without a judge, and where no file has them."""
    causes: tuple[CauseCount, ...] = ()
    """Why its cases went right or wrong, counted; empty for a baseline file."""
    answers: AnswerCounts | None = None
    """Its cases by how their answers compare with the right ones; None for a baseline file."""
    date: str | None = None
    """When it was made, ISO 8601; None where no file has it. Of several runs, the newest one's."""
    made_of: tuple[MainRun, ...] = ()
    """The runs whose mean a baseline's scores are, oldest first; empty for a single run."""
    origins: tuple[Origin, ...] | None = None
    """The inputs of its stages' outcomes (code, packages, settings); None where no file has them.
    Of several runs, those of the newest. A stage whose outcomes were all recorded has none."""

    is_old: bool = False
    """Whether an earlier version of ragbench wrote its cases, so that none can be matched."""
    drift: Drift | None = None
    """Of a baseline file: how main moved over all its merges."""

    @property
    def table(self) -> CaseTable:
        """The run's cases as columns: another name of ``cases``."""
        return self.cases

    @property
    def clusters(self) -> Sequence[str | None]:
        """The cluster of each of the run's cases; None for a case that shares nothing with others.

        Cases of one cluster count as one observation in tests and intervals.
        """
        # Without a column where no case names a cluster: callers want a value for each case.
        return self.table.fact("cluster") or (None,) * len(self.cases)

    @property
    def has_labels(self) -> bool:
        """Whether people labelled at least one of the run's cases.

        Labels correct a judge's figures.
        """
        return any(self.table.fact("labels"))

    def column(self, metric: str) -> MetricColumn | None:
        """The run's metric of exactly that name; None when the run does not measure it.

        Scores of a metric can be read with its column alone: bounds, direction and version are in
        it.
        """
        for column in self.metrics:
            if column.name == metric:
                return column
        return None

    def measures(self, column: MetricColumn) -> bool:
        """Whether the run has a metric of this name by the same formula, so that scores compare.

        Version and digest of the formula are part of a metric's identity.
        """
        own_column = self.column(column.name)
        return own_column is not None and own_column.identity == column.identity

    def cells(self, metric: str) -> Cells:
        """A metric's cell for each of the run's cases.

        All are empty where the run does not measure the metric, so that callers need no special
        case.
        """
        cells = self.table.cells.get(metric)
        if cells is not None:
            return cells
        size = len(self.cases)
        return Cells.packed(np.full(size, np.nan), np.zeros(size, np.uint8))

    def graded(self, column: MetricColumn) -> Floats:
        """A metric's values by case, with their sign turned where needed, so that larger is better.

        A case in which the system declined to answer has the worst value; NaN where the metric is
        unbounded on that side.
        """
        cells = self.cells(column.name)
        worst = column.low if column.sign > 0.0 else column.high
        if worst is None:
            worst = np.nan
        return column.sign * np.where(cells.has(Status.ABSTAINED), worst, cells.values)

    def values(self, metric: str) -> dict[str, float | None]:
        """A metric's value by case id; None for a case that was not measured.

        Another run may have its cases in another order: by id they can be paired.
        """
        value_of: dict[str, float | None] = {}
        for id_, value in zip(self.table.ids, self.cells(metric).values.tolist(), strict=True):
            value_of[id_] = value if value == value else None  # NaN is not equal to itself
        return value_of

    def on(self, ids: Collection[str]) -> RunScores:
        """The run with only the cases of these ids; the run itself where it has no others.

        Two runs are compared on the cases that both have.
        """
        places = [place for place, id_ in enumerate(self.table.ids) if id_ in ids]
        if len(places) == len(self.cases):
            return self
        return self.at(np.array(places, np.int64))

    def at(self, places: Integers) -> RunScores:
        """The run with only the cases at these places of its table, in this order.

        All other facts of the run, such as its name and times, stay.
        """
        return replace(self, cases=self.table.take(places))

    def beside(self, other: RunScores) -> RunScores:
        """The run with only the cases of another run, in that run's order: row by row comparable.

        The run must have all of the other one's cases.
        """
        if self.table.ids == other.table.ids:
            return self
        return self.at(self.table.places(other.table.ids))


def labels_of(run: RunScores) -> Iterator[list[str]]:
    """The slices that each case is in, by its tags and language: ``tag:hr``, ``language:de``.

    The gate's settings and checks name slices in this form. A tag that a case has twice counts
    once.
    """
    table = run.table
    tags = table.fact("tags") or ((),) * len(table)
    # One for each case, also where no case names a language.
    languages = table.fact("language") or (None,) * len(table)
    for tags_of_case, language in zip(tags, languages, strict=True):
        slices = [f"tag:{tag}" for tag in dict.fromkeys(tags_of_case)]
        if language is not None:
            slices.append(f"language:{language}")
        yield slices


def unchanged(run: RunScores, *others: RunScores) -> set[str]:
    """The ids of the cases that all runs have, with the same content in each.

    Only these can be compared; content is compared by the cases' fingerprints.
    """
    is_same = np.ones(len(run.cases), bool)
    for other in others:
        # -1 where the other run lacks the case.
        places_in_other = other.table.places(run.table.ids)
        in_both = np.flatnonzero(places_in_other >= 0)
        fingerprints = other.table.fingerprints[places_in_other[in_both]]
        is_same[places_in_other < 0] = False
        is_same[in_both] &= run.table.fingerprints[in_both] == fingerprints
    return {id_ for id_, same in zip(run.table.ids, is_same.tolist(), strict=True) if same}


RunT = TypeVar("RunT", bound=RunScores)


def under_ids_of(run: RunScores, earlier: RunT) -> tuple[RunT, dict[str, str]]:
    """An earlier run with its cases under a later run's ids, and the old id by each new one.

    Ids that count rows move with each row that is inserted; the fingerprint of a case does not. So
    a case whose id differs, or now belongs to another case, is matched by its fingerprint, and two
    runs stay comparable after rows were inserted in the dataset.
    """
    same = unchanged(run, earlier)
    if len(same) == len(run.cases):
        return earlier, {}

    # Of several cases with the same content, the first of one run is matched with the first of the
    # other: the ids are in reverse, and taken from the end.
    new_ids: dict[bytes, list[str]] = {}
    for id_, fingerprint in reversed(_fingerprints_without(run, same).items()):
        new_ids.setdefault(fingerprint, []).append(id_)
    new_by_old: dict[str, str] = {}
    for old_id, fingerprint in _fingerprints_without(earlier, same).items():
        if new_ids.get(fingerprint):
            new_by_old[old_id] = new_ids[fingerprint].pop()
    if not new_by_old:
        return earlier, {}

    old_by_new = {new: old for old, new in new_by_old.items()}
    ids: list[str] = []
    for old_id in earlier.table.ids:
        if old_id in new_by_old:
            ids.append(new_by_old[old_id])
        elif old_id in old_by_new:  # another case has this id now
            ids.append(f"{old_id} (before)")
        else:
            ids.append(old_id)
    drift = _drift_under_new_ids(earlier.drift, new_by_old)
    return replace(earlier, cases=replace(earlier.table, ids=ids), drift=drift), old_by_new


def _fingerprints_without(run: RunScores, ids: Collection[str]) -> dict[str, bytes]:
    """The fingerprint of each of a run's cases by id, without the cases of some ids.

    A fingerprint is a digest of a case's content: these cases are still to be matched by it.
    """
    table = run.table
    fingerprints: dict[str, bytes] = {}
    for id_, fingerprint in zip(table.ids, table.fingerprints.tolist(), strict=True):
        if id_ not in ids:
            fingerprints[id_] = fingerprint
    return fingerprints


def _drift_under_new_ids(drift: Drift | None, new_by_old: Mapping[str, str]) -> Drift | None:
    """The drift of main with its cases under new ids, so that it goes on for the same cases.

    A case whose old id is now another case's is left out: its sums would be added to that case's.
    """
    if drift is None:
        return None
    new_ids = {*new_by_old.values()}
    sums_of: dict[str, Mapping[str, tuple[float, float, float, float]]] = {}
    for id_, sums in drift.cases.items():
        if id_ in new_by_old:
            sums_of[new_by_old[id_]] = sums
        # An old id that is now another case's is left out.
        elif id_ not in new_ids:
            sums_of[id_] = sums
    return replace(drift, cases=sums_of)
