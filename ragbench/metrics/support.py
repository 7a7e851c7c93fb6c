"""Is each sentence of the answer supported, by which words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from ragbench.core.chat import task_messages
from ragbench.core.metric import Cost, Direction, Group, Metric, MetricDefinition, Need
from ragbench.core.outcome import Cell, Failure, Judgement, JudgeStep, Quote
from ragbench.core.record import replace
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError, LLMError, LLMStoppedError
from ragbench.llm.schema import Schema, schema_of
from ragbench.metrics.grounds import Passage, around, lacks, sentences_of
from ragbench.metrics.judging import digest_of, mean_cell, step_of
from ragbench.text.citations import without_sources
from ragbench.text.declining import RULES
from ragbench.text.quotes import find_quote, says_enough
from ragbench.text.tables import table

if TYPE_CHECKING:
    from ragbench.llm.session import ModelClients

_VALUES = {"not_supported": 0.0, "partially_supported": 0.5, "supported": 1.0}
_MOST = 30
"""Sentences that one question asks about: an answer to more would be cut off."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceVerdict:
    number: int
    reason: str
    """Before the verdict: a model that has to explain first decides better."""
    quotes: list[str]
    verdict: Literal["supported", "partially_supported", "not_supported", "no_claim"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SupportVerdicts:
    verdicts: list[SentenceVerdict]


class SupportJudge:
    """Computes the metric ``support``: a verdict for each sentence of the answer.

    Each quote of the judge is looked up in the contexts, and held against the sentence. A verdict
    of support that no quote proves is *unproved*: it has no value. One of no support needs none.
    """

    def __init__(self) -> None:
        self._schema: Schema[SupportVerdicts] = schema_of(SupportVerdicts)
        self._task: str = table("ragbench.text", "prompts")["support"]
        self._digest = digest_of([self._task, _MOST, self._schema.definition])

    def identity(self) -> Mapping[str, str]:
        return {"prompts": self._digest}

    def prepare(self, metric: Metric) -> str:
        return self._digest

    async def judge(
        self, metric: Metric, trace: Trace, panel: ModelClients, repeat: int
    ) -> Judgement:
        if panel.chat is None:
            raise ConfigError(f"{metric.name} needs a language model, and none is named")
        result, answer = trace.context.value, trace.generation.value
        contexts = () if result is None else result.contexts
        texts = {place: text for place, text in enumerate(contexts) if text.strip()}
        asked = trace.case.conversation
        sentences = [] if answer is None else answer_sentences(answer.response)
        if not texts:
            return Judgement(cell=Cell.skipped("there are no contexts to judge the answer by"))
        if not sentences:
            return Judgement(cell=Cell.skipped("the answer says nothing"))
        texts.update(enumerate(trace.case.told, start=len(contexts)))
        steps: list[JudgeStep] = []
        for first in range(0, len(sentences), _MOST):
            part = sentences[first : first + _MOST]
            try:
                reply = await panel.chat.ask(
                    task_messages(self._task, _question(part, texts, asked)),
                    schema=replace(self._schema, check=self._checked(len(part))),
                    purpose=metric.name,
                    version=str(metric.definition.version),
                    repeat=repeat,
                )
            except LLMStoppedError:
                raise
            except LLMError as error:
                failure = Failure(type=type(error).__name__, message=str(error), stage="score")
                return Judgement(cell=Cell.failed(failure), steps=tuple(steps))
            said: list[dict[str, Any]] = []
            quotes: list[Quote] = []
            pairs = zip(part, reply.value.verdicts, strict=True)
            for number, (text, verdict) in enumerate(pairs, first + 1):
                found = [_looked_up(quote, texts) for quote in verdict.quotes]
                unproved = None
                if _VALUES.get(verdict.verdict):
                    whole = verdict.verdict == "supported"
                    unproved = _lacks(text, found, texts, asked, whole=whole)
                kept = {**asdict(verdict), "number": number, "sentence": text}
                said.append(kept if unproved is None else {**kept, "unproved": unproved})
                quotes += found
            steps.append(step_of(reply, "SupportVerdicts", {"verdicts": said}, quotes))
        return Judgement(cell=_cell(steps), steps=tuple(steps))

    def _checked(self, count: int) -> Callable[[object], SupportVerdicts]:
        """Wants a verdict for each sentence: what is forgotten must not pass for what never was."""

        def check(value: object) -> SupportVerdicts:
            found = self._schema.check(value)
            ordered = sorted(found.verdicts, key=lambda one: one.number)
            if [one.number for one in ordered] != list(range(1, count + 1)):
                raise ValueError(f"verdicts: one for each of the statements 1 to {count} is wanted")
            return SupportVerdicts(verdicts=ordered)

        return check


def answer_sentences(response: str) -> list[str]:
    """The sentences of an answer that hold a word; a list of sources is none."""
    response = without_sources(response)
    spans = (response[span.start : span.end] for span in sentences_of(response))
    return [text for text in spans if any(map(str.isalpha, text))]


def _question(sentences: Sequence[str], texts: Mapping[int, str], query: str) -> str:
    question = {
        "evidence": list(texts.values()),
        "statements": [f"{at}. {text}" for at, text in enumerate(sentences, 1)],
        "question": query,
    }
    return json.dumps(question, ensure_ascii=False)


def _looked_up(quote: str, texts: Mapping[int, str]) -> Quote:
    """A quote with its place; the places of contexts count those that are blank."""
    place = find_quote(quote, list(texts.values()))
    if place is None:
        return Quote(text=quote)
    context = list(texts)[place.text]
    return Quote(text=quote, context=context, start=place.span.start, end=place.span.end)


def _lacks(
    sentence: str, quotes: Sequence[Quote], texts: Mapping[int, str], query: str, *, whole: bool
) -> str | None:
    """What is wrong with the proof of a verdict of support; None where nothing is."""
    if not quotes:
        return "the judge says that it is supported and quotes nothing"
    there: list[Passage] = []
    for quote in quotes:
        if quote.context is not None and quote.start is not None and quote.end is not None:
            text = texts[quote.context]
            near = around(text, quote.start, quote.end)
            there.append(Passage(text[quote.start : quote.end], near, text))
    if not there:
        return "no quote of the judge stands in the contexts"
    if not any(says_enough(one.quote, one.text) for one in there):
        return "the judge quotes single words, which prove nothing"
    return lacks(sentence, query, there, whole=whole)


def _cell(steps: Sequence[JudgeStep]) -> Cell:
    cells = [
        Cell.unproved(one["unproved"]) if "unproved" in one else Cell.measured(_VALUES[verdict])
        for step in steps
        for one in step.answer["verdicts"]
        if (verdict := one["verdict"]) in _VALUES
    ]
    return mean_cell(cells) if cells else Cell.skipped("the judge found nothing to check")


DEFINITIONS: tuple[MetricDefinition, ...] = (
    MetricDefinition(
        name="support",
        group=Group.GENERATOR,
        needs=frozenset({Need.RESPONSE, Need.RETRIEVED_CONTEXTS, Need.LLM}),
        direction=Direction.HIGHER,
        version=3 + RULES,
        summary="Share of the answer's sentences that the contexts support, half for a part; "
        "unproved where no quote of the judge shares the sentence's words",
        citation="ragbench; after the labels of Kamoi et al. 2023, WiCE, arXiv:2303.01432",
        scorer="ragbench.metrics.support:SupportJudge",
        extra="llm",
        cost=Cost.LLM,
        calls="1",
        abstains=True,
    ),
)
