"""The validator by words: what they say of a chunk, window by window."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import pairwise
from typing import ClassVar, NamedTuple

from ragbench.core.chunk import Chunk
from ragbench.core.record import Record, replace
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
from ragbench.validators.verdict import NAMED, Finding, decide

LEXICAL_FEATURES: tuple[str, ...] = (
    "sentence_coverage", "window_coverage", "chunk_coverage", "pool_coverage", "pair_share",
    "rarest_missing", "names_missing", "type_agrees", "type_disagrees", "behind", "pool_behind",
    "density", "query_tokens", "chunk_tokens",
)  # fmt: skip
"""Names of the numbers that `read_pool` gives a chunk, in order; each in [0, 1]."""

_TYPE_BONUS = 0.15
"""What a thing of the asked kind is worth beside coverage, when sentences are ranked."""
_QUOTED = 2
"""Sentences of a chunk that are quoted at most."""
_NEAR = 0.7
"""Share of the best sentence's score from which on another one is quoted beside it."""


class Asked(Record):
    question: ParsedQuestion
    weights: Mapping[str, float]
    """Its content tokens, by how rare they are in general."""
    names: frozenset[str]
    """Its tokens that are written like names, and its numbers."""
    kind: AnswerType
    tokens: frozenset[str]


class _Sentence(NamedTuple):
    span: Span
    tokens: frozenset[str]
    written: tuple[str, ...]
    """The tokens in reading order."""


class _Passage(NamedTuple):
    sentences: Sequence[_Sentence]
    tokens: Set[str]


UNREADABLE_LOGIT = -12.0
"""Of a chunk without a word in it, and of every chunk when the query has none."""


@dataclass(kw_only=True, slots=True)
class ChunkReading:
    """A chunk, or the best window of a long one, read for one query."""

    asked: Asked
    text: str = ""
    read: Sequence[_Sentence] = ()
    """The sentences of the text, and in ``sentences`` their places in the whole chunk."""
    sentences: tuple[Span, ...] = ()
    features: tuple[float, ...] = (0.0,) * len(LEXICAL_FEATURES)
    """As `LEXICAL_FEATURES` names them."""
    local: Mapping[str, float] = field(default_factory=dict[str, float])
    """The query's tokens, by how rare they are in the pool."""
    logit: float = UNREADABLE_LOGIT

    def quoted(self) -> tuple[Span, ...]:
        """The sentence that speaks most for an answer, and one that comes near it.

        Neighbours become one span.
        """
        asked, scores = self.asked, list[float]()
        for one in self.read:
            coverage = _coverage(asked.weights, one.tokens) + _coverage(self.local, one.tokens)
            score = (2 * coverage + _pair_share(asked, [one])) / 5
            if asked.kind is not AnswerType.OTHER:
                piece = self.text[slice(*one.span)]
                score += _TYPE_BONUS * holds_type(piece, asked.kind, asked.tokens)
            scores.append(score)
        # Sorting keeps the order of equals: the earlier sentence wins.
        ranked = sorted(range(len(scores)), key=lambda at: -scores[at])[:_QUOTED]
        spans: list[Span] = []
        before = -2
        for at in sorted(at for at in ranked if scores[at] >= _NEAR * scores[ranked[0]]):
            start = spans.pop().start if at == before + 1 else self.sentences[at].start
            spans.append(Span(start, self.sentences[at].end))
            before = at
        return tuple(spans)


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
    worth, names = asked.weights, asked.names
    pool = [*map(_passage, texts)]
    local: dict[str, float] = {}
    for token in worth:
        count = sum(token in one.tokens for one in pool)
        local[token] = math.log(1 + (len(pool) - count + 0.5) / (count + 0.5))
    windows = [_best_window(worth, one) for one in pool]
    covered = [_coverage(worth, one.tokens) for one in windows]
    in_pool = [_coverage(local, _best_window(local, one).tokens) for one in pool]
    best, best_in_pool = max(covered, default=0.0), max(in_pool, default=0.0)
    rarest, has_kind = max(worth.values(), default=0.0) or 1.0, asked.kind is not AnswerType.OTHER
    found: list[ChunkReading] = []
    for place, (text, whole, window) in enumerate(zip(texts, pool, windows, strict=True)):
        held = window.tokens
        spans = [one.span for one in window.sentences] or [Span(0, 0)]
        shown = text[spans[0].start : spans[-1].end]
        agrees = has_kind and holds_type(shown, asked.kind, asked.tokens)
        features = (
            max((_coverage(worth, one.tokens) for one in whole.sentences), default=0.0),
            covered[place],
            _coverage(worth, whole.tokens),
            in_pool[place],
            _pair_share(asked, window.sentences),
            # The worth of the rarest token that is not there, as a share of the rarest one's.
            max((v for one, v in worth.items() if one not in held), default=0.0) / rarest,
            len(names - held) / len(names) if names else 0.0,
            float(agrees),
            float(has_kind and not agrees),
            best - covered[place],
            best_in_pool - in_pool[place],
            len(worth.keys() & held) / max(8, sum(len(one.written) for one in window.sentences)),
            min(1.0, len(worth) / 16),
            min(1.0, sum(len(one.written) for one in whole.sentences) / 400),
        )
        read = whole.sentences
        found.append(
            ChunkReading(asked=asked, text=text, read=read, features=features, local=local)
        )
    return found


