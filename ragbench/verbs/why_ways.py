"""What could be done otherwise with a search, and how: the changes that `why` tries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ragbench.pipeline.bm25 import Bm25Index
from ragbench.pipeline.counterfactual import resized, usual_tokens
from ragbench.pipeline.index import ENGLISH_EMBEDDER
from ragbench.stores.attached import ForeignCollection
from ragbench.stores.collection import OwnCollection
from ragbench.verbs.tune import SearchSetting, settings_of
from ragbench.verbs.why_bench import Bench, Way


def ways_of(bench: Bench, now: Way, command: str) -> Iterator[tuple[str, str, Way]]:
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


def sizes_of(bench: Bench, k: int) -> Iterator[tuple[str, str, list[float], list[float]]]:
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
