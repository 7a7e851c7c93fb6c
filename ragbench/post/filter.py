"""Operators that leave less: they drop chunks, or shorten their texts."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ragbench.core.chat import ChatModel
from ragbench.core.checked import Checked, Positive, Share
from ragbench.core.record import Record
from ragbench.llm.schema import ask_structure, ask_text
from ragbench.post.chunks import made_from, numbers_schema, passages_task, rewritten, sliced
from ragbench.post.operator import OperatorInput, OperatorOutput, RankedChunk
from ragbench.safe_text import counted
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.token_counter import APPROXIMATE, ESTIMATED, TokenCounter
from ragbench.text.tokens import normalise, tokenise


@dataclass(frozen=True, kw_only=True, slots=True)
class Nothing:
    """Leaves everything as it is."""

    name = "none"

    def apply(self, context: OperatorInput) -> Sequence[RankedChunk]:
        """The chunks as they came: the variant with which others are compared.

        In a comparison of variants it shows what the operators of the others do.
        """
        return context.chunks


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmFilter:
    """Asks a model once for all chunks and keeps those that it names, in their present order."""

    name = "filter.llm"

    chat: ChatModel
    """The language model."""

    def apply(self, context: OperatorInput) -> Sequence[RankedChunk]:
        """Asks the model which passages to keep, by their numbers, and keeps these.

        Without chunks nothing is asked.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        chunks = context.chunks
        if not chunks:
            return ()
        task = passages_task("choose", context.query.text, chunks)
        schema = numbers_schema("keep", len(chunks))
        numbers = ask_structure(self.chat, task, schema)
        # Models name passages in any order, and some of them twice.
        distinct_numbers = sorted(set(numbers))
        return [chunks[number - 1] for number in distinct_numbers]


@dataclass(frozen=True, kw_only=True, slots=True)
class Threshold(Checked):
    """Keeps chunks with a present score of at least ``min_score``, in their order.

    A chunk without a score is kept: nothing is known against it.
    """

    name = "filter.threshold"

    min_score: float
    """On the scale of whatever scored the chunks last."""

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """Keeps the chunks whose present score reaches the limit, and those without a score.

        A note counts the latter.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        passing: list[RankedChunk] = []
        unscored = 0
        for entry in context.chunks:
            if entry.score is None:
                unscored += 1
                passing.append(entry)
            elif entry.score >= self.min_score:
                passing.append(entry)
        notes: list[str] = []
        if unscored:
            total = len(context.chunks)
            notes.append(f"{unscored} of {counted(total, 'chunk')} had no score and were kept")
        return OperatorOutput(chunks=tuple(passing), notes=tuple(notes))


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenBudget(Checked):
    """Takes chunks in their order while their texts fit the budget.

    Tokens are counted text by text; what a format operator later puts around them is not part of
    it.
    """

    name = "filter.token_budget"

    budget: Positive
    """Tokens that the texts may have together."""
    policy: Literal["drop", "truncate"] = "drop"
    """``"drop"`` leaves out each chunk that does not fit and goes on with the next one.
    ``"truncate"`` cuts the first that does not fit behind the last of its sentences that does,
    and leaves out all that follow."""
    counter: TokenCounter = APPROXIMATE
    """Counter of tokens: approximate, tiktoken:ENCODING or tokenizers:PATH."""

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """Takes chunks in their order while their texts fit the budget of tokens.

        Each text is counted before it is taken. A note marks where counts are estimates.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        # What is left of the budget; ``truncate`` cuts the first text beyond it to this.
        remaining = self.budget
        fitting: list[RankedChunk] = []
        for entry in context.chunks:
            cost = self.counter.count(entry.chunk.text)
            if cost <= remaining:
                fitting.append(entry)
                remaining -= cost
            elif self.policy == "truncate":
                shortened = truncated(entry, remaining, self.counter, by=self.name)
                if shortened is not None:
                    fitting.append(shortened)
                break
        # Where the counter only estimates, the note says that the budget is not exact.
        notes = (ESTIMATED,) if self.counter.approximate else ()
        return OperatorOutput(chunks=tuple(fitting), notes=notes)


