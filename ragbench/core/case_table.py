"""The cases of a run as columns: the scores of each case, and its facts such as tags and cluster.

The gate, comparisons and reports of several runs read these. Which cases count as one observation
(a cluster) is decided here, too.
"""

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
"""Prefix of the names of clusters that are derived from the cases' gold passages."""


class Label(NamedTuple):
    """The verdict of people on one case, on a metric's scale."""

    value: float
    people: int
    is_drawn: bool
    """Whether the case was drawn at random."""
    is_of_pairs: bool = False
    """Whether it was drawn only from the cases whose answers differ between two runs."""


class CaseTexts(NamedTuple):
    """The texts of a case that a run's folder holds beside its scores; a baseline file has none."""

    query: str | None = None
    response: str | None = None
    """None too when nothing was generated."""
    retrieved_ids: tuple[str, ...] | None = None
    """Best first. None when the RAG gives no ids."""
    gold: tuple[str, ...] = ()
    """Ids of what should be retrieved."""
    right: str = ""
    """A digest of what is known of the right answer; no other part of the case changes it."""


class Texts(Protocol):
    """The texts of a run's cases, which are read from its folder when they are needed."""

    def of(self, places: Iterable[int]) -> Iterator[CaseTexts]:
        """Reads the query, answer and ids of the cases at these places of the run, in order.

        A folder's texts take more memory than its scores, so they are read when they are shown.
        """
        ...

    def marks(self) -> Integers:
        """Two numbers per case in place of its retrieved ids and of its answer.

        Two cases with equal numbers have the same ids, or the same answer: a comparison of runs so
        finds the changed cases without reading their texts.
        """
        ...

    def at(self, places: Sequence[int]) -> Texts:
        """The same texts for a table of only the cases at these places, in this order.

        A table with some of its cases keeps its texts so, still unread.
        """
        ...


class ScoredCase(Record):
    """One case of a stored run, with the score of each metric."""

    id: str
    fingerprint: str
    """A digest of the whole case but its id and labels: question, reference, relevance ..."""
    scores: Mapping[str, Cell]
    """By metric name. Why a cell failed is in its ``reason``; the failure itself is not stored."""
    cluster: str | None = None
    tags: tuple[str, ...] = ()
    language: str | None = None
    stages: Mapping[str, Status] = field(default_factory=dict[str, Status])
    """How each stage ended; empty in a baseline file."""
    cause: Cause | None = None
    """Why the case went right or wrong; None where the file does not have it."""
    repeats: Mapping[str, Repeats] = field(default_factory=dict[str, Repeats])
    """By metric, where it was measured more than once; the cell of such a metric is the mean."""
    labels: Mapping[str, Label] = field(default_factory=dict[str, Label])
    """The verdict of people, by metric; empty without a file of labels."""
    judged: tuple[str, str, str | None] | None = None
    """Digests of question, answer and contexts; None without a file of labels."""

    def value(self, metric: str) -> float | None:
        """The case's value by a metric; None where the case was not measured by it.

        A missing value is never 0: the case is then in no mean.
        """
        cell = self.scores.get(metric)
        return None if cell is None else cell.value


_FACTS = ("cluster", "tags", "language", "stages", "cause", "labels", "judged")
"""The fields of a case that are columns of the table where any case has them."""
_CODES = {status: ord(status.value[0]) for status in Status}
"""A byte per status, so that a column of a million cases takes a megabyte."""
_STATUSES = {code: status for status, code in _CODES.items()}
_NO_CELL = 0
"""The code of a case without a cell: the metric does not apply to it."""


