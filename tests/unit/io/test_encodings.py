"""Texts that are not UTF-8: what is guessed, what is not, and that it is said."""

from pathlib import Path

import pytest

from ragbench import open_source
from ragbench.errors import DataError
from ragbench.io.lines import guess_encoding

GERMAN = "query;reference\nWie lange dauert die Kündigungsfrist?;drei Monate\nWie groß?;20 m²\n"
FRENCH = "query,reference\nQuand la société a-t-elle été fondée ?,en 1990\n"
PRICES = "query,reference\nWhat’s the price – in total?,20 €\n"
CHINESE = "query,reference\n员工每年有多少天年假？,二十天\n公司成立于哪一年？,1998年\n"


@pytest.mark.parametrize(
    ("text", "encoding", "guess"),
    [
        (GERMAN, "cp1252", "cp1252"),
        (FRENCH, "cp1252", "cp1252"),
        (PRICES, "cp1252", "cp1252"),
        ("query\n¿Cuándo se fundó la compañía?\n", "cp1252", "cp1252"),
        (CHINESE, "gbk", "gb18030"),
        ("query\n公司成立於哪一年？由誰成立？\n費用由誰負擔？何時可以退貨？\n" * 2, "big5", "big5"),
        (
            "query\n会社はいつ設立されましたか？\n保証期間はどのくらいですか？\n",
            "shift_jis",
            "shift_jis",
        ),
        ("query\nКогда была основана компания?\nСколько длится гарантия?\n", "cp1251", "cp1251"),
    ],
)
def test_an_old_encoding_is_guessed(text: str, encoding: str, guess: str) -> None:
    assert guess_encoding(text.encode(encoding)) == guess


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"query,reference\nA?,1\n",
        GERMAN.encode(),
        GERMAN.encode()[:-12] + "ü".encode()[:1],  # cut within a letter
        GERMAN.encode() + b"\xff\n",  # damaged
        "\ufeffquery\nü\n".encode("utf-16"),
        '{"query": "Wie groß?"}'.encode("cp1252"),  # JSON is UTF-8
        b"PK\x03\x04\x00\xff",
        "query\n大小？\n".encode("gbk"),  # as good as several others
    ],
)
def test_what_is_utf_8_or_no_text_is_not_guessed(head: bytes) -> None:
    assert guess_encoding(head) is None


@pytest.mark.parametrize(("text", "encoding"), [(GERMAN, "cp1252"), (CHINESE, "gbk")])
def test_a_guess_is_said(tmp_path: Path, text: str, encoding: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode(encoding))
    with open_source(path) as source:
        queries = [entry.case.query for entry in source]
        assert queries == [row.split(text[5])[0] for row in text.splitlines()[1:]]
        (note,) = source.info.notes
    assert "is not UTF-8 and is read as" in note
    with open_source(path, encoding=encoding) as source:
        assert [entry.case.query for entry in source] == queries
        assert source.info.notes == ()


def test_damage_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(GERMAN.encode() + b"\xff?;1\n")
    with pytest.raises(DataError, match=r"x\.csv:4: byte 0xff"), open_source(path) as source:
        list(source)
