import pytest

from ragbench.text.language import guess_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", "en"),
        ("42", "en"),
        ("What is the limit?", "en"),
        ("Wie viele Urlaubstage gibt es?", "de"),
        ("Quelle est la limite ?", "fr"),
        ("¿Cuál es el límite?", "es"),
        ("Quanti giorni ci sono nel mese?", "it"),
        ("Quantos dias há no mês?", "pt"),
        ("Hoeveel dagen heeft een maand?", "nl"),
        ("合同条款是什么", "zh"),
        ("これは何ですか", "ja"),
        ("이것은 무엇입니까", "ko"),
        ("Сколько дней?", "ru"),
    ],
)
def test_language(text: str, language: str) -> None:
    assert guess_language(text) == language