class Cells(Record, eq=False):
    """One metric over the cases of a run.

    A value is stored once, and each case has its place: most metrics have few values (0 and 1),
    and a run has many cases. Reasons are stored in the same way.
    """

    distinct: Floats
    """Each value once."""
    value_places: NDArray[np.unsignedinteger[Any]]
    """By case: the place of its value in `distinct`."""
    states: NDArray[np.uint8]
    """By case: the first letter of its cell's status; 0 without a cell."""
    reasons: Sequence[str] = ()
    """Why cells have no value: each reason once."""
    reason_places: NDArray[np.signedinteger[Any]] | None = None
    """By case: the place of its reason in `reasons`, -1 without one; None where no cell has any."""
    repeats: Mapping[int, Repeats] = field(default_factory=dict[int, Repeats])
    """By the case's place: each repetition, where it was asked more than once."""

    @classmethod
    def packed(cls, values: Floats, states: NDArray[np.uint8]) -> Cells:
        """The cells of a metric, of one value and one status code per case.

        Args:
            values: NaN where a case has none.
            states: the first letter of each status as a byte; 0 where the metric does not apply.
        """
        distinct, value_places = _distinct(values)
        return cls(distinct=distinct, value_places=value_places, states=states)

    @classmethod
    def joined(cls, parts: Sequence[Cells]) -> Cells:
        """The cells of one metric over the cases of all parts, in their order, as of one run.

        Reasons and repetitions of the parts are left out.
        """
        ends = np.cumsum([len(part.distinct) for part in parts])
        distinct, new_places = _distinct(np.concatenate([part.distinct for part in parts]))
        value_places: list[NDArray[Any]] = []
        # `ends` are where one part goes over into the next; behind the last there is no part.
        for places_of_part, part in zip(np.split(new_places, ends[:-1]), parts, strict=True):
            value_places.append(places_of_part[part.value_places])
        return cls(
            distinct=distinct,
            value_places=np.concatenate(value_places),
            states=np.concatenate([part.states for part in parts]),
        )

    @classmethod
    def repeated(cls, asked: Sequence[tuple[Cell | None, ...]]) -> Cells:
        """The cells of a metric that was asked of each case several times.

        A case's cell is its mean.

        Args:
            asked: by case, the cells of its repetitions, the oldest first. A cell is None where the
                case was not asked, or the metric did not apply.
        """
        repeats = [Repeats(cells=cells) for cells in asked]
        means = [repetitions.mean for repetitions in repeats]
        # Kept only where a case has several: of a single one the mean says all.
        if any(len(cells) > 1 for cells in asked):
            return cls.of(means, dict(enumerate(repeats)))
        return cls.of(means, {})

    @classmethod
    def of(cls, cells: Sequence[Cell | None], repeats: Mapping[int, Repeats]) -> Cells:
        """The cells of a metric, of one `Cell` per case.

        Args:
            cells: None where the metric did not apply to the case.
            repeats: by the case's place, the repetitions of the cases that were asked several
                times.
        """
        values: list[float | None] = []
        codes: list[int] = []
        reason_places: list[int] = []
        place_of_reason: dict[str, int] = {}
        for cell in cells:
            reason_place = -1
            if cell is None:
                values.append(None)
                codes.append(_NO_CELL)
            else:
                values.append(cell.value)
                codes.append(_CODES[cell.status])
                if cell.reason is not None:
                    # A new reason comes behind those that there are.
                    reason_place = place_of_reason.setdefault(cell.reason, len(place_of_reason))
            reason_places.append(reason_place)
        return replace(
            cls.packed(np.array(values, float), np.array(codes, np.uint8)),
            reasons=[*place_of_reason],
            reason_places=np.array(reason_places, np.int32),
            repeats=repeats,
        )

    @property
    def values(self) -> Floats:
        """The metric's value by case, NaN where a case has none.

        The values are stored once each, and put in the order of the cases here.
        """
        values: Floats = self.distinct[self.value_places]
        return values

    def __getitem__(self, place: int) -> Cell | None:
        """The cell of the case at a place; None where the metric did not apply to it.

        As an object it takes much more memory than in the columns, so it is made when it is read.
        """
        status = _STATUSES.get(int(self.states[place]))
        if status is None:
            return None
        value = float(self.distinct[self.value_places[place]])
        if value == value:  # not NaN
            return Cell(status=status, value=value)
        reason: str | None = None
        if self.reason_places is not None and self.reason_places[place] >= 0:
            reason = self.reasons[int(self.reason_places[place])]
        return Cell(status=status, reason=reason)

    def cell(self, place: int) -> Cell:
        """The cell of the case at a place; a skipped one where the metric did not apply to it.

        For readers that print or compare a cell whatever it is. A skipped cell's reason is empty
        here, which stands for "does not apply".
        """
        return self[place] or Cell.skipped("")

    def has(self, status: Status) -> NDArray[np.bool_]:
        """By case: whether its cell has this status, such as failed.

        By this, callers count and select cases by how the metric ended for them.
        """
        has_status: NDArray[np.bool_] = self.states == _CODES[status]
        return has_status

    @property
    def coverage(self) -> Floats:
        """The share of each case's repetitions that are measured.

        NaN where the metric does not apply to the case. Repetitions to which it did not apply are
        not counted. A case that was asked once has 0 or 1. The gate tests by it whether a system
        answers less.
        """
        # Without a cell, or skipped: then the case is in no share.
        applies = (self.states != _NO_CELL) & ~self.has(Status.SKIPPED)
        shares = np.where(applies, self.has(Status.MEASURED).astype(float), np.nan)
        for place, repeats in self.repeats.items():
            applied = [is_measured for is_measured in repeats.coverage if is_measured is not None]
            # In place of the share of the mean cell, which is measured or not as a whole.
            shares[place] = np.nan
            if applied:
                shares[place] = sum(applied) / len(applied)
        return shares

    def asked(self, place: int) -> Repeats:
        """The repetitions of the case at a place; a single one where it was asked once.

        With it callers treat cases alike that were asked once and that were asked several times.
        """
        return self.repeats.get(place) or Repeats(cells=(self[place],))

    def take(self, places: Integers) -> Cells:
        """The cells of the cases at these places only, in this order.

        Values and reasons stay as they are, and only the places of the cases change: no value is
        copied.
        """
        repeats: dict[int, Repeats] = {}
        # Most metrics have none: the loop over all places is then saved.
        if self.repeats:
            for place, old_place in enumerate(places.tolist()):
                if old_place in self.repeats:
                    repeats[place] = self.repeats[old_place]
        # Reasons and values are left as they are: the places lead into the same lists.
        reason_places = self.reason_places
        if reason_places is not None:
            reason_places = reason_places[places]
        return replace(
            self,
            value_places=self.value_places[places],
            states=self.states[places],
            reason_places=reason_places,
            repeats=repeats,
        )


