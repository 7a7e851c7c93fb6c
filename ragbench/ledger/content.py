"""What files, folders and packages hold, as digests that do not depend on where they lie."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import stat
import sys
import time
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from fnmatch import translate
from functools import cache, lru_cache
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
"""Bytes up to which a file is read at once, and the line ends of a text are made alike."""
_BY_DATE = 4 << 30
"""Bytes from which on a file is known by its size and date: to read it would take too long."""
_SETTLED = 2_000_000_000
"""Nanoseconds after which a file's date has certainly moved on with its next change."""
_MOST_FILES = 20_000
"""Files that a folder may hold to be read."""
_VOLATILE = re.compile(r"\.(lock|pid|swp|pyc)$|-(shm|journal)$|~$|^LOCK$|^LOG(\.old.*)?$")
"""Files that say that a folder is in use, and nothing of what it holds."""
_CHROMA = "chroma.sqlite3"
_CHROMA_STATE = (
    "select id, name from collections order by id",
    "select id, collection from segments order by id",
    "select segment_id, count(*), max(seq_id), total(seq_id) from embeddings group by 1 order by 1",
    "select count(*), max(seq_id) from embeddings_queue",
)
"""What changes with every record that is added, changed or deleted."""
_NOT_DATA = frozenset(
    {
        ".eggs",
        ".git",
        ".github",
        ".hg",
        ".hypothesis",
        ".idea",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
        ".vscode",
        "__pycache__",
        "node_modules",
    }
)
"""Folders of programs that work on a project."""
_SIGNS_OF_OTHERS = ("journal.sqlite", "pyvenv.cfg")
"""Files by which a folder is known as a run's, or a virtual environment."""


class Content(NamedTuple):
    """What a file or a folder holds, by its digest."""

    digest: str
    """Equal where the content is equal; `ABSENT` where there is nothing."""
    size: int = 0
    """Bytes of a file, entries of a folder."""
    detail: str = ""
    """Of a large file its date, so that it need not be read again."""


_read_before: dict[tuple[str, str, str], Content] = {}
"""Files that this process has read, by path, stamp of the file and stamp of its log: each is asked
for several times in a command."""


def stamp_of(path: str | Path) -> str:
    """The stamp of a file: size, dates and inode, equal while the file is unchanged.

    To compare stamps takes no reading of files. `ABSENT` where there is no file. Stored with
    outcomes: its form, numbers joined by colons, is read elsewhere.
    """
    try:
        status = os.stat(path)  # noqa: PTH116  # called for each file that is opened
    except (OSError, ValueError):
        return ABSENT
    return _stamp(status)


def _stamp(status: os.stat_result) -> str:
    """The stamp of a file by its status, in the form that `stamp_of` describes."""
    return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"


def file_content(path: Path, *, before: Content | None = None) -> Content:
    """The content of a file as a digest, together with SQLite's log beside it.

    Outcomes of a system are reused only while the files that it reads have the same content.

    Args:
        before: the content in an earlier command: a large file that has the same stamp still is not
            read again.
    """
    try:
        status = os.stat(path)  # noqa: PTH116  # called for each file of a project
    except (OSError, ValueError):
        return Content(ABSENT)
    if not stat.S_ISREG(status.st_mode):  # a pipe or a device would be read without an end
        return Content(ABSENT)
    stamp = _stamp(status)
    log = stamp_of(f"{path}-wal")
    # Only of a large file that had no log: its detail is the stamp that it had.
    if before is not None and log == ABSENT and before.detail == f"stamp {stamp}":
        return before
    # The stamps are a part of the key: a changed file has another.
    key = (str(path), stamp, log)
    content = _read_before.get(key)
    if content is None:
        try:
            content = _read_content(path, stamp)
        except OSError:
            return Content(ABSENT)
        # A file that was just written may change once more under the same stamp: read it again
        # then.
        if _is_settled(stamp) and (log == ABSENT or _is_settled(log)):
            _read_before[key] = content
    return content


def _is_settled(stamp: str) -> bool:
    """Whether any later change of a file gives it another date than its stamp has.

    Dates have steps: two changes within one step leave the same stamp, and the second would pass
    unseen.

    A stamp is a file's size, dates and inode.
    """
    # The four numbers of `stamp_of`; the later of the two times decides.
    _, modified, changed, _ = map(int, stamp.split(":"))
    return time.time_ns() - max(modified, changed) > _SETTLED


