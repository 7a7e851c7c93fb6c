"""The validator by words: how much of a question a chunk holds, window by window."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
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
from ragbench.validators.parts import QueryPart, named_words
from ragbench.validators.slots import without_echo
from ragbench.validators.verdict import Finding, decide

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
"""What something of the asked kind is worth beside coverage, when sentences are ranked."""
_MOST_QUOTED = 2
"""Sentences of a chunk that are quoted at most."""
_NEAR = 0.7
"""Share of the best sentence's score from which on another one is quoted beside it."""


class PreparedQuestion(Record):
    """A question as chunks are read for it."""

    parsed: ParsedQuestion
    weights: Mapping[str, float]
    """Its content tokens, by how rare they are in general."""
    names: frozenset[str]
    """Its tokens that are written like names, and its numbers."""
    kind: AnswerType
    """Of the answer that is asked for, such as a date."""
    tokens: frozenset[str]
    """All of them, also those that are no content."""


class _Sentence(NamedTuple):
    """A sentence of a text by its tokens."""

    span: Span
    tokens: frozenset[str]
    """Each once, for comparing."""
    written: tuple[str, ...]
    """The tokens in reading order."""


class _Passage(NamedTuple):
    """A text, or two neighbouring sentences of it."""

    sentences: Sequence[_Sentence]
    tokens: Set[str]

    def count_tokens(self) -> int:
        """How many tokens the passage has, repeated ones included; ``tokens`` holds each once.

        Features divide by it: the same words say more in a short text.
        """
        return sum(len(sentence.written) for sentence in self.sentences)


UNREADABLE_LOGIT = -12.0
"""Of a chunk without a word in it, and of every chunk when the query has none."""


@dataclass(kw_only=True, slots=True)
class ChunkReading:
    """A chunk, or the best window of a long one, read for one query."""

    question: PreparedQuestion
    text: str = ""
    read: Sequence[_Sentence] = ()
    """The sentences of the text, and in ``sentences`` their places in the whole chunk."""
    sentences: tuple[Span, ...] = ()
    features: tuple[float, ...] = (0.0,) * len(LEXICAL_FEATURES)
    """As `LEXICAL_FEATURES` names them."""
    local: Mapping[str, float] = field(default_factory=dict[str, float])
    """The query's tokens, by how rare they are in the pool."""
    logit: float = UNREADABLE_LOGIT
    """That the text holds an answer, by words."""

    def quoted(self) -> tuple[Span, ...]:
        """The places of the sentences to quote: the best one, and one nearly as good.

        A verdict shows them as evidence for the chunk. Neighbours become one span.
        """
        scores = [self._score(sentence) for sentence in self.read]
        # Sorting keeps the order of equals: the earlier sentence wins.
        ranked = sorted(range(len(scores)), key=lambda position: -scores[position])
        lowest_score = _NEAR * max(scores, default=0.0)
        quoted_positions: list[int] = []
        # At most two, and the second only if it is nearly as good.
        for position in ranked[:_MOST_QUOTED]:
            if scores[position] >= lowest_score:
                quoted_positions.append(position)
        spans: list[Span] = []
        previous = -2  # no position is right behind this one
        for position in sorted(quoted_positions):
            start = self.sentences[position].start
            if position == previous + 1:
                # Joined with the sentence before, which is quoted as well.
                start = spans.pop().start
            spans.append(Span(start, self.sentences[position].end))
            previous = position
        return tuple(spans)

    def _score(self, sentence: _Sentence) -> float:
        """How much a sentence speaks for an answer, to choose the sentences that are quoted.

        The score only orders sentences of one chunk: no probability is made of it.
        """
        question = self.question
        coverage = _coverage(question.weights, sentence.tokens)
        coverage_in_pool = _coverage(self.local, sentence.tokens)
        share_of_pairs = _pair_share(question, [sentence])
        # Two coverages that count twice, and a share: at most 5 in all.
        score = (2 * (coverage + coverage_in_pool) + share_of_pairs) / 5
        if question.kind is not AnswerType.OTHER:
            text = self.text[sentence.span.start : sentence.span.end]
            score += _TYPE_BONUS * holds_type(text, question.kind, question.tokens)
        return score


