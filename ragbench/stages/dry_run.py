"""What judging would take.

Assumed at least and at most: one or two statements a sentence; ten or forty words a reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from ragbench.core.calling import LoopThread
from ragbench.core.chat import Embeddings, Message, Reply, Usage
from ragbench.core.metric import Metric
from ragbench.core.trace import Trace
from ragbench.llm.cache import ResponseCache, cache_key
from ragbench.llm.embeddings import EmbeddingClient
from ragbench.llm.endpoint import Endpoint
from ragbench.llm.estimate import Estimate, Estimator, TokenCounter, prompt_tokens
from ragbench.llm.schema import Schema, read_structure
from ragbench.llm.session import juror_names
from ragbench.llm.settings import LLMSettings
from ragbench.metrics.judging import JudgePlan, reads_canaries
from ragbench.metrics.ragas_calls import input_of
from ragbench.stages.judge import Job, Judging
from ragbench.text.sentences import split_sentences
from ragbench.text.token_counter import counter_for_model

_MARK = "\u2060"
"""Stands in assumed texts, by which a prompt that holds one is recognized."""
_SOURCES = ("answer", "response", "text", "context")
_QUESTION = "what is it that the text says about this, and where does it say so"


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumption:
    """How much a model says."""

    statements: int
    """A sentence."""
    words: int
    """A reason."""


FEW = Assumption(statements=1, words=10)
MANY = Assumption(statements=2, words=40)
ASSUMPTIONS = (
    f"From {FEW.statements} statement a sentence and reasons of {FEW.words} words to "
    f"{MANY.statements} statements a sentence and reasons of {MANY.words} words."
)
"""In words, for the reader of an estimate."""


def is_assumed(prompt: str) -> bool:
    return _MARK in prompt


def assumed_answer(
    schema: Mapping[str, Any], given: Mapping[str, Any], assumption: Assumption
) -> Any:
    """A value that follows a JSON schema, about as long as a model's."""
    return _AnswerWriter(schema, given, assumption).value(schema, "")


class _AnswerWriter:
    def __init__(
        self, schema: Mapping[str, Any], given: Mapping[str, Any], assumption: Assumption
    ) -> None:
        self._root = schema
        self._assumption = assumption
        self._statements = _statements(given, assumption)
        questions = given.get("questions")
        self._answers = len(cast("list[Any]", questions)) if isinstance(questions, list) else 0

    def value(self, schema: Mapping[str, Any], name: str, text: str = "") -> Any:
        if "$ref" in schema:
            part = str(schema["$ref"]).rpartition("/")[2]
            return self.value(self._root["$defs"][part], name, text)
        if "enum" in schema:
            return schema["enum"][-1]
        if "anyOf" in schema:
            return self.value(schema["anyOf"][0], name, text)
        kind = schema.get("type")
        if kind == "object":
            properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {}))
            return {key: self.value(inner, key, text) for key, inner in properties.items()}
        if kind == "array":
            texts: Sequence[str] = self._statements
            if name == "answers":
                texts = ["1"] * self._answers
            return [self.value(schema["items"], name, one) for one in texts]
        if kind == "string":
            return self._text(name, text)
        simple: dict[str, Any] = {"integer": 1, "number": 1.0, "boolean": True}
        return simple.get(str(kind))

    def _text(self, name: str, text: str) -> str:
        if name == "question":
            return f"{_QUESTION}{_MARK}"
        if text and name not in ("reason", "feedback"):
            return text
        return f"{' '.join(['because'] * self._assumption.words)}{_MARK}"


