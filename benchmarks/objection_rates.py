"""What the checks of the text catch and cost: ``python -m benchmarks.objection_rates DATA``.

Each set of `validation_quality.py`: of answers, held against their own labelled place, the share
that a check objects to (lost); of questions without an answer, held against the sentence of their
passage that shares most words with them, the same (caught). No model takes part.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from benchmarks.validation_pools import Collection, Labelled, squad_half
from benchmarks.validation_quality import DATA
from ragbench import Chunk
from ragbench.text.question import parse_question
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.tokens import tokenise
from ragbench.validators.objections import object_to


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    given = parser.parse_args()
    rates("squad2, training articles", squad_half(given.data, held_out=False))
    for name, (read, _) in DATA.items():
        if name != "xquad_zh":  # the checks know English
            rates(name, read(given.data))


def rates(name: str, data: Collection) -> None:
    texts = {chunk.id: chunk for chunk in data.chunks}
    count: dict[str, Counter[str]] = {"lost": Counter(), "caught": Counter()}
    for question in data.questions:
        if question.own not in texts or (question.gold and not question.spans):
            continue
        chunk, place = _place(question, texts)
        found = object_to(question.text, chunk.text, place)
        counted = count["lost" if question.gold else "caught"]
        counted["of"] += 1
        if found is not None:
            counted[found.kind] += 1
    print(json.dumps({"data": name, **{side: dict(one) for side, one in count.items()}}))


def _place(question: Labelled, texts: dict[str, Chunk]) -> tuple[Chunk, Span]:
    """The labelled place of an answer, else the sentence with most words of the question."""
    if question.spans:
        id_, start, end = question.spans[0]
        return texts[id_], Span(start, end)
    chunk = texts[question.own]
    asked = frozenset(parse_question(question.text).tokens)
    sentences = split_sentences(chunk.text) or [Span(0, len(chunk.text))]
    shared = [len(asked.intersection(tokenise(chunk.text[slice(*one)]))) for one in sentences]
    return chunk, sentences[shared.index(max(shared))]


if __name__ == "__main__":
    main()
