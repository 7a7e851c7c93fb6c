"""Contradictions between quotes: a difference is reported, never resolved.

Only sentences that speak of the same thing can contradict each other: they share most of their
words, or each holds nearly all that the query asks about. Two that say the same but for a name
contradict each other in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

from ragbench.core.validation import Conflict, EvidenceQuote
from ragbench.text.question import AnswerType, answer_span, asked_type, parse_question
from ragbench.text.sentences import split_sentences
from ragbench.text.tables import Patterns
from ragbench.text.tokens import normalise, tokenise

_LEAST_ALIKE = 0.5
"""Share of common words from which on two statements speak of the same thing."""
_LEAST_COVERED = 0.75
"""Share of the query's words that a statement holds that answers it."""
_LEAST_COMMON = 0.6
"""Share of all words of two statements that are common, from which on they say the same."""
_WORDS = Patterns("ragbench.validators", "words", "statement")
"""The expressions for what a statement holds, from ``words.toml``."""


class _Sentence(NamedTuple):
    """A sentence of a quote, by words, names and numbers."""

    words: frozenset[str]
    names: Mapping[str, str]
    """The words with a capital that are not in the query, each with how it is written."""
    numbers: Mapping[str, str]
    """The numbers that are not in the query, in the same form."""


class _Statement(NamedTuple):
    """A quote, as it is compared with another one."""

    evidence: EvidenceQuote
    words: frozenset[str]
    """Its words without numbers."""
    dates: frozenset[str]
    numbers: frozenset[str]
    sentences: Sequence[_Sentence]
    is_negated: bool
    covers: bool
    """Whether it holds nearly all that the query asks about."""


def find_conflicts(query: str, evidence: Sequence[EvidenceQuote]) -> tuple[Conflict, ...]:
    """The contradictions between quotes of different chunks, at most one for any two quotes.

    A user is shown where retrieved texts disagree; which of them is right, only the user can know.
    """
    # The query's words are in both quotes, and tell no difference.
    query_tokens = frozenset(parse_question(query).tokens)
    kind = asked_type(query)
    statements = [_statement_of_quote(quote, query_tokens) for quote in evidence]
    conflicts: list[Conflict] = []
    for left, right in combinations(statements, 2):
        if left.evidence.chunk_id == right.evidence.chunk_id:
            continue  # two places of one text complete each other
        # The first difference is the surest one; others would repeat it in other words.
        difference = next(_differences(query, kind, left, right), None)
        if difference is not None:
            conflicts.append(
                Conflict(
                    kind=difference.kind,
                    first=left.evidence,
                    second=right.evidence,
                    detail=difference.detail,
                )
            )
    return tuple(conflicts)


def _statement_of_quote(evidence: EvidenceQuote, query_tokens: frozenset[str]) -> _Statement:
    """A quote prepared to be compared with others: its words, names, dates and numbers.

    Words and names that the query has are left out, since both quotes of a pair have them.
    """
    text = normalise(evidence.text)
    tokens = frozenset(tokenise(evidence.text))
    # Numbers are compared by themselves.
    words = frozenset([token for token in tokens if not token[0].isdigit()])
    dates = frozenset(_WORDS["date"].findall(text)) - query_tokens
    # Without their commas: 1,200 and 1200 do not contradict each other.
    numbers = frozenset([number.replace(",", "") for number in _WORDS["number"].findall(text)])
    sentences: list[_Sentence] = []
    for span in split_sentences(evidence.text):
        sentences.append(_sentence_of_text(evidence.text[span.start : span.end], query_tokens))
    # Of a query without words every statement would hold all.
    covers = False
    if query_tokens:
        covers = len(query_tokens & tokens) >= _LEAST_COVERED * len(query_tokens)
    return _Statement(
        evidence=evidence,
        words=words,
        dates=dates,
        # A date's year is no number of its own.
        numbers=numbers - dates - query_tokens,
        sentences=sentences,
        is_negated=_WORDS["negation"].search(text) is not None,
        covers=covers,
    )


def _sentence_of_text(text: str, query_tokens: frozenset[str]) -> _Sentence:
    """A sentence by its words, with the names and numbers that are not the query's.

    Names and numbers of the query are asked about: two answers to one question have them in common.
    """
    tokens = tokenise(text)
    names: dict[str, str] = {}
    for name in _WORDS["name"].findall(text):
        # A name of several words counts by each of them.
        for token in tokenise(name):
            if token not in query_tokens:
                # Without the full stop that ends its sentence.
                names[token] = name.rstrip(".")
    numbers: dict[str, str] = {}
    for token in tokens:
        if token[0].isdigit() and token not in query_tokens:
            numbers[token] = token
    return _Sentence(frozenset(tokens), names, numbers)


class _Difference(NamedTuple):
    """What two statements contradict each other in."""

    kind: str
    detail: str


