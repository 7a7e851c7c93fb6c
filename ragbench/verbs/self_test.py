"""A validator against near misses of a dataset, or of a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ragbench.core.case import Case
from ragbench.errors import DataError, Problem
from ragbench.io.read import read_cases, read_documents
from ragbench.io.source import Problems
from ragbench.validators.near_misses import AnsweredQuestion
from ragbench.validators.self_test import SelfTest, questions_in, self_test
from ragbench.validators.validator import Validator

_LONGEST = 1200
"""Characters of a passage."""


def run_self_test(
    validator: Validator, corpus: str | Path, *, limit: int = 40, seed: int = 7
) -> SelfTest:
    """Makes near misses of what a dataset or a corpus holds, and asks a validator about them."""
    texts = dict(_texts(corpus))
    pairs = answered_questions(corpus, texts)
    made_by_rule = not pairs
    if made_by_rule:
        pairs = [
            question
            for document, text in texts.items()
            for passage in _passages(text)
            for question in questions_in(passage, document)
        ]
    if not pairs:
        message = (
            "no near misses can be made of it: expected cases with evidence or reference_contexts, "
            "or documents with sentences such as 'The mill was built in 1910.'"
        )
        raise DataError([Problem(message=message, path=str(corpus))])
    return self_test(validator, pairs, limit=limit, seed=seed, made_by_rule=made_by_rule)


def _texts(corpus: str | Path) -> Iterator[tuple[str, str]]:
    try:
        for one in read_documents(corpus):
            yield one.id, one.text
    except DataError:
        return  # a dataset without a corpus: its cases hold the texts


def answered_questions(corpus: str | Path, texts: Mapping[str, str]) -> list[AnsweredQuestion]:
    """The questions of a dataset in English, each with a passage and the place of its answer."""
    problems = Problems()
    cases = [
        case
        for case in read_cases(corpus, problems=problems)
        if case.answerable is not False and (case.language or "en").startswith("en")
    ]
    return [pair for case in cases if (pair := _pair(case, texts)) is not None]


def _pair(case: Case, texts: Mapping[str, str]) -> AnsweredQuestion | None:
    # With several places, what is left without one of them may still answer.
    for one in case.evidence if len(case.evidence) == 1 else ():
        whole = texts.get(one.document_id or "")
        if whole is not None and one.text in whole:
            passage = next(text for text in _passages(whole, one.text) if one.text in text)
            return _placed(case, passage, one.text, one.document_id or "")
    for text in case.reference_contexts or ():
        if case.reference and case.reference in text:
            return _placed(case, text, case.reference, text[:40])
    return None


def _placed(case: Case, passage: str, held: str, document: str) -> AnsweredQuestion:
    """The reference's place within what was marked, or all that was marked."""
    start = passage.index(held)
    inner = held.find(case.reference) if case.reference else -1
    length = len(held)
    if inner >= 0 and case.reference:
        start, length = start + inner, len(case.reference)
    return AnsweredQuestion(
        question=case.query,
        text=passage,
        start=start,
        end=start + length,
        document=document,
    )


def _passages(text: str, kept: str = "") -> Iterator[str]:
    """Paragraphs, joined up to `_LONGEST` characters; ``kept`` is not cut."""
    passage = ""
    for paragraph in text.split("\n\n"):
        joined = f"{passage}\n\n{paragraph}" if passage else paragraph
        if passage and len(joined) > _LONGEST:
            yield passage
            joined = paragraph
        passage = joined
    if passage:
        yield passage
    if kept and kept not in text.split("\n\n"):
        yield text
