import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.text.language import guess_language, recognised_language
from ragbench.text.tokens import normalise, tokenise


def test_tokens_by_script() -> None:
    for text, tokens in (
        ("", []),
        ("  ...!?", []),
        ("The cats' toys", ["the", "cat", "toy"]),
        ("founded founding founds", ["found", "found", "found"]),
        ("Straße STRASSE", ["strass", "strass"]),
        ("ＡＢＣ １２", ["abc", "12"]),
        ("l'été", ["l", "été"]),
        ("e\u0301te\u0301", ["été"]),
        ("mother-to-child", ["mother", "to", "child"]),
        ("top_k", ["top", "k"]),
        ("3.14 at 12:30, 2024-05-01.", ["3.14", "at", "12:30", "2024-05-01"]),
        ("1,000 1,000,000 1,5", ["1000", "1000000", "1,5"]),
        ("ERR-4021 v2.3.1 COVID-19", ["err-4021", "v2.3.1", "covid-19"]),
        ("苹果是水果", ["苹果", "果是", "是水", "水果"]),
        ("人 A 人", ["人", "a", "人"]),
        ("2023年", ["2023", "年"]),
        ("カタカナ", ["カタ", "タカ", "カナ"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("Größe", ["grösse"]),
    ):
        assert tokenise(text) == tokens


@given(st.text())
def test_letters_and_digits_always_give_tokens_without_white_space(text: str) -> None:
    tokens = tokenise(text)

    for token in tokens:
        assert token != ""
        assert not any(letter.isspace() for letter in token)
    if any(letter.isalnum() for letter in normalise(text)):
        assert tokens != []


@given(st.lists(st.sampled_from(["apple", "pear", "ERR-1", "苹果", "été", "3.5"])))
def test_words_between_spaces_are_tokenised_one_by_one(words: list[str]) -> None:
    assert tokenise(" ".join(words)) == [token for word in words for token in tokenise(word)]


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_is_cut_like_any_other_text(text: str) -> None:
    assert tokenise(f"{text} é") == [*tokenise(text), "é"]


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python before 3.11.5 then leaves the group's last letter out: "year" was cut to "yea"."""
    package = Path(__file__).parents[3] / "ragbench"
    places: list[str] = []
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.toml")]):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            if re.search(r"\)[*+?]\+|\(\?>", line):
                places.append(f"{path.name}:{number}")

    assert places == []


@pytest.mark.parametrize(
    ("text", "named", "guessed"),
    [
        ("", None, "en"),
        ("42", None, "en"),
        ("in", None, "en"),
        ("Wann?", None, "de"),
        ("Berlin Paris London 42", None, "en"),
        ("The name 東京 is a name of a city in the east.", "en", "zh"),
        *(
            (text, language, language)
            for text, language in (
                ("Where is the help desk and who is there?", "en"),
                ("Quelle est la limite ?", "fr"),
                ("Wie viele Urlaubstage gibt es?", "de"),
                ("¿Cuál es el límite?", "es"),
                ("Quanti giorni ci sono nel mese?", "it"),
                ("Quantos dias há no mês?", "pt"),
                ("Hoeveel dagen heeft een maand?", "nl"),
                ("Сколько дней отпуска?", "ru"),
                ("员工每年有二十七天的带薪休假。", "zh"),
                ("休暇は年に何日ありますか", "ja"),
                ("이것은 무엇입니까", "ko"),
            )
        ),
    ],
)
def test_a_language_is_named_only_where_script_or_words_show_it_and_else_guessed(
    text: str, named: str | None, guessed: str
) -> None:
    assert (recognised_language(text), guess_language(text)) == (named, guessed)
