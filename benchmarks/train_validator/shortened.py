"""Texts cut as a retriever's chunks are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.train_validator.reader_sources import Example
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.tokens import tokenise

CHARACTERS, FEW = 400, 160
"""Of most texts, and of some."""
SHORT = 0.2
"""Share of the texts that are cut to few characters."""
WHOLE = 0.12
"""Share of the longer texts that stay whole."""


def shortened(example: Example, draw: random.Random) -> Example:
    """The sentences around the answer; where there is none, those around the one that shares most
    words with the question, which is what a retriever finds and a reader falls for."""
    room = FEW if draw.random() < SHORT else CHARACTERS
    long = len(example.text) > room
    if not long or (example.label > 0 and example.start < 0) or draw.random() < WHOLE:
        return example
    sentences = split_sentences(example.text)
    start, end = _kept_place(example, sentences)
    first = start - draw.randint(0, max(0, room - (end - start)))
    kept = [
        one
        for one in sentences
        if (one.end > start and one.start < end) or (one.start >= first and one.end <= first + room)
    ]
    start, end = min(one.start for one in kept), max(one.end for one in kept)
    text = example.text[start:end]
    if example.start < 0:
        return replace(example, text=text[:CHARACTERS])
    return replace(example, text=text, start=example.start - start, end=example.end - start)


def _kept_place(example: Example, sentences: Sequence[Span]) -> tuple[int, int]:
    if example.start >= 0:
        return example.start, example.end
    asked = set(tokenise(example.query))
    nearest = max(sentences, key=lambda one: len(asked & set(tokenise(example.text[slice(*one)]))))
    return nearest.start, nearest.end
