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
from ragbench.llm.schema import Schema, schema_of
from ragbench.metrics.grounds import Passage, around, lacks, sentences_of
from ragbench.metrics.judging import ask_judge, digest_of, mean_cell, step_of
from ragbench.text.citations import without_sources
from ragbench.text.declining import RULES
from ragbench.text.quotes import find_quote, says_enough
from ragbench.text.tables import table

if TYPE_CHECKING:
    from ragbench.llm.session import ModelClients

_VALUES = {"not_supported": 0.0, "partially_supported": 0.5, "supported": 1.0}
"""The value of each verdict; "no_claim" has none: such a sentence counts nowhere."""
_MOST_SENTENCES = 30
"""Sentences that one question asks about: an answer to more would be cut off."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceVerdict:
    """What the judge says of one sentence; its fields are asked for in this order."""

    number: int
    reason: str
    """Before the verdict: a model that has to explain first decides better."""
    quotes: list[str]
    verdict: Literal["supported", "partially_supported", "not_supported", "no_claim"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SupportVerdicts:
    """The judge's answer to one question."""

    verdicts: list[SentenceVerdict]


class SupportJudge:
    """Computes the metric ``support``: a verdict for each sentence of the answer.

    Each quote of the judge is looked up in the contexts, and held against the sentence. A verdict
    of support that no quote proves is *unproved*: it has no value. One of no support needs none.
    """

    def __init__(self) -> None:
        self._schema: Schema[SupportVerdicts] = schema_of(SupportVerdicts)
        self._task: str = table("ragbench.text", "prompts")["support"]
        self._digest = digest_of([self._task, _MOST_SENTENCES, self._schema.definition])

    def identity(self) -> Mapping[str, str]:
        """The digest of the prompts: other words in them judge anew."""
        return {"prompts": self._digest}

    def prepare(self, metric: Metric) -> str:
        """The digest of the prompts, which are the same for every setting of the metric."""
        return self._digest

    async def judge(
        self, metric: Metric, trace: Trace, panel: ModelClients, repeat: int
    ) -> Judgement:
        """Judges an answer sentence by sentence, in as few questions as their number allows."""
        contexts = _contexts_of(trace)
        # By their places among all contexts, which quotes name.
        texts = {place: text for place, text in enumerate(contexts) if text.strip()}
        if not texts:
            return Judgement(cell=Cell.skipped("there are no contexts to judge the answer by"))
        answer = trace.generation.value
        sentences: list[str] = []
        if answer is not None:
            sentences = answer_sentences(answer.response)
        if not sentences:
            return Judgement(cell=Cell.skipped("the answer says nothing"))
        # What the user said before supports the answer, too; it is shown behind the contexts.
        texts.update(enumerate(trace.case.told, start=len(contexts)))
        query = trace.case.conversation
        steps: list[JudgeStep] = []
        for start in range(0, len(sentences), _MOST_SENTENCES):
            part = sentences[start : start + _MOST_SENTENCES]
            messages = task_messages(self._task, _question(part, texts, query))
            schema = replace(self._schema, check=self._check_for(len(part)))
            reply = await ask_judge(metric, panel, messages, schema, repeat)
            if isinstance(reply, Failure):
                return Judgement(cell=Cell.failed(reply), steps=tuple(steps))
            rows: list[dict[str, Any]] = []
            quotes: list[Quote] = []
            for sentence, verdict in zip(part, reply.value.verdicts, strict=True):
                sentence_quotes = [_located(quote, texts) for quote in verdict.quotes]
                row = asdict(verdict)
                # The judge counts within its question, a reader within the answer.
                row["number"] = start + verdict.number
                row["sentence"] = sentence
                unproved = _missing_proof(sentence, verdict, sentence_quotes, texts, query)
                if unproved is not None:
                    row["unproved"] = unproved
                rows.append(row)
                quotes += sentence_quotes
            steps.append(step_of(reply, "SupportVerdicts", {"verdicts": rows}, quotes))
        return Judgement(cell=_cell(steps), steps=tuple(steps))

    def _check_for(self, count: int) -> Callable[[object], SupportVerdicts]:
        """A check that wants a verdict for each of ``count`` sentences.

        What is forgotten must not pass for what never was.
        """

        def check(value: object) -> SupportVerdicts:
            """The verdicts in the order of the sentences.

            Raises:
                ValueError: one is missing, or is there twice; the judge is asked again.
            """
            answer = self._schema.check(value)
            verdicts = sorted(answer.verdicts, key=lambda verdict: verdict.number)
            numbers = [verdict.number for verdict in verdicts]
            if numbers != list(range(1, count + 1)):
                raise ValueError(f"verdicts: one for each of the statements 1 to {count} is wanted")
            return SupportVerdicts(verdicts=verdicts)

        return check