def truncated(
    entry: RankedChunk, budget: int, counter: TokenCounter, *, by: str
) -> RankedChunk | None:
    """A chunk with as many of its first sentences as a budget of tokens allows.

    None when not even the first sentence fits.

    Args:
        by: name of the operator that cuts, for the chunk's list of changes.
    """
    text = entry.chunk.text
    if counter.count(text) <= budget:
        return entry
    end = 0
    for sentence in split_sentences(text):
        # The whole beginning is counted: tokens of its sentences need not add up to it.
        if counter.count(text[: sentence.end]) > budget:
            break
        end = sentence.end
    if end == 0:
        return None
    return sliced(entry, [Span(0, end)], by=by)


@dataclass(frozen=True, kw_only=True, slots=True)
class TopK(Checked):
    """Keeps the first k chunks in their present order; all of them when there are fewer."""

    name = "filter.top_k"

    k: Positive
    """How many chunks to keep."""

    def apply(self, context: OperatorInput) -> Sequence[RankedChunk]:
        """Keeps the first k chunks, whatever ordered them.

        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        return context.chunks[: self.k]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dedup:
    """Keeps the first of the chunks that share an id or a text.

    Texts are compared in Unicode NFKC, with runs of white space as one space.
    """

    name = "filter.dedup"

    def apply(self, context: OperatorInput) -> Sequence[RankedChunk]:
        """Drops each chunk that repeats the id or text of an earlier one.

        The filter goes from the first chunk on, so that the best placed of several repeats stays.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        distinct: list[RankedChunk] = []
        ids: set[str] = set()
        texts: set[str] = set()
        for entry in context.chunks:
            id = entry.chunk.id
            normalised = unicodedata.normalize("NFKC", entry.chunk.text)
            text = " ".join(normalised.split())
            if id not in ids and text not in texts:
                distinct.append(entry)
            # Ids and texts of chunks that are left out count, too: a later chunk that has the id or
            # the text of one repeats it.
            ids.add(id)
            texts.add(text)
        return distinct