def _distinct(values: Floats) -> tuple[Floats, NDArray[np.unsignedinteger[Any]]]:
    """Each value once, and for each of the values its place among these.

    Most metrics have few values, so a column of places takes less memory than the values. Values
    are compared as bits: NaN is then one value, and nothing is rounded.
    """
    bits, places = np.unique(values.view(np.int64), return_inverse=True)
    return bits.view(float), places.astype(np.min_scalar_type(len(bits)))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CaseTable:
    """The cases of a run as columns; a `ScoredCase` is made of them when it is asked for.

    As objects, a hundred thousand cases with an object per cell take a gigabyte.
    """

    ids: Sequence[str]
    fingerprints: NDArray[np.bytes_]
    facts: Mapping[str, Sequence[Any]]
    """By the name of a field of `ScoredCase`; only fields that at least one case has."""
    cells: Mapping[str, Cells]
    texts: Texts | None = None
    """None for a baseline file."""
    _places: dict[str, int] = dataclasses.field(
        default_factory=dict[str, int], init=False, repr=False
    )

    @classmethod
    def of(cls, cases: Iterable[ScoredCase]) -> CaseTable:
        """The table of cases that are objects already, in their order.

        A fact that no case has, such as tags, gets no column.
        """
        rows = [*cases]
        facts: dict[str, list[Any]] = {}
        for fact in _FACTS:
            column = [getattr(row, fact) for row in rows]
            if any(column):
                # A fact that no case has gets no column; empty tuples and None are both no fact.
                facts[fact] = column

        metrics = dict.fromkeys(metric for row in rows for metric in row.scores)
        cells: dict[str, Cells] = {}
        for metric in metrics:
            repeats: dict[int, Repeats] = {}
            for place, row in enumerate(rows):
                if metric in row.repeats:
                    repeats[place] = row.repeats[metric]
            cells[metric] = Cells.of([row.scores.get(metric) for row in rows], repeats)

        return cls(
            ids=[row.id for row in rows],
            fingerprints=np.array([row.fingerprint.encode() for row in rows], np.bytes_),
            facts=facts,
            cells=cells,
        )

    def __len__(self) -> int:
        """The number of cases.

        All columns have as many values.
        """
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        """Whether the other is a table of equal cases in the same order.

        Columns are not compared: equal columns may store their values in another order.
        """
        return isinstance(other, CaseTable) and [*self] == [*other]

    def __iter__(self) -> Iterator[ScoredCase]:
        """The cases in order, each made of the columns when it is reached.

        All cases as objects at once would take a gigabyte for a hundred thousand.
        """
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, place: int) -> ScoredCase:
        """The case at a place, made of the columns.

        A metric that does not apply to the case has no score in it.
        """
        scores: dict[str, Cell] = {}
        repeats: dict[str, Repeats] = {}
        for metric, cells in self.cells.items():
            cell = cells[place]
            # Left out where the metric does not apply: None would pass for a cell.
            if cell is not None:
                scores[metric] = cell
            if place in cells.repeats:
                repeats[metric] = cells.repeats[place]
        facts = {name: column[place] for name, column in self.facts.items()}
        return ScoredCase(
            id=self.ids[place],
            fingerprint=self.fingerprints[place].decode(),
            scores=scores,
            repeats=repeats,
            **facts,
        )

    def fact(self, name: str) -> Sequence[Any]:
        """The column of one field of `ScoredCase`, such as ``tags``; empty where no case has it.

        Callers that need a value per case put their own default in place of the empty column.
        """
        return self.facts.get(name, ())

    def texts_of(self, places: Iterable[int]) -> Iterator[CaseTexts]:
        """The query, answer and ids of the cases at these places.

        A baseline file has no texts: then empty ones come, without end, so that callers may zip
        them with their cases.
        """
        if self.texts is None:
            return repeat(CaseTexts())
        return self.texts.of(places)

    def places(self, ids: Sequence[str]) -> Integers:
        """The place in this table of each of some case ids; -1 for an id that is not there.

        The same ids in the same order, as two runs on one dataset have them, need no look-up.
        """
        if ids is self.ids or ids == self.ids:
            return np.arange(len(ids))
        # Filled by the first look-up that needs it: the class is frozen, its dict is not.
        if not self._places:
            self._places.update((id_, place) for place, id_ in enumerate(self.ids))
        return np.array([self._places.get(id_, -1) for id_ in ids], np.int64)

    def take(self, places: Integers) -> CaseTable:
        """The table of only the cases at these places, in this order.

        A comparison cuts both runs to their common cases so.
        """
        # As a list of Python's own: facts and ids are lists, which NumPy cannot index.
        order: list[int] = places.tolist()
        facts: dict[str, list[Any]] = {}
        for name, column in self.facts.items():
            facts[name] = [column[place] for place in order]
        texts = self.texts
        if texts is not None:
            texts = texts.at(order)
        return CaseTable(
            ids=[self.ids[place] for place in order],
            fingerprints=self.fingerprints[places],
            facts=facts,
            cells={metric: cells.take(places) for metric, cells in self.cells.items()},
            texts=texts,
        )


