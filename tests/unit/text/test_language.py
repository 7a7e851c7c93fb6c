import pytest

from ragbench.text.language import guess_language, recognised_language


@pytest.mark.parametrize(("text", "named", "guessed"), [
    ("", None, "en"),
    ("42", None, "en"),
    ("in", None, "en"),
    ("Wann?", None, "de"),
    ("Berlin Paris London 42", None, "en"),
    ("The name 東京 is a name of a city in the east.", "en", "zh"),
    *((text, language, language) for text, language in (
        ("Where is the help desk and who is there?", "en"), ("Quelle est la limite ?", "fr"),
        ("Wie viele Urlaubstage gibt es?", "de"), ("¿Cuál es el límite?", "es"),
        ("Quanti giorni ci sono nel mese?", "it"), ("Quantos dias há no mês?", "pt"),
        ("Hoeveel dagen heeft een maand?", "nl"), ("Сколько дней отпуска?", "ru"),
        ("员工每年有二十七天的带薪休假。", "zh"), ("休暇は年に何日ありますか", "ja"),
        ("이것은 무엇입니까", "ko"),
    )),
])  # fmt: skip
def test_a_language_is_named_only_where_script_or_words_show_it_and_else_guessed(
    text: str, named: str | None, guessed: str
) -> None:
    assert (recognised_language(text), guess_language(text)) == (named, guessed)
