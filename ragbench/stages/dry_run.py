"""What judging would take, without asking a model.

Every prompt is made as for a run and its tokens are counted; the answers are assumed ones. Assumed
at least and at most: one or two statements a sentence; ten or forty words a reason.
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
from ragbench.metrics.judging import JudgePlan, not_asked
from ragbench.metrics.ragas_judge import input_of
from ragbench.stages.judge import Job, Judging
from ragbench.text.sentences import split_sentences
from ragbench.text.token_counter import counter_for_model

_MARK = "\u2060"
"""Stands in assumed texts, by which a prompt that holds one is recognized."""
_SOURCES = ("answer", "response", "text", "context")
"""Fields of a judge's input that may hold the text of its statements, the likeliest first."""
_MESSAGE_TOKENS = 4
"""Tokens around a message in usual chat templates."""
_QUESTION = "what is it that the text says about this, and where does it say so"


class Assumption(Record):
    """How much a judge writes."""

    statements: int
    """To a sentence."""
    words: int
    """To a reason."""


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
    """A made-up answer of a judge that follows a JSON schema, about as long as a model's.

    A dry run counts its tokens in place of a real answer's, which would have to be paid for.

    Args:
        given: the input that the prompt holds; statements are made of its texts.
    """
    questions = given.get("questions")
    answers: list[str] = []
    # An answer to each question of the input, where the judge is asked questions.
    if isinstance(questions, list):
        answers = ["1"] * len(cast("list[Any]", questions))
    writer = _AssumedWriter(
        definitions=schema.get("$defs", {}),
        statements=_assumed_statements(given, assumption),
        answers=answers,
        reason=" ".join(["because"] * assumption.words) + _MARK,
    )
    return writer.value(schema, "")


class _AssumedWriter(Record):
    """Fills a schema with texts of the assumed length."""

    definitions: Mapping[str, Any]
    """The parts of the schema that others refer to, by name."""
    statements: Sequence[str]
    """One verdict of a judge is made for each."""
    answers: Sequence[str]
    """One to each question of the input."""
    reason: str
    """In place of each reason, marked as assumed."""

    def value(self, part: Mapping[str, Any], name: str, text: str = "", number: int = 1) -> Any:
        """A made-up value for a part of a JSON schema, of the length that a judge would write.

        A kind of part that is not known gets None.

        Args:
            name: the part's name in the object or list that it is in.
            text: the statement that the surrounding item is about.
            number: the place of the surrounding item in its list, from 1.
        """
        # A reference such as "#/$defs/Verdict" may lead to another one.
        while "$ref" in part:
            part = self.definitions[str(part["$ref"]).rpartition("/")[2]]
        # Any of the allowed forms will do: only the length of an answer counts.
        if "anyOf" in part:
            return self.value(part["anyOf"][0], name, text, number)
        if "enum" in part:
            return part["enum"][-1]
        match part.get("type"):
            case "object":
                properties = cast("Mapping[str, Mapping[str, Any]]", part.get("properties", {}))
                return {
                    key: self.value(inner, key, text, number) for key, inner in properties.items()
                }
            case "array":
                return self._items(part["items"], name, text)
            case "string":
                return self._text(name, text)
            case "integer":
                # A field "number" names the statement that the item is about; any other whole
                # number has no part.
                return number if name == "number" else 1
            case "number":
                return 1.0
            case "boolean":
                return True
            case _:
                return None

    def _items(self, part: Mapping[str, Any], name: str, text: str) -> list[Any]:
        """Made-up items of a list in a judge's answer: one for each text that the list is about.

        The number of items decides how long an answer is: a judge has a verdict for each statement.
        The names "answers" and "quotes" are fields of the judges' schemas.
        """
        # Any other list of a judge's answer has an item for each statement.
        texts = self.statements
        if name == "answers":
            texts = self.answers
        elif name == "quotes":
            texts = [text]
        items: list[Any] = []
        for number, item_text in enumerate(texts, start=1):
            items.append(self.value(part, name, item_text, number))
        return items

    def _text(self, name: str, text: str) -> str:
        """A made-up text for a field of a judge's answer, in the length that a judge would write.

        Made-up questions and reasons carry a mark, by which a later prompt that repeats them shows
        that its length is a guess. The names are fields of the judges' schemas.
        """
        if name == "question":
            return f"{_QUESTION}{_MARK}"
        # Most judges repeat the statement that they judge; a reason is words of their own.
        # Without a statement around it, even a text field is words of the judge's own.
        if text and name not in ("reason", "feedback"):
            return text
        return self.reason


