"""Text or structure asked for, in the words that the endpoint understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from ragbench.core.chat import Message, Reply, Usage
from ragbench.errors import LLMPromptCutError, LLMReplyError, LLMTruncatedError
from ragbench.llm.answers import Completion, completion_of, usage_of
from ragbench.llm.caller import AttemptLog, Caller, RejectedError, Request
from ragbench.llm.dialect import Dialect, schema_text
from ragbench.llm.endpoint import Endpoint, StructuredOutput
from ragbench.llm.estimate import fewest_prompt_tokens
from ragbench.llm.schema import Schema, read_structure

ValueT = TypeVar("ValueT")


_MEND = (
    "That is not what was asked for: {problem}\nReply again with the whole corrected JSON value, "
    "and with nothing else."
)
_SHOWN = 1000
_CUT = 0.75
"""A prompt of which less than this share of its fewest tokens was read has been cut. Below 1, since
some newer tokenizers merge words that often stand together."""
_FEWEST_MISSING = 128
"""Tokens. No endpoint has so small a context that less is cut; counts of short prompts differ."""


class Conversation:
    """Asks for text or structure, in the words that the endpoint understands."""

    def __init__(self, caller: Caller, dialect: Dialect) -> None:
        self._endpoint: Endpoint = caller.endpoint
        self._dialect = dialect
        self._caller = caller

    async def ask(
        self,
        messages: Sequence[Message],
        schema: Schema[ValueT] | None,
        *,
        purpose: str,
        spread: float,
    ) -> Reply[ValueT]:
        """Asks, and asks once more when the answer has not the structure.

        The reply has the cost that the endpoint reported; key and seconds are the client's to add.

        Where no answer has yet had the structure that was asked for in this way, the next way is
        tried first, and in it the question is asked anew.
        """
        asked = _Asked(schema=schema, purpose=purpose, spread=spread)
        first = await self._complete(messages, asked)
        if schema is None:
            return self._result(cast("ValueT", first.text), asked, repaired=False)
        while True:
            try:
                value = self._read(first.text, schema, asked)
                return self._result(value, asked, repaired=False)
            except LLMReplyError as error:
                weaker = self._dialect.ignored(asked.mode)
                if weaker is None:
                    return await self._mended(messages, schema, asked, first.text, str(error))
                asked.mode = weaker
                first = await self._complete(messages, asked)

    async def _mended(
        self,
        messages: Sequence[Message],
        schema: Schema[ValueT],
        asked: _Asked,
        text: str,
        problem: str,
    ) -> Reply[ValueT]:
        """Asks the model to mend its answer; a schema that was in the request alone is repeated."""
        repeated = (
            "" if asked.mode is not StructuredOutput.JSON_SCHEMA else schema_text(schema.definition)
        )
        mended = await self._complete([*messages, *_objection(text, problem, repeated)], asked)
        try:
            value = self._read(mended.text, schema, asked)
        except LLMReplyError as error:
            message = f"{error}. It was asked once to correct its answer"
            if not self._dialect.known:
                message += "; if the endpoint takes no schema, set structured: none"
            raise LLMReplyError(message, reply=mended.text, attempts=asked.tries.attempts) from None
        return self._result(value, asked, repaired=True)

    def _read(self, text: str, schema: Schema[ValueT], asked: _Asked) -> ValueT:
        value = read_structure(text, schema)
        self._dialect.confirmed(asked.mode)
        return value

    def _result(self, value: ValueT, asked: _Asked, *, repaired: bool) -> Reply[ValueT]:
        found = asked.all()
        return Reply(
            value=value,
            text=found.text,
            usage=found.usage,
            cost=found.cost,
            model=found.model,
            finish_reason=found.finish_reason,
            cached=False,
            repaired=repaired,
            attempts=asked.tries.attempts,
            seconds=0.0,
            key=b"",
            not_sent=tuple(sorted(self._dialect.not_sent)),
        )

    async def _complete(self, messages: Sequence[Message], asked: _Asked) -> Completion:
        """One answer; the request is put another way while the endpoint rejects its form."""
        dialect = self._dialect
        if asked.mode is StructuredOutput.AUTO:
            asked.mode = dialect.structured
        first: RejectedError | None = None
        left_out: list[str] = []
        while True:
            version = dialect.version
            payload = self._payload(messages, asked)
            try:
                found = await self._once(payload, asked)
            except RejectedError as error:
                first = first or error
                # Another call may have found something out meanwhile.
                if dialect.version == version and not self._adapts(error, payload, asked, left_out):
                    for name in left_out:
                        dialect.forgets(name)
                    raise first from None
            except LLMTruncatedError as error:
                if not error.reasoned:
                    raise
                if dialect.version == version and not dialect.found_to_reason():
                    raise
            else:
                asked.said.append(found)
                return found

    def _adapts(
        self, error: RejectedError, payload: Mapping[str, Any], asked: _Asked, left_out: list[str]
    ) -> bool:
        """Puts the next request another way, where the rejection says how; false where not."""
        status = error.status or 0
        learned = self._dialect.learns(status, error.body, payload)
        if learned is not None:
            left_out.append(learned)
            return True
        if asked.schema is None:
            return False
        weaker = self._dialect.weaker(asked.mode, status, error.body)
        asked.mode = asked.mode if weaker is None else weaker
        return weaker is not None

    def _payload(self, messages: Sequence[Message], asked: _Asked) -> dict[str, Any]:
        definition = None if asked.schema is None else asked.schema.definition
        return self._dialect.payload(self._endpoint, messages, definition, asked.mode)

    async def _once(self, payload: Mapping[str, Any], asked: _Asked) -> Completion:
        endpoint = self._endpoint
        request = Request(
            path="/chat/completions",
            payload=payload,
            purpose=asked.purpose,
            max_tokens=self._dialect.longest(endpoint),
        )
        fewest = fewest_prompt_tokens(payload["messages"])
        if endpoint.context is not None and fewest > endpoint.context:
            raise LLMPromptCutError(
                f"the prompt has {fewest:,} tokens or more, and the setting context allows "
                f"{endpoint.context:,}: it was not sent"
            )
        fewest = fewest if endpoint.prompt_check else 0

        def read(body: Mapping[str, Any]) -> Completion:
            _check_prompt(usage_of(body), fewest)
            return completion_of(body)

        return await self._caller.call(request, read, spread=asked.spread, tries=asked.tries)


@dataclass(kw_only=True, slots=True)
class _Asked:
    """One question on its way."""

    schema: Schema[Any] | None
    purpose: str
    spread: float
    mode: StructuredOutput = StructuredOutput.AUTO
    """How JSON is asked for; AUTO until the first request."""
    tries: AttemptLog = field(default_factory=AttemptLog)
    said: list[Completion] = field(default_factory=list[Completion])
    """All answers, the unusable ones included."""

    def all(self) -> Completion:
        """The last answer, with the tokens and the cost of all."""
        *earlier, last = self.said
        usage, cost = last.usage, last.cost
        for completion in earlier:
            usage += completion.usage
            cost = None if cost is None or completion.cost is None else cost + completion.cost
        return replace(last, usage=usage, cost=cost)


def _check_prompt(usage: Usage, fewest: int) -> None:
    """Refuses an answer to a part of the question."""
    # Some count what they had in their cache apart.
    read = usage.prompt_tokens + usage.cached_prompt_tokens
    is_short = read < _CUT * fewest and fewest - read >= _FEWEST_MISSING
    if usage.reported and usage.prompt_tokens and is_short:
        raise LLMPromptCutError(
            f"the endpoint read {usage.prompt_tokens:,} tokens of a prompt of {fewest:,} words or "
            "more: it cuts long prompts without a word. Give it more context (Ollama: "
            "OLLAMA_CONTEXT_LENGTH or num_ctx; llama.cpp: -c); 'ragbench doctor --llm' measures "
            "how much it reads"
        )


def _objection(text: str, problem: str, schema: str) -> list[Message]:
    shown = problem if len(problem) <= _SHOWN else f"{problem[:_SHOWN]} ..."
    asked = _MEND.format(problem=shown)
    return [
        Message(role="assistant", content=text),
        Message(role="user", content=f"{asked}\n\n{schema}" if schema else asked),
    ]
