"""Whether an answer fulfils what its case expects: `must_contain`, `must_match` and their kin."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import orjson

from ragbench.core.case import Expectation, ExpectationKind
from ragbench.core.metric import Skip
from ragbench.core.outcome import Cell, Status
from ragbench.core.patterns import is_found
from ragbench.core.record import Record
from ragbench.core.result import GenerationResult
from ragbench.core.trace import Trace
from ragbench.metrics.answer import declined
from ragbench.metrics.metric import metric
from ragbench.metrics.sources import CitedNames, cited_names, retrieved_names, spelled, wanted_names
from ragbench.text.declining import RULES

_DECLINED = Cell.abstained("the system declined to answer")
_NONE = Cell.skipped("no expectations")


class Expected(Record, dict=True):
    """The expectations of a case beside what there is to compare them with."""

    trace: Trace

    @cached_property
    def results(self) -> tuple[tuple[Expectation, bool | None], ...]:
        """Each expectation of the case with whether it holds; None where that cannot be known.

        An expectation is a demand that the case makes of its answer: a text, a form, a document.

        Raises:
            TimeoutError: a pattern takes too long.
        """
        results: list[tuple[Expectation, bool | None]] = []
        for expectation in self.trace.case.expectations:
            results.append((expectation, self._expectation_holds(expectation)))
        return tuple(results)

    def reason(self, expectation: Expectation) -> str:
        """Why an expected document counts as used or not, for the page of a case.

        Empty for expectations of other kinds: the answer beside them shows why.
        """
        if expectation.kind not in _OF_SOURCES:
            return ""
        # A document that is to be cited need not be retrieved in this turn.
        may_be_retrieved = expectation.kind is ExpectationKind.SOURCE
        places: list[str] = []
        if may_be_retrieved and self._is_retrieved(expectation):
            places.append("retrieved")
        if self._is_cited(expectation):
            places.append("cited by the answer")
        if places:
            return " and ".join(places)
        reasons: list[str] = []
        if may_be_retrieved:
            reasons.append(self._reason_not_retrieved())
        reasons.append(self._reason_not_cited())
        return "; ".join(reasons)

    def _reason_not_retrieved(self) -> str:
        """Why an expected document is not among the retrieved ones, as far as is known.

        "Not retrieved" is only true where the chunks have names to compare.
        """
        if self.trace.context.value is None:
            return "no retrieval"
        if self._retrieved is None:
            return "what was retrieved has no ids or sources"
        return "not retrieved"

    def _reason_not_cited(self) -> str:
        """Why an expected document is not among the cited ones, as far as is known.

        "Not cited" is only true where the citations have names to compare.
        """
        # The more basic reason first: without an answer there are no citations to name.
        if self._cited is None:
            return "no answer"
        if not self._cited.are_known:
            return "what the answer cites has no ids or sources"
        if not self._cited.names:
            return "the answer cites nothing"
        return "not cited by the answer"

    def _expectation_holds(self, expectation: Expectation) -> bool | None:
        """Whether an expectation of the case holds; None where that cannot be known.

        A negated one (``must_not_contain``) holds where its text is missing. A case of which
        nothing is known must not count as one that fails.
        """
        is_met: bool | None
        if expectation.kind is ExpectationKind.SOURCE:
            is_met = self._is_used(expectation)
        # All other kinds look at the answer; a case of a retrieval alone has none.
        elif self._answer is None:
            is_met = None
        elif expectation.kind is ExpectationKind.CITES:
            is_met = self._is_cited(expectation)
        else:
            is_met = _is_answered(expectation, self._answer.response)
        if is_met is None:
            return None
        return is_met is not expectation.negated

    @property
    def _answer(self) -> GenerationResult[Any] | None:
        """The generated answer; None where nothing was generated, and where the system declined.

        A refusal contains no forbidden text either: expectations of the answer leave it out.
        """
        if declined(self.trace.generation):
            return None
        return self.trace.generation.value

    def _is_used(self, expectation: Expectation) -> bool | None:
        """Whether the answer's retrieval or citations name a document; None where no name is known.

        For ``expected_sources`` it is enough that the system retrieved the document, or that its
        answer cites it: some systems report only one of both.

        Args:
            expectation: of kind SOURCE, whose texts are names of the document.
        """
        if self._is_retrieved(expectation) or self._is_cited(expectation):
            return True
        knows_cited = self._cited is not None and self._cited.are_documents
        # False needs names: a document is missing for sure only where what was retrieved, or cited,
        # has some.
        if self._retrieved is None and not knows_cited:
            return None
        return False

    def _is_retrieved(self, expectation: Expectation) -> bool | None:
        """Whether an expected document was retrieved; None where the chunks have no names.

        A document goes by several names, with and without folders: one in common is enough.
        """
        if self._retrieved is None:
            return None
        return not self._retrieved.isdisjoint(wanted_names(expectation.texts))

    def _is_cited(self, expectation: Expectation) -> bool | None:
        """Whether the answer cites an expected document; None where that cannot be known.

        It cannot without an answer, and where the citations have no names to compare.
        """
        if self._cited is None:
            return None
        if not self._cited.names.isdisjoint(wanted_names(expectation.texts)):
            return True
        # The expected document is not among them: sure only where all that is cited has names.
        if not self._cited.are_known:
            return None
        return False

    @cached_property
    def _retrieved(self) -> frozenset[str] | None:
        """The names of the retrieved documents; None where the chunks have neither ids nor sources.

        Empty where nothing was retrieved: then it is sure that an expected document was not.
        """
        result = self.trace.context.value
        if result is None:
            return None
        names = retrieved_names(result)
        if not names and result.contexts:
            return None
        return names  # none where nothing was retrieved

    @cached_property
    def _cited(self) -> CitedNames | None:
        """The names of the documents that the answer cites; None without an answer.

        The result says, too, how sure the names are: words in brackets may be a remark.
        """
        generated = self._answer
        if generated is None:
            return None
        return cited_names(generated, self.trace.context.value)


_OF_SOURCES = (ExpectationKind.SOURCE, ExpectationKind.CITES)
"""The kinds that name documents; the others look at the answer's text."""
_VERSION = 1
"""Raised whenever an expectation holds by another rule than before."""


