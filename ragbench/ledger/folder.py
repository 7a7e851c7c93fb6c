"""A run's folder: its files, its repeats, the lock that keeps a second process out, the manifest.

A repeat is the same cases asked again, in ``repeats/2`` and so on, each with a journal of its own:
what one repeat was answered is reused by that repeat alone, and an interrupted one goes on. A file
says how many of them count; without it none does.

The manifest says what a run is a run of. Same inputs, same bytes: it holds no time and no path of
its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import orjson
from filelock import FileLock, Timeout
from msgspec import structs

from ragbench.core.metric import STORED_FACTS, Metric, metric_of
from ragbench.core.reading import Reading, words_of
from ragbench.core.record import Record, field
from ragbench.core.roles import FieldRole
from ragbench.errors import ConfigError, RunError, RunLockedError, RunMismatchError
from ragbench.ledger.fingerprint import always_jsonable, fingerprint
from ragbench.masking import hidden_bytes
from ragbench.private_files import make_private_folder, open_private

_JOURNAL = "journal.sqlite"
_LOCK = ".lock"
_IN_FLIGHT = f"{_JOURNAL}-in-flight"
_WRITES = f"{_JOURNAL}-writes"
_NEW_JOURNAL = f"{_JOURNAL}-new"
# The log first: were it to outlive its journal, SQLite would take it for the next journal's.
_JOURNAL_FILES = (f"{_JOURNAL}-wal", f"{_JOURNAL}-shm", _IN_FLIGHT, _WRITES, _JOURNAL)
_NEW_JOURNAL_FILES = (f"{_NEW_JOURNAL}-wal", f"{_NEW_JOURNAL}-shm", _NEW_JOURNAL)
_WRITTEN = (
    "manifest.json",
    "report.json",
    "report.md",
    "report.html",
    "cases.csv",
    "timings.json",
    "corpus_gold.json",
    "trackers.json",
)
"""What a run writes beside its journal. Anything else in the folder is the user's."""


def path_of(value: object) -> Path:
    """A path from a path or a text: users of the Python interface give either.

    A wrong value is refused here in plain words, before anything is made of it.

    Raises:
        ConfigError: the value is neither, or empty.
    """
    if isinstance(value, (str, Path)) and str(value):
        return Path(value)
    shown = f"{type(value).__name__} {str(value)[:60]!r}"
    raise ConfigError(f"a file or folder is named by its path, and not by {shown}")


def run_around(path: Path) -> Path:
    """The folder of a run, for the path of one of its files; any other path unchanged.

    Users name ``run/report.json`` where a command takes a run.
    """
    # Only files that a run writes, so that a user's file of such a name in another folder stays.
    is_ours = path.name in (*_WRITTEN, _JOURNAL) and path.is_file()
    if not is_ours:
        return path
    folder = path.parent
    # A run has a journal and a manifest; a folder with a report alone is no run.
    if (folder / _JOURNAL).is_file() and (folder / "manifest.json").is_file():
        return folder
    return path


def is_one_run(paths: Iterable[Path]) -> bool:
    """Whether paths, however they are written, all name the same run or file.

    A run compared with itself always passes: commands refuse that.
    """
    return len({run_around(path).resolve() for path in paths}) == 1


