"""tune(): the cheapest setting that loses nothing, by the same questions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragbench import Case, Chunk
from ragbench.errors import ConfigError, DataError
from ragbench.search.embedders.local import HashingEmbedder
from ragbench.search.pipeline.strategies import DenseStrategy, Search
from ragbench.verbs.tune import SearchSetting, TunedCollection, tune
from tests.unit.search.pipeline.builders import Forgetful

WORDS = ["rent", "dogs", "keys", "garden", "stairs", "boiler", "lift", "roof", "bins", "post"]
CHUNKS = [Chunk(id=f"{w}{n}", text=f"the {w} of house {n}") for w in WORDS for n in range(3)]
CASES = [
    Case(id=f"{w}{n}", query=f"{w} house {n}", reference_context_ids=(f"{w}{n}",))
    for w in WORDS
    for n in range(3)
]


class Words:
    def retrieve(self, queries: list[str], search: Search) -> list[list[Chunk]]:
        found: list[list[Chunk]] = []
        for query in queries:
            word, _, number = query.split()
            right = [one for one in CHUNKS if one.id == f"{word}{number}"]
            found.append([replace(one, score=1.0) for one in right if int(number) % 2 == 0])
        return found


def collection(missed: str = "") -> TunedCollection:
    dense = DenseStrategy(
        store=Forgetful(CHUNKS, missed),  # type: ignore[arg-type]
        embedder=HashingEmbedder(dimension=256),
        calibration=None,
    )
    return TunedCollection(
        dense=dense,
        sparse=Words(),  # type: ignore[arg-type]
        present=SearchSetting(strategy="hybrid", dense_weight=0.01),
    )


def test_the_cheapest_setting_that_loses_nothing_is_named() -> None:
    found = tune(collection(), CASES, k=3)
    # By vectors everything is found first; by words two in three questions.
    assert found["sparse"].score.mean == pytest.approx(2 / 3)
    assert found["dense"].score.mean == pytest.approx(1.0)
    assert (found.chosen, found.questions, found.skipped) == ("dense ef=16", 30, 0)
    assert not found["sparse"].loses_nothing


def test_what_the_index_misses_is_reported_beside_the_exact_search() -> None:
    found = tune(collection("rent0"), CASES, k=3)
    exact, plain = found["dense exact"], found["dense"]
    assert exact.overlap is not None and exact.overlap.mean == 1.0
    assert plain.overlap is not None and (plain.overlap.mean or 1.0) < 1.0
    assert plain.score.mean == pytest.approx(29 / 30)
    assert found.best == "dense exact"


def test_questions_without_gold_are_skipped_and_too_few_are_refused() -> None:
    more = [*CASES, Case(id="x", query="rent house 1")]
    assert tune(collection(), more, k=3).skipped == 1
    with pytest.raises(DataError, match="only 3 of 3 questions have gold"):
        tune(collection(), CASES[:3], k=3)
    with pytest.raises(ConfigError, match="the margin between 0 and 1"):
        tune(collection(), CASES, margin=0.0)
    with pytest.raises(ConfigError, match="neither by words nor by vectors"):
        tune(replace(collection(), dense=None, sparse=None), CASES)
