"""Near duplicates: the quick look by hashes never hides one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Chunk
from ragbench.post.dedup import DedupNear, may_resemble, shingle_words
from tests.unit.post.operators.builders import apply, ids

WORDS = st.lists(
    st.one_of(st.sampled_from(["a", "b", "c", "A", "é", "no.", "on"]), st.text(max_size=3)),
    max_size=12,
).map(" ".join)


def shingles(text: str, size: int) -> set[tuple[str, ...]]:
    words = shingle_words(text)
    if len(words) < size:
        return {tuple(words)} if words else set()
    return {tuple(words[at : at + size]) for at in range(len(words) - size + 1)}


def jaccard(one: set[tuple[str, ...]], other: set[tuple[str, ...]]) -> float:
    return len(one & other) / len(one | other) if one | other else 1.0


@settings(deadline=None)
@given(
    st.lists(st.one_of(WORDS, st.text(max_size=30), st.just("员工每年有二十天年假")), max_size=6),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]),
)
def test_what_is_left_out_resembles_one_that_stays(
    texts: list[str], size: int, similarity: float
) -> None:
    kept: list[int] = []
    for at, text in enumerate(texts):
        own = shingles(text, size)
        if all(jaccard(own, shingles(texts[other], size)) < similarity for other in kept):
            kept.append(at)
    done = apply(
        DedupNear(similarity=similarity, shingle=size),
        *(Chunk(id=str(at), text=text) for at, text in enumerate(texts)),
    )
    assert ids(done) == [str(at) for at in kept]


@pytest.mark.parametrize("similarity", [0.5, 0.8])
def test_texts_of_their_own_need_no_closer_look(similarity: float) -> None:
    own = [
        " ".join(f"w{(at * 7919 + text * 104729) % 100003}" for at in range(50))
        for text in (1, 2, 3)
    ]
    same = own[0].upper()
    assert may_resemble([*own, same], size=3, similarity=similarity) == [True, False, False, True]
    assert may_resemble([], size=3, similarity=similarity) == []
