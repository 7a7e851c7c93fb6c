"""An event loop in a thread of its own, for callers that do not run in one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["LoopThread"]

ValueT = TypeVar("ValueT")


class LoopThread:
    """Runs coroutines for any number of threads, all in one loop."""

    def __init__(self) -> None:
        """Starts nothing yet."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._thread is not None

    def start(self) -> None:
        """Starts the loop.

        Raises:
            RuntimeError: it runs already.
        """
        if self._thread is not None:
            raise RuntimeError("it is open already")
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="ragbench-llm", daemon=True)
        thread.start()
        self._loop, self._thread = loop, thread

    def run(self, work: Coroutine[Any, Any, ValueT]) -> ValueT:
        """The result of a coroutine; an interrupt cancels it.

        Raises:
            RuntimeError: it does not run, or the caller is itself in its loop.
        """
        loop = self._loop
        if loop is None or self._thread is threading.current_thread():
            work.close()
            raise RuntimeError("it cannot be asked from its own event loop")
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def stop(self) -> None:
        """Ends the loop and its thread."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
