"""Warns of a coroutine of the system's that blocks the event loop in which all calls are awaited.

A coroutine that waits with ``time.sleep`` or ``requests`` keeps all other calls of the loop from
going on, and the time limits of all: these are measured in the same loop. The flow of a run looks
at the loop from another thread while it waits for calls.
"""

from __future__ import annotations

import asyncio
import os
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from ragbench.core.calling import LoopThread
from ragbench.errors import RunError, warn

SECONDS_BETWEEN_LOOKS = 0.1
"""Seconds between two looks at a loop in which calls are awaited."""
_SILENCE = 0.15
"""Seconds without a turn of the loop that are no chance: it should take a turn at once."""
_LOOKS = 10
"""Looks at a blocked loop before the user is warned: one long step, such as a first import, is no
fault."""
_GRACE = 1.0
"""Seconds beyond a time limit in which a loop that takes turns would have kept it."""
_REMEDY = (
    "await an asynchronous client there, or put the call into asyncio.to_thread(...); or make it "
    "a plain function (def in place of async def) and give --concurrency 8"
)


class LoopWatch:
    """Looks at a loop in which a system's calls are awaited. For one thread, not the loop's own."""

    def __init__(self, loop: LoopThread) -> None:
        """Has not looked yet."""
        self._loop = loop
        self._blocked_looks = 0
        """Looks at which the loop was blocked."""
        self._task: asyncio.Task[Any] | None = None
        """The task that ran at the last look."""
        self._task_seen = 0.0
        """When that task was first seen to run."""
        self._has_warned = False

    def look(self, limit: float | None) -> None:
        """Warns once of a loop that is blocked again and again.

        A blocked loop cannot end a call that exceeds its time limit: the run is ended instead.

        Args:
            limit: the longest time that a call in flight may take; None where there is no limit.

        Raises:
            RunError: a call has taken longer, and cannot be ended.
        """
        now = time.monotonic()
        task = self._loop.task_at_work()
        if task is not self._task:
            self._task = task
            self._task_seen = now
        silence = self._loop.silence()
        if silence < _SILENCE:
            return
        place = blocking_place(self._loop.frames())
        # None: the loop is free by now, or it imports, which happens once.
        if place is None:
            return
        # Of several calls that block it one after the other, none may take long by itself.
        seconds = min(silence, now - self._task_seen)
        if limit is not None and seconds > limit + _GRACE:
            raise RunError(
                f"no answer within {limit:g} s: {place} blocks the event loop, which "
                f"stops every case. To mend it, {_REMEDY}. Finished cases are "
                "stored: the same command continues"
            )
        self._blocked_looks += 1
        if self._blocked_looks >= _LOOKS and not self._has_warned:
            self._has_warned = True
            warn(
                f"{place} blocks the event loop: all cases wait for it, and time limits do not "
                f"hold. To mend it, {_REMEDY}"
            )


def blocking_place(frames: Sequence[FrameType]) -> str | None:
    """The user's function that runs in a loop, with its file and line, for a message.

    The innermost one of the user's, as below it a library may be at work that is not to blame; the
    innermost of all where none is the user's. None where the loop waits for something to do, or
    imports.

    Args:
        frames: of the loop's thread, the innermost first.
    """
    if not frames or _is_of_loop(frames[0]):
        return None
    for frame in frames:
        if "importlib" in frame.f_code.co_filename:
            return None
    blocking_frame = frames[0]
    for frame in frames:
        if _is_users(frame):
            blocking_frame = frame
            break
    code = blocking_frame.f_code
    return f"{code.co_name} ({Path(code.co_filename).name}, line {blocking_frame.f_lineno})"


_LOOP_FILES = (str(Path(asyncio.__file__).parent), "selectors.py")
"""Parts of the paths of files whose code runs while a loop waits for something to do."""
_INSTALLED = (
    sysconfig.get_path("stdlib"),
    f"{os.sep}site-packages{os.sep}",
    f"{os.sep}dist-packages{os.sep}",
    str(Path(__file__).parents[1]),
)
"""Parts of the paths of files that are none of the user's: Python's, installed ones, ours."""


def _is_of_loop(frame: FrameType) -> bool:
    """Whether the loop's own code runs: it has nothing else to do."""
    return any(part in frame.f_code.co_filename for part in _LOOP_FILES)


def _is_users(frame: FrameType) -> bool:
    """Whether code runs that comes with neither Python nor an installed package."""
    return not any(part in frame.f_code.co_filename for part in _INSTALLED)
