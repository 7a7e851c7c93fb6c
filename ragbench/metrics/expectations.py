"""Whether an answer fulfils what its case expects: `must_contain`, `must_match` and their kin."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import orjson

from ragbench.core.case import Expectation, ExpectationKind
from ragbench.core.metric import Skip
from ragbench.core.outcome import Cell, Status
from ragbench.core.patterns import is_found
from ragbench.core.record import Record
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import Trace
from ragbench.metrics.answer import declined
from ragbench.metrics.metric import metric
from ragbench.text.declining import RULES

_DECLINED = Cell.abstained("the system declined to answer")
_NONE = Cell.skipped("no expectations")


class Expected(Record, dict=True):
    """The expectations of a case beside what there is to compare them with."""

    trace: Trace

    @cached_property
    def results(self) -> tuple[tuple[Expectation, bool | None], ...]:
        """Each expectation with whether it holds; None where that cannot be known.

        Raises:
            TimeoutError: a pattern takes too long.
        """
        return tuple((one, self._holds(one)) for one in self.trace.case.expectations)

    def _holds(self, expectation: Expectation) -> bool | None:
        is_there: bool | None
        if expectation.kind is ExpectationKind.SOURCE:
            is_there = _is_retrieved(expectation.texts, self.trace)
        else:
            generated = self.trace.generation.value
            if generated is None or declined(self.trace.generation):
                return None
            is_there = _is_answered(expectation, generated.response)
        return None if is_there is None else is_there is not expectation.negated


@metric(group="generator", version=RULES, cite="promptfoo, deterministic assertions")
def expectations(expectations: Expected) -> float | Skip:
    """Share of a case's expectations that hold: must_contain, must_match, expected_sources ..."""
    known = [holds for _, holds in expectations.results if holds is not None]
    if not known:
        return Skip("no ids or sources of what was retrieved")
    return sum(known) / len(known)


def blocked_expectations(trace: Trace) -> Cell | None:
    """The cell of a case whose expectations cannot be looked at; None where they can.

    A declined answer abstains, as in every metric of answers: else `must_not_contain` alone would
    make it perfect. Sources can be looked at without an answer.
    """
    kinds = {expectation.kind for expectation in trace.case.expectations}
    if not kinds:
        return _NONE
    if kinds == {ExpectationKind.SOURCE}:
        return _without_value(trace, "context")
    if trace.generation.value is not None:
        return _DECLINED if declined(trace.generation) else None
    is_skipped = trace.generation.status is Status.SKIPPED
    if is_skipped and ExpectationKind.SOURCE in kinds and trace.context.value is not None:
        return None
    return _without_value(trace, "generation")


def _without_value(trace: Trace, name: str) -> Cell | None:
    outcome = getattr(trace, name)
    if outcome.value is not None:
        return None
    if outcome.failure is not None:
        return Cell.failed(outcome.failure)
    return Cell.skipped(outcome.reason or f"no {name}")


# --- answers


def _is_answered(expectation: Expectation, response: str) -> bool:
    if not expectation.texts:
        return _TESTS_OF_JSON[expectation.kind](response)
    test = _TESTS[expectation.kind]
    return any(test(text, response) for text in expectation.texts)


def _spelled(text: str) -> str:
    """A text in one form of Unicode, without case, and with single spaces."""
    folded = unicodedata.normalize("NFC", text).casefold()
    return " ".join(unicodedata.normalize("NFC", folded).split())


def is_mentioned(text: str, answer: str) -> bool:
    """Whether an answer has a text in whole words: 10 is not in 100, nor in 10.5.

    Accents, digits and punctuation inside of it count. Of scripts without spaces between words
    every place counts.
    """
    wanted, said = _spelled(text), _spelled(answer)
    at = said.find(wanted)
    while at >= 0:
        if _is_whole(said, at, at + len(wanted)):
            return True
        at = said.find(wanted, at + 1)
    return False


