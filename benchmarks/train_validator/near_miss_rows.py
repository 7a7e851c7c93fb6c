"""Near misses and answers as the local validator reads them: what its weights are learned from
beside pools, whose chunks seldom say anything that looks like an answer and is none."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.train_validator.logistic_fit import Matrix
from benchmarks.train_validator.near_miss_changes import WORDING
from benchmarks.train_validator.near_misses import NEAR_MISS_KINDS, NearMissRules
from benchmarks.validation_pools import Collection
from ragbench.text.onnx_model import PairReading
from ragbench.validators.calibration import shipped_rarity, shipped_weights
from ragbench.validators.lexical import LEXICAL_FEATURES, ask, read_in_windows
from ragbench.validators.local import local_features
from ragbench.validators.self_test import AnsweredQuestion, QuestionAndText, answering_sentence

Read = Callable[[str, Sequence[str]], list[PairReading]]
_ANSWERS = ("passage", "sentence", "question and answer")


@dataclass(frozen=True, slots=True)
class NearMissRow:
    question: str
    """Whose id; a fold holds all of a question."""
    values: Matrix
    """`LOCAL_FEATURES`, a row."""
    answers: float


def near_miss_rows(data: Collection, read: Read, *, per_kind: int) -> Iterator[NearMissRow]:
    """So many pairs of each kind of near miss, in the wording of the training, and of answers.

    Args:
        data: a set with short answers.
        read: what asks the reader.
        per_kind: how many.
    """
    texts = {chunk.id: chunk for chunk in data.chunks}
    pairs = {
        one.id: AnsweredQuestion(
            question=one.text.strip(),
            text=texts[one.own].text,
            start=one.spans[0][1],
            end=one.spans[0][2],
            document=texts[one.own].document_id or "",
        )
        for one in data.questions
        if one.gold and one.own in texts
    }
    rules = NearMissRules(list(pairs.values()), WORDING)
    for kind in (*NEAR_MISS_KINDS, *_ANSWERS):
        draw = random.Random(f"rows:{kind}")
        made = 0
        for id_ in draw.sample(list(pairs), len(pairs)):
            found = _made(kind, pairs[id_], rules, draw)
            if found is not None:
                made += 1
                yield _row(id_, found, read, answers=kind in _ANSWERS)
            if made == per_kind:
                break


def _made(
    kind: str, pair: AnsweredQuestion, rules: NearMissRules, draw: random.Random
) -> QuestionAndText | None:
    if kind in NEAR_MISS_KINDS:
        return rules.make(kind, pair, draw)
    place = answering_sentence(pair)
    if kind == "passage" or place is None:
        return QuestionAndText(pair.question, pair.text)
    said = pair.text[slice(*place)]
    text = said if kind == "sentence" else f"Q: {pair.question}\nA: {said}"
    return QuestionAndText(pair.question, text)


def _row(id_: str, pair: QuestionAndText, read: Read, *, answers: bool) -> NearMissRow:
    asked = ask(pair.question, shipped_rarity())
    words = read_in_windows(asked, [pair.text], shipped_weights("lexical", LEXICAL_FEATURES).chunk)
    (reading,) = read(pair.question, [pair.text])
    return NearMissRow(id_, np.array([local_features(words[0], reading.logit)]), float(answers))
