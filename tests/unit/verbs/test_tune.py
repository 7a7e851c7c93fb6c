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
# Three chunks and three questions to each word.
CHUNKS: list[Chunk] = []
CASES: list[Case] = []
for _word in WORDS:
    for _number in range(3):
        _id = f"{_word}{_number}"
        CHUNKS.append(Chunk(id=_id, text=f"the {_word} of house {_number}"))
        CASES.append(Case(id=_id, query=f"{_word} house {_number}", reference_context_ids=(_id,)))


class Words:
    """Finds the right chunk of houses 0 and 2, and nothing of house 1."""

    def retrieve(self, queries: list[str], search: Search) -> list[list[Chunk]]:
        chunks_by_id = {chunk.id: chunk for chunk in CHUNKS}
        results: list[list[Chunk]] = []
        for query in queries:
            word, _, number = query.split()
            if int(number) % 2 == 0:
                chunk = chunks_by_id[f"{word}{number}"]
                results.append([replace(chunk, score=1.0)])
            else:
                results.append([])
        return results


def collection(missed: str = "") -> TunedCollection:
    """A store that finds everything by vectors, but for the chunk that its index misses."""
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


def test_each_setting_is_scored_over_the_same_questions() -> None:
    report = tune(collection(), CASES, k=3)

    assert report.questions == 30
    assert report.skipped == 0
    # By vectors everything is found first; by words two in three questions.
    assert report["dense"].score.mean == pytest.approx(1.0)
    assert report["sparse"].score.mean == pytest.approx(2 / 3)


def test_the_cheapest_setting_that_loses_nothing_is_chosen() -> None:
    report = tune(collection(), CASES, k=3)

    assert report.chosen == "dense ef=16"
    assert not report["sparse"].loses_nothing


def test_what_the_index_misses_lowers_the_overlap_with_the_exact_search() -> None:
    report = tune(collection(missed="rent0"), CASES, k=3)

    exact, by_index = report["dense exact"].overlap, report["dense"].overlap
    assert exact is not None
    assert exact.mean == 1.0
    assert by_index is not None
    assert by_index.mean is not None
    assert by_index.mean < 1.0


def test_where_the_index_misses_a_chunk_the_exact_search_is_best() -> None:
    report = tune(collection(missed="rent0"), CASES, k=3)

    assert report["dense"].score.mean == pytest.approx(29 / 30)
    assert report.best == "dense exact"


def test_questions_without_gold_are_skipped() -> None:
    without_gold = Case(id="x", query="rent house 1")

    report = tune(collection(), [*CASES, without_gold], k=3)

    assert report.questions == 30
    assert report.skipped == 1


def test_too_few_questions_are_refused() -> None:
    with pytest.raises(DataError, match="only 3 of 3 questions have gold"):
        tune(collection(), CASES[:3], k=3)


def test_a_margin_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="the margin between 0 and 1"):
        tune(collection(), CASES, margin=0.0)


def test_a_store_that_cannot_search_is_refused() -> None:
    cannot_search = replace(collection(), dense=None, sparse=None)

    with pytest.raises(ConfigError, match="neither by words nor by vectors"):
        tune(cannot_search, CASES)