class RunFolder:
    """Where a run keeps everything that belongs to it."""

    def __init__(self, *, path: Path) -> None:
        """Names the files of a run's folder; nothing is read or made.

        A changed name hides that file of all existing runs.
        """
        self.path = path
        self.journal = path / _JOURNAL
        """The database of the run's outcomes: a run has begun where this file exists."""
        self.in_flight = path / _IN_FLIGHT
        """The cases that are being asked."""
        self.writes = path / _WRITES
        """The files that the system of an unfinished run writes."""
        self.manifest = path / "manifest.json"
        """What the run is a run of."""
        self.report = path / "report.json"
        self._pid = path / f"{_LOCK}.pid"
        """The number of the process that holds the lock."""

    @property
    def exists(self) -> bool:
        """Whether a run has begun in this folder; it may have been interrupted.

        A command continues such a run, or refuses to overwrite it.
        """
        return self.journal.is_file()

    @property
    def kept_journal(self) -> Path:
        """The journal of a run that was made before.

        A user may have named another folder by mistake, which must not become a run.

        Raises:
            RunMismatchError: the folder has none.
        """
        if not self.exists:
            raise RunMismatchError(f"{self.path} is not a run folder: it has no {_JOURNAL}")
        return self.journal

    @contextmanager
    def locked(self) -> Generator[bool]:
        """Locks the run's folder for this process, and creates it when it does not exist.

        Two processes in one folder would each overwrite the outcomes that the other has stored.

        Yields:
            Whether the folder is new.

        Raises:
            RunLockedError: another process has it.
            RunMismatchError: the folder holds something else than a run.
        """
        try:
            is_new = not self.path.exists()
            if not is_new:
                # Before the folder is changed in any way.
                self._refuse_foreign()
            make_private_folder(self.path)
            lock = FileLock(self.path / _LOCK)
            # At once or not at all: a command must not wait for one that takes hours.
            lock.acquire(timeout=0)
        except Timeout:
            raise RunLockedError(
                f"another ragbench process{self._holder()} is working on {self.path}. Wait for it, "
                f"or choose another folder with --out"
            ) from None
        except OSError as error:
            raise RunError(
                f"{self.path} cannot be written: {error.strerror}. Choose another with --out"
            ) from None
        try:
            # For the message of a process that finds the folder locked.
            self._pid.write_text(str(os.getpid()), encoding="utf-8")
            yield is_new
        finally:
            # Before the lock is given back: another process may write its own at once.
            self._pid.unlink(missing_ok=True)
            lock.release()

    @contextmanager
    def new_journal(self) -> Generator[Path]:
        """Gives the path for a new journal, which afterwards replaces all files of the old run.

        On an error the old run stays complete: nothing of it is removed before the new journal is
        made.
        """
        # What an earlier attempt left behind.
        self._unlink(_NEW_JOURNAL_FILES)
        try:
            yield self.path / _NEW_JOURNAL
            # The new journal is whole by now: from here on nothing can fail but the disk.
            self._unlink((*_JOURNAL_FILES, *_WRITTEN))
            (self.path / _NEW_JOURNAL).replace(self.journal)
        finally:
            # After the move only its log may be left.
            self._unlink(_NEW_JOURNAL_FILES)

    def discard(self) -> None:
        """Removes the folder of a first run that stored nothing.

        An empty folder would look like a run that was lost.
        """
        shutil.rmtree(self.path, ignore_errors=True)

    def _refuse_foreign(self) -> None:
        """Refuses a folder that holds something else than a run.

        Files of a run are not mixed with the user's.

        Raises:
            RunMismatchError: with the option that names another folder.
        """
        if not self.path.is_dir():
            raise RunMismatchError(f"{self.path} is a file. Choose a folder with --out")
        # A run's folder may hold files of the user's, too.
        if self.exists:
            return
        # A lock, or a journal that was never finished, is no content of a user's.
        if any(not path.name.startswith((_LOCK, _JOURNAL)) for path in self.path.iterdir()):
            raise RunMismatchError(
                f"{self.path} is not empty and is not a run folder. Choose another with --out"
            )

    def _unlink(self, names: Iterable[str]) -> None:
        """Removes files of the folder that exist, in the order in which they are named.

        The order matters for journals: a log that outlives its journal would corrupt the next one.
        """
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def _holder(self) -> str:
        """The process that has locked the folder, for a message; empty where it is not known.

        The user can then find that process and end it.
        """
        try:
            return f" (pid {int(self._pid.read_text(encoding='utf-8'))})"
        except (OSError, ValueError):
            return ""


def run_name(dataset: str, rag: str, identity: str) -> str:
    """The folder name of a run, readable, and the same whenever the same command runs.

    By the same name, the command finds its earlier run and continues it.

    Args:
        identity: a fingerprint of what is run; its first eight characters are used.
    """
    return f"{_safe_in_a_path(dataset)}-{_safe_in_a_path(rag)}-{identity[:8]}"


def _safe_in_a_path(name: str) -> str:
    """A name reduced to characters that any file system takes, at most 40 of them.

    Names of datasets and systems are free texts, and may hold slashes.
    """
    # Neither a dot nor a hyphen at the ends: hidden files and options begin so.
    plain = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")
    return (plain or "run")[:40]


REPEATS = "repeats"
"""The folder in a run's that holds its repeats."""
_COUNT = "count"
"""The file in it that says how many times the run was asked."""


def repeat_folder(run: Path, number: int) -> Path:
    """The folder of a repeat, where a repeat is the same cases asked once more.

    Number 1 is the run itself.

    Each repeat has a journal of its own, so that its answers are reused by it alone.
    """
    if number == 1:
        return run
    return run / REPEATS / str(number)


def keep_repeats(run: Path, count: int) -> None:
    """Stores how many times a run was asked, the first time included.

    Reports and gates then average over so many repeats.
    """
    write_atomic(run / REPEATS / _COUNT, f"{count}\n".encode())


