"""What the outcomes of a user's code came from: its project, packages, environment.

Nothing is inferred from what the code reads. All that it may depend on counts, whether it does or
not: every file of the project's folder, every installed distribution, every environment variable
but those of an exact list. Beside that, two things are watched: files that are opened elsewhere
count as well, and what asks a server or starts a program is asked again (docs/reuse.md).
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from pkgutil import get_data
from typing import Any, cast

from ragbench.core.origin import Origin, OriginPart, PartKind
from ragbench.ledger.content import (
    ABSENT,
    Content,
    file_content,
    files_below,
    packages,
    project_folder,
    stamp_of,
    tool_settings,
)
from ragbench.ledger.fingerprint import always_jsonable
from ragbench.ledger.origin import (
    ARGUMENTS,
    CHANGED_MEANWHILE,
    Changed,
    appeared,
    change_of,
    own_state,
)
from ragbench.ledger.unseen_writes import HeldFiles, Restless
from ragbench.ledger.watch import STARTED, Watch, file_of
from ragbench.ledger.writes import Before, Mark, WriteLog, files_of_streams
from ragbench.masking import is_secret, mask_text
from ragbench.plugins import is_own

_MAX_SHOWN = 120
"""Characters of a setting's value that are kept, to be shown."""
_MAX_LIST = 50
"""Entries up to which each entry of a list is a part of its own."""
_MAX_DEPTH = 5
"""Levels of settings whose entries are parts of their own."""
_MAX_FILES = 20_000
"""Files up to which a project is read."""
_MAX_BYTES = 4 << 30
"""Bytes up to which a project is read; `_TOO_LARGE` says how to leave files of a larger one out."""
WRITTEN = "written"
"""The digest of a file that the code wrote itself: it is not compared."""
PERHAPS_WRITTEN = "perhaps written"
"""The digest of a file that changed while a run went on, perhaps by its doing: it is not compared
while that run goes on."""
_KIND_ORDER = ("unseen", "code", "file", "model", "package", "env")
"""The order in which changes are listed, by the kind of what changed."""


