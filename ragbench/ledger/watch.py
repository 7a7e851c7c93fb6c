"""Sees what a user's code reads while it is loaded and asked.

One audit hook (PEP 578) for the whole process: it cannot be removed, and does nothing while no
`Watch` is entered. What it cannot see, and what is done about that, stands in docs/reuse.md.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from contextvars import ContextVar, Token
from types import FrameType, TracebackType
from typing import Any, Self, cast

from ragbench.core.calling import is_accounted
from ragbench.ledger import environ
from ragbench.ledger.content import stamp_of
from ragbench.ledger.whose import frames, is_import, is_users, whose


class Watch:
    """What a user's RAG, operator, reranker or metric reads.

    Entered before the thing is loaded, and around every call of it; it may be entered again and
    again. Threads that the thing starts are seen, too. What was read becomes an origin by
    `ragbench.ledger.reached.origin_of`.
    """

    def __init__(self) -> None:
        self.changes = 0
        """Grows whenever something is read that was not known."""
        self.opened: dict[str, str] = {}
        """Files that were read, with what `stamp_of` gave when they were first opened."""
        self.databases: set[str] = set()
        """Those of them that SQLite opened, which may also have written into them."""
        self.written: set[str] = set()
        """Files that were opened for writing."""
        self.listed: set[str] = set()
        """Folders whose names were read."""
        self.modules: dict[str, bool] = {}
        """Modules that were imported, and whether the user's code had a part in it."""
        self.variables: dict[str, str | None] = {}
        """Environment variables that were read, as they were; under `BULK` that all were."""
        self.unseen: dict[str, str] = {}
        """What cannot be seen into: an address or a sentence, and a sentence."""
        self.hosts: dict[object, dict[str, None]] = {}
        """By port the names that addresses were looked up for."""
        self._own_variables: set[str] = set()
        """Variables that the process itself has set."""
        self._compiled: list[str] = []
        """Modules that were imported, and whose compiled files were not looked at yet."""
        self._tokens: list[Token[Watch | None]] = []

    def __enter__(self) -> Self:
        with _lock:
            _install()
            _active.append(self)
            environ.listen(_read_variable, _set_variable)
        self._tokens.append(_current.set(self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _current.reset(self._tokens.pop())
        while self._compiled:
            _forget_compiled(self._compiled.pop())
        with _lock:
            _active.remove(self)
            if not _active:
                environ.ignore()

    # --- what the hook says

    def open(self, path: str, is_writing: bool) -> None:
        if is_writing:
            self.written.add(path)
        elif path not in self.opened:
            self.opened[path] = stamp_of(path)
            self.changes += 1

    def connect(self, path: str) -> None:
        """SQLite opened a file."""
        self.databases.add(path)
        self.open(path, is_writing=False)

    def list(self, path: str) -> None:
        self.changes += path not in self.listed
        self.listed.add(path)

    def load(self, module: str, by_user: bool) -> None:
        """A module was imported for the first time."""
        if module not in self.modules:
            self.changes += 1
            self._compiled.append(module)
        self.modules[module] = by_user or self.modules.get(module, False)

    def meet(self, name: str, sentence: str) -> None:
        """Something was met that cannot be seen into."""
        self.changes += name not in self.unseen
        self.unseen.setdefault(name, sentence)

    def read_variable(self, name: str, value: str | None) -> None:
        """An environment variable was read; None: it is not there."""
        if name not in self.variables and name not in self._own_variables:
            self.variables[name] = value
            self.changes += 1

    def set_variable(self, name: str) -> None:
        """The process sets a variable: what it reads there from now on it knows from elsewhere."""
        self._own_variables.add(name)


_lock = threading.RLock()
_active: list[Watch] = []
_current: ContextVar[Watch | None] = ContextVar("ragbench_watch", default=None)
_installed = False


def _install() -> None:
    global _installed
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True


def _watching() -> Collection[Watch]:
    """Whom something belongs to; in a thread of the user's own to all."""
    current = _current.get()
    return _active if current is None or current not in _active else (current,)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _active:
        return
    seen = _EVENTS.get(event)
    if seen is None:
        return
    try:
        seen(*args)
    except Exception:  # noqa: BLE001  # what is raised here would be raised by the user's open()
        for watch in _active:
            watch.meet(f"an event '{event}'", f"an event '{event}' that could not be understood")


# --- files


def _absolute(path: object) -> str | None:
    if isinstance(path, int) or path is None:
        return None
    text = os.fsdecode(path)  # type: ignore[arg-type]
    return None if "\0" in text else os.path.abspath(text)  # noqa: PTH100  # called often


_WRITING = os.O_WRONLY | os.O_RDWR
_LINKS = ("/dev/", "/proc/", "/sys/")


def _seen_open(path: object, mode: object, flags: object) -> None:
    name = _absolute(path)
    if name is None or name.startswith(_LINKS) or whose(name) != "project":
        return
    is_writing = isinstance(flags, int) and bool(flags & _WRITING)
    if is_import():
        name = _source_of(name)
        is_writing = False
    elif name.endswith(".pyc") or not is_users():
        return
    for watch in _watching():
        watch.open(name, is_writing)


def _source_of(name: str) -> str:
    """The file that a compiled one was made of."""
    folder, _, file = name.rpartition(f"{os.sep}__pycache__{os.sep}")
    source = f"{folder}{os.sep}{file.partition('.')[0]}.py"
    return source if folder and os.path.exists(source) else name  # noqa: PTH110


def _seen_rename(source: object, target: object, *_: object) -> None:
    name = _absolute(target)
    if name is not None and whose(name) == "project" and is_users():
        for watch in _watching():  # written under another name, and moved to where it is read
            watch.open(name, is_writing=True)


def _seen_listing(path: object) -> None:
    name = _absolute("." if path is None else path)
    if name is None or name.startswith(_LINKS) or whose(f"{name}{os.sep}") != "project":
        return
    if not is_import() and is_users():
        for watch in _watching():
            watch.list(name)


def _seen_sqlite(database: object) -> None:
    text = os.fsdecode(database)  # type: ignore[arg-type]
    if text.startswith("file:"):
        from urllib.parse import unquote, urlsplit

        text = unquote(urlsplit(text).path)
    if text and text != ":memory:" and is_users():
        for watch in _watching():
            watch.connect(os.path.abspath(text))  # noqa: PTH100


def _seen_library(name: object) -> None:
    path = _absolute(name) if isinstance(name, (str, bytes)) else None
    if path is not None and os.path.isfile(path) and whose(path) == "project":  # noqa: PTH113
        for watch in _watching():
            watch.open(path, is_writing=False)


# --- modules, processes, connections


def _forget_compiled(module: str) -> None:
    """Removes what a module of the user's was compiled to while it may still be edited.

    Python takes a compiled file for that of a source with the same length and the same time in
    whole seconds: an edit of equal length in the second of the import would run as the old code.
    """
    loaded = sys.modules.get(module)
    source, compiled = (getattr(loaded, name, None) for name in ("__file__", "__cached__"))
    if not isinstance(source, str) or not isinstance(compiled, str) or whose(source) != "project":
        return
    with suppress(OSError):
        if os.stat(compiled).st_mtime - os.stat(source).st_mtime < 2:  # noqa: PTH116  # per import
            os.unlink(compiled)  # noqa: PTH108


def _seen_import(module: str, *_: object) -> None:
    by_user = is_users()
    for watch in _watching():
        watch.load(module, by_user)


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
    name = os.path.basename(os.fsdecode(program)) if isinstance(program, (str, bytes)) else ""  # noqa: PTH119
    if name not in _HARMLESS and is_users():
        what = f"the program '{name}'" if name else "a process of its own"
        for watch in _watching():
            watch.meet(what, f"it starts {what}, whose work cannot be seen")


_TELEMETRY = frozenset({"analytics", "langsmith", "opentelemetry", "posthog", "sentry_sdk"})
"""Packages that send and never ask."""


def _seen_lookup(host: object, port: object, *_: object) -> None:
    if isinstance(host, (str, bytes)):
        for watch in _watching():
            watch.hosts.setdefault(port, {})[os.fsdecode(host)] = None


def _seen_connect(socket: object, address: object) -> None:
    if is_accounted() or any(_sends_only(frame) for frame in frames()) or not is_users():
        return
    for watch in _watching():
        where = _address(watch, address)
        watch.meet(where, f"it asks {where}, whose answers may change")


def _sends_only(frame: FrameType) -> bool:
    package = (frame.f_globals.get("__name__") or "").partition(".")[0]
    return package in _TELEMETRY or frame.f_code.co_name == "socketpair"


def _address(watch: Watch, address: Any) -> str:
    """An address as the user's code names it, where that is certain."""
    if not isinstance(address, tuple):
        return os.fsdecode(address)
    host, port = cast("tuple[Any, ...]", address)[:2]
    names = watch.hosts.get(port, {})
    return f"{next(iter(names)) if len(names) == 1 else host}:{port}"


def _read_variable(name: str, value: str | None) -> None:
    for watch in _watching():
        watch.read_variable(name, value)


def _set_variable(name: str) -> None:
    for watch in _active:
        watch.set_variable(name)


_EVENTS: dict[str, Callable[..., None]] = {
    "open": _seen_open,
    "os.rename": _seen_rename,
    "os.link": _seen_rename,
    "os.listdir": _seen_listing,
    "os.scandir": _seen_listing,
    "sqlite3.connect": _seen_sqlite,
    "ctypes.dlopen": _seen_library,
    "import": _seen_import,
    "subprocess.Popen": _seen_process,
    "os.system": _seen_process,
    "os.exec": _seen_process,
    "os.posix_spawn": _seen_process,
    "os.fork": _seen_process,
    "os.forkpty": _seen_process,
    "socket.connect": _seen_connect,
    "socket.getaddrinfo": _seen_lookup,
}
