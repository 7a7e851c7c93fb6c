"""The validator that asks a language model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ragbench.core.case import Said
from ragbench.core.chat import ChatModel, Message, task_messages
from ragbench.core.checked import Checked
from ragbench.core.chunk import Chunk
from ragbench.core.validation import Verdict
from ragbench.errors import LLMReplyError
from ragbench.llm.schema import Schema, read_structure
from ragbench.text.quotes import locate_quote, says_enough
from ragbench.text.sentences import Span, windows_of
from ragbench.text.tables import table
from ragbench.validators.calibration import CalibratedValidator, DecisionRule, Thresholds
from ragbench.validators.inspect import inspect_chunks
from ragbench.validators.verdict import Finding, decide

PROMPT_VERSION = "2"
"""Changes whenever the model is asked otherwise."""


_Confidence = Annotated[float, Meta(ge=0, le=1)]


class _Said(Struct):
    number: int
    confidence: _Confidence
    quotes: list[str]
    """What it says it copied."""


class _Answer(Struct):
    passages: list[_Said]
    answer_present: bool
    confidence: _Confidence


def _ask(chat: ChatModel, query: str, texts: Sequence[str], history: Said) -> _Answer:
    """Asks a model which texts answer a query.

    An answer that is not as asked is objected to once. Passages that the second one names and that
    do not exist are skipped: the others still count.
    """

    def check(value: object) -> _Answer:
        answer: _Answer = msgspec.convert(value, _Answer)
        for one in answer.passages:
            if not 1 <= one.number <= len(texts):
                raise ValueError(f"passage {one.number} does not exist: there are {len(texts)}")
        return answer

    passages = [{"number": number, "text": text} for number, text in enumerate(texts, start=1)]
    # As JSON, no text can end its own quotation and go on as an instruction.
    before: dict[str, Any] = {"conversation": [*history]} if history else {}
    data = json.dumps({**before, "question": query, "passages": passages}, ensure_ascii=False)
    asked = f"{data}\n\nReply only with JSON that follows this JSON schema:\n"
    prompts, form = table("ragbench.text", "prompts"), table("ragbench.validators", "llm_answer")
    task = prompts["verdict"] + (prompts["verdict_before"] if history else "")
    messages = task_messages(task, asked + json.dumps(form))
    said = chat.complete(messages)
    try:
        return read_structure(said, Schema(definition=form, check=check))
    except LLMReplyError as error:
        objection = f"That is not as asked: {error}. Reply again, only with the JSON."
        messages += [
            Message(role="assistant", content=said),
            Message(role="user", content=objection),
        ]
        lenient = Schema(definition=form, check=partial(msgspec.convert, type=_Answer))
        answer: _Answer = read_structure(chat.complete(messages), lenient)
        there = [one for one in answer.passages if 1 <= one.number <= len(texts)]
        return replace(answer, passages=there)


_UNPROVED = 0.25
"""At most so probable is a chunk that the model calls relevant without a quote that proves it."""
_DENIED = 0.49
"""At most so probable is an answer that the model calls absent, however unsure it is of that."""


class _Passage(NamedTuple):
    place: int
    window: Span
    text: str


@dataclass(kw_only=True, slots=True)
class _Found:
    """What is left of the model's answers after its quotes were looked for."""

    relevance: list[float]
    spans: list[set[Span]]
    quotes: int = 0
    fabricated: int = 0
    """Quotes that stand nowhere in their chunk."""
    unproved: bool = False
    """Whether the model called the answer present and no quote proved it."""
    probability: float = 0.0

    def add(self, answer: _Answer, batch: Sequence[_Passage]) -> None:
        is_proved = False
        for said in answer.passages:
            place, window, text = batch[said.number - 1]
            found = [(quote, locate_quote(quote, text)) for quote in said.quotes]
            self.quotes += len(found)
            self.fabricated += sum(span is None for _, span in found)
            spans = {
                Span(span.start + window.start, span.end + window.start)
                for quote, span in found
                if span is not None and says_enough(quote, text)
            }
            self.spans[place] |= spans
            confidence = said.confidence if spans else min(said.confidence, _UNPROVED)
            self.relevance[place] = max(self.relevance[place], confidence)
            is_proved |= bool(spans)
        # A quote of another reply proves nothing of this one.
        if is_proved:
            denied = min(1 - max(answer.confidence, 0.5), _DENIED)
            probability = answer.confidence if answer.answer_present else denied
            self.probability = max(self.probability, probability)
        else:
            self.unproved |= answer.answer_present

    def reasons(self) -> Iterator[str]:
        if self.unproved and not self.probability:
            yield "the model calls the answer present, and none of its quotes proves it"
        if self.fabricated:
            yield (
                f"of {self.quotes} quotes of the model, {self.fabricated} not found in the chunk "
                "that it names: not counted"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmValidator(CalibratedValidator, Checked):
    """Asks which passages answer the query and for quotes; code looks each quote up in its chunk.

    A quote that does not stand there is dropped and counted in ``details["fabricated_quotes"]``; a
    single word proves nothing. An answer that the model calls present is so only when a quote of
    the same reply proves it; otherwise its probability is 0, and the query counts in
    ``details["unproved"]``. Confidences are the model's own: calibrate them before relying on a
    precision.
    """

    name = "llm"

    chat: ChatModel
    """The language model; with a cache, the same input gives the same verdict."""
    characters: Annotated[int, Meta(ge=200)] = 24_000
    """How much text one question to the model holds; more chunks than that are asked about in
    several, and longer chunks in windows."""

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        CalibratedValidator.__post_init__(self)

    @property
    def identity(self) -> str:
        asked = f"{PROMPT_VERSION}:{self.chat.name}:{self.characters}"
        return f"llm:{asked}:{self.limits.identity}"

    @property
    def measured(self) -> DecisionRule:
        return DecisionRule(thresholds=Thresholds(relevant=0.5, present=0.5))

    def validate(self, query: str, chunks: Sequence[Chunk], history: Said = ()) -> Verdict:
        intake = inspect_chunks(query, chunks)
        found = _Found(relevance=[0.0] * len(intake.chunks), spans=[set() for _ in intake.chunks])
        for batch in self._batches(intake.chunks) if query.strip() else ():
            found.add(_ask(self.chat, query, [one.text for one in batch], history), batch)
        looked_up = zip(intake.chunks, found.relevance, found.spans, strict=True)
        findings = [
            Finding(chunk=chunk, probability=relevance, spans=sorted(spans))
            for chunk, relevance, spans in looked_up
        ]
        return decide(
            query,
            intake,
            lambda _: findings,
            self.limits,
            validator=self.name,
            answer_probability=found.probability,
            reasons=[*found.reasons()],
            details={
                "quotes": float(found.quotes),
                "fabricated_quotes": float(found.fabricated),
                "unproved": float(found.unproved and not found.probability),
            },
        )

    def _batches(self, chunks: Sequence[Chunk]) -> list[list[_Passage]]:
        batches: list[list[_Passage]] = []
        size = 0
        for place, chunk in enumerate(chunks):
            for window in windows_of(chunk.text, characters=self.characters):
                length = window.end - window.start
                if not batches or size + length > self.characters:
                    batches.append([])
                    size = 0
                batches[-1].append(_Passage(place, window, chunk.text[slice(*window)]))
                size += length
        return batches
