"""Questions that people typed into a search engine, with their paragraphs, as pairs for the reader.

Read from the clone of QED (Lamm et al. 2021: questions of Natural Questions whose answer stands in
a paragraph of Wikipedia, CC BY-SA 3.0) in EXTRA/repositories, at the commit that has them in nine
files. A paragraph that a tested set has, and a question of one, is left out. Draws are seeded.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.train_validator.asked_elsewhere import (
    Pair,
    Tested,
    lowered,
    tested_passages,
    tested_titles,
)
from benchmarks.train_validator.reader_sources import TESTED
from benchmarks.train_validator.same_page_documents import Repository, files_of
from benchmarks.validation_pools import rows
from ragbench import Chunk
from ragbench.search.pipeline.baseline import Bm25Index
from ragbench.text.sentences import Span, split_sentences

QED = Repository(
    "google-research-datasets+QED", "71e19e085640a2032c803a839d716f0a1b526bff", "CC BY-SA 3.0"
)
SOURCE = "nq"
SEED, HELD = 17, 400
"""So many questions are held out, to look at."""
SHORTEST, LONGEST = 60, 2400
"""Characters of a paragraph."""
MOST = {1.0: 7700, 0.0: 9700}
"""Pairs that answer and pairs that do not."""
_JOINED = (
    (re.compile(r" ([,.;:?!%)\]])"), r"\1"),
    (re.compile(r"([(\[$]) "), r"\1"),
    (re.compile(r" ('s|n't|'re|'ll|'ve|'d|'m)\b"), r"\1"),
    (re.compile(r" -- "), "–"),
    (re.compile(r" - "), "-"),
    (re.compile(r"`` ?(.*?) ?''"), r'"\1"'),
    (re.compile(r"\s+"), " "),
)
"""Tokens with spaces between them, as a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, its paragraph and where the answer stands in it."""

    question: str
    text: str
    answer: Span

    @property
    def words(self) -> str:
        return self.text[slice(*self.answer)].lower()

    def without_answer(self) -> str:
        """The sentences that neither hold the answer nor have its words."""
        kept = [
            self.text[slice(*one)]
            for one in split_sentences(self.text)
            if not (one.start < self.answer.end and self.answer.start < one.end)
        ]
        return " ".join(one for one in kept if self.words not in one.lower())

    def shown(self, draw: random.Random) -> Span:
        """The paragraph, or some sentences around the answer."""
        if draw.random() < 0.5:
            return Span(0, len(self.text))
        sentences = split_sentences(self.text)
        ends = (at for at, one in enumerate(sentences) if one.end >= self.answer.end)
        last = next(ends, len(sentences) - 1)
        begins = (at for at, one in enumerate(sentences) if one.end > self.answer.start)
        before = max(0, next(begins, last) - draw.randint(0, 4))
        behind = min(len(sentences), last + 1 + draw.randint(0, 4))
        return Span(sentences[before].start, sentences[behind - 1].end)


def natural_pairs(data: Path, repositories: Path) -> list[Pair]:
    """Pairs that are learned from, as many of each label as `MOST` has at most.

    Beside a paragraph stand another one that a search finds for its question, without the answer's
    words, and at times what is left of its own without the answer.
    """
    draw = random.Random(SEED)
    asked = list(natural_questions(data, repositories))
    draw.shuffle(asked)
    held = {one.text for one in asked[:HELD]}
    texts = dict.fromkeys(one.text for one in asked)
    chunks = [Chunk(id=str(at), text=text) for at, text in enumerate(texts)]
    index = Bm25Index(chunks, title_weight=0)
    found: list[Pair] = []
    for one in asked[HELD:]:
        question = one.question
        typed = question if draw.random() < 0.5 else f"{question[0].upper()}{question[1:]}?"
        shown = one.shown(draw)
        answer = Span(one.answer.start - shown.start, one.answer.end - shown.start)
        found.append(Pair(SOURCE, typed, one.text[slice(*shown)], 1.0, answer=answer))
        others = (chunk.text for chunk in index.batch_search([question], 8)[0])
        near = [text for text in others if text not in held and one.words not in text.lower()][:5]
        if near:
            found.append(Pair(SOURCE, typed, draw.choice(near[: draw.choice((3, 3, 5))]), 0.0))
        rest = one.without_answer()
        if len(rest) > 150 and draw.random() < 0.35:
            found.append(Pair(SOURCE, typed, rest, 0.0, 0.6))
    draw.shuffle(found)
    kinds = ([one for one in found if one.label == label][:most] for label, most in MOST.items())
    return [one for kind in kinds for one in kind]


def natural_questions(data: Path, repositories: Path) -> Iterator[Asked]:
    """Every question once, but for those whose paragraph, title or words a tested set has."""
    tested, titles = Tested(tested_passages(data), shared=3), tested_titles(data)
    seen = set(_tested_questions(data))
    for _, lines in sorted(files_of(repositories, QED, lambda path: path.endswith(".jsonlines"))):
        for row in map(json.loads, lines.splitlines()):
            question, one = row["question_text"].strip(), _asked(row)
            title = lowered(row["title_text"].split(" (")[0])
            if one is None or title in titles or tested.holds(one.text):
                continue
            if lowered(question) not in seen:
                seen.add(lowered(question))
                yield one


def _tested_questions(data: Path) -> Iterator[str]:
    for path in (data / f"{name}.questions.jsonl" for name in TESTED):
        if path.exists():  # not those of squad2_dev_otherhalf
            for row in rows(path):
                yield lowered(row["question"])


def _asked(row: dict[str, object]) -> Asked | None:
    """A row of the file; None where its answer is not found in the text or this is too long."""
    text, spans = str(row["paragraph_text"]), row["answer_spans"]
    if not isinstance(spans, list) or not spans:
        return None
    start, end = spans[0]
    whole, answer = _joined(text), _joined(text[start:end])
    at = whole.find(answer, max(0, len(_joined(text[:start])) - 12))
    if at < 0 or not SHORTEST <= len(whole) <= LONGEST:
        return None
    place = Span(at, at + len(answer))
    return Asked(question=str(row["question_text"]).strip(), text=whole, answer=place)


def _joined(tokens: str) -> str:
    for pattern, written in _JOINED:
        tokens = pattern.sub(written, tokens)
    return tokens.strip()
