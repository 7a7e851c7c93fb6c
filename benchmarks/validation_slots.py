"""What each rule on slots costs and finds: ``python -m benchmarks.validation_slots DATA``.

By text alone: of questions with an answer, how many rules object to the labelled sentence; of
questions that people wrote to have none, how many to the sentence of their passage that words find
best. A JSON line per set: by rule, objections to answers and to the others.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from pathlib import Path

from benchmarks.validation_pools import (
    Collection,
    clapnq,
    covidqa,
    pellorin,
    policyqa,
    squad_half,
    xquad,
)
from ragbench.text.question import parse_question
from ragbench.text.sentences import split_sentences
from ragbench.text.tokens import tokenise
from ragbench.validators.slots import RULES, unbound

LIMIT = 1500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    sets = (
        squad_half(data, held_out=False),
        squad_half(data, held_out=True),
        *(read(data) for read in (xquad, clapnq, covidqa, policyqa)),
        pellorin(),
    )
    for one in sets:
        print(json.dumps(_row(one)), flush=True)


def _row(collection: Collection) -> dict[str, object]:
    texts = {chunk.id: chunk.text for chunk in collection.chunks}
    known = [one for one in collection.questions if one.own in texts]
    sides = {
        "answers": [one for one in known if one.spans and one.spans[0][0] in texts],
        "others": [one for one in known if not one.gold],
    }
    row: dict[str, object] = {"data": collection.name}
    draw = random.Random(3)
    for side, questions in sides.items():
        objections = Counter[str]()
        drawn = draw.sample(questions, min(LIMIT, len(questions)))
        for one in drawn:
            id_, start, end = one.spans[0] if one.spans else (one.own, 0, 0)
            text = texts[id_]
            said = _around(text, start, end) if one.spans else _best(one.text, text)
            objections.update(name for name in RULES if unbound(one.text, text, said, [name]))
        row[side] = len(drawn)
        row[f"objections to {side}"] = {name: objections[name] for name in RULES}
    return row


def _around(text: str, start: int, end: int) -> str:
    held = [one for one in split_sentences(text) if one.start < end and start < one.end]
    return text[held[0].start : held[-1].end] if held else text[start:end]


def _best(query: str, text: str) -> str:
    asked = set(parse_question(query).tokens)
    sentences = [text[slice(*one)] for one in split_sentences(text)]
    return max(sentences, key=lambda one: len(asked.intersection(tokenise(one))), default=text)


if __name__ == "__main__":
    main()
