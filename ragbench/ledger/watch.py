"""Sees what a user's code reaches outside of its project while it is loaded and asked.

One audit hook (PEP 578) for the whole process: it cannot be removed, and does nothing while no
`Watch` is entered. It notes files that are opened, connections and started programs; what lies
inside of the project is known without it (`ragbench.ledger.project`).
"""

from __future__ import annotations

import dbm
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from contextvars import ContextVar, Token
from functools import lru_cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Literal, Self, TypeAlias, cast

from ragbench.core.origin import is_accounted
from ragbench.ledger.content import ABSENT, stamp_of
from ragbench.ledger.writes import Before, Mark, WriteLog, files_of_streams

Access: TypeAlias = Literal["read", "write", "both"]
"""What a file is opened for. One that is opened for both may be read alone."""


class Watch:
    """What a user's RAG, operator, reranker or metric opens, asks and starts.

    Entered before the thing is loaded, and around every call of it; it may be entered again and
    again. Threads that the thing starts are seen, too.
    """

    def __init__(self, *, since: int = 0) -> None:
        """Makes a watch that sees nothing until it is entered.

        A watch notes which files a user's code opens and which servers and programs it needs.

        Args:
            since: from when on it may say what was loaded, in nanoseconds; 0: from when it is
                entered first, before anything of the user's is loaded.
        """
        self.since = since
        """From when on the watch saw what was loaded, in nanoseconds. Of a module whose file is
        younger, an earlier content of the file may have been loaded."""
        self.changes = 0
        """A count that grows whenever the watch notes something that was not known."""
        self.opened: dict[str, str] = {}
        """Files that were read, with what `stamp_of` said when they were first opened."""
        self.written: dict[str, Before] = dict.fromkeys(files_of_streams(), Before(ABSENT))
        """Files that were opened for writing, with what they were before."""
        self.log: WriteLog | None = None
        """Where written files are noted, so that they are known even if the process is killed; None
        before a run."""
        self.unseen: dict[str, str] = {}
        """Servers and programs that the code asks, whose inside cannot be compared: by address or
        name, a sentence for the report."""
        self.has_programs = False
        """Whether the code starts programs, which may write any file."""
        self.hosts: dict[object, dict[str, None]] = {}
        """By port the names that addresses were looked up for."""
        self.is_command = not since
        """Whether the watch was made before the system was loaded, as in a command."""
        self.known: set[str] = set()
        """Modules that were loaded when the watch was first entered: all later ones were loaded for
        the code that it watches."""
        self._changed: set[str] = set()
        """Files that the code reads and has changed itself: no person's edit of the system."""
        self._undecided: set[str] = set()
        """Files that may be read and written, and were not changed so far."""
        self._compiled: set[str] = set()
        """Modules whose compiled files were looked at."""
        self._tokens: list[Token[Watch | None]] = []
        """For each time that the watch is entered, what the context variable held before."""

    def __enter__(self) -> Self:
        """Begins to see what the code of this thread opens, asks and starts.

        The first watch of the process adds the audit hook. The first entry of a watch notes which
        modules were loaded before the user's code.
        """
        # A module's variable: the process has one hook, which cannot be removed.
        global _installed
        with _lock:
            if not _installed:
                sys.addaudithook(_hook)
                _installed = True
            # As often as it is entered: a watch may be in the list several times.
            _active.append(self)
        # Of a watch that came later, what was loaded before it is not known.
        if self.is_command:
            self.known = self.known or set(sys.modules)
        # Only at the first entry.
        self.since = self.since or time.time_ns()
        # Of this thread or task; others that the code starts find `_active`.
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        """Ends seeing what the code of this thread opens, asks and starts.

        Compiled files that could hide a later edit of their source are removed.
        """
        _current.reset(self._tokens.pop())
        # What a module of the user's was compiled to goes while it may still be edited: Python
        # takes a compiled file for that of a source with the same length and time in whole seconds,
        # so that an edit of equal length in the second of the import would run as the old code.
        for name in sys.modules.keys() - self.known - self._compiled:
            self._compiled.add(name)
            _drop_young_bytecode(sys.modules.get(name))
        with _lock:
            _active.remove(self)

    def open(self, path: str, access: Access) -> None:
        """Notes a file that the user's code opened, with its stamp before anything changes it.

        A file that is read counts as an input; one that is written is the code's own doing. Of one
        that may be both, it is decided later, by whether its content changes.
        """
        # The first stamp counts: what the code does to the file later is its own.
        if access != "write" and path not in self.opened:
            self.opened[path] = stamp_of(path)
            self.changes += 1
        # The state before the first write.
        if access != "read":
            if path not in self.written:
                self.written[path] = Before.of(path)
            # Opened to write alone, or not there before: then it is the code's own for sure.
            if access == "write" or self.written[path].stamp == ABSENT:
                self._note(path, "+")
        # Read and written, and not changed so far: later looks decide.
        if path in self.opened and path in self.written and path not in self._changed:
            self._undecided.add(path)

    def hold(self, path: str, before: Before) -> None:
        """Notes a file that code in C holds open for writing, and perhaps only reads.

        Whether it was written to is decided later, by its content.

        Args:
            before: its state before the system was asked.
        """
        self.written[path] = before
        self._undecided.add(path)
        if before.stamp == ABSENT:
            self._note(path, "+")

    def suspect(self, path: str) -> None:
        """Notes a file that changed without being seen to be written: perhaps the code did it.

        An interrupted run can then go on though this file has changed.
        """
        self._note(path, "~")

    def _note(self, path: str, mark: Mark) -> None:
        """Notes a written file in the log, where there is one by now.

        Before a run there is no log: a run that never began leaves nothing to continue.
        """
        if self.log is not None:
            self.log.note(path, mark)

    def keep_writes(self, log: WriteLog) -> None:
        """Begins to note in a log which files the code writes, with those of before first.

        After a kill, the next command knows by it which changes are the run's own.
        """
        self.log = log
        # A copy, since other threads go on noting.
        for path in list(self.written):
            self._note(path, self._mark_of(path))

    def note_writes(self) -> None:
        """Notes the present marks of files that the code may have written to or only read.

        A file that was only read stays an input, whose changes count.
        """
        for path in list(self._undecided):
            self._note(path, self._mark_of(path))

    def _mark_of(self, path: str) -> Mark:
        """The log's mark of a file that was opened for writing: written to, or unchanged.

        Files that are unchanged stay inputs of the system.
        """
        if self.is_own(path):
            return "+"
        return "="

    def is_own(self, path: str) -> bool:
        """Whether a file is the code's own doing: the code made or changed it, or never read it.

        Changes of such a file, like a cache, do not make it another system.
        """
        before = self.written.get(path)
        if before is None:
            return False
        # Only files that may be both are looked at.
        if path not in self._undecided:
            return True
        if not before.differs_from(path):
            return False
        # Once changed it stays its own: a later equal content would not make it an input again.
        self._undecided.discard(path)
        self._changed.add(path)
        return True

    def meet(self, name: str, sentence: str) -> None:
        """Notes something that cannot be seen into, so that outcomes are asked for again.

        A server may answer otherwise tomorrow, though no file has changed.

        Args:
            name: an address or a program.
            sentence: why its outcomes may be others by the next run.
        """
        if name not in self.unseen:
            # Counted, so that origins are stored again.
            self.changes += 1
            self.unseen[name] = sentence


