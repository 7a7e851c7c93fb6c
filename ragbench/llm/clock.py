"""Time as the client sees it: a test passes its own."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

__all__ = ["Clock"]


class Clock:
    """The running event loop's time."""

    def now(self) -> float:
        """Seconds since some moment; never goes back."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)

    def limit(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """A block that raises `TimeoutError` when it takes longer; None for no limit."""
        return asyncio.timeout(seconds)