def prepare_question(query: str, rarity: Callable[[str], float]) -> PreparedQuestion:
    """A question prepared once for all of its chunks: rarity of its tokens, names, kind.

    The kind is that of the answer, such as a date.

    To parse it anew for each chunk would take longer than to read the chunk.

    Args:
        rarity: gives the weight of a token by how rare it is in general.
    """
    parsed = parse_question(query)
    names: set[str] = set()
    for word in named_words(query):
        # Only names that are words of the question: its first word has a capital anyway.
        names.update(tokenise(word))
    return PreparedQuestion(
        parsed=parsed,
        weights={token: rarity(token) for token in parsed.tokens},
        names=frozenset(names.intersection(parsed.tokens)),
        kind=asked_type(query),
        tokens=frozenset(tokenise(query)),
    )


def read_pool(question: PreparedQuestion, texts: Sequence[str]) -> list[ChunkReading]:
    """The features of all chunks that were retrieved for one query: the pool.

    Coverage is the share of the query's content tokens that a text holds, each weighted by its
    rarity: in general, or (``pool_coverage``) among the chunks of this pool, where the topic that
    all of them share says nothing. ``behind`` and ``pool_behind`` compare with the pool's best. The
    weights were learned from these features: any change of one wants new weights.
    """
    weights = question.weights
    pool = [_passage(text) for text in texts]
    local = _rarity_in_pool(weights, pool)
    windows = [_best_window(weights, passage) for passage in pool]
    coverages = [_coverage(weights, window.tokens) for window in windows]
    pool_coverages = [_coverage(local, _best_window(local, passage).tokens) for passage in pool]
    best = max(coverages, default=0.0)
    best_in_pool = max(pool_coverages, default=0.0)
    # 1.0 where no token has a weight, so that nothing is divided by 0.
    rarest = max(weights.values(), default=0.0) or 1.0
    # Of any other kind nothing can agree or disagree.
    has_kind = question.kind is not AnswerType.OTHER
    readings: list[ChunkReading] = []
    for text, passage, window, coverage, pool_coverage in zip(
        texts, pool, windows, coverages, pool_coverages, strict=True
    ):
        # In the window, which is what seems to answer.
        agrees = has_kind and holds_type(_text_of(window, text), question.kind, question.tokens)
        sentence_coverages = [_coverage(weights, sentence.tokens) for sentence in passage.sentences]
        # The weights were learned from these very numbers: another divisor wants other weights.
        features = {
            "sentence_coverage": max(sentence_coverages, default=0.0),
            "window_coverage": coverage,
            "chunk_coverage": _coverage(weights, passage.tokens),
            "pool_coverage": pool_coverage,
            "pair_share": _pair_share(question, window.sentences),
            # The worth of the rarest token that is missing, as a share of the rarest one's.
            "rarest_missing": _rarest_missing(weights, window.tokens) / rarest,
            "names_missing": _share_missing(question.names, window.tokens),
            "type_agrees": float(agrees),
            "type_disagrees": float(has_kind and not agrees),
            "behind": best - coverage,
            "pool_behind": best_in_pool - pool_coverage,
            "density": len(weights.keys() & window.tokens) / max(8, window.count_tokens()),
            "query_tokens": min(1.0, len(weights) / 16),
            "chunk_tokens": min(1.0, passage.count_tokens() / 400),
        }
        readings.append(
            ChunkReading(
                question=question,
                text=text,
                read=passage.sentences,
                # By name, in the order in which the weights were learned.
                features=tuple([features[name] for name in LEXICAL_FEATURES]),
                local=local,
            )
        )
    return readings


# The same chunks come back for many queries.
@lru_cache(maxsize=4096)
def _passage(text: str) -> _Passage:
    """A text as a passage: its sentences, each with its tokens.

    To split a text takes long, and many queries retrieve the same one: passages are kept.
    """
    sentences: list[_Sentence] = []
    all_tokens: set[str] = set()
    for span in split_sentences(text):
        tokens = tokenise(text[span.start : span.end])
        sentences.append(_Sentence(span, frozenset(tokens), tuple(tokens)))
        all_tokens.update(tokens)
    return _Passage(sentences, all_tokens)


