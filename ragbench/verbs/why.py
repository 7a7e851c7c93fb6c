"""why(): what keeps the gold out of the context, over a live store, and what would bring it in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ragbench.core.case import Case
from ragbench.core.case_table import clusters_among
from ragbench.core.chunk import Chunk
from ragbench.core.matched import GoldSearch
from ragbench.core.record import Record, replace
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.post.stage import PostRetrieval
from ragbench.search.pipeline.agreement import resized, usual_tokens
from ragbench.search.pipeline.baseline import Bm25Index
from ragbench.search.pipeline.gold import Gold, golds_of
from ragbench.search.pipeline.index import ENGLISH_EMBEDDER
from ragbench.search.stores.attached import ForeignCollection
from ragbench.search.stores.base import Effort
from ragbench.search.stores.collection import OwnCollection
from ragbench.stats.mean import Interval, mean_interval
from ragbench.verbs.tune import SearchSetting, TunedCollection, gain_of, settings_of
from ragbench.verbs.why_bench import ESTIMATED, TEXTS, Bench, View, Way

_DEPTH = 100
_FEWEST = 10
"""Questions that an interval needs."""
_TOGETHER = 3


class Change(Record):
    name: str
    how: str
    """The command or the lines of a file that do it."""
    gain: Interval
    """Of the share of the gold in the context, question by question; the intervals of all changes
    that were tried hold together."""
    is_sure: bool
    """Whether the interval lies above 0."""
    is_estimate: bool = False
    """Whether the store would have to be indexed for it: it was tried on its texts in memory."""

    @property
    def mean(self) -> float:
        return self.gain.mean or 0.0


class Together(Record):
    """The changes that add most to each other, all of them made."""

    changes: tuple[str, ...]
    gain: Interval


class Rank(Record):
    way: str
    ranks: tuple[int | None, ...]
    """Of each gold, from 1; None where it is not among those that were looked at."""
    looked_at: int


class Reasons(Record):
    """Why questions do not find their gold, and what would change it."""

    k: int
    now: str
    """How the store is searched."""
    questions: int
    skipped: int
    """Without gold."""
    recall: Interval
    """Share of the gold in the context."""
    lost: Mapping[str, int]
    """Where the gold that came nearest is, by `GoldCause`, of questions that lack some."""
    changes: tuple[Change, ...]
    """Of one question the cheapest first, of several the greatest gain."""
    together: Together | None = None
    golds: GoldSearch | None = None
    """Of one question."""
    ranks: tuple[Rank, ...] = ()
    """Of one question."""
    notes: tuple[str, ...] = ()


def why(
    collection: TunedCollection,
    cases: Sequence[Case],
    *,
    k: int,
    post_retrieval: PostRetrieval | None = None,
    command: str = "ragbench search",
    advance: Callable[[str], None] = lambda _: None,
) -> Reasons:
    """Tries what could be done otherwise with the questions of some cases.

    Nothing is written to the store. What needs another index is estimated on the store's own texts.

    Args:
        k: how many chunks are retrieved.
        post_retrieval: what stands between retrieval and generation.
        command: how the store is searched, for the commands that are proposed.

    Raises:
        DataError: no case says what should be found, or several do and fewer than ten.
    """
    bench = _bench(collection, cases, k, post_retrieval or PostRetrieval(), advance)
    operators = tuple(range(len(bench.stage.operators)))
    now = Way(setting=collection.present, k=k, operators=operators)
    shares, is_one = bench.shares(now), len(bench.cases) == 1
    clusters = clusters_among(bench.cases)
    ways = _ways(bench, now, command)
    trials = [_Trial(name, how, bench.shares(way), shares, way) for name, how, way in ways]
    if not is_one:
        trials += _sizes(bench, k)
    level = 1 - 0.05 / len(trials)
    changes = [one.change(clusters, level) for one in trials]
    lost = [at for at, share in enumerate(shares) if share < 1]
    found = bench.located(now, [0] if is_one else lost)
    shown = [one for one in changes if one.mean > 0 or (one.is_estimate and not is_one)]
    if not is_one:
        shown.sort(key=lambda one: -one.mean)
    return Reasons(
        k=k,
        now=now.setting.name,
        questions=len(bench.cases),
        skipped=len(cases) - len(bench.cases),
        recall=mean_interval(shares, clusters, bounds=(0.0, 1.0)),
        lost=dict(Counter(one.cause.value for one in found)) if lost else {},
        changes=tuple(shown),
        together=None if is_one else _together(bench, now, trials, clusters),
        golds=found[0] if is_one else None,
        ranks=tuple(_ranks(bench, now)) if is_one else (),
        notes=() if bench.texts else (_NO_TEXTS,),
    )


def _bench(
    collection: TunedCollection,
    cases: Sequence[Case],
    k: int,
    stage: PostRetrieval,
    advance: Callable[[str], None],
) -> Bench:
    if k < 1:
        raise ConfigError(f"k must be at least 1, not {k}")
    asked = [case for case in cases if case.query.strip() and golds_of(case)]
    if not asked or 1 < len(asked) < _FEWEST:
        wanted = "one, or at least ten, are needed"
        message = f"{len(asked)} of {len(cases)} questions say what should be found: {wanted}"
        raise DataError([Problem(message=message)])
    return Bench(
        collection=collection,
        cases=asked,
        golds=[_placed(golds_of(case), collection.store) for case in asked],
        stage=stage,
        depth=max(_DEPTH, k),
        advance=advance,
    )


class _Trial(NamedTuple):
    """A change that was tried: what each question's context holds with it, and without."""

    name: str
    how: str
    values: Sequence[float]
    base: Sequence[float]
    way: Way | None = None
    """None where it is no other search of the same chunks."""

    @property
    def is_estimate(self) -> bool:
        return self.way is None or self.way.view in ESTIMATED

    def change(self, clusters: Sequence[str | None], level: float) -> Change:
        gain = gain_of(self.values, self.base, clusters, level)
        return Change(
            name=self.name,
            how=self.how,
            gain=gain,
            is_sure=bool(gain.mean) and gain.low is not None and gain.low > 0,
            is_estimate=self.is_estimate,
        )


