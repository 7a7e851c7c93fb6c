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
_SHORTEST_ROOT = 3
"""Letters before such an ending: "our" and "or" are two words."""


@lru_cache(maxsize=1 << 14)
def is_spelling_of(word: str, other: str, language: str = "en") -> bool:
    """Whether two words in small letters are one word: a typo of it, or in another spelling.

    An answer with "recieve" or "colour" says the reference's "receive" or "color". Another result
    for any answer needs a higher version of ``answer_correct``.

    Args:
        language: of the texts that they come from, besides English.
    """
    # Spellings first: they may differ by more than one step.
    if _american_spelling(word) == _american_spelling(other):
        return True
    if not _is_one_step_away(word, other):
        return False
    # "form" and "from" are one step apart, and two words: both exist.
    are_two_words = exists(word, language) and exists(other, language)
    return not are_two_words


def _american_spelling(word: str) -> str:
    """A word with the American ending, where the British one differs: "color" for "colour".

    Two words with the same one are one word in two spellings.
    """
    for british, american in _SPELLINGS:
        root = word.removesuffix(british)
        # The first ending that fits decides; a short root is a word of its own, as "our".
        if root != word and len(root) >= _SHORTEST_ROOT:
            return root + american
    return word


def _is_one_step_away(word: str, other: str) -> bool:
    """Whether one typo may have made one of two words of the other.

    A step is a letter more, less, another or moved. Short words are left out: most of them have
    other words as neighbours.
    """
    shortest = min(len(word), len(other))
    if shortest < _SHORTEST_MISSPELLED or abs(len(word) - len(other)) > 1:
        return False
    # Imported when words are first compared by letters: most runs never do.
    from rapidfuzz.distance import OSA

    return OSA.distance(bare(word), bare(other), score_cutoff=1) <= 1


@lru_cache(maxsize=1 << 14)
def exists(word: str, language: str = "en") -> bool:
    """Whether a word is one of English or of another language, with its accents or without.

    Of most languages no list is there: their words exist nowhere, and any of them may be a typo.
    Two words that both exist are no typos of each other.
    """
    if _is_listed(word, "en"):
        return True
    return language in _LANGUAGES and _is_listed(word, language)


def _is_listed(word: str, language: str) -> bool:
    """Whether the list of a language has a word, as it is or without its accents.

    Texts often leave accents out.
    """
    words = _words_of(language)
    return word in words or bare(word) in words


@cache
def _words_of(language: str) -> frozenset[str]:
    """The words of a language, for which the package has a list.

    Read when a word is first looked up in it, which takes a quarter of a second. A language without
    a list is an error: callers ask only for those of `_LANGUAGES`, and English.
    """
    from spellchecker import SpellChecker

    return frozenset(SpellChecker(language=language).word_frequency.dictionary)