def _drop_young_bytecode(module: ModuleType | None) -> None:
    """Removes the compiled file of a user's module that was edited just before its import.

    Python would use the compiled file for the source after the next edit as well, if both edits
    have the same length and are of the same second.
    """
    source = getattr(module, "__file__", None)
    compiled = getattr(module, "__cached__", None)
    if (
        not isinstance(source, str)
        or not isinstance(compiled, str)
        or owner_of(source) != "project"
    ):
        return
    with suppress(OSError):
        # Two seconds: the step of times in some file systems.
        if os.stat(compiled).st_mtime - os.stat(source).st_mtime < 2:  # noqa: PTH116
            os.unlink(compiled)  # noqa: PTH108


STARTED = time.time_ns()
"""When this process began to use ragbench, as nearly as it is known."""
_lock = threading.RLock()
"""Held while watches are entered and left, by any thread."""
_active: list[Watch] = []
"""Watches that are entered."""
_current: ContextVar[Watch | None] = ContextVar("ragbench_watch", default=None)
"""The watch that was entered last in this thread or task."""
_installed = False
"""Whether the process has the audit hook."""


def _watching() -> Collection[Watch]:
    """The watches that note an event: the watch of this thread or task.

    A watch sees the code of one system. In a thread that the user's code started it is not known
    which watch is meant, so all of them note the event.
    """
    # The context's watch may have left its ``with`` block, as in a thread that outlives the block:
    # then all watches that are active note the event.
    current = _current.get()
    if current is None or current not in _active:
        return _active
    return (current,)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    """Passes an audited event to its function in `_EVENTS`; Python calls this for every event.

    Events come for each file that the process opens: so this must be fast, and must not raise,
    since an error would be raised by the user's own call.
    """
    # The usual case of a process without a watch: nothing else may take time here.
    if not _active:
        return
    note = _EVENTS.get(event)
    if note is None:
        return
    try:
        note(*args)
    except Exception:  # noqa: BLE001  # what is raised here would be raised by the user's open()
        # In every watch: whose event it was is not known.
        for watch in _active:
            watch.meet(f"an event '{event}'", f"an event '{event}' that could not be understood")


