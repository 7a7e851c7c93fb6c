"""What is said instead of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["ABSTENTIONS", "abstention"]

ABSTENTIONS: Mapping[str, str] = MappingProxyType(
    {
        "en": "I don't know.",
        "de": "Ich weiß es nicht.",
        "es": "No lo sé.",
        "fr": "Je ne sais pas.",
        "it": "Non lo so.",
        "ja": "わかりません。",
        "ko": "모르겠습니다.",
        "nl": "Ik weet het niet.",
        "pt": "Não sei.",
        "ru": "Я не знаю.",
        "zh": "我不知道。",
    }
)
"""The sentence by language."""


def abstention(language: str) -> str:
    """The sentence in a language (ISO 639-1); in English when there is none in that language."""
    return ABSTENTIONS.get(language, ABSTENTIONS["en"])
