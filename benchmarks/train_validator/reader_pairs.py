"""All pairs that the reader learns from, by group.

EXTRA is a folder with the files that ``reader_sources.py`` and ``written_near_misses.py`` name, and
with ``repositories``, the clones of ``same_page_documents.py``, ``asked_elsewhere.py`` and
``natural_questions.py``. Draws are seeded: the same files give the same pairs.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.train_validator import asked_elsewhere, natural_questions, same_page
from benchmarks.train_validator.asked_elsewhere import Pair
from benchmarks.train_validator.everyday import everyday_pairs
from benchmarks.train_validator.near_miss_examples import mixed
from benchmarks.train_validator.reader_sources import Example, Source, all_sources
from benchmarks.train_validator.same_page_documents import documents
from benchmarks.train_validator.same_page_questions import read_pages
from benchmarks.train_validator.shortened import shortened
from benchmarks.train_validator.written_near_misses import written_near_misses
from ragbench.text.sentences import Span

NOTHING = "doc_vague"
"""The source of texts that say nothing."""
SEED = 21
OF_ARTICLES = 0.62
"""Share of the pairs of articles that are taken."""
NEAR_BY_RULE, PER_KIND = 9000, 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """How much pairs of a kind count."""

    answers: float = 1.5
    """So many times, where they answer."""
    label: float = 1.0
    """The label, of the loss."""
    kept: float = 0.05
    """How far the logit is from that of the reader before, of the loss; where this one agrees with
    the label."""
    always_kept: bool = False
    """Or does not."""
    sure: bool = False
    """Whether its near misses are none, whatever the reader before said of them."""
    near_miss: bool = False
    """Whether a run says how much its pairs count."""
    count: float = 1.0


GROUPS: Mapping[str, Group] = {
    "articles": Group(answers=1.0, label=0.6, kept=0.3, always_kept=True, sure=True),
    "kept": Group(answers=1.0, label=0.6, kept=0.3, always_kept=True, sure=True),
    "searched": Group(answers=1.2),
    "asked": Group(),
    "pages": Group(),
    "nothing": Group(label=1.1, kept=0.3, always_kept=True),
    "everyday": Group(sure=True, count=1.2),
    "written": Group(answers=1.0, sure=True, near_miss=True),
    "by rule": Group(answers=1.0, sure=True, near_miss=True),
}
KEPT = ("squad", "selqa")
"""Sources of `asked_elsewhere` of which the reader knew enough."""


def all_pairs(data: Path, extra: Path) -> dict[str, list[Pair]]:
    """The pairs of each of `GROUPS`; those of pages and talks that are held out are not there."""
    draw = random.Random(SEED)
    sources, unanswerable = all_sources(data, extra)
    written = written_near_misses(data, extra)
    found: dict[str, list[Pair]] = {name: [] for name in GROUPS}
    articles = list(_of_articles(sources))
    found["articles"] = [one for one in articles if draw.random() < OF_ARTICLES]
    people = (*unanswerable, *written.without, *written.answered)
    found["written"] = [_pair("written", shortened(one, draw)) for one in people]
    examples = mixed(sources, draw, per_kind=PER_KIND)
    found["by rule"] = [
        _pair(kind, shortened(one, draw)) for kind, one in itertools.islice(examples, NEAR_BY_RULE)
    ]
    repositories = extra / "repositories"
    older = asked_elsewhere.asked_elsewhere(data, repositories)
    for one in asked_elsewhere.limited(older):
        found["kept" if one.source in KEPT else "asked"].append(one)
    for one in _of_pages(data, repositories, older):
        found["nothing" if one.source == NOTHING else "pages"].append(one)
    found["searched"] = natural_questions.natural_pairs(data, repositories)
    found["everyday"] = everyday_pairs()
    return {name: list(dict.fromkeys(pairs)) for name, pairs in found.items()}


def _of_articles(sources: Iterable[Source]) -> Iterator[Pair]:
    for one in sources:
        for example in (*one.positives, *one.without_answer):
            yield _pair("articles", example)
        for text in one.near[:3]:
            yield Pair("articles", one.question.text, text, 0.0)


def _pair(source: str, one: Example) -> Pair:
    answer = Span(one.start, one.end) if one.start >= 0 else None
    return Pair(source, one.query, one.text, one.label, answer=answer)


def _of_pages(data: Path, repositories: Path, older: Sequence[Pair]) -> Iterator[Pair]:
    tested = same_page.tested_or_pellorin(data, Path("datasets/pellorin"))
    draw = random.Random(same_page.SEED)
    pages = read_pages(documents(repositories), draw)
    long = same_page.long_pairs(repositories, pages, tested, older, draw)
    yield from same_page.limited(long)
    yield from same_page.short_pairs(data, pages, tested, random.Random(same_page.SEED_SHORT))
    yield from same_page.vague_pairs(pages, (*older, *long), random.Random(same_page.SEED_VAGUE))