# --- files


def _absolute(path: object, folder: int = -1) -> str | None:
    """The absolute path that an event names; None where the event has no path to follow.

    An event without one has the number of an open file, or a path relative to an open folder. Files
    are noted by absolute paths, since the code may change its working directory.

    Args:
        folder: the number of an open folder to which the path is relative; -1 without one.
    """
    if isinstance(path, int) or path is None:
        return None
    text = os.fsdecode(path)  # type: ignore[arg-type]
    # Relative to an open folder whose path the event does not give.
    if "\0" in text or (folder != -1 and not os.path.isabs(text)):  # noqa: PTH117
        return None
    return os.path.abspath(text)  # noqa: PTH100  # called often


def _note_opened(path: str, access: Access) -> None:
    """Notes a file in all watches of this thread, where the user's code has opened it.

    ragbench's own reading and writing is no doing of the system, and is not noted.

    A watch notes what the code of one system opens, asks and starts.
    """
    if _is_users():
        for watch in _watching():
            watch.open(path, access)


_DEVICES = ("/dev/", "/proc/", "/sys/")
"""Where files hold no content of the user's."""
_DBM = os.path.dirname(dbm.__file__)  # noqa: PTH120
"""The folder of Python's module ``dbm``."""


def _seen_open(path: object, mode: object, flags: object) -> None:
    """Notes a file that was opened; the function of the audit event ``open``.

    Files of Python, ragbench and packages are no inputs. The opener is found two frames up: another
    call in between breaks that.

    The parameters are those that Python gives the event.
    """
    name = _absolute(path)
    # The cheap tests first: most files are Python's or a package's.
    if name is None or name.startswith(_DEVICES) or owner_of(name) != "project":
        return
    if name.endswith(".pyc"):  # modules are known from sys.modules
        return
    # Python's module ``dbm`` only looks at a database, and code in C, which raises no event, opens
    # it for writing: so what the module opens counts as written, too.
    opener = sys._getframe(2).f_code.co_filename  # pyright: ignore[reportPrivateUsage]
    access = _access_of_flags(flags)
    if opener.startswith(_DBM):
        access = "both"
    _note_opened(name, access)


def _access_of_flags(flags: object) -> Access:
    """For what a file is opened: to read, write, or both; an emptied file is not read.

    Only a file that is read is an input of the system.

    Args:
        flags: of the system's call, such as ``os.O_RDWR``.
    """
    # Flags of Python's own `open`, or none at all: it reads.
    if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR):
        return "read"
    # Emptied at once, its old content is not read.
    if flags & os.O_RDWR and not flags & os.O_TRUNC:
        return "both"
    return "write"


def _note_written(path: object) -> None:
    """Notes a file of the project that was removed, cut off or replaced.

    The code itself did this to the file, so it is no change of the system.
    """
    name = _absolute(path)
    if name is not None and owner_of(name) == "project":
        _note_opened(name, "write")


def _seen_rename(
    source: object, target: object, source_folder: int = -1, target_folder: int = -1
) -> None:
    """Notes a file or folder that got another name; the function of the event ``os.rename``.

    The old and the new name of each file count as written.

    The parameters are those that Python gives the event.
    """
    old = _absolute(source, source_folder)
    new = _absolute(target, target_folder)
    # The old name may be of no project, and the new one may.
    if old is None:
        return
    # Listed before the move, when the event comes.
    for path in _files_at(old):
        _note_written(path)
        if new is not None:
            _note_written(f"{new}{path.removeprefix(old)}")


