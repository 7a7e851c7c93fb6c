"""The clients of OpenAI-compatible endpoints: for chat, and for texts to vectors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, Unpack

import msgspec

from ragbench.core.chat import Message, Reply, Usage, Vector
from ragbench.core.record import replace
from ragbench.errors import (
    ConfigError,
    LLMCacheError,
    LLMPromptCutError,
    LLMReplyError,
    LLMRequestError,
    LLMTruncatedError,
)
from ragbench.llm.answers import (
    WIDER,
    Answer,
    Completion,
    EmptyAnswerError,
    completion_of,
    limit_of,
    shortened,
)
from ragbench.llm.budget import total
from ragbench.llm.cache import cache_key
from ragbench.llm.caller import Caller, CallerOptions, Question, RejectedError
from ragbench.llm.dialect import SPARE, Dialect, Learned, Reading, fewest_prompt_tokens, schema_text
from ragbench.llm.endpoint import Endpoint, StructuredOutput
from ragbench.llm.schema import Schema, read_structure
from ragbench.safe_text import counted

_CORRECTION_REQUEST = (
    "That is not what was asked for: {problem}\nReply again with the whole corrected JSON value, "
    "and with nothing else."
)
"""What a model is told, once, whose answer is not as asked."""
_CHAT = "/chat/completions"
"""The path of the interface for chats, behind an endpoint's address."""
_SHOWN = 1000
"""Characters of a problem that the model is told."""
_FIRST_ANSWER = 512
"""Tokens that answers are taken to need until one shows how long they are."""
_USUAL_ANSWER = 256
"""Tokens that later answers are taken to need at least, however short the first ones were."""
_MARGIN = 4
"""How many times as long as the longest answer so far, or as one that was cut off, the next one may
be: answers of one judge differ in length, and one that is cut off is paid for and asked again."""
_TOKENS_A_MINUTE = "limit-tokens"
"""The header, without its beginning, that says how many tokens a minute takes."""
_ANSWERS_A_MINUTE = 8
"""Answers that a minute shall have room for; where it has not, each gets less."""
_LEAST_ANSWER = 64
"""Tokens. Below them, no answer of any use can be expected."""


@dataclass(kw_only=True, slots=True)
class _ChatQuestion(Question):
    """A question in a chat, and what was found out while it was asked."""

    schema: Schema[Any] | None
    mode: StructuredOutput
    """How JSON is asked for."""
    completions: list[Completion] = field(default_factory=list[Completion])
    """All answers, the unusable ones included."""
    room: int | None = None
    """Tokens that are left for an answer, as the endpoint has said."""
    needed: int = 0
    """Tokens that its answer needs, since one with less room was cut off; 0 where none was."""


@dataclass(slots=True)
class _InFlight:
    """A question in flight and how many wait for its answer."""

    task: asyncio.Task[Reply[Any]]
    waiting: int = 0


