"""Personalised PageRank: against a reference library and over graphs of chunks."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import InterfaceError
from ragbench.post.rerankers.ppr import PersonalisedPageRankReranker, personalised_pagerank
from ragbench.post.rerankers.semantic import sparse_matrix
from tests.unit.post.rerankers.builders import chunk, notes, order, query

Edges = Sequence[tuple[int, int, float]]


def ranks(edges: Edges, seeds: Sequence[float], damping: float) -> list[float]:
    sources, targets, weights = zip(*edges, strict=True) if edges else ((), (), ())
    matrix = sparse_matrix(weights, sources, targets, (len(seeds), len(seeds)))
    result: list[float] = personalised_pagerank(
        matrix, np.array(seeds, dtype=float), damping=damping
    ).tolist()
    return result


def test_two_nodes_by_hand() -> None:
    # 0 -> 1 and back, always starting at 0: x0 = 0.5 + 0.5 x1, x1 = 0.5 x0.
    assert ranks([(0, 1, 1), (1, 0, 1)], [1, 0], 0.5) == pytest.approx([2 / 3, 1 / 3])


def test_a_neighbour_is_linked_in_both_directions() -> None:
    """The nearest of "far" is "near", but the nearest of "near" is "hub"."""
    given = [
        chunk("hub", score=1.0, embedding=[1.0, 0.0]),
        chunk("near", score=0.0, embedding=[0.9, 0.1]),
        chunk("far", score=0.0, embedding=[0.5, 0.5]),
        chunk("other", score=0.0, embedding=[-1.0, 0.0]),
    ]
    reranker = PersonalisedPageRankReranker(neighbours=1)
    scores = dict(zip(["hub", "near", "far", "other"], reranker.score(query(), given), strict=True))
    # Only over the link from "near" back to "far" can anything reach "far".
    assert scores["far"] > 0.01
    assert scores["other"] < scores["far"]


def test_a_dead_end_starts_again() -> None:
    # x0 = 0.5 + 0.5 x1 (from the dead end), x1 = 0.5 x0.
    assert ranks([(0, 1, 1)], [1, 0], 0.5) == pytest.approx([2 / 3, 1 / 3])


def test_without_edges_or_damping_the_seeds_remain() -> None:
    assert ranks([], [3, 1], 0.85) == pytest.approx([0.75, 0.25])
    assert ranks([(0, 1, 1)], [3, 1], 0) == [0.75, 0.25]


@pytest.mark.extra("dev", package="networkx")
@settings(deadline=None)
@given(
    st.integers(2, 7).flatmap(
        lambda size: st.tuples(
            st.lists(
                st.tuples(st.integers(0, size - 1), st.integers(0, size - 1), st.floats(0.1, 9)),
                max_size=12,
                unique_by=lambda edge: edge[:2],
            ),
            st.lists(st.floats(0, 5), min_size=size, max_size=size).filter(lambda s: sum(s) > 0.1),
        )
    ),
    st.sampled_from([0.1, 0.5, 0.85]),
)
def test_the_reference_library_agrees(
    graph: tuple[list[tuple[int, int, float]], list[float]], damping: float
) -> None:
    networkx: Any = import_module("networkx")
    edges, seeds = graph
    reference = networkx.DiGraph()
    reference.add_nodes_from(range(len(seeds)))
    reference.add_weighted_edges_from(edges)
    expected = networkx.pagerank(
        reference, alpha=damping, personalization=dict(enumerate(seeds)), tol=1e-10, max_iter=1000
    )
    assert ranks(edges, seeds, damping) == pytest.approx(
        [expected[node] for node in range(len(seeds))], abs=1e-7
    )


def test_a_link_lifts_what_a_good_chunk_points_at() -> None:
    chunks = [
        chunk("best", score=3.0, links=["linked"]),
        chunk("second", score=2.0),
        chunk("linked", score=1.9),
        chunk("last", score=1.0),
    ]
    assert order(PersonalisedPageRankReranker(), query(), chunks) == [
        "best",
        "linked",
        "second",
        "last",
    ]
    scores = PersonalisedPageRankReranker().score(query(), chunks)
    assert sum(scores) == pytest.approx(1)
    assert scores.notes == ()


def test_links_go_to_chunks_and_documents_with_weights_and_directions() -> None:
    def scores(links: object, *, directed: bool = False) -> list[float]:
        reranker = PersonalisedPageRankReranker(damping=0.5, seeds="rank", directed=directed)
        chunks = [chunk("a", links=links), chunk("b"), chunk("c")]
        chunks[1] = type(chunks[1])(id="b", text="b", document_id="doc")
        return list(reranker.score(query(), chunks))

    assert scores(["doc"]) == scores(["b"]) == scores({"b": 1.0}) == scores(["b", "b", "a", "zz"])
    assert scores({"b": 9.0, "c": 1.0})[1] > scores({"b": 1.0, "c": 1.0})[1]
    assert scores(["c"], directed=True)[0] < scores(["c"])[0]
    assert scores(None) == scores([])


def test_a_link_in_a_list_weighs_one() -> None:
    """From b as much comes back to a, which lists it, as to c, which gives it the weight 1."""
    chunks = [
        chunk("a", score=1.0, links=["b"]),
        chunk("b", score=2.0),
        chunk("c", score=1.0, links={"b": 1.0}),
    ]
    left, middle, right = PersonalisedPageRankReranker(damping=0.5).score(query(), chunks)
    assert left == pytest.approx(right)
    # The walk starts at b: b = 0.5 + 0.5 (a + c), a = c = 0.25 b.
    assert (left, middle) == pytest.approx((1 / 6, 2 / 3))


def test_neighbours_by_embedding_support_each_other() -> None:
    chunks = [chunk("a", score=1.0), chunk("b", score=0.9), chunk("c", score=0.85)]
    asked = query(a=[1, 0], b=[0, 1], c=[1, 0.1])
    assert order(PersonalisedPageRankReranker(neighbours=1, damping=0.6), asked, chunks) == [
        "a",
        "c",
        "b",
    ]
    assert order(PersonalisedPageRankReranker(neighbours=0), asked, chunks) == ["a", "b", "c"]


def test_seeds_by_similarity() -> None:
    chunks = [chunk("a"), chunk("b")]
    by_similarity = PersonalisedPageRankReranker(seeds="similarity", damping=0)
    assert order(by_similarity, query(embedding=[0, 1], a=[1, 0], b=[0, 1]), chunks) == ["b", "a"]
    assert "the query or a chunk has no embedding: the walk starts by ranks" in notes(
        by_similarity, query(a=[1, 0], b=[0, 1]), chunks
    )


def test_without_scores_and_edges_the_order_stays_and_it_is_said() -> None:
    chunks = [chunk("a"), chunk("b", score=9.0), chunk("c")]
    assert order(PersonalisedPageRankReranker(), query(), chunks) == ["a", "b", "c"]
    assert notes(PersonalisedPageRankReranker(), query(), chunks) == (
        "a chunk has no score: the walk starts by ranks",
        "no chunk is linked to another: the order is that of the seeds",
    )


def test_identical_chunks_are_no_trouble() -> None:
    chunks = [chunk("a", score=1.0, embedding=[1, 0]), chunk("b", score=1.0, embedding=[1, 0])]
    assert list(PersonalisedPageRankReranker().score(query(), chunks)) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    "links", ["b", 7, {"b": -1}, {"b": "heavy"}, {"b": float("nan")}, {"b": float("inf")}]
)
def test_links_that_cannot_be_read_are_named(links: object) -> None:
    with pytest.raises(InterfaceError, match="'a'"):
        PersonalisedPageRankReranker().score(query(), [chunk("a", links=links), chunk("b")])


DIRECTIONS = {"a": [1.0, 0.0], "b": [0.8, 0.6], "c": [0.0, 1.0], "d": [-0.6, 0.8]}
"""Unit vectors: the lowest cosine is -0.6, of a and d."""


def written_out(damping: float, neighbours: int, sharpness: float) -> list[float]:
    """The definition: nearest neighbours, weights, both directions, the walk solved at once."""
    names = list(DIRECTIONS)
    cosine = [[float(np.dot(DIRECTIONS[i], DIRECTIONS[j])) for j in names] for i in names]
    weight = np.zeros((4, 4))
    for i in range(4):
        nearest = sorted((j for j in range(4) if j != i), key=lambda j: -cosine[i][j])
        for j in nearest[:neighbours]:
            share = ((cosine[i][j] + 0.6) / 1.6) ** sharpness
            weight[i, j] = weight[j, i] = max(share, weight[i, j])
    walk = weight / weight.sum(axis=1, keepdims=True)
    start = np.array([1.0, 0.0, 0.0, 0.0])
    found = np.linalg.solve(np.eye(4) - damping * walk.T, (1 - damping) * start)
    return [float(one) for one in found]


@pytest.mark.parametrize("neighbours", [1, 2, 3])
@pytest.mark.parametrize("sharpness", [0.0, 1.0, 2.0, 4.0])
def test_neighbours_weigh_by_their_cosines(neighbours: int, sharpness: float) -> None:
    given = [
        chunk(name, score=float(name == "a"), embedding=vector)
        for name, vector in DIRECTIONS.items()
    ]
    reranker = PersonalisedPageRankReranker(neighbours=neighbours, sharpness=sharpness, damping=0.5)
    expected = written_out(0.5, neighbours, sharpness)
    assert list(reranker.score(query(), given)) == pytest.approx(expected, abs=1e-8)


def test_the_defaults_are_those_that_are_documented() -> None:
    given = [
        chunk(name, score=float(name == "a"), embedding=vector)
        for name, vector in DIRECTIONS.items()
    ]
    found = list(PersonalisedPageRankReranker().score(query(), given))
    assert found == pytest.approx(written_out(0.3, 3, 4.0), abs=1e-8)
    # 0.85 for a graph of one's own: x0 = 0.15 + 0.85 x1, x1 = 0.85 x0.
    matrix = sparse_matrix((1, 1), (0, 1), (1, 0), (2, 2))
    alone = personalised_pagerank(matrix, np.array([1.0, 0.0]))
    assert alone.tolist() == pytest.approx([1 / 1.85, 0.85 / 1.85])


@pytest.mark.parametrize("tolerance", [0.1, 1e-3, 1e-6])
def test_the_result_is_as_near_as_was_asked(tolerance: float) -> None:
    damping, size = 0.9, 12
    edges = [(at, (at + 1) % size, 1.0) for at in range(size)]
    sources, targets, weights = zip(*edges, strict=True)
    matrix = sparse_matrix(weights, sources, targets, (size, size))
    start = np.eye(size)[0]
    found = personalised_pagerank(matrix, start, damping=damping, tolerance=tolerance)
    exact = np.array([damping**at for at in range(size)])
    assert np.abs(found - exact / exact.sum()).sum() <= tolerance


def test_seeds_by_rank_pass_over_the_scores() -> None:
    given = [chunk("a", score=0.0), chunk("b", score=1.0)]
    found = PersonalisedPageRankReranker(seeds="rank").score(query(), given)
    assert list(found) == pytest.approx([2 / 3, 1 / 3])


def test_links_are_not_read_where_no_field_is_named() -> None:
    given = [chunk("a", score=1.0, links=["b"]), chunk("b", score=0.0)]
    found = PersonalisedPageRankReranker(links_field=None, neighbours=0).score(query(), given)
    assert list(found) == [1.0, 0.0]