@metric(group="generator", version=RULES + _VERSION, cite="promptfoo, deterministic assertions")
def expectations(expectations: Expected) -> float | Skip:
    """Share of a case's expectations that hold: must_contain, must_match, expected_sources ...

    Such demands need no reference answer and no judge. A change of what holds needs a higher
    `_VERSION`: stored scores are compared by it.
    """
    verdicts = [holds for _, holds in expectations.results if holds is not None]
    if not verdicts:
        return Skip("no ids or sources of what was retrieved or cited")
    return sum(verdicts) / len(verdicts)


def blocked_expectations(trace: Trace) -> Cell | None:
    """The cell of a case whose expectations cannot be checked; None where they can.

    A declined answer abstains, as in every metric of answers: else `must_not_contain` alone would
    make it perfect. Sources can be looked at without an answer.
    """
    kinds = {expectation.kind for expectation in trace.case.expectations}
    if not kinds:
        return _NONE
    if kinds == {ExpectationKind.SOURCE}:
        # An answer may cite what no retrieval was recorded for.
        is_answered = trace.generation.value is not None and trace.context.failure is None
        if is_answered:
            return None
        return _cell_without_value(trace, "context")
    if trace.generation.value is not None:
        if declined(trace.generation):
            return _DECLINED
        return None
    # A retrieval alone was recorded: its sources can be looked at.
    has_sources = ExpectationKind.SOURCE in kinds and trace.context.value is not None
    if has_sources and trace.generation.status is Status.SKIPPED:
        return None
    return _cell_without_value(trace, "generation")


def _cell_without_value(trace: Trace, name: str) -> Cell | None:
    """The failed or skipped cell of a case whose stage gave nothing; None where it gave something.

    What a case expects of its answer cannot be checked then, and the report shows why.

    Args:
        name: of the stage's field in a trace: ``generation`` or ``context``.
    """
    outcome = getattr(trace, name)
    if outcome.value is not None:
        return None
    if outcome.failure is not None:
        return Cell.failed(outcome.failure)
    return Cell.skipped(outcome.reason or f"no {name}")


# --- answers


def _is_answered(expectation: Expectation, response: str) -> bool:
    """Whether an answer has one of an expectation's texts, or the form that it demands.

    Several texts are alternatives. Whether the expectation is negated is not looked at here.
    """
    if not expectation.texts:
        return _TESTS_OF_JSON[expectation.kind](response)
    test = _TESTS[expectation.kind]
    return any(test(text, response) for text in expectation.texts)


