"""All pairs that the reader learns from, by group.

EXTRA is a folder with the files that ``reader_sources.py`` and ``written_near_misses.py`` name, and
with ``repositories``, the clones of ``same_page_documents.py``, ``asked_elsewhere.py`` and
``natural_questions.py``. Draws are seeded: the same files give the same pairs.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping
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
    """How far the logit is from that of the reader before, of the loss."""


GROUPS: Mapping[str, Group] = {
    "articles": Group(answers=1.0, label=0.6, kept=0.3),
    "kept": Group(answers=1.0, label=0.6, kept=0.3),
    "searched": Group(answers=1.2),
    "asked": Group(),
    "pages": Group(),
    "nothing": Group(label=1.1, kept=0.3),
    "everyday": Group(),
    "written": Group(answers=1.0),
    "by rule": Group(answers=1.0),
}
NEAR_MISSES = ("written", "by rule")
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
    for one in (*_asked(data, repositories), *_of_pages(data, repositories)):
        kept = "kept" if one.source in KEPT else "asked"
        pages = "nothing" if one.source == NOTHING else "pages"
        of_pages = one.source.startswith(("doc_", "short_", "sharc", "pubmed"))
        found[pages if of_pages else kept].append(one)
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


def _asked(data: Path, repositories: Path) -> list[Pair]:
    return asked_elsewhere.limited(asked_elsewhere.asked_elsewhere(data, repositories))


def _of_pages(data: Path, repositories: Path) -> Iterator[Pair]:
    older = asked_elsewhere.asked_elsewhere(data, repositories)
    tested = same_page.tested_or_pellorin(data, Path("datasets/pellorin"))
    draw = random.Random(same_page.SEED)
    pages = read_pages(documents(repositories), draw)
    long = same_page.long_pairs(repositories, pages, tested, older, draw)
    yield from same_page.limited(long)
    yield from same_page.short_pairs(data, pages, tested, random.Random(same_page.SEED_SHORT))
    yield from same_page.vague_pairs(pages, (*older, *long), random.Random(same_page.SEED_VAGUE))
