"""A question to a model until its answer has the structure that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

from ragbench.errors import LLMReplyError
from ragbench.llm.call import Caller, RejectedError, Tries
from ragbench.llm.chat import Message
from ragbench.llm.completion import Completion, completion_of
from ragbench.llm.dialect import Dialect, Structured
from ragbench.llm.endpoint import Endpoint
from ragbench.llm.request import Purpose
from ragbench.llm.schema import Schema, read_structure

__all__ = ["Conversation", "Settled"]

ValueT = TypeVar("ValueT")
_MEND = (
    "That is not what was asked for: {problem}\nReply again with the whole corrected JSON value, "
    "and with nothing else."
)
_SHOWN = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled(Generic[ValueT]):
    """An answer that is as it was asked for."""

    value: ValueT
    completion: Completion
    """The last answer, with the tokens of all."""
    repaired: bool
    attempts: int


class Conversation:
    """Asks for text or structure, in the words that the endpoint understands."""

    def __init__(self, endpoint: Endpoint, dialect: Dialect, caller: Caller) -> None:
        """What all questions share.

        Args:
            endpoint: who is asked.
            dialect: what it was found to understand.
            caller: calls it.
        """
        self._endpoint = endpoint
        self._dialect = dialect
        self._caller = caller

    async def ask(
        self,
        messages: Sequence[Message],
        schema: Schema[ValueT] | None,
        *,
        purpose: str,
        spread: float,
    ) -> Settled[ValueT]:
        """Asks, and asks once more when the answer has not the structure.

        Args:
            messages: the question.
            schema: the structure; None for text, which is the value then.
            purpose: what it is booked under.
            spread: see `Caller.call`.

        Raises:
            LLMError: there is no such answer.
        """
        tries = Tries()
        first = await self._complete(messages, schema, purpose, spread, tries)
        if schema is None:
            value = cast("ValueT", first.text)
            return Settled(value=value, completion=first, repaired=False, attempts=tries.attempts)
        try:
            value = read_structure(first.text, schema)
            return Settled(value=value, completion=first, repaired=False, attempts=tries.attempts)
        except LLMReplyError as error:
            mended = await self._complete(
                [*messages, *_objection(first.text, str(error))], schema, purpose, spread, tries
            )
        try:
            value = read_structure(mended.text, schema)
        except LLMReplyError as error:
            told = f"{error}. It was asked once to mend its answer"
            raise LLMReplyError(told, reply=mended.text, attempts=tries.attempts) from None
        both = replace(mended, usage=first.usage + mended.usage)
        return Settled(value=value, completion=both, repaired=True, attempts=tries.attempts)

    async def _complete(
        self,
        messages: Sequence[Message],
        schema: Schema[Any] | None,
        purpose: str,
        spread: float,
        tries: Tries,
    ) -> Completion:
        """One answer; the request is put another way while the endpoint rejects its form."""
        mode = self._dialect.structured
        first: RejectedError | None = None
        while True:
            try:
                found = await self._once(messages, schema, mode, purpose, spread, tries)
            except RejectedError as error:
                first = first or error
                status = error.status or 0
                if self._dialect.renames_token_limit(status, error.body):
                    first = None
                    continue
                weaker = None
                if schema is not None:
                    weaker = self._dialect.weaker(mode, status, error.body)
                if weaker is None:
                    raise first from None
                mode = weaker
            else:
                if schema is not None:
                    self._dialect.confirmed(mode)
                return found

    async def _once(
        self,
        messages: Sequence[Message],
        schema: Schema[Any] | None,
        mode: Structured,
        purpose: str,
        spread: float,
        tries: Tries,
    ) -> Completion:
        endpoint = self._endpoint
        definition = None if schema is None else schema.definition
        payload = self._dialect.payload(
            endpoint.model, messages, endpoint.parameters, definition, mode
        )
        asked = Purpose(
            path="/chat/completions",
            name=purpose,
            model=endpoint.model,
            max_tokens=endpoint.max_tokens,
        )
        return await self._caller.call(asked, payload, completion_of, spread=spread, tries=tries)


def _objection(text: str, problem: str) -> list[Message]:
    shown = problem if len(problem) <= _SHOWN else f"{problem[:_SHOWN]} ..."
    return [
        Message(role="assistant", content=text),
        Message(role="user", content=_MEND.format(problem=shown)),
    ]