def _assumed_statements(given: Mapping[str, Any], assumption: Assumption) -> list[str]:
    """The statements that a judge would write about: it answers once for each statement.

    Where the judge's input lists statements, those; else as many made-up ones as the assumption has
    for each sentence of the input's text. Made-up ones carry a mark, by which a later prompt that
    repeats them is known to be guessed.
    """
    statements = given.get("statements")
    if isinstance(statements, list):
        return [str(text) for text in cast("list[Any]", statements)]
    source: str | None = None
    # The first of these fields that the input has; else its longest text.
    for key in _SOURCES:
        text = given.get(key)
        if isinstance(text, str):
            source = text
            break
    if source is None:
        texts = [value for value in given.values() if isinstance(value, str)]
        source = max(texts, key=len, default="")
    # An empty text counts as one sentence, so that at least one statement is assumed.
    sentences = [source[span.start : span.end] for span in split_sentences(source)] or [source]
    assumed: list[str] = []
    for sentence in sentences:
        assumed.extend([f"{sentence}{_MARK}"] * assumption.statements)
    return assumed


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
        """The cost of judging in the models' currency, from the least to the most.

        None when some price is not known: a part of the cost would pass for all of it.
        """
        least = self.least.cost
        most = self.most.cost
        texts = self.embeddings.cost
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
        """Opens a session with an assumed model for each of two assumptions: few words, and many.

        A run is rehearsed with both, which shows the least and the most that its judging may cost.
        With ``with``, both sessions are closed at the end.
        """
        super().__init__()
        # Counted once, though both assumed models make each judgement.
        self.cases = 0
        """How many judgements the run would make."""
        self._judges: list[LLMSettings] = []
        """The judges whose tokenizers counted the tokens, for the report."""
        if chat is not None:
            self._judges = [chat, *panel]
        self._chat: LLMSettings | None = None
        """The language model as the rehearsal opens it; None where no metric asks a model."""
        if chat is not None:
            self._chat = _unchecked(chat)
        self._embeddings: LLMSettings | None = None
        """The embedding model, likewise."""
        if embeddings is not None:
            self._embeddings = _unchecked(embeddings)
        self._panel = [_unchecked(juror) for juror in panel]
        """The further judges, opened alike."""
        # The same judgements are made with both, one after the other.
        self._least = _AssumedModel(FEW)
        # Each model keeps its own counts: the least and the most come out of one rehearsal.
        self._most = _AssumedModel(MANY)
        self._sessions: list[LLMSession] = []
        for model in (self._least, self._most):
            session = LLMSession(partial(self._opened, model))
            self._sessions.append(self.enter_context(session))

    @asynccontextmanager
    async def _opened(self, model: _AssumedModel) -> AsyncGenerator[ModelClients]:
        """Clients like the run's own, but with every call answered by the assumed model.

        The prompts, the cache and the panel of judges are those of the run, but no request leaves
        this machine.
        """
        async with open_models(
            self._chat,
            self._embeddings,
            panel=self._panel,
            transport=model,
            cache=_ReadOnlyCache,
        ) as models:
            # As good endpoints do: the schema travels beside the prompt, and its tokens count.
            for client in models.chats:
                client.dialect = Dialect(
                    replace(client.endpoint, structured=StructuredOutput.JSON_SCHEMA)
                )
            # `estimate` reads there what the clients have counted.
            model.clients = models
            yield models

    def all(self, plan: JudgePlan, jobs: Sequence[Job], stopped: Callable[[], bool]) -> None:
        """Counts the cells (a metric's values of a case) that a run would have judged.

        Takes the place of the judging in a run, and leaves out cells that need no model.
        """
        for job in jobs:
            if stopped():
                return
            if not_asked(job.metric, job.row.trace) is None:
                self.judge(plan, job.metric, job.row.trace)

    def count(self, judging: Judging, metric: Metric, traces: Sequence[Trace]) -> None:
        """Counts judgements of a metric on further cases beside the run's own.

        These are canaries, claims of known truth that a run plants: their judging costs, too.
        """
        plan = judging.plan([metric])
        for trace in traces:
            self.judge(plan, metric, trace)

    def judge(self, plan: JudgePlan, metric: Metric, trace: Trace) -> None:
        """Counts one judgement: a metric's question to its judge about a case, and the answer.

        Two assumed models make the judgement, one that answers in few words and one that answers in
        many. Their clients add up the tokens of each: the least and the most that it may cost.
        """
        self.cases += 1
        # The two sessions make it one after the other: no call is in flight when this returns.
        for session in self._sessions:
            session.run(lambda models: plan.judge(metric, trace, models))

    def estimate(self) -> JudgingEstimate:
        """The tokens, calls and cost of all judgements counted so far, at the least and at most.

        The command shows them before anything is paid.
        """
        least = self._least.clients
        most = self._most.clients
        names = list(dict.fromkeys(judge.endpoint.model for judge in self._judges))
        # By name: models that share a tokenizer share its counter in the report.
        counters = {counter.name: counter for counter in map(counter_for_model, names)}
        # Texts to embed are the same under both assumptions: one of the two sessions counts for
        # both.
        embeddings: list[Receipt] = []
        if most.embeddings is not None:
            embeddings.append(most.embeddings.receipt())
        return JudgingEstimate(
            least=Receipt.of(chat.receipt() for chat in least.chats),
            most=Receipt.of(chat.receipt() for chat in most.chats),
            embeddings=Receipt.of(embeddings),
            models=", ".join(names),
            counter=", ".join(counters),
            approximate=any(counter.approximate for counter in counters.values()),
            # The same prompts are made under both assumptions: one of the two counts is enough.
            guessed=self._least.guessed,
        )