def forget_repeats(run: Path) -> None:
    """Makes only the first time of a run count.

    The answers of its repeats stay stored, to be reused when the user wants repeats again.
    """
    path = run / REPEATS / _COUNT
    if path.is_file():  # whoever opens the run reports what is not a folder
        path.unlink()


def repeat_folders(run: Path) -> tuple[Path, ...]:
    """The folders of the repeats of a run: the times that its cases were asked after the first.

    A gate averages a case's scores over them.
    """
    path = run / REPEATS / _COUNT
    if not path.is_file():
        return ()
    # Undecodable bytes are no digits, and refused below.
    text = path.read_text("utf-8", "replace").strip()
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise RunMismatchError(f"{path} holds no number of repeats: run eval again")
    # Number 1 is the run itself.
    return tuple(repeat_folder(run, number) for number in range(2, int(text) + 1))


# --- the manifest

SCHEMA_VERSION = 1


class DatasetInfo(Record):
    """What a manifest says of the cases."""

    name: str
    source: str
    """The dataset as the user named it."""
    fingerprint: str
    """Changes with any case, or with their order."""
    cases: int
    limit: int | None = None
    """Only the first so many cases were taken."""
    sample: int | None = None
    """Only so many cases were drawn."""
    seed: int | None = None
    """Seed of that draw."""


class RagInfo(Record):
    """What a manifest says of the system."""

    name: str
    description: Mapping[str, Any]
    """What distinguishes it: class, source, arguments, configuration."""
    stages: Mapping[str, str]
    """Fingerprint of each of its stages: results are reused while it stays the same."""


class MetricInfo(Record):
    """Which metric, in which version of its formula."""

    name: str
    version: int
    definition: Mapping[str, Any]
    """All that is known of the metric, with its parameters."""

    @classmethod
    def of(cls, metric: Metric) -> MetricInfo:
        """The stored description of a metric: all of it but its code.

        A later reader of the run may not have the code of a user's metric.
        """
        definition: dict[str, Any] = {
            # Listed by name, as a definition has functions, too.
            name: msgspec.to_builtins(getattr(metric.definition, name))
            for name in STORED_FACTS
        }
        definition["needs"].sort()  # a set before: the same run gives the same bytes
        definition["bound"] = {"parameters": dict(metric.parameters), "cutoff": metric.cutoff}
        return cls(name=metric.name, version=metric.definition.version, definition=definition)


