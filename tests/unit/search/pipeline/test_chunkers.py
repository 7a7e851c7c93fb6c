"""Chunks are exact slices that hold everything, whatever the text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Document
from ragbench.errors import ConfigError
from ragbench.search.pipeline.documents import ChunkSize, document_chunks, make_chunker
from ragbench.text.token_counter import APPROXIMATE

NAMES = ["auto", "tokens", "sentences", "markdown", "whole"]
TEXTS = st.text(max_size=400) | st.lists(
    st.sampled_from(
        [
            "# Title\n",
            "## Part\r\n",
            "word ",
            "A sentence ends. ",
            "\n\n",
            "```\ncode\n```\n",
            "| a | b |\n|---|---|\n| 1 | 2 |\n",
            "- item\n",
            "苹果是水果。",
            "[x]: /url\n",
            "\x00",
            "\ud800",
            "\u2028",
            "\x0c",
            "    indented\n",
            "<div>\nhtml\n</div>\n",
            "> quoted\n",
            "\r",
        ]
    ),
    max_size=60,
).map("".join)


@pytest.mark.parametrize("name", NAMES)
@given(text=TEXTS, tokens=st.integers(8, 40))
@settings(max_examples=60, deadline=None)
def test_chunks_are_exact_slices_that_hold_every_letter(name: str, text: str, tokens: int) -> None:
    chunker = make_chunker(name, ChunkSize(tokens=tokens))

    chunks = document_chunks(Document(id="d.md", text=text), chunker)

    covered: set[int] = set()
    for chunk in chunks:
        assert chunk.start is not None
        assert chunk.end is not None
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text == chunk.text.strip()
        assert chunk.text != ""
        covered.update(range(chunk.start, chunk.end))
    letters = {position for position, letter in enumerate(text) if not letter.isspace()}
    assert letters <= covered
    for chunk, next_chunk in pairwise(chunks):
        assert (chunk.end or 0) <= (next_chunk.start or 0)
    assert len({chunk.id for chunk in chunks}) == len(chunks)


@pytest.mark.parametrize("name", ["tokens", "sentences", "markdown"])
@given(text=TEXTS, tokens=st.integers(8, 40))
@settings(max_examples=40, deadline=None)
def test_no_chunk_is_larger_than_asked(name: str, text: str, tokens: int) -> None:
    chunker = make_chunker(name, ChunkSize(tokens=tokens))

    for chunk in document_chunks(Document(id="d", text=text), chunker):
        assert APPROXIMATE.count(chunk.text) <= tokens


@pytest.mark.parametrize("name", ["tokens", "sentences", "markdown"])
def test_overlap_repeats_the_end_of_the_chunk_before(name: str) -> None:
    text = " ".join(f"Sentence number {number} ends here." for number in range(40))
    chunker = make_chunker(name, ChunkSize(tokens=40, overlap=12))

    chunks = document_chunks(Document(id="d", text=text), chunker)

    assert len(chunks) > 4
    overlaps: list[int] = []
    for chunk, next_chunk in pairwise(chunks):
        overlaps.append((chunk.end or 0) - (next_chunk.start or 0))
    assert max(overlaps) > 0
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end]


def test_sentences_stay_whole_and_sections_apart() -> None:
    text = "# Pay\nRent is due. It is paid monthly.\n\n## Late\nA fee is charged.\n\n# Keys\nTwo."

    chunks = document_chunks(Document(id="rules.md", text=text), make_chunker("auto"))

    sections = [(chunk.metadata["headings"], chunk.text) for chunk in chunks]
    assert sections == [
        ("Pay", "# Pay\nRent is due. It is paid monthly."),
        ("Pay > Late", "## Late\nA fee is charged."),
        ("Keys", "# Keys\nTwo."),
    ]

    plain = Document(id="d", text="Rent is due. It is paid monthly. Two.")
    chunker = make_chunker("sentences", ChunkSize(tokens=10))
    chunks = document_chunks(plain, chunker)
    assert [chunk.text for chunk in chunks] == ["Rent is due. It is paid monthly.", "Two."]


def test_a_heading_does_not_stand_alone_and_code_is_none_and_is_not_cut() -> None:
    chunker = make_chunker("markdown")

    text = "# Title\n\n" + "word " * 300
    chunks = document_chunks(Document(id="d.md", text=text), chunker)
    assert chunks[0].text.startswith("# Title\n\nword word")

    text = "Before.\n\n```\n# no heading\n\nx = 1\n```\n\nAfter."
    chunks = document_chunks(Document(id="d.md", text=text), chunker)
    assert [chunk.text for chunk in chunks] == [text]


def test_ids_depend_on_document_place_and_content() -> None:
    chunker = make_chunker("sentences", ChunkSize(tokens=10))

    def ids(document_id: str, text: str) -> list[str]:
        """Of the two chunks of a document of two sentences."""
        chunks = document_chunks(Document(id=document_id, text=text), chunker)
        return [chunk.id for chunk in chunks]

    sentence = "The first sentence has eight words in it."
    ids_before = ids("d", f"{sentence} The second sentence has some words too.")
    ids_after = ids("d", f"{sentence} The other sentence has some words too.")
    ids_elsewhere = ids("e", f"{sentence} The {{}} sentence has some words too.")
    assert ids_before[0] == ids_after[0]
    assert ids_before[1] != ids_after[1]
    assert ids_before[0].removeprefix("d") == ids_elsewhere[0].removeprefix("e")

    document = Document(id="d", text="Text.", title="T", metadata={"year": 2023})
    [whole] = document_chunks(document, make_chunker("whole"))
    assert whole.id == "d", "a document that is one chunk keeps its id"
    assert whole.document_id == "d"
    assert whole.metadata == {"year": 2023, "title": "T"}


@pytest.mark.nightly
def test_five_megabytes_are_cut_in_little_time_without_a_blank_line() -> None:
    text = "This line goes on and on, and nothing in it says where to cut. " * 80_000
    assert len(text) > 5_000_000

    chunks = document_chunks(Document(id="big", text=text), make_chunker("tokens"))

    assert sum(len(chunk.text) for chunk in chunks) > 0.98 * len(text)
    for chunk in chunks[::500]:
        assert APPROXIMATE.count(chunk.text) <= 256


@pytest.mark.parametrize(("tokens", "overlap"), [(7, 0), (16, 8), (16, -1)])
def test_impossible_sizes_are_refused(tokens: int, overlap: int) -> None:
    with pytest.raises(ConfigError, match="tokens"):
        ChunkSize(tokens=tokens, overlap=overlap)
