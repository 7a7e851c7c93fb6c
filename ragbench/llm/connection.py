"""What every client of an endpoint is made of, opened and closed in one event loop."""

from __future__ import annotations

import asyncio

from ragbench.llm.answer import Transport
from ragbench.llm.budget import Budget
from ragbench.llm.call import Caller
from ragbench.llm.capped import check_cap
from ragbench.llm.circuit import Circuit
from ragbench.llm.clock import Clock
from ragbench.llm.concurrency import Concurrency
from ragbench.llm.endpoint import Endpoint
from ragbench.llm.ledger import Ledger
from ragbench.llm.limits import CallLimits
from ragbench.llm.openai_transport import OpenAITransport
from ragbench.llm.price_table import price_for
from ragbench.llm.request import Sender

__all__ = ["Connection"]


class Connection:
    """A transport, the limits on its use, and the books about it."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        limits: CallLimits | None,
        budget: Budget | None,
        transport: Transport | None,
        clock: Clock | None,
    ) -> None:
        """Opens nothing yet; the arguments are those of `LLMClient`.

        Raises:
            ConfigError: a cost is capped that nobody can know beforehand.
        """
        self.endpoint = endpoint
        self.limits = CallLimits() if limits is None else limits
        self.price = price_for(endpoint)
        self.clock = Clock() if clock is None else clock
        self.ledger = Ledger(self.price)
        self.concurrency = Concurrency(self.limits.concurrency, self.clock)
        if budget is not None:
            check_cap(endpoint)
        self._budget = budget
        self._transport: Transport = (
            OpenAITransport(endpoint, timeout=self.limits.timeout)
            if transport is None
            else transport
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._caller: Caller | None = None

    @property
    def caller(self) -> Caller:
        """Calls the endpoint.

        Raises:
            RuntimeError: it is not open, or was opened in another event loop.
        """
        if self._caller is None or self._loop is not asyncio.get_running_loop():
            raise RuntimeError("open the client with 'async with' in the event loop that asks")
        return self._caller

    async def open(self) -> None:
        """Reads the API key and opens the connection pool. Nothing is sent.

        Raises:
            ConfigError: the key cannot be read.
            MissingExtraError: the package that carries requests is not installed.
        """
        if self._caller is not None:
            raise RuntimeError("the client is open already")
        await self._transport.open()
        self._loop = asyncio.get_running_loop()
        where = f"{self.endpoint.model} at {self.endpoint.base_url}"
        circuit = Circuit(self.clock, where=where)
        sender = Sender(
            self._transport,
            clock=self.clock,
            concurrency=self.concurrency,
            circuit=circuit,
            ledger=self.ledger,
            timeout=self.limits.timeout,
            price=self.price,
            budget=self._budget,
        )
        deadline = self.limits.deadline
        self._caller = Caller(
            sender,
            clock=self.clock,
            circuit=circuit,
            policy=self.limits.retry,
            where=where,
            deadline=None if deadline is None else self.clock.now() + deadline,
        )

    def stop(self) -> None:
        """Lets no further call begin."""
        self._caller = None

    async def close(self) -> None:
        """Closes all connections."""
        self.stop()
        await self._transport.close()
