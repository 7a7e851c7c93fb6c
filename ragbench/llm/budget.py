"""The cap on cost, the table of prices."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

from ragbench.errors import ConfigError, LLMBudgetError
from ragbench.llm.book import CallBook
from ragbench.llm.endpoint import Endpoint, Price


class Budget:
    """What may be spent, by all clients together, in however many event loops and threads.

    Before a request is sent, the most that it can cost is set aside; afterwards what it did cost is
    booked. So the sum of what was spent and of what is in flight never exceeds the limit, however
    many calls there are at once.
    """

    def __init__(
        self,
        limit: Decimal | None,
        *,
        spent: Decimal = Decimal(0),
        run_limit: Decimal | None = None,
        book: CallBook | None = None,
    ) -> None:
        amounts = [amount for amount in (limit, run_limit, spent) if amount is not None]
        if any(not amount.is_finite() or amount < 0 for amount in amounts):
            raise ConfigError("a cost must be a number of at least 0")
        self.limit = limit
        self.run_limit = run_limit
        self.book = book
        self.spent = spent
        """What requests that are over cost, those included whose cost was never reported."""
        self.reserved = Decimal(0)
        """Set aside for requests in flight."""
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @property
    def is_capped(self) -> bool:
        """Whether there is a limit: then nothing may be asked whose cost nobody knows."""
        return self.limit is not None or self.run_limit is not None

    async def reserve(self, amount: Decimal) -> None:
        """Sets money aside, waiting for requests in flight to return some where that can help."""
        while (changed := self._set_aside(amount)) is not None:
            await changed.wait()

    def _set_aside(self, amount: Decimal) -> asyncio.Event | None:
        """Sets money aside, or gives the event that some has come back."""
        if self.book is not None:
            self.book.open()  # reads what earlier commands spent
        before = Decimal(0) if self.book is None else self.book.spent_before
        caps = (("the cost", self.limit, Decimal(0)), (_OF_RUN, self.run_limit, before))
        with self._lock:
            fits = True
            for what, limit, earlier in caps:
                if limit is None:
                    continue
                spent = self.spent + earlier
                if spent + amount > limit:
                    raise LLMBudgetError(
                        f"{what} is capped at {limit:f}; {spent:.6f} is spent, and the next call "
                        f"may cost up to {amount:.6f}. What was answered is kept: a higher cap "
                        "goes on from there"
                    )
                fits = fits and spent + self.reserved + amount <= limit
            if fits:
                self.reserved += amount
                return None
            changed = asyncio.Event()
            self._waiting.append((asyncio.get_running_loop(), changed))
            return changed

    def settle(self, amount: Decimal, cost: Decimal) -> None:
        """Books what a request cost and gives back the rest of what was set aside for it."""
        with self._lock:
            self.reserved -= amount
            self.spent += cost
            waiting, self._waiting = self._waiting, []
        for loop, changed in waiting:
            if not loop.is_closed():  # who waited there has been cancelled
                loop.call_soon_threadsafe(changed.set)


_OF_RUN = "the cost of all commands of this run"
_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|20\d{6})$")


def price_for(endpoint: Endpoint) -> Price | None:
    """What an endpoint's tokens cost. None when it is not known."""
    if endpoint.price is not None:
        return endpoint.price
    table = _table().get(endpoint.host, {})
    name = endpoint.model.removeprefix("models/")  # as Gemini lists its own
    return table.get(name) or table.get(_DATED.sub("", name))


@cache
def _table() -> dict[str, dict[str, Price]]:
    import msgspec

    raw = msgspec.json.decode(files("ragbench.llm").joinpath("prices.json").read_bytes())
    found: dict[str, dict[str, Price]] = {}
    for table in raw["tables"]:
        note = f", {table['note']}" if "note" in table else ""
        origin = {"origin": f"list price of {table['host']}, {table['as_of']}{note}"}
        models = {name: entry | origin for name, entry in table["models"].items()}
        found[table["host"]] = msgspec.convert(models, dict[str, Price])
    return found


def check_cap(endpoint: Endpoint) -> None:
    """Refuses an endpoint of which nobody knows beforehand the most that a call can cost."""
    if price_for(endpoint) is None:
        raise ConfigError(
            f"the cost cannot be capped: the price of {endpoint.model} at {endpoint.base_url} is "
            "not known. Give price_input and price_output, per million tokens (0 where it costs "
            "nothing)"
        )
    if endpoint.max_tokens is None:
        raise ConfigError("the cost cannot be capped without max_tokens: no answer has a limit")


_MOST_A_MESSAGE = 16
_MOST_A_REQUEST = 256
"""What a template may add of its own: the date, a default system prompt."""


def most_prompt_tokens(payload: Mapping[str, Any]) -> int:
    """A number of tokens that a request does not exceed.

    Every token of a byte-level or SentencePiece vocabulary stands for at least one byte of UTF-8,
    so the bytes bound the tokens, whatever the vocabulary. A chat template's own words come on top.
    """
    messages = payload.get("messages", ())
    # JSON escapes make the text longer, never shorter.
    count = len(json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace"))
    return count + _MOST_A_MESSAGE * len(messages) + _MOST_A_REQUEST