def _statements(given: Mapping[str, Any], assumption: Assumption) -> list[str]:
    """Those of the input, or else its sentences."""
    listed = given.get("statements")
    if isinstance(listed, list):
        return [str(text) for text in cast("list[Any]", listed)]
    texts = [value for value in given.values() if isinstance(value, str)]
    named = [given[key] for key in _SOURCES if isinstance(given.get(key), str)]
    source = str(named[0]) if named else max(texts, key=len, default="")
    sentences = [source[span.start : span.end] for span in split_sentences(source)] or [source]
    return [f"{text}{_MARK}" for text in sentences for _ in range(assumption.statements)]


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgingEstimate:
    """What judging will take, at the least and at the most that is usual."""

    least: Estimate
    most: Estimate
    embeddings: Estimate | None
    """None when nothing is embedded."""

    @property
    def cost(self) -> tuple[Decimal, Decimal] | None:
        """From and to; None when a price is not known."""
        ends = (self.least.cost, self.most.cost)
        texts = (Decimal(0), Decimal(0)) if self.embeddings is None else self.embeddings.cost
        if ends[0] is None or ends[1] is None or texts is None:
            return None
        return ends[0][0] + texts[0], ends[1][1] + texts[1]


class DryRun:
    """Stands in for the judging of a run. Use it with ``with``: it reads the cache of answers."""

    def __init__(
        self,
        chat: LLMSettings | None,
        embeddings: LLMSettings | None,
        panel: Sequence[LLMSettings] = (),
    ) -> None:
        self.cases = 0
        """Judgements that would be made."""
        self._chat = chat
        self._embeddings = embeddings
        self._panel = tuple(panel)
        self._stack = ExitStack()
        self._panels: list[_Panel] = []
        self._thread = LoopThread()

    def __enter__(self) -> DryRun:
        self._thread.start()
        try:
            self._thread.run(self._open())
        except BaseException:
            self._thread.stop()
            raise
        return self

    async def _open(self) -> None:
        """In the thread that reads the cache: SQLite wants it so."""
        chat, embeddings = self._chat, self._embeddings
        for assumption in (FEW, MANY):
            embeds = None
            if embeddings is not None:
                embeds = _CountingEmbeddings(embeddings.endpoint, self._cache(embeddings))
            known = [] if chat is None else [chat, *self._panel]
            chats = [_CountingChat(each.endpoint, self._cache(each), assumption) for each in known]
            self._panels.append(_Panel(chats=tuple(chats), embeddings=embeds))

    async def _close(self) -> None:
        self._stack.close()

    def __exit__(self, *_: object) -> None:
        try:
            self._thread.run(self._close())
        finally:
            self._thread.stop()

    def all(self, plan: JudgePlan, jobs: Sequence[Job], stopped: Callable[[], bool]) -> None:
        """Counts cells that would be judged."""

        async def judge() -> None:
            for job in jobs:
                if stopped():
                    return
                if plan.blocked(job.position, job.row.trace) is None:
                    self.cases += 1
                    for panel in self._panels:
                        await plan.judge(job.position, job.row.trace, panel)

        self._thread.run(judge())

    def count(self, judging: Judging, metrics: Sequence[Metric], traces: Sequence[Trace]) -> None:
        plan = judging.plan([metric for metric in metrics if reads_canaries(metric)])

        async def judge() -> None:
            for at in range(len(plan.metrics)):
                for trace in traces:
                    self.cases += 1
                    for panel in self._panels:
                        await plan.judge(at, trace, panel)

        self._thread.run(judge())

    def estimate(self) -> JudgingEstimate:
        least, most = self._panels
        return JudgingEstimate(
            least=least.estimate(),
            most=most.estimate(),
            embeddings=None if most.embeddings is None else most.embeddings.estimator.estimate(),
        )

    def _cache(self, settings: LLMSettings) -> ResponseCache | None:
        path = None if settings.cache is None else Path(settings.cache).expanduser()
        if path is None or not path.exists():
            return None
        return self._stack.enter_context(ResponseCache(path, must_exist=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Panel:
    chats: tuple[_CountingChat, ...]
    """The judges; one where there is no panel."""
    embeddings: _CountingEmbeddings | None

    @property
    def chat(self) -> _CountingChat | None:
        return self.chats[0] if self.chats else None

    @property
    def jurors(self) -> tuple[tuple[str, _Panel], ...]:
        if len(self.chats) < 2:
            return ()
        names = juror_names([chat.endpoint for chat in self.chats])
        return tuple(
            (name, _Panel(chats=(chat,), embeddings=self.embeddings))
            for name, chat in zip(names, self.chats, strict=True)
        )

    def estimate(self) -> Estimate:
        """What all judges together will take."""
        found = [chat.estimator.estimate() for chat in self.chats]
        if len(found) == 1:
            return found[0]
        currencies = {each.currency for each in found}
        origins = dict.fromkeys(each.price_origin for each in found if each.price_origin)
        return Estimate(
            model=", ".join(each.model for each in found),
            lines=tuple(
                replace(line, purpose=f"{line.purpose}, {each.model}")
                for each in found
                for line in each.lines
            ),
            counter=", ".join(dict.fromkeys(each.counter for each in found)),
            approximate=any(each.approximate for each in found),
            currency=currencies.pop() if len(currencies) == 1 else None,
            price_origin="; ".join(origins) or None,
        )


class _CountingChat:
    """Answers out of the cache, or with an assumed answer, and counts."""

    def __init__(
        self, endpoint: Endpoint, cache: ResponseCache | None, assumption: Assumption
    ) -> None:
        self.endpoint = endpoint
        self._cache = cache
        self._assumption = assumption
        self._counter: TokenCounter = counter_for_model(endpoint.model)
        self.estimator = Estimator(endpoint, self._counter, cache)

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema[Any],
        purpose: str = "",
        version: str = "",
        repeat: int = 0,
    ) -> Reply[Any]:
        prompt = messages[-1].content
        key = cache_key(
            self.endpoint.identity(),
            messages,
            schema=schema.definition,
            version=version,
            repeat=repeat,
        )
        kept = None if self._cache is None else self._cache.get(key)
        text = kept.text if kept is not None else self._assumed(schema, prompt)
        tokens = self._counter.count(text)
        if is_assumed(prompt):
            size = prompt_tokens(messages, self._counter, schema.definition)
            self.estimator.guess(
                purpose, calls=1, prompt_tokens=size, answer_tokens=(tokens, tokens)
            )
        else:
            self.estimator.add(
                messages,
                answer_tokens=(tokens, tokens),
                schema=schema,
                purpose=purpose,
                version=version,
                repeat=repeat,
            )
        return Reply(
            value=read_structure(text, schema),
            text=text,
            usage=Usage(reported=False),
            cost=None,
            model=self.endpoint.model,
            finish_reason="",
            cached=kept is not None,
            repaired=False,
            attempts=0,
            seconds=0.0,
            key=key,
        )

    def _assumed(self, schema: Schema[Any], prompt: str) -> str:
        value = assumed_answer(schema.definition, input_of(prompt), self._assumption)
        return json.dumps(value, ensure_ascii=False)


class _CountingEmbeddings:
    """Counts texts; their vectors are all alike."""

    def __init__(self, endpoint: Endpoint, cache: ResponseCache | None) -> None:
        self._known = EmbeddingClient(endpoint, cache=cache)
        self._counter: TokenCounter = counter_for_model(endpoint.model)
        self._seen: set[str] = set()
        self.estimator = Estimator(endpoint, self._counter)

    async def embed(self, texts: Sequence[str], *, purpose: str = "") -> Embeddings:
        fresh = [
            t for t in dict.fromkeys(texts) if t not in self._seen and not self._known.knows(t)
        ]
        self._seen.update(fresh)
        if fresh:
            tokens = sum(map(self._counter.count, fresh))
            self.estimator.guess(purpose, calls=1, prompt_tokens=tokens, answer_tokens=(0, 0))
        return Embeddings(
            vectors=((1.0, 0.0),) * len(texts),
            usage=Usage(reported=False),
            cost=None,
            cached=len(texts) - len(fresh),
        )