# --- what could be done otherwise, and how


def _ways(bench: Bench, now: Way, command: str) -> Iterator[tuple[str, str, Way]]:
    for setting in settings_of(bench.legs(""), now.setting):
        if setting != now.setting:
            how = _searched(command, setting)
            yield f"search by {setting.name}", how, replace(now, setting=setting)
    for at in now.operators:
        name = bench.stage.operators[at].name
        rest = tuple(one for one in now.operators if one != at)
        how = f"take operator {at + 1} ({name}) out of the file of post-retrieval"
        yield f"without the operator {name}", how, replace(now, operators=rest)
    collection, store = bench.collection, bench.store
    if collection.threshold is not None or isinstance(store, OwnCollection):
        how = f"{command} --score-threshold -9"
        yield "without the threshold", how, replace(now, view="threshold")
    if collection.filters is not None or store.native_filter is not None:
        how = "leave out --filter and --native-filter"
        yield "without the filter", how, replace(now, view="filter")
    wider = _wider(bench, now)
    yield f"the first {wider} chunks", f"{command} --top-k {wider}", replace(now, k=wider)
    if bench.texts:
        yield from _estimates(bench, now)


def _wider(bench: Bench, now: Way) -> int:
    """Twice as many chunks; for one question as many as it takes to have all that is ranked."""
    if len(bench.cases) > 1:
        return 2 * now.k
    (ranking,) = bench.rankings(now)
    return max(now.k + 1, *(rank or 0 for rank in _firsts(ranking, bench)))


def _estimates(bench: Bench, now: Way) -> Iterator[tuple[str, str, Way]]:
    weight = now.setting.dense_weight
    if isinstance(bench.store, ForeignCollection):
        beside = "ragbench index CORPUS --store memory:words --embedder none"
        words = replace(now, view="bm25", setting=SearchSetting(strategy="sparse"))
        yield "BM25 in place of the store's words", beside, words
        if bench.collection.dense is not None:
            both = SearchSetting(
                strategy="hybrid", effort=now.setting.effort, dense_weight=weight or 0.5
            )
            name = f"BM25 beside its vectors, weight {both.dense_weight:g}"
            yield name, beside, replace(now, view="bm25", setting=both)
    if bench.english is not None:
        both = SearchSetting(strategy="hybrid", dense_weight=bench.english.weight)
        how = f"ragbench index CORPUS --store memory:english --embedder {ENGLISH_EMBEDDER}"
        name = f"the static embedder {ENGLISH_EMBEDDER} beside words"
        yield name, how, replace(now, view="english", setting=both)


