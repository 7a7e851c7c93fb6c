"""Is each sentence of the answer supported, by which words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
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
        """Reads the prompt and the form of the judge's reply, whose digest names both.

        Judgements are kept under the digest, so that a change of one letter judges anew.
        """
        self._schema: Schema[SupportVerdicts] = schema_of(SupportVerdicts)
        self._task: str = table("ragbench.text", "prompts")["support"]
        # With the number of sentences of a question, as other parts are other questions.
        self._digest = digest_of([self._task, _MOST_SENTENCES, self._schema.definition])

    def identity(self) -> Mapping[str, str]:
        """The digest of prompt and reply form: judgements of another one do not compare.

        Stored with a run, so that a comparison of two runs can refuse judgements of different
        prompts.
        """
        return {"prompts": self._digest}

    def prepare(self, metric: Metric) -> str:
        """The digest of the prompt, under which judgements are kept.

        The metric has no setting that changes what a judge is asked.
        """
        return self._digest

    async def judge(
        self, metric: Metric, trace: Trace, panel: ModelClients, repeat: int
    ) -> Judgement:
        """Judges an answer sentence by sentence against its contexts, in few questions.

        Each quote of the judge is looked up, and each verdict checked against its quotes. The rows
        of a step are stored in the run's folder and shown in its pages: their fields are read
        there.

        Args:
            repeat: which of several judgings this is, from 0.
        """
        contexts = _contexts_of(trace)
        # Each text under its place among all contexts, since quotes name a context by its place.
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
        # A judge loses count in a long list: the sentences are asked about in parts.
        for start in range(0, len(sentences), _MOST_SENTENCES):
            part = sentences[start : start + _MOST_SENTENCES]
            messages = task_messages(self._task, _user_message(part, texts, query))
            schema = replace(self._schema, check=partial(self._checked_verdicts, len(part)))
            reply = await ask_judge(metric, panel, messages, schema, repeat)
            # The steps so far are kept: they were paid for.
            if isinstance(reply, Failure):
                return Judgement(cell=Cell.failed(reply), steps=tuple(steps))
            rows: list[dict[str, Any]] = []
            quotes: list[Quote] = []
            # The verdicts are in the order of the sentences, as `_checked_verdicts` sorts them.
            for sentence, verdict in zip(part, reply.value.verdicts, strict=True):
                sentence_quotes = [_located_quote(quote, texts) for quote in verdict.quotes]
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
        return Judgement(cell=_case_cell(steps), steps=tuple(steps))

    def _checked_verdicts(self, count: int, value: object) -> SupportVerdicts:
        """The judge's verdicts on the sentences of one question, in the order of the sentences.

        A sentence that the judge forgot must not pass for one that was never there.

        Args:
            count: the number of sentences that the question asks about.
            value: the judge's reply, as JSON.

        Raises:
            ValueError: a verdict is missing, or is there twice; the judge is asked again.
        """
        answer = self._schema.check(value)
        # By number: a judge may answer in another order.
        verdicts = sorted(answer.verdicts, key=lambda verdict: verdict.number)
        numbers = [verdict.number for verdict in verdicts]
        if numbers != list(range(1, count + 1)):
            raise ValueError(f"verdicts: one for each of the statements 1 to {count} is wanted")
        return SupportVerdicts(verdicts=verdicts)


def _contexts_of(trace: Trace) -> Sequence[str]:
    """The contexts that a case's answer rests on; none where retrieval gave nothing.

    They are what the answer was generated from, after all changes to the ranking.
    """
    result = trace.context.value
    if result is None:
        return ()
    return result.contexts


def answer_sentences(response: str) -> list[str]:
    """The sentences of an answer that hold a word, which the judge gives a verdict each.

    A list of sources is left out: it claims nothing. Their numbers are those of the verdicts:
    another cut would need other judgements.
    """
    text = without_sources(response)
    sentences: list[str] = []
    for span in sentences_of(text):
        sentence = text[span.start : span.end]
        has_letter = any(map(str.isalpha, sentence))
        if has_letter:
            sentences.append(sentence)
    return sentences


def _user_message(sentences: Sequence[str], texts: Mapping[int, str], query: str) -> str:
    """The user's message of the prompt: contexts, numbered sentences and query as JSON.

    In JSON no text of a case can pass for a part of the prompt. The names of the fields are those
    of which the prompt speaks. The digest of the prompts does not hold this form: raise the
    metric's version with another one.

    Args:
        texts: the contexts, by their places.
    """
    statements = [f"{number}. {sentence}" for number, sentence in enumerate(sentences, start=1)]
    question = {"evidence": list(texts.values()), "statements": statements, "question": query}
    return json.dumps(question, ensure_ascii=False)


def _located_quote(quote: str, texts: Mapping[int, str]) -> Quote:
    """A judge's quote with its place in the contexts; without one where no context has it.

    Views highlight the place. Places of contexts count those that are blank, and were not shown.

    Args:
        texts: the contexts that were shown, by their places among all.
    """
    place = find_quote(quote, list(texts.values()))
    if place is None:
        return Quote(text=quote)
    # `find_quote` counts among the shown texts only; the key is the place among all.
    context = list(texts)[place.text]
    return Quote(text=quote, context=context, start=place.span.start, end=place.span.end)


def _missing_proof(
    sentence: str,
    verdict: SentenceVerdict,
    quotes: Sequence[Quote],
    texts: Mapping[int, str],
    query: str,
) -> str | None:
    """The problem with the proof of a verdict of support, in words; None where the proof holds.

    Full or partial support is proved by quotes; other verdicts need no proof. A judge that finds
    the answer plausible says "supported" without looking: its quotes show whether it looked.

    Args:
        texts: the contexts that were shown, by their places.
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


def _case_cell(steps: Sequence[JudgeStep]) -> Cell:
    """The cell of a case: the mean value of its sentences, without those that claim nothing.

    A sentence without proof counts as unproved, and too many of them make the case so
    (`mean_cell`).

    Args:
        steps: the judge's questions, with the rows of their sentences.
    """
    cells: list[Cell] = []
    for step in steps:
        for row in step.answer["verdicts"]:
            # A sentence that claims nothing has a verdict without a value.
            if row["verdict"] not in _VALUES:
                continue
            # A verdict without proof has no number, and must not count as 0.
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
