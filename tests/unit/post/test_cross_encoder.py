"""The cross-encoder: what it reads, how it is found, and a real one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError
from ragbench.post.filter import QueryWords
from ragbench.post.rerankers.models import CrossEncoderReranker, best_windows
from ragbench.text.onnx_model import find_onnx_files
from ragbench.text.sentences import split_sentences
from tests.unit.post.builders import chunk, order, query
from tests.unit.post.models import model_folder
from tests.unit.post.tiny_onnx import write_tiny_cross_encoder

pytestmark = pytest.mark.extra("onnx")


def sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    return str(write_tiny_cross_encoder(tmp_path / "tiny"))


def scores_of(reranker: CrossEncoderReranker, question: str, *texts: str) -> list[float]:
    """The scores that a cross-encoder gives chunks of these texts."""
    chunks = [chunk(str(number), text) for number, text in enumerate(texts)]
    return list(reranker.score(query(question), chunks))


def test_scores_are_sigmoids_in_the_order_given(tiny: str) -> None:
    """The highest number of question and text counts, less five."""
    chunks = [
        chunk("a", "w7"),
        chunk("b", "w1 w3"),
        chunk("c", "w9 w2"),
    ]

    scores = CrossEncoderReranker(model=tiny).score(query("w2"), chunks)

    assert list(scores) == pytest.approx([sigmoid(2), sigmoid(-2), sigmoid(4)])
    assert scores.notes == ()


@pytest.mark.parametrize("passages", ["whole", "sentences"])
def test_of_a_text_without_words_the_question_alone_is_read(
    tiny: str, passages: Literal["whole", "sentences"]
) -> None:
    reranker = CrossEncoderReranker(model=tiny, passages=passages)

    assert scores_of(reranker, "w1", " ") == pytest.approx([sigmoid(-4)])


def test_of_two_outputs_the_difference_is_the_logit(tmp_path: Path) -> None:
    model = write_tiny_cross_encoder(tmp_path / "two", columns=2)
    reranker = CrossEncoderReranker(model=str(model))

    assert scores_of(reranker, "w0", "w7") == pytest.approx([sigmoid(2)])


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 80), st.integers(0, 79), st.integers(16, 40), st.integers(0, 4))
def test_pieces_cover_the_chunk_whatever_the_sizes(
    tmp_path_factory: pytest.TempPathFactory, size: int, place: int, room: int, overlap: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "covering"
    if not (folder / "tokenizer.json").exists():
        write_tiny_cross_encoder(folder)
    words = ["w1"] * size
    words[place % size] = "w8"
    reranker = CrossEncoderReranker(model=str(folder), max_length=room, overlap=overlap)

    scores = scores_of(reranker, "w0 w0 w0", " ".join(words))

    assert scores == pytest.approx([sigmoid(3)])


def test_a_question_that_leaves_no_room_is_cut_and_that_is_noted(tiny: str) -> None:
    reranker = CrossEncoderReranker(model=tiny, max_length=16, overlap=0)
    question = query("w1 " * 20 + "w9")

    scores = reranker.score(question, [chunk("a", "w2")])

    assert list(scores) == pytest.approx([sigmoid(-3)])
    assert scores.notes == ("the question has 21 tokens: only the first 8 were read",)


FOUR = [
    chunk("a", "w1"),
    chunk("b", "w3"),
    chunk("c", "w9"),
    chunk("d", "w9"),
]


def test_what_stands_behind_the_first_is_not_read(tiny: str) -> None:
    reranker = CrossEncoderReranker(model=tiny, first=2)

    scores = reranker.score(query("w0"), FOUR)

    assert order(reranker, query("w0"), FOUR) == ["b", "a", "c", "d"]
    assert list(scores[2:]) == [-0.25, -0.5]
    assert scores.notes == ("2 of 4 chunks were not read: they are ranked last",)


def test_where_all_are_read_there_is_no_note(tiny: str) -> None:
    reranker = CrossEncoderReranker(model=tiny, first=9)

    assert reranker.score(query("w0"), FOUR).notes == ()


def test_only_the_sentences_nearest_to_the_question_are_read(tiny: str) -> None:
    text = "W9 stands here. The w3 house is red. Another sentence with w8."
    by_sentences = CrossEncoderReranker(model=tiny, passages="sentences", words=5)
    whole = CrossEncoderReranker(model=tiny)

    assert scores_of(by_sentences, "red house", text) == pytest.approx([sigmoid(-2)])
    assert scores_of(whole, "red house", text) == pytest.approx([sigmoid(3)])


# --- what is refused


def test_a_folder_without_a_model_is_refused_when_built(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must hold 'tokenizer.json' and 'model.onnx' or"):
        CrossEncoderReranker(model=str(tmp_path))
    with pytest.raises(ConfigError, match=r"and 'other\.onnx'"):
        CrossEncoderReranker(model=str(tmp_path), file="other.onnx")
    with pytest.raises(ConfigError, match="neither a folder nor a name"):
        CrossEncoderReranker(model=str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("settings", "broken", "message"),
    [
        ({}, "model.onnx", "cannot be loaded"),
        ({}, "tokenizer.json", "cannot be loaded"),
        ({"columns": 3}, None, "not a cross-encoder"),
        ({"second_input": "pixel_values"}, None, "wants pixel_values"),
    ],
)
def test_a_broken_model_or_one_of_another_kind_is_refused(
    tmp_path: Path, settings: dict[str, Any], broken: str | None, message: str
) -> None:
    folder = write_tiny_cross_encoder(tmp_path / "other", **settings)
    if broken:
        (folder / broken).write_bytes(b"broken")

    with pytest.raises(ConfigError, match=message):
        scores_of(CrossEncoderReranker(model=str(folder)), "w1", "w2")


# --- models of a hub


Requests = list[tuple[str, str, str | None]]
"""Model, file and revision, in turn."""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Requests:
    """The requests to the hub's client, of which one model cannot be reached."""
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    folder = write_tiny_cross_encoder(tmp_path / "hub")
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
    requests: Requests = []

    def download(model: str, name: str, *, revision: str | None) -> str:
        requests.append((model, name, revision))
        if model == "nobody/offline":
            raise LocalEntryNotFoundError("no connection")
        if not (folder / name).exists():
            raise EntryNotFoundError(f"{model} has no {name}")
        return str(folder / name)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    return requests


