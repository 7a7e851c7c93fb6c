"""A system's event loop that nothing else gets a turn in: seen while calls are awaited, and told.

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

LOOK = 0.1
"""Seconds between two looks at a loop in which calls are awaited."""
_SILENCE = 0.15
"""Seconds without a turn of the loop that are no chance: it should take a turn at once."""
_LOOKS = 10
"""Looks at a blocked loop before it is told."""
_LONG = 5.0
"""Seconds of one step before it is told: the first call may load a model, or the memory be swept.
Of shorter steps two are told: such a fault comes back."""
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
    """Looks at a loop in which a system's calls are awaited. For one thread."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop
        self._looked_at = time.monotonic()
        self._looks = 0
        """Looks at which it was blocked, since it was quiet for long."""
        self._steps = 0
        """The steps that blocked it in these looks."""
        self._blocked_at = self._looked_at
        """The last of these looks."""
        self._step: tuple[asyncio.Task[Any] | None] | None = None
        """The task of the step that blocks it, None in callbacks; None while nothing does."""
        self._seconds = 0.0
        """How long this step has blocked it."""
        self._is_told = False

    def look(self, limit: float | None) -> None:
        """Tells of a loop that is blocked, once.

        Args:
            limit: the longest time that a call in flight may take; None where there is no limit.

        Raises:
            RunError: a call has taken longer, and cannot be ended.
        """
        now = time.monotonic()
        passed = min(now - self._looked_at, _LONGEST_LOOK)
        self._looked_at = now
        step = (self._loop.task_at_work(),)
        place = None
        if self._loop.silence() >= _SILENCE:
            place = blocking_place(self._loop.frames())
        if place is None:
            self._step = None
            return
        if now - self._blocked_at > _QUIET:
            self._looks = 0
            self._steps = 0
        self._blocked_at = now
        self._looks += 1
        # Of several calls that block it one after the other, none may take long by itself.
        if step == self._step:
            self._seconds += passed
        else:
            self._step = step
            self._steps += 1
            self._seconds = 0.0
        if limit is not None and self._seconds > limit + _GRACE:
            raise RunError(
                f"no answer within {limit:g} s: {place} blocks the event loop, which "
                f"stops every case. To mend it, {_REMEDY}. Finished cases are "
                "stored: the same command continues"
            )
        is_fault = self._steps > 1 or self._seconds >= _LONG
        if self._looks >= _LOOKS and is_fault and not self._is_told:
            self._is_told = True
            warn(
                f"{place} blocks the event loop: all cases wait for it, and time limits do not "
                f"hold. To mend it, {_REMEDY}"
            )


def blocking_place(frames: Sequence[FrameType]) -> str | None:
    """The function that runs in a loop, with its file and line: the innermost one of the user's.

    None where the loop waits for something to do, imports, or is looked at in a debugger.

    Args:
        frames: of the loop's thread, the innermost first.
    """
    if not frames or _is_of_loop(frames[0]):
        return None
    for frame in frames:
        if "importlib" in frame.f_code.co_filename or _is_of_debugger(frame):
            return None
    frame = next(filter(_is_users, frames), frames[0])
    code = frame.f_code
    return f"{code.co_name} ({Path(code.co_filename).name}, line {frame.f_lineno})"


_LOOP_FILES = (str(Path(asyncio.__file__).parent), "selectors.py")
_INSTALLED = (
    sysconfig.get_path("stdlib"),
    f"{os.sep}site-packages{os.sep}",
    f"{os.sep}dist-packages{os.sep}",
    str(Path(__file__).parents[1]),
)
"""Parts of the paths of files that are none of the user's."""


def _is_of_loop(frame: FrameType) -> bool:
    """Whether the loop's own code runs: it has nothing else to do."""
    return any(part in frame.f_code.co_filename for part in _LOOP_FILES)


def _is_of_debugger(frame: FrameType) -> bool:
    """Whether a debugger's code runs, such as that of ``breakpoint()``."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package in _DEBUGGERS


def _is_users(frame: FrameType) -> bool:
    """Whether code runs that comes with neither Python nor an installed package."""
    return not any(part in frame.f_code.co_filename for part in _INSTALLED)
