"""What judging would take.

Assumed at least and at most: one or two statements a sentence; ten or forty words a reason.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, cast

from ragbench.core.chat import Reply
from ragbench.core.metric import Metric
from ragbench.core.record import Record
from ragbench.core.trace import Trace
from ragbench.llm.answers import Answer
from ragbench.llm.budget import Receipt
from ragbench.llm.cache import ResponseCache
from ragbench.llm.dialect import Dialect
from ragbench.llm.endpoint import StructuredOutput
from ragbench.llm.session import LLMSession, ModelClients, open_models
from ragbench.llm.settings import LLMSettings
from ragbench.llm.transport import CallLimits
from ragbench.metrics.judging import JudgePlan, not_asked, reads_canaries
from ragbench.metrics.ragas_judge import input_of
from ragbench.stages.judge import Job, Judging
from ragbench.text.sentences import split_sentences
from ragbench.text.token_counter import counter_for_model

_MARK = "\u2060"
"""Stands in assumed texts, by which a prompt that holds one is recognized."""
_SOURCES = ("answer", "response", "text", "context")
_A_MESSAGE = 4
"""Tokens around a message in usual chat templates."""
_QUESTION = "what is it that the text says about this, and where does it say so"


class Assumption(Record):
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


def assumed_answer(
    schema: Mapping[str, Any], given: Mapping[str, Any], assumption: Assumption
) -> Any:
    """A value that follows a JSON schema, about as long as a model's."""
    statements, questions = _statements(given, assumption), given.get("questions")
    answers = ["1" for _ in cast("list[Any]", questions)] if isinstance(questions, list) else []
    reason = f"{' '.join(['because'] * assumption.words)}{_MARK}"

    def value(part: Mapping[str, Any], name: str, text: str = "", at: int = 1) -> Any:
        while "$ref" in part:
            part = schema["$defs"][str(part["$ref"]).rpartition("/")[2]]
        if "anyOf" in part:
            return value(part["anyOf"][0], name, text, at)
        kind = part.get("type")
        if "enum" in part:
            return part["enum"][-1]
        if kind == "object":
            properties = cast("Mapping[str, Mapping[str, Any]]", part.get("properties", {}))
            return {key: value(inner, key, text, at) for key, inner in properties.items()}
        if kind == "array":
            texts = {"answers": answers, "quotes": [text]}.get(name, statements)
            return [value(part["items"], name, one, n) for n, one in enumerate(texts, 1)]
        if kind == "string" and name == "question":
            return f"{_QUESTION}{_MARK}"
        if kind == "string":
            return text if text and name not in ("reason", "feedback") else reason
        return {"integer": at if name == "number" else 1, "number": 1.0, "boolean": True}.get(
            str(kind)
        )

    return value(schema, "")


def _statements(given: Mapping[str, Any], assumption: Assumption) -> list[str]:
    listed = given.get("statements")
    if isinstance(listed, list):
        return [str(text) for text in cast("list[Any]", listed)]
    texts = [value for value in given.values() if isinstance(value, str)]
    named = [given[key] for key in _SOURCES if isinstance(given.get(key), str)]
    source = str(named[0]) if named else max(texts, key=len, default="")
    sentences = [source[span.start : span.end] for span in split_sentences(source)] or [source]
    return [f"{text}{_MARK}" for text in sentences for _ in range(assumption.statements)]


class JudgingEstimate(Record):
    """What judging will take, at the least and at the most that is usual."""

    least: Receipt
    most: Receipt
    embeddings: Receipt
    models: str
    """Those that judge."""
    counter: str
    """What counted the tokens."""
    approximate: bool
    """Whether that is not the models' own tokenizer."""
    guessed: int
    """Calls whose prompt cannot be known yet, since it holds the answer to another one."""

    @property
    def cost(self) -> tuple[Decimal, Decimal] | None:
        """From and to; None when a price is not known."""
        least, most, texts = self.least.cost, self.most.cost, self.embeddings.cost
        if least is None or most is None or texts is None:
            return None
        return least + texts, most + texts


