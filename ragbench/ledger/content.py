"""What files, folders and packages hold, as digests that do not depend on where they lie."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
import time
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
import orjson

from ragbench.core.origin import OriginPart
from ragbench.errors import ConfigError

ABSENT = "absent"
"""In the place of a digest where there is no file."""

_TEXT = re.compile(
    r"(?i)\.(cfg|conf|csv|env|html|ini|j2|jinja2?|jsonl?|md|prompt|pyi?|rst|sql|toml|tsv|txt|xml|ya?ml)$"
)
_LARGEST_TEXT = 1 << 20
_BY_DATE = 4 << 30
"""Bytes from which on a file is known by its size and date: to read it would take too long."""
_SETTLED = 2_000_000_000
"""Nanoseconds after which a file's date has certainly moved on with its next change."""
_MOST_FILES = 20_000
_VOLATILE = re.compile(r"\.(lock|pid|swp|pyc)$|-(shm|journal)$|~$|^LOCK$|^LOG(\.old.*)?$")
"""Files that say that a folder is in use, and nothing of what it holds."""
_CHROMA = "chroma.sqlite3"
_CHROMA_STATE = (
    "select id, name from collections order by id",
    "select id, collection from segments order by id",
    "select segment_id, count(*), max(seq_id), total(seq_id) from embeddings group by 1 order by 1",
    "select count(*), max(seq_id) from embeddings_queue",
)
_NOT_DATA = frozenset(
    {".eggs", ".git", ".github", ".hg", ".hypothesis", ".idea", ".ipynb_checkpoints", ".mypy_cache",
     ".nox", ".pytest_cache", ".ruff_cache", ".svn", ".tox", ".venv", ".vscode", "__pycache__",
     "node_modules"}
)  # fmt: skip


class Content(NamedTuple):
    digest: str
    """Equal where the content is equal; `ABSENT` where there is nothing."""
    size: int = 0
    """Bytes of a file, entries of a folder."""
    detail: str = ""
    """Of a large file its date, so that it need not be read again."""


_known: dict[tuple[str, str, str], Content] = {}


def stamp_of(path: str | Path) -> str:
    """Size, dates and inode of a file: unchanged, the file is; `ABSENT` where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  # called for each file that is opened
    except (OSError, ValueError):
        return ABSENT
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_ino}"


def file_content(path: Path, *, before: Content | None = None) -> Content:
    """Digests a file; SQLite's log beside it belongs to it."""
    stamp = stamp_of(path)
    if stamp == ABSENT or not path.is_file():
        return Content(ABSENT)
    log = stamp_of(f"{path}-wal")
    if before is not None and log == ABSENT and before.detail == f"stamp {stamp}":
        return before
    key = (str(path), stamp, log)
    found = _known.get(key)
    if found is None:
        try:
            found = _read(path, stamp)
        except OSError:
            return Content(ABSENT)
        if _is_settled(stamp) and (log == ABSENT or _is_settled(log)):
            _known[key] = found
    return found


def _is_settled(stamp: str) -> bool:
    """Whether a change from now on gives the file another date than it has."""
    _, modified, changed, _ = map(int, stamp.split(":"))
    return time.time_ns() - max(modified, changed) > _SETTLED


def _read(path: Path, stamp: str) -> Content:
    size, modified, _, _ = stamp.split(":")
    if path.name == _CHROMA and (state := _chroma_state(path)):
        return Content(_digest(state), int(size))
    if int(size) > _BY_DATE:
        return Content(f"dated:{size}:{modified}", int(size))
    if int(size) <= _LARGEST_TEXT:
        data = path.read_bytes()
        if _TEXT.search(path.name) is not None or path.name.startswith(".env"):
            data = data.replace(b"\r\n", b"\n")  # they differ between checkouts of a commit
        return Content(_digest(data + _log(path)), int(size))
    with path.open("rb") as file:
        whole = hashlib.file_digest(file, "sha256")
    log = _log(path)
    whole.update(log)
    detail = f"stamp {stamp}" if _is_settled(stamp) and not log else ""
    return Content(whole.hexdigest()[:32], int(size), detail)


def _chroma_state(path: Path) -> bytes:
    """What Chroma numbers its records by: the file itself is written to whenever it is opened.

    Empty where the file is not as Chroma lays it out.
    """
    import sqlite3  # most commands never come here

    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as base:
            found = [base.execute(query).fetchall() for query in _CHROMA_STATE]
    except sqlite3.Error:
        return b""
    return repr(found).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _log(path: Path) -> bytes:
    """What SQLite has not yet written into a database."""
    try:
        return Path(f"{path}-wal").read_bytes()
    except OSError:
        return b""


