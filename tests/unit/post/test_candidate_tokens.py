"""The candidates' tokens by hashes, against the tokeniser word by word."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.post import candidate_tokens as module
from ragbench.post.candidate_tokens import candidate_tokens, query_weights
from ragbench.text.tokens import tokenise

PARTS = st.one_of(
    st.text(max_size=12),
    st.text("aB1.,-_/: ()'\n\u0301\u0338=<½", max_size=12),
    st.sampled_from(
        [
            "1,000 km",
            "3.14. End, (so) it: is; no!",
            "Err-4021/x.",
            "e-mail",
            "苹果是水果 apple",
            "क\u093f",
            "a\u0301b",
            "ﬁne ½",
            "Houses housing HOUSE",
            "\ud800 x",
        ]
    ),
)
TEXTS = st.lists(st.lists(PARTS, max_size=4).map(" ".join), min_size=1, max_size=4)


@settings(deadline=None)
@given(TEXTS)
def test_tokens_are_those_of_the_tokeniser(texts: list[str]) -> None:
    found = candidate_tokens(texts)
    cut = [tokenise(text) for text in texts]
    assert found.lengths.tolist() == list(map(len, cut))
    for row, tokens in enumerate(cut):
        numbers = found.numbers[found.rows == row].tolist()
        assert sorted(Counter(numbers).values()) == sorted(Counter(tokens).values())
    wanted = [*dict.fromkeys(token for tokens in cut for token in tokens[::2]), "absent here"]
    assert found.counts(wanted).tolist() == [
        [tokens.count(token) for token in wanted] for tokens in cut
    ]


@settings(deadline=None)
@given(TEXTS, st.lists(PARTS, max_size=2).map(" ".join))
def test_stretches_between_white_space_hold_what_the_tokeniser_says(
    texts: list[str], query: str
) -> None:
    weights = query_weights(query, texts)
    for row, text in enumerate(texts):
        edges = [0, *(at for at, letter in enumerate(text) if letter in " \n"), len(text)]
        for start, end in pairwise(edges):
            held = set(tokenise(text[start:end]))
            assert {weights.tokens[at] for at in weights.held(row, start, end)} == (
                held & set(weights.tokens)
            )
        whole = weights.held(row, 0, len(text))
        assert weights.candidates[row] == weights.worth(whole)


def test_weights_are_higher_for_what_few_hold() -> None:
    weights = query_weights("red houses", ["red", "red car", "house"])
    assert weights.tokens == ["red", "hous"]
    # ln(1 + (3 - 2 + 0.5) / 2.5) and ln(1 + (3 - 1 + 0.5) / 1.5)
    assert list(weights.weights) == pytest.approx([0.4700036, 0.9808293])
    assert query_weights("", ["red"]).candidates == [0.0]


def test_a_full_table_grows_and_an_old_one_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_shared", [])
    many = [f"w{at}" for at in range(70_000)]
    found = candidate_tokens([" ".join(many), "w7 w69999"])
    assert found.lengths.tolist() == [70_000, 2]
    assert found.counts(["w7", "w69999", "w70000"]).tolist() == [[1, 1, 0], [1, 1, 0]]
    candidate_tokens([" ".join(f"v{at}" for at in range(70_000))])
    first = module._shared[-1]
    assert candidate_tokens(["w7 w7"]).counts(["w7"]).tolist() == [[2]]
    assert module._shared[-1] is not first


def test_threads_share_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_shared", [])
    wrong: list[str] = []

    def work(number: int) -> None:
        words = [f"x{(at * number) % 997}" for at in range(2000)]
        counts = candidate_tokens([" ".join(words)]).counts(sorted(set(words)))
        if counts.tolist() != [[words.count(word) for word in sorted(set(words))]]:
            wrong.append(str(number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_hits_are_offsets_within_each_text_and_places_among_the_wanted() -> None:
    texts = ["red car", "a blue red sea, red", "nothing", "é red", "das Rote"]
    found = candidate_tokens(texts).hits(["sea", "red"])
    assert found[:4] == [
        ([0], [1]),
        ([7, 11, 16], [1, 0, 1]),
        ([], []),
        ([2], [1]),  # of characters: in bytes it would be 3
    ]