def test_a_hub_name_is_downloaded_when_it_is_needed(hub: Requests) -> None:
    reranker = CrossEncoderReranker(model="somebody/tiny", revision="abc")
    assert hub == []

    assert scores_of(reranker, "w1", "w7") == pytest.approx([sigmoid(2)])

    assert hub == [
        ("somebody/tiny", "model.onnx", "abc"),
        ("somebody/tiny", "onnx/model.onnx", "abc"),
        ("somebody/tiny", "tokenizer.json", "abc"),
    ]


@pytest.mark.usefixtures("hub")
def test_what_the_hub_does_not_have_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"has no 'tokenizer.json' or none of other.onnx"):
        find_onnx_files("somebody/tiny", file="other.onnx")


@pytest.mark.usefixtures("hub")
def test_a_hub_that_cannot_be_reached_is_reported() -> None:
    with pytest.raises(ConfigError, match="'nobody/offline' cannot be downloaded"):
        find_onnx_files("nobody/offline")


# --- sentence windows


def windows(text: str, query: str, others: Sequence[str] = (), **settings: Any) -> list[str]:
    """The best windows of a text, beside other texts that say how rare a word is."""
    words = QueryWords.among(query, [text, *others])
    spans = best_windows(words, text, **settings)
    return [text[span.start : span.end] for span in spans]


def test_windows_by_hand() -> None:
    text = "One red thing. A red house. The sea is wide. Another red house roof."
    # All three weigh less than the next rarer one and more than nothing.
    others = ["red house", "red", "red", "red", "house", "nothing"]
    query = "red houses on roofs"

    short_windows = windows(text, query, others, words=4, count=2)
    long_windows = windows(text, query, others, words=100, count=3)

    assert short_windows == ["Another red house roof.", "A red house."]
    assert long_windows == [text]


def test_a_long_sentence_is_cut_around_what_the_query_asks() -> None:
    short = "It is so."
    long = "One two three four five red six seven house eight nine ten eleven twelve."
    text = f"{short} {long}"

    uncut = windows(text, "red house", words=6, count=1)
    cut = windows(text, "red house", words=6, count=1, cut=True)
    short_enough = windows(text, "it", words=6, count=1, cut=True)

    assert uncut == [long]
    assert cut == ["five red six seven house eight"]
    assert short_enough == [short]


def test_windows_in_a_script_without_spaces() -> None:
    text = "天空是蓝色的。员工每年有二十天年假。咖啡免费。"

    best = windows(text, "多少天年假？", words=4, count=1)

    assert best == ["员工每年有二十天年假。"]


@settings(deadline=None, max_examples=50)
@given(st.text("ab. \n", max_size=60), st.integers(1, 6), st.integers(1, 3), st.booleans())
def test_windows_are_whole_sentences_apart(text: str, words: int, count: int, cut: bool) -> None:
    query_words = QueryWords.among("a b", [text])

    spans = best_windows(query_words, text, words=words, count=count, cut=cut)

    sentences = split_sentences(text)
    assert len(spans) <= count
    assert bool(spans) == bool(sentences)
    if cut:
        for span in spans:
            assert len(text[span.start : span.end].split()) <= words
    else:
        assert {span.start for span in spans} <= {sentence.start for sentence in sentences}
        assert {span.end for span in spans} <= {sentence.end for sentence in sentences}
    for earlier, later in pairwise(sorted(spans)):
        assert earlier.end <= later.start


# --- a real model


@pytest.mark.models
@pytest.mark.parametrize("passages", ["whole", "sentences"])
def test_a_real_model_finds_the_answer(passages: Literal["whole", "sentences"]) -> None:
    reranker = CrossEncoderReranker(model=str(model_folder("reranker_en")), passages=passages)
    question = query("How many people live in Berlin?")
    filler = "Nothing in this sentence is about any town or its people. " * 80
    chunks = [
        chunk("other", "The river Spree flows through the city in the east of the country."),
        chunk("answer", "In 2019, Berlin had a population of 3,520,031 registered inhabitants."),
        chunk("long", filler + "Berlin has 3.5 million inhabitants."),
        chunk("off", "Mercury is the smallest planet of the solar system."),
    ]

    ids = order(reranker, question, chunks)

    assert set(ids[:2]) == {"answer", "long"}
    assert ids == order(reranker, question, chunks)
