"""Where a validator breaks: near misses made by rule from questions with answers, by kind.

Each rule takes a question with the passage that answers it, and changes one thing: the question,
so that the passage no longer answers it, or the passage. Where the changed pair might still hold an
answer, the rule does not apply.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ragbench.core.case import Case
from ragbench.core.chunk import Chunk
from ragbench.core.record import Record
from ragbench.core.validation import Share
from ragbench.errors import DataError, Problem
from ragbench.io.read import read_cases, read_documents
from ragbench.io.source import Problems
from ragbench.stats.mean import share_of
from ragbench.text.language import function_words
from ragbench.text.question import said_as_clause
from ragbench.text.sentences import Span, split_sentences, touched, windows_of
from ragbench.text.tables import table
from ragbench.validators.slots import identifiers
from ragbench.validators.validator import Validator


class AnsweredQuestion(Record):
    """A question, and a passage with the place of its answer."""

    question: str
    text: str
    start: int
    """Offset of the answer's first character in the text."""
    end: int
    """Offset behind its last character."""
    document: str = ""
    """What passages of one document have in common, such as its id."""

    @property
    def answer(self) -> str:
        """The words of the answer in the passage.

        Rules look for these words, to take them out or to leave them in.
        """
        return self.text[self.start : self.end]


class QuestionAndText(NamedTuple):
    """What a validator is asked: a question beside a text."""

    question: str
    text: str


class KindResult(Record):
    """How a validator does on one kind of pairs."""

    kind: str
    answers: bool
    """Whether the answer is there: a Yes is right. Else a No is, Partial or Poor."""
    right: Share
    """Pairs that the validator is right about."""
    wrong: tuple[str, ...]
    """The first pairs that it is wrong about, as text."""


class SelfTest(Record):
    """How a validator does on near misses and answers, by kind."""

    validator: str
    questions: int
    seed: int
    kinds: tuple[KindResult, ...]


def self_test(
    validator: Validator, pairs: Sequence[AnsweredQuestion], *, limit: int = 40, seed: int = 7
) -> SelfTest:
    """The share of near misses, and of real answers, that a validator is right about, by kind.

    A near miss is a text that reads like an answer and is none. A user learns by which kind a
    validator is taken in, before trusting its Yes. Each pair is shown beside passages of other
    documents.

    Args:
        limit: how many pairs of each kind the validator is asked about, at most.
    """
    kinds: list[KindResult] = []
    for kind, rule in KINDS.items():
        has_answer = kind in ANSWER_KINDS
        # Each kind has its own random choices: one kind more changes no other one.
        # Seeded by a text: the same choices in every process and version.
        rules = _Rules(pairs, random.Random(f"{seed}:{kind}"))
        total = 0
        wrong: list[str] = []
        shuffled_pairs = rules.draw.sample(list(pairs), len(pairs))
        for pair in shuffled_pairs:
            if total >= limit:
                # So many were asked; pairs to which the rule does not apply are not counted.
                break
            changed = rule(rules, pair)
            if changed is None:  # the rule does not apply
                continue
            total += 1
            # Drawn after the rule: its draws come first in each test.
            chunks = rules.chunks(pair, changed.text)
            verdict = validator.validate(changed.question, chunks)
            if verdict.answer_present is not has_answer:
                wrong.append(f"{changed.question} <- {changed.text}")
        kinds.append(
            KindResult(
                kind=kind,
                answers=has_answer,
                right=share_of(total - len(wrong), total),
                wrong=tuple(wrong[:_EXAMPLES]),
            )
        )
    return SelfTest(validator=validator.name, questions=len(pairs), seed=seed, kinds=tuple(kinds))


_EXAMPLES = 3
"""Wrong pairs of a kind that are shown."""
_MOST_PASSAGES_BESIDE = 3
"""Passages of other documents beside the one that is tested."""
_NAME = re.compile(r"(?<!^)\b[A-Z][\w'’-]*[a-z0-9][\w'’-]*(?: [A-Z][\w'’-]+)*")
"""Words with a capital, one behind the other; not the first of a text, which always has one."""
_NUMBER = re.compile(r"(?<![\w.])\d(?:[\d,.]*\d)?\b")
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|do|does|did|can|could|will|would|has|have|had|should)\b(?!n't| not)"
)
"""A verb that takes a "not", where it has none yet."""