def _read_content(path: Path, stamp: str) -> Content:
    """The content of a file, read now; of a very large file its size and date serve as content.

    A text's line ends are made alike, since checkouts of one commit differ in them.
    """
    size_text, modified, _, _ = stamp.split(":")
    size = int(size_text)
    # Chroma's database: its bytes change whenever it is opened.
    if path.name == _CHROMA:
        state = _chroma_state(path)
        if state:
            return Content(_digest_of_content(state), size)
    # Named as a date, so that no digest of a content can be equal to it.
    if size > _BY_DATE:
        return Content(f"dated:{size}:{modified}", size)
    # Small enough to be held in memory, and to have its line ends changed.
    if size <= _LARGEST_TEXT:
        data = path.read_bytes()
        if is_text(path.name):
            data = data.replace(b"\r\n", b"\n")  # they differ between checkouts of a commit
        return Content(_digest_of_content(data + _sqlite_log(path)), size)
    with path.open("rb") as file:
        file_hash = hashlib.file_digest(file, "sha256")
    log = _sqlite_log(path)
    file_hash.update(log)
    detail = ""
    # With changes in the log, or a young stamp, the file must be read again next time.
    if _is_settled(stamp) and not log:
        detail = f"stamp {stamp}"
    return Content(file_hash.hexdigest()[:32], size, detail)


def is_text(name: str) -> bool:
    """Whether a file is a text or settings of a shell, judged by its name.

    Line ends of texts differ between checkouts, and people edit texts: both matter to callers.
    """
    return _TEXT.search(name) is not None or os.path.basename(name).startswith(".env")  # noqa: PTH119


def _chroma_state(path: Path) -> bytes:
    """The numbers that Chroma gave its records, which change with its data alone.

    Chroma writes to its file whenever it opens it, so that the file's bytes would seem to change in
    every run. Empty where the file is not as Chroma lays it out.

    The digest of this text is stored with outcomes: other queries make them unusable.
    """
    import sqlite3  # most commands never come here

    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as base:
            state = [base.execute(query).fetchall() for query in _CHROMA_STATE]
    except sqlite3.Error:
        return b""
    return repr(state).encode()


def _digest_of_content(data: bytes) -> str:
    """A short digest of a content, half of a SHA-256: enough to tell any two contents apart.

    The digest is stored with outcomes: to compute another one makes all stored outcomes unusable.
    """
    return hashlib.sha256(data).hexdigest()[:32]


def _sqlite_log(path: Path) -> bytes:
    """The log of a SQLite database with changes that are not in its file yet; empty without one.

    Without it a changed database would look unchanged.
    """
    try:
        return Path(f"{path}-wal").read_bytes()
    except OSError:
        return b""


def path_content(path: Path) -> Content:
    """The content of a file, or of a folder with all files that `files_below` yields, as a digest.

    By it a run sees whether its inputs changed since their outcomes were stored. The digests are
    stored with the outcomes, and so must keep their form.

    Returns:
        The digest with the number of files. The digest is "too large" for a folder with too many
        files to be read: changes in such a folder are not seen.
    """
    if not path.is_dir():
        return file_content(path)
    digests: dict[str, str] = {}
    for file in files_below(path):
        # Counted while the files are found: a folder of millions is not listed to its end.
        if len(digests) == _MOST_FILES:
            return Content("too large", _MOST_FILES)
        # By relative name with slashes: equal on every machine.
        digests[file.relative_to(path).as_posix()] = file_content(file).digest
    # Sorted by name, so that the order of the file system plays no part.
    text = json.dumps(digests, sort_keys=True)
    return Content(f"files:{_digest_of_content(text.encode())}", len(digests))


def project_folder(file: str | Path = "") -> Path:
    """The folder of the project that a file is in: the nearest one with a sign of a project.

    A sign is ``.git`` or a Python project file; without one, it is the file's own folder. Every
    file of a project counts as an input of the system that is defined in it.

    Args:
        file: empty for the project of the working directory.
    """
    here = Path.cwd()
    if file:
        here = Path(file).resolve().parent
    # From the inside out: the nearest sign of a project counts.
    for folder in (here, *here.parents):
        if any((folder / name).exists() for name in (".git", "pyproject.toml", "setup.py")):
            return folder
    return here