def clusters_of(names: Sequence[str | None], gold: Sequence[int]) -> Sequence[str | None]:
    """The cluster that each case names; where no case names one, clusters by shared gold passage.

    Five questions about one passage rise and fall together, whether somebody declared it or not.
    Of a case's two passages, the one that more cases share makes its cluster: if every chain of
    shared passages were one cluster, most questions of two hops would be in the same one. Of more
    than two passages all have to be the same. benchmarks/interval_coverage.py compares these ways.

    Args:
        gold: `Case.gold_pair` of each case in turn, so two numbers per case; -1 for none.
    """
    if any(names):
        return names
    # Equal neighbours of the sorted list are shared. With a million passages of one case each, this
    # takes a third of the time that counting all of them takes.
    shared: set[int] = set()
    for passage, next_passage in pairwise(sorted(gold)):
        if passage == next_passage and passage >= 0:
            shared.add(passage)
    if not shared:
        return names
    cases_of = Counter(passage for passage in gold if passage in shared)

    # The passage that makes each case's cluster. Of two that as many cases share, the larger number
    # wins, so that all cases with these two choose the same one.
    chosen: list[int] = []
    for first_passage, second_passage in zip(gold[::2], gold[1::2], strict=True):
        rank_of_first = (cases_of.get(first_passage, 0), first_passage)
        if second_passage in shared and (cases_of[second_passage], second_passage) > rank_of_first:
            chosen.append(second_passage)
        else:
            chosen.append(first_passage)

    # A name is a digest: baseline files hold the names of clusters, and no ids of chunks.
    name_of: dict[int, str] = {}
    # Twelve digits, as `Case.gold_pair` makes numbers of six bytes.
    for passage, cases in Counter(chosen).items():
        if cases > 1 and passage >= 0:
            name_of[passage] = f"{GOLD}{passage:012x}"
    return [name_of.get(passage) for passage in chosen]


def clusters_among(cases: Sequence[Case]) -> Sequence[str | None]:
    """The cluster of each case: the one that it names, or one by its gold passages (`clusters_of`).

    Cases of one cluster rise and fall together, so intervals and tests count them as one
    observation.
    """
    gold: list[int] = []
    for case in cases:
        gold += case.gold_pair
    return clusters_of([case.cluster for case in cases], gold)


def clusters_note(clusters: Sequence[str | None]) -> str | None:
    """A line for reports on how many independent observations the cases are to intervals and tests.

    None where each case is an observation of its own.
    """
    names = {name for name in clusters if name is not None}
    # A case without a cluster is an observation by itself.
    observations = len(names) + clusters.count(None)
    if observations == len(clusters):
        return None
    if any(name.startswith(GOLD) for name in names):
        reason = "that share gold"
    else:
        reason = "of one cluster"
    counts = f"{counted(len(clusters), 'case')}, {counted(observations, 'cluster')}"
    return f"Cases {reason} count as one observation: {counts}."
