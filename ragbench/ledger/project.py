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
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from pkgutil import get_data
from typing import Any, cast

from ragbench.core.origin import Origin, OriginPart, PartKind, Reach
from ragbench.ledger.content import (
    ABSENT,
    Content,
    file_content,
    files_below,
    packages,
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
from ragbench.ledger.watch import STARTED, Watch, file_of
from ragbench.masking import is_secret, mask_text
from ragbench.plugins import is_own

_LONGEST_SHOWN = 120
_MOST_FILES = 20_000
_MOST_BYTES = 4 << 30
_ORDER = ("unseen", "code", "file", "model", "package", "env")


class Project:
    """The folders of a user's code, and what else its outcomes may come from."""

    def __init__(
        self,
        things: Iterable[object],
        *,
        watch: Watch | None = None,
        metrics: Iterable[str] = (),
        leaving_out: Collection[str | Path] = (),
    ) -> None:
        """Takes what is asked, and the files of metrics: no answer depends on those.

        A file of metrics that another file of the project names does count.
        """
        self._watch = watch or Watch(since=STARTED)
        self._left_out = frozenset(str(Path(path).absolute()) for path in leaving_out)
        self._here = project_folder()
        self._things = tuple(things)
        modules = (sys.modules.get(str(getattr(one, "__module__", ""))) for one in self._things)
        named = [*filter(None, map(file_of, modules))]
        self._left_out |= {one for one in metrics if one not in named and _is_apart(one)}
        loaded = [  # modules of the user's that were loaded for it, or lie where the command runs
            file
            for name, module in list(sys.modules.items())
            if (file := file_of(module))
            and (name not in self._watch.known or file.startswith(f"{self._here}{os.sep}"))
        ]
        files = [file for file in (*named, *loaded) if file not in self._left_out]
        self._is_own = not files and all(is_own(type(thing).__module__) for thing in self._things)
        """Whether all of it is ragbench's, whose settings say what it is."""
        self._folders = list(dict.fromkeys(map(project_folder, files or [str(self._here / "_")])))
        self._before: dict[str, Content] = {}
        self._packages: dict[str, OriginPart] = {}
        self._stamps: dict[OriginPart, tuple[Path, str]] = {}
        """The files of the project with what `stamp_of` said of them."""
        self._settings: dict[str, tuple[OriginPart, ...]] = {}
        """By stage the settings before it was asked."""

    def knows(self, origin: Origin) -> None:
        """Takes up what an earlier run knew: unchanged large files are not read again."""
        for part in origin.parts:
            if part.kind == "package":
                self._packages[part.name] = part
            elif part.detail.startswith("stamp "):
                self._before[part.name] = Content(part.digest, part.size, part.detail)

    @cached_property
    def known(self) -> Mapping[tuple[PartKind, str], OriginPart]:
        """What is known before anything is asked, by kind and name."""
        parts = [*packages(self._packages)]
        if not self._is_own:
            # Those of ragbench are options, which count where they matter; Ray's say where it runs.
            not_compared = {name for names in _known("variables").values() for name in names}
            variables = {
                name: value
                for name, value in os.environ.items()
                if name not in not_compared and not name.startswith(("RAGBENCH_", "RAY_"))
            }
            if not self._watch.is_command:  # a command's arguments are its settings
                variables[ARGUMENTS] = "\0".join(sys.argv[1:])
            parts += [
                OriginPart("env", name, env_digest(name, value))
                for name, value in variables.items()
            ]
            declared = [
                folder / Path(name).expanduser()
                for folder in self._folders
                for name in tool_settings(folder, "inputs")
            ]
            for folder in (*self._folders, *declared):
                parts += self._files(folder)
        return {part[:2]: part for part in parts}

    def _files(self, folder: Path) -> Iterator[OriginPart]:
        ignored = tool_settings(folder, "ignore")
        listed = files_below(folder, self._left_out, ignored) if folder.is_dir() else [folder]
        paths = [*islice(listed, _MOST_FILES + 1)]
        stamps = [stamp_of(path) for path in paths]
        size = sum(int(stamp.partition(":")[0]) for stamp in stamps if stamp != ABSENT)
        if len(paths) > _MOST_FILES or size > _MOST_BYTES:
            _, name = self._key(folder)
            yield OriginPart("unseen", name, "open", 0, _TOO_LARGE.format(name=name))
            return
        for path, stamp in zip(paths, stamps, strict=True):
            if path.suffix not in (".db", ".json", ".sqlite") or not _is_ragbenchs(str(path)):
                kind, name = self._key(path)
                content = file_content(path, before=self._before.get(name))
                part = OriginPart(kind, name, *content)
                self._stamps[part] = (path, stamp)
                yield part

    def _key(self, path: str | Path) -> tuple[PartKind, str]:
        """A file's kind, and its path relative to where the command runs, else to the home."""
        text = Path(path).as_posix()
        for root, before in ((self._here.as_posix(), ""), (Path.home().as_posix(), "~/")):
            if text.startswith(f"{root}/"):
                text = f"{before}{text[len(root) + 1 :]}"
                break
        # Names of files may hold bytes that are no text: JSON takes them escaped.
        name = text.encode("utf-8", "backslashreplace").decode()
        return _kinds().get(name[name.rfind(".") :], "file"), name

    def origin(self, stage: str, settings: Mapping[str, Any] | None = None) -> Origin:
        """What the outcomes of a stage came from, as far as it is known by now."""
        found = dict(self.known)
        for thing in self._things:
            if because := getattr(thing, "unseen_because", None):  # an endpoint without a version
                found["unseen", because] = OriginPart("unseen", because, "open", 0, because)
        for part in () if self._is_own else self._seen(found):
            found[part[:2]] = part
        for path in self._watch.written:  # its own doing is not what it came from
            found.pop(self._key(path), None)
        now = setting_parts(settings or {})
        first = self._settings.setdefault(stage, now)
        kept = now if now == first else own_state(first, now)
        parts = tuple(sorted({*found.values(), *kept}))
        reach: Reach = "open" if any(part.digest == "open" for part in parts) else "closed"
        return Origin(stage, parts, reach)

    def _seen(self, known: Mapping[tuple[PartKind, str], OriginPart]) -> Iterator[OriginPart]:
        main = sys.modules["__main__"]
        if getattr(main, "__file__", None) is None and not self._watch.is_command:
            yield OriginPart("unseen", "__main__", "open", 0, "its code stands in no file")
        for name in sorted(_known("unseen_clients")["modules"] & sys.modules.keys()):
            if name not in self._watch.known:
                sentence = f"it uses {name}, whose connections cannot be seen"
                yield OriginPart("unseen", name, "open", 0, sentence)
        for name, sentence in list(self._watch.unseen.items()):
            kind: PartKind = "address" if name in sentence and ":" in name else "unseen"
            yield OriginPart(kind, name, "open", 0, sentence)
        for path in {file for module in list(sys.modules.values()) if (file := file_of(module))}:
            yield from self._opened(path, "", known)
        for path, stamp in list(self._watch.opened.items()):
            yield from self._opened(path, stamp, known)
        for path in self._watch.written:
            if os.path.exists(path):  # noqa: PTH110
                name = self._key(path)[1]
                yield OriginPart("unseen", name, "written", 0, "written by the code itself")

    def _opened(
        self, path: str, stamp: str, known: Mapping[tuple[PartKind, str], OriginPart]
    ) -> Iterator[OriginPart]:
        """A file that was read: as it was then, and not at all where it was made here.

        The dataset and files of runs are left out; what code opens beside the cases counts.
        """
        is_of_run = path in self._left_out or any(
            path.startswith(f"{one}{os.sep}") and os.path.exists(f"{one}/journal.sqlite")  # noqa: PTH110
            for one in self._left_out
        )
        # What has no stamp is a module's.
        if path in self._watch.written or is_of_run or (stamp and _is_ragbenchs(path)):
            return
        key = self._key(path)
        if key not in known or not stamp:
            now = stamp_of(path)
            young = not stamp and now != ABSENT and int(now.split(":")[1]) > self._watch.since
            if now == ABSENT and stamp not in ("", ABSENT):
                if not path.startswith(tempfile.gettempdir()):
                    yield OriginPart(*key, CHANGED_MEANWHILE)
            elif young or (stamp and now != stamp):
                yield OriginPart(*key, CHANGED_MEANWHILE)
            elif key not in known:
                content = file_content(Path(path), before=self._before.get(key[1]))
                yield OriginPart(key[0], key[1], *content)

    def changed(self, origin: Origin) -> tuple[Changed, ...]:
        """What differs now from what outcomes came from; nothing of a version that was named."""
        if all(part.kind == "setting" for part in origin.parts):
            return ()
        known, found = self.known, list[Changed]()
        kinds = {"package"} if self._is_own else {"package", "env", "code", "file", "model"}
        compared = {part[:2]: part for part in origin.parts if part.kind in kinds}
        passed = {part.name for part in origin.parts if part.digest == "written"}
        for key, part in compared.items():
            now = known.get(key)
            if now is None and part.kind not in ("package", "env"):
                file = self._here / Path(part.name).expanduser()
                here = file_content(file, before=self._before.get(part.name))
                is_gone = here.digest == ABSENT != part.digest
                now = None if is_gone else OriginPart(part.kind, part.name, *here)
            if part.name not in passed and (change := change_of(part, now)):
                found.append(change)
        for key, part in known.items():
            if part.kind in kinds and key not in compared and part.name not in passed:
                found.append(appeared(part))
        found += [Changed(part, part.detail) for part in known.values() if part.digest == "open"]
        return tuple(sorted(found, key=lambda change: _ORDER.index(change.part.kind)))

    def moved(self) -> tuple[OriginPart, ...]:
        """Files of the project that changed while it was asked, and not by its own hand."""
        return tuple(
            part._replace(digest=CHANGED_MEANWHILE)
            for part, (path, stamp) in self._stamps.items()
            if str(path) not in self._watch.written
            and stamp_of(path) != stamp
            and file_content(path).digest != part.digest
        )


_TOO_LARGE = (
    "{name} holds more than 20,000 files or 4 GB: list what does not matter under [tool.ragbench] "
    "ignore in its pyproject.toml"
)


def _is_apart(file: str) -> bool:
    """Whether no other module of its project has the name of a file's module in its text."""
    named = re.compile(rf"\b{re.escape(Path(file).stem)}\b".encode())
    folder = project_folder(file)
    texts = (
        path.read_bytes()
        for path in files_below(folder, (), tool_settings(folder, "ignore"))
        if path.suffix in (".py", ".toml", ".yaml", ".yml") and str(path) != file
    )
    return not any(named.search(text) for text in texts)


def project_folder(file: str | Path = "") -> Path:
    """The folder that a file's project is in: the nearest one with a sign of it, else its own."""
    here = Path(file).resolve().parent if file else Path.cwd()
    for folder in (here, *here.parents):
        if any((folder / name).exists() for name in (".git", "pyproject.toml", "setup.py")):
            return folder
    return here


_OWN_APPLICATIONS = (b"RAGB", b"RBCL")
"""What the SQLite files of runs and of kept answers hold at byte 68; see `ragbench.ledger.tables`
and `ragbench.llm.cache`."""


def _is_ragbenchs(path: str) -> bool:
    """Whether ragbench keeps answers, outcomes or a baseline in it: what they came from counts."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            head = file.read(72)
    except OSError:
        return False
    is_own = head.startswith(b"SQLite format 3\0") and head[68:72] in _OWN_APPLICATIONS
    return is_own or head.startswith(b'{\n  "ragbench_baseline":')


# --- environment


@cache
def _known(part: str) -> Mapping[str, frozenset[str]]:
    """A table of ``environment.toml``."""
    table = tomllib.loads((get_data("ragbench.ledger", "environment.toml") or b"").decode())
    return {name: frozenset(listed) for name, listed in table[part].items()}


@cache
def _kinds() -> Mapping[str, PartKind]:
    """What a file is by its ending; any other is a file."""
    files = cast("Mapping[PartKind, frozenset[str]]", _known("files"))
    return {ending: kind for kind, endings in files.items() for ending in endings}


def env_digest(name: str, value: str) -> str:
    """Digest of a variable's value; of a credential two bytes.

    Two bytes miss one renewed key in 65,536, and nobody learns the key from them.
    """
    # Keyed, and without credentials in it: nobody can look the value up in a table.
    key = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=32).digest()
    text = (value if is_secret(name) else mask_text(value)).encode("utf-8", "backslashreplace")
    size = 2 if is_secret(name) else 16
    return hashlib.blake2b(text, key=key, digest_size=size).hexdigest()


# --- settings


def named_origin(stage: str, identity: object) -> Origin:
    """The origin of outcomes of a system that names its version itself."""
    return Origin(stage, setting_parts({"stage_identity": identity}), "closed")


def setting_parts(settings: Mapping[str, Any]) -> tuple[OriginPart, ...]:
    """What a stage is described by, one part a value."""
    found: list[OriginPart] = []
    waiting: list[tuple[str, object, int]] = [(str(k), one, 5) for k, one in settings.items()]
    while waiting:
        name, value, depth = waiting.pop()
        inner: Iterable[tuple[object, object]] = ()
        if depth and isinstance(value, Mapping):
            inner = cast("Mapping[object, object]", value).items()
        elif depth and isinstance(value, (list, tuple)) and len(cast("list[object]", value)) <= 50:
            inner = enumerate(cast("list[object]", value))
        below = [(f"{name}.{key}" if name else str(key), entry, depth - 1) for key, entry in inner]
        waiting += below
        if name and not below:
            text = always_jsonable(cast("object", value))
            shown = text.decode("utf-8", "replace")
            if len(shown) > _LONGEST_SHOWN:
                shown = f"{shown[:_LONGEST_SHOWN]} ..."
            digest = hashlib.sha256(text).hexdigest()[:32]
            found.append(OriginPart("setting", name, digest, len(text), shown))
    return tuple(sorted(found))