def files_below(
    folder: Path, without: Collection[str] = (), ignored: Sequence[str] = ()
) -> Iterator[Path]:
    """The files in a folder and below it that may be data or code of a project, in a fixed order.

    Locks, logs, caches, virtual environments and ragbench's own run folders are left out: they
    change without another answer of the system.

    Args:
        without: absolute paths that are left out.
        ignored: patterns of a shell, relative to the folder, that are left out.
    """
    # Chroma's other files change with each opening, too.
    is_chroma = (folder / _CHROMA).exists()
    matches = _matcher(ignored)
    visited: set[str] = set()
    for root, folders, names in os.walk(folder, followlinks=True):
        # By the real path, so that a folder is visited once, by whichever link.
        real = os.path.realpath(root)
        if real in visited:  # links that lead back
            folders.clear()
            continue
        visited.add(real)
        here = Path(root)
        place = ""
        if here != folder:
            place = f"{here.relative_to(folder).as_posix()}/"
        left_out: set[str] = set()
        for name in (*folders, *names):
            # Patterns may name a path from the project's folder, or a name anywhere.
            is_ignored = matches(f"{place}{name}") or matches(name)
            # Joined as text: a path object for each of many files takes longer than to list them.
            if is_ignored or os.path.join(root, name) in without:  # noqa: PTH118
                left_out.add(name)
        # In place: os.walk goes into those that are left, in this order.
        entered = [name for name in folders if name not in left_out and _holds_data(here / name)]
        folders[:] = sorted(entered)
        for name in sorted(names):
            if is_chroma and name == "length.bin":  # rewritten whenever it is opened
                continue
            # SQLite's log is part of its database.
            is_volatile = name.endswith("-wal") or _VOLATILE.search(name)
            if not is_volatile and name not in left_out:
                yield here / name


def is_below(folder: Path, path: Path) -> bool:
    """Whether a path is one that `files_below` would yield for a project's folder.

    A path that does not exist yet is judged by its name.
    """
    try:
        names = path.relative_to(folder).parts
    except ValueError:
        return False
    matches = _matcher(tool_settings(folder, "ignore"))
    # Each folder on the way is asked about, as `files_below` would not enter it.
    place = folder
    for name in names:
        place /= name
        if matches(name) or matches(place.relative_to(folder).as_posix()):
            return False
        if place.is_dir() and not _holds_data(place):
            return False
    # The project's folder itself has no name below it.
    return bool(names) and _VOLATILE.search(path.name) is None


def _matcher(patterns: Sequence[str]) -> Callable[[str], object]:
    """A test for whether a name, or a path relative to a project, matches one of some patterns.

    Patterns are those of a shell, as in a ``.gitignore``: ``data/*.csv``. Without patterns nothing
    matches.
    """
    if not patterns:
        return lambda _: None
    # A slash at the end says that a folder is meant, which has no slash in its name.
    expressions = [translate(pattern.rstrip("/")) for pattern in patterns]
    return re.compile("|".join(expressions)).match


def _holds_data(folder: Path) -> bool:
    """Whether a folder may hold data of a project: it is no tool's, environment's or run's.

    Files that tools and runs write would make an unchanged system look changed.
    """
    # By its name first: most tools are known by that.
    if folder.name in _NOT_DATA or folder.name.endswith(".egg-info"):
        return False
    return not any((folder / sign).exists() for sign in _SIGNS_OF_OTHERS)


def tool_settings(folder: Path, name: str) -> Sequence[str]:
    """A list from ``[tool.ragbench]`` of a project's pyproject.toml; empty where there is none.

    Users name files there that are inputs of their system, or that are to be ignored.

    Args:
        name: of the list, such as ``ignore``.
    """
    file = folder / "pyproject.toml"
    stamp = stamp_of(file)
    if stamp == ABSENT:
        return ()
    # A file that was just written may change once more and keep its stamp: it is read again.
    read = _tool_table if _is_settled(stamp) else _tool_table.__wrapped__
    settings = read(file, stamp).get(name, [])
    try:
        return msgspec.convert(settings, list[str])
    except msgspec.ValidationError:
        raise ConfigError(f"{file}: [tool.ragbench] {name} is not a list of texts") from None


@lru_cache(maxsize=64)
def _tool_table(file: Path, stamp: str) -> Mapping[str, object]:
    """The table ``[tool.ragbench]`` of a pyproject.toml, read once: several parts ask for it.

    Args:
        file: the pyproject.toml.
        stamp: its stamp, a part of the cache's key: a changed file is read again.
    """
    try:
        table: object = tomllib.loads(file.read_text("utf-8"))["tool"]["ragbench"]
        return msgspec.convert(table, dict[str, object])
    except Exception:  # noqa: BLE001  # nothing for us; what is wrong is another program's to say
        return {}


