"""A validator against near misses of a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ragbench.core.case import Case
from ragbench.errors import DataError, Problem
from ragbench.io.read import read_cases, read_documents
from ragbench.io.source import Problems
from ragbench.validators.self_test import AnsweredQuestion, SelfTest, self_test
from ragbench.validators.validator import Validator

_LONGEST = 1200
"""Characters of a passage."""


def run_self_test(
    validator: Validator, dataset: str | Path, *, limit: int = 40, seed: int = 7
) -> SelfTest:
    """Makes near misses of a dataset's questions in English, and asks a validator about them."""
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
    # With several places, what is left without one of them may still answer.
    for one in case.evidence if len(case.evidence) == 1 else ():
        whole = texts.get(one.document_id or "")
        if whole is not None and one.text in whole:
            passage = next((text for text in _passages(whole) if one.text in text), whole)
            return _placed(case, passage, one.text, one.document_id or "")
    for text in case.reference_contexts or ():
        if case.reference and case.reference in text:
            return _placed(case, text, case.reference, text[:40])
    return None


def _placed(case: Case, passage: str, held: str, document: str) -> AnsweredQuestion:
    """The reference's place within what was marked, or all that was marked."""
    answer = case.reference if case.reference and case.reference in held else held
    start = passage.index(held) + held.index(answer)
    return AnsweredQuestion(
        question=case.query,
        text=passage,
        start=start,
        end=start + len(answer),
        document=document,
    )


def _passages(text: str) -> Iterator[str]:
    """Paragraphs, joined up to `_LONGEST` characters."""
    passage = ""
    for paragraph in text.split("\n\n"):
        joined = f"{passage}\n\n{paragraph}" if passage else paragraph
        if passage and len(joined) > _LONGEST:
            yield passage
            joined = paragraph
        passage = joined
    if passage:
        yield passage