# The same chunks come back for many queries.
@lru_cache(maxsize=4096)
def _passage(text: str) -> _Passage:
    spans = split_sentences(text)
    read = ((span, tokenise(text[slice(*span)])) for span in spans)
    sentences = [_Sentence(span, frozenset(tokens), tuple(tokens)) for span, tokens in read]
    return _Passage(sentences, set[str]().union(*(one.tokens for one in sentences)))


def _best_window(weights: Mapping[str, float], passage: _Passage) -> _Passage:
    """The pair of neighbouring sentences that covers most; of equals, the first."""
    sentences = passage.sentences
    if len(sentences) < 2:
        return passage
    # Most tokens are none of the query's: what is compared is small.
    held = [weights.keys() & one.tokens for one in sentences]
    covered = [_coverage(weights, one | other) for one, other in pairwise(held)]
    one, other = sentences[(at := covered.index(max(covered))) : at + 2]
    return _Passage((one, other), one.tokens | other.tokens)


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


def read_in_windows(asked: Asked, texts: Sequence[str], model: LinearModel) -> list[ChunkReading]:
    """Reads all chunks of a pool; of a long one every window, and the best one counts."""
    places = [(at, window) for at, text in enumerate(texts) for window in windows_of(text)]
    readings = read_pool(asked, [texts[at][slice(*window)] for at, window in places])
    best: list[ChunkReading | None] = [None] * len(texts)
    for (at, window), reading in zip(places, readings, strict=True):
        logit = model.logit(reading.features) if asked.weights else UNREADABLE_LOGIT
        known = best[at]
        if known is None or logit > known.logit:
            spans, start = [one.span for one in reading.read], window.start
            reading.sentences = tuple([Span(start + a, start + b) for a, b in spans])
            reading.logit, best[at] = logit, reading
    return [one or ChunkReading(asked=asked) for one in best]


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
        found = partial(self._found, query, intake.chunks)
        return decide(query, intake, found, self.limits, validator=self.name)

    def _found(self, query: str, chunks: Sequence[Chunk], question: str) -> list[Finding]:
        weights, limits = shipped_weights(self.name, self.features), self.limits
        # What a part carries would be found for it: its own words must be.
        question = question if question in query else question.rpartition(" (")[0]
        texts = [without_echo(question, chunk.text) for chunk in chunks]
        read = read_in_windows(ask(question, shipped_rarity), texts, weights.chunk)
        findings: list[Finding] = []
        for chunk, one in zip(chunks, read, strict=True):
            finding = Finding(chunk=chunk, probability=weights.probability(one.logit))
            # Only what is relevant is quoted.
            if limits.on_scale(finding.probability) >= limits.thresholds.relevant:
                finding = replace(finding, spans=one.quoted(), reason=_reason(one))
            findings.append(finding)
        return findings


def _reason(scored: ChunkReading) -> str:
    values = dict(zip(LEXICAL_FEATURES, scored.features, strict=True))
    where = "two sentences hold" if len(scored.sentences) > 1 else "one sentence holds"
    said = f"{where} {values['window_coverage']:.0%} of what the query asks about"
    if values["type_agrees"]:
        return f"{said}, and something of the kind asked for"
    return f"{said}, and nothing of the kind asked for" if values["type_disagrees"] else said