# --- packages


def distributions() -> Iterator[tuple[str, str, Path]]:
    """Each installed Python package, as name, version, and its ``.dist-info`` folder.

    Read from the names of these folders: to parse their files takes longer than to start a command.

    Answers depend on packages, which are compared between runs by name and version.
    """
    met: set[str] = set()
    for place in sys.path:
        # An empty entry of sys.path is the working directory.
        try:
            with os.scandir(place or ".") as entries:
                folders = [entry.name for entry in entries if entry.name.endswith(".dist-info")]
        except OSError:
            continue
        for folder in sorted(folders):
            # Up to the first hyphen, since names have underscores there.
            name, _, version = folder.removesuffix(".dist-info").partition("-")
            name = name.lower().replace("_", "-").replace(".", "-")
            if name not in met:  # the first on the path is the one that is imported
                met.add(name)
                yield name, version, Path(place, folder)


@cache
def _recorded(record: Path, written: int) -> str:
    """A digest of the files of an installed package, by its RECORD, equal on every machine.

    Lines that depend on the installation, such as those of scripts, are left out.

    The digest is stored with outcomes: another choice of lines makes them unusable.

    Args:
        record: the package's file RECORD, which lists its files with their digests.
        written: when the file last changed: a part of the cache's key.
    """
    lines: list[bytes] = []
    for line in record.read_bytes().split(b"\n"):
        is_of_installation = b".dist-info/" in line or b"__pycache__" in line
        is_outside = line.startswith(b"../")  # scripts, whose first line names the interpreter
        if not is_of_installation and not is_outside:
            lines.append(line)
    return hashlib.sha256(b"\n".join(lines)).hexdigest()[:32]


def packages(before: Mapping[str, OriginPart] | None = None) -> Iterator[OriginPart]:
    """Python and each installed package as parts of an origin: answers depend on their versions.

    A package with other files under the same version counts as changed.

    An origin lists all that the outcomes of a user's system depend on.

    Args:
        before: parts of an earlier run, by name: a RECORD that was not written since is not read.
    """
    python = f"{platform.python_implementation()} {platform.python_version()}"
    # Python's version serves as its digest: Python has no file that lists its content.
    yield OriginPart("package", "python", python)
    # A RECORD that was not written since has the same digest.
    earlier = before or {}
    for name, version, folder in distributions():
        detail = f"version {version}"
        source = _editable_source(folder)
        if source is not None:
            yield OriginPart("package", name, _source_digest(source, version), 0, detail)
            continue
        record = folder / "RECORD"
        try:
            written = record.stat().st_ctime_ns
        except OSError:  # some package managers write none
            yield OriginPart("package", name, version, 0, detail)
            continue
        # In the place of a size a package has the time at which its RECORD was written: while that
        # is the same, the RECORD of some hundred packages need not be read again.
        part = earlier.get(name)
        if part is None or (part.size, part.detail) != (written, detail):
            part = OriginPart("package", name, _recorded(record, written), written, detail)
        yield part


def _editable_source(folder: Path) -> Path | None:
    """The source folder of a package that is installed editable; None for any other package.

    An editable package keeps its version while its developer changes the code, which is therefore
    compared.
    """
    # Where pip notes how a package was installed, if not from an index.
    origin = folder / "direct_url.json"
    if not origin.is_file():
        return None
    installed_from: dict[str, Any] = orjson.loads(origin.read_bytes())
    if not installed_from.get("dir_info", {}).get("editable"):
        return None
    # The folder is named as an address, with its special characters escaped.
    return Path(unquote(urlsplit(str(installed_from["url"])).path))


def _source_digest(source: Path, version: str) -> str:
    """A digest of all source files of a package that is installed editable.

    The package's developer edits them without a new version, and answers may change with each edit.

    The digest is stored with outcomes: another form makes them unusable.
    """
    package_hash = hashlib.sha256(version.encode())
    # As for a project: caches and virtual environments in it do not count.
    for path in files_below(source, (), tool_settings(source, "ignore")):
        line = f"{path.relative_to(source)} {file_content(path).digest}\n"
        package_hash.update(os.fsencode(line))  # the name of a file may be no text
    return package_hash.hexdigest()[:32]
