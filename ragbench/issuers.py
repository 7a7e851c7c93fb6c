"""Credentials that are known by the form that their issuers give them: ``ghp_``, and 36 letters.

`spans_of_keys` says where they are in any text. The table of forms, ``issuers.json``, is made of a
secret scanner's list and names its source. A form is only in it if ordinary text has none like it:
what is found is masked in the data of users, too. So most texts must cost next to nothing. A key is
an unbroken run of at least 16 characters, and most texts have none.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pkgutil import get_data
from typing import Any

_CHARACTERS = "A-Za-z0-9_.~=/+%\\\\-"
"""Of which keys are made, with those by which they are escaped."""
_SHORTEST = 16
"""Characters of the shortest key."""
_RUN = re.compile(rf"[{_CHARACTERS}]{{{_SHORTEST},}}")


def _table_of_key_bytes() -> bytes:
    """A table for `bytes.translate`: an x for each character that keys are made of, else a space.

    By it a text of megabytes is searched for a run as long as a key in milliseconds, which a
    regular expression is not.
    """
    is_in_key = re.compile(f"[{_CHARACTERS}]")
    # Bytes beyond ASCII are in no key, and stay blanks.
    marks = bytearray(b" " * 256)
    for code in range(128):
        if is_in_key.match(chr(code)):
            marks[code] = ord("x")
    return bytes(marks)


_MARKS_OF_BYTES = _table_of_key_bytes()
_MARKS_OF_RUN = b"x" * _SHORTEST
_LONG_NAME = b'"context_metadata":'
"""A field of every stored retrieval, whose name is as long as a key: most have no other run."""
_BETWEEN_WORDS = re.compile(r"\\u[0-9A-Fa-f]{4}|\\[abfnrtv]|%[0-9A-Fa-f]{2}|[^A-Za-z0-9]+")
"""What separates words: signs, and letters that are written as an escape, as in ``%3Dghp_``."""
_BLANK_SIGNS = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalnum()})
_BEHIND_FIRST_WORD = re.compile(r"[_.-]([A-Za-z0-9_.=~-]{20,400})")
"""What follows the first word of a key."""
_RANDOM = re.compile(
    r"(?:[a-z]{2,4}_)?[0-9a-f]{32,}\Z|"
    r"(?=(?:[^0-9]*[0-9]){2})(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])"
)
"""What is hexadecimal, or has digits, large and small letters."""
_LETTERS_OF_START = 3
"""By so many letters the shapes are looked up that a word may have; some have only two."""


class _Shape:
    """What a key looks like: an entry of the table."""

    def __init__(self, entry: dict[str, Any]) -> None:
        """Takes an entry of ``issuers.json``, whose pattern is compiled only when it is needed.

        A shape is the form that an issuer gives its keys, such as ``ghp_`` and 36 letters.
        """
        self._entry = entry
        self._least_entropy: float = entry.get("entropy", 0.0)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of this form of key, compiled when a text has the form's beginning.

        All of them together would take 50 ms at the start of every command.
        """
        return re.compile(self._entry["pattern"], re.ASCII)

    @cached_property
    def _examples(self) -> re.Pattern[str] | None:
        """The pattern of texts that have the form and are no key; None where there are none such.

        They are examples in documentation, or names in code: masking them would harm a user's data.
        """
        pattern = self._entry.get("unless")
        if pattern is None:
            return None
        return re.compile(pattern)

    def is_key(self, text: str) -> bool:
        """Whether a text that fits the pattern is as random as a key, and no example of one.

        Most texts that fit a pattern by chance repeat letters, or are words.
        """
        if self._examples is not None and self._examples.fullmatch(text):
            return False
        return _entropy(text) >= self._least_entropy


def _entropy(text: str) -> float:
    """The randomness of a text in bits for each character, by how often each occurs in it.

    A made-up example such as "sk-xxxx" has little, a key much. The least of each form is in
    ``issuers.json``.
    """
    bits = 0.0
    for count in Counter(text).values():
        share = count / len(text)
        bits -= share * math.log2(share)
    return bits


class _Shapes:
    """The table, by what a word must have to be the beginning of a key."""

    def __init__(self) -> None:
        """Reads ``issuers.json``, the forms that issuers give their keys.

        They are looked up by how a key begins, so that a text is not searched for each of them.
        """
        self.by_word: defaultdict[str, list[_Shape]] = defaultdict(list)
        """By the first word of a key, which a sign ends: ``ghp`` of ``ghp_``."""
        self.by_start: defaultdict[str, list[_Shape]] = defaultdict(list)
        """By the first letters of a key's first word, at most three: ``AKI`` of ``AKIA``."""
        self.by_part: list[tuple[str, _Shape]] = []
        """Fixed parts within keys or at their end, such as ``Q~``, each with its form of key."""
        # By the package's loader, since it may be read from an archive.
        table = json.loads(get_data("ragbench", "issuers.json") or b"")
        for entry in (*table["listed"].values(), *table["more"].values()):
            self._add(entry)

    def _add(self, entry: dict[str, Any]) -> None:
        """Adds a form of key to the tables, under each beginning that its keys may have.

        A text is then searched only for the forms that one of its words may begin.

        Args:
            entry: of ``issuers.json``.
        """
        shape = _Shape(entry)
        if "holds" in entry:
            # Runs hold no signs: of ":AA", in a key with a colon, only "AA" can be looked for.
            parts = re.findall(f"[{_CHARACTERS}]+", entry["holds"])
            # The longest part: a short one would be in many texts.
            self.by_part.append((max(parts, key=len), shape))
            return
        for beginning in entry["begins"]:
            # The beginning up to its first sign is a whole word; without a sign it is the start of
            # one.
            parts = re.split("[^A-Za-z0-9]", beginning.lstrip("_"), maxsplit=1)
            word = parts[0]
            is_ended_by_sign = len(parts) == 2
            if is_ended_by_sign:
                self.by_word[word].append(shape)
            else:
                self.by_start[word[:_LETTERS_OF_START]].append(shape)

    def may_begin(self, words: Sequence[str]) -> bool:
        """Whether any of some words is the beginning of a key; for nearly all texts none is.

        Only where one is, the patterns of keys are tried.
        """
        if not self.by_word.keys().isdisjoint(words):
            return True
        starts = {word[:_LETTERS_OF_START] for word in words}
        starts |= {start[:2] for start in starts}  # some beginnings have two letters alone
        return not self.by_start.keys().isdisjoint(starts)

    def beginning_with(self, word: str) -> Iterator[_Shape]:
        """The forms of keys that may begin with a word.

        Only their patterns need to be tried there.
        """
        yield from self.by_word.get(word, ())
        yield from self.by_start.get(word[:_LETTERS_OF_START], ())
        yield from self.by_start.get(word[:2], ())


