"""The questions in a query: "Who built it and when was it sold?" asks two things."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ragbench.core.record import Record
from ragbench.text.question import parse_question
from ragbench.text.tables import Patterns
from ragbench.text.tokens import tokenise

_WORDS = Patterns("ragbench.validators", "words", "question", re.IGNORECASE)
"""The expressions for questions, from ``words.toml``."""
_NAMED = re.compile(r"(?<!^)\b[A-ZÀ-ÖØ-Þ][\w'’.-]*|\b[\w.-]{0,64}\d[\w.-]*")
"""Words that are written like names, and numbers."""
_FEWEST_WORDS = 3
"""Words that each piece of a query must have to be a question by itself."""
_MOST_PARTS = 8
"""A query that asks more things is read as one: each part costs as much as a query."""


class QueryPart(Record):
    """One of the questions in a query, or the query itself."""

    text: str
    """In the words of the user: a message says these."""
    context: tuple[str, ...] = ()
    """Words of an earlier part that say what this one is about."""

    @property
    def question(self) -> str:
        """The part as a question of its own, with its context: "when was it sold? (X200)".

        Without the context, any text about a sale would seem to answer it.
        """
        if not self.context:
            return self.text
        return f"{self.text} ({' '.join(self.context)})"


@lru_cache(maxsize=1024)
def split_query(query: str) -> tuple[QueryPart, ...]:
    """The questions in a query, in order; the query itself where it asks one thing.

    A chunk that answers one of two questions is no full answer: each is looked for by itself.

    A query is cut where a question begins behind a question mark, and before a question that
    follows "and", where each piece is a question and has at least three words. A piece without a
    name, or with a pronoun, is about what the pieces before it name.

    Example:
        >>> [part.question for part in split_query("Who built the X200 and when was it sold?")]
        ['Who built the X200', 'when was it sold? (X200)']
    """
    plain = " ".join(query.split())
    # Two things asked of one subject, as one sentence.
    for name in _ONE_SUBJECT:
        match = _WORDS[name].match(plain)
        if match:
            before = match["before"]
            behind = match["behind"]
            # Each of the two is asked with the words that they share.
            return (
                QueryPart(text=f"{before}{match['first']} {behind}"),
                QueryPart(text=f"{before}{match['second']} {behind}"),
            )
    pieces = _question_pieces(plain)
    if not pieces:
        return (QueryPart(text=query),)
    first_piece = pieces[0]
    parts = [QueryPart(text=first_piece)]
    context = named_words(first_piece)
    for piece in pieces[1:]:
        names = named_words(piece)
        added: Sequence[str] = ()
        # A pronoun means something that was named before.
        if _WORDS["points"].search(piece):
            added = context
            # No name so far: the subject of the first question is meant.
            if not context:
                added = _subject_words(first_piece)
        elif names:
            context = names  # the pieces that follow are about what this one names
        else:
            added = context
        # Words that the piece has already are not added.
        missing = [word for word in dict.fromkeys(added) if word not in piece]
        parts.append(QueryPart(text=piece, context=tuple(missing)))
    return tuple(parts)


_ONE_SUBJECT = ("attributes", "one_each", "asked_twice")
"""Expressions for two things that are asked of one: "the height and the weight of X"."""


def _question_pieces(query: str) -> Sequence[str]:
    """The pieces of a query that asks several things; empty where one piece is no question.

    Where the result is empty, the caller reads the query as one.
    """
    pieces = _WORDS["joint"].split(query)
    # More than a few are read as one query, since each part costs as much.
    if not 2 <= len(pieces) <= _MOST_PARTS:
        return ()
    for piece in pieces:
        # Every piece must be a question by itself, or the query is read as one.
        if len(piece.split()) < _FEWEST_WORDS or not _WORDS["whole"].search(piece):
            return ()
    return pieces


def named_words(text: str) -> list[str]:
    """The words of a text that are written like names, and its numbers, in their order.

    A text that lacks the names of a question is rarely its answer. "I" has a capital and names
    nothing.
    """
    return [name for name in _NAMED.findall(text) if name != "I"]


def _subject_words(question: str) -> list[str]:
    """The words that a question is about: those behind the last "of", or the last article.

    "How long is the trial" is about the trial. Where there is neither, the whole question counts. A
    later question that says "it", without a name before that word, means this subject.
    """
    content_tokens = set(parse_question(question).tokens)
    subject = question
    match = _WORDS["subject"].search(question)
    if match:
        # The words behind the last such place.
        subject = match["named"]
    # Words as the user wrote them, without those that only ask.
    return [word for word in subject.split() if not content_tokens.isdisjoint(tokenise(word))]
