"""why(): what keeps the gold out of the context, over a live store, and what would bring it in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ragbench.core.case import Case
from ragbench.core.matched import GoldSearch
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.pipeline.bm25 import Bm25Index
from ragbench.pipeline.counterfactual import resized, usual_tokens
from ragbench.pipeline.gold import Gold, golds_of
from ragbench.pipeline.index import ENGLISH_EMBEDDER
from ragbench.post.stage import PostRetrieval
from ragbench.stats.mean import Interval, mean_interval
from ragbench.stores.attached import ForeignCollection
from ragbench.stores.base import Effort
from ragbench.stores.collection import OwnCollection
from ragbench.verbs.tune import SearchSetting, TunedCollection, settings_of
from ragbench.verbs.why_bench import ESTIMATED, TEXTS, Bench, View, Way

_DEPTH = 100
_FEWEST = 10
"""Questions that an interval needs."""
_TOGETHER = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One thing that would be done otherwise."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Together:
    """The changes that add most to each other, all of them made."""

    changes: tuple[str, ...]
    gain: Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    """Where one way has the gold."""

    way: str
    ranks: tuple[int | None, ...]
    """Of each gold, from 1; None where it is not among those that were looked at."""
    looked_at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Reasons:
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
    if k < 1:
        raise ConfigError(f"k must be at least 1, not {k}")
    asked = [case for case in cases if case.query.strip() and golds_of(case)]
    if not asked or 1 < len(asked) < _FEWEST:
        wanted = "one, or at least ten, are needed"
        message = f"{len(asked)} of {len(cases)} questions say what should be found: {wanted}"
        raise DataError([Problem(message=message)])
    stage = post_retrieval or PostRetrieval()
    bench = Bench(
        collection=collection,
        cases=asked,
        golds=[_placed(golds_of(case), collection.store) for case in asked],
        stage=stage,
        depth=max(_DEPTH, k),
        advance=advance,
    )
    now = Way(setting=collection.present, k=k, operators=tuple(range(len(stage.operators))))
    clusters = [case.cluster for case in asked]
    shares = bench.shares(now)
    tried = [*_ways(bench, now, command)]
    sizes = [*_sizes(bench, k)] if len(asked) > 1 else []
    level = 1 - 0.05 / max(1, len(tried) + len(sizes))

    def gain(values: Sequence[float], base: Sequence[float], level: float = level) -> Interval:
        differences = [one - other for one, other in zip(values, base, strict=True)]
        return mean_interval(differences, clusters, level, bounds=(-1.0, 1.0))

    def change(name: str, how: str, gained: Interval, *, is_estimate: bool) -> Change:
        sure = bool(gained.mean) and gained.low is not None and gained.low > 0
        return Change(name=name, how=how, gain=gained, is_sure=sure, is_estimate=is_estimate)

    changes = [
        change(name, how, gain(bench.shares(way), shares), is_estimate=way.view in ESTIMATED)
        for name, how, way in tried
    ]
    changes += [change(n, h, gain(v, base), is_estimate=True) for n, h, v, base in sizes]
    lost = [at for at, share in enumerate(shares) if share < 1]
    found = bench.located(now) if lost else []
    reasons = Reasons(
        k=k,
        now=now.setting.name,
        questions=len(asked),
        skipped=len(cases) - len(asked),
        recall=mean_interval(shares, clusters, bounds=(0.0, 1.0)),
        lost=dict(Counter(found[at].cause.value for at in lost)),
        changes=tuple(one for one in changes if one.is_estimate or (one.gain.mean or 0.0) > 0),
        notes=() if bench.texts else (_NO_TEXTS,),
    )
    if len(asked) == 1:
        golds = found[0] if found else bench.located(now)[0]
        brings = tuple(one for one in reasons.changes if (one.gain.mean or 0.0) > 0)
        return replace(reasons, golds=golds, ranks=tuple(_ranks(bench, now)), changes=brings)
    ordered = sorted(reasons.changes, key=lambda one: -(one.gain.mean or 0.0))
    ways = {name: way for name, _, way in tried if way.view not in ESTIMATED and way.k == k}
    joined = _together(bench, now, [w for w in ways.items()], lambda v: gain(v, shares, 0.95))
    return replace(reasons, changes=tuple(ordered), together=joined)


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


def _ways(bench: Bench, now: Way, command: str) -> Iterator[tuple[str, str, Way]]:
    """Each change with how it is made, the cheapest first."""
    for setting in settings_of(bench.legs(""), now.setting):
        if setting != now.setting:
            yield (
                f"search by {setting.name}",
                _searched(command, setting),
                replace(now, setting=setting),
            )
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
        yield (
            "without the filter",
            "leave out --filter and --native-filter",
            replace(now, view="filter"),
        )
    wider = _wider(bench, now)
    yield f"the first {wider} chunks", f"{command} --top-k {wider}", replace(now, k=wider)
    if not bench.texts:
        return
    yield from _estimates(bench, now)


def _wider(bench: Bench, now: Way) -> int:
    """Twice as many chunks; for one question as many as it takes to have all that is ranked."""
    if len(bench.cases) > 1:
        return 2 * now.k
    (ranking,) = bench.rankings(now)
    firsts = [
        next((rank for rank, one in enumerate(ranking, 1) if gold.is_held_by(one)), 0)
        for gold in bench.golds[0]
    ]
    return max(*firsts, now.k + 1)


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


def _sizes(bench: Bench, k: int) -> Iterator[tuple[str, str, list[float], list[float]]]:
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
            yield f"chunks of {size} tokens, {many} of them, by words", how, found, base


def _searched(command: str, setting: SearchSetting) -> str:
    given = {
        "RAGBENCH_DENSE_WEIGHT": setting.dense_weight,
        "RAGBENCH_EF": setting.effort.ef,
        "RAGBENCH_EXACT": True if setting.effort.exact else None,
    }
    names = [
        f"{name}={value:g} " if value is not True else f"{name}=true "
        for name, value in given.items()
        if value is not None
    ]
    return f"{''.join(names)}{command} --strategy {setting.strategy}"


def _together(
    bench: Bench,
    now: Way,
    ways: Sequence[tuple[str, Way]],
    gain: Callable[[Sequence[float]], Interval],
) -> Together | None:
    """Up to three changes, each the one that adds most to those before it."""
    here, names, best = now, list[str](), gain(bench.shares(now))
    while len(names) < _TOGETHER:
        steps = [
            (name, step)
            for name, way in ways
            if (step := _joined(here, now, way)) not in (None, here)
        ]
        tried = [(gain(bench.shares(step)), name, step) for name, step in steps if step is not None]
        top = max(tried, key=lambda one: round(one[0].mean or 0.0, 9), default=None)
        if top is None or (top[0].mean or 0.0) <= (best.mean or 0.0) + 1e-9:
            break
        best, here = top[0], top[2]
        names.append(top[1])
    return Together(changes=tuple(names), gain=best) if len(names) > 1 else None


def _joined(here: Way, now: Way, way: Way) -> Way | None:
    """A way with one more change; None where what it changes was changed already."""
    if way.setting != now.setting:
        return replace(here, setting=way.setting) if here.setting == now.setting else None
    if way.operators != now.operators:
        rest = tuple(at for at in here.operators if at in way.operators)
        return replace(here, operators=rest)
    return replace(here, view=way.view) if not here.view else None


def _ranks(bench: Bench, now: Way) -> Iterator[Rank]:
    """Where each way has the gold of the one question."""
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
        ranks = [
            next((rank for rank, one in enumerate(ranking, 1) if gold.is_held_by(one)), None)
            for gold in bench.golds[0]
        ]
        yield Rank(way=name, ranks=tuple(ranks), looked_at=len(ranking))