class Project:
    """What a user's system is made of, as far as its outcomes may come from it.

    A run stores it with the outcomes of each stage (`origin`); a later command compares (`changed`)
    and uses stored outcomes again only while nothing of it differs.
    """

    def __init__(
        self,
        things: Iterable[object],
        *,
        watch: Watch | None = None,
        metrics: Iterable[str] = (),
        leaving_out: Collection[str | Path] = (),
    ) -> None:
        """Finds the folders of the user's code; their files are read later, by `read`.

        Any of their files may change an answer: outcomes are reused only while all are unchanged.

        Args:
            things: the objects that are asked, such as a RAG.
            watch: sees what they open, write, start and connect to. Without one that was there
                before they were loaded, a file of theirs that changed since this process began to
                use ragbench may not be what was loaded, and counts as changed.
            metrics: the user's files of metrics. No answer depends on them, unless another file of
                the project names one.
            leaving_out: files and folders that no answer depends on, such as the run's folder.
        """
        self._watch = watch or Watch(since=STARTED)
        """Sees which files the system opens. One that is made here, as none was given, knows
        nothing of what was opened before this process began to use ragbench."""
        # By absolute path, as files are found below folders.
        left_out = {str(Path(path).absolute()) for path in leaving_out}
        self._left_out = frozenset(left_out | files_of_streams())
        """Files and folders that no answer depends on."""
        self._here = project_folder()
        """The project in which the command runs."""
        self._things = tuple(things)
        """The objects that are asked."""
        files_of_things = self._files_of_things()
        # Of a metric that other code imports answers may depend after all.
        for file in metrics:
            if file not in files_of_things and _is_apart(file):
                self._left_out |= {file}
        files: list[str] = []
        # Files of the things, then of all modules that were loaded for them.
        for file in (*files_of_things, *self._loaded_files()):
            if file not in self._left_out:
                files.append(file)
        has_own_things = all(is_own(type(thing).__module__) for thing in self._things)
        # Where all is ragbench's, only packages count: ragbench's own version is among them.
        self._is_all_own = not files and has_own_things
        """Whether the whole system is made of ragbench's classes, whose settings describe it."""
        if not files:
            # No file of the user's is seen: the project where the command runs is taken for the
            # system's. "_" is any file in it, as folders are found by a file (`project_folder`).
            files = [str(self._here / "_")]
        # Each project once, in the order in which its files were met.
        self._folders = list(dict.fromkeys(project_folder(file) for file in files))
        """The folders of the user's code: every file in them counts."""
        self._contents_before: dict[str, Content] = {}
        """By name the contents of large files in an earlier run, from `knows`: such a file is not
        read again while its stamp is the same."""
        self._packages_before: dict[str, OriginPart] = {}
        """By name the installed packages in an earlier run, from `knows`: they need not be read."""
        self._files: dict[str, tuple[OriginPart, str]] = {}
        """By path the files of the project as they were read, with their stamps."""
        self._settings_before: dict[str, tuple[OriginPart, ...]] = {}
        """By stage the settings when `origin` was first asked for: a setting that differs later was
        changed by the system itself, while it answered."""

    def _files_of_things(self) -> list[str]:
        """The source files that define the objects that are asked, such as a RAG.

        The projects of these files are the system's.
        """
        files: list[str] = []
        for thing in self._things:
            # A plain function has no class of the user's: its own module names the file.
            module = sys.modules.get(str(getattr(thing, "__module__", "")))
            file = file_of(module)
            if file:
                files.append(file)
        return files

    def _loaded_files(self) -> list[str]:
        """The files of the user's modules that were loaded for the system or lie where it runs.

        A system imports modules from folders that no object of it names: these count as well.
        """
        files: list[str] = []
        for name, module in list(sys.modules.items()):
            file = file_of(module)
            # Modules of the project count, whoever loaded them.
            is_here = file.startswith(f"{self._here}{os.sep}")
            # A module from elsewhere counts where it was loaded after the watch had begun.
            if file and (is_here or name not in self._watch.known):
                files.append(file)
        return files

    def knows(self, origin: Origin) -> None:
        """Takes over the digests of large files and packages from the origin of an earlier run.

        An origin lists all that the outcomes of a system came from: files, packages, settings. A
        large file with the same stamp (size and time) need not be read again.
        """
        # Only packages and large files are kept: all other parts are quickly read again.
        for part in origin.parts:
            if part.kind == "package":
                self._packages_before[part.name] = part
            elif part.detail.startswith("stamp "):
                self._contents_before[part.name] = Content(part.digest, part.size, part.detail)

    def read(self) -> None:
        """Reads the project's files, before anything is asked that may change them.

        The parts found now are those that later changes are compared with.
        """
        _ = self.known_parts  # a cached property: whoever reads it later gets this state

    @cached_property
    def known_parts(self) -> Mapping[tuple[PartKind, str], OriginPart]:
        """The parts of the system that are known before anything is asked, by kind and name.

        Parts are the packages, the environment variables and the files of the project. They are
        read once and kept: a part that differs from a stored one is a change of the system.
        """
        parts = list(packages(self._packages_before))
        # The settings of ragbench's own parts say what they are: no file or variable decides.
        if not self._is_all_own:
            for name, value in self._variables().items():
                parts.append(OriginPart("env", name, env_digest(name, value)))
            # Declared inputs may lie outside of the project.
            for path in (*self._folders, *self._declared_inputs()):
                parts += self._parts_of_files(path)
        return {(part.kind, part.name): part for part in parts}

    def _variables(self) -> dict[str, str]:
        """The environment variables that count as inputs, with the arguments of a user's program.

        All count that are not listed in ``environment.toml``: which of them the user's code reads
        is not known.
        """
        ignored: set[str] = set()
        for names in _names_in_table("variables").values():
            ignored |= names
        variables: dict[str, str] = {}
        for name, value in os.environ.items():
            # By prefix, since more may come: variables of ragbench are options, which count where
            # they matter, and those of Ray say where a worker runs.
            if name not in ignored and not name.startswith(("RAGBENCH_", "RAY_")):
                variables[name] = value
        if not self._watch.is_command:  # a command's arguments are its settings
            # Joined by zero bytes, which no argument holds.
            variables[ARGUMENTS] = "\0".join(sys.argv[1:])
        return variables

    def _declared_inputs(self) -> Iterator[Path]:
        """Files and folders elsewhere that the project's pyproject.toml lists as its inputs.

        Files outside of the project are otherwise seen only once the code has opened them.
        """
        for folder in self._folders:
            for name in tool_settings(folder, "inputs"):
                yield folder / Path(name).expanduser()

    def _parts_of_files(self, folder: Path) -> Iterator[OriginPart]:
        """Every file of a folder as a part of the origin; a folder too large is one open part.

        An open part has unseen changes: outcomes that depend on it are asked for again in the next
        run.

        An origin lists all that outcomes came from, part by part.

        Args:
            folder: a folder of the project; an input that the user declares may also be one file.
        """
        files: Iterable[Path] = [folder]
        if folder.is_dir():
            files = files_below(folder, self._left_out, tool_settings(folder, "ignore"))
        # One more than allowed, to see that there are too many without listing them all.
        paths = list(islice(files, _MAX_FILES + 1))
        stamps = [stamp_of(path) for path in paths]
        # A stamp begins with the size.
        size = sum(int(stamp.partition(":")[0]) for stamp in stamps if stamp != ABSENT)
        # One open part in place of thousands: its changes cannot be seen.
        if len(paths) > _MAX_FILES or size > _MAX_BYTES:
            _, name = self._kind_and_name(folder)
            yield OriginPart("unseen", name, "open", 0, _TOO_LARGE.format(name=name))
            return
        for path, stamp in zip(paths, stamps, strict=True):
            # Files of ragbench have such endings; others need not be opened to tell.
            if path.suffix in (".db", ".json", ".sqlite") and _is_of_ragbench(str(path)):
                continue
            kind, name = self._kind_and_name(path)
            content = file_content(path, before=self._contents_before.get(name))
            part = OriginPart(kind, name, *content)
            # With the stamp of before the reading: a change in between shows as another stamp.
            self._files[str(path)] = (part, stamp)
            yield part

    def _kind_and_name(self, path: str | Path) -> tuple[PartKind, str]:
        """A file's kind, such as code or model, and its name in an origin: a relative path.

        The path is relative to where the command runs, else to the home folder, so that a project
        that lies elsewhere on another machine has parts of the same names.

        An origin lists all that outcomes came from; stored ones are compared by these names.
        """
        if isinstance(path, str):
            path = Path(path)
        text = path.as_posix()
        # The project first: it may lie in the home folder.
        for root, prefix in self._roots:
            if text.startswith(root):
                text = f"{prefix}{text[len(root) :]}"
                break
        # Names of files may hold bytes that are no text: JSON takes them escaped.
        name = text.encode("utf-8", "backslashreplace").decode()
        # Without a dot `rfind` gives -1, and the "ending" is the last letter, which is no known
        # one.
        ending = name[name.rfind(".") :]
        return _kind_by_ending().get(ending, "file"), name

    @cached_property
    def _roots(self) -> Sequence[tuple[str, str]]:
        """The folders that names of files are relative to, each with what takes its place.

        So a project that lies elsewhere on another machine has files of the same names, and stored
        outcomes stay usable there. The folder where the command runs is left out of a name, and
        comes first, as it may lie in the home folder; "~/" takes the place of that one.
        """
        return (f"{self._here.as_posix()}/", ""), (f"{Path.home().as_posix()}/", "~/")

    def origin(self, stage: str, settings: Mapping[str, Any] | None = None) -> Origin:
        """The origin of a stage's outcomes: all parts that they may depend on, as known by now.

        The origin is stored with the outcomes. A later run uses the outcomes again only while every
        part is unchanged.

        Args:
            stage: whose outcomes are stored with it.
            settings: what the stage is described by, such as its parameters.
        """
        # A copy: what is seen while the system is asked is added to it.
        part_of = dict(self.known_parts)
        for thing in self._things:
            reason = getattr(thing, "unseen_because", None)  # an endpoint without a version
            if reason:
                part_of["unseen", reason] = OriginPart("unseen", reason, "open", 0, reason)
        if not self._is_all_own:
            for part in self._seen_parts(dict(part_of)):
                part_of[part.kind, part.name] = part
        # The watch goes on in other threads: its collections are copied before they are read.
        # After the seen parts: what the system wrote is taken out again, wherever it came from.
        for path in list(self._watch.written):
            if self._watch.is_own(path):  # its own doing is not what it came from
                part_of.pop(self._kind_and_name(path), None)
        # A setting that the system changed while it was asked is its state: it is not compared.
        settings_now = setting_parts(settings or {})
        # The first call of a run keeps the settings of before the system was asked.
        settings_before = self._settings_before.setdefault(stage, settings_now)
        if settings_now != settings_before:
            settings_now = own_state(settings_before, settings_now)
        # A set: a part may have been seen in two ways; sorted, so that the stored form is the same.
        parts = tuple(sorted({*part_of.values(), *settings_now}))
        # "open": it reaches to what cannot be seen, which may be another by the next run.
        if any(part.digest == "open" for part in parts):
            return Origin(stage, parts, "open")
        return Origin(stage, parts, "closed")

    def _seen_parts(
        self, known_parts: Mapping[tuple[PartKind, str], OriginPart]
    ) -> Iterator[OriginPart]:
        """The parts that were seen while the system was asked: files that it read, and more.

        The others are things that cannot be seen into, such as connections.

        Args:
            known_parts: what was known before, by kind and name; such files are not given again.
        """
        yield from self._unseen_parts()
        # Loaded modules, also those that were imported while the system was asked.
        files_of_modules = {file_of(module) for module in list(sys.modules.values())}
        for path in files_of_modules - {""}:
            yield from self._opened_parts(path, "", known_parts)
        for path, stamp in list(self._watch.opened.items()):
            yield from self._opened_parts(path, stamp, known_parts)
        # Files that are new and perhaps made by no person.
        for path in self._restless.made:
            yield from self._opened_parts(path, stamp_of(path), known_parts)
        # Noted as written, so that later commands do not compare them.
        for path in list(self._watch.written):
            # A temporary file that no earlier command can have seen is left out.
            is_or_was_there = path in self._files or os.path.exists(path)  # noqa: PTH110
            if is_or_was_there and self._watch.is_own(path):
                yield self._written_part(path, WRITTEN)

    def _unseen_parts(self) -> Iterator[OriginPart]:
        """The parts that cannot be seen into: typed code, connections and started programs.

        Each has the digest "open", by which its outcomes are asked for again in the next run.
        """
        main = sys.modules["__main__"]
        # Typed into an interpreter or a notebook.
        if getattr(main, "__file__", None) is None and not self._watch.is_command:
            yield OriginPart("unseen", "__main__", "open", 0, "its code stands in no file")
        # Clients in C or Rust connect without an event of Python's.
        for name in sorted(_names_in_table("unseen_clients")["modules"] & sys.modules.keys()):
            if name not in self._watch.known:
                sentence = f"it uses {name}, whose connections cannot be seen"
                yield OriginPart("unseen", name, "open", 0, sentence)
        for name, sentence in list(self._watch.unseen.items()):
            kind: PartKind = "unseen"
            # An address is named with its port; the name of a program has no colon.
            if name in sentence and ":" in name:
                kind = "address"
            yield OriginPart(kind, name, "open", 0, sentence)

    def _opened_parts(
        self, path: str, stamp: str, known_parts: Mapping[tuple[PartKind, str], OriginPart]
    ) -> Iterator[OriginPart]:
        """A file that the system read, as a part with its content at that time, or no part at all.

        Files that the system wrote itself, the dataset and files of runs are left out; a file that
        code opens beside the cases counts.

        A file outside of the project is known to be an input only by this.

        Args:
            stamp: of the file when it was opened; empty for the file of a module, of which that is
                not known.
        """
        is_module = not stamp
        # What the system or the run wrote itself is no input of the system.
        if self._watch.is_own(path) or self._is_of_run(path):
            return
        # Modules of the user's are never files that ragbench keeps.
        if not is_module and _is_of_ragbench(path):
            return
        kind, name = self._kind_and_name(path)
        is_known = (kind, name) in known_parts
        # Read before anything was asked: its later changes are found by `moved`.
        if is_known and not is_module:
            return
        stamp_now = stamp_of(path)
        is_gone = stamp_now == ABSENT
        # A file that was there when the system opened it, and is gone now.
        if is_gone and stamp not in ("", ABSENT):
            # A temporary file that was there only for a while is the system's own doing.
            if not path.startswith(tempfile.gettempdir()):
                yield OriginPart(kind, name, CHANGED_MEANWHILE)
            return
        if is_module:
            # Behind the size a stamp has the time of the last change: a module that is younger
            # than the watch may have been loaded before that.
            # Of a module the stamp at its import is not known.
            has_changed = not is_gone and int(stamp_now.split(":")[1]) > self._watch.since
        else:
            has_changed = stamp_now != stamp
        if has_changed:
            yield OriginPart(kind, name, CHANGED_MEANWHILE)
        elif not is_known:
            content = file_content(Path(path), before=self._contents_before.get(name))
            yield OriginPart(kind, name, *content)

    def _is_of_run(self, path: str) -> bool:
        """Whether a file is the dataset's, or one in a run's folder: no input of the system.

        A folder that is left out is a run's where it has a journal.

        The run's own files change while it goes on.
        """
        # The dataset is a file; a run is a folder.
        if path in self._left_out:
            return True
        for folder in self._left_out:
            is_inside = path.startswith(f"{folder}{os.sep}")
            if is_inside and os.path.exists(f"{folder}/journal.sqlite"):  # noqa: PTH110
                return True
        return False

    def changed(self, origin: Origin, *, goes_on: bool = False) -> tuple[Changed, ...]:
        """The changes of the system since stored outcomes came about; with any, none is reused.

        A system that names its version itself has no changes here: its parts are settings alone.

        Args:
            goes_on: whether the outcomes are of a run that was interrupted and goes on. It may have
                written more than was seen of it.
        """
        if origin.is_named:
            return ()
        known_parts = self.known_parts
        # Of ragbench's own parts the packages are enough.
        kinds: tuple[PartKind, ...] = ("package",)
        if not self._is_all_own:
            kinds = ("package", "env", "code", "file", "model")
        before: dict[tuple[PartKind, str], OriginPart] = {
            (part.kind, part.name): part for part in origin.parts if part.kind in kinds
        }
        own_doing = _written_files(origin, perhaps=goes_on)
        changes: list[Changed] = []
        # Known parts by their key; files elsewhere are read now.
        for key, part in before.items():
            if part.name in own_doing:
                continue
            change = change_of(part, known_parts.get(key) or self._part_outside(part))
            if change is not None:
                changes.append(change)
        # What was not there before: a new file may be read by the system as well.
        for key, part in known_parts.items():
            if part.kind in kinds and key not in before and part.name not in own_doing:
                changes.append(appeared(part))
        # Open parts always count as changed: what they hold cannot be compared.
        for part in known_parts.values():
            if part.digest == "open":
                changes.append(Changed(part, part.detail))
        # The user's files first; sorting keeps the order within a kind.
        return tuple(sorted(changes, key=lambda change: _KIND_ORDER.index(change.part.kind)))

    def _part_outside(self, part: OriginPart) -> OriginPart | None:
        """A file outside of the project as it is now; None for other parts, or where it is gone.

        Files of the project are among the known parts; those elsewhere are known from the origin
        alone.

        An origin lists all that outcomes came from, also files that code opened elsewhere.

        Args:
            part: as an origin has it.
        """
        if part.kind in ("package", "env"):
            return None
        # Names are relative to where the command runs, or to the home folder.
        path = self._here / Path(part.name).expanduser()
        content = file_content(path, before=self._contents_before.get(part.name))
        # Of a file that was absent, its absence is the present state.
        if content.digest == ABSENT and part.digest != ABSENT:
            return None
        return OriginPart(part.kind, part.name, *content)

    def moved(self) -> tuple[OriginPart, ...]:
        """The files of the project that changed while it was asked, and not by its own hand.

        A person has edited these files: some outcomes came from the old content and some from the
        new one, so that none may be used again.
        """
        parts: list[OriginPart] = []
        for path, (part, stamp) in self._files.items():
            # The stamp is looked at first: most files need not be read.
            if self._watch.is_own(path) or stamp_of(path) == stamp:
                continue
            # Touched, but with the same content: no change.
            if file_content(Path(path)).digest != part.digest:
                parts.append(part._replace(digest=CHANGED_MEANWHILE))
        return tuple(parts)

    def _written_part(self, path: str, digest: str) -> OriginPart:
        """A file that the code wrote itself, as a part of an origin that is never compared.

        An origin lists all that outcomes came from. The content of a file that the code writes
        changes with each run, and would make all outcomes look outdated.

        Args:
            digest: `WRITTEN` or `PERHAPS_WRITTEN`.
        """
        name = self._kind_and_name(path)[1]
        return OriginPart("unseen", name, digest, 0, "written by the code itself")

    def reads_own(self, origin: Origin) -> bool:
        """Whether the system has read a file that an earlier run of it wrote, such as a cache.

        Where it has, a setting that differs from the earlier run's may be a count that the system
        keeps in such a file, and is no change of the system.
        """
        own = _written_files(origin)
        return any(self._kind_and_name(path)[1] in own for path in list(self._watch.opened))

    def with_writes(self, origin: Origin, log: WriteLog) -> Origin:
        """The origin of an interrupted run, with the files that it wrote later than that.

        Without them the run's own files would count as changes, and it could not go on.

        An origin lists all that outcomes came from, and is compared before they are reused.
        """
        if origin.is_named:
            return origin
        parts = {(part.kind, part.name): part for part in origin.parts}
        for path, mark in self._marks_of_new(origin, log):
            digest = PERHAPS_WRITTEN
            if mark == "+":  # it was seen to write the file
                digest = WRITTEN
            part = self._written_part(path, digest)
            parts.setdefault((part.kind, part.name), part)
        return origin._replace(parts=tuple(parts[key] for key in sorted(parts)))

    def _marks_of_new(self, origin: Origin, log: WriteLog) -> list[tuple[str, Mark]]:
        """The files that an interrupted run wrote, by its log and by their folders.

        Where all files of a folder are the run's own, as in a cache, so is a new file there: a
        program may have written it just before the kill. Each has the mark that the log has of it.

        An interrupted run could not be continued if its own files counted as changes.
        """
        marks: list[tuple[str, Mark]] = []
        for path, mark in log.marks.items():
            if mark != "=":  # opened for writing, and left as it was
                marks.append((path, mark))
        own = _written_files(origin)
        # By their names in an origin, as `own` has them.
        own |= {self._kind_and_name(path)[1] for path, _ in marks}
        before = {part.name for part in origin.parts if part.kind not in ("unseen", "setting")}
        # Folders in which an earlier run saw nothing but the run's own files.
        folders = _folders_of(own) - _folders_of(before - own)
        self.read()
        # New by now, and in such a folder.
        for path, (part, _) in self._files.items():
            is_new = part.name not in before and part.name not in own
            if is_new and part.name.rpartition("/")[0] in folders:
                log.note(path, "~")
                marks.append((path, "~"))
        return marks

    def note_writes(self, *, is_last: bool) -> None:
        """Notes which files the code has written by now, so that their changes are not the user's.

        An interrupted run continues by these notes.

        Args:
            is_last: whether the run ends: then files are looked at although it is not time yet.
        """
        self._watch.note_writes()
        if not self._is_all_own:
            self._restless.look(at_once=is_last)

    @cached_property
    def _restless(self) -> Restless:
        """The watcher of files that change while the system is asked, unseen by any hook.

        The watcher is made when first needed, since it begins with the files as they were read.
        """
        return Restless(self._project_files, self._watch)

    def _project_files(self) -> Iterator[tuple[str, str]]:
        """The data files of the project by now, each with the stamp that it had when first read.

        A stamp is a file's size and times; a new file has an empty one. Files of code are left out:
        programs write data, and not code. While the system is asked, the stamps are compared with
        those of the moment again and again.
        """
        for folder in self._folders:
            for path in files_below(folder, self._left_out, tool_settings(folder, "ignore")):
                if _kind_by_ending().get(path.suffix) == "code":
                    continue
                name = str(path)
                stamp = ""
                if name in self._files:
                    # A file that was not there when the project was read has an empty stamp.
                    _, stamp = self._files[name]
                yield name, stamp

    def held_files(self) -> HeldFiles:
        """A thread, not started, that looks at the project's files held open for writing.

        Libraries in C++ write files in a way that Python does not see.
        """
        return HeldFiles(self._note_held)

    def _note_held(self, path: str) -> None:
        """Notes a file that this process, or a program of it, holds open for writing.

        Only files of the project count, and none of a run.
        """
        # Known already, elsewhere, or a run's own file.
        if path in self._watch.written or not self._is_inside(path) or self._is_of_run(path):
            return
        if not _is_of_ragbench(path):
            self._watch.hold(path, self._before(path))

    def _is_inside(self, path: str) -> bool:
        """Whether a file is in one of the project's folders.

        A file elsewhere is no part of the system unless the code opens it.
        """
        return any(path.startswith(f"{folder}{os.sep}") for folder in self._folders)

    def _before(self, path: str) -> Before:
        """The state of a project's file before anything was asked; a later write differs.

        A file that is not among those read is new: the code made it.
        """
        if path not in self._files:
            return Before(ABSENT)
        part, stamp = self._files[path]
        return Before(stamp, part.digest)


