"""Augments: what is put into the chunks, or beside them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ragbench import Chunk, Query
from ragbench.errors import ConfigError, LLMReplyError
from ragbench.post.augment import Context, Metadata, Neighbours, Reflection, Temporal
from ragbench.post.operator import OperatorInput, ranked
from tests.unit.post.operators.builders import Scripted, Shelf, apply, chunk, ids, texts


def test_a_heading_says_where_a_chunk_stands() -> None:
    known = chunk("a", "Ask HR.", title="Leave", section="Carry-over")
    half = chunk("b", "Ask IT.", section="Badges", title="")
    bare = chunk("c", "Ask us.")
    output = apply(Context(), known, half, bare)
    assert texts(output) == ["[Leave > Carry-over]\nAsk HR.", "[Badges]\nAsk IT.", "Ask us."]
    assert output.chunks[2].chunk is bare


def test_a_rewritten_chunk_keeps_its_place_and_says_where_it_came_from() -> None:
    origin = Chunk(
        id="a", text="T.", score=0.5, document_id="d", start=3, end=5, metadata={"title": "X"}
    )
    entry = apply(Context(), origin).chunks[0]
    new = entry.chunk
    assert (new.id, new.score, new.document_id, new.start, new.end) == ("a", 0.5, "d", 3, 5)
    assert new.metadata == {"title": "X", "derived": [{"by": "augment.context", "from": ["a"]}]}
    assert origin.metadata == {"title": "X"}
    assert (entry.initial_rank, entry.initial_score) == (1, 0.5)


def test_changes_of_a_text_are_listed_in_turn() -> None:
    first = apply(Context(), chunk("a", "T.", title="X")).chunks[0].chunk
    second = apply(Metadata(fields=("title",)), first).chunks[0].chunk
    assert [change["by"] for change in second.metadata["derived"]] == [
        "augment.context",
        "augment.metadata",
    ]


def test_metadata_becomes_lines_behind_the_text() -> None:
    output = apply(Metadata(fields=("page", "source", "no")), chunk("a", "T.", source="x", page=0))
    assert texts(output) == ["T.\npage: 0\nsource: x"]


@pytest.mark.parametrize("operator", [Context, Metadata])
def test_fields_are_needed(operator: type[Context] | type[Metadata]) -> None:
    with pytest.raises(ConfigError, match="fields must not be empty"):
        operator(fields=())


def test_dates_stand_before_texts_and_ages_only_where_now_is_known() -> None:
    given = (
        chunk("a", "T.", timestamp="2024-05-01T10:00:00Z"),
        chunk("b", "U.", timestamp="2024-05-13T09:00:00+00:00"),
        chunk("c", "V.", timestamp="2024-05-12"),
        chunk("d", "W."),
        chunk("e", "X.", timestamp="soon"),
    )
    assert texts(apply(Temporal(), *given)) == [
        "[2024-05-01]\nT.",
        "[2024-05-13]\nU.",
        "[2024-05-12]\nV.",
        "W.",
        "X.",
    ]


def test_ages_count_from_now_where_that_is_known() -> None:
    query = Query(text="?", now=datetime(2024, 5, 1, tzinfo=UTC))
    given = ranked([chunk("a", "T.", at=0), chunk("b", "U.", at="2024-05-03")])
    output = Temporal(field="at").apply(OperatorInput(query=query, chunks=tuple(given)))
    assert texts(output) == ["[1970-01-01, 19844 days old]\nT.", "[2024-05-03, in 2 days]\nU."]


def test_a_reflection_is_a_chunk_of_its_own_before_the_others() -> None:
    model = Scripted(["  They agree on 27 days.  "])
    a, b, c = chunk("a"), chunk("b"), chunk("c")
    output = apply(Reflection(chat=model, first=2), a, b, c)
    assert ids(output) == ["augment.reflection", "a", "b", "c"]
    assert [entry.rank for entry in output.chunks] == [1, 2, 3, 4]
    added = output.chunks[0]
    assert added.chunk.text == "They agree on 27 days."
    assert (added.score, added.initial_rank) == (None, None)
    assert added.chunk.metadata["derived"] == [{"by": "augment.reflection", "from": ["a", "b"]}]
    assert "Text of c." not in model.heard[0]


def test_a_reflection_needs_chunks_and_an_answer() -> None:
    assert ids(apply(Reflection(chat=Scripted([])))) == []
    with pytest.raises(LLMReplyError, match="answer is empty"):
        apply(Reflection(chat=Scripted([" "])), chunk("a"))
    with pytest.raises(ConfigError, match="first must be at least 1"):
        Reflection(chat=Scripted([]), first=0)


def piece(id: str, start: int, document: str = "d") -> Chunk:
    return Chunk(id=id, text=f"<{id}>", document_id=document, start=start, end=start + 3)


def test_neighbours_stand_around_a_chunk_in_reading_order() -> None:
    shelf = Shelf(
        linked={"m": [piece("n", 20), piece("l", 0), piece("z", 0, "other")], "o": [piece("l", 0)]}
    )
    output = apply(
        Neighbours(service=shelf, first=2, top_k=3), piece("m", 10), piece("o", 30), piece("p", 40)
    )
    assert texts(output) == ["<l>\n<m>\n<n>\n<z>", "<o>", "<p>"]
    assert output.chunks[0].chunk.metadata["derived"] == [
        {"by": "augment.neighbours", "from": ["m", "n", "l", "z"]}
    ]
    assert (output.chunks[0].chunk.start, output.chunks[0].chunk.end) == (10, 13)


def test_neighbours_that_are_among_the_chunks_are_not_repeated() -> None:
    shelf = Shelf(linked={"a": [chunk("b")]})
    assert texts(apply(Neighbours(service=shelf), chunk("a"), chunk("b"))) == [
        "Text of a.",
        "Text of b.",
    ]


@pytest.mark.parametrize("setting", ["first", "top_k"])
def test_neighbours_refuse_bad_settings(setting: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting} must be at least 1"):
        Neighbours(service=Shelf(), **{setting: 0})


def test_a_reflection_holds_nothing_of_what_the_model_thought() -> None:
    model = Scripted(["<think>They may disagree.</think>\n\nThey agree."])
    assert texts(apply(Reflection(chat=model), chunk("a")))[0] == "They agree."