@lru_cache(maxsize=1)
def _shapes_of_keys() -> _Shapes:
    """The forms of keys by their beginnings, read when a text first has a run like a key.

    Most processes mask nothing, and never read the table.
    """
    return _Shapes()


def may_hold_key(data: bytes) -> bool:
    """Whether a text in UTF-8 has a run of characters that is long enough for a key.

    Most texts have none, and are searched no further. It may be wrong only with True.
    """
    if _MARKS_OF_RUN not in data.translate(_MARKS_OF_BYTES):
        return False
    return _MARKS_OF_RUN in data.replace(_LONG_NAME, b"").translate(_MARKS_OF_BYTES)


def spans_of_keys(text: str, *, is_message: bool = False) -> Iterator[tuple[int, int]]:
    """The start and end of each key of a known issuer in a text, in no order; they may overlap.

    The caller masks them. Most texts must cost next to nothing: only runs of the length of a key
    are looked at.

    Args:
        is_message: no text of a user, but an error's or a setting's. In it an example of a key
            counts as one, and whatever begins like a key and goes on at random: issuers change the
            length of their keys.
    """
    shapes = _shapes_of_keys()
    # All long runs of letters in one text: parts of keys are looked for once, in little text.
    runs = b" ".join(_long_runs(text.encode("utf-8", "surrogatepass")))
    text_of_runs = runs.decode("ascii")
    # Keys that are known by how they begin; those below have a fixed part within.
    if shapes.may_begin(_words_of_runs(text_of_runs)):
        for run in _RUN.finditer(text):
            yield from _keys_in_run(text, *run.span(), is_message=is_message)
    for part, shape in shapes.by_part:
        if part not in text_of_runs:
            # The part is in no run, so its pattern, which reads the whole text, is not tried.
            continue
        for match in shape.pattern.finditer(text):
            if shape.is_key(match[0]):
                yield match.span()


def _long_runs(data: bytes) -> Iterator[bytes]:
    """The runs of characters in a text that are long enough for a key: those of `_RUN`, as bytes.

    Ten times as fast as the expression, which is then only tried where a run may begin a key.

    Args:
        data: the text in UTF-8.
    """
    # A blank at the end, so that the last run ends, too.
    marks = data.translate(_MARKS_OF_BYTES) + b" "
    start = marks.find(_MARKS_OF_RUN)
    while start >= 0:
        end = marks.index(b" ", start)
        yield data[start:end]
        start = marks.find(_MARKS_OF_RUN, end)


def _words_of_runs(text: str) -> Sequence[str]:
    """The words of an ASCII text, cut at signs and at letters that are written as an escape.

    A key may begin behind an escape: ``%3Dghp_`` in a URL.
    """
    if "\\" in text or "%" in text:
        return _BETWEEN_WORDS.split(text)
    return text.translate(_BLANK_SIGNS).split()  # three times as fast


def _keys_in_run(text: str, start: int, end: int, *, is_message: bool) -> Iterator[tuple[int, int]]:
    """The start and end of the keys that begin in a run of a text.

    The search goes on behind whatever has a key's form, be it one or not: in "sk-sk-sk-..." it
    would else take time that grows with the square of its length.

    Args:
        start: where the run begins.
        end: the position behind it.
        is_message: as in `spans_of_keys`.
    """
    shapes = _shapes_of_keys()
    while start < end:
        sign = _BETWEEN_WORDS.search(text, start, end)
        word_end = end if sign is None else sign.start()
        word = text[start:word_end]
        furthest_end = start  # of all matches of a key's form that begin here
        for shape in shapes.beginning_with(word):
            match = shape.pattern.match(text, start)
            if match is None:
                continue
            furthest_end = max(furthest_end, match.end())
            if is_message or shape.is_key(match[0]):
                yield match.span()
        if is_message and word in shapes.by_word:
            behind_word = _BEHIND_FIRST_WORD.match(text, word_end)
            if behind_word is not None and _RANDOM.match(behind_word[1]):
                furthest_end = max(furthest_end, behind_word.end())
                yield start, behind_word.end()
        if furthest_end > start:
            start = furthest_end
        elif sign is not None:
            start = sign.end()
        else:
            return