def _unchecked(settings: LLMSettings) -> LLMSettings:
    """The settings of a model for counting: no prompt is refused or cut, and no deadline ends it.

    A dry run must count what a run would send, though its assumed answers have no endpoint.
    """
    endpoint = replace(settings.endpoint, prompt_check=False, context=None)
    # Without the user's limits, whose rates and budgets would slow or end a rehearsal.
    return replace(settings, endpoint=endpoint, limits=CallLimits())


class _ReadOnlyCache(ResponseCache):
    """Gives what a cache holds, and writes nothing into it: assumed answers stay in memory."""

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        """Opens the run's cache of answers for reading, if there is one; makes no file.

        A question that a real run has asked already costs nothing, and a dry run must leave no
        trace.
        """
        # The answers of earlier runs; None where no run has made the file yet.
        self._file: ResponseCache | None = None
        if path.exists():
            self._file = ResponseCache(path, max_bytes=max_bytes, must_exist=True)
        # By the question's key: the assumed answers of this rehearsal.
        self._assumed: dict[bytes, Reply[Any]] = {}

    def get(self, key: bytes) -> Reply[str] | None:
        """The reply that is kept under a question's key: an assumed one, else the run's cache's.

        A question that the cache answers costs nothing, and is not counted. None where neither has
        it.
        """
        reply = self._assumed.get(key)
        if reply is None and self._file is not None:
            reply = self._file.get(key)
        return reply

    def put(self, reply: Reply[Any], *, judge: str, model: str, purpose: str) -> None:
        """Keeps an assumed reply in memory, and writes nothing into the run's cache.

        A run would ask a question that comes twice only once, and pay once: so does the dry run.
        """
        # Marked as cached, so that a second reading of it is not paid for.
        self._assumed[reply.key] = replace(reply, cached=True)

    def dialect(self, judge: str) -> None:
        """The request forms that an endpoint understands: unknown, as no endpoint is asked.

        A cache must have this method; what it holds of a real run does not matter here.
        """
        return None

    def keep_dialect(self, judge: str, state: bytes) -> None:
        """Keeps nothing: an assumed model shows no request forms that an endpoint understands.

        A cache must have this method, and a dry run must not write into the run's cache.
        """

    def close(self) -> None:
        """Closes the run's cache of answers, where one was opened for reading."""
        if self._file is not None:
            self._file.close()


class _AssumedModel:
    """Says as much as is assumed, and counts the tokens: a `Transport` without a network."""

    def __init__(self, assumption: Assumption) -> None:
        """Makes a model that asks no endpoint, and writes as many words as the assumption has."""
        self._assumption = assumption
        """How much the model writes in an answer."""
        self.guessed = 0
        """Prompts that hold an assumed text, such as an answer that this model has made up."""
        self.clients = ModelClients()
        """Clients that send their calls to this model; they hold the counts of tokens and calls."""

    async def open(self) -> None:
        """Opens no connection: clients open a `Transport` first, and this one has no network."""

    async def close(self) -> None:
        """Closes no connection: clients close a `Transport` at the end, and this has no network."""

    async def send(self, path: str, payload: Mapping[str, Any]) -> Answer:
        """The reply to a request, as an endpoint would send it, with an answer of assumed length.

        The tokens of prompt and answer are counted as an endpoint counts them, schema included:
        their sum is what a dry run reports. The field names are those of OpenAI's protocol.
        """
        count = counter_for_model(payload["model"]).count
        body: dict[str, Any]
        if path == "/embeddings":
            texts: list[str] = payload.get("input", [])
            prompt_tokens = sum(map(count, texts))
            completion_tokens = 0
            # Two numbers: the length of a vector changes nothing of the count, only that it is not
            # zero.
            body = {"data": [{"embedding": [1.0, 0.0]} for _ in texts]}
        else:
            schema = payload["response_format"]["json_schema"]["schema"]
            prompts = [message["content"] for message in payload["messages"]]
            # The last message alone holds the case; those before it are the same for all.
            if _MARK in prompts[-1]:
                self.guessed += 1
            # Read back from the prompt: only what a real judge would see decides about its answer.
            value = assumed_answer(schema, input_of(prompts[-1]), self._assumption)
            text = json.dumps(value, ensure_ascii=False)
            prompt_tokens = sum(count(prompt) + _MESSAGE_TOKENS for prompt in prompts)
            prompt_tokens += count(json.dumps(schema))
            # A real answer would be cut at the limit, too.
            completion_tokens = min(count(text), payload.get("max_tokens") or sys.maxsize)
            body = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
        body["usage"] = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
        return Answer(status=200, headers={}, body=json.dumps(body))
