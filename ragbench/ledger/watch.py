"""Sees what a user's code reaches outside of its project while it is loaded and asked.

One audit hook (PEP 578) for the whole process: it cannot be removed, and does nothing while no
`Watch` is entered. It notes files that are opened, connections and started programs; what lies
inside of the project is known without it (`ragbench.ledger.project`).
"""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from contextvars import ContextVar, Token
from functools import lru_cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Literal, Self, cast

from ragbench.core.origin import is_accounted
from ragbench.ledger.content import stamp_of


class Watch:
    """What a user's RAG, operator, reranker or metric opens, asks and starts.

    Entered before the thing is loaded, and around every call of it; it may be entered again and
    again. Threads that the thing starts are seen, too.
    """

    def __init__(self, *, since: int = 0) -> None:
        self.since = since
        """From when on it saw what was loaded, in nanoseconds: a module whose file is younger may
        be what stood there before."""
        self.changes = 0
        """Grows whenever something is noted that was not known."""
        self.opened: dict[str, str] = {}
        """Files that were read, with what `stamp_of` said when they were first opened."""
        self.written: set[str] = files_of_streams()
        """Files that were opened for writing."""
        self.unseen: dict[str, str] = {}
        """What cannot be seen into: an address or a program, and a sentence."""
        self.hosts: dict[object, dict[str, None]] = {}
        """By port the names that addresses were looked up for."""
        self.is_command = not since
        """Whether it was there before the system was loaded, as in a command."""
        self.known: set[str] = set()
        """Modules that were there when it was entered first: the others were loaded for it."""
        self._compiled: set[str] = set()
        """Modules whose compiled files were looked at."""
        self._tokens: list[Token[Watch | None]] = []

    def __enter__(self) -> Self:
        global _installed
        with _lock:
            if not _installed:
                sys.addaudithook(_hook)
                _installed = True
            _active.append(self)
        if self.is_command:
            self.known = self.known or set(sys.modules)
        self.since = self.since or time.time_ns()
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._tokens.pop())
        # What a module of the user's was compiled to goes while it may still be edited: Python
        # takes a compiled file for that of a source with the same length and time in whole seconds,
        # so that an edit of equal length in the second of the import would run as the old code.
        for name in sys.modules.keys() - self.known - self._compiled:
            self._compiled.add(name)
            _drop_young_bytecode(sys.modules.get(name))
        with _lock:
            _active.remove(self)

    def open(self, path: str, is_writing: bool) -> None:
        """Notes a file that was opened, with its stamp before anything changes it."""
        if is_writing:
            self.changes += path not in self.written
            self.written.add(path)
        elif path not in self.opened:
            self.opened[path] = stamp_of(path)
            self.changes += 1

    def meet(self, name: str, sentence: str) -> None:
        """Something was met that cannot be seen into."""
        self.changes += name not in self.unseen
        self.unseen.setdefault(name, sentence)


def files_of_streams() -> set[str]:
    """The files that this process holds open for writing, such as those of a shell's ``>``.

    What a run prints is no input of the system. Standard output may be turned to standard error
    just now, with the file kept under another number: so all numbers are looked at.
    """
    paths: set[str] = set()
    try:
        descriptors = [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208
    except OSError:  # as on Windows
        return paths
    import fcntl  # not on Windows

    for descriptor in descriptors:
        with suppress(OSError):  # the one of the listing itself is closed by now
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            if not is_file or not fcntl.fcntl(descriptor, fcntl.F_GETFL) & _WRITING:
                continue
            if sys.platform == "darwin":
                raw = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024))
                paths.add(os.fsdecode(raw.rstrip(b"\0")))
            else:
                paths.add(os.readlink(f"/dev/fd/{descriptor}"))  # noqa: PTH115
    return paths


