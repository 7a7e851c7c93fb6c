"""Slots: what a question names, and whether the text that seems to answer it is of just that.

A slot is unbound where its value stands nowhere in the chunk and the sentences that seem to answer
say a rival in its place: another identifier of that form, another year, the opposite. Each rule is
a line of `RULES`, called where a question holds what it is about; what each costs and gains on
labelled sets is in docs/measured/validators.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, lru_cache
from unicodedata import combining, normalize

from ragbench.text.language import function_words
from ragbench.text.question import parse_question
from ragbench.text.tables import Patterns, table
from ragbench.text.tokens import normalise, tokenise

_WORDS = Patterns("ragbench.validators", "slots", flags=re.IGNORECASE)
_CODE = re.compile(r"(?<![\w.-])(?:--?)?[^\W_]\w*(?:[._/-]\w+)*")
_PLAIN = re.compile(
    r"\d+(?:st|nd|rd|th|s)?(?:-[a-z-]{2,})?|(?:mid|early|late|pre|post)-\d+\w*|\d+(?:[.,]\d+)?[a-z]{1,3}"
    r"|(?:[a-z]\.)+[a-z]?",
    re.IGNORECASE,
)
"""What looks like an identifier and is none: ordinals, decades, ages, amounts, "U.S"."""

_FLAG = re.compile(r"--[a-z]|-[a-z]$", re.IGNORECASE)


def unbound(query: str, text: str, quoted: str, rules: Sequence[str]) -> str:
    """Why a chunk leaves a slot of a question unbound, in words; empty where it leaves none.

    ``quoted`` are the sentences of the text that seem to answer.
    """
    called = _called_for(query)
    found = (said for name in rules if name in called for said in RULES[name](query, text, quoted))
    return next(found, "")


@lru_cache(maxsize=1024)
def _called_for(query: str) -> frozenset[str]:
    """The rules that are about something in a question."""
    is_open, plain = not is_yes_or_no(query), _plain(query)
    not_so = _WORDS["not"].search(query) and _WORDS["fact"].match(query)
    held: Mapping[str, object] = {
        "identifier": identifiers(query),
        "number": is_open
        and _WORDS["number"].search(plain)
        and not _WORDS["own_case"].search(query),
        "entity": is_open and _NAME.search(query, 1),
        "time": any(_WORDS[f"asks_{kind}"].match(query) for kind in _KINDS),
        "opposite": is_open and _opposites().keys() & _placed(query).keys(),
        "polarity": not_so
        and not _WORDS["condition"].search(query)
        and "whether or not" not in query.lower(),
        "unknown": query,
    }
    return frozenset(name for name, found in held.items() if found)


@lru_cache(maxsize=1024)
def is_yes_or_no(query: str) -> bool:
    """Whether "no" answers it: "Is smoking allowed?" is answered by "Smoking is forbidden"."""
    return _WORDS["yes_or_no"].match(query) is not None


# --- identifiers: a token with letter and digit, an underscore or an inner dot; an option


@lru_cache(maxsize=4096)
def identifiers(text: str) -> tuple[str, ...]:
    return tuple(one for one in _CODE.findall(text) if _is_identifier(one))


def _is_identifier(word: str) -> bool:
    if _PLAIN.fullmatch(word):
        return False
    if word.isascii() and re.search(r"[a-zA-Z]", word) and re.search(r"\d", word):
        return True
    return (
        "_" in word
        or _FLAG.match(word) is not None
        or re.fullmatch(r"[a-z]\w+(?:\.[a-zA-Z]\w+)+", word) is not None
    )


def _other_identifier(query: str, text: str, quoted: str) -> Iterator[str]:
    for asked in identifiers(query):
        parts = map(re.escape, re.findall(r"[^\W\d_]+|\d+", asked.lower()))
        joined = r"[\W_]{0,2}".join(parts)
        if re.search(rf"(?<![^\W_]){joined}(?![^\W_])", text.lower()):
            continue
        if _WORDS["version"].fullmatch(asked) and _WORDS["range"].search(quoted):
            continue  # "Since v2.1" speaks of v2.3, too
        rivals = [one for one in identifiers(text) if _is_rival(asked.lower(), one.lower())]
        if rivals:
            yield f"'{asked}' is not in this chunk; '{rivals[0]}' is"


def _is_rival(one: str, other: str) -> bool:
    """Whether two identifiers are of one form: INC-48213 and INC-48231, load_config and save_."""
    if _FLAG.match(one):
        return _FLAG.match(other) is not None
    if re.search(r"\d", one) and re.sub(r"\d+", "0", one) == re.sub(r"\d+", "0", other):
        return True
    mine, theirs = (re.split(r"[._/-]", word) for word in (one, other))
    apart = [pair for pair in zip(mine, theirs, strict=False) if pair[0] != pair[1]]
    # GPT-4 may stand for GPT-4o, IL-18 beside IL-1beta.
    is_alike = all(_form(a) == _form(b) for a, b in apart)
    is_near = mine[0] == theirs[0] if "_" not in one else len(apart) < len(mine)
    return len(mine) == len(theirs) and is_near and is_alike


def _form(part: str) -> str:
    return re.sub(r"[^\W\d]+", "a", re.sub(r"\d+", "0", part))


# --- numbers and names, by what stands beside them


def _other_number(query: str, text: str, quoted: str) -> Iterator[str]:
    """A number of the question that stands nowhere in the chunk, where another one takes its place.

    Of two years one takes the other's place; of other numbers where the same word stands beside it.
    """
    asked, plain, said = map(_plain, (query, text, quoted))
    for found in _WORDS["number"].finditer(asked):
        if re.search(_forms(found[0]), plain) or _WORDS["percent"].match(asked, found.end()):
            continue
        years = _WORDS["number"].findall(plain) if _is_year(found[0]) else []
        beside = _beside(asked, found.span())
        rivals = [
            *filter(_is_year, years),
            *(
                one[0]
                for one in _WORDS["number"].finditer(said)
                if beside & _beside(said, one.span())
            ),
        ]
        rival = next((one for one in rivals if one not in asked), None)
        if rival:
            yield f"'{found[0]}' is not in this chunk; '{rival}' is"


_THOUSANDS = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?!,?\d)")


def _plain(text: str) -> str:
    """Normalised, and without the commas in a number; those of a table's row stay."""
    return _THOUSANDS.sub(lambda found: found[0].replace(",", ""), normalise(text))


