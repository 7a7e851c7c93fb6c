import pytest

from ragbench.text.language import guess_language, recognised_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", "en"),
        ("42", "en"),
        ("Wie viele Urlaubstage gibt es?", "de"),
        ("Quelle est la limite ?", "fr"),
        ("¿Cuál es el límite?", "es"),
        ("Quanti giorni ci sono nel mese?", "it"),
        ("Quantos dias há no mês?", "pt"),
        ("Hoeveel dagen heeft een maand?", "nl"),
        ("이것은 무엇입니까", "ko"),
        ("Сколько дней?", "ru"),
    ],
)
def test_the_language_that_is_guessed(text: str, language: str) -> None:
    assert guess_language(text) == language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Where is the help desk and who is there?", "en"),
        ("员工每年有二十七天的带薪休假。", "zh"),
        ("休暇は年に何日ありますか", "ja"),
        ("Сколько дней отпуска?", "ru"),
        ("Berlin Paris London 42", None),
        ("", None),
        ("The name 東京 is a name of a city in the east.", "en"),
        ("in", None),
        ("Wann?", None),
    ],
)
def test_a_language_is_named_only_where_script_or_words_show_it(
    text: str, language: str | None
) -> None:
    assert recognised_language(text) == language


def test_one_word_is_enough_when_asked_for() -> None:
    assert recognised_language("Wann?", least=1) == "de"