class Manifest(Record):
    """What a run is a run of."""

    dataset: DatasetInfo
    rag: RagInfo
    metrics: tuple[MetricInfo, ...]
    settings: Mapping[str, Any]
    """Settings that influence results: top_k, how gold is matched."""
    packages: Mapping[str, str]
    """Versions of the packages that compute something."""
    git: Mapping[str, Any] | None = None
    """Commit of the working folder and whether it had changes; None outside a repository."""
    absent: Mapping[str, str] = field(default_factory=dict[str, str])
    """Stages that nobody could be asked for, and why: only what the source recorded is there."""
    notes: tuple[str, ...] = ()
    """What a reader of scores must know of the source: answers that belong to no case ..."""
    roles: tuple[FieldRole, ...] = ()
    """Where each field of the cases was read from, and why; empty for cases from no file."""
    judge: Mapping[str, Any] | None = None
    """Who judged: see `ragbench.stages.judge`; None when no metric asked a model."""
    schema_version: int = SCHEMA_VERSION
    fingerprints: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of each part that two runs must share to be compared; see `write_manifest`."""


def metrics_of(manifest: Manifest) -> tuple[Metric, ...]:
    """The metrics of a stored run, as they were defined when it was scored.

    Tables of old runs then keep their names and units, whatever the installed version has.
    """
    return tuple(metric_of(info.definition) for info in manifest.metrics)


def write_manifest(manifest: Manifest, path: Path) -> Manifest:
    """Writes a run's manifest with fingerprints of its parts, and returns it as readers see it.

    By the fingerprints a comparison says which part of two runs differs. A change to what goes into
    a fingerprint makes old runs incomparable with new ones.
    """
    # A copy: what is taken out of it stays in the manifest.
    stages = dict(manifest.rag.stages)
    # The verdicts of a validator change nothing of what the system does.
    validator = stages.pop("validate", None)
    # A summary that is worded better does not make it another metric.
    metrics: list[dict[str, object]] = []
    for metric in manifest.metrics:
        identity: dict[str, object] = {"name": metric.name, "version": metric.version}
        # Only formulas of users have a digest; the others keep their stored form.
        if metric.definition["digest"]:
            identity["digest"] = metric.definition["digest"]
        metrics.append(identity)
    fingerprints = {
        "dataset": manifest.dataset.fingerprint,
        "metrics": fingerprint(metrics),
        "packages": fingerprint(manifest.packages),
        "rag": fingerprint((manifest.rag.description, stages)),
        "settings": fingerprint(manifest.settings),
    }
    if manifest.judge is not None:
        fingerprints["judge"] = str(manifest.judge["fingerprint"])
    if validator is not None:
        fingerprints["validate"] = validator
    written = {**structs.asdict(manifest), "fingerprints": fingerprints}
    # Through JSON and back: readers see what is written, secrets masked.
    plain = orjson.loads(hidden_bytes(always_jsonable(written)))
    # Sorted and indented: the same run gives the same bytes, and a diff shows lines.
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    write_atomic(path, orjson.dumps(plain, option=options))
    return msgspec.convert(plain, Manifest)


def read_manifest(path: Path) -> Manifest:
    """Reads the manifest of a run.

    A manifest says which system, dataset and settings a run is of, so nothing else of the run is
    used before.

    Raises:
        RunMismatchError: there is none, or it is another version's; the message says what is there.
    """
    with Reading(partial(_unreadable_manifest_error, path)):
        raw = orjson.loads(path.read_bytes())
        # Before anything else: other fields mean other things in another version.
        if raw["schema_version"] != SCHEMA_VERSION:
            raise RunMismatchError(
                f"{path} has schema version {raw['schema_version']}, this ragbench reads "
                f"{SCHEMA_VERSION}"
            )
        manifest = msgspec.convert(raw, Manifest)
        metrics_of(manifest)  # a definition that cannot be read is reported here
        return manifest


def _unreadable_manifest_error(path: Path, error: Exception) -> RunMismatchError:
    """The error of a run whose manifest is missing or unreadable, with the next step.

    A missing manifest may mean an interrupted run, or a file in place of a folder.
    """
    if isinstance(error, FileNotFoundError):
        why = "is not a run folder"
        # The journal is made first, and the manifest once the cases are known.
        if RunFolder(path=path.parent).exists:
            why = "holds a run that ended too early; the command that began it continues"
        return RunMismatchError(f"{path.parent} {why}: it has no {path.name}")
    if isinstance(error, NotADirectoryError):
        return RunMismatchError(
            f"{path.parent} is a file, not the folder of a run. Answers that it records are scored "
            f"by: ragbench eval {path.parent}"
        )
    return RunMismatchError(
        f"{path} is not a manifest of ragbench: {words_of(error)}. The same eval command writes it "
        "anew, and reuses what was answered"
    )


def check_count(folder: Path, manifest: Manifest, count: int) -> None:
    """Refuses a run whose journal has lost cases, or has those of another dataset.

    Scores of a part of the cases would be taken for scores of all.

    Args:
        count: the cases that were read from the journal.
    """
    expected = manifest.dataset.cases
    if count != expected:
        raise RunMismatchError(
            f"{folder} is damaged, or its run ended too early: its manifest is of {expected:,} "
            f"cases, and its journal holds {count:,}. Continue it with the same eval command, or "
            "restore the folder from a copy"
        )


def write_atomic(path: Path, content: bytes) -> None:
    """Writes a file whole: a reader sees the old content or the new one, never a part.

    A kill in the midst leaves the old file. Secrets in the content are masked.

    A manifest or report that is cut off would make the run unreadable.
    """
    # With the process's number: two processes write beside each other.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # Private from the start, and not only once it has its name.
        with open_private(temporary, "wb") as file:
            file.write(hidden_bytes(content))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def git_state(folder: Path) -> dict[str, Any] | None:
    """The commit of the git repository around a folder, and whether tracked files had changes.

    A run stores it, so that its code can be checked out again. None outside a repository, and where
    git is not installed or takes too long.
    """
    # Without optional locks: another git command of the user's may be at work.
    command = ["git", "--no-optional-locks", "-C", str(folder)]
    command += ["status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return None
    commit = None
    is_dirty = False
    # In git's format, version 2: headers begin with a hash, changes with anything else.
    for line in done.stdout.splitlines():
        if line.startswith("# branch.oid "):
            commit = line.split()[-1]
        elif not line.startswith("#"):
            is_dirty = True
    # A repository without any commit has nothing to check out.
    if commit in (None, "(initial)"):
        return None
    return {"commit": commit, "dirty": is_dirty}