@dataclass(frozen=True, kw_only=True, slots=True)
class DedupNear(Checked):
    """Leaves out chunks that resemble an earlier kept one.

    The resemblance of two texts is the Jaccard index of their sets of shingles: runs of
    ``shingle`` words, without regard to case (Broder 1997, "On the resemblance and containment of
    documents"). It is computed exactly: among a query's candidates there is no need to estimate
    it by MinHash.
    """

    name = "filter.dedup_near"

    similarity: Share = 0.8
    """The resemblance in [0, 1] from which on a chunk is left out; 1 takes equal sets only."""
    shingle: Positive = 3
    """Words a shingle, at least 1."""

    def apply(self, context: OperatorInput) -> Sequence[RankedChunk]:
        """Drops each chunk that resembles one of those kept before it.

        A chunk that only resembles a dropped one stays.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        distinct: list[RankedChunk] = []
        distinct_shingles: list[set[str]] = []
        union: set[str] = set()
        for entry in context.chunks:
            shingles = _shingles(entry.chunk.text, self.shingle)
            # What resembles one text shares as much with all of them together, so that most are
            # told apart at one look. The small number keeps rounding from hiding a pair.
            may_resemble = len(shingles & union) >= self.similarity * len(shingles) - 1e-9
            if may_resemble and self._resembles_any(shingles, distinct_shingles):
                continue
            distinct.append(entry)
            distinct_shingles.append(shingles)
            union |= shingles
        return distinct

    def _resembles_any(self, shingles: set[str], earlier: Iterable[set[str]]) -> bool:
        """Whether a text resembles one of the earlier texts: their Jaccard index reaches the limit.

        Args:
            shingles: of the text: its runs of words.
        """
        for earlier_shingles in earlier:
            common = shingles & earlier_shingles
            union = shingles | earlier_shingles
            share = 1.0  # two texts without a word are the same
            if union:
                share = len(common) / len(union)
            if share >= self.similarity or math.isclose(share, self.similarity):
                return True
        return False


_LONGEST_MEAN_WORD = 12
"""Characters a word. Where words are longer on average, the script has no spaces."""


def _shingles(text: str, size: int) -> set[str]:
    """A text's runs of ``size`` words without regard to case, by which texts are compared.

    Where no spaces are written, runs of tokens. A text of fewer words is one run.
    """
    words = normalise(text).split()
    if len(text) > _LONGEST_MEAN_WORD * len(words):
        words = tokenise(text)
    if not words:
        return set()
    if len(words) < size:
        return {" ".join(words)}
    # Each column has the words moved by one more place: a row across the columns is a run.
    columns = [words[offset:] for offset in range(size)]
    # Texts and not tuples: thousands of tuples would keep the garbage collector busy.
    # Not strict: each column is one word shorter than the one before.
    return set(map(" ".join, zip(*columns, strict=False)))


# --- texts made shorter

SUMMARY_ID = "compress.abstractive"
"""The id of the chunk that stands for all with ``scope="all"``."""

NOTHING = "NOTHING"
"""What the model is asked to say of passages that do not bear on the question."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Abstractive(Checked):
    """Replaces texts by a summary for the question.

    With ``scope="each"`` a chunk keeps its id and gets a new text, at one call a chunk; one that
    says nothing about the question is left out, and one that its summary would not shorten stays
    as it is. With ``scope="all"`` one call makes one new chunk of all.
    """

    name = "compress.abstractive"

    chat: ChatModel
    """The language model."""
    scope: Literal["each", "all"] = "each"
    """Whether each chunk gets a summary of its own or all get one together."""
    budget: Positive | None = None
    """Most tokens of a summary; a longer one is cut behind a sentence. No limit when not
    given."""
    counter: TokenCounter = APPROXIMATE
    """Counter of tokens: approximate, tiktoken:ENCODING or tokenizers:PATH."""

    def apply(self, context: OperatorInput) -> Sequence[RankedChunk]:
        """Replaces texts by summaries, and cuts these to the budget at the end.

        The model is not asked for a length. A chunk that stays as it is must fit the budget, too.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        question = context.query.text
        summaries: list[RankedChunk] = []
        if self.scope == "each":
            for entry in context.chunks:
                shorter = self._with_summary(question, entry)
                if shorter is not None:
                    summaries.append(shorter)
        elif context.chunks:
            text = self._summary(question, context.chunks)
            if text:
                summary = made_from(context.chunks, text, id=SUMMARY_ID, by=self.name)
                summaries.append(summary)
        if self.budget is None:
            return summaries
        fitting: list[RankedChunk] = []
        for summary in summaries:
            # A text that was not summarised is cut, too: the budget is for all that is left.
            shorter = truncated(summary, self.budget, self.counter, by=self.name)
            if shorter is not None:
                fitting.append(shorter)
        return fitting

    def _with_summary(self, question: str, entry: RankedChunk) -> RankedChunk | None:
        """The chunk with its summary as text; None where it holds nothing about the question.

        A chunk that its summary would not shorten stays as it is.
        """
        summary = self._summary(question, [entry])
        if not summary:
            return None
        if self.counter.count(summary) >= self.counter.count(entry.chunk.text):
            return entry
        return rewritten(entry, summary, by=self.name)

    def _summary(self, question: str, entries: Sequence[RankedChunk]) -> str | None:
        """The model's summary of some chunks for the question.

        None where the model replied with the word for nothing; case and marks do not count.
        """
        text = ask_text(self.chat, passages_task("summarise", question, entries))
        if text.strip(" \n\t.!:*_`'\"").upper() == NOTHING:
            return None
        return text


def inverse_frequency(texts: int, holding: int) -> float:
    """The weight of a word by its rarity among texts: ``ln(1 + (N - n + 0.5) / (n + 0.5))``.

    Source: Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond".

    Args:
        texts: N, the number of texts.
        holding: n, how many of them hold the word.
    """
    return math.log1p((texts - holding + 0.5) / (holding + 0.5))


class QueryWords(Record, kw_only=False):
    """The query's words, each with what it is worth."""

    weights: Mapping[str, float]

    @classmethod
    def among(cls, query: str, texts: Sequence[str]) -> QueryWords:
        """The query's words, each weighted by its rarity among the texts (`inverse_frequency`).

        A word that is in all texts distinguishes none of them.
        """
        words_of_texts = [set(tokenise(text)) for text in texts]
        distinct_words = dict.fromkeys(tokenise(query))
        weights: dict[str, float] = {}
        for word in distinct_words:
            # A word counts once for each text, however often it is there.
            texts_with_word = 0
            for words in words_of_texts:
                texts_with_word += word in words
            weights[word] = inverse_frequency(len(texts), texts_with_word)
        return cls(weights)

    def held_by(self, text: str) -> set[str]:
        """The query's words that are in a text.

        What they are worth together is the relevance of the text.
        """
        return {word for word in tokenise(text) if word in self.weights}

    def worth(self, words: Iterable[str]) -> float:
        """The weight of some of the query's words together; 0 for none.

        Rounded once, whatever their order: a part never weighs more than its whole.
        """
        return math.fsum([self.weights[word] for word in words])