def _sizes(bench: Bench, k: int) -> Iterator[_Trial]:
    """Chunks of half and of twice the size, by words alone, in a context of the same length."""
    tokens, queries = usual_tokens(bench.texts), [case.query for case in bench.cases]
    if not bench.texts or tokens < 32:
        return
    base = bench.held(bench.words.batch_search(queries, k))
    for size, many in ((tokens // 2, 2 * k), (2 * tokens, max(1, k // 2))):
        cut = resized(bench.texts, size)
        if len(cut) != len(bench.texts):
            found = bench.held(Bm25Index(cut).batch_search(queries, many))
            how = f"ragbench index CORPUS --store memory:size --chunk-size {size}"
            yield _Trial(f"chunks of {size} tokens, {many} of them, by words", how, found, base)


def _searched(command: str, setting: SearchSetting) -> str:
    _, *others = setting.settings.items()
    shown = ((name, "true" if value is True else f"{value:g}") for name, value in others)
    names = [f"RAGBENCH_{name.upper()}={value} " for name, value in shown]
    return f"{''.join(names)}{command} --strategy {setting.strategy}"


# --- what came of it

_NO_TEXTS = (
    f"nothing is estimated: the store has a native filter, more than {TEXTS:,} chunks, or does "
    "not give all of its rows"
)


def _placed(golds: Sequence[Gold], store: OwnCollection | ForeignCollection) -> tuple[Gold, ...]:
    """Golds that name a chunk of a longer document as the span that it is, however it is cut."""
    if isinstance(store, ForeignCollection):
        return tuple(golds)
    kept = store.get([one.id for one in golds if one.id is not None])
    return tuple(
        one
        if one.id is None
        or (chunk := kept.get(one.id)) is None
        or chunk.document_id in (None, one.id)
        else Gold(document_id=chunk.document_id, start=chunk.start, end=chunk.end, text=chunk.text)
        for one in golds
    )


def _together(
    bench: Bench, now: Way, trials: Sequence[_Trial], clusters: Sequence[str | None]
) -> Together | None:
    """Up to three changes, each the one that adds most to those before it."""
    ways = [(one.name, one.way) for one in trials if one.way and not one.is_estimate]
    base = bench.shares(now)
    here, names, best = now, list[str](), gain_of(base, base, clusters)
    while len(names) < _TOGETHER:
        steps = [(name, _joined(here, now, way)) for name, way in ways if way.k == now.k]
        tried = [
            (gain_of(bench.shares(step), base, clusters), name, step)
            for name, step in steps
            if step != here
        ]
        top = max(tried, key=lambda one: round(one[0].mean or 0.0, 9), default=None)
        if top is None or (top[0].mean or 0.0) <= (best.mean or 0.0) + 1e-9:
            break
        best, name, here = top
        names.append(name)
    return Together(changes=tuple(names), gain=best) if len(names) > 1 else None


def _joined(here: Way, now: Way, way: Way) -> Way:
    """A way with one more change; as it is where what it changes was changed already."""
    if way.setting != now.setting:
        return replace(here, setting=way.setting) if here.setting == now.setting else here
    if way.operators != now.operators:
        return replace(here, operators=tuple(at for at in here.operators if at in way.operators))
    return here if here.view else replace(here, view=way.view)


def _ranks(bench: Bench, now: Way) -> Iterator[Rank]:
    plain = replace(now, k=bench.depth, operators=())
    effort, legs = now.setting.effort, bench.legs("")
    exact = Effort(exact=True)
    ways: list[tuple[str, Way]] = [(f"now: {now.setting.name}", plain)]
    if "sparse" in legs:
        ways.append(("by words", replace(plain, setting=SearchSetting(strategy="sparse"))))
    for name, how in (("by vectors", effort), ("by vectors, exactly", exact)):
        if how in legs:
            setting = SearchSetting(strategy="dense", effort=how)
            ways.append((name, replace(plain, setting=setting)))
    filters = bench.collection.filters is not None or bench.store.native_filter is not None
    views: dict[View, bool] = {"threshold": True, "filter": filters}
    ways += [
        (f"without the {one}", replace(plain, view=one)) for one, is_on in views.items() if is_on
    ]
    for at, operator in enumerate(bench.stage.operators):
        ways.append((f"after {operator.name}", replace(now, operators=tuple(range(at + 1)))))
    for name, way in ways:
        (ranking,) = bench.contexts(way)
        yield Rank(way=name, ranks=_firsts(ranking, bench), looked_at=len(ranking))


def _firsts(ranking: Sequence[Chunk], bench: Bench) -> tuple[int | None, ...]:
    """Where a ranking of the one question has each gold first."""
    ranked = [*enumerate(ranking, 1)]
    return tuple(
        next((rank for rank, one in ranked if gold.is_held_by(one)), None)
        for gold in bench.golds[0]
    )
