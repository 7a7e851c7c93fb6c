"""A system's event loop in which nothing else gets a turn: seen while calls are awaited.

A coroutine that waits with ``time.sleep`` or ``requests`` keeps all other calls of the loop from
going on, and the time limits of all: these are measured in the same loop.
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
"""Looks at a blocked loop before the user is warned."""
_LONG = 5.0
"""Seconds of a single step before the user is warned: a first call may load a model, and Python may
sweep its memory. Of shorter steps two are needed: a fault comes back."""
_QUIET = 30.0
"""Seconds after which a step has nothing to do with an earlier one: a busy machine delays some."""
_LONGEST_LOOK = 0.5
"""Seconds that count of the time between two looks: where more passed, all of the process stood
still, as it does while another program debugs it."""
_GRACE = 10.0
"""Seconds beyond a time limit that a step may take: the run would end, and not its call alone."""
_DEBUGGERS = frozenset({"bdb", "debugpy", "pydevd", "pydevd_bundle", "_pydevd_bundle"})
"""Modules and packages in which a person looks at the system while its loop waits."""
_REMEDY = (
    "await an asynchronous client there, or put the call into asyncio.to_thread(...); or make it "
    "a plain function (def in place of async def) and give --concurrency 8"
)


class LoopWatch:
    """Looks at a loop in which a system's calls are awaited. For one thread, not the loop's own."""

    def __init__(self, loop: LoopThread) -> None:
        """Begins to watch an event loop in which a system's calls are awaited.

        Nothing is looked at yet: the caller looks again and again while it waits.
        """
        self._loop = loop
        """The loop, which runs in a thread of its own."""
        self._looked_at = time.monotonic()
        """When `look` was called last."""
        self._blocked_looks = 0
        """How many calls of `look` found the loop blocked, since the last long time without any."""
        self._blocking_steps = 0
        """How many steps of tasks or callbacks blocked the loop at these looks."""
        self._blocked_at = self._looked_at
        """When `look` last found the loop blocked."""
        self._is_blocked = False
        """Whether the loop was blocked at the last look."""
        self._task: asyncio.Task[Any] | None = None
        """The task whose step blocked the loop last; None for a callback."""
        self._seconds = 0.0
        """How long this step has blocked the loop."""
        self._has_warned = False
        """Whether the user was warned: one warning a run is enough."""

    def look(self, limit: float | None) -> None:
        """Warns once of a loop that is blocked again and again, or for long.

        A blocked loop cannot end a call that exceeds its time limit: the run is ended instead.

        Args:
            limit: the longest time that a call in flight may take; None where there is no limit.

        Raises:
            RunError: a call has taken longer, and cannot be ended.
        """
        now = time.monotonic()
        # At most half a second counts of a long gap: the whole process was perhaps halted.
        passed = min(now - self._looked_at, _LONGEST_LOOK)
        self._looked_at = now
        # Read before the silence: the step that is at work now may end in between.
        task = self._loop.task_at_work()
        place = None
        # The frames are walked only then: a loop that takes its turns is not blocked.
        if self._loop.silence() >= _SILENCE:
            place = blocking_place(self._loop.frames())
        if place is None:
            self._is_blocked = False
            return

        # A step after a long quiet begins a new count.
        if now - self._blocked_at > _QUIET:
            self._blocked_looks = 0
            self._blocking_steps = 0
        self._blocked_at = now
        self._blocked_looks += 1
        # Of several calls that block the loop one after the other, none may take long by itself.
        if self._is_blocked and task is self._task:
            # The same step goes on: its time adds up from look to look.
            self._seconds += passed
        else:
            self._is_blocked = True
            self._task = task
            self._blocking_steps += 1
            # A new step counts from zero, since it may have begun just before this look.
            self._seconds = 0.0

        if limit is not None and self._seconds > limit + _GRACE:
            raise RunError(
                f"no answer within {limit:g} s: {place} blocks the event loop, which "
                f"stops every case. To mend it, {_REMEDY}. Finished cases are "
                "stored: the same command continues"
            )
        is_fault = self._blocking_steps > 1 or self._seconds >= _LONG
        # A warning needs both: ten looks, so that the blocking lasts, and a step that is long or
        # not the only one.
        if self._blocked_looks >= _LOOKS and is_fault and not self._has_warned:
            self._has_warned = True
            warn(
                f"{place} blocks the event loop: all cases wait for it, and time limits do not "
                f"hold. To mend it, {_REMEDY}"
            )


def blocking_place(frames: Sequence[FrameType]) -> str | None:
    """The function that runs in a loop, with its file and line: the innermost one of the user's.

    None where the loop waits for something to do, imports, or is looked at in a debugger.

    Args:
        frames: the calls that the loop's thread is in, the innermost first.
    """
    # The innermost frame decides: a loop that waits is in its own selector.
    if not frames or _is_of_loop(frames[0]):
        return None
    for frame in frames:
        # Looked for in all frames: a module that is imported runs user code of any depth.
        if "importlib" in frame.f_code.co_filename or _is_of_debugger(frame):
            return None
    # Where no frame is the user's, the innermost one is named: better than none.
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
    """Whether a frame runs the event loop's own code: then the loop waits, and is not blocked."""
    return any(part in frame.f_code.co_filename for part in _LOOP_FILES)


def _is_of_debugger(frame: FrameType) -> bool:
    """Whether a frame runs a debugger's code, such as that of ``breakpoint()``.

    A person who looks at the system there blocks the loop on purpose: no warning is due.
    """
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package in _DEBUGGERS


def _is_users(frame: FrameType) -> bool:
    """Whether a frame runs code that comes with neither Python nor an installed package.

    A warning names such a place, since only there can the user mend the fault.
    """
    return not any(part in frame.f_code.co_filename for part in _INSTALLED)