class _Rules(Record, kw_only=False):
    """The rules; other names, questions and passages come from the pairs of the same data set.

    A rule returns None where it does not apply. Its random choices come from ``draw``, in an order
    that is part of the result: the same seed makes the same near misses.
    """

    pairs: Sequence[AnsweredQuestion]
    draw: random.Random

    def chunks(self, pair: AnsweredQuestion, text: str) -> list[Chunk]:
        """The chunks of one test: a text, beside passages of other documents without the answer.

        A validator compares a chunk with those beside it: alone it would be judged otherwise.

        The order of random draws decides which tests a seed gives.
        """
        elsewhere = [candidate for candidate in self.pairs if candidate.document != pair.document]
        count = min(_MOST_PASSAGES_BESIDE, len(elsewhere))
        # Without regard to capitals: an answer in another spelling is there as well.
        answer = pair.answer.lower()
        chunks = [Chunk(id="c0", text=text)]
        # Drawn first and then sorted out, so that the draws do not depend on the answer.
        for drawn_pair in self.draw.sample(elsewhere, count):
            if answer not in drawn_pair.text.lower():
                chunks.append(Chunk(id=f"c{len(chunks)}", text=drawn_pair.text))
        return chunks

    def worded(self, kind: str, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The question with a text that only talks about it and does not answer it.

        None where the wording needs something that the pair does not have, such as the passage
        without its answer.

        The order of random draws decides which near misses a seed gives.

        Args:
            kind: one of those with wordings in ``self_test.toml``.
        """
        questions: list[str] = []
        for candidate in self.pairs:
            if candidate.document == pair.document:
                questions.append(candidate.question)
        # Under the names that the wordings call them by.
        values = {
            # At least the pair's own question.
            "other": self.draw.choice(questions),
            "q": pair.question,
            "c": said_as_clause(pair.question),
            "rest": without_answer(pair),
        }
        # Drawn before it is known whether it fits: each pair takes as many draws.
        wording: str = self.draw.choice(table("ragbench.validators", "self_test")[kind])
        for name, value in values.items():
            placeholder = "{" + name + "}"
            if value is None and placeholder in wording:
                return None
        return QuestionAndText(pair.question, wording.format(**values))

    def entity(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The question with another name in it, which the passage does not hold, as a near miss.

        None without a name that can be changed.

        The order of random draws decides which near misses a seed gives.
        """
        names = _changeable(pair, _names_in(pair.question))
        if not names:
            return None
        name = self.draw.choice(names)
        new_name = self._other_name(pair, name)
        if new_name is None:
            return None
        return _with_question_changed(pair, name, new_name)

    def _other_name(self, pair: AnsweredQuestion, name: str) -> str | None:
        """A name from other pairs with as many words, which neither question nor passage holds.

        None where there is no such name.

        The order of the names decides which one a seed draws.
        """
        # Without regard to capitals, as a reader would find it.
        own_text = f"{pair.question} {pair.text}".lower()
        length = len(name.split())
        # Names of other questions fit best; those of passages only where there is none.
        questions = [candidate.question for candidate in self.pairs]
        passages = [candidate.text for candidate in self.pairs]
        for texts in (questions, passages):
            new_names: list[str] = []
            for text in texts:
                for new_name in _names_in(text):
                    # As many words, so that the sentence still reads well.
                    if len(new_name.split()) == length and new_name.lower() not in own_text:
                        new_names.append(new_name)
            if new_names:
                return self.draw.choice(new_names)
        return None

    def number(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The question with another number in it, which the passage does not hold: a near miss.

        None without a number that can be changed.

        The order of random draws decides which near misses a seed gives.
        """
        numbers = _changeable(pair, _NUMBER.findall(pair.question))
        if not numbers:
            return None
        number = self.draw.choice(numbers)
        new_number = self._stepped(number)
        # A passage that has the new number as well might answer the changed question.
        if new_number in pair.text:
            return None
        return _with_question_changed(pair, number, new_number)

    def _stepped(self, number: str) -> str:
        """A number, or an identifier with digits, with another last digit.

        The changed number is so near that it reads like the right one. No step is 10: the digit is
        another one for sure.
        """
        step = self.draw.choice((1, 2, 3, 5))
        # The last digit, with anything but digits behind it.
        last_digit = r"\d(?=\D*$)"
        return re.sub(last_digit, lambda digit: str((int(digit[0]) + step) % 10), number)

    def identifier(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The passage with another identifier in it, such as INC-48231 for INC-48213: a near miss.

        None without an identifier that can be changed.

        The order of random draws decides which near misses a seed gives.
        """
        with_digits = [name for name in identifiers(pair.question) if re.search(r"\d", name)]
        changeable = _changeable(pair, with_digits)
        # In the passage as well, where it is changed.
        if not changeable:
            return None
        identifier = self.draw.choice(changeable)
        new_identifier = self._stepped(identifier)
        text = pair.text.replace(identifier, new_identifier)
        return QuestionAndText(pair.question, text)

    def template(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The answering sentence, said of another name or in another year, as a near miss.

        None where the sentence has neither.

        The order of random draws decides which near misses a seed gives.
        """
        answer = self.sentence(pair)
        if answer is None:
            return None
        words_of_question = [*_names_in(pair.question), *_NUMBER.findall(pair.question)]
        changeable: list[str] = []
        # In the sentence, since the rest of the passage is left out.
        for word in _changeable(pair, words_of_question):
            if word in answer.text:
                changeable.append(word)
        if not changeable:
            return None
        word = self.draw.choice(changeable)
        new_word: str | None
        # A number is stepped, a name exchanged.
        if word[0].isdigit():
            new_word = self._stepped(word)
        else:
            new_word = self._other_name(pair, word)
        if new_word is None:
            return None
        text = answer.text.replace(word, new_word)
        return QuestionAndText(answer.question, text)

    def negation(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The question with a "not", as "Which rooms aren't heated?" for "Which rooms are heated?".

        None without a verb that takes one.
        """
        auxiliary = _AUXILIARY.search(pair.question)
        if auxiliary is None:
            return None
        verb = auxiliary[1]
        # "can" and "will" do not take "n't" as they are.
        irregular = {"can": "can't", "will": "won't"}
        negated = irregular.get(verb, f"{verb}n't")
        return _with_question_changed(pair, verb, negated)

    def passage(self, pair: AnsweredQuestion) -> QuestionAndText:
        """The question with its unchanged passage: a validator should find an answer.

        This case shows whether a validator that withstands near misses still says Yes.
        """
        return QuestionAndText(pair.question, pair.text)

    def sentence(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The question with the answering sentence alone: a validator should find an answer.

        This case shows whether a validator needs the text around an answer.
        """
        span = answering_sentence(pair)
        if span is None:
            return None
        return QuestionAndText(pair.question, pair.text[span.start : span.end])

    def question_and_answer(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The question with a text that repeats it before the answering sentence, as a FAQ does.

        The answer is there: a validator should not take the text for an echo of the question.
        """
        answer = self.sentence(pair)
        if answer is None:
            return None
        text = f"Question: {pair.question} Answer: {answer.text}"
        return QuestionAndText(pair.question, text)


def _changeable(pair: AnsweredQuestion, words: Sequence[str]) -> list[str]:
    """The words of a question that the passage holds beside its answer.

    To change one of them there makes a near miss, since the answer's words stay.
    """
    changeable: list[str] = []
    for word in words:
        # Beside the answer: a changed answer would be another kind of miss.
        if word in pair.text and word not in pair.answer:
            changeable.append(word)
    return changeable


def _names_in(text: str) -> list[str]:
    """The names in a text: words with a capital, those that follow each other as one name.

    "The" and its like have a capital at the beginning of a sentence, and are no names.
    """
    common = function_words()["en"].split()
    names: list[str] = []
    for name in _NAME.findall(text):
        first_word = name.split()[0]
        if first_word.lower() not in common:
            names.append(name)
    return names


def _with_question_changed(pair: AnsweredQuestion, old: str, new: str) -> QuestionAndText:
    """The question with a new word in the place of an old one, beside its unchanged passage.

    The changed question asks for something that the passage does not say.
    """
    # A function, for a new word as text would be read for backslashes.
    # Replaced once: a question that has the old word twice keeps the second.
    question = re.sub(rf"\b{re.escape(old)}\b", lambda _: new, pair.question, count=1)
    return QuestionAndText(question, pair.text)


def answering_sentence(pair: AnsweredQuestion) -> Span | None:
    """The sentences of the passage that hold the answer, as one place; None where none does.

    Rules change or remove just these, so that the rest of the passage stays as it was.
    """
    return touched(split_sentences(pair.text), Span(pair.start, pair.end))


_FEWEST_WORDS_LEFT = 7
"""Words from which on the remainder of a passage counts as a text."""


def without_answer(pair: AnsweredQuestion) -> str | None:
    """The passage without the sentences that hold the answer; None where too little is left.

    Such a text is on the topic and answers nothing: the hardest text for a validator.
    """
    sentence = answering_sentence(pair)
    if sentence is None:
        return None
    # A space in the place of what was taken out.
    remainder = f"{pair.text[: sentence.start]} {pair.text[sentence.end :]}".strip()
    is_too_short = len(remainder.split()) < _FEWEST_WORDS_LEFT
    # The answer may stand in other sentences, too.
    if is_too_short or pair.answer.lower() in remainder.lower():
        return None
    return remainder


Rule = Callable[[_Rules, AnsweredQuestion], QuestionAndText | None]
KINDS: Mapping[str, Rule] = {
    "echo": lambda rules, pair: rules.worded("echo", pair),
    "says-unknown": lambda rules, pair: rules.worded("says-unknown", pair),
    "entity": _Rules.entity,
    "number": _Rules.number,
    "negation": _Rules.negation,
    "identifier": _Rules.identifier,
    "template": _Rules.template,
    "injection": lambda rules, pair: rules.worded("injection", pair),
    "passage": _Rules.passage,
    "sentence": _Rules.sentence,
    "question-and-answer": _Rules.question_and_answer,
}
"""The kinds of pairs that a validator is asked about, each with the rule that makes them."""
ANSWER_KINDS = ("passage", "sentence", "question-and-answer")
"""Those that hold the answer: a validator that always says No is wrong about them."""


# --- the questions of a dataset

_LONGEST_PASSAGE = 1200
"""Characters of a passage."""


def run_self_test(
    validator: Validator, dataset: str | Path, *, limit: int = 40, seed: int = 7
) -> SelfTest:
    """Makes near misses of the answered questions of a dataset, and asks a validator about them.

    A user sees so how a validator does on texts of the user's own kind.

    Raises:
        DataError: the dataset has no question with an answer in a text.
    """
    try:
        texts = {document.id: document.text for document in read_documents(dataset)}
    except DataError:
        texts = {}  # a dataset without a corpus: its cases hold the texts
    pairs: list[AnsweredQuestion] = []
    for case in read_cases(dataset, problems=Problems()):
        # The rules know English words only.
        is_english = (case.language or "en").startswith("en")
        # Without an answer, or in a language that the rules do not know.
        if case.answerable is False or not is_english:
            continue
        pair = _answered_question(case, texts)
        if pair is not None:
            pairs.append(pair)
    if not pairs:
        message = (
            "no near misses can be made of it: expected cases in English with evidence in the "
            "corpus, or with a reference that stands in their reference_contexts"
        )
        raise DataError([Problem(message=message, path=str(dataset))])
    return self_test(validator, pairs, limit=limit, seed=seed)


def _answered_question(case: Case, texts: Mapping[str, str]) -> AnsweredQuestion | None:
    """A case as a question with the place of its answer in a passage; None where no text holds it.

    Rules must know where the answer is, to change it or to leave it.

    Args:
        texts: the documents of the corpus, by their ids.
    """
    # With several places of evidence, a text without one of them may still answer.
    if len(case.evidence) == 1:
        evidence = case.evidence[0]
        document_id = evidence.document_id or ""
        document = texts.get(document_id, "")
        if evidence.text in document:
            passage = _passage_with(evidence.text, document)
            return _with_place(case, passage, evidence.text, document_id)
    for text in case.reference_contexts or ():
        # A reference that is copied from a context has a place there.
        if case.reference and case.reference in text:
            # Contexts have no id: by their beginnings they are told apart.
            return _with_place(case, text, case.reference, text[:40])
    return None


def _passage_with(text: str, document: str) -> str:
    """The first window of a document that holds a text; the whole document where none does.

    A validator is asked about passages as retrievers give them, not about whole documents.
    """
    for window in windows_of(document, characters=_LONGEST_PASSAGE):
        passage = document[window.start : window.end]
        if text in passage:
            return passage
    return document


def _with_place(case: Case, passage: str, evidence: str, document: str) -> AnsweredQuestion:
    """A case as a question with the place of its answer: the reference, if the evidence holds it.

    The reference is shorter than the evidence, so that less is taken for the answer.

    Args:
        passage: holds the evidence.
        document: what passages of one document have in common.
    """
    answer = evidence
    if case.reference and case.reference in evidence:
        answer = case.reference
    # The evidence is in the passage, and the answer in the evidence.
    start = passage.index(evidence) + evidence.index(answer)
    end = start + len(answer)
    return AnsweredQuestion(
        question=case.query, text=passage, start=start, end=end, document=document
    )