_TOO_LARGE = (
    "{name} holds more than 20,000 files or 4 GB: list what does not matter under [tool.ragbench] "
    "ignore in its pyproject.toml"
)


def _written_files(origin: Origin, *, perhaps: bool = False) -> set[str]:
    """The names of the files that a run wrote itself, which no later command compares.

    A cache of the system's own changes with each run, and is no change of the system.

    Args:
        perhaps: whether files that it may have written are included.
    """
    digests = {WRITTEN}
    if perhaps:
        digests.add(PERHAPS_WRITTEN)
    return {part.name for part in origin.parts if part.digest in digests}


def _folders_of(names: Iterable[str]) -> set[str]:
    """The folders of some files, by the files' names; the project's own folder is left out.

    If all files of such a folder are a run's own, a new file in it is, too.
    """
    # Of the project's own folder every file would count as the run's.
    return {name.rpartition("/")[0] for name in names} - {""}


def _is_apart(file: str) -> bool:
    """Whether no other file of a project mentions the module of a file, so that nothing imports it.

    No answer of the system depends on such a file, for example one with metrics.
    """
    # As a word of its own, so that "rank" in "ranking" is no mention.
    module_name = re.compile(rf"\b{re.escape(Path(file).stem)}\b".encode())
    folder = project_folder(file)
    for path in files_below(folder, (), tool_settings(folder, "ignore")):
        # Code may import it; settings may name it.
        may_import = path.suffix in (".py", ".toml", ".yaml", ".yml") and str(path) != file
        if may_import and module_name.search(path.read_bytes()):
            return False
    return True