class DryRun(ExitStack):
    """Stands in for the judging of a run: clients as the run's ask nobody. Use it with ``with``."""

    def __init__(
        self,
        chat: LLMSettings | None,
        embeddings: LLMSettings | None,
        panel: Sequence[LLMSettings] = (),
    ) -> None:
        super().__init__()
        self.cases = 0
        """Judgements that would be made."""
        self._judges = [] if chat is None else [chat, *panel]
        self._chat, self._embeddings = (one and _unchecked(one) for one in (chat, embeddings))
        self._panel = [*map(_unchecked, panel)]
        self._least, self._most = _AssumedModel(FEW), _AssumedModel(MANY)
        opening = [partial(self._opened, model) for model in (self._least, self._most)]
        self._sessions = [self.enter_context(LLMSession(each)) for each in opening]

    @asynccontextmanager
    async def _opened(self, model: _AssumedModel) -> AsyncGenerator[ModelClients]:
        async with open_models(
            self._chat, self._embeddings, panel=self._panel, transport=model, cache=_NothingKept
        ) as models:
            for client in models.chats:
                client.dialect = Dialect(
                    replace(client.endpoint, structured=StructuredOutput.JSON_SCHEMA)
                )
            model.asked = models
            yield models

    def all(self, plan: JudgePlan, jobs: Sequence[Job], stopped: Callable[[], bool]) -> None:
        """Counts cells that would be judged."""
        for job in jobs:
            if stopped():
                return
            if not_asked(job.metric, job.row.trace) is None:
                self.judge(plan, job.metric, job.row.trace)

    def count(self, judging: Judging, metrics: Sequence[Metric], traces: Sequence[Trace]) -> None:
        plan = judging.plan([metric for metric in metrics if reads_canaries(metric)])
        for metric in plan.metrics:
            for trace in traces:
                self.judge(plan, metric, trace)

    def judge(self, plan: JudgePlan, metric: Metric, trace: Trace) -> None:
        """Counts one judgement."""
        self.cases += 1
        for session in self._sessions:
            session.run(lambda models: plan.judge(metric, trace, models))

    def estimate(self) -> JudgingEstimate:
        least, most = self._least.asked, self._most.asked
        names = list(dict.fromkeys(judge.endpoint.model for judge in self._judges))
        counters = {counter.name: counter for counter in map(counter_for_model, names)}
        return JudgingEstimate(
            least=Receipt.of(chat.receipt() for chat in least.chats),
            most=Receipt.of(chat.receipt() for chat in most.chats),
            embeddings=Receipt.of([] if most.embeddings is None else [most.embeddings.receipt()]),
            models=", ".join(names),
            counter=", ".join(counters),
            approximate=any(counter.approximate for counter in counters.values()),
            guessed=self._least.guessed,
        )


def _unchecked(settings: LLMSettings) -> LLMSettings:
    """No prompt is too long to be counted, and none is cut."""
    endpoint = replace(settings.endpoint, prompt_check=False, context=None)
    return replace(settings, endpoint=endpoint, limits=CallLimits())


class _NothingKept(ResponseCache):
    """Gives what a cache holds, and writes nothing into it."""

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        file = ResponseCache(path, max_bytes=max_bytes, must_exist=True) if path.exists() else None
        self._file = file
        self._new: dict[bytes, Reply[Any]] = {}

    def get(self, key: bytes) -> Reply[str] | None:
        return self._new.get(key) or (None if self._file is None else self._file.get(key))

    def put(self, reply: Reply[Any], *, judge: str, model: str, purpose: str) -> None:
        self._new[reply.key] = replace(reply, cached=True)

    def dialect(self, judge: str) -> None:
        return None

    def keep_dialect(self, judge: str, state: bytes) -> None:
        pass

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _AssumedModel:
    """Says as much as is assumed, and counts the tokens: a `Transport` without a network."""

    def __init__(self, assumption: Assumption) -> None:
        self._assumption = assumption
        self.guessed = 0
        self.asked = ModelClients()
        """Who asked it."""

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def send(self, path: str, payload: Mapping[str, Any]) -> Answer:
        count = counter_for_model(payload["model"]).count
        texts: list[str] = payload.get("input", [])
        body: dict[str, Any] = {"data": [{"embedding": [1.0, 0.0]} for _ in texts]}
        asked, said = sum(map(count, texts)), 0
        if path != "/embeddings":
            schema = payload["response_format"]["json_schema"]["schema"]
            prompts = [message["content"] for message in payload["messages"]]
            self.guessed += _MARK in prompts[-1]
            value = assumed_answer(schema, input_of(prompts[-1]), self._assumption)
            text = json.dumps(value, ensure_ascii=False)
            asked = sum(count(prompt) + _A_MESSAGE for prompt in prompts)
            asked += count(json.dumps(schema))
            said = min(count(text), payload.get("max_tokens") or sys.maxsize)
            body = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
        body["usage"] = {"prompt_tokens": asked, "completion_tokens": said}
        return Answer(status=200, headers={}, body=json.dumps(body))
