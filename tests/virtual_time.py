"""An event loop whose time jumps to the next timer: an hour of waiting takes no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

ValueT = TypeVar("ValueT")


class _Selector(selectors.DefaultSelector):
    """Does not wait for time to pass; tells how much would have."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self.loop.passed += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """For code that waits on timers and on itself, not on sockets."""

    def __init__(self) -> None:
        self.passed = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.passed


def run(work: Coroutine[Any, Any, ValueT]) -> ValueT:
    """Runs a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
