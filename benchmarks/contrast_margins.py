"""By how much a reader answers another question better: ``python -m
benchmarks.contrast_margins DATA_DIR``.

Of rule-made near misses, and of answers, whose question begins with "when", "where", "why" or
"how", or has a word with an opposite: the logit of the best other question less that of the one
that is asked, where the latter is above 0. The margins of `ragbench.validators.contrast` were
chosen on squad2 (held-out articles) and covidqa; other sets show what they are worth.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.reader_near_misses import answered_questions
from benchmarks.validation_quality import DATA
from ragbench.text.onnx_pairs import PairReading
from ragbench.validators.contrast import other_questions
from ragbench.validators.local import shipped_reader
from ragbench.validators.near_misses import (
    AnsweredQuestion,
    NearMissRules,
    QuestionAndText,
    answering_sentence,
)
from ragbench.validators.reader import readings_of


def main() -> None:
    given = _arguments()
    for name in given.only:
        data = DATA[name][0](given.data)
        labelled = tuple(one for one in data.questions if one.spans)
        pairs = answered_questions(replace(data, questions=labelled))
        for kind in ("attribute", "quantifier"):
            for side, items in (("near misses", _near(kind, pairs)), ("answers", _right(pairs))):
                chosen = [one for one in items if other_questions(one.question)][: given.limit]
                gaps = sorted(gap for one in chosen if (gap := _gap(one)) is not None)
                row = {"data": name, "kind": kind, "side": side, "of": len(chosen), "gaps": gaps}
                print(json.dumps(row), flush=True)


def _near(kind: str, pairs: Sequence[AnsweredQuestion]) -> Iterator[QuestionAndText]:
    rules, draw = NearMissRules(pairs), random.Random(f"5:{kind}")
    for pair in draw.sample(list(pairs), len(pairs)):
        made = rules.make(kind, pair, draw)
        if made is not None:
            yield made


def _right(pairs: Sequence[AnsweredQuestion]) -> Iterator[QuestionAndText]:
    for pair in random.Random(5).sample(list(pairs), len(pairs)):
        place = answering_sentence(pair)
        if place is not None:
            yield QuestionAndText(pair.question, pair.text[slice(*place)])


def _gap(pair: QuestionAndText) -> float | None:
    asked = _logit(pair.question, pair.text)
    if asked <= 0:
        return None
    others = other_questions(pair.question)
    return round(max(_logit(one.text, pair.text) for one in others) - asked, 2)


def _logit(question: str, text: str) -> float:
    read, _ = readings_of(shipped_reader(), question, [text], max_length=512, threads=2)
    one: PairReading = read[0]
    return one.logit if one.answers is None else min(one.logit, one.answers)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", nargs="+", default=["squad2", "covidqa"], help="data sets")
    parser.add_argument("--limit", type=int, default=30, help="of each kind and side")
    return parser.parse_args()


if __name__ == "__main__":
    main()
