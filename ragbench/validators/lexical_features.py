"""What words tell of a chunk, window by window."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from ragbench.text.question import (
    AnswerType,
    ParsedQuestion,
    asked_type,
    holds_type,
    parse_question,
)
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.tokens import tokenise
from ragbench.validators.calibration import LinearModel

LEXICAL_FEATURES: tuple[str, ...] = (
    "sentence_coverage",
    "window_coverage",
    "chunk_coverage",
    "pool_coverage",
    "pair_share",
    "rarest_missing",
    "names_missing",
    "type_agrees",
    "type_disagrees",
    "behind",
    "pool_behind",
    "density",
    "query_tokens",
    "chunk_tokens",
)
"""Names of the numbers that `read_pool` gives a chunk, in order; each in [0, 1]."""

_NAME = re.compile(r"(?<!^)\b[A-ZÀ-ÖØ-Þ][\w'’.-]*|\b[\w.-]{0,64}\d[\w.-]*")
_TYPE_BONUS = 0.15
"""What a thing of the asked kind is worth beside coverage, when sentences are ranked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A query, taken apart."""

    question: ParsedQuestion
    weights: Mapping[str, float]
    """Its content tokens, by how rare they are in general."""
    names: frozenset[str]
    """Its tokens that are written like names, and its numbers."""
    kind: AnswerType
    tokens: frozenset[str]
    """All its tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkFeatures:
    """A chunk, read for one query."""

    features: tuple[float, ...]
    """As `LEXICAL_FEATURES` names them."""
    sentences: tuple[Span, ...]
    scores: tuple[float, ...]
    """How much each sentence speaks for an answer, 0 or more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sentence:
    span: Span
    tokens: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    length: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Window:
    """A sentence and the one behind it."""

    tokens: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    length: int
    span: Span


def ask(query: str, rarity: Callable[[str], float]) -> Asked:
    question = parse_question(query)
    names = {token for word in _NAME.findall(query) for token in tokenise(word)}
    return Asked(
        question=question,
        weights={token: rarity(token) for token in question.tokens},
        names=frozenset(names & set(question.tokens)),
        kind=asked_type(query),
        tokens=frozenset(tokenise(query)),
    )


def read_pool(asked: Asked, texts: Sequence[str]) -> list[ChunkFeatures]:
    """Reads all chunks that were retrieved for one query.

    Coverage is the share of the query's content tokens that a text holds, each weighted by its
    rarity: in general, or (``pool_coverage``) among the chunks of this pool, where the topic that
    all of them share says nothing. ``behind`` and ``pool_behind`` compare with the pool's best.
    """
    pool = [_sentences(text) for text in texts]
    local = _pool_rarity(asked, pool)
    windows = [_best_window(asked.weights, sentences) for sentences in pool]
    covered = [_coverage(asked.weights, window.tokens) for window in windows]
    in_pool = [
        _coverage(local, _best_window(local, sentences).tokens) if sentences else 0.0
        for sentences in pool
    ]
    found: list[ChunkFeatures] = []
    for place, (text, sentences, window) in enumerate(zip(texts, pool, windows, strict=True)):
        features = (
            max((_coverage(asked.weights, one.tokens) for one in sentences), default=0.0),
            covered[place],
            _coverage(asked.weights, frozenset[str]().union(*(one.tokens for one in sentences))),
            in_pool[place],
            _pair_share(asked, window),
            _rarest_missing(asked, window),
            _names_missing(asked, window),
            *_type_agreement(asked, text[slice(*window.span)]),
            _behind(covered, place),
            _behind(in_pool, place),
            _density(asked, window),
            min(1.0, len(asked.weights) / 16),
            min(1.0, sum(one.length for one in sentences) / 400),
        )
        found.append(
            ChunkFeatures(
                features=features,
                sentences=tuple(one.span for one in sentences),
                scores=tuple(_sentence_score(asked, local, text, one) for one in sentences),
            )
        )
    return found


# The same chunks come back for many queries.
@lru_cache(maxsize=4096)
def _sentences(text: str) -> tuple[_Sentence, ...]:
    found: list[_Sentence] = []
    for span in split_sentences(text):
        tokens = tokenise(text[slice(*span)])
        found.append(
            _Sentence(
                span=span,
                tokens=frozenset(tokens),
                pairs=frozenset(pairwise(tokens)),
                length=len(tokens),
            )
        )
    return tuple(found)


def _pool_rarity(asked: Asked, pool: Sequence[Sequence[_Sentence]]) -> dict[str, float]:
    """Inverse frequency among the chunks: ln(1 + (N - n + 0.5) / (n + 0.5))."""
    size = len(pool)
    held = [frozenset[str]().union(*(one.tokens for one in sentences)) for sentences in pool]
    weights: dict[str, float] = {}
    for token in asked.weights:
        count = sum(token in tokens for tokens in held)
        weights[token] = math.log(1 + (size - count + 0.5) / (count + 0.5))
    return weights


def _best_window(weights: Mapping[str, float], sentences: Sequence[_Sentence]) -> _Window:
    """The pair of neighbouring sentences that covers most; of equals, the first."""
    if not sentences:
        return _Window(tokens=frozenset(), pairs=frozenset(), length=0, span=Span(0, 0))
    # Most tokens are none of the query's: what is compared is small.
    held = [weights.keys() & one.tokens for one in sentences]
    covered = [_coverage(weights, one | other) for one, other in pairwise(held)] or [0.0]
    at = covered.index(max(covered))
    one, other = sentences[at], sentences[min(at + 1, len(sentences) - 1)]
    return _Window(
        tokens=one.tokens | other.tokens,
        pairs=one.pairs | other.pairs,
        length=one.length + (other.length if other is not one else 0),
        span=Span(one.span.start, other.span.end),
    )


def _coverage(weights: Mapping[str, float], tokens: Set[str]) -> float:
    total = sum(weights.values())
    if total <= 0:
        return 0.0
    return min(1.0, sum(worth for token, worth in weights.items() if token in tokens) / total)


def _pair_share(asked: Asked, window: _Window) -> float:
    pairs = asked.question.pairs
    return len(pairs & window.pairs) / len(pairs) if pairs else 0.0


def _rarest_missing(asked: Asked, window: _Window) -> float:
    """The worth of the rarest token that is not there, as a share of the rarest one's."""
    most = max(asked.weights.values(), default=0.0)
    missing = [worth for token, worth in asked.weights.items() if token not in window.tokens]
    return max(missing, default=0.0) / most if most > 0 else 0.0


