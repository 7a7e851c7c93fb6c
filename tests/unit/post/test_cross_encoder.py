"""The cross-encoder: what it reads, how it is found, and a real one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


def test_scores_are_sigmoids_in_the_order_given(tiny: str) -> None:
    chunks = [chunk("a", "w7"), chunk("b", "w1 w3"), chunk("c", "w9 w2")]
    scores = CrossEncoderReranker(model=tiny).score(query("w2"), chunks)
    assert list(scores) == pytest.approx([sigmoid(2), sigmoid(-2), sigmoid(4)])
    assert scores.notes == ()
    for passages in ("whole", "sentences"):
        reranker = CrossEncoderReranker(model=tiny, passages=passages)
        assert list(reranker.score(query("w1"), [chunk("a", " ")])) == pytest.approx([sigmoid(-4)])
    model = write_tiny_cross_encoder(Path(tiny).parent / "two", columns=2)  # gives a difference
    scores = CrossEncoderReranker(model=str(model)).score(query("w0"), chunks[:1])
    assert list(scores) == pytest.approx([sigmoid(2)])


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
    scores = reranker.score(query("w0 w0 w0"), [chunk("a", " ".join(words))])
    assert list(scores) == pytest.approx([sigmoid(3)])


def test_a_question_that_leaves_no_room_is_cut_and_that_is_noted(tiny: str) -> None:
    reranker = CrossEncoderReranker(model=tiny, max_length=16, overlap=0)
    scores = reranker.score(query("w1 " * 20 + "w9"), [chunk("a", "w2")])
    assert list(scores) == pytest.approx([sigmoid(-3)])
    assert scores.notes == ("the question has 21 tokens: only the first 8 were read",)


def test_what_stands_behind_the_first_is_not_read(tiny: str) -> None:
    chunks = [chunk("a", "w1"), chunk("b", "w3"), chunk("c", "w9"), chunk("d", "w9")]
    reranker = CrossEncoderReranker(model=tiny, first=2)
    assert order(reranker, query("w0"), chunks) == ["b", "a", "c", "d"]
    scores = reranker.score(query("w0"), chunks)
    assert list(scores[2:]) == [-0.25, -0.5]
    assert scores.notes == ("2 of 4 chunks were not read: they are ranked last",)
    assert CrossEncoderReranker(model=tiny, first=9).score(query("w0"), chunks).notes == ()


def test_only_the_sentences_nearest_to_the_question_are_read(tiny: str) -> None:
    text = "W9 stands here. The w3 house is red. Another sentence with w8."
    sentences = CrossEncoderReranker(model=tiny, passages="sentences", words=5)
    asked = query("red house")
    whole = CrossEncoderReranker(model=tiny)
    assert list(sentences.score(asked, [chunk("a", text)])) == pytest.approx([sigmoid(-2)])
    assert list(whole.score(asked, [chunk("a", text)])) == pytest.approx([sigmoid(3)])


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
        CrossEncoderReranker(model=str(folder)).score(query("w1"), [chunk("a")])


# --- models of a hub


Asked = list[tuple[str, str, str | None]]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What the hub's client is asked for."""
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    folder, asked = write_tiny_cross_encoder(tmp_path / "hub"), Asked()
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")

    def download(model: str, name: str, *, revision: str | None) -> str:
        asked.append((model, name, revision))
        if model == "nobody/offline":
            raise LocalEntryNotFoundError("no connection")
        if not (folder / name).exists():
            raise EntryNotFoundError(f"{model} has no {name}")
        return str(folder / name)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    return asked


def test_a_hub_name_is_downloaded_when_it_is_needed(hub: Asked) -> None:
    reranker = CrossEncoderReranker(model="somebody/tiny", revision="abc")
    assert hub == []
    assert list(reranker.score(query("w1"), [chunk("a", "w7")])) == pytest.approx([sigmoid(2)])
    names = ("model.onnx", "onnx/model.onnx", "tokenizer.json")
    assert hub == [("somebody/tiny", name, "abc") for name in names]


@pytest.mark.usefixtures("hub")
def test_what_the_hub_does_not_have_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"has no 'tokenizer.json' or none of other.onnx"):
        find_onnx_files("somebody/tiny", file="other.onnx")
    with pytest.raises(ConfigError, match="'nobody/offline' cannot be downloaded"):
        find_onnx_files("nobody/offline")


# --- sentence windows


def windows(text: str, query: str, others: Sequence[str] = (), **settings: Any) -> list[str]:
    words = QueryWords.among(query, [text, *others])
    return [text[slice(*span)] for span in best_windows(words, text, **settings)]


def test_windows_by_hand() -> None:
    text = "One red thing. A red house. The sea is wide. Another red house roof."
    # All three weigh less than the next rarer one and more than nothing.
    others = ["red house", "red", "red", "red", "house", "nothing"]
    query = "red houses on roofs"
    best = ["Another red house roof.", "A red house."]
    assert windows(text, query, others, words=4, count=2) == best
    assert windows(text, query, others, words=100, count=3) == [text]


def test_a_long_sentence_is_cut_around_what_the_query_asks() -> None:
    text = "It is so. One two three four five red six seven house eight nine ten eleven twelve."
    long = text[len("It is so. ") :]
    assert windows(text, "red house", words=6, count=1) == [long]
    around = ["five red six seven house eight"]
    assert windows(text, "red house", words=6, count=1, cut=True) == around
    assert windows(text, "it", words=6, count=1, cut=True) == ["It is so."]


def test_windows_in_a_script_without_spaces() -> None:
    text, best = "天空是蓝色的。员工每年有二十天年假。咖啡免费。", "员工每年有二十天年假。"
    assert windows(text, "多少天年假？", words=4, count=1) == [best]


@settings(deadline=None, max_examples=50)
@given(st.text("ab. \n", max_size=60), st.integers(1, 6), st.integers(1, 3), st.booleans())
def test_windows_are_whole_sentences_apart(text: str, words: int, count: int, cut: bool) -> None:
    spans = best_windows(QueryWords.among("a b", [text]), text, words=words, count=count, cut=cut)
    sentences = split_sentences(text)
    assert len(spans) <= count
    assert bool(spans) == bool(sentences)
    if cut:
        assert all(len(text[slice(*span)].split()) <= words for span in spans)
    else:
        assert {span.start for span in spans} <= {one.start for one in sentences}
        assert {span.end for span in spans} <= {one.end for one in sentences}
    for span, after in zip(sorted(spans), sorted(spans)[1:], strict=False):
        assert span.end <= after.start


# --- a real model


@pytest.mark.models
@pytest.mark.parametrize("passages", ["whole", "sentences"])
def test_a_real_model_finds_the_answer(passages: str) -> None:
    reranker = CrossEncoderReranker(model=str(model_folder("reranker_en")), passages=passages)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # one of the words
    filler = "Nothing in this sentence is about any town or its people. " * 80
    chunks = [
        chunk("other", "The river Spree flows through the city in the east of the country."),
        chunk("answer", "In 2019, Berlin had a population of 3,520,031 registered inhabitants."),
        chunk("long", filler + "Berlin has 3.5 million inhabitants."),
        chunk("off", "Mercury is the smallest planet of the solar system."),
    ]
    ranked = order(reranker, query("How many people live in Berlin?"), chunks)
    assert set(ranked[:2]) == {"answer", "long"}
    assert ranked == order(reranker, query("How many people live in Berlin?"), chunks)