_Sentence = tuple[int, Span]
"""The place of a text among the chunks, and a sentence of it."""
_NEARLY = 0.9
"""Share of the budget from which on the first sentence that does not fit is the last one tried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Extractive(Checked):
    """Keeps the most relevant sentences of all chunks that fit a budget of tokens.

    The relevance of a sentence is the share of the question's words that it holds, each weighted
    by its inverse document frequency among the chunks, ``ln(1 + (N - n + 0.5) / (n + 0.5))``
    (Robertson & Zaragoza 2009). Sentences are taken by falling relevance; of equals, the one whose
    chunk stands first, then the earlier. One that does not fit is left out and the next is tried,
    until nine tenths of the budget are used. What is kept stands in its old order, and a chunk
    without a sentence kept is left out.

    A sentence that shares no word with the question is never kept, except when none in any chunk
    does: then sentences are taken in reading order, and a note says so.
    """

    name = "compress.extractive"

    budget: Positive
    """Tokens that the sentences may have together, counted sentence by sentence."""
    counter: TokenCounter = APPROXIMATE
    """Counter of tokens: approximate, tiktoken:ENCODING or tokenizers:PATH."""

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """Keeps the most relevant sentences of all chunks, ranked in one list, that fit the budget.

        So a chunk that says little leaves its room in the budget to the others.
        Another result needs a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        texts = [entry.chunk.text for entry in context.chunks]
        if not texts:
            return OperatorOutput(chunks=())
        notes = [ESTIMATED] if self.counter.approximate else []
        query = QueryWords.among(context.query.text, texts)
        all_sentences: list[_Sentence] = []
        relevant: list[tuple[float, _Sentence]] = []
        for place, text in enumerate(texts):
            for span in split_sentences(text):
                all_sentences.append((place, span))
                words_held = query.held_by(text[span.start : span.end])
                worth = query.worth(words_held)
                if worth:
                    relevant.append((-worth, (place, span)))
        if relevant:
            # The most relevant first; of equals, the first in reading order.
            candidates = [sentence for _, sentence in sorted(relevant)]
        else:
            notes.append("no sentence shares a word with the question: the first ones were kept")
            candidates = all_sentences
        fitting = self._fitting_sentences(texts, candidates)
        chunks: list[RankedChunk] = []
        for place, entry in enumerate(context.chunks):
            if place in fitting:
                stretches = _stretches_of_sentences(sorted(fitting[place]), entry.chunk.text)
                chunks.append(sliced(entry, stretches, by=self.name))
        return OperatorOutput(chunks=tuple(chunks), notes=tuple(notes))

    def _fitting_sentences(
        self, texts: Sequence[str], sentences: Iterable[_Sentence]
    ) -> dict[int, list[Span]]:
        """The sentences that fit the budget of tokens, by the place of their text.

        Args:
            sentences: the most relevant first.
        """
        used = 0
        fitting: dict[int, list[Span]] = {}
        for place, span in sentences:
            text = texts[place]
            cost = self.counter.count(text[span.start : span.end])
            # A sentence that does not fit makes room for shorter ones behind it, until little is
            # left.
            if used + cost <= self.budget:
                used += cost
                fitting.setdefault(place, []).append(span)
            elif used >= _NEARLY * self.budget:
                break
            if used == self.budget:
                break
        return fitting


def _stretches_of_sentences(spans: Sequence[Span], text: str) -> list[Span]:
    """Sentences of a text as stretches: those with only white space between them are one.

    So neighbours keep what is between them, such as a paragraph's end.
    """
    stretches: list[Span] = []
    for span in spans:
        if not stretches:
            stretches.append(span)
            continue
        previous = stretches[-1]
        # Between the two only: other sentences would be text that was not chosen.
        between = text[previous.end : span.start]
        if between.strip():
            stretches.append(span)
        else:
            stretches[-1] = Span(previous.start, span.end)
    return stretches
