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
    wrong: tuple[str, ...]


class SelfTest(Record):
    """How a validator does on near misses and answers, by kind."""

    validator: str
    questions: int
    seed: int
    kinds: tuple[KindResult, ...]


def self_test(
    validator: Validator, pairs: Sequence[AnsweredQuestion], *, limit: int = 40, seed: int = 7
) -> SelfTest:
    """Asks a validator about near misses and answers, each beside passages of other documents."""
    kinds: list[KindResult] = []
    for kind, rule in KINDS.items():
        answers = kind in ANSWER_KINDS
        # Each kind has its own random choices: one kind more changes no other one.
        rules = _Rules(pairs, random.Random(f"{seed}:{kind}"))
        total = 0
        wrong: list[str] = []
        for pair in rules.draw.sample(list(pairs), len(pairs)):
            if total >= limit:
                break
            changed = rule(rules, pair)
            if changed is None:
                continue
            total += 1
            verdict = validator.validate(changed.question, rules.pool(pair, changed.text))
            if verdict.answer_present is not answers:
                wrong.append(f"{changed.question} <- {changed.text}")
        right = share_of(total - len(wrong), total)
        kinds.append(KindResult(kind=kind, answers=answers, right=right, wrong=tuple(wrong[:3])))
    return SelfTest(validator=validator.name, questions=len(pairs), seed=seed, kinds=tuple(kinds))


_MOST_OTHERS = 3
"""Passages of other documents beside the one that is tested."""
_NAME = re.compile(r"(?<!^)\b[A-Z][\w'’-]*[a-z0-9][\w'’-]*(?: [A-Z][\w'’-]+)*")
_NUMBER = re.compile(r"(?<![\w.])\d(?:[\d,.]*\d)?\b")
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|do|does|did|can|could|will|would|has|have|had|should)\b(?!n't| not)"
)


