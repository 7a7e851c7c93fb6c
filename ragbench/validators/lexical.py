"""The validator by words: what they say of a chunk, window by window."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import ClassVar, NamedTuple

from ragbench.core.chunk import Chunk
from ragbench.core.validation import Verdict
from ragbench.text.question import (
    AnswerType,
    ParsedQuestion,
    asked_type,
    holds_type,
    parse_question,
)
from ragbench.text.sentences import SENTENCES_VERSION, Span, split_sentences, windows_of
from ragbench.text.tokens import TOKENISER_VERSION, tokenise
from ragbench.validators.calibration import (
    LearnedValidator,
    LinearModel,
    shipped_rarity,
    shipped_weights,
)
from ragbench.validators.inspect import inspect_chunks
from ragbench.validators.slots import without_echo
from ragbench.validators.verdict import NAMED, Finding, best_sentences, decide

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

_TYPE_BONUS = 0.15
"""What a thing of the asked kind is worth beside coverage, when sentences are ranked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    question: ParsedQuestion
    weights: Mapping[str, float]
    """Its content tokens, by how rare they are in general."""
    names: frozenset[str]
    """Its tokens that are written like names, and its numbers."""
    kind: AnswerType
    tokens: frozenset[str]


UNREADABLE_LOGIT = -12.0
"""Of a chunk without a word in it, and of every chunk when the query has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkReading:
    """A chunk, or the best window of a long one, read for one query."""

    features: tuple[float, ...]
    """As `LEXICAL_FEATURES` names them."""
    sentences: tuple[Span, ...]
    score: Callable[[], Sequence[float]]
    """How much each sentence speaks for an answer, 0 or more; asked only of what is quoted."""
    logit: float = UNREADABLE_LOGIT

    def quoted(self) -> tuple[Span, ...]:
        return best_sentences(self.sentences, self.score())


_UNREADABLE = ChunkReading(features=(0.0,) * len(LEXICAL_FEATURES), sentences=(), score=tuple)


class _Sentence(NamedTuple):
    span: Span
    tokens: frozenset[str]
    written: tuple[str, ...]
    """The tokens in reading order."""


def ask(query: str, rarity: Callable[[str], float]) -> Asked:
    question = parse_question(query)
    names = {token for word in NAMED.findall(query) for token in tokenise(word)}
    return Asked(
        question=question,
        weights={token: rarity(token) for token in question.tokens},
        names=frozenset(names & set(question.tokens)),
        kind=asked_type(query),
        tokens=frozenset(tokenise(query)),
    )


def read_pool(asked: Asked, texts: Sequence[str]) -> list[ChunkReading]:
    """Reads all chunks that were retrieved for one query.

    Coverage is the share of the query's content tokens that a text holds, each weighted by its
    rarity: in general, or (``pool_coverage``) among the chunks of this pool, where the topic that
    all of them share says nothing. ``behind`` and ``pool_behind`` compare with the pool's best.
    """
    pool = [_sentences(text) for text in texts]
    everything = [_tokens(sentences) for sentences in pool]
    local = _pool_rarity(asked, everything)
    windows = [_best_window(asked.weights, sentences) for sentences in pool]
    held = [_tokens(window) for window in windows]
    covered = [_coverage(asked.weights, tokens) for tokens in held]
    in_pool = [_coverage(local, _tokens(_best_window(local, sentences))) for sentences in pool]
    best, best_in_pool = max(covered, default=0.0), max(in_pool, default=0.0)
    names, worth = asked.names, asked.weights
    rarest = max(worth.values(), default=0.0) or 1.0
    found: list[ChunkReading] = []
    for place, (text, sentences, window) in enumerate(zip(texts, pool, windows, strict=True)):
        tokens = held[place]
        features = (
            max((_coverage(asked.weights, one.tokens) for one in sentences), default=0.0),
            covered[place],
            _coverage(asked.weights, everything[place]),
            in_pool[place],
            _pair_share(asked, window),
            # The worth of the rarest token that is not there, as a share of the rarest one's.
            max((v for one, v in worth.items() if one not in tokens), default=0.0) / rarest,
            len(names - tokens) / len(names) if names else 0.0,
            *_type_agreement(
                asked, text[window[0].span.start : window[-1].span.end] if window else ""
            ),
            best - covered[place],
            best_in_pool - in_pool[place],
            len(worth.keys() & tokens) / max(8, sum(len(one.written) for one in window)),
            min(1.0, len(worth) / 16),
            min(1.0, sum(len(one.written) for one in sentences) / 400),
        )
        found.append(
            ChunkReading(
                features=features,
                sentences=tuple(one.span for one in sentences),
                score=partial(_sentence_scores, asked, local, text, sentences),
            )
        )
    return found


# The same chunks come back for many queries.
@lru_cache(maxsize=4096)
def _sentences(text: str) -> tuple[_Sentence, ...]:
    spans = split_sentences(text)
    read = ((span, tokenise(text[slice(*span)])) for span in spans)
    return tuple(_Sentence(span, frozenset(tokens), tuple(tokens)) for span, tokens in read)


def _tokens(sentences: Sequence[_Sentence]) -> frozenset[str]:
    return frozenset[str]().union(*(one.tokens for one in sentences))


def _pool_rarity(asked: Asked, held: Sequence[Set[str]]) -> dict[str, float]:
    """Inverse frequency among the chunks: ln(1 + (N - n + 0.5) / (n + 0.5))."""
    size = len(held)
    weights: dict[str, float] = {}
    for token in asked.weights:
        count = sum(token in tokens for tokens in held)
        weights[token] = math.log(1 + (size - count + 0.5) / (count + 0.5))
    return weights


def _best_window(
    weights: Mapping[str, float], sentences: Sequence[_Sentence]
) -> Sequence[_Sentence]:
    """The pair of neighbouring sentences that covers most; of equals, the first."""
    if len(sentences) < 2:
        return sentences
    # Most tokens are none of the query's: what is compared is small.
    held = [weights.keys() & one.tokens for one in sentences]
    covered = [_coverage(weights, one | other) for one, other in pairwise(held)]
    at = covered.index(max(covered))
    return sentences[at : at + 2]


def _coverage(weights: Mapping[str, float], tokens: Set[str]) -> float:
    total = sum(weights.values())
    if total <= 0:
        return 0.0
    return min(1.0, sum(worth for token, worth in weights.items() if token in tokens) / total)


def _pair_share(asked: Asked, sentences: Sequence[_Sentence]) -> float:
    pairs = asked.question.pairs
    held = {
        pair
        for one in sentences
        for pair in pairs
        if one.tokens.issuperset(pair) and pair in pairwise(one.written)
    }
    return len(held) / len(pairs) if pairs else 0.0


def _type_agreement(asked: Asked, text: str) -> tuple[float, float]:
    if asked.kind is AnswerType.OTHER:
        return 0.0, 0.0
    return (1.0, 0.0) if holds_type(text, asked.kind, asked.tokens) else (0.0, 1.0)


def _sentence_scores(
    asked: Asked, local: Mapping[str, float], text: str, sentences: Sequence[_Sentence]
) -> list[float]:
    scores: list[float] = []
    for one in sentences:
        coverage = _coverage(asked.weights, one.tokens) + _coverage(local, one.tokens)
        agrees, _ = _type_agreement(asked, text[slice(*one.span)])
        scores.append((2 * coverage + _pair_share(asked, [one])) / 5 + _TYPE_BONUS * agrees)
    return scores


def read_in_windows(asked: Asked, texts: Sequence[str], model: LinearModel) -> list[ChunkReading]:
    """Reads all chunks of a pool; of a long one every window, and the best one counts."""
    places = [(at, window) for at, text in enumerate(texts) for window in windows_of(text)]
    readings = read_pool(asked, [texts[at][slice(*window)] for at, window in places])
    best: list[ChunkReading | None] = [None] * len(texts)
    for (at, window), reading in zip(places, readings, strict=True):
        logit = model.logit(reading.features) if asked.weights else UNREADABLE_LOGIT
        known = best[at]
        if known is None or logit > known.logit:
            sentences = (Span(window.start + a, window.start + b) for a, b in reading.sentences)
            best[at] = replace(reading, logit=logit, sentences=tuple(sentences))
    return [one or _UNREADABLE for one in best]


@dataclass(frozen=True, kw_only=True, slots=True)
class LexicalValidator(LearnedValidator):
    """A logistic regression on what words say of a chunk, and one on the whole pool.

    It cannot see an answer in other words than the question's, nor that a passage speaks of the
    right things without answering. docs/validators.md holds its figures.
    """

    name = "lexical"
    features: ClassVar[tuple[str, ...]] = LEXICAL_FEATURES

    @property
    def identity(self) -> str:
        digest = shipped_weights(self.name, self.features).digest
        return f"lexical:{TOKENISER_VERSION}.{SENTENCES_VERSION}:{digest}:{self.limits.identity}"

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        intake = inspect_chunks(query, chunks)
        weights = shipped_weights(self.name, self.features)

        def found(question: str) -> list[Finding]:
            # What a part carries would be found for it: its own words must be.
            question = question if question in query else question.rpartition(" (")[0]
            texts = [without_echo(question, chunk.text) for chunk in intake.chunks]
            scored = read_in_windows(ask(question, shipped_rarity()), texts, weights.chunk)
            judged = [
                Finding(chunk=chunk, probability=weights.probability(one.logit))
                for chunk, one in zip(intake.chunks, scored, strict=True)
            ]
            # Only what is relevant is quoted.
            return [
                replace(finding, spans=one.quoted(), reason=_reason(one))
                if self.limits.on_scale(finding.probability) >= self.limits.thresholds.relevant
                else finding
                for finding, one in zip(judged, scored, strict=True)
            ]

        return decide(query, intake, found, self.limits, validator=self.name)


def _reason(scored: ChunkReading) -> str:
    values = dict(zip(LEXICAL_FEATURES, scored.features, strict=True))
    where = "two sentences hold" if len(scored.sentences) > 1 else "one sentence holds"
    said = f"{where} {values['window_coverage']:.0%} of what the query asks about"
    if values["type_agrees"]:
        return f"{said}, and something of the kind asked for"
    return f"{said}, and nothing of the kind asked for" if values["type_disagrees"] else said
