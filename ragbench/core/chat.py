"""Language models: their protocol, messages, replies, token counts and prices.

`ragbench.llm` has the client that implements the protocol. Stages are given a model, and a user's
own class with ``complete`` is one, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

from ragbench.core.record import Record
from ragbench.errors import ConfigError


class Usage(Record):
    """The tokens of a request, as the endpoint counts them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Hidden reasoning included."""
    cached_prompt_tokens: int = 0
    """The part of ``prompt_tokens`` that was in the endpoint's own cache."""
    reasoning_tokens: int = 0
    """The part of ``completion_tokens`` that is reasoning, and not in the answer."""
    reported: bool = True
    """False when the endpoint reported no tokens: then the numbers are 0 and mean nothing."""

    def __add__(self, other: Usage) -> Usage:
        """The tokens of two requests together; reported only when the endpoint reported both.

        Without that, the numbers of one would pass for those of both.
        """
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_prompt_tokens=self.cached_prompt_tokens + other.cached_prompt_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            reported=self.reported and other.reported,
        )


_MILLION = Decimal(1_000_000)


class LongPrompt(Record):
    """The price of requests with a long prompt, of vendors that charge more for these."""

    above: int
    """Requests whose prompt has more tokens than this have this price, for all of their tokens."""
    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None


class Price(Record):
    """The price of a model, per million tokens."""

    input: Decimal
    """Of the prompt."""
    output: Decimal
    """Of the answer, hidden reasoning included."""
    cached_input: Decimal | None = None
    """Of the part of the prompt in the endpoint's own cache; None: the same as ``input``."""
    long_prompt: LongPrompt | None = None
    """The price of requests with a long prompt; None: the same."""
    currency: ClassVar[str] = "USD"
    origin: str = "settings"
    """The source of the price, with its date where it has one."""

    def __post_init__(self) -> None:
        """Refuses a price below 0, infinite or NaN: a cap on costs could not hold with it."""
        prices = (self.input, self.output, self.cached_input or Decimal(0))
        if any(not price.is_finite() or price < 0 for price in prices):
            raise ConfigError("the price of a million tokens must be a number of at least 0")

    def of(self, usage: Usage) -> Decimal:
        """The cost of one request, by its tokens.

        The tokens may be the sum of several requests, if none of them has a long prompt: those may
        have another price.
        """
        rate = self._rate(usage.prompt_tokens)
        cached_rate = rate.input if rate.cached_input is None else rate.cached_input
        # Never more than the prompt has, whatever the endpoint reports.
        cached = min(usage.cached_prompt_tokens, usage.prompt_tokens)
        uncached = usage.prompt_tokens - cached
        cost = uncached * rate.input + cached * cached_rate
        cost += usage.completion_tokens * rate.output
        return cost / _MILLION

    def at_most(self, *, prompt_tokens: int, completion_tokens: int) -> Decimal:
        """The largest cost that a request can have, known before it is sent.

        The whole prompt is at the dearer of the two input prices, and the answer as long as it may
        be. A cap on costs reserves this sum.
        """
        rate = self._rate(prompt_tokens)
        highest_input = max(rate.input, rate.cached_input or rate.input)
        return (prompt_tokens * highest_input + completion_tokens * rate.output) / _MILLION

    def _rate(self, prompt_tokens: int) -> Price | LongPrompt:
        """The prices of a request by the tokens of its prompt: long prompts may cost more.

        Vendors charge all tokens of a request with a long prompt at the higher price.
        """
        if self.long_prompt is not None and prompt_tokens > self.long_prompt.above:
            return self.long_prompt
        return self


T_co = TypeVar("T_co", covariant=True)


class Reply(Record, Generic[T_co]):
    """A language model's answer to one question."""

    value: T_co
    """The structure that was asked for; the text when none was."""
    text: str
    """The model's answer, word by word."""
    usage: Usage
    """Tokens of all its requests together. Of a cached answer: of the requests that it took."""
    cost: Decimal | None = None
    """Cost of these tokens when they were paid for, as the endpoint reports it, else by the price;
    None when both are unknown."""
    model: str
    """The model, as the endpoint names it."""
    finish_reason: str = ""
    cached: bool = False
    """Whether it is from the cache, or of an equal question at the same time: nothing was paid."""
    repaired: bool = False
    """Whether the first answer did not have the structure, and the model was asked to repair it."""
    attempts: int = 1
    """Number of requests."""
    seconds: float = 0.0
    """From the question to the answer, waiting included. Of a cached answer: when it was asked."""
    key: bytes
    """Key of the question in the cache; see `ragbench.llm.cache`."""
    not_sent: tuple[str, ...] = ()
    """Parameters that were left out because the endpoint refuses them, such as ``temperature``."""


class Message(Record):
    """One message of a conversation with a language model."""

    role: Literal["system", "user", "assistant"]
    content: str


def task_messages(task: str, data: str) -> list[Message]:
    """Two messages: the instruction for a model, and the data that it is about.

    Apart from each other, so that a text in the data is not taken for an instruction.
    """
    return [Message(role="system", content=task), Message(role="user", content=data)]


@runtime_checkable
class ChatModel(Protocol):
    """A language model. Stages that need one are given it; they never build one."""

    @property
    def name(self) -> str:
        """The language model's name, by which reports and a run's settings call it."""
        ...

    def complete(self, messages: Sequence[Message]) -> str:
        """The text of the model's answer to a conversation.

        The least that a user's own class needs to be a model here.
        """
        ...


@runtime_checkable
class SamplingChat(ChatModel, Protocol):
    """A language model that reports tokens and cost, and can be asked the same again."""

    @property
    def temperature(self) -> float | None:
        """The model's temperature: 0 if it always gives its likeliest answer; None when unknown.

        Several answers to the same conversation only differ above 0.
        """
        ...

    def ask(self, messages: Sequence[Message], *, repeat: int = 0) -> Reply[str]:
        """Answers a conversation.

        Judges that are asked several times, and generators of several candidates, number their
        questions: a stored answer is then found again under its number.

        Args:
            repeat: number of the answer among several to the same conversation, from 0.
        """
        ...


Vector = tuple[float, ...]
