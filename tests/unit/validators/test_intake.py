from ragbench import Chunk
from ragbench.validators.inspect import inspect_chunks


def test_chunks_without_id_are_called_by_their_place() -> None:
    taken = inspect_chunks(
        "who wrote this book?", [Chunk(id="a", text="x"), Chunk(id=" ", text="y")]
    )
    assert [chunk.id for chunk in taken.chunks] == ["a", "#2"]
    assert "1 chunk without an id" in taken.warnings[-1]


def test_the_same_chunk_twice_counts_once() -> None:
    taken = inspect_chunks(
        "who wrote this book?", [Chunk(id="a", text="x"), Chunk(id="a", text="x")]
    )
    assert [chunk.id for chunk in taken.chunks] == ["a"]
    assert "given twice" in taken.warnings[-1]


def test_another_text_under_a_known_id_gets_an_id_of_its_own() -> None:
    given = [
        Chunk(id="a", text="x"),
        Chunk(id="a", text="y"),
        Chunk(id="a", text="z"),
        Chunk(id="a#2", text="w"),
    ]
    taken = inspect_chunks("who wrote this book?", given)
    assert [chunk.id for chunk in taken.chunks] == ["a", "a#2", "a#3", "a#2#2"]
    assert [chunk.text for chunk in taken.chunks] == ["x", "y", "z", "w"]


def test_chunks_without_text_stay_and_are_told_of() -> None:
    given = [Chunk(id="a", text="  "), Chunk(id="b", text="", metadata={"page": 3})]
    taken = inspect_chunks("who wrote this book?", given)
    assert len(taken.chunks) == 2
    assert any("1 chunk without text" in warning for warning in taken.warnings)
    assert any("metadata and no text" in warning for warning in taken.warnings)


def test_damaged_and_endless_texts_are_told_of() -> None:
    given = [Chunk(id="a", text="\ufffd\ufffd\x00 \ud800 ab"), Chunk(id="b", text="word " * 9000)]
    warnings = inspect_chunks("who wrote this book?", given).warnings
    assert any("unreadable" in warning for warning in warnings)
    assert any("read in windows" in warning for warning in warnings)


def test_chunks_in_another_language_are_told_of() -> None:
    german = "Der Vertrag wird von dem Mieter und dem Vermieter unterschrieben."
    warnings = inspect_chunks("Who signs the contract?", [Chunk(id="a", text=german)]).warnings
    assert any("another language" in warning for warning in warnings)
    assert not inspect_chunks(
        "Wer unterschreibt den Vertrag?", [Chunk(id="a", text=german)]
    ).warnings


def test_an_empty_query_is_told_of() -> None:
    assert "query is empty" in inspect_chunks(" ", []).warnings[0]