def _seen_removal(path: object, folder: int = -1) -> None:
    """Notes a file that was removed; the function of the audit event ``os.remove``.

    A file that the code removes is its own: that it is gone later is no change.

    The parameters are those that Python gives the event.
    """
    _note_written(_absolute(path, folder))


def _seen_removal_of_all(path: object, folder: int = -1) -> None:
    """Notes every file of a folder that is removed; the function of ``shutil.rmtree``'s event.

    Each of them is the code's own doing; they are listed before they are gone.

    The parameters are those that Python gives the event.
    """
    name = _absolute(path, folder)
    if name is not None:
        # The event comes before the removal, so that the files can still be listed.
        for file in _files_at(name):
            _note_written(file)


def _seen_link(_: object, target: object, *folders: int) -> None:
    """Notes the new name of a file that was linked; for ``os.link`` and ``os.symlink``.

    The new name is a file that the code made.

    The parameters are those that Python gives the events.
    """
    _note_written(_absolute(target, *folders[-1:]))


def _seen_truncate(path: object, _: object) -> None:
    """Notes a file that was cut off; the function of the audit event ``os.truncate``.

    The code writes to such a file without opening it.

    The parameters are those that Python gives the event.
    """
    _note_written(path)


def _files_at(path: str) -> Iterator[str]:
    """A file itself, or all files in a folder and below it, for events that are of either.

    Only single files are noted, since a folder has no content to compare.
    """
    # A folder yields its files alone, since `os.walk` of a file yields nothing.
    if not os.path.isdir(path):  # noqa: PTH112
        yield path
    for folder, _, names in os.walk(path):
        for name in names:
            yield f"{folder}{os.sep}{name}"


def _seen_sqlite(database: object) -> None:
    """Notes a database that was opened; the function of the audit event ``sqlite3.connect``.

    SQLite opens the file itself, so that no event ``open`` comes.

    The parameter is the one that Python gives the event.
    """
    text = os.fsdecode(database)  # type: ignore[arg-type]
    access: Access = "both"
    # A name with options, as SQLite takes it.
    if text.startswith("file:"):
        from urllib.parse import parse_qs, unquote, urlsplit

        address = urlsplit(text)
        options = parse_qs(address.query)
        # Opened only to be read, it cannot be the code's own doing.
        if options.get("mode") == ["ro"] or options.get("immutable") == ["1"]:
            access = "read"
        text = unquote(address.path)
    # Databases in memory, and temporary ones without a name, are no files.
    if text and text != ":memory:":
        _note_opened(os.path.abspath(text), access)  # noqa: PTH100


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
    """Notes a program that was started, unless it only reads facts of the machine.

    What a program reads, writes and asks cannot be seen, so outcomes that may depend on it are
    asked for again. Called for several audit events, such as ``subprocess.Popen``, with the
    parameters of the event.
    """
    name = ""
    # A list of arguments or a shell's line has no single name here.
    if isinstance(program, (str, bytes)):
        name = os.path.basename(os.fsdecode(program))  # noqa: PTH119
    # Walks up the calls: only for programs that matter.
    if name in _HARMLESS or not _is_users():
        return
    process = "a process of its own"
    if name:
        process = f"the program '{name}'"
    for watch in _watching():
        watch.has_programs = True
        watch.meet(process, f"it starts {process}, whose work cannot be seen")


_TELEMETRY = frozenset({"analytics", "langsmith", "opentelemetry", "posthog", "sentry_sdk"})
"""Packages that send and never ask."""


def _seen_lookup(host: object, port: object, *_: object) -> None:
    """Notes the name of a host whose address was looked up, for `_address`.

    A later connection names only the address, and a user knows the name. Called for the audit event
    ``socket.getaddrinfo``, with the parameters of the event.
    """
    # None is a lookup of this machine's own addresses.
    if isinstance(host, (str, bytes)):
        for watch in _watching():
            # By port: a connection names its port, and no name.
            watch.hosts.setdefault(port, {})[os.fsdecode(host)] = None


