"""Whether a text declines to answer: the whole of it, or a part.

A text is taken sentence by sentence. It declines when one sentence says that there is no answer
and every other one only goes with that: an apology, an offer of help, advice to ask somebody else,
what the sources speak of instead. A sentence that none of the rules know is an answer, and so is
one that goes on behind a "but". It opens with a refusal when its first statement declines, unless
what follows concludes all the same: "Therefore, it is 0". The rules of eighteen languages are in
``declining.toml``; only those are tried of which the text has a word that every refusal holds.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from ragbench.text.citations import without_citations
from ragbench.text.sentences import split_sentences
from ragbench.text.tables import Patterns, regex_text, table
from ragbench.text.thoughts import behind_thoughts

RULES = 9
"""Raised whenever another text than before counts as declined: scores of other rules do not
compare."""


class Reading(NamedTuple):
    """How an answer reads."""

    declines: bool
    """The whole of it says that there is no answer."""
    in_part: bool
    """A sentence says so, and others answer all the same."""
    opens: bool = False
    """Its first statement says so, whatever follows but a conclusion."""
    sends_elsewhere: bool = False
    """Its first statement says only where an answer is to be found: "look at the report"."""


_ANSWERS = Reading(declines=False, in_part=False)
_LONGEST = 600
"""Characters of an answer that declines: a longer one says more than that it has no answer."""
_MOST_SENTENCES = 6
"""Sentences of an answer that declines, for the same reason."""
_LONGEST_CITED = 4 * _LONGEST
"""Characters with the citations, which are left out: addresses may be longer than the answer."""


@lru_cache(maxsize=4096)
def read_answer(text: str) -> Reading:
    """How an answer reads: whether it declines as a whole, in part, or at its beginning.

    Metrics count declined answers by it wherever a system does not say itself that it declined.
    Another result for any text needs a higher `RULES`: scores of other rules do not compare.
    """
    answer = behind_thoughts(text)  # what a model thinks is not what it answers
    # An empty answer declines, too: it answers nothing.
    if not answer.strip(_EDGES):
        return Reading(declines=True, in_part=False, opens=True)
    # Most answers have no word that speaks of declining, and are read no further.
    languages = _languages_of_cues(answer[:_LONGEST].casefold())
    if not languages:
        return _ANSWERS
    answer = answer.strip()
    plain = without_citations(answer[:_LONGEST_CITED]).translate(_EMPHASIS)
    parts = _sentence_parts(plain[:_LONGEST])
    is_cut = len(plain) > _LONGEST
    if is_cut and len(parts) > 1:
        parts.pop()  # half of a sentence may seem to say what the whole does not
    kinds = _kinds_of_parts(parts, languages)
    statements = [kind for kind in kinds if kind != _GOES_WITH]
    sends_elsewhere = statements[:1] == [_SENDS_ELSEWHERE]
    if _DECLINES not in kinds:
        return _ANSWERS._replace(sends_elsewhere=sends_elsewhere)
    is_short = len(answer) <= _LONGEST_CITED and not is_cut and len(kinds) <= _MOST_SENTENCES
    answers_nothing = set(kinds) <= {_DECLINES, _GOES_WITH, _SENDS_ELSEWHERE}
    declines = is_short and answers_nothing
    opens = statements[0] == _DECLINES and _CONCLUDES not in kinds
    return Reading(
        declines=declines,
        in_part=not declines,
        opens=opens,
        sends_elsewhere=sends_elsewhere,
    )


def opens_with_refusal(text: str, query: str) -> bool:
    """Whether the first statement of an answer says that there is no answer to the question.

    "Look at the report" is a refusal, too, unless the question asks for the way: "How do I find
    ...". Where another text then counts as declined, raise `RULES`.
    """
    reading = read_answer(text)
    if not reading.sends_elsewhere or reading.opens:
        # An answer that opens with a refusal is one, wherever it sends the reader.
        return reading.opens
    asks_the_way = _SIGNS["asks_the_way"].search(query.casefold()) is not None
    return not asks_the_way


def _languages_of_cues(folded: str) -> list[str]:
    """The languages of which a text has a cue, a word that every refusal in that language holds.

    Only the rules of these languages are tried: for most answers there is none, and the work is
    saved.

    Args:
        folded: a text in the small letters of `str.casefold`.
    """
    parts_of_words, whole_words = _cues_of_refusals(folded.isascii())
    languages = [language for part, language in parts_of_words if part in folded]
    for word in whole_words.keys() & folded.translate(_MARKS).split():
        languages += whole_words[word]
    if not languages:  # the common case needs no dict
        return languages
    return list(dict.fromkeys(languages))


@cache
def _cues_of_refusals(is_ascii: bool) -> tuple[list[tuple[str, str]], dict[str, list[str]]]:
    """The cues of all languages: parts of words with their language, whole words with theirs.

    A cue is a word that every refusal in a language holds. To look for each is a tenth of the work
    of one expression that begins with any of them.

    Args:
        is_ascii: whether they are for a text of ASCII alone, which holds no other cues.
    """
    parts_of_words: list[tuple[str, str]] = []
    whole_words: dict[str, list[str]] = {}
    for language, entries in _rules_by_language().items():
        for part in entries.get("cue", ()):
            # A text of ASCII cannot hold such a cue: looking for it would cost time.
            if part.isascii() or not is_ascii:
                parts_of_words.append((part, language))
        for word in entries.get("whole_cue", ()):
            whole_words.setdefault(word, []).append(language)
    return parts_of_words, whole_words


# What a part of an answer does.
_SAYS = "says something"
_DECLINES = "declines"
_GOES_WITH = "goes with it"
_SENDS_ELSEWHERE = "sends elsewhere"
_CONCLUDES = "answers behind a refusal"


def _sentence_parts(text: str) -> list[str]:
    """The sentences of an answer, cut at semicolons, too, in the form that the rules expect.

    That is: small letters, straight apostrophes, single spaces, and no marks at the ends. In
    another form rules of ``declining.toml`` would match no more. Where another text then counts as
    declined, raise `RULES`.
    """
    # NFKC first: it turns full-width letters and marks into those of the rules.
    plain = unicodedata.normalize("NFKC", text).translate(_APOSTROPHES)
    parts: list[str] = []
    for span in split_sentences(plain):
        sentence = plain[span.start : span.end].casefold()
        # Semicolons and lines part clauses of their own; a Chinese full stop has no blank behind
        # it.
        for part in re.split(r"[;\n]|(?<=。)", sentence):
            words = " ".join(part.split())
            stripped = words.strip(_EDGES)
            if stripped:
                parts.append(stripped)
    return parts


def _kinds_of_parts(parts: Sequence[str], languages: Sequence[str]) -> list[str]:
    """For each part of an answer its kind: whether it declines, goes with that, or answers.

    An answer declines as a whole only if no part of it answers. Where another text then counts as
    declined, raise `RULES`.

    Args:
        parts: as `_sentence_parts` gives them.
        languages: whose rules are tried.
    """
    kinds = [_SAYS] * len(parts)
    part_before = ""
    for position, part in enumerate(parts):
        # Most sentences have no word that speaks of declining.
        languages_of_part = _languages_of_cues(part)
        spoken = [language for language in languages_of_part if language in languages]
        if spoken and _part_declines(part, part_before, spoken):
            kinds[position] = _DECLINES
        part_before = part
    is_refusal = _DECLINES in kinds
    for position, part in enumerate(parts):
        if kinds[position] == _DECLINES:
            continue
        kinds[position] = _kind_beside(part, kinds[:position], languages)
        # Without a refusal only the kind of the first statement matters.
        if not is_refusal and kinds[position] != _GOES_WITH:
            break
    return kinds


def _kind_beside(part: str, kinds_before: Sequence[str], languages: Sequence[str]) -> str:
    """The kind of a part that does not decline itself, from the kinds of the parts before it.

    The order of the tests decides where a part fits two kinds. A part that says something makes the
    whole an answer, unless it only goes with a refusal, as an offer of help does. Where another
    text then counts as declined, raise `RULES`.

    Args:
        languages: whose rules are tried.
    """
    # The whole part: an opening may itself be a part of "please contact".
    if _matches_any(part, "sends_elsewhere", languages):
        return _SENDS_ELSEWHERE
    core = _without_opening(part, languages)
    if core == "":  # only an apology
        return _GOES_WITH
    if _matches_any(core, "goes_with", languages) or _matches_any(core, "limits", languages):
        return _GOES_WITH
    # Only behind a refusal: by itself such a sentence says something.
    if _DECLINES in kinds_before and _matches_any(part, "concludes", languages):
        return _CONCLUDES
    # The refusal must be the part right before: a sentence in between has ended it.
    if kinds_before[-1:] == [_DECLINES] and _matches_any(part, "goes_on", languages):
        return _CONCLUDES
    return _SAYS


def _part_declines(part: str, part_before: str, languages: Sequence[str]) -> bool:
    """Whether a part of an answer says that there is no answer, and goes on with none.

    Behind a "but" an answer may follow, which undoes the refusal. Where another text then counts as
    declined, raise `RULES`.

    Args:
        part_before: the part above. With it a part may decline that is a statement alone: "It only
            covers the price; it does not name the term".
        languages: whose rules are tried.
    """
    core = _without_opening(part, languages)
    but = _SIGNS["but"].search(core)
    if but is not None:
        # "I do not have the figures, but I can explain the formula" declines.
        behind_but = core[but.end() :].strip(_CLAUSE_EDGES)
        core = core[: but.start()].rstrip(_CLAUSE_EDGES)
        if not _matches_any(behind_but, "goes_with", languages):
            return False
    if _matches_any(core, "declines", languages):
        return True
    # Once more with the opening that `core` lacks: "From the texts it is unclear who won" declines
    # only with it.
    if but is None and core != part and _matches_any(part, "declines", languages):
        return True
    if not _matches_any(core, "follows", languages):
        return False
    core_before = _without_opening(part_before, languages)
    return _matches_any(core_before, "limits", languages)


def _without_opening(part: str, languages: Sequence[str]) -> str:
    """A part of an answer without an opening such as "I'm sorry, but", which says nothing itself.

    The rules of what declines are written without openings.

    Args:
        languages: whose openings are taken off.
    """
    core = part
    # Openings of several languages may follow each other: each is taken off what is left.
    for language in languages:
        opening = _compiled_rules(language, "opens").match(core)
        if opening is not None:
            core = core[opening.end() :]
    return core


def _matches_any(part: str, kind: str, languages: Sequence[str]) -> bool:
    """Whether a whole part of an answer fits a kind of rule in any of the languages.

    Rules fit a part as a whole: what goes on behind a refusal may be an answer.

    Args:
        kind: the name of the rules in ``declining.toml``.
    """
    return any(_compiled_rules(language, kind).fullmatch(part) for language in languages)


@cache
def _compiled_rules(language: str, kind: str) -> re.Pattern[str]:
    """The rules of a kind in a language, as one pattern; compiled when an answer first needs it.

    Most answers need no rules, or those of one language, and compiling takes time.

    Args:
        kind: the name of the rules in ``declining.toml``. A language may have none of a kind.
    """
    entries = _rules_by_language()[language]
    rules: list[str] = []
    for rule in entries.get(kind, ()):
        rules.append(f"(?:{regex_text(rule, entries)})")
    pattern = "|".join(rules) or _NEVER
    # "In the documents" may come before each refusal.
    if kind == "declines" and "where" in entries:
        where = regex_text(entries["where"], entries)
        pattern = f"(?:{where},? )?(?:{pattern})"
    if kind == "opens":  # what may come before an answer may come several times
        behind_opening = _SIGNS["behind_opening"].pattern
        pattern = f"(?:(?:{pattern}){behind_opening})+"
    return re.compile(pattern)


def _rules_by_language() -> Mapping[str, Mapping[str, Any]]:
    """The rules of ``declining.toml`` by language: refusals, what goes with them, their cues.

    With another rule other texts count as declined: raise `RULES`.
    """
    languages: Mapping[str, Mapping[str, Any]] = table("ragbench.text", "declining")["languages"]
    return languages


_MARKS = "".join(sign if sign.isalnum() or sign == "'" else " " for sign in map(chr, range(128)))
"""ASCII without its marks, as a table of `str.translate`: a string is faster than a dict."""
_NEVER = r"(?!)"
"""A pattern that no text matches."""
_CLAUSE_EDGES = " ,:"
_ARABIC_VOWELS = "".join(map(chr, range(0x64B, 0x653)))
"""Signs above and below letters, which few writers set."""
_EMPHASIS = str.maketrans(dict.fromkeys("*_" + _ARABIC_VOWELS))
"""Signs that are left out, as a table of `str.translate`: bold, italic, Arabic vowels."""
_EDGES = " \t\r\n.!。।…\"'“”«»()[]{}*_#>-"
"""Signs around a sentence that say nothing."""
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": "'"})
_SIGNS = Patterns("ragbench.text", "declining")