def _drop_young_bytecode(module: ModuleType | None) -> None:
    """Removes the compiled file of a user's module that was edited just before its import."""
    source = getattr(module, "__file__", None)
    compiled = getattr(module, "__cached__", None)
    if (
        not isinstance(source, str)
        or not isinstance(compiled, str)
        or owner_of(source) != "project"
    ):
        return
    with suppress(OSError):
        if os.stat(compiled).st_mtime - os.stat(source).st_mtime < 2:  # noqa: PTH116
            os.unlink(compiled)  # noqa: PTH108


STARTED = time.time_ns()
"""When this process began to use ragbench, as nearly as it is known."""
_lock = threading.RLock()
_active: list[Watch] = []
_current: ContextVar[Watch | None] = ContextVar("ragbench_watch", default=None)
_installed = False


def _watching() -> Collection[Watch]:
    """Whom something belongs to; in a thread of the user's own to all."""
    current = _current.get()
    if current is None or current not in _active:
        return _active
    return (current,)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    """Python calls it for every audited event, also those of no interest here."""
    if not _active:
        return
    note = _EVENTS.get(event)
    if note is None:
        return
    try:
        note(*args)
    except Exception:  # noqa: BLE001  # what is raised here would be raised by the user's open()
        for watch in _active:
            watch.meet(f"an event '{event}'", f"an event '{event}' that could not be understood")


# --- files


def _absolute(path: object) -> str | None:
    """The path that an event names; None where it names an open file by its number."""
    if isinstance(path, int) or path is None:
        return None
    text = os.fsdecode(path)  # type: ignore[arg-type]
    return None if "\0" in text else os.path.abspath(text)  # noqa: PTH100  # called often


def _opened(path: str, *, is_writing: bool) -> None:
    """Notes that the user's code opened a file."""
    if _is_users():
        for watch in _watching():
            watch.open(path, is_writing)


_WRITING = os.O_WRONLY | os.O_RDWR
_DEVICES = ("/dev/", "/proc/", "/sys/")


def _seen_open(path: object, mode: object, flags: object) -> None:
    """A file of the project, or of anybody's data, was opened."""
    name = _absolute(path)
    if name is None or name.startswith(_DEVICES) or owner_of(name) != "project":
        return
    if not name.endswith(".pyc"):  # modules are known from sys.modules
        _opened(name, is_writing=isinstance(flags, int) and bool(flags & _WRITING))


def _seen_rename(source: object, target: object, *_: object) -> None:
    """A file got another name."""
    name = _absolute(target)
    if name is not None and owner_of(name) == "project":
        _opened(name, is_writing=True)  # under another name, and moved to where it is read


def _seen_sqlite(database: object) -> None:
    """A database was opened, which SQLite does itself, without `open`."""
    text = os.fsdecode(database)  # type: ignore[arg-type]
    if text.startswith("file:"):
        from urllib.parse import unquote, urlsplit

        text = unquote(urlsplit(text).path)
    if text and text != ":memory:":
        _opened(os.path.abspath(text), is_writing=False)  # noqa: PTH100


# --- programs and connections

_HARMLESS = frozenset(
    {
        "cc",
        "file",
        "gcc",
        "ld",
        "ldconfig",
        "lsb_release",
        "lscpu",
        "nvidia-smi",
        "objdump",
        "uname",
    }
)
"""Programs that libraries start to know the machine."""


def _seen_process(program: object = None, *_: object) -> None:
    """Another program was started."""
    name = ""
    if isinstance(program, (str, bytes)):
        name = os.path.basename(os.fsdecode(program))  # noqa: PTH119
    if name in _HARMLESS or not _is_users():
        return
    process = f"the program '{name}'" if name else "a process of its own"
    for watch in _watching():
        watch.meet(process, f"it starts {process}, whose work cannot be seen")


_TELEMETRY = frozenset({"analytics", "langsmith", "opentelemetry", "posthog", "sentry_sdk"})
"""Packages that send and never ask."""


def _seen_lookup(host: object, port: object, *_: object) -> None:
    """The address of a host was asked for; a later connection names only the address."""
    if isinstance(host, (str, bytes)):
        for watch in _watching():
            watch.hosts.setdefault(port, {})[os.fsdecode(host)] = None


