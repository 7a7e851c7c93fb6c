"""Whether a passage of the right document lacks the answer, by the words of the reference.

Gold that is known by document counts every chunk of it as relevant, a heading or the wrong
paragraph too. The comparison is made to be right when it says that the answer is not there: where
words may mislead, it says nothing. Measured on chunks with the answer beside other chunks of the
same document, in ``docs/measured/answers.md``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ragbench.metrics.answer import holds_answer, is_telling
from ragbench.metrics.beside import Beside, root
from ragbench.metrics.matching import normalised
from ragbench.text.language import differ_in_language

_MOST_HELD = 0.5
"""Share of a short reference's new words up to which a passage lacks it."""
_MOST_HELD_OF_LONG = 1 / 3
"""The same of a reference of several facts: people write one in words of their own."""
_ON_THE_QUESTION = 0.75
"""Share of the question's words from which on a passage deals with the question: it may give the
answer in other words."""
_LONGEST_HEADING = 12
"""Words of a line that may be a heading alone."""
_ENDS_SENTENCE = re.compile(r"[.!?…。！？।؟][\"'”’)\]]*\s*\Z")


def is_heading(text: str) -> bool:
    """Whether a chunk is a heading alone: a few words that are no sentence.

    A heading has the words of the question, and no answer. In gold that names documents, every
    chunk of the document counts, headings too.
    """
    word_count = len(text.split())
    if word_count == 0 or word_count > _LONGEST_HEADING:
        return False
    return _ENDS_SENTENCE.search(text) is None


def states_any(text: str, references: Sequence[str]) -> bool:
    """Whether a text holds one of the reference answers, as it is or in another form.

    One is enough: each reference is a way to be right. Words alone decide: another wording of the
    answer is not recognised.
    """
    chunk = normalised(text)
    return any(holds_answer(chunk, normalised(reference)) for reference in references)


def lacks_answer(query: str, references: Sequence[str], text: str) -> bool:
    """Whether a passage surely holds none of the reference answers.

    False where it holds one, and where words cannot tell: the reference says no more than the
    question or is "yes", it is in another language, or the passage has most words of the question.
    By it a retrieved chunk of the right document is known to be the wrong passage. A False is no
    claim that the answer is there.
    """
    if not references or not text.strip():
        return False
    if states_any(text, references):
        return False
    # Each reference is an answer of its own: the passage must lack them all.
    return all(_lacks_reference(query, reference, text) for reference in references)


def _lacks_reference(query: str, reference: str, text: str) -> bool:
    """Whether a passage that does not quote a reference lacks what the reference says, too.

    Each return of False is a case in which words cannot tell. The limits were measured by
    benchmarks/wrong_passage.py: change them only with that.
    """
    if not is_telling(normalised(reference)):
        return False
    if _is_in_another_language(query, reference, text):
        return False
    # The passage is compared with the reference in place of an answer.
    beside = Beside(query, text, reference)
    passage_roots = set(map(root, beside.answer_words))
    new_words = [word for word in beside.right_words if word not in beside.query_tokens]
    if not new_words:
        return False
    # A heading has the words of the question, and answers nothing.
    if not is_heading(text):
        question_roots = set(map(root, beside.query_words))
        common_roots = question_roots & passage_roots
        if len(common_roots) >= _ON_THE_QUESTION * len(question_roots):
            return False
    # An amount or a date can be looked for whatever the words beside it are.
    if beside.right.is_typed:
        return not beside.right.is_named_by(beside.answer)
    held_words = [word for word in new_words if root(word) in passage_roots]
    most_held = _MOST_HELD
    if beside.is_long:
        most_held = _MOST_HELD_OF_LONG
    return len(held_words) <= most_held * len(new_words)


def _is_in_another_language(query: str, reference: str, text: str) -> bool:
    """Whether question and reference are clearly in another script or language than the passage.

    No word in common then means nothing. `lacks_answer` then makes no claim.
    """
    question_and_reference = f"{query} {reference}"
    if _is_latin(question_and_reference) is not _is_latin(text):
        return True
    return differ_in_language(question_and_reference, text)


def _is_latin(text: str) -> bool:
    """Whether at least half of a text's letters are Latin.

    The language of a name or a short answer is not recognised; its script is. Letters of several
    scripts may be in one text, as names are.
    """
    # Counted and not recognised: short texts have no language.
    letters = 0
    latin_letters = 0
    for letter in text:
        if letter.isalpha():
            letters += 1
            latin_letters += unicodedata.name(letter, "").startswith("LATIN")
    return 2 * latin_letters >= letters