def _differences(
    query: str, kind: AnswerType, left: _Statement, right: _Statement
) -> Iterator[_Difference]:
    """The contradictions between two statements, the surest first; a statement is a quoted text.

    The caller takes the first one only, so that the order matters.

    Args:
        kind: what the query asks for. Two answers with other values of that kind contradict each
            other, however they are worded.
    """
    # The shorter one decides: a long text holds many words beside.
    fewest_words = max(1, min(len(left.words), len(right.words)))
    shared_words = left.words & right.words
    is_alike = len(shared_words) / fewest_words >= _LEAST_ALIKE
    are_answers = left.covers and right.covers
    # Dates first: a year would else be reported as a number.
    values = (("date", left.dates, right.dates), ("number", left.numbers, right.numbers))
    for name, left_values, right_values in values:
        if not left_values or not right_values:
            continue
        # One value in common may be the one that matters.
        if not left_values.isdisjoint(right_values):
            continue
        # An answer of the asked kind contradicts another one, in whatever words.
        speaks_of_same = is_alike or (are_answers and kind == name)
        if speaks_of_same and not _are_of_two_things(left, right):
            left_text = ", ".join(sorted(left_values))
            right_text = ", ".join(sorted(right_values))
            yield _Difference(name, f"{left_text} against {right_text}")
    for left_sentence, right_sentence in product(left.sentences, right.sentences):
        yield from _between_sentences(left_sentence, right_sentence)
    # Only of statements that share their words: a denial elsewhere denies another thing.
    if is_alike and are_answers and left.is_negated != right.is_negated:
        says = left
        denies = right
        if left.is_negated:
            says = right
            denies = left
        detail = f"{says.evidence.chunk_id} says what {denies.evidence.chunk_id} denies"
        yield _Difference("negation", detail)
    # "Who is the director?" has one answer; "Who wrote songs?" has many.
    if are_answers and _WORDS["one_holder"].match(query):
        yield from _between_holders(query, left, right)


def _are_of_two_things(left: _Statement, right: _Statement) -> bool:
    """Whether two statements are of two things: each names one that the other does not name.

    "Model A weighs 2 kg" and "Model B weighs 3 kg" are no contradiction.

    Without this, any list of products would be full of contradictions.
    """
    # One pair of sentences that differs in names alone is enough.
    for left_sentence, right_sentence in product(left.sentences, right.sentences):
        numbers = left_sentence.numbers.keys() | right_sentence.numbers.keys()
        names = left_sentence.names.keys() | right_sentence.names.keys()
        only_left = left_sentence.words - right_sentence.words - numbers
        only_right = right_sentence.words - left_sentence.words - numbers
        if not only_left or not only_right:
            continue
        # All that is different are names: each is of a thing of its own.
        if only_left <= names and only_right <= names:
            return True
    return False


def _between_holders(query: str, left: _Statement, right: _Statement) -> Iterator[_Difference]:
    """The contradiction of two persons of whom only one can be the answer, if there is one.

    Only one person can be meant by "Who is the chief executive?".
    """
    left_name = _answer_in(query, left.evidence.text)
    right_name = _answer_in(query, right.evidence.text)
    if not left_name or not right_name:
        return
    # A common word may be a first name, or the whole name of the same person.
    if set(tokenise(left_name)).isdisjoint(tokenise(right_name)):
        yield _Difference("name", f"{left_name} against {right_name}")


def _answer_in(query: str, text: str) -> str:
    """The words of a text that answer a question, from its first sentence that has such words.

    Empty where no sentence has any.

    Two texts whose answers differ contradict each other.
    """
    question = parse_question(query)
    for span in split_sentences(text):
        sentence = text[span.start : span.end]
        answer = answer_span(query, question, sentence)
        if answer is not None:
            return sentence[answer.start : answer.end]
    return ""


def _between_sentences(left: _Sentence, right: _Sentence) -> Iterator[_Difference]:
    """The contradictions of two sentences that are the same but for names, or numbers.

    "It was built in 1901" and "it was built in 1910" are such sentences.
    """
    only_left = left.words - right.words
    only_right = right.words - left.words
    if not only_left or not only_right:
        return  # one of them only says more
    common_words = left.words & right.words
    all_words = left.words | right.words
    # Else they say different things, which need not contradict each other.
    if len(common_words) < _LEAST_COMMON * len(all_words):
        return
    kinds = (("name", left.names, right.names), ("number", left.numbers, right.numbers))
    for kind, left_values, right_values in kinds:
        # All that is different are names, or all are numbers.
        if only_left <= left_values.keys() and only_right <= right_values.keys():
            left_text = _as_written(left_values, only_left)
            right_text = _as_written(right_values, only_right)
            yield _Difference(kind, f"{left_text} against {right_text}")


def _as_written(values: Mapping[str, str], tokens: frozenset[str]) -> str:
    """The names or numbers of some tokens as the text has them, in its order, for a message.

    Tokens are in small letters: a user looks for the words of the text.

    Args:
        values: by token, how it is written.
    """
    return " ".join(written for token, written in values.items() if token in tokens)
