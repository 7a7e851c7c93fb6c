"""An event loop in a thread of its own, for clients whose callers run in none."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

__all__ = ["LoopThread"]

ValueT = TypeVar("ValueT")


class LoopThread:
    """Runs coroutines for other threads. A client that is opened in it is closed in it."""

    def __init__(self) -> None:
        """Starts nothing yet."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._thread is not None

    def start(self) -> None:
        """Starts the loop."""
        if self._thread is not None:
            raise RuntimeError("it is open already")
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="ragbench-llm", daemon=True)
        thread.start()
        self._loop, self._thread = loop, thread

    def stop(self) -> None:
        """Ends the loop; what still runs in it is cancelled first."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            if tasks := asyncio.all_tasks(loop):
                for task in tasks:
                    task.cancel()
                loop.run_until_complete(asyncio.wait(tasks))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def run(self, work: Coroutine[Any, Any, ValueT]) -> ValueT:
        """Runs a coroutine to its end, from another thread."""
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

    def stream(
        self, work: Callable[[Callable[[ValueT], None]], Coroutine[Any, Any, None]]
    ) -> Iterator[list[ValueT]]:
        """Runs a coroutine and gives what it tells, in the calling thread.

        Args:
            work: is given a function to tell values with.

        Yields:
            The values told since the last time, at least one.

        Raises:
            BaseException: what the coroutine raised, once all that it told has been given.
        """
        loop = self._loop
        if loop is None or self._thread is threading.current_thread():
            raise RuntimeError("it cannot be asked from its own event loop")
        told: queue.SimpleQueue[tuple[ValueT] | None] = queue.SimpleQueue()
        future = asyncio.run_coroutine_threadsafe(work(lambda value: told.put((value,))), loop)
        future.add_done_callback(lambda _: told.put(None))
        try:
            is_over = False
            while not is_over:
                values: list[ValueT] = []
                entry = told.get()
                while entry is not None:
                    values.append(entry[0])
                    try:
                        entry = told.get_nowait()
                    except queue.Empty:
                        break
                is_over = entry is None
                if values:
                    yield values
            future.result()
        finally:
            future.cancel()