def _seen_connect(socket: object, address: object) -> None:
    """A connection was made, other than those that ragbench accounts for."""
    if is_accounted() or not _is_users(leaving_out=_TELEMETRY):
        return
    for watch in _watching():
        where = _address(watch, address)
        watch.meet(where, f"it asks {where}, whose answers may change")


def _address(watch: Watch, address: Any) -> str:
    """An address as the user's code names it, where that is certain."""
    if not isinstance(address, tuple):
        return os.fsdecode(address)
    host, port = cast("tuple[Any, ...]", address)[:2]
    names = list(watch.hosts.get(port, {}))
    if len(names) == 1:
        host = names[0]
    return f"{host}:{port}"


_EVENTS: dict[str, Callable[..., None]] = {
    "open": _seen_open,
    "os.rename": _seen_rename,
    "os.link": _seen_rename,
    "sqlite3.connect": _seen_sqlite,
    "subprocess.Popen": _seen_process,
    "os.system": _seen_process,
    "os.exec": _seen_process,
    "os.posix_spawn": _seen_process,
    "os.fork": _seen_process,
    "os.forkpty": _seen_process,
    "ragbench.request": _seen_connect,
    "socket.connect": _seen_connect,
    "socket.getaddrinfo": _seen_lookup,
}


# --- whose a file is, and on whose behalf something happens

Owner = Literal["project", "ragbench", "engine", "installed", "standard"]
"""The user's; ragbench's, of it the part that runs stages; an installed package's; Python's."""

_RAGBENCH = str(Path(__file__).parents[1]) + os.sep
_LEDGER = os.path.dirname(__file__)  # noqa: PTH120
_ENGINE = tuple(f"{_RAGBENCH}{name}{os.sep}" for name in ("gate", "stages", "verbs", "views"))


def _standard_folders() -> tuple[str, ...]:
    """Where Python's own files are, as their paths say and as links lead."""
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "scripts")]
    folders += [os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)]  # noqa: PTH118
    places: list[str] = []
    for folder in folders:
        places += [f"{folder}{os.sep}", f"{os.path.realpath(folder)}{os.sep}"]
    return tuple(places)


_STANDARD = _standard_folders()


@lru_cache(maxsize=100_000)
def owner_of(file: str) -> Owner:
    """Who wrote a file of code: ragbench, its engine, Python, a package, or the user.

    Only what the user's code opens or starts is an input of the user's system.
    """
    if file.startswith(_RAGBENCH):
        return "engine" if file.startswith(_ENGINE) else "ragbench"
    if f"{os.sep}ragbench_cli{os.sep}" in file:
        return "engine"
    if f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file:
        return "installed"
    return "standard" if file.startswith(("<frozen", *_STANDARD)) else "project"


def file_of(module: ModuleType | None) -> str:
    """The source of a user's module; empty for all others, and where there is none."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return ""
    path = os.path.abspath(file)  # noqa: PTH100  # for each module that is loaded
    return path if owner_of(path) == "project" else ""


def _is_users(*, leaving_out: Collection[str] = ()) -> bool:
    """Whether the user's code has a part in what happens.

    It has when it stands between here and the part of ragbench that runs stages; and when nobody
    of ragbench is there, as in threads that a library of the user's started. Packages that are
    left out, by name, do what they do for themselves.
    """
    is_ragbenchs = False
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = frame.f_code.co_filename
        if file == __file__:
            frame = frame.f_back
            continue
        if file.startswith(_LEDGER):
            return False
        module: str = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] in leaving_out:
            return False
        if file.startswith("<") and not file.startswith("<frozen"):
            # Made by exec: by a dataclass, or typed in a notebook.
            file = getattr(sys.modules.get(module), "__file__", None) or "<typed>"
        kind = owner_of(file)
        if kind == "project":
            return True
        if kind == "engine":
            return False
        is_ragbenchs = is_ragbenchs or kind == "ragbench"
        frame = frame.f_back
    return not is_ragbenchs