_OWN_APPLICATIONS = (b"RAGB", b"RBCL")
"""What the SQLite files of runs and of kept answers hold at byte 68, where SQLite keeps the id of
the application that made a file; set in `ragbench.ledger.tables` and `ragbench.llm.cache`."""


def _is_of_ragbench(path: str) -> bool:
    """Whether a file holds answers, outcomes or a baseline that ragbench keeps.

    A file of ragbench's own is no part of a system: what the answers in it came from counts
    already.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            head = file.read(72)  # SQLite's mark, and at byte 68 what wrote the file
    except OSError:
        return False
    # Both marks are needed, SQLite's and ours: other programs use SQLite as well.
    is_own = head.startswith(b"SQLite format 3\0") and head[68:72] in _OWN_APPLICATIONS
    return is_own or head.startswith(b'{\n  "ragbench_baseline":')


# --- environment


@cache
def _names_in_table(table: str) -> Mapping[str, frozenset[str]]:
    """The lists of names in a table of ``environment.toml``, by the names of the lists.

    The tables list environment variables that never count, clients whose connections cannot be
    seen, and endings of files by their kind.
    """
    text = (get_data("ragbench.ledger", "environment.toml") or b"").decode()
    lists = tomllib.loads(text)[table]
    return {name: frozenset(names) for name, names in lists.items()}


@cache
def _kind_by_ending() -> Mapping[str, PartKind]:
    """By a file's ending, its kind in an origin, such as "code"; others are of kind "file".

    Messages name a change by the kind: code, a model or another file.

    An origin lists all that outcomes came from.
    """
    files = cast("Mapping[PartKind, frozenset[str]]", _names_in_table("files"))
    kind_of: dict[str, PartKind] = {}
    for kind, endings in files.items():
        kind_of |= dict.fromkeys(endings, kind)
    return kind_of


def env_digest(name: str, value: str) -> str:
    """A digest of an environment variable's value; of a credential, only two bytes of it.

    Two bytes miss one renewed key in 65,536, and nobody learns the key from them. Origins store the
    digest: another form makes stored outcomes unusable.
    """
    # Keyed, and without credentials in it: nobody can look the value up in a table.
    key = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=32).digest()
    # Two bytes of a credential, so that no table of digests gives it away.
    digest_bytes = 2
    if not is_secret(name):
        # Credentials inside of other values, as in an address with a password.
        value = mask_text(value)
        digest_bytes = 16
    text = value.encode("utf-8", "backslashreplace")
    return hashlib.blake2b(text, key=key, digest_size=digest_bytes).hexdigest()


# --- settings


def named_origin(stage: str, identity: object) -> Origin:
    """The origin of outcomes of a system that names its version itself, in place of its files.

    An origin lists all that outcomes came from. The user vouches for the version: outcomes are
    reused until it is another one.

    Args:
        identity: the version, in any form that JSON has.
    """
    return Origin(stage, setting_parts({"stage_identity": identity}), "closed")


def setting_parts(settings: Mapping[str, Any]) -> tuple[OriginPart, ...]:
    """The settings of a stage as parts of an origin, one for each value.

    An origin lists all that outcomes came from. With a part for each value, a message on a change
    names the single value: ``chunks.size`` is an entry of a mapping. Names and digests are stored:
    another form makes stored outcomes unusable.
    """
    parts: list[OriginPart] = []
    # Values that may have entries, each with its name and how many levels below it are told apart.
    unread: list[tuple[str, object, int]] = []
    for name, value in settings.items():
        unread.append((str(name), value, _MAX_DEPTH))
    # The last one first, since a list is cheap to take from at its end; they are sorted below.
    while unread:
        name, value, depth = unread.pop()
        # At the deepest level a value is one part with all that it holds.
        entries = _entries_of(value) if depth else []
        for key, entry in entries:
            entry_name = f"{name}.{key}" if name else str(key)
            unread.append((entry_name, entry, depth - 1))
        # An empty mapping has no entries, and is a value.
        if name and not entries:
            # The digest is of the whole, the text is cut to be shown.
            data = always_jsonable(value)
            text = data.decode("utf-8", "replace")
            if len(text) > _MAX_SHOWN:
                text = f"{text[:_MAX_SHOWN]} ..."
            digest = hashlib.sha256(data).hexdigest()[:32]
            parts.append(OriginPart("setting", name, digest, len(data), text))
    return tuple(sorted(parts))


def _entries_of(value: object) -> list[tuple[object, object]]:
    """The entries of a mapping or a short list, by key or place; none of any other value.

    A long list is data, such as the texts of chunks: it stays one part, with a digest of the whole.
    """
    if isinstance(value, Mapping):
        return list(cast("Mapping[object, object]", value).items())
    if isinstance(value, (list, tuple)):
        entries = cast("Sequence[object]", value)
        if len(entries) <= _MAX_LIST:
            return list(enumerate(entries))
    return []