def _seen_connect(socket: object, address: object) -> None:
    """Notes a connection of the user's code, other than those that ragbench accounts for.

    Answers of a server may change unseen: outcomes that depend on it are asked for again. Called
    for the audit event ``socket.connect``, with the parameters of the event.
    """
    if is_accounted() or not _is_users(leaving_out=_TELEMETRY):
        return
    for watch in _watching():
        where = _address(watch, address)
        watch.meet(where, f"it asks {where}, whose answers may change")


def _address(watch: Watch, address: Any) -> str:
    """The address of a connection as the user's code names it, where that is certain.

    A connection has only the number of a host. If one name alone was looked up for its port, it is
    that one's.
    """
    # A socket of this machine has a path for an address.
    if not isinstance(address, tuple):
        return os.fsdecode(address)
    host, port = cast("tuple[Any, ...]", address)[:2]
    # Several names behind one port cannot be told apart.
    names = list(watch.hosts.get(port, {}))
    if len(names) == 1:
        host = names[0]
    return f"{host}:{port}"


_EVENTS: dict[str, Callable[..., None]] = {
    "open": _seen_open,
    "os.rename": _seen_rename,
    "os.link": _seen_link,
    "os.symlink": _seen_link,
    "os.remove": _seen_removal,
    "os.truncate": _seen_truncate,
    "shutil.rmtree": _seen_removal_of_all,
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
"""Packages that call the user's code: what they do themselves is not done on its behalf."""


def _standard_folders() -> tuple[str, ...]:
    """The folders of Python's own files, as their paths say and as links lead.

    What Python reads for itself is no input of the user's system.
    """
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "scripts")]
    folders += [os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)]  # noqa: PTH118
    places: list[str] = []
    for folder in folders:
        places += [f"{folder}{os.sep}", f"{os.path.realpath(folder)}{os.sep}"]
    return tuple(places)


_STANDARD = _standard_folders()


@lru_cache(maxsize=100_000)
def owner_of(file: str) -> Owner:
    """The owner of a file of code: ragbench, its engine, Python, a package, or the user.

    Only what the user's code opens or starts is an input of the user's system. The engine is the
    part of ragbench that calls the user's code.
    """
    # Before the rest of ragbench, of which it is a part.
    if file.startswith(_ENGINE):
        return "engine"
    if file.startswith(_RAGBENCH):
        return "ragbench"
    if f"{os.sep}ragbench_cli{os.sep}" in file:
        return "engine"
    # Before Python's own folders, in which packages may lie.
    if f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file:
        return "installed"
    # Frozen modules are Python's, and lie in no file.
    if file.startswith(("<frozen", *_STANDARD)):
        return "standard"
    return "project"


def file_of(module: ModuleType | None) -> str:
    """The source file of a user's module; empty for other modules, and without a file.

    Modules of the user's are inputs: an edit of one may change the answers.
    """
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return ""
    path = os.path.abspath(file)  # noqa: PTH100  # for each module that is loaded
    if owner_of(path) == "project":
        return path
    return ""


def _is_users(*, leaving_out: Collection[str] = ()) -> bool:
    """Whether an event happens on behalf of the user's code, by the calls that led to it.

    An event does when the user's code is between here and the engine, the part of ragbench that
    runs stages; and when no code of ragbench is in the calls, as in threads that a library of the
    user's started.

    Args:
        leaving_out: names of packages that act for themselves, not for the user.
    """
    # None of ragbench's frames met so far.
    is_ragbenchs = False
    # From the innermost call outwards.
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = frame.f_code.co_filename
        # The watch's own functions are between the event and its cause.
        if file == __file__:
            frame = frame.f_back
            continue
        if file.startswith(_LEDGER):  # it reads files to compare them
            return False
        module: str = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] in leaving_out:
            return False
        if file.startswith("<") and not file.startswith("<frozen"):
            # Made by exec: by a dataclass, or typed in a notebook.
            file = getattr(sys.modules.get(module), "__file__", None) or "<typed>"
        kind = owner_of(file)
        if kind == "project":
            # The user's code comes before the engine's on the way up: it acts.
            return True
        if kind == "engine":
            return False
        is_ragbenchs = is_ragbenchs or kind == "ragbench"
        frame = frame.f_back
    # No code of ragbench at all: a thread of the user's own libraries.
    return not is_ragbenchs