def _is_whole(text: str, start: int, end: int) -> bool:
    return not _is_inside(text, start, -1) and not _is_inside(text, end, 1)


def _is_inside(text: str, at: int, step: int) -> bool:
    """Whether a word or a number goes on beyond one end of a match.

    A number ends at a letter and a word at a digit: 10 is in 10km.
    """
    around = text[max(at - 2, 0) : at][::-1] if step < 0 else text[at : at + 2]
    inner = text[at] if step < 0 else text[at - 1]
    outer, beyond = around[:1], around[1:2]
    if not outer:
        return False
    if inner.isdigit():
        return outer.isdigit() or (outer in ".," and beyond.isdigit())
    if unicodedata.category(outer).startswith("M"):
        return True
    return _is_of_word(inner) and _is_of_word(outer)


def _is_of_word(letter: str) -> bool:
    return letter.isalpha() and not _is_spaceless(letter)


def _is_spaceless(letter: str) -> bool:
    """Whether words of the letter's script are written without spaces between them."""
    return letter >= "\u0e00" and any(low <= letter <= high for low, high in _SPACELESS)


_SPACELESS = (
    ("\u0e00", "\u0eff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff"), ("\u3040", "\u30ff"),
    ("\u3400", "\u4dbf"), ("\u4e00", "\u9fff"), ("\uf900", "\ufaff"), ("\U00020000", "\U0003ffff"),
)  # fmt: skip
"""Thai and Lao, Burmese, Khmer, kana, Han."""


def is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def holds_json(text: str) -> bool:
    """Whether an object or a list in JSON is somewhere in a text."""
    import json

    decoder = json.JSONDecoder()
    tries = 0
    for at, letter in enumerate(text):
        if letter in "{[":
            tries += 1
            if tries > _MOST_TRIES:
                return False
            try:
                decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                continue
            return True
    return False


_MOST_TRIES = 1000
_TESTS: Mapping[ExpectationKind, Callable[[str, str], bool]] = {
    ExpectationKind.MENTIONS: is_mentioned,
    ExpectationKind.SUBSTRING: lambda text, answer: text in answer,
    ExpectationKind.SUBSTRING_ANY_CASE: lambda text, answer: text.lower() in answer.lower(),
    ExpectationKind.STARTS_WITH: lambda text, answer: answer.startswith(text),
    ExpectationKind.PATTERN: is_found,
}
_TESTS_OF_JSON = {ExpectationKind.JSON: is_json, ExpectationKind.HOLDS_JSON: holds_json}


# --- sources


def _is_retrieved(names: Sequence[str], trace: Trace) -> bool | None:
    """Whether a document is among those retrieved; None where no id or source is known."""
    result = trace.context.value
    if result is None:
        return None
    retrieved = {form for name in _names_of(result) for form in _forms(name)}
    if not retrieved and result.contexts:
        return None
    wanted = {_spelled(name) for name in names}
    return not wanted.isdisjoint(retrieved)


_SOURCE_FIELDS = (
    "source", "document_id", "doc_id", "document", "file", "file_name", "filename", "file_path",
    "path", "url", "title",
)  # fmt: skip
"""Fields of a chunk's metadata that name its document."""


def _names_of(result: RetrievalResult[Any]) -> Iterator[str]:
    yield from result.context_ids or ()
    for metadata in result.context_metadata or ():
        for field in _SOURCE_FIELDS:
            name = metadata.get(field) if metadata else None
            if isinstance(name, (str, int)) and not isinstance(name, bool) and name != "":
                yield str(name)


def _forms(name: str) -> Iterator[str]:
    """A name as it is, without the number of a chunk (`doc#3`), and without folders."""
    spelled = _spelled(name)
    document = spelled.rpartition("#")[0] or spelled
    for form in (spelled, document):
        yield form
        yield form.replace("\\", "/").rpartition("/")[2]
