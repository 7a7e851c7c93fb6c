"""Message, Reply, Usage, what it costs, and the protocol of a language model."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

from ragbench.core.record import Record
from ragbench.errors import ConfigError


class Usage(Record):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Hidden reasoning included."""
    cached_prompt_tokens: int = 0
    """Part of ``prompt_tokens`` that the endpoint had in its own cache."""
    reasoning_tokens: int = 0
    """Part of ``completion_tokens`` that the model thought and did not say."""
    reported: bool = True
    """False when the endpoint did not say: then the numbers are 0 and mean nothing."""

    def __add__(self, other: Usage) -> Usage:
        """Both together; reported only when both are."""
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_prompt_tokens=self.cached_prompt_tokens + other.cached_prompt_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            reported=self.reported and other.reported,
        )


_MILLION = Decimal(1_000_000)


class LongPrompt(Record):
    """What a request costs whose prompt is longer than most."""

    above: int
    """Tokens of the prompt from which on, exclusively, the whole request costs so much."""
    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None


class Price(Record):
    input: Decimal
    """Of the prompt."""
    output: Decimal
    """Of the answer, hidden reasoning included."""
    cached_input: Decimal | None = None
    """Of the part of the prompt that the endpoint had in its own cache; None: as ``input``."""
    long_prompt: LongPrompt | None = None
    """What very long prompts cost, where that differs."""
    currency: ClassVar[str] = "USD"
    origin: str = "settings"
    """Where the price comes from, with its date where it has one."""

    def __post_init__(self) -> None:
        prices = (self.input, self.output, self.cached_input or Decimal(0))
        if any(not price.is_finite() or price < 0 for price in prices):
            raise ConfigError("the price of a million tokens must be a number of at least 0")

    def of(self, usage: Usage) -> Decimal:
        """What one request costs; several together cost as much where none has a long prompt."""
        rate = self._rate(usage.prompt_tokens)
        cached = min(usage.cached_prompt_tokens, usage.prompt_tokens)
        fresh = usage.prompt_tokens - cached
        known = rate.input if rate.cached_input is None else rate.cached_input
        cost = fresh * rate.input + cached * known + usage.completion_tokens * rate.output
        return cost / _MILLION

    def at_most(self, *, prompt_tokens: int, completion_tokens: int) -> Decimal:
        """What a request costs when nothing is cached and the answer is as long as it may be."""
        rate = self._rate(prompt_tokens)
        dearest = max(rate.input, rate.cached_input or rate.input)
        return (prompt_tokens * dearest + completion_tokens * rate.output) / _MILLION

    def _rate(self, prompt_tokens: int) -> Price | LongPrompt:
        long = self.long_prompt
        return self if long is None or prompt_tokens <= long.above else long


T_co = TypeVar("T_co", covariant=True)


class Reply(Record, Generic[T_co]):
    """A whole answer, as it was asked for."""

    value: T_co
    """The structure that was asked for; the text when none was."""
    text: str
    """What the model said, word by word."""
    usage: Usage
    """Tokens of all its requests together. Of a cached answer: what it took when it was asked."""
    cost: Decimal | None = None
    """What those tokens cost, or cost then: as the endpoint says, else by the price; None when
    neither is known."""
    model: str
    """The model, as the endpoint names it."""
    finish_reason: str = ""
    cached: bool = False
    """Whether it came out of the cache, or from an equal question in flight: nothing was paid."""
    repaired: bool = False
    """Whether the first answer was not as asked, and the model was asked to mend it."""
    attempts: int = 1
    seconds: float = 0.0
    """From the question to the answer, waiting included. Of a cached answer: what it took then."""
    key: bytes
    """Name of the question; see `cache_key`."""
    not_sent: tuple[str, ...] = ()
    """Parameters that were to be sent and that the endpoint refuses, such as ``temperature``."""


class Message(Record):
    role: Literal["system", "user", "assistant"]
    content: str


def task_messages(task: str, data: str) -> list[Message]:
    """What a model is to do, and with what."""
    return [Message(role="system", content=task), Message(role="user", content=data)]


@runtime_checkable
class ChatModel(Protocol):
    """A language model. Stages that need one are given it; they never build one."""

    @property
    def name(self) -> str: ...

    def complete(self, messages: Sequence[Message]) -> str: ...


@runtime_checkable
class SamplingChat(ChatModel, Protocol):
    """A language model that reports what an answer took, and can be asked the same again."""

    @property
    def temperature(self) -> float | None:
        """0 when it always gives its likeliest answer; None when it is not said."""
        ...

    def ask(self, messages: Sequence[Message], *, repeat: int = 0) -> Reply[str]:
        """Answers a conversation.

        Args:
            repeat: which of several answers to the same conversation, from 0.
        """
        ...


Vector = tuple[float, ...]
