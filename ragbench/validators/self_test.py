"""Where a validator breaks: near misses made by rule from questions with answers, by kind.

Each rule takes a question with the passage that answers it, and changes one thing: the question,
so that the passage no longer answers it, or the passage. Where the changed pair might still hold an
answer, the rule does not apply.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
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
    question: str
    text: str
    start: int
    end: int
    document: str = ""

    @property
    def answer(self) -> str:
        return self.text[self.start : self.end]


class QuestionAndText(NamedTuple):
    question: str
    text: str


class KindResult(Record):
    kind: str
    answers: bool
    """Whether the answer is there: a Yes is right. Else a No is, Partial or Poor."""
    right: Share
    wrong: tuple[str, ...]


class SelfTest(Record):
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
        making = _Making(pairs, random.Random(f"{seed}:{kind}"))
        total, wrong = 0, list[str]()
        for pair in making.draw.sample(list(pairs), len(pairs)):
            made = rule(making, pair) if total < limit else None
            if made is not None:
                total += 1
                verdict = validator.validate(made.question, making.pool(pair, made.text))
                if verdict.answer_present is not answers:
                    wrong.append(f"{made.question} <- {made.text}")
        right = share_of(total - len(wrong), total)
        kinds.append(KindResult(kind=kind, answers=answers, right=right, wrong=tuple(wrong[:3])))
    return SelfTest(validator=validator.name, questions=len(pairs), seed=seed, kinds=tuple(kinds))


_OTHERS = 3
"""Passages of other documents beside the one that is tested."""
_NAME = re.compile(r"(?<!^)\b[A-Z][\w'’-]*[a-z0-9][\w'’-]*(?: [A-Z][\w'’-]+)*")
_NUMBER = re.compile(r"(?<![\w.])\d(?:[\d,.]*\d)?\b")
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|do|does|did|can|could|will|would|has|have|had|should)\b(?!n't| not)"
)


class _Making(Record, kw_only=False):
    """The rules; other names, questions and passages come from the pairs that are given.

    A rule gives None where it does not apply.
    """

    pairs: Sequence[AnsweredQuestion]
    draw: random.Random

    def pool(self, pair: AnsweredQuestion, text: str) -> list[Chunk]:
        others = [one for one in self.pairs if one.document != pair.document]
        drawn = self.draw.sample(others, min(_OTHERS, len(others)))
        answer = pair.answer.lower()
        texts = [text, *(one.text for one in drawn if answer not in one.text.lower())]
        return [Chunk(id=f"c{at}", text=one) for at, one in enumerate(texts)]

    def worded(self, kind: str, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The question as it stands, and a text that says nothing of the answer."""
        others = [one.question for one in self.pairs if one.document == pair.document]
        held = {
            "other": self.draw.choice(others),
            "q": pair.question,
            "c": said_as_clause(pair.question),
            "rest": without_answer(pair),
        }
        wording = self.draw.choice(table("ragbench.validators", "self_test")[kind])
        if any(value is None and f"{{{name}}}" in wording for name, value in held.items()):
            return None
        return QuestionAndText(pair.question, wording.format(**held))

    def entity(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """Another name in the question, one that the passage does not hold."""
        shared = _shared(pair, _names(pair.question))
        name = self.draw.choice(shared) if shared else ""
        other = self._other_name(pair, name) if name else None
        return _asked(pair, name, other) if other else None

    def _other_name(self, pair: AnsweredQuestion, name: str) -> str | None:
        """A name of so many words that neither question nor passage holds."""
        known = f"{pair.question} {pair.text}".lower()
        for of in (attrgetter("question"), attrgetter("text")):
            found = [
                other
                for one in self.pairs
                for other in _names(of(one))
                if len(other.split()) == len(name.split()) and other.lower() not in known
            ]
            if found:
                return self.draw.choice(found)
        return None

    def number(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """Another number or year in the question, one that the passage does not hold."""
        shared = _shared(pair, _NUMBER.findall(pair.question))
        if not shared:
            return None
        number = self.draw.choice(shared)
        other = self._stepped(number)
        return None if other in pair.text else _asked(pair, number, other)

    def _stepped(self, number: str) -> str:
        """With another last digit."""
        step = self.draw.choice((1, 2, 3, 5))
        return re.sub(r"\d(?=\D*$)", lambda one: str((int(one[0]) + step) % 10), number)

    def identifier(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """Another identifier in the passage: INC-48231 for INC-48213."""
        shared = _shared(pair, [one for one in identifiers(pair.question) if re.search(r"\d", one)])
        if not shared:
            return None
        asked = self.draw.choice(shared)
        return QuestionAndText(pair.question, pair.text.replace(asked, self._stepped(asked)))

    def template(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        """The answering sentence, said of another name, or in another year."""
        made = self.sentence(pair)
        asked = [*_names(pair.question), *_NUMBER.findall(pair.question)]
        held = [one for one in _shared(pair, asked) if made and one in made.text]
        if made is None or not held:
            return None
        one = self.draw.choice(held)
        other = self._stepped(one) if one[0].isdigit() else self._other_name(pair, one)
        return made._replace(text=made.text.replace(one, other)) if other else None

    def negation(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        found = _AUXILIARY.search(pair.question)
        if found is None:
            return None
        short = {"can": "can't", "will": "won't"}.get(found[1], f"{found[1]}n't")
        return _asked(pair, found[1], short)

    def passage(self, pair: AnsweredQuestion) -> QuestionAndText:
        return QuestionAndText(pair.question, pair.text)

    def sentence(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        place = answering_sentence(pair)
        return None if place is None else QuestionAndText(pair.question, pair.text[slice(*place)])

    def question_and_answer(self, pair: AnsweredQuestion) -> QuestionAndText | None:
        made = self.sentence(pair)
        return made and made._replace(text=f"Question: {pair.question} Answer: {made.text}")


def _shared(pair: AnsweredQuestion, found: Sequence[str]) -> list[str]:
    return [one for one in found if one in pair.text and one not in pair.answer]


def _names(text: str) -> list[str]:
    common = function_words()["en"].split()
    return [one for one in _NAME.findall(text) if one.split()[0].lower() not in common]


def _asked(pair: AnsweredQuestion, old: str, new: str) -> QuestionAndText:
    question = re.sub(rf"\b{re.escape(old)}\b", lambda _: new, pair.question, count=1)
    return QuestionAndText(question, pair.text)


def answering_sentence(pair: AnsweredQuestion) -> Span | None:
    return touched(split_sentences(pair.text), Span(pair.start, pair.end))


def without_answer(pair: AnsweredQuestion) -> str | None:
    """The passage without the sentences that hold the answer; None where too little is left."""
    sentence = answering_sentence(pair)
    if sentence is None:
        return None
    rest = f"{pair.text[: sentence.start]} {pair.text[sentence.end :]}".strip()
    return rest if len(rest.split()) > 6 and pair.answer.lower() not in rest.lower() else None


KINDS: Mapping[str, Callable[[_Making, AnsweredQuestion], QuestionAndText | None]] = {
    "echo": lambda making, pair: making.worded("echo", pair),
    "says-unknown": lambda making, pair: making.worded("says-unknown", pair),
    "entity": _Making.entity,
    "number": _Making.number,
    "negation": _Making.negation,
    "identifier": _Making.identifier,
    "template": _Making.template,
    "injection": lambda making, pair: making.worded("injection", pair),
    "passage": _Making.passage,
    "sentence": _Making.sentence,
    "question-and-answer": _Making.question_and_answer,
}
ANSWER_KINDS = ("passage", "sentence", "question-and-answer")
"""What does hold the answer: a validator that always says No is wrong about it."""


# --- the questions of a dataset

_LONGEST = 1200
"""Characters of a passage."""


def run_self_test(
    validator: Validator, dataset: str | Path, *, limit: int = 40, seed: int = 7
) -> SelfTest:
    try:
        texts = {one.id: one.text for one in read_documents(dataset)}
    except DataError:
        texts = {}  # a dataset without a corpus: its cases hold the texts
    pairs = [
        pair
        for case in read_cases(dataset, problems=Problems())
        if case.answerable is not False and (case.language or "en").startswith("en")
        if (pair := _pair(case, texts)) is not None
    ]
    if not pairs:
        message = (
            "no near misses can be made of it: expected cases in English with evidence in the "
            "corpus, or with a reference that stands in their reference_contexts"
        )
        raise DataError([Problem(message=message, path=str(dataset))])
    return self_test(validator, pairs, limit=limit, seed=seed)


def _pair(case: Case, texts: Mapping[str, str]) -> AnsweredQuestion | None:
    """The answer's place in a passage: the reference, or all that was marked as evidence."""
    # With several places, what is left without one of them may still answer.
    for one in case.evidence if len(case.evidence) == 1 else ():
        whole = texts.get(one.document_id or "", "")
        windows = (whole[slice(*span)] for span in windows_of(whole, characters=_LONGEST))
        if one.text in whole:
            passage = next((text for text in windows if one.text in text), whole)
            return _placed(case, passage, one.text, one.document_id or "")
    for text in case.reference_contexts or ():
        if case.reference and case.reference in text:
            return _placed(case, text, case.reference, text[:40])
    return None


def _placed(case: Case, passage: str, held: str, document: str) -> AnsweredQuestion:
    answer = case.reference if case.reference and case.reference in held else held
    start = passage.index(held) + held.index(answer)
    end = start + len(answer)
    return AnsweredQuestion(
        question=case.query, text=passage, start=start, end=end, document=document
    )