def path_content(path: Path) -> Content:
    """Digests a file, or a folder with what `files_below` finds in it."""
    if not path.is_dir():
        return file_content(path)
    found: dict[str, str] = {}
    for file in files_below(path):
        if len(found) == _MOST_FILES:
            return Content("too large", _MOST_FILES)
        found[file.relative_to(path).as_posix()] = file_content(file).digest
    text = json.dumps(found, sort_keys=True)
    return Content(f"files:{_digest(text.encode())}", len(found))


def files_below(
    folder: Path, without: Collection[str] = (), ignored: Sequence[str] = ()
) -> Iterator[Path]:
    """The files in a folder and below it, in a fixed order.

    Locks, logs, caches, virtual environments and ragbench's own run folders are left out, and so
    are absolute paths in ``without`` and patterns of ``ignored``, relative to the folder.
    """
    is_chroma = (folder / _CHROMA).exists()
    matches = re.compile("|".join(translate(one.rstrip("/")) for one in ignored)).match
    met: set[str] = set()
    for at, folders, names in os.walk(folder, followlinks=True):
        here = Path(at)
        if (real := os.path.realpath(at)) in met:  # links that lead back
            folders.clear()
            continue
        met.add(real)
        place = "" if here == folder else f"{here.relative_to(folder).as_posix()}/"
        left_out = {
            name
            for name in (*folders, *names)
            if str(here / name) in without
            or (ignored and (matches(f"{place}{name}") or matches(name)))
        }
        folders[:] = sorted(
            name
            for name in folders
            if name not in left_out
            and name not in _NOT_DATA
            and not name.endswith(".egg-info")
            and not any((here / name / sign).exists() for sign in ("journal.sqlite", "pyvenv.cfg"))
        )
        for name in sorted(names):
            # SQLite's log is part of its database.
            volatile = name.endswith("-wal") or _VOLATILE.search(name)
            if is_chroma and name == "length.bin":  # rewritten whenever it is opened
                continue
            if not volatile and name not in left_out:
                yield here / name


def tool_settings(folder: Path, name: str) -> Sequence[str]:
    """A list of ``[tool.ragbench]`` in a project's pyproject.toml."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        return ()
    try:
        tool: Any = tomllib.loads(file.read_text("utf-8")).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return ()  # another program's to say
    try:
        return msgspec.convert(tool.get("ragbench", {}).get(name, []), list[str])
    except msgspec.ValidationError:
        raise ConfigError(f"{file}: [tool.ragbench] {name} is not a list of texts") from None


# --- packages


def distributions() -> Iterator[tuple[str, str, Path]]:
    """Each installed distribution: name, version, and the folder with what is known of it.

    By the names of these folders: to parse what is in them takes longer than to start a command.
    """
    met: set[str] = set()
    for place in sys.path:
        try:
            with os.scandir(place or ".") as entries:
                folders = [one.name for one in entries if one.name.endswith(".dist-info")]
        except OSError:
            continue
        for folder in sorted(folders):
            name, _, version = folder.removesuffix(".dist-info").partition("-")
            name = name.lower().replace("_", "-").replace(".", "-")
            if name not in met:  # the first on the path is the one that is imported
                met.add(name)
                yield name, version, Path(place, folder)


@cache
def _recorded(record: Path, written: int) -> str:
    """Digest of the lines of a RECORD that do not depend on who installed it, and where to."""
    lines = (
        line
        for line in record.read_bytes().split(b"\n")
        if b".dist-info/" not in line and b"__pycache__" not in line and line[:3] != b"../"
    )
    return hashlib.sha256(b"\n".join(lines)).hexdigest()[:32]


def packages(before: Mapping[str, OriginPart] | None = None) -> Iterator[OriginPart]:
    """Python and each installed distribution, by the files that it was installed with.

    Args:
        before: parts of an earlier run, by name: a RECORD that was not written since is not read.
    """
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield OriginPart("package", "python", python)
    for name, version, folder in distributions():
        detail, known = f"version {version}", (before or {}).get(name)
        origin, record = folder / "direct_url.json", folder / "RECORD"
        where: dict[str, Any] = orjson.loads(origin.read_bytes()) if origin.is_file() else {}
        if where.get("dir_info", {}).get("editable"):  # by its files, where it lies
            source = Path(unquote(urlsplit(str(where["url"])).path))
            whole = hashlib.sha256(version.encode())
            for path in files_below(source, (), tool_settings(source, "ignore")):
                line = f"{path.relative_to(source)} {file_content(path).digest}\n"
                whole.update(os.fsencode(line))  # the name of a file may be no text
            yield OriginPart("package", name, whole.hexdigest()[:32], 0, detail)
        elif not record.is_file():
            yield OriginPart("package", name, version, 0, detail)
        else:
            written = record.stat().st_ctime_ns
            if known is not None and (known.size, known.detail) == (written, detail):
                yield known
                continue
            yield OriginPart("package", name, _recorded(record, written), written, detail)
