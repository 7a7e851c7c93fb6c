"""The validator that asks a language model, and believes only what it can find in the chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.errors import ConfigError
from ragbench.llm.chat import ChatModel
from ragbench.records.corpus import Chunk
from ragbench.records.validation import Validation
from ragbench.text.sentences import Span
from ragbench.validation.intake import take_in
from ragbench.validation.judged import Judgement, Limits, limits_for
from ragbench.validation.llm_answer import PROMPT_VERSION, LlmAnswer, ask_about
from ragbench.validation.locate_quote import locate_quote
from ragbench.validation.verdict_rule import Finding, Thresholds
from ragbench.validation.windows import windows_of

__all__ = ["LlmValidator"]

_UNPROVED = 0.25
"""At most so probable is a chunk that the model calls relevant without a quote that stands in it,
and an answer that it calls present without any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Passage:
    place: int
    """The chunk's."""
    window: Span
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """What is left of the model's answers after its quotes were looked for."""

    relevance: list[float]
    """A chunk."""
    spans: list[set[Span]]
    quotes: int
    fabricated: int
    """Quotes that stand nowhere in their chunk."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmValidator:
    """Asks which passages answer the query and for quotes; code looks each quote up in its chunk.

    A quote that does not stand there is dropped and counted in ``details["fabricated_quotes"]``;
    nothing counts as relevant or present that no quote proves. Its confidences are the model's own:
    calibrate them before relying on a precision.
    """

    chat: ChatModel
    """The language model; with a cache, the same input gives the same verdict."""
    characters: int = 24_000
    """How much text one question to the model holds; more chunks than that are asked about in
    several, and longer chunks in windows."""
    calibration: str | None = None
    """A file that ``ragbench calibrate`` wrote."""
    relevant: float | None = None
    """Confidence from which on a chunk is relevant; None for 0.5."""
    present: float | None = None
    """Confidence from which on the answer is present; None for 0.5."""

    def __post_init__(self) -> None:
        """Refuses settings out of their range."""
        if self.characters < 200:
            raise ConfigError("llm: characters must be at least 200")
        _ = self.limits

    @property
    def name(self) -> str:
        """``"llm"``."""
        return "llm"

    @property
    def identity(self) -> str:
        """Names the prompt, the model and the limits."""
        asked = f"{PROMPT_VERSION}:{self.chat.name}:{self.characters}"
        return f"llm:{asked}:{self.limits.identity}"

    @property
    def limits(self) -> Limits:
        """Its calibration and thresholds."""
        return limits_for(
            self.name,
            Thresholds(relevant=0.5, present=0.5),
            calibration=self.calibration,
            relevant=self.relevant,
            present=self.present,
        )

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Validation:
        """Judges what was retrieved for one query; see `ragbench.validation.validator`.

        Raises:
            LLMError: the model gives no usable answer.
        """
        intake = take_in(query, chunks)
        passages = self._passages(intake.chunks) if query.strip() else []
        found = _Found(
            relevance=[0.0] * len(intake.chunks),
            spans=[set() for _ in intake.chunks],
            quotes=0,
            fabricated=0,
        )
        probability = 0.0
        for batch in self._batches(passages):
            answer = ask_about(self.chat, query, [one.text for one in batch])
            found = _looked_up(answer, batch, intake.chunks, found)
            probability = max(probability, _present(answer, found))
        judgement = Judgement(
            query=query,
            intake=intake,
            findings=[
                Finding(chunk=chunk, probability=relevance, spans=sorted(spans))
                for chunk, relevance, spans in zip(
                    intake.chunks, found.relevance, found.spans, strict=True
                )
            ],
            answer_probability=probability,
            reasons=_about_quotes(found),
            details={
                "quotes": float(found.quotes),
                "fabricated_quotes": float(found.fabricated),
            },
        )
        return judgement.verdict(self.limits, self.name)

    def _passages(self, chunks: Sequence[Chunk]) -> list[_Passage]:
        return [
            _Passage(place=place, window=window, text=chunk.text[slice(*window)])
            for place, chunk in enumerate(chunks)
            for window in windows_of(chunk.text, characters=self.characters)
        ]

    def _batches(self, passages: Sequence[_Passage]) -> list[list[_Passage]]:
        batches: list[list[_Passage]] = []
        size = 0
        for passage in passages:
            if not batches or size + len(passage.text) > self.characters:
                batches.append([])
                size = 0
            batches[-1].append(passage)
            size += len(passage.text)
        return batches


def _looked_up(
    answer: LlmAnswer, batch: Sequence[_Passage], chunks: Sequence[Chunk], known: _Found
) -> _Found:
    """The answer's quotes, looked for in the passages that it names."""
    relevance, spans = list(known.relevance), [set(one) for one in known.spans]
    quotes, fabricated = known.quotes, known.fabricated
    for said in answer.passages:
        passage = batch[said.number - 1]
        proved = False
        for quote in said.quotes:
            quotes += 1
            span = locate_quote(quote, passage.text)
            if span is None:
                fabricated += 1
                continue
            proved = True
            shift = passage.window.start
            spans[passage.place].add(Span(span.start + shift, span.end + shift))
        confidence = said.confidence if proved else min(said.confidence, _UNPROVED)
        relevance[passage.place] = max(relevance[passage.place], confidence)
    return _Found(relevance=relevance, spans=spans, quotes=quotes, fabricated=fabricated)


def _present(answer: LlmAnswer, found: _Found) -> float:
    if not answer.answer_present:
        return 1 - max(answer.confidence, 0.5)
    return answer.confidence if any(found.spans) else min(answer.confidence, _UNPROVED)


def _about_quotes(found: _Found) -> list[str]:
    if not found.fabricated:
        return []
    stand = "stands" if found.fabricated == 1 else "stand"
    return [
        f"{found.fabricated} of {found.quotes} quotes of the model {stand} nowhere in their chunk "
        "and do not count"
    ]