def is_mentioned(text: str, answer: str) -> bool:
    """Whether an answer has a text in whole words: 10 is not in 100, nor in 10.5.

    Case and kind of white space do not count; accents, digits and punctuation inside of it do. In
    scripts without spaces between words every place counts.
    """
    spelled_text = spelled(text)
    spelled_answer = spelled(answer)
    start = spelled_answer.find(spelled_text)
    while start >= 0:
        end = start + len(spelled_text)
        # Neither a word nor a number may go on beyond the ends of the match.
        is_inside_left = _is_inside(spelled_answer, start, -1)
        if not is_inside_left and not _is_inside(spelled_answer, end, 1):
            return True
        start = spelled_answer.find(spelled_text, start + 1)
    return False


def _is_inside(text: str, end: int, step: int) -> bool:
    """Whether a word or a number goes on beyond one end of a match of a text in an answer.

    Then the match is only a part, "10" of "100", and the answer does not have the text. A number
    ends at a letter and a word at a digit: 10 is in 10km.

    Args:
        text: the answer, as `spelled` gives it.
        end: the position where the match begins (left end), or behind it (right end).
        step: -1 for the left end, 1 for the right one.
    """
    # The last letter of the match, the one next to it, and the one next to that.
    if step < 0:
        inner = text[end]
        around = text[max(end - 2, 0) : end][::-1]
    else:
        inner = text[end - 1]
        around = text[end : end + 2]
    outer = around[:1]
    beyond = around[1:2]
    if not outer:
        return False
    if inner.isdigit():
        has_decimals = outer in ".," and beyond.isdigit()
        return outer.isdigit() or has_decimals
    if unicodedata.category(outer).startswith("M"):
        return True  # the outer sign is an accent of the inner letter
    return _is_of_word(inner) and _is_of_word(outer)


def _is_of_word(letter: str) -> bool:
    """Whether a letter beside a match makes the match part of a longer word.

    Not in scripts without spaces, where words are always next to others. "Ann" is not mentioned in
    "Annual".
    """
    return letter.isalpha() and not _is_spaceless(letter)


def _is_spaceless(letter: str) -> bool:
    """Whether words in a letter's script are written without spaces between them.

    No end of a word can be seen there, so that any place of a text in an answer counts.
    """
    if letter < "\u0e00":  # nearly all letters: before the first of the ranges
        return False
    return any(low <= letter <= high for low, high in _SPACELESS)


_SPACELESS = (
    ("\u0e00", "\u0eff"),  # Thai and Lao
    ("\u1000", "\u109f"),  # Burmese
    ("\u1780", "\u17ff"),  # Khmer
    ("\u3040", "\u30ff"),  # kana
    ("\u3400", "\u4dbf"),  # Han, here and below
    ("\u4e00", "\u9fff"),
    ("\uf900", "\ufaff"),
    ("\U00020000", "\U0003ffff"),
)


def is_json(text: str) -> bool:
    """Whether a whole answer is JSON, as a case may demand of it.

    A program that reads the answer fails on any word around it.
    """
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def holds_json(text: str) -> bool:
    """Whether an object or a list in JSON is somewhere in an answer, among other text.

    Each brace is tried as its beginning, at most `_MOST_TRIES`: an answer of braces alone would
    take time that grows with the square of its length.
    """
    import json  # orjson cannot read JSON that is followed by a text

    decoder = json.JSONDecoder()
    tries = 0
    for start, letter in enumerate(text):
        if letter not in "{[":
            continue
        tries += 1
        if tries > _MOST_TRIES:
            return False
        try:
            decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        return True
    return False


_MOST_TRIES = 1000
"""Braces that are tried: each may cost a look at all that comes behind it."""
_TESTS: Mapping[ExpectationKind, Callable[[str, str], bool]] = {
    ExpectationKind.MENTIONS: is_mentioned,
    ExpectationKind.SUBSTRING: lambda text, answer: text in answer,
    ExpectationKind.SUBSTRING_ANY_CASE: lambda text, answer: text.lower() in answer.lower(),
    ExpectationKind.STARTS_WITH: lambda text, answer: answer.startswith(text),
    ExpectationKind.PATTERN: is_found,
}
"""How each kind compares a text of an expectation with an answer."""
_TESTS_OF_JSON = {ExpectationKind.JSON: is_json, ExpectationKind.HOLDS_JSON: holds_json}
