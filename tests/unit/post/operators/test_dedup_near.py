"""Near duplicates: the quick look by hashes never hides one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Chunk
from ragbench.post.filter import DedupNear
from ragbench.text.tokens import normalise, tokenise
from tests.unit.post.operators.builders import apply, ids

WORDS = st.lists(
    st.one_of(st.sampled_from(["a", "b", "c", "A", "é", "no.", "on"]), st.text(max_size=3)),
    max_size=12,
).map(" ".join)


def shingles(text: str, size: int) -> set[tuple[str, ...]]:
    words = normalise(text).split()
    if len(text) > 12 * len(words):  # no spaces are written
        words = tokenise(text)
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