def _is_year(number: str) -> bool:
    return re.fullmatch(r"1\d{3}|20\d\d", number) is not None


def _beside(text: str, span: tuple[int, int]) -> set[tuple[str, str]]:
    before = re.search(r"([^\W\d_]+)\W{1,2}$", text[max(0, span[0] - 30) : span[0]])
    behind = re.match(r"[ -]?([^\W\d_]+|[%€$])", text[span[1] : span[1] + 30])
    sides = {("before", _stem(before[1]))} if before else set[tuple[str, str]]()
    return sides | ({("behind", _stem(behind[1]))} if behind else set())


@lru_cache(maxsize=8192)
def _forms(number: str) -> str:
    """How a number may be written: 1700s and 18th century, 2 and two and II."""
    digits = number.removesuffix("s")
    spelled = table("ragbench.validators", "slots")["spelled"].split()
    if number.endswith("s") and len(digits) == 4:
        century = f"|{int(digits[:2]) + 1}th" if digits.endswith("00") else ""
        return f"{digits[:3]}{century}"
    exactly = rf"(?<!\d){re.escape(digits)}(?!\d)"
    if digits.isdigit() and int(digits) < len(spelled):
        return rf"{exactly}|\b{spelled[int(digits)]}\b|\b[ivx]+\b"
    return exactly


_NAME = re.compile(r"(?<![\w.&-])[A-Z][a-zà-öø-þ][\w'’-]*\b")
_AKIN = 4
"""Letters that two forms of one name share at their beginning: Korea and Korean."""


def _other_name(query: str, text: str, quoted: str) -> Iterator[str]:
    """A name of the question that no word of the chunk is like, where another takes its place."""
    asked, common = frozenset(tokenise(query)), function_words()["en"].split()
    for found in _NAME.finditer(query, 1):
        mine = _beside(query.lower(), found.span()) - _LOOSE
        if not mine or found[0].lower() in common or _is_like(found[0], text):
            continue
        for rival in _NAME.finditer(quoted):
            if asked.isdisjoint(tokenise(rival[0])) and mine & _beside(
                quoted.lower(), rival.span()
            ):
                yield f"'{found[0]}' is not in this chunk; '{rival[0]}' is"


_LOOSE = {("before", one) for one in ("the", "a", "an", "did", "of", "is", "by", "to", "with")}
"""What stands before names of any kind."""


def _is_like(name: str, text: str) -> bool:
    """Whether a word of a text is the name, perhaps spelled otherwise, or is derived from it."""
    plain, words = _folded(name), set(re.findall(r"[a-z]+", _folded(text)))
    near = any(one[:_AKIN] == plain[:_AKIN] for one in words)
    return near or bool(get_close_matches(plain, words, n=1, cutoff=0.75))


def _folded(text: str) -> str:
    return "".join(one for one in normalize("NFKD", text.casefold()) if not combining(one))


# --- polarity


def _opposite(query: str, text: str, quoted: str) -> Iterator[str]:
    """A word of the question is missing there, and its opposite is said."""
    asked, said = _placed(query), _placed(quoted)
    for stem, (word, mine) in asked.items():
        for other, anywhere in sorted(_opposites().get(stem, {}).items()):
            if stem not in said and other in said and other not in asked:
                rival, theirs = said[other]
                if anywhere or mine & theirs:
                    yield f"it says '{rival}', not '{word}'"


@lru_cache(maxsize=1024)
def _placed(text: str) -> Mapping[str, tuple[str, set[tuple[str, str]]]]:
    """By stem the word as it is written, and what stands beside it; articles do not count."""
    plain = re.sub(r"\b(?:the|an?) ", "", text.lower())
    found = re.finditer(r"[a-z]+", plain)
    return {_stem(one[0]): (one[0], _beside(plain, one.span()) - _LOOSE) for one in found}