def _text_of(window: _Passage, text: str) -> str:
    """The part of a text from a window's first sentence to its last.

    Whether it holds the kind of answer that is asked for, such as a date, is looked up in it.
    """
    if not window.sentences:
        return ""
    start = window.sentences[0].span.start
    end = window.sentences[-1].span.end
    return text[start:end]


def _rarity_in_pool(tokens: Iterable[str], pool: Sequence[_Passage]) -> dict[str, float]:
    """The weight of each token by how rare it is among the chunks of a pool.

    A token that all chunks hold is worth nearly nothing: it tells none from another. The formula is
    that of `shipped_rarity`.

    A pool is the chunks that were retrieved for one query.

    The validator's weights were learned with this number: another one wants new weights.
    """
    rarity: dict[str, float] = {}
    for token in tokens:
        count = sum(token in passage.tokens for passage in pool)
        rarity[token] = math.log(1 + (len(pool) - count + 0.5) / (count + 0.5))
    return rarity


def _best_window(weights: Mapping[str, float], passage: _Passage) -> _Passage:
    """The two neighbouring sentences of a passage that cover most of a query; of equals, the first.

    An answer is often spread over two sentences, and seldom over the whole text.

    The validator's weights were learned with such windows: others want new weights.

    Args:
        weights: of the query's tokens.
    """
    sentences = passage.sentences
    # With one sentence or none there is no window to choose.
    if len(sentences) < 2:
        return passage
    # Most tokens are none of the query's: the sets that are compared are small.
    query_tokens = [weights.keys() & sentence.tokens for sentence in sentences]
    coverages = [
        _coverage(weights, tokens | next_tokens) for tokens, next_tokens in pairwise(query_tokens)
    ]
    position = coverages.index(max(coverages))
    sentence = sentences[position]
    next_sentence = sentences[position + 1]
    return _Passage((sentence, next_sentence), sentence.tokens | next_sentence.tokens)


def _coverage(weights: Mapping[str, float], tokens: Set[str]) -> float:
    """The share of a query that a text holds: the weight of the query's tokens in it, out of all.

    A text that holds the rare words of a question is likely to be about it.

    The validator's weights were learned with this number: another one wants new weights.

    Args:
        weights: of the query's tokens.
        tokens: of the text.
    """
    # A query without content tokens is covered by nothing.
    total = sum(weights.values())
    if total <= 0:
        return 0.0
    covered = sum([weight for token, weight in weights.items() if token in tokens])
    return min(1.0, covered / total)  # rounding may carry it beyond 1


def _rarest_missing(weights: Mapping[str, float], tokens: Set[str]) -> float:
    """The weight of the rarest token of a query that a text does not hold; 0 if it holds all.

    A text without the rarest word of a question is rarely about what it asks.

    The validator's weights were learned with this number: another one wants new weights.
    """
    missing = [weight for token, weight in weights.items() if token not in tokens]
    return max(missing, default=0.0)


def _share_missing(names: frozenset[str], tokens: Set[str]) -> float:
    """The share of a question's names that a text does not hold.

    A text that speaks of something else lacks the question's names first.

    The validator's weights were learned with this number: another one wants new weights.
    """
    if not names:
        return 0.0
    return len(names - tokens) / len(names)


def _pair_share(question: PreparedQuestion, sentences: Sequence[_Sentence]) -> float:
    """The share of a question's neighbouring tokens that are neighbours in some sentence, too.

    Words of a question that are far from each other in a text seldom answer it.

    The validator's weights were learned with this number: another one wants new weights.
    """
    pairs = question.parsed.pairs
    if not pairs:
        return 0.0
    shared: set[tuple[str, str]] = set()
    for sentence in sentences:
        for pair in pairs:
            # The quick test first: most sentences lack one of the two.
            if sentence.tokens.issuperset(pair) and pair in pairwise(sentence.written):
                shared.add(pair)
    return len(shared) / len(pairs)