class _Rules(Record, kw_only=False):
    """The rules; other names, questions and passages come from the pairs of the same data set.

    A rule returns None where it does not apply.
    """

    pairs: Sequence[AnsweredQuestion]
    draw: random.Random

    def pool(self, pair: AnsweredQuestion, text: str) -> list[Chunk]:
        """A text among passages of other documents that do not hold the answer."""
        others = [other for other in self.pairs if other.document != pair.document]
        drawn = self.draw.sample(others, min(_MOST_OTHERS, len(others)))
        answer = pair.answer.lower()
        texts = [text]
        texts += [passage.text for passage in drawn if answer not in passage.text.lower()]
        return [Chunk(id=f"c{number}", text=text) for number, text in enumerate(texts)]

    def worded(self, kind: str, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The question as it is, and a text that says nothing of the answer."""
        questions = [other.question for other in self.pairs if other.document == pair.document]
        # The order of the draws is part of the result: first the question, then the wording.
        values = {
            "other": self.draw.choice(questions),
            "q": pair.question,
            "c": said_as_clause(pair.question),
            "rest": without_answer(pair),
        }
        wording = self.draw.choice(table("ragbench.validators", "self_test")[kind])
        for name, value in values.items():
            if value is None and f"{{{name}}}" in wording:
                return None
        return QuestionAndText(pair.question, wording.format(**values))

    def entity(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """Another name in the question, one that the passage does not hold."""
        shared = _shared(pair, _names(pair.question))
        if not shared:
            return None
        name = self.draw.choice(shared)
        new_name = self._other_name(pair, name)
        return None if new_name is None else _replaced(pair, name, new_name)

    def _other_name(self, pair: AnsweredQuestion, name: str) -> str | None:
        """A name of so many words that neither question nor passage holds."""
        own_text = f"{pair.question} {pair.text}".lower()
        length = len(name.split())
        # Names of other questions fit best; those of passages only where there is none.
        questions = [other.question for other in self.pairs]
        passages = [other.text for other in self.pairs]
        for texts in (questions, passages):
            candidates: list[str] = []
            for text in texts:
                for candidate in _names(text):
                    if len(candidate.split()) == length and candidate.lower() not in own_text:
                        candidates.append(candidate)
            if candidates:
                return self.draw.choice(candidates)
        return None

    def number(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """Another number or year in the question, one that the passage does not hold."""
        shared = _shared(pair, _NUMBER.findall(pair.question))
        if not shared:
            return None
        number = self.draw.choice(shared)
        new_number = self._stepped(number)
        return None if new_number in pair.text else _replaced(pair, number, new_number)

    def _stepped(self, number: str) -> str:
        """A number with another last digit."""
        step = self.draw.choice((1, 2, 3, 5))
        return re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + step) % 10), number)

    def identifier(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """Another identifier in the passage: INC-48231 for INC-48213."""
        with_digits = [name for name in identifiers(pair.question) if re.search(r"\d", name)]
        shared = _shared(pair, with_digits)
        if not shared:
            return None
        identifier = self.draw.choice(shared)
        text = pair.text.replace(identifier, self._stepped(identifier))
        return QuestionAndText(pair.question, text)

    def template(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The answering sentence, said of another name, or in another year."""
        answer = self.sentence(pair)
        if answer is None:
            return None
        in_question = [*_names(pair.question), *_NUMBER.findall(pair.question)]
        shared = [word for word in _shared(pair, in_question) if word in answer.text]
        if not shared:
            return None
        word = self.draw.choice(shared)
        if word[0].isdigit():
            new_word: str | None = self._stepped(word)
        else:
            new_word = self._other_name(pair, word)
        if new_word is None:
            return None
        return answer._replace(text=answer.text.replace(word, new_word))

    def negation(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The question with "not": "Which rooms are heated?" -> "Which rooms aren't heated?"."""
        auxiliary = _AUXILIARY.search(pair.question)
        if auxiliary is None:
            return None
        verb = auxiliary[1]
        negated = {"can": "can't", "will": "won't"}.get(verb, f"{verb}n't")
        return _replaced(pair, verb, negated)

    def passage(self, pair: AnsweredQuestion) -> QuestionAndText:
        """The question with its passage as it is: the answer is there."""
        return QuestionAndText(pair.question, pair.text)

    def sentence(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The question with the answering sentence alone: the answer is there."""
        span = answering_sentence(pair)
        if span is None:
            return None
        return QuestionAndText(pair.question, pair.text[span.start : span.end])

    def question_and_answer(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The answering sentence behind the question, as in a list of questions and answers."""
        answer = self.sentence(pair)
        if answer is None:
            return None
        text = f"Question: {pair.question} Answer: {answer.text}"
        return QuestionAndText(pair.question, text)


def _shared(pair: AnsweredQuestion, words: Sequence[str]) -> list[str]:
    """The words that the passage holds beside its answer."""
    return [word for word in words if word in pair.text and word not in pair.answer]


def _names(text: str) -> list[str]:
    """Words with a capital, those that follow each other as one name."""
    common = function_words()["en"].split()
    return [name for name in _NAME.findall(text) if name.split()[0].lower() not in common]


def _replaced(pair: AnsweredQuestion, old: str, new: str) -> QuestionAndText:
    """The question with another word in the place of one."""
    question = re.sub(rf"\b{re.escape(old)}\b", lambda _: new, pair.question, count=1)
    return QuestionAndText(question, pair.text)


def answering_sentence(pair: AnsweredQuestion) -> Span | None:
    """The sentences of the passage that hold the answer."""
    return touched(split_sentences(pair.text), Span(pair.start, pair.end))


def without_answer(pair: AnsweredQuestion) -> str | None:
    """The passage without the sentences that hold the answer; None where too little is left."""
    sentence = answering_sentence(pair)
    if sentence is None:
        return None
    remainder = f"{pair.text[: sentence.start]} {pair.text[sentence.end :]}".strip()
    if len(remainder.split()) <= 6 or pair.answer.lower() in remainder.lower():
        return None
    return remainder


KINDS: Mapping[str, Callable[[_Rules, AnsweredQuestion], QuestionAndText | None]] = {
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
ANSWER_KINDS = ("passage", "sentence", "question-and-answer")
"""Those that hold the answer: a validator that always says No is wrong about them."""


# --- the questions of a dataset

_LONGEST = 1200
"""Characters of a passage."""


def run_self_test(
    validator: Validator, dataset: str | Path, *, limit: int = 40, seed: int = 7
) -> SelfTest:
    """Makes near misses of the answered questions of a dataset, and asks a validator about them.

    Raises:
        DataError: the dataset has no question with an answer in a text.
    """
    try:
        texts = {document.id: document.text for document in read_documents(dataset)}
    except DataError:
        texts = {}  # a dataset without a corpus: its cases hold the texts
    pairs: list[AnsweredQuestion] = []
    for case in read_cases(dataset, problems=Problems()):
        is_english = (case.language or "en").startswith("en")
        if case.answerable is False or not is_english:
            continue
        pair = _pair(case, texts)
        if pair is not None:
            pairs.append(pair)
    if not pairs:
        message = (
            "no near misses can be made of it: expected cases in English with evidence in the "
            "corpus, or with a reference that stands in their reference_contexts"
        )
        raise DataError([Problem(message=message, path=str(dataset))])
    return self_test(validator, pairs, limit=limit, seed=seed)


def _pair(case: Case, texts: Mapping[str, str]) -> AnsweredQuestion | None:
    """The answer's place in a passage: the reference, or all that was marked as evidence."""
    # With several places, a text without one of them may still answer.
    if len(case.evidence) == 1:
        [evidence] = case.evidence
        document_id = evidence.document_id or ""
        document = texts.get(document_id, "")
        if evidence.text in document:
            passage = _passage_with(evidence.text, document)
            return _placed(case, passage, evidence.text, document_id)
    for text in case.reference_contexts or ():
        if case.reference and case.reference in text:
            return _placed(case, text, case.reference, text[:40])
    return None


def _passage_with(text: str, document: str) -> str:
    """The first window of a document that holds a text; the whole document where none does."""
    for window in windows_of(document, characters=_LONGEST):
        passage = document[window.start : window.end]
        if text in passage:
            return passage
    return document


def _placed(case: Case, passage: str, evidence: str, document: str) -> AnsweredQuestion:
    """A case with the place of its answer: the reference where the evidence holds it."""
    answer = evidence
    if case.reference and case.reference in evidence:
        answer = case.reference
    start = passage.index(evidence) + evidence.index(answer)
    end = start + len(answer)
    return AnsweredQuestion(
        question=case.query, text=passage, start=start, end=end, document=document
    )
