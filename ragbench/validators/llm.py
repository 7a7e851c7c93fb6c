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
"""Changes whenever the prompt does."""

_Confidence = Annotated[float, Meta(ge=0, le=1)]


class _RelevantPassage(Struct):
    """A passage that the model calls relevant."""

    number: int
    confidence: _Confidence
    quotes: list[str]
    """Sentences that the model claims to have copied from it."""


class _Answer(Struct):
    """The model's reply about some passages."""

    passages: list[_RelevantPassage]
    answer_present: bool
    confidence: _Confidence


def _ask(chat: ChatModel, query: str, texts: Sequence[str], history: Said) -> _Answer:
    """Asks a language model which of some texts answer a query, and for quotes that prove it.

    A reply that breaks the schema is objected to once. Passages that the second reply names and
    that do not exist are skipped: the others still count.

    Quotes that are not in a text prove nothing: code checks them later.

    Args:
        history: the conversation before the query; empty without one.
    """
    # As JSON, no text can end its own quotation and go on as an instruction.
    data: dict[str, Any] = {}
    # Left out where there is none, so that prompts of single queries stay as they were.
    if history:
        data["conversation"] = list(history)
    data["question"] = query
    passages: list[dict[str, object]] = []
    # Numbered from 1, as the model names them.
    for number, text in enumerate(texts, start=1):
        passages.append({"number": number, "text": text})
    data["passages"] = passages
    # The schema is in a file of data: the model must follow it to the letter.
    form = table("ragbench.validators", "llm_answer")
    prompt = (
        f"{json.dumps(data, ensure_ascii=False)}\n\n"
        f"Reply only with JSON that follows this JSON schema:\n{json.dumps(form)}"
    )
    prompts = table("ragbench.text", "prompts")
    task = prompts["verdict"]
    if history:
        task += prompts["verdict_before"]
    messages = task_messages(task, prompt)
    reply = chat.complete(messages)
    # Strict at first: a number that does not exist is objected to.
    strict = Schema(definition=form, check=partial(_checked_answer, texts))
    try:
        return read_structure(reply, strict)
    except LLMReplyError as error:
        objection = f"That is not as asked: {error}. Reply again, only with the JSON."
        # The model sees its own reply before the objection.
        messages += [
            Message(role="assistant", content=reply),
            Message(role="user", content=objection),
        ]
    # Lenient at last: what the second reply says of existing passages still counts.
    lenient = Schema(definition=form, check=partial(msgspec.convert, type=_Answer))
    second_reply = chat.complete(messages)
    answer: _Answer = read_structure(second_reply, lenient)
    existing = [passage for passage in answer.passages if _exists(passage, texts)]
    return replace(answer, passages=existing)


def _checked_answer(texts: Sequence[str], value: object) -> _Answer:
    """The model's answer about some passages, from the parsed JSON of its reply.

    The answer names passages by number: only a number that was shown leads to a chunk.

    Args:
        texts: of the passages that the model was shown.
        value: the parsed JSON.

    Raises:
        ValueError: the answer names a passage that was not shown; the model is then asked again.
    """
    answer: _Answer = msgspec.convert(value, _Answer)
    for passage in answer.passages:
        if not _exists(passage, texts):
            raise ValueError(f"passage {passage.number} does not exist: there are {len(texts)}")
    return answer


def _exists(passage: _RelevantPassage, texts: Sequence[str]) -> bool:
    """Whether a passage that the model names was shown to it; passages are numbered from 1.

    A model may invent a number, and with it a source.
    """
    return 1 <= passage.number <= len(texts)


_UNPROVED = 0.25
"""At most so probable is a chunk that the model calls relevant without a quote that proves it."""
_DENIED = 0.49
"""At most so probable is an answer that the model calls absent, however unsure it is of that."""


class _Passage(NamedTuple):
    """A chunk, or a window of a long one, as the model is asked about it."""

    position: int
    """Of its chunk."""
    window: Span
    text: str