def read_in_windows(
    question: PreparedQuestion, texts: Sequence[str], model: LinearModel
) -> list[ChunkReading]:
    """Reads all chunks of a pool, with the logit that each holds an answer.

    Of a long chunk the best window counts: in the whole chunk the words of a question would be
    somewhere, far from each other.

    A pool is the chunks that were retrieved for one query.
    """
    windows: list[tuple[int, Span]] = []
    window_texts: list[str] = []
    # Windows of all chunks are one pool: how rare a word is, and how far a window is behind the
    # best one (the feature "behind"), is counted over all windows.
    for number, text in enumerate(texts):
        for window in windows_of(text):
            windows.append((number, window))
            window_texts.append(text[window.start : window.end])
    readings = read_pool(question, window_texts)
    # A chunk without a window, as an empty one, keeps the logit of what cannot be read.
    best = [ChunkReading(question=question) for _ in texts]
    is_read: set[int] = set()
    for (number, window), reading in zip(windows, readings, strict=True):
        # Without a content token every chunk keeps the logit of what cannot be read.
        if question.weights:
            reading.logit = model.logit(reading.features)
        # The first window in any case, then only better ones.
        if number not in is_read or reading.logit > best[number].logit:
            reading.sentences = tuple(_moved_spans(reading.read, window.start))
            best[number] = reading
            is_read.add(number)
    return best


def _moved_spans(sentences: Sequence[_Sentence], offset: int) -> Iterator[Span]:
    """The places of a window's sentences in the whole text, moved by the window's offset.

    Quotes are places in the chunk, whatever windows it was read in.
    """
    for sentence in sentences:
        span = sentence.span
        yield Span(offset + span.start, offset + span.end)


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
        """The validator's identity: tokeniser, sentence splitter, weights and limits.

        Stored verdicts are reused while the identity is equal, so that it has to hold all that
        changes a verdict.
        """
        digest = shipped_weights(self.name, self.features).digest
        return f"lexical:{TOKENISER_VERSION}.{SENTENCES_VERSION}:{digest}:{self.limits.identity}"

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        """The verdict on a query's chunks by their words alone; no model is asked.

        Any language is taken.
        """
        # Each chunk has an id of its own afterwards, by which the verdict names it.
        intake = inspect_chunks(query, chunks)
        ask_pool = partial(self._findings, intake.chunks)
        return decide(query, intake, ask_pool, self.limits, validator=self.name)

    def _findings(self, chunks: Sequence[Chunk], part: QueryPart) -> list[Finding]:
        """The finding in each chunk: how probably it answers a question, and places to quote.

        Only relevant chunks get places to quote and a reason: the others are never shown.

        Args:
            part: the query, or one question in it.
        """
        weights = shipped_weights(self.name, self.features)
        limits = self.limits
        question = part.text
        # Blanked, not cut out: positions in the chunk stay.
        texts = [without_echo(question, chunk.text) for chunk in chunks]
        prepared = prepare_question(question, shipped_rarity)
        readings = read_in_windows(prepared, texts, weights.chunk)
        findings: list[Finding] = []
        for chunk, reading in zip(chunks, readings, strict=True):
            # Without a number of chunks, `probability` takes the largest that was measured.
            finding = Finding(chunk=chunk, probability=weights.probability(reading.logit))
            # Only relevant chunks are quoted.
            if limits.on_scale(finding.probability) >= limits.thresholds.relevant:
                finding = replace(
                    finding, spans=reading.quoted(), reason=_reason_of_reading(reading)
                )
            findings.append(finding)
        return findings


def _reason_of_reading(reading: ChunkReading) -> str:
    """The reason for a relevant chunk in words: how much of the question it holds.

    The share is that of the sentences that are quoted.
    """
    # The names belong to the numbers by position.
    features = dict(zip(LEXICAL_FEATURES, reading.features, strict=True))
    subject = "one sentence holds"
    if len(reading.sentences) > 1:
        subject = "two sentences hold"
    reason = f"{subject} {features['window_coverage']:.0%} of what the query asks about"
    if features["type_agrees"]:
        return f"{reason}, and something of the kind asked for"
    if features["type_disagrees"]:
        return f"{reason}, and nothing of the kind asked for"
    return reason
