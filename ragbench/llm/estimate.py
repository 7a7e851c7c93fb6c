"""What calls will take and cost, before any is made: at least, at most, and about."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Protocol

from ragbench.core.chat import Message, Usage
from ragbench.errors import ConfigError
from ragbench.llm.budget import price_for
from ragbench.llm.cache import ResponseCache, cache_key
from ragbench.llm.endpoint import Endpoint, Price
from ragbench.llm.schema import Schema

_A_MESSAGE = 4
"""Tokens around a message in usual chat templates."""
_MOST_A_MESSAGE = 16
_MOST_A_REQUEST = 256
"""What a template may add of its own: the date, a default system prompt."""


class TokenCounter(Protocol):
    """Counts the tokens of a text; `ragbench.text.token_counter` has some."""

    @property
    def name(self) -> str: ...

    @property
    def approximate(self) -> bool:
        """Whether its counts are an estimate."""
        ...

    def count(self, text: str) -> int: ...


def prompt_tokens(
    messages: Sequence[Message], counter: TokenCounter, schema: Mapping[str, Any] | None = None
) -> int:
    """About how many tokens a prompt takes, the schema counted as text."""
    count = sum(counter.count(message.content) + _A_MESSAGE for message in messages)
    return count + (0 if schema is None else counter.count(json.dumps(schema)))


def most_prompt_tokens(payload: Mapping[str, Any]) -> int:
    """A number of tokens that a request does not exceed.

    Every token of a byte-level or SentencePiece vocabulary stands for at least one byte of UTF-8,
    so the bytes bound the tokens, whatever the vocabulary. A chat template's own words come on top.
    """
    messages = payload.get("messages", ())
    others = {name: value for name, value in payload.items() if name != "messages"}
    # JSON escapes make the text longer, never shorter.
    count = len(json.dumps([messages, others], ensure_ascii=False).encode("utf-8", "replace"))
    return count + _MOST_A_MESSAGE * len(messages) + _MOST_A_REQUEST


_WORD = re.compile(r"\S+")
_DENSE = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
"""Letters of scripts that are written without spaces."""
_LETTERS_A_TOKEN = 4


def fewest_prompt_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    """A number of tokens that a prompt does not fall short of.

    Tokenizers split at white space before they merge anything, so each word is a token at the
    least; in scripts without spaces a token holds some letters.
    """
    fewest = 0
    for message in messages:
        text = str(message.get("content", ""))
        dense = 0 if text.isascii() else len(_DENSE.findall(text))
        fewest += len(_WORD.findall(text)) + dense // _LETTERS_A_TOKEN
    return fewest


Range = tuple[int, int]
CostRange = tuple[Decimal, Decimal]


@dataclass(kw_only=True, slots=True)
class EstimateLine:
    purpose: str
    cost: CostRange | None
    """The price of the fewest and the most tokens; None when it is not known."""
    calls: int = 0
    """Questions, cached ones included. An equal question counts once."""
    cached: int = 0
    """Of those, that are in the cache already: they cost nothing."""
    prompt_tokens: int = 0
    """Of the calls that are not cached."""
    answer_tokens: Range = (0, 0)
    """The fewest and the most tokens that their answers are expected to take."""
    guessed: int = 0
    """Calls whose prompt cannot be known yet, since it holds the answer to another one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What a run will take. Repetitions after errors and mended answers come on top."""

    model: str
    lines: tuple[EstimateLine, ...]
    """By purpose, in the order in which they came."""
    counter: str
    """What counted the tokens."""
    approximate: bool
    """Whether that is not the model's own tokenizer."""
    currency: str | None
    price_origin: str | None
    """Where the price comes from, with its date; None when it is not known."""

    @property
    def calls(self) -> int:
        return sum(line.calls for line in self.lines)

    @property
    def cached(self) -> int:
        return sum(line.cached for line in self.lines)

    @property
    def prompt_tokens(self) -> int:
        return sum(line.prompt_tokens for line in self.lines)

    @property
    def answer_tokens(self) -> Range:
        """The fewest and the most that are expected."""
        ends = [line.answer_tokens for line in self.lines]
        return sum(low for low, _ in ends), sum(high for _, high in ends)

    @property
    def cost(self) -> CostRange | None:
        """From and to; None when the price is not known, unless there is nothing to pay."""
        if all(line.calls == line.cached for line in self.lines):
            return Decimal(0), Decimal(0)
        total = (Decimal(0), Decimal(0))
        for line in self.lines:
            if line.cost is None:
                return None
            total = (total[0] + line.cost[0], total[1] + line.cost[1])
        return total


class Estimator:
    """Counts the calls that would be made; needs no key and no network."""

    def __init__(
        self, endpoint: Endpoint, counter: TokenCounter, cache: ResponseCache | None = None
    ) -> None:
        self._endpoint = endpoint
        self._counter = counter
        self._cache = cache
        self._price: Price | None = price_for(endpoint)
        self._lines: dict[str, EstimateLine] = {}
        self._seen: set[bytes] = set()

    def add(
        self,
        messages: Sequence[Message],
        *,
        answer_tokens: Range,
        schema: Schema[Any] | None = None,
        purpose: str = "",
        version: str = "",
        repeat: int = 0,
    ) -> bool:
        """Counts a question; the arguments are those of `LLMClient.ask`."""
        line = self._line(purpose)
        definition = None if schema is None else schema.definition
        key = cache_key(
            self._endpoint.identity(), messages, schema=definition, version=version, repeat=repeat
        )
        if key in self._seen:
            return True
        self._seen.add(key)
        line.calls += 1
        if self._cache is not None and key in self._cache:
            line.cached += 1
            return True
        self._count(line, prompt_tokens(messages, self._counter, definition), answer_tokens)
        return False

    def guess(self, purpose: str, *, calls: int, prompt_tokens: int, answer_tokens: Range) -> None:
        """Counts calls whose prompts hold answers that are not there yet."""
        line = self._line(purpose)
        line.calls += calls
        line.guessed += calls
        for _ in range(calls):
            self._count(line, prompt_tokens, answer_tokens)

    def estimate(self) -> Estimate:
        price = self._price
        return Estimate(
            model=self._endpoint.model,
            lines=tuple(replace(line) for line in self._lines.values()),
            counter=self._counter.name,
            approximate=self._counter.approximate,
            currency=None if price is None else price.currency,
            price_origin=None if price is None else price.origin,
        )

    def _count(self, line: EstimateLine, prompt: int, answer: Range) -> None:
        if not 0 <= answer[0] <= answer[1]:
            raise ConfigError(f"an answer cannot take {answer[0]} to {answer[1]} tokens")
        most = self._endpoint.max_tokens
        low, high = answer if most is None else (min(answer[0], most), min(answer[1], most))
        line.prompt_tokens += prompt
        line.answer_tokens = (line.answer_tokens[0] + low, line.answer_tokens[1] + high)
        if self._price is not None and line.cost is not None:
            # Call by call: a long prompt may cost more.
            least, most_cost = (
                self._price.of(Usage(prompt_tokens=prompt, completion_tokens=end))
                for end in (low, high)
            )
            line.cost = (line.cost[0] + least, line.cost[1] + most_cost)

    def _line(self, purpose: str) -> EstimateLine:
        nothing = None if self._price is None else (Decimal(0), Decimal(0))
        return self._lines.setdefault(purpose, EstimateLine(purpose=purpose, cost=nothing))
