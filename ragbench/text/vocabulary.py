"""Whether two words that look alike are one, spelled in two ways, or two.

Two words that both exist are two words: Iran and Iraq, hypotonic and hypertonic. A typo is a word
that exists nowhere and is one step from the other: a letter more, less, another or moved.
"""

from __future__ import annotations

from functools import cache, lru_cache

from ragbench.text.letters import bare

_SHORTEST_MISSPELLED = 5
"""Letters of a word from which on one step may be a typo: most words of four letters have other
words as neighbours."""
_LANGUAGES = ("ar", "de", "es", "fa", "fr", "it", "nl", "pt", "ru")
"""Languages, beside English, of which the package has a list of words."""
_SPELLINGS: tuple[tuple[str, str], ...] = (
    ("isation", "ization"),
    ("ise", "ize"),
    ("ising", "izing"),
    ("ised", "ized"),
    ("our", "or"),
    ("ours", "ors"),
    ("tre", "ter"),
    ("tres", "ters"),
    ("yse", "yze"),
)
"""British and American endings of one word."""


@lru_cache(maxsize=1 << 14)
def is_spelling_of(word: str, other: str, language: str = "en") -> bool:
    """Whether two words in small letters are one word: a typo of it, or in another spelling.

    Args:
        language: of the texts that they come from, besides English.
    """
    if word == other or _american(word) == _american(other):
        return True
    shortest = min(len(word), len(other))
    if shortest < _SHORTEST_MISSPELLED or abs(len(word) - len(other)) > 1:
        return False
    # Imported when words are first compared by letters: most runs never do.
    from rapidfuzz.distance import OSA

    if OSA.distance(bare(word), bare(other), score_cutoff=1) > 1:
        return False
    return not (exists(word, language) and exists(other, language))


def _american(word: str) -> str:
    """A word with the American one of two endings."""
    for british, american in _SPELLINGS:
        if word.endswith(british) and len(word) > len(british) + 2:
            return word[: -len(british)] + american
    return word


@lru_cache(maxsize=1 << 14)
def exists(word: str, language: str = "en") -> bool:
    """Whether a word is one of English or of another language; of most, no list is there."""
    languages = ["en", language] if language in _LANGUAGES else ["en"]
    return any(form in _words_of(known) for known in languages for form in (word, bare(word)))


@cache
def _words_of(language: str) -> frozenset[str]:
    """The words of a language: read when a word is first looked up in it, a quarter of a second."""
    from spellchecker import SpellChecker

    return frozenset(SpellChecker(language=language).word_frequency.dictionary)