def _names_missing(asked: Asked, window: _Window) -> float:
    return len(asked.names - window.tokens) / len(asked.names) if asked.names else 0.0


def _type_agreement(asked: Asked, text: str) -> tuple[float, float]:
    if asked.kind is AnswerType.OTHER:
        return 0.0, 0.0
    return (1.0, 0.0) if holds_type(text, asked.kind, asked.tokens) else (0.0, 1.0)


def _behind(values: Sequence[float], place: int) -> float:
    """How far a value lies below the pool's best; several may be the best."""
    return max(values) - values[place]


def _density(asked: Asked, window: _Window) -> float:
    return len(asked.weights.keys() & window.tokens) / max(8, window.length)


def _sentence_score(
    asked: Asked, local: Mapping[str, float], text: str, sentence: _Sentence
) -> float:
    coverage = _coverage(asked.weights, sentence.tokens) + _coverage(local, sentence.tokens)
    pairs = asked.question.pairs
    phrases = len(pairs & sentence.pairs) / len(pairs) if pairs else 0.0
    agrees, _ = _type_agreement(asked, text[slice(*sentence.span)])
    return (2 * coverage + phrases) / 5 + _TYPE_BONUS * agrees


def windows_of(text: str, *, characters: int = 1800) -> tuple[Span, ...]:
    """Runs of whole sentences that together hold every word of a text.

    Neighbouring windows share a sentence, so that two sentences which belong together stand in one
    window. A single sentence that is too long is cut at white space, or where there is none, at
    the limit.

    Args:
        characters: how long a window may be.
    """
    start = len(text) - len(text.lstrip())
    end = len(text.rstrip())
    if end - start <= characters:
        return (Span(start, end),) if end > start else ()
    pieces = [part for span in split_sentences(text) for part in _parts(text, span, characters)]
    found: list[Span] = []
    first = 0
    while first < len(pieces):
        last = first
        while last + 1 < len(pieces) and pieces[last + 1].end - pieces[first].start <= characters:
            last += 1
        found.append(Span(pieces[first].start, pieces[last].end))
        if last + 1 == len(pieces):
            break
        first = max(first + 1, last)
    return tuple(found)


def _parts(text: str, span: Span, characters: int) -> list[Span]:
    parts: list[Span] = []
    start = span.start
    while span.end - start > characters:
        cut = text.rfind(" ", start + 1, start + characters)
        end = cut if cut > start else start + characters
        parts.append(Span(start, end))
        start = end + 1 if cut > start else end
    parts.append(Span(start, span.end))
    return parts


UNREADABLE_LOGIT = -12.0
"""Of a chunk without a word in it, and of every chunk when the query has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredChunk:
    """A chunk as its best window has it."""

    logit: float
    """Of its holding an answer."""
    features: tuple[float, ...]
    """As `LEXICAL_FEATURES` names them."""
    sentences: tuple[Span, ...]
    """Of the best window, as offsets in the chunk."""
    scores: tuple[float, ...]
    """How much each sentence speaks for an answer."""
    window: Span
    """The best window."""


def read_in_windows(asked: Asked, texts: Sequence[str], model: LinearModel) -> list[ScoredChunk]:
    """Reads all chunks of a pool; of a long one every window, and the best one counts.

    Args:
        model: from `LEXICAL_FEATURES` to a logit.
    """
    places = [(at, window) for at, text in enumerate(texts) for window in windows_of(text)]
    readings = read_pool(asked, [texts[at][slice(*window)] for at, window in places])
    nothing = ScoredChunk(
        logit=UNREADABLE_LOGIT,
        features=(0.0,) * len(LEXICAL_FEATURES),
        sentences=(),
        scores=(),
        window=Span(0, 0),
    )
    best = [nothing] * len(texts)
    for (at, window), reading in zip(places, readings, strict=True):
        logit = model.logit(reading.features) if asked.weights else UNREADABLE_LOGIT
        if best[at] is nothing or logit > best[at].logit:
            best[at] = ScoredChunk(
                logit=logit,
                features=reading.features,
                sentences=tuple(
                    Span(window.start + one.start, window.start + one.end)
                    for one in reading.sentences
                ),
                scores=reading.scores,
                window=window,
            )
    return best