class LLMClient(Caller):
    """Asks one model; opened and closed inside the event loop that asks.

    Example:
        >>> async def judge(endpoint, messages):
        ...     async with LLMClient(endpoint) as client:
        ...         return await client.ask(messages)
    """

    def __init__(self, endpoint: Endpoint, **options: Unpack[CallerOptions]) -> None:
        """Takes what `Caller` takes.

        With a cap on costs every answer gets a limit of its length.
        """
        super().__init__(endpoint, **options)
        budget = options.get("budget")
        is_capped = budget is not None and budget.is_capped
        self.dialect = Dialect(endpoint, must_limit=is_capped)
        """What the endpoint understands, such as its way of asking for JSON: requests are put into
        this form."""
        self._reading = Reading(self._where, self.dialect, self._ask_plainly)
        """Whether prompts are read whole: each answer's count of tokens is looked at."""
        self._longest_answer = 0
        """Tokens of the longest answer so far."""
        self._stored_dialect = self.dialect.learned
        """What was learned of the endpoint and is in the cache already."""
        self._judge = endpoint.fingerprint()
        """The digest of the endpoint's settings, stored beside each answer in the cache."""
        self._place = endpoint.place()
        """The name under which the cache stores what was learned of the endpoint."""
        self._in_flight: dict[bytes, _InFlight] = {}
        """Questions that are being asked, by their cache keys: equal ones share the answer."""
        self._cache_error: LLMCacheError | None = None
        """Why answers cannot be kept any more: then no new ones are bought."""

    async def __aenter__(self) -> Self:
        """Opens the client, and takes over what earlier commands learned of the endpoint.

        Knowing what the endpoint takes, the client asks its first question in such a form. What an
        older version stored in another form is ignored, and found out anew.
        """
        await super().__aenter__()
        stored = None
        if self.cache is not None:
            stored = self.cache.dialect(self._place)
        with suppress(msgspec.DecodeError):  # nothing, or nothing readable: it is found out anew
            learned = msgspec.json.decode(stored or b"", type=Learned)
            self.dialect.restore(learned)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancels the questions in flight, then closes the connections that they use.

        Else a question that is still waiting would fail with an error of a closed connection.
        """
        self._loop = None  # no further call begins
        tasks = [question.task for question in self._in_flight.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await super().__aexit__()

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema[Any] | None = None,
        purpose: str = "",
        version: str = "",
        repeat: int = 0,
    ) -> Reply[Any]:
        """Asks the model, or takes the answer that the cache has to the same question.

        Judges, operators and validators ask here. All arguments but ``purpose`` are part of the
        cache key.

        Args:
            schema: what the answer must be, where it is not a text.
            purpose: what the call is booked under.
            version: of what asks; a part of the cache key.
            repeat: which of several answers to the same question, from 0.
        """
        if not messages:
            raise ConfigError("a model was asked nothing: there must be at least one message")
        self.check_open()
        self.clock.check()
        definition = None if schema is None else schema.definition
        identity = self.endpoint.identity()
        # Equal questions to equal judges share an answer.
        key = cache_key(identity, messages, schema=definition, version=version, repeat=repeat)
        cached_reply = self._cached_reply(key, schema)
        if cached_reply is not None:
            # A stored answer shows that the endpoint worked for an earlier command.
            self.circuit.has_worked = True
            self.ledger.call(purpose, self.endpoint.model, cached=True)
            return cached_reply
        if self._cache_error is not None:
            raise LLMCacheError(str(self._cache_error))
        ask_model = partial(self._new_reply, key, messages, schema, purpose)
        return await self._shared_reply(key, purpose, ask_model)

    async def _shared_reply(
        self, key: bytes, purpose: str, work: Callable[[], Coroutine[Any, Any, Reply[Any]]]
    ) -> Reply[Any]:
        """The reply to a question that several callers may ask at once.

        Only the first caller's question is sent. Equal questions in flight are one: who comes first
        pays, all get the answer.

        Args:
            work: asks the question; it runs for the first caller alone.
        """
        question = self._in_flight.get(key)
        is_first = question is None
        if question is None:
            question = _InFlight(asyncio.create_task(work()))
            self._in_flight[key] = question
            # However it ends: a later equal question finds the cache, or is asked anew after an
            # error.
            question.task.add_done_callback(lambda _: self._in_flight.pop(key, None))
        failed = True
        question.waiting += 1
        try:
            # Shielded: when the caller that came first is cancelled, others may still wait.
            reply: Reply[Any] = await asyncio.shield(question.task)
            failed = False
        except asyncio.CancelledError:
            if question.waiting == 1:  # nobody else waits for it
                question.task.cancel()
            raise
        finally:
            question.waiting -= 1
            # For the others the answer costs nothing, as one from the cache.
            cached = not is_first and not failed
            self.ledger.call(purpose, self.endpoint.model, cached=cached, failed=failed)
        return reply if is_first else replace(reply, cached=True)

    async def _new_reply(
        self, key: bytes, messages: Sequence[Message], schema: Schema[Any] | None, purpose: str
    ) -> Reply[Any]:
        """The model's new answer to a question, with its tokens and cost, kept in the cache.

        What was learned of the endpoint on the way is kept there as well. A cache that fails gives
        this answer away, since it is paid for, and lets no other be bought.

        Args:
            key: the question's key in the cache.
            purpose: what the call is booked under.
        """
        started = self.clock.now()
        question = _ChatQuestion(
            purpose=purpose, spread=_spread_of_key(key), schema=schema, mode=self.dialect.structured
        )
        value, repaired = await self._converse(messages, question)
        final = question.completions[-1]
        # Answers that could not be used are paid for, too.
        usage = sum((completion.usage for completion in question.completions), Usage())
        cost = total(completion.cost for completion in question.completions)
        reply = Reply(
            value=value,
            text=final.text,
            model=final.model,
            finish_reason=final.finish_reason,
            usage=usage,
            cost=cost,
            repaired=repaired,
            attempts=question.attempts,
            seconds=round(self.clock.now() - started, 6),
            key=key,
            not_sent=tuple(sorted(self.dialect.learned.not_sent)),
        )
        if self.cache is not None:
            try:
                model = self.endpoint.model
                learned = self.dialect.learned
                self.cache.put(reply, judge=self._judge, model=model, purpose=purpose)
                if learned is not self._stored_dialect:  # the next command need not find it out
                    self._stored_dialect = learned
                    self.cache.keep_dialect(self._place, msgspec.json.encode(learned))
            except LLMCacheError as error:
                # This answer is paid for and is given; from now on `ask` buys no other.
                self._cache_error = error
        return self._with_cost(reply)

    async def _converse(
        self, messages: Sequence[Message], question: _ChatQuestion
    ) -> tuple[Any, bool]:
        """The model's answer to a question, and whether the model had to correct it.

        An answer without the structure is objected to once. But where no answer has yet had the
        structure that was asked for in this way, the next way of asking for JSON is tried first,
        and in it the question is asked anew.
        """
        schema = question.schema
        text = await self._answer_text(messages, question)
        if schema is None:
            return text, False
        while True:
            try:
                return self._read_value(text, schema, question), False
            except LLMReplyError as error:
                # Another way of asking for JSON is tried before the model is blamed.
                weaker = self.dialect.ignored(question.mode)
                if weaker is None:
                    problem = str(error)
                    break
            question.mode = weaker
            text = await self._answer_text(messages, question)
        objection = _CORRECTION_REQUEST.format(problem=shortened(problem, _SHOWN))
        if question.mode is StructuredOutput.JSON_SCHEMA:
            # So far the schema was a field of the request alone, in no message: the model may not
            # have seen it.
            objection += f"\n\n{schema_text(schema.definition)}"
        answer = Message(role="assistant", content=text)
        conversation = [*messages, answer, Message(role="user", content=objection)]
        text = await self._answer_text(conversation, question)
        try:
            return self._read_value(text, schema, question), True
        except LLMReplyError as error:
            message = f"{error}. It was asked once to correct its answer"
            if not self.dialect.mode_is_known:
                message += "; if the endpoint takes no schema, set structured: none"
            raise LLMReplyError(message, reply=text, attempts=question.attempts) from None

    def _read_value(self, text: str, schema: Schema[Any], question: _ChatQuestion) -> Any:
        """The value in an answer's text, checked by its schema.

        A good value confirms the way of asking for JSON. The dialect then keeps that way: an
        endpoint that gave the structure understands it.
        """
        value = read_structure(text, schema)
        self.dialect.confirmed(question.mode)
        return value

    async def _answer_text(self, messages: Sequence[Message], question: _ChatQuestion) -> str:
        """The text of one answer.

        The request is put another way while the endpoint rejects its form. Endpoints differ in
        their parameters, limits and names of fields. What one rejects is learned, so later
        questions are right at once. An answer cut off for want of room is asked for again with
        more.
        """
        dialect = self.dialect
        first_rejection: RejectedError | None = None
        left_out: list[str] = []  # parameters, because of a rejection

        while True:
            before = dialect.learned
            longest = question.room or dialect.longest_beside(messages)
            # Taken now: the name of the field may be learned anew before the rejection is read.
            payload = self._request_body(messages, question, longest)
            limit = payload.get(dialect.learned.token_limit)
            try:
                completion = await self._ask_once(payload, question, limit)
            except RejectedError as error:
                first_rejection = first_rejection or error
                # Groq rejects a model's answer that is not the JSON asked for, and sends the answer
                # along in the error: it is read like any other, which the model may have to
                # correct (https://console.groq.com/docs/errors).
                details = Answer(status=400, headers={}, body=error.body).error
                if details.get("code") == "json_validate_failed":
                    return str(details.get("failed_generation") or details.get("message"))
                # Another call may have learned meanwhile how the endpoint is to be asked: then the
                # request is sent again in that form.
                fits_now = self._has_room(error, limit, question)
                has_changed = fits_now or dialect.learned is not before
                if not has_changed and not self._can_adapt(error, payload, question, left_out):
                    # What was left out did not help: the next question has it again.
                    dialect.forgets(left_out)
                    # The user sees the first rejection: later ones may be about what was left out.
                    raise first_rejection from None
            except LLMTruncatedError as error:
                if limit is not None and limit < (longest or 0):
                    # The answer was cut by a limit that saves costs, not for want of room: the next
                    # attempt gets more.
                    question.needed = _MARGIN * limit
                elif not error.reasoned:
                    raise _error_of_long_prompt(error, longest, dialect.longest) from None
                elif dialect.learned is before and before.reasons:
                    raise  # the model had room for its thoughts already
                else:
                    # A model that thinks gets more room.
                    dialect.learn(reasons=True)
            else:
                usage = completion.usage
                question.completions.append(completion)
                self._longest_answer = max(self._longest_answer, usage.completion_tokens)
                dialect.learn_prompt_size(messages, usage.prompt_tokens)
                return completion.text

    def _request_body(
        self, messages: Sequence[Message], question: _ChatQuestion, longest: int | None
    ) -> dict[str, Any]:
        """The body of a chat request, with the limit of its answer's length.

        The dialect knows the names and forms that this endpoint takes.

        Args:
            longest: tokens that the answer may have at most; None where it has no limit.
        """
        definition = None if question.schema is None else question.schema.definition
        payload = self.dialect.payload(messages, definition, question.mode, longest)
        if longest is not None:
            limit_name = self.dialect.learned.token_limit
            payload[limit_name] = self._token_limit(payload, question, longest)
        return payload

    def _token_limit(
        self, payload: Mapping[str, Any], question: _ChatQuestion, longest: int
    ) -> int:
        """The tokens that an answer may have: all, or only what it needs where room is scarce.

        Room is scarce where little is left of a budget, as the most that a request can cost is set
        aside for it (`affordable`), and where the endpoint takes few tokens in a minute.

        Args:
            longest: tokens that the answer may have at most.
        """
        usual = _FIRST_ANSWER
        if self._longest_answer:
            usual = max(_MARGIN * self._longest_answer, _USUAL_ANSWER)
        needed = max(question.needed, usual)
        limit = self.affordable(payload, longest, needed)
        # Many endpoints count what an answer may have against what a minute takes. Before the first
        # answer its length is a guess: it is better to wait for a minute than to have it cut off.
        enough_a_minute = limit * _ANSWERS_A_MINUTE
        tokens_a_minute = self.rates.get(_TOKENS_A_MINUTE, enough_a_minute)
        if self._longest_answer and tokens_a_minute < enough_a_minute:
            limit = min(limit, needed)
        return limit

    def _can_adapt(
        self,
        error: RejectedError,
        payload: Mapping[str, Any],
        question: _ChatQuestion,
        left_out: list[str],
    ) -> bool:
        """Whether the request can be put another way, as its rejection says.

        What the rejection teaches is learned by the dialect, for all later questions.

        Args:
            left_out: a list that gets the parameter which requests leave out from now on.
        """
        status = error.status or 0
        # A parameter first: without one the answer changes less than with a weaker call for JSON.
        parameter = self.dialect.learns(status, error.body, payload)
        if parameter is not None:
            left_out.append(parameter)
            return True
        if question.schema is None:
            return False
        weaker = self.dialect.weaker(question.mode, status, error.body)
        if weaker is None:
            return False
        question.mode = weaker
        return True

    def _has_room(
        self, error: RejectedError, answer_limit: int | None, question: _ChatQuestion
    ) -> bool:
        """Whether a shorter answer fits beside the prompt, as a rejection says.

        If so, the question's room is set to that length, and the caller sends the question again.

        Args:
            answer_limit: tokens that the rejected request allowed its answer.

        Raises:
            LLMRequestError: no answer of any use fits beside the prompt.
        """
        limit = limit_of(error.body, answer_limit)
        if limit is None:
            return False
        # Kept for later questions: `longest_beside` gives their answers less from the start.
        self.dialect.learn(room=limit.most)
        requested = answer_limit or 0
        if limit.prompt is None:
            # How much of the room the prompt takes is not said: less is tried, step by step.
            room = requested // 4
        else:
            room = limit.most - limit.prompt - SPARE
        if room >= requested > 0:
            return False  # so long an answer was refused: the rejection is about something else
        if room < _LEAST_ANSWER:
            length = "is too long"
            if limit.prompt is not None:
                length = f"has {limit.prompt:,} tokens"
            measure = "in a minute" if limit.is_rate else "with its answer"
            raise LLMRequestError(
                f"the prompt {length}, and {self.endpoint.model} takes {limit.most:,} {measure}: "
                f"{limit.remedy}",
                status=error.status,
            )
        question.room = room
        return True

    async def _ask_plainly(self, messages: Sequence[Message]) -> str:
        """The text of an answer that is neither checked nor kept.

        `Reading` asks in this way for codes hidden in a long prompt, to see whether the endpoint
        reads prompts whole. A check of this call, too, would start another such question.
        """
        longest = self.dialect.longest_beside(messages)
        payload = self.dialect.payload(messages, None, StructuredOutput.NONE, longest)
        # One such question is in flight at a time: there is none to be kept apart from.
        question = Question(purpose="prompt check", spread=0.5)
        completion = await self.call(_CHAT, payload, question, completion_of, max_tokens=longest)
        return completion.text

    async def _ask_once(
        self, payload: Mapping[str, Any], question: _ChatQuestion, limit: int | None
    ) -> Completion:
        """The model's answer to one form of a request, whose prompt the endpoint read as a whole.

        Servers that drop the beginning of a long prompt would give an answer without its evidence.

        Args:
            limit: tokens that the answer may have at most; None where it has no limit.

        Raises:
            LLMPromptCutError: the prompt is longer than the endpoint reads.
        """
        endpoint = self.endpoint
        # Checked before it is sent: a prompt that is surely too long costs nothing.
        fewest = fewest_prompt_tokens(payload["messages"])
        if endpoint.context is not None and fewest > endpoint.context:
            raise LLMPromptCutError(
                f"the prompt has {fewest:,} tokens or more, and the setting context allows "
                f"{endpoint.context:,}: it was not sent"
            )
        completion = await self.call(_CHAT, payload, question, completion_of, max_tokens=limit)
        if endpoint.prompt_check:
            await self._reading.check(completion.usage, fewest)
        return completion

    def _cached_reply(self, key: bytes, schema: Schema[Any] | None) -> Reply[Any] | None:
        """The reply that the cache has to a question.

        None where the cache has no reply, or one that its schema does not accept. Stored answers
        are checked again because the check is no part of the key, and may be stricter by now.
        """
        reply = None if self.cache is None else self.cache.get(key)
        if reply is None:
            return None
        value: Any = reply.text
        if schema is not None:
            try:
                value = read_structure(reply.text, schema)
            # An answer that is not good enough any more is asked for anew.
            except LLMReplyError:
                return None
        reply = replace(reply, value=value)
        return self._with_cost(reply)

    def _with_cost(self, reply: Reply[Any]) -> Reply[Any]:
        """A reply with the cost of its tokens at today's price, where the endpoint reported none.

        Cached replies hold tokens, not prices: prices change.
        """
        if reply.cost is not None or self.price is None:
            return reply
        if not reply.usage.reported:
            return reply
        cost = self.price.of(reply.usage)
        return replace(reply, cost=cost)


def _spread_of_key(key: bytes) -> float:
    """A number in [0, 1) from a question's key.

    By it, questions that failed together wait differently long. From the key and not at random, so
    that a run repeats itself.
    """
    number = int.from_bytes(key[:4], "big")
    return number / 2**32


def _error_of_long_prompt(
    error: LLMTruncatedError, limit: int | None, longest: int | None
) -> LLMTruncatedError:
    """The error of a cut-off answer, which names a long prompt as the cause where it was.

    The remedy differs: a longer limit of answers does not help where the prompt fills the context.

    Args:
        limit: tokens that the answer had room for; None for no limit.
        longest: tokens that it would have had beside a shorter prompt.
    """
    if limit is None or limit == longest:
        return error
    text = f"the answer was cut off at {limit:,} tokens, all that the prompt leaves: {WIDER}"
    return LLMTruncatedError(text, reply=error.reply, attempts=error.attempts)


# --- embeddings

_BATCH_SIZE = 64
"""Texts of one request."""
_VECTOR_VERSION = "embedding"
"""Keeps the cache keys of texts that are embedded apart from those of questions."""


class EmbeddingClient(Caller):
    """Embeds texts; opened and closed inside the event loop that asks, like `LLMClient`."""

    def __init__(self, endpoint: Endpoint, **options: Unpack[CallerOptions]) -> None:
        """Takes what `Caller` takes, and works out the model's part of all cache keys.

        With other fields in that part, the vectors in users' caches would not be found.
        """
        super().__init__(endpoint, **options)
        # What a vector depends on; the other settings, such as temperature, are for chat alone.
        self._identity: dict[str, Any] = {
            "base_url": endpoint.base_url,
            "model": endpoint.model,
            "api_version": endpoint.api_version,
            "extra": dict(endpoint.extra),
        }

    async def embed(self, texts: Sequence[str], *, purpose: str = "") -> tuple[Vector, ...]:
        """The vector of each text, in order, from the cache or the endpoint; all are of one length.

        Texts are sent in batches of `_BATCH_SIZE`, side by side, and each distinct text once.
        """
        if not all(text.strip() for text in texts):
            raise ConfigError("an empty text cannot be embedded")
        keys: dict[str, bytes] = {}
        # By text: a text that comes several times is looked up, sent and paid for once.
        vectors: dict[str, Vector] = {}
        for text in texts:
            message = Message(role="user", content=text)
            keys[text] = cache_key(self._identity, [message], version=_VECTOR_VERSION)
        for text, key in keys.items():
            vector = self._cached_vector(key)
            if vector:
                vectors[text] = vector
        missing = [text for text in keys if text not in vectors]
        batches: list[list[str]] = []
        tasks: list[asyncio.Task[list[Vector]]] = []
        for start in range(0, len(missing), _BATCH_SIZE):
            batch = missing[start : start + _BATCH_SIZE]
            batches.append(batch)
            tasks.append(asyncio.create_task(self._vectors_of_batch(batch, keys, purpose)))
        try:
            # Each batch is in the cache as soon as it is answered, whatever becomes of the others.
            for batch, task in zip(batches, tasks, strict=True):
                new_vectors = await task
                vectors.update(zip(batch, new_vectors, strict=True))
        finally:
            for task in tasks:  # those that are done do not mind
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return tuple(vectors[text] for text in texts)

    async def _vectors_of_batch(
        self, texts: list[str], keys: Mapping[str, bytes], purpose: str
    ) -> list[Vector]:
        """The vectors of the texts of one request, in order, kept in the cache.

        One request of many texts is far quicker than many of one. Vectors are stored as JSON, which
        is the form in users' caches.

        Args:
            keys: the cache keys of the texts.
        """
        model = self.endpoint.model
        payload = {"model": model, "input": texts, **self.endpoint.extra}
        # A vector has no tokens of an answer: the prompt alone bounds the cost.
        question = Question(purpose=purpose, spread=_spread_of_key(keys[texts[0]]))
        read = partial(_vectors_of_answer, count=len(texts))
        failed = True
        try:
            vectors = await self.call("/embeddings", payload, question, read, max_tokens=0)
            failed = False
        finally:
            self.ledger.call(purpose, model, failed=failed)
        if self.cache is not None:
            judge = self.endpoint.fingerprint()
            # An endpoint counts the tokens of a request, not those of each text.
            usage_unknown = Usage(reported=False)
            for text, vector in zip(texts, vectors, strict=True):
                vector_text = json.dumps(vector)
                reply = Reply(
                    value=vector_text,
                    text=vector_text,
                    usage=usage_unknown,
                    model=model,
                    key=keys[text],
                )
                self.cache.put(reply, judge=judge, model=model, purpose=purpose)
        return vectors

    def _cached_vector(self, key: bytes) -> Vector | None:
        """The vector of a text that the cache has; None without one, or where it cannot be read.

        A cached text may be damaged or of another version: then the vector is simply asked for
        again.
        """
        reply = None if self.cache is None else self.cache.get(key)
        if reply is None:
            return None
        try:
            numbers = json.loads(reply.text)
            return tuple(float(number) for number in numbers)
        except (TypeError, ValueError):
            return None


def _vectors_of_answer(body: Mapping[str, Any], count: int) -> list[Vector]:
    """The vectors of an embedding endpoint's JSON, in the order of the texts that were sent.

    Endpoints may give them in another order, with an index each. A missing vector must not shift
    the others.

    Raises:
        EmptyAnswerError: there are not so many, or they are not of one length.
    """
    vectors: list[Vector] = []
    try:
        # Without an index all count as 0, and a stable sort leaves the order of the answer.
        entries = sorted(body["data"], key=lambda entry: int(entry.get("index", 0)))
        for entry in entries:
            numbers = entry["embedding"]
            vectors.append(tuple(float(number) for number in numbers))
    except (AttributeError, KeyError, TypeError, ValueError):
        # Any other form: the check below raises, and the request is sent again.
        vectors = []
    lengths = {len(vector) for vector in vectors}
    are_alike = len(lengths) == 1 and 0 not in lengths
    if len(vectors) != count or not are_alike:
        raise EmptyAnswerError(f"an answer without one vector for each of {counted(count, 'text')}")
    return vectors
