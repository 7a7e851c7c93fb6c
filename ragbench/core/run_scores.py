"""A stored run as a gate or a comparison sees it: its scores a case, and what they rest on."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from ragbench.core.attribution import Cause
from ragbench.core.history import Drift
from ragbench.core.metric import Direction
from ragbench.core.origin import Origin
from ragbench.core.outcome import Cell, Repeats, Status, coverage_of
from ragbench.core.report import Latency, StageCount

ValueT = TypeVar("ValueT")
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
    def scale(self) -> float | None:
        """Largest change that one case can show; None when unbounded."""
        return None if self.bounds is None else self.bounds[1] - self.bounds[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """What must be known of one of the runs that scores are made of."""

    date: str | None
    """When it was made, ISO 8601; None where no file says."""
    commit: str | None
    dirty: bool = False


class Label(NamedTuple):
    """What people say of one case, on a metric's scale."""

    value: float
    people: int
    is_drawn: bool
    """Whether chance chose the case."""
    is_of_pairs: bool = False
    """Whether it chose among those alone of which two runs' answers differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredCase:
    """One case of a run."""

    id: str
    fingerprint: str
    """Changes with anything that is known of the case but its id and labels: question, reference,
    relevance ..."""
    scores: Mapping[str, Cell]
    """By metric name. Why a cell failed stands in its ``reason``; its failure is not kept."""
    right: str = ""
    """Changes with what is known of the right answer alone; empty in a baseline file."""
    cluster: str | None = None
    tags: tuple[str, ...] = ()
    language: str | None = None
    query: str | None = None
    """None in a baseline file, which holds no texts. So are the next two."""
    response: str | None = None
    """None too when nothing was generated."""
    retrieved_ids: tuple[str, ...] | None = None
    """Best first. None too when the RAG gives no ids."""
    stages: Mapping[str, Status] = field(default_factory=dict[str, Status])
    """How each stage ended; empty in a baseline file."""
    cause: Cause | None = None
    """What became of it; None where the file does not say."""
    gold: tuple[str, ...] = ()
    """Ids of what should be retrieved; empty in a baseline file."""
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

    def coverage(self, metric: str) -> float | None:
        """Share of the times that the metric was measured when it applied; None: it never did."""
        repeats = self.repeats.get(metric)
        if repeats is None:
            return coverage_of(self.scores.get(metric))
        known = [state for state in repeats.coverage if state is not None]
        return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True, eq=False)
class ByCase(Mapping[str, ValueT]):
    """Something of each case by its id; all such of one run share the ids' places."""

    places: Mapping[str, int]
    items_of: Sequence[ValueT]

    def __getitem__(self, id: str) -> ValueT:
        return self.items_of[self.places[id]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


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
    cases: tuple[ScoredCase, ...]
    """In the dataset's order; in a baseline file, by id."""
    stages: tuple[StageCount, ...] = ()
    latencies: tuple[Latency, ...] = ()
    """Empty when ``timings.json`` is not there."""
    judge_cost: float | None = None
    """What the answers of its judge cost; None where none is kept, or a price is not known."""
    currency: str | None = None
    judge: str = ""
    """Its judge's models; empty without one, and where no file says."""
    date: str | None = None
    """When it was made, ISO 8601; None where no file says. The newest one's, of several runs."""
    made_of: tuple[RunFacts, ...] = ()
    """The runs that a baseline's scores are the means of, oldest first; empty for a single run."""
    origins: tuple[Origin, ...] | None = None
    """What the outcomes of its stages came from, of the newest of several runs; None where no file
    says. A stage that was not asked, because its outcomes were recorded, has none."""

    is_old: bool = False
    """Whether an earlier version wrote its cases down, so that none is recognised."""
    drift: Drift | None = None
    """Of a baseline file: main over all its merges."""

    _places: dict[str, int] = field(
        default_factory=dict[str, int], init=False, repr=False, compare=False
    )

    def by_case(self, items: Sequence[ValueT]) -> Mapping[str, ValueT]:
        """What stands in the order of the cases, by their ids."""
        if not self._places:
            self._places.update((case.id, place) for place, case in enumerate(self.cases))
        return ByCase(self._places, items)

    @property
    def clusters_are_of_gold(self) -> bool:
        """Whether cases are clustered by their gold, because none names a cluster."""
        return any((case.cluster or "").startswith(GOLD) for case in self.cases)

    def column(self, metric: str) -> MetricColumn | None:
        """The metric of that name, written as the run writes it; None when it has none."""
        return next((column for column in self.metrics if column.name == metric), None)

    def values(self, metric: str) -> Mapping[str, float | None]:
        """A metric's value by case id; None for a case that was not measured."""
        return self.by_case([case.value(metric) for case in self.cases])

    def clusters(self) -> Mapping[str, str | None]:
        """What each case shares with others, by case id; None: nothing."""
        return self.by_case([case.cluster for case in self.cases])

    def fingerprints_of_cases(self) -> dict[str, str]:
        return {case.id: case.fingerprint for case in self.cases}

    def on(self, ids: Collection[str]) -> RunScores:
        """The run with these cases alone; itself where it has no others."""
        cases = tuple(case for case in self.cases if case.id in ids)
        return self if len(cases) == len(self.cases) else replace(self, cases=cases)


def unchanged(first: RunScores, *others: RunScores) -> set[str]:
    """The ids of the cases that all runs have, the same to the last letter."""
    known = [other.fingerprints_of_cases() for other in others]
    return {
        case.id
        for case in first.cases
        if all(cases.get(case.id) == case.fingerprint for cases in known)
    }


def under_ids_of(run: RunScores, earlier: RunScores) -> tuple[RunScores, dict[str, str]]:
    """An earlier run with its cases under a later one's ids; and the new ids with the old ones.

    A case is known by its fingerprint. Ids that count rows move with each row that is inserted.
    """
    mine, theirs = run.fingerprints_of_cases(), earlier.fingerprints_of_cases()
    free: dict[str, list[str]] = {}
    for id_, fingerprint in reversed(mine.items()):
        if theirs.get(id_) != fingerprint:
            free.setdefault(fingerprint, []).append(id_)
    names = {
        id_: free[fingerprint].pop()
        for id_, fingerprint in theirs.items()
        if mine.get(id_) != fingerprint and free.get(fingerprint)
    }
    taken = set(names.values())
    cases = (
        replace(case, id=names.get(case.id) or f"{case.id}{' (before)' * (case.id in taken)}")
        for case in earlier.cases
    )
    known = {new: old for old, new in names.items()}
    if not names:
        return earlier, known
    drift = _renamed(earlier.drift, known)
    return replace(earlier, cases=tuple(cases), drift=drift), known


def _renamed(drift: Drift | None, names: Mapping[str, str]) -> Drift | None:
    """With the cases under their new ids; ``names`` has the old ones by the new."""
    if drift is None:
        return None
    new = {id_: id_ for id_ in drift.cases if id_ not in names} | {o: n for n, o in names.items()}
    return replace(drift, cases={new[id_]: sums for id_, sums in drift.cases.items() if id_ in new})


def clustered_by_gold(
    cases: Sequence[ScoredCase], gold: Sequence[Sequence[str] | None]
) -> tuple[ScoredCase, ...]:
    """The cases, those with the same gold as one cluster where none names a cluster.

    Five questions about one document rise and fall together, whether somebody wrote that down or
    not.
    """
    if any(case.cluster is not None for case in cases):
        return tuple(cases)
    names = [_gold_name(ids) if ids else None for ids in gold]
    shared = {name for name, count in Counter(names).items() if name is not None and count > 1}
    return tuple(
        replace(case, cluster=name) if name in shared else case
        for case, name in zip(cases, names, strict=True)
    )


def _gold_name(ids: Sequence[str]) -> str:
    """A digest: baseline files hold the names of clusters, and no ids of chunks."""
    joined = "\0".join(sorted(ids)).encode("utf-8", "surrogatepass")
    return GOLD + hashlib.sha256(joined).hexdigest()[:12]
