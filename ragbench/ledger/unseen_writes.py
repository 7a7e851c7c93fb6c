"""Files that are written where Python does not see it: by libraries in C++ or Rust, by programs.

A file that this process or a program of it holds open for writing is the run's doing
(`HeldFiles`). One that only changes while the run goes on may be (`Restless`): an interrupted run
goes on with it, and a finished one asks again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from ragbench.ledger.content import is_text, stamp_of
from ragbench.ledger.watch import Watch
from ragbench.ledger.writes import files_held_by, names_in

_LOOK_SECONDS = 0.02
"""Between two looks at open files: most databases are open for a few milliseconds of each call."""
_SHARE_OF_LOOKS = 100
"""A look may take one hundredth of the time."""
_RESTLESS = 3
"""Changes after which a file is taken for one that the run writes: a person edits it less often."""


def _children_of(process: str) -> Iterator[str]:
    """The ids of the processes that a process started, and of those that these started.

    A program that a system starts may write files on its behalf.
    """
    # A process has a list of children for each of its threads.
    for thread in names_in(f"/proc/{process}/task"):
        with suppress(OSError):  # it has ended by now
            text = Path(f"/proc/{process}/task/{thread}/children").read_text("ascii")
            for child in text.split():
                yield child
                yield from _children_of(child)


class HeldFiles:
    """Looks again and again at the files that this process and its programs hold open for writing.

    A thread of its own: a database that a library in C++ opens may be closed when the call ends.
    """

    def __init__(self, held: Callable[[str], None]) -> None:
        """Makes the thread that looks at open files; `start` starts it.

        A library in C++ opens and closes files within one call: only a second thread sees them.

        Args:
            held: called with the path of each file that is held open for writing, many times.
        """
        self._held = held
        """Called with the path of each file that is held open, many times."""
        self._is_over = threading.Event()
        """Set once, which ends the thread."""
        self._thread = threading.Thread(target=self._look_on, name="ragbench-files", daemon=True)

    def start(self) -> None:
        """Starts to look at open files, where the kernel says which are open, as Linux does.

        Elsewhere nothing is seen so, and such files count as changes.
        """
        if Path("/proc/self/fd").is_dir():
            self._thread.start()

    def stop(self) -> None:
        """Ends the thread that looks at open files, and waits until it has ended.

        A look that came later could note files of the next run.
        """
        self._is_over.set()
        # Never started where the kernel does not say which files are open.
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Looks once at the files that this process and its programs hold open for writing.

        A library in C++ opens files without an event of Python's.
        """
        own = str(os.getpid())
        # Also programs that the system has started.
        for process in (own, *_children_of(own)):
            for path in files_held_by(process):
                self._held(path)

    def _look_on(self) -> None:
        """Looks at open files again and again until `stop`; the thread's whole work.

        A look may take one hundredth of the time: where looks take long, they come more rarely.

        Databases are open for a few milliseconds, so the pause is short.
        """
        wait = _LOOK_SECONDS
        while not self._is_over.wait(wait):
            began = time.perf_counter()
            self.look()
            # The wait is a multiple of the look's own time: looks take a hundredth of all time.
            wait = max(_LOOK_SECONDS, _SHARE_OF_LOOKS * (time.perf_counter() - began))


class Restless:
    """Notes files of a project that change while a run goes on, and that nobody is seen to write.

    Code, and what Python reads, is never among them.
    """

    def __init__(self, files: Callable[[], Iterable[tuple[str, str]]], watch: Watch) -> None:
        """Begins to watch for restless files: those that change without being seen to be written.

        Args:
            files: gives the files that are there, each with its stamp before the run; a new one
                with none.
            watch: sees which files are read and written, and which programs are started.
        """
        self._files = files
        self._watch = watch
        self._stamps: dict[str, set[str]] = {}
        """The stamps that each changed file has had."""
        # When files may be looked at again; looks are spaced by how long they take.
        self._next_look = 0.0
        self.made: set[str] = set()
        """New files that no person is likely to have made."""

    def look(self, *, at_once: bool = False) -> None:
        """Looks at all files, and notes in the watch those that the run may be writing.

        A file counts so when it has changed several times, or is new and no person is likely to
        have made it. An interrupted run can then go on though these files changed.

        The watch sees the files that Python code opens, and not those that a library in C++ writes.

        Args:
            at_once: whether it looks although the last look was just now; looks take time.
        """
        began = time.monotonic()
        if began < self._next_look and not at_once:
            return
        watch = self._watch
        for path, stamp_before in self._files():
            stamp = stamp_of(path)
            # Unchanged, or seen by the audit hook, which knows more.
            if stamp == stamp_before or path in watch.opened or path in watch.written:
                continue
            # Distinct stamps: a file that is looked at twice unchanged has changed once.
            stamps = self._stamps.setdefault(path, set())
            stamps.add(stamp)
            # A person adds a text, and seldom a database.
            if not stamp_before and (watch.has_programs or not is_text(path)):
                self.made.add(path)
            if path in self.made or len(stamps) >= _RESTLESS:
                watch.suspect(path)
        self._next_look = began + _SHARE_OF_LOOKS * (time.monotonic() - began)