def _contexts_of(trace: Trace) -> Sequence[str]:
    """The contexts that the answer rests on; none where retrieval gave nothing."""
    result = trace.context.value
    if result is None:
        return ()
    return result.contexts


def answer_sentences(response: str) -> list[str]:
    """The sentences of an answer that hold a word; a list of sources is none."""
    text = without_sources(response)
    sentences: list[str] = []
    for span in sentences_of(text):
        sentence = text[span.start : span.end]
        has_letter = any(map(str.isalpha, sentence))
        if has_letter:
            sentences.append(sentence)
    return sentences


def _question(sentences: Sequence[str], texts: Mapping[int, str], query: str) -> str:
    """The user's message of the prompt: texts, numbered sentences and query as JSON.

    In JSON no text can pass for a part of the prompt.
    """
    statements = [f"{number}. {sentence}" for number, sentence in enumerate(sentences, start=1)]
    question = {"evidence": list(texts.values()), "statements": statements, "question": query}
    return json.dumps(question, ensure_ascii=False)


def _located(quote: str, texts: Mapping[int, str]) -> Quote:
    """A quote with its place, if it has one; the places of contexts count those that are blank."""
    place = find_quote(quote, list(texts.values()))
    if place is None:
        return Quote(text=quote)
    context = list(texts)[place.text]
    return Quote(text=quote, context=context, start=place.span.start, end=place.span.end)


def _missing_proof(
    sentence: str,
    verdict: SentenceVerdict,
    quotes: Sequence[Quote],
    texts: Mapping[int, str],
    query: str,
) -> str | None:
    """What is wrong with the proof of a verdict of support; None where nothing is.

    Full or partial support is proved by quotes; other verdicts need no proof.
    """
    if not _VALUES.get(verdict.verdict):
        return None
    if not quotes:
        return "the judge says that it is supported and quotes nothing"
    passages: list[Passage] = []
    for quote in quotes:
        if quote.context is None or quote.start is None or quote.end is None:
            continue  # it was not found in any context
        text = texts[quote.context]
        near = around(text, quote.start, quote.end)
        passages.append(Passage(text[quote.start : quote.end], near, text))
    if not passages:
        return "no quote of the judge stands in the contexts"
    if not any(says_enough(passage.quote, passage.text) for passage in passages):
        return "the judge quotes single words, which prove nothing"
    # Where the judge says that all of the sentence is supported, all must be proved.
    return lacks(sentence, query, passages, whole=verdict.verdict == "supported")


def _cell(steps: Sequence[JudgeStep]) -> Cell:
    """The case's cell: the mean of its sentences, without those that claim nothing."""
    cells: list[Cell] = []
    for step in steps:
        for row in step.answer["verdicts"]:
            if row["verdict"] not in _VALUES:
                continue
            if "unproved" in row:
                cells.append(Cell.unproved(row["unproved"]))
            else:
                cells.append(Cell.measured(_VALUES[row["verdict"]]))
    if not cells:
        return Cell.skipped("the judge found nothing to check")
    return mean_cell(cells)


DEFINITIONS: tuple[MetricDefinition, ...] = (
    MetricDefinition(
        name="support",
        group=Group.GENERATOR,
        needs=frozenset({Need.RESPONSE, Need.RETRIEVED_CONTEXTS, Need.LLM}),
        direction=Direction.HIGHER,
        version=4 + RULES,
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
