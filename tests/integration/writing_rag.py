"""A RAG that writes into its project whenever it is asked, in the ways in which systems do.

The environment says in which way, where its calls are listed, and which of them ends the process.
"""

from __future__ import annotations

import ctypes
import dbm.dumb
import json
import logging
import os
import pickle
import shelve
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragbench import RAGInterface

HERE = Path(__file__).parent
Write = Callable[[str], object]
"""Writes something for a query."""


def append(query: str) -> None:
    """A log that is opened for each line."""
    with (HERE / "calls.log").open("a") as log:
        log.write(f"{query}\n")


def handler() -> Write:
    """The logger of the standard library, to a file that is open all the time."""
    logger = logging.getLogger("writing")
    logger.setLevel(logging.INFO)
    logger.addHandler(logging.FileHandler(HERE / "rag.log"))
    return logger.info


def printed(query: str) -> None:
    """Standard output, which a shell may send to a file."""
    print(query, flush=True)


def insert(base: Any, query: str) -> None:
    """Adds a row; the table is made when it is missing."""
    base.execute("CREATE TABLE IF NOT EXISTS calls (query TEXT)")
    base.execute("INSERT INTO calls VALUES (?)", (query,))


def sqlite(query: str) -> None:
    """A database that is opened for each query."""
    with sqlite3.connect(HERE / "calls.sqlite") as base:
        insert(base, query)
    base.close()


def sqlite_wal() -> Write:
    """A database with a log of its own, that is open all the time."""
    base = sqlite3.connect(HERE / "wal.sqlite", check_same_thread=False, isolation_level=None)
    base.execute("PRAGMA journal_mode=WAL")
    return lambda query: insert(base, query)


def shelf(query: str) -> None:
    """A shelf over whatever database this Python has."""
    with shelve.open(str(HERE / "shelf")) as entries:
        entries[query] = len(entries)


def dumb(query: str) -> None:
    """The database of pure Python."""
    with dbm.dumb.open(str(HERE / "dumb"), "c") as entries:
        entries[query] = str(len(entries))


def state(query: str) -> None:
    """A state that is read and written again under another name, which then replaces it."""
    path = HERE / "state.json"
    entries: list[str] = []
    if path.exists():
        entries = json.loads(path.read_text())
    partial = HERE / "state.json.partial"
    partial.write_text(json.dumps([*entries, query]))
    partial.replace(path)


def pickled(query: str) -> None:
    """A cache that is read and written in place."""
    path = HERE / "cache.pkl"
    entries: list[str] = []
    if path.exists():
        entries = pickle.loads(path.read_bytes())
    path.write_bytes(pickle.dumps([*entries, query]))


def files(query: str) -> None:
    """A cache with a file for each query."""
    folder = HERE / "answers"
    folder.mkdir(exist_ok=True)
    name = query.replace(" ", "-")
    (folder / f"{name}.json").write_text(json.dumps(query))


def program(query: str) -> None:
    """A program that writes a log."""
    script = "import sys; open('program.txt', 'a').write(sys.argv[1] + chr(10))"
    subprocess.run([sys.executable, "-S", "-c", script, query], cwd=HERE, check=True)


def program_files(query: str) -> None:
    """A program that writes a file for each query."""
    folder = HERE / "programs"
    folder.mkdir(exist_ok=True)
    name = query.replace(" ", "-")
    script = f"open('programs/{name}.txt', 'w').write('x')"
    subprocess.run([sys.executable, "-S", "-c", script], cwd=HERE, check=True)


def memmap(query: str) -> None:
    """An array in a file."""
    import numpy as np

    path = HERE / "vectors.npy"
    mode: Any = "r+" if path.exists() else "w+"
    vectors = np.memmap(path, dtype="float32", mode=mode, shape=(1000,))
    vectors[hash(query) % 1000] = time.time() % 1000
    vectors.flush()


def native(name: str) -> tuple[Any, int]:
    """A file that a library in C opens for writing: the library, and the number of the file."""
    library = ctypes.CDLL(None)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    file = library.open(os.fsencode(HERE / name), flags, 0o600)
    return library, file


def native_index(_: str) -> None:
    """An index that a library in C writes at once, when it is asked first."""
    if not (HERE / "index.bin").exists():
        library, file = native("index.bin")
        library.write(file, b"vectors", 7)
        library.close(file)


def native_open() -> Write:
    """A file that a library in C holds open."""
    library, file = native("native.bin")
    return lambda query: library.write(file, query.encode(), len(query.encode()))


def native_each(query: str) -> None:
    """A file that a library in C opens for each query."""
    library, file = native("each.bin")
    line = query.encode()
    library.write(file, line, len(line))
    time.sleep(0.002)  # a database takes some milliseconds
    library.close(file)


class Cache:
    """A cache that is read when the system is made, and written for each query."""

    def __init__(self) -> None:
        self.file = HERE / "cache.json"
        self.entries: dict[str, int] = {}
        if self.file.exists():
            self.entries = json.loads(self.file.read_text())

    def __call__(self, query: str) -> None:
        self.entries[query] = len(self.entries)
        self.file.write_text(json.dumps(self.entries))


class Base:
    """A database whose path is a setting."""

    def __init__(self) -> None:
        self.path = str(HERE / "named.sqlite")

    def __call__(self, query: str) -> None:
        with sqlite3.connect(self.path) as base:
            insert(base, query)
        base.close()


WRITERS: dict[str, Write] = {
    "append": append,
    "printed": printed,
    "sqlite": sqlite,
    "shelf": shelf,
    "dumb": dumb,
    "state": state,
    "pickled": pickled,
    "files": files,
    "program": program,
    "program_files": program_files,
    "memmap": memmap,
    "native_each": native_each,
    "native_index": native_index,
}
OPENED: dict[str, Callable[[], Write]] = {
    "handler": handler,
    "sqlite_wal": sqlite_wal,
    "native_open": native_open,
    "cache_object": Cache,
    "named_base": Base,
}
"""Those that hold something open."""


class Writing(RAGInterface):
    """Writes for each query, and lists its calls outside of the project."""

    def __init__(self) -> None:
        super().__init__()
        name = os.environ["WRITER"]
        self._write = OPENED[name]() if name in OPENED else WRITERS[name]
        self._calls = 0

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        self._calls += 1
        self._write(query)
        seconds = float(os.environ.get("WRITER_SECONDS", "0.006"))
        time.sleep(seconds)  # in place of a request
        with Path(os.environ["WRITER_CALLS"]).open("a") as calls:
            calls.write(f"{query}\n")
        if self._calls == int(os.environ["RAGBENCH_WRITER_LAST_CALL"]):
            os.kill(os.getpid(), signal.SIGKILL)
        return [f"text {query}"]

    def generate(self, query: str, contexts: list[str]) -> str:
        return f"answer {query}"