@dataclass(kw_only=True, slots=True)
class _Proof:
    """The model's answers, as far as its quotes prove them."""

    relevance: list[float]
    """Of each chunk, the model's confidence as far as it is proved."""
    spans: list[set[Span]]
    """Of each chunk, the places of quotes that were found there."""
    quotes: int = 0
    """All that the model gave."""
    fabricated: int = 0
    """Quotes that are nowhere in their chunk."""
    unproved: bool = False
    """Whether the model called the answer present and no quote proved it."""
    probability: float = 0.0
    """That of the answer: the best of all replies with a proof."""

    def add(self, answer: _Answer, batch: Sequence[_Passage]) -> None:
        """Takes in the model's answer about a batch of passages, as far as its quotes prove it.

        A model may call a passage relevant without a reason: a quote that is not in the passage, or
        none, leaves it improbable.

        Args:
            batch: the passages in the order of their numbers in the question to the model.
        """
        # Whether any quote of this reply proves anything.
        is_proved = False
        for relevant in answer.passages:
            # Numbers begin at 1; a reply with others was refused or cut before.
            passage = batch[relevant.number - 1]
            spans = self._proving_spans(relevant.quotes, passage)
            # A chunk may come in several windows, and in several batches.
            position = passage.position
            self.spans[position] |= spans
            confidence = relevant.confidence
            if spans:
                is_proved = True
            else:
                # Named without a proof: it stays possible, and is no answer.
                confidence = min(confidence, _UNPROVED)
            # Of the windows of a long chunk the best one counts.
            self.relevance[position] = max(self.relevance[position], confidence)
        # A quote of another reply proves nothing of this one.
        if not is_proved:
            # Once is enough: of several batches one may be proved and another not.
            self.unproved = self.unproved or answer.answer_present
            return
        probability = answer.confidence
        if not answer.answer_present:
            # The model's confidence is that there is no answer: only the rest of it, and never more
            # than `_DENIED`, is left for an answer.
            probability = min(1 - max(answer.confidence, 0.5), _DENIED)
        # Of several batches the surest answer counts.
        self.probability = max(self.probability, probability)

    def _proving_spans(self, quotes: Sequence[str], passage: _Passage) -> set[Span]:
        """The places in a chunk of the model's quotes that are there and say enough.

        Invented quotes are counted, since a reader should know of them.
        """
        start = passage.window.start
        spans: set[Span] = set()
        for quote in quotes:
            self.quotes += 1
            # In the passage that the model has seen, which may be a window of the chunk.
            span = locate_quote(quote, passage.text)
            if span is None:
                self.fabricated += 1
            elif says_enough(quote, passage.text):
                # A single word, which is in any text by chance, is not among them. From places in
                # the window to places in the chunk.
                spans.add(Span(span.start + start, span.end + start))
        return spans

    def reasons(self) -> Iterator[str]:
        """Sentences on the model's quotes that prove nothing, for the reasons of the verdict.

        A model that invents quotes is not to be relied on, even where it says Yes.
        """
        # Only where nothing was proved in any batch.
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

    A quote that is not there is dropped and counted in ``details["fabricated_quotes"]``; a
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
        """Checks the settings (`Checked`) and makes the rule of verdicts (`CalibratedValidator`).

        A call of only one of the two would leave a wrong setting, or a validator without a rule.
        """
        # Called by class, each once: `super()` would call the method of the first base only.
        Checked.__post_init__(self)
        CalibratedValidator.__post_init__(self)

    @property
    def identity(self) -> str:
        """The validator's identity: it changes with the prompt, the model and the limits.

        Stored verdicts are reused while the identity is equal.
        """
        # The number of characters decides how chunks are cut, and so what is asked.
        model = f"{PROMPT_VERSION}:{self.chat.name}:{self.characters}"
        return f"llm:{model}:{self.limits.identity}"

    @property
    def measured(self) -> DecisionRule:
        """The rule of verdicts without a calibration: one half for relevant and present.

        Each model has confidences of its own, and none was measured.
        """
        return DecisionRule(thresholds=Thresholds(relevant=0.5, present=0.5))

    def validate(self, query: str, chunks: Sequence[Chunk], history: Said = ()) -> Verdict:
        """The verdict on a query's chunks, for which the model is asked in batches.

        Only answers that a quote proves count. An empty query costs no call: nothing answers it.
        """
        intake = inspect_chunks(query, chunks, in_conversation=bool(history))
        # One entry for each chunk, by its position.
        proof = _Proof(relevance=[0.0] * len(intake.chunks), spans=[set() for _ in intake.chunks])
        # Nothing answers an empty query, and a call would cost.
        if query.strip():
            for batch in self._batches(intake.chunks):
                texts = [passage.text for passage in batch]
                proof.add(_ask(self.chat, query, texts, history), batch)
        findings: list[Finding] = []
        for chunk, relevance, spans in zip(
            intake.chunks, proof.relevance, proof.spans, strict=True
        ):
            # Sorted, since they come from a set.
            findings.append(Finding(chunk=chunk, probability=relevance, spans=sorted(spans)))
        return decide(
            query,
            intake,
            # The same findings for the query and its parts: the model has read the query whole.
            lambda _: findings,
            self.limits,
            validator=self.name,
            answer_probability=proof.probability,
            reasons=list(proof.reasons()),
            details={
                "quotes": float(proof.quotes),
                "fabricated_quotes": float(proof.fabricated),
                "unproved": float(proof.unproved and not proof.probability),
            },
        )

    def _batches(self, chunks: Sequence[Chunk]) -> list[list[_Passage]]:
        """The passages of all chunks, in batches that each fit into one question to the model.

        A chunk that is longer than a batch is cut into windows.
        """
        batches: list[list[_Passage]] = []
        size = 0
        for position, chunk in enumerate(chunks):
            for window in windows_of(chunk.text, characters=self.characters):
                length = window.end - window.start
                # Batches are filled in the chunks' order; a window fits into one by itself.
                if not batches or size + length > self.characters:
                    batches.append([])
                    size = 0
                text = chunk.text[window.start : window.end]
                batches[-1].append(_Passage(position, window, text))
                size += length
        return batches