@cache
def _opposites() -> Mapping[str, Mapping[str, bool]]:
    """By stem the stems of which one cannot stand for the other, both ways.

    True for those that are opposites anywhere; most are so only beside the same word: the first
    director, the last director.
    """
    found: dict[str, dict[str, bool]] = {}
    for key, anywhere in (("antonyms", False), ("verbs", True)):
        for pair in table("ragbench.validators", "slots")[key].split("|"):
            one, other = map(_stem, pair.split())
            for first, second in ((one, other), (other, one)):
                found.setdefault(first, {})[second] = anywhere
    return found


@lru_cache(maxsize=8192)
def _stem(word: str) -> str:
    """One form for all of a word: lost, loses and losing are one word here."""
    if _WORDS["ambiguous"].match(word):
        return word
    irregular = table("ragbench.validators", "slots")["irregular"]
    return "".join(tokenise(irregular.get(word, word)))


_AFFIRMED = 0.6
"""Share of the question's words from which on a sentence says what the question denies."""


def _affirms(query: str, text: str, quoted: str) -> Iterator[str]:
    """The question asks what is not so, and the sentence says the same without any denial."""
    asked = frozenset(parse_question(_WORDS["not"].sub(" ", query)).tokens)
    held = len(asked & frozenset(tokenise(quoted)))
    if held >= _AFFIRMED * len(asked) and not _WORDS["denies"].search(quoted):
        yield "it says what is so, and the question asks what is not"


_NEW = 3
"""Words beside the question's up to which a sentence that says "unknown" says no more than that."""


def _says_unknown(query: str, text: str, quoted: str) -> Iterator[str]:
    """That it is unknown, and hardly more."""
    found = _WORDS["unknown"].search(quoted)
    if found is None or found[0].split()[-1].lower() in query.lower():
        return  # a question about what is unknown
    rest = parse_question(f"{quoted[: found.start()]} {quoted[found.end() :]}").tokens
    if len(set(rest) - set(tokenise(query))) <= _NEW:
        yield f"it says '{found[0].strip(' :')}'"


_KINDS = ("date", "time", "number")


def _lacks_kind(query: str, text: str, quoted: str) -> Iterator[str]:
    """A date, a time or a number is asked for, and none is said."""
    for kind in _KINDS:
        if _WORDS[f"asks_{kind}"].match(query) and not _WORDS[f"holds_{kind}"].search(quoted):
            yield f"it names no {kind}"


# --- repeated questions


def without_echo(query: str, text: str) -> str:
    """A text without the question that it repeats and the claims about it; places stay.

    Indexes of questions, tickets and claims to answer are near a question and say nothing. A reply
    behind it keeps it: "When does it close? At nine."
    """
    asked, plain = query.strip(" ?!.\n").lower(), text.lower()
    if len(asked.split()) < 3 or asked not in plain or len(plain) != len(text):
        return text
    letters = list(text)
    for found in re.finditer(re.escape(asked) + r"[ ?!.]*", plain):
        start = max(plain.rfind(mark, 0, found.start()) for mark in ".?!\n|") + 1
        before, behind = plain[start : found.start()], plain[found.end() : found.end() + 400]
        claimed = None if _WORDS["yes"].match(behind) else _WORDS["promise"].match(behind)
        is_question = "?" in found[0] or _WORDS["asks"].match(query)
        says = not is_question or _replies(asked, behind)
        if says and not claimed and not _WORDS["claim"].search(before):
            continue
        end = found.end() + (claimed.end() if claimed else 0)
        letters[start:end] = " " * (end - start)
    return "".join(letters)


def _replies(asked: str, behind: str) -> bool:
    """Whether what stands right behind a question says something of its own."""
    if _WORDS["yes"].match(behind):
        return True
    said = _WORDS["next"].split(behind, maxsplit=1)[0]
    if _WORDS["promise"].match(said) or behind[len(said) : len(said) + 1] == "?":
        return False
    new = set(parse_question(said).tokens) - set(tokenise(asked))
    return len(new) > 1 or any(map(str.isdigit, "".join(new)))


def without_marks(query: str, text: str) -> str:
    """A text without marks of lists, HTML and Markdown, and labels; places stay.

    So do a number and a label that the question names.

    To the reader an item of a list looks like one that is asked for: of 200 texts that do not
    answer it took 48 for answers with a bullet at each sentence, and 17 without.
    """
    asked = re.findall(r"[\d.]*\d|[^\W\d_]+", query.lower())
    found = _WORDS["marks"].sub(
        lambda at: at[0] if at[at.lastindex or 0].lower() in asked else " " * len(at[0]), text
    )
    return found if found.strip() else text  # there is nothing but marks


RULES: Mapping[str, Callable[[str, str, str], Iterator[str]]] = {
    "identifier": _other_identifier,
    "number": _other_number,
    "entity": _other_name,
    "time": _lacks_kind,
    "opposite": _opposite,
    "polarity": _affirms,
    "unknown": _says_unknown,
}
"""What is checked, in order: from the question, the chunk and the sentences that seem to answer, to
what is said against them."""
SLOTS = tuple(RULES)
