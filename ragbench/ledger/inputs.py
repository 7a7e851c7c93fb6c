"""From what was seen and what is reached to the origin of a stage's outcomes."""

from __future__ import annotations

import ast
import os
import re
import sys
import tempfile
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

from ragbench.core.origin import Origin, OriginPart, PartKind, Reach
from ragbench.ledger.content import ABSENT, Content, file_content, folder_content, listing, stamp_of
from ragbench.ledger.environ import env_digest
from ragbench.ledger.origin import (
    CHANGED_MEANWHILE,
    name_of,
    own_state,
    package_version,
    setting_parts,
)
from ragbench.ledger.reached import Reached, reached_from
from ragbench.ledger.source import compiled
from ragbench.ledger.watch import Watch
from ragbench.ledger.whose import project_folder

_CODE = (".py", ".pyc", ".pyd", ".pyx", ".so")
_MODEL = (
    ".bin",
    ".ckpt",
    ".gguf",
    ".h5",
    ".joblib",
    ".onnx",
    ".pkl",
    ".pt",
    ".pth",
    ".safetensors",
)
_CARDS = re.compile(
    r"(config|generation_config|meta|modules|params|special_tokens_map|tokenizer|tokenizer_config|"
    r".*\.index)\.json|vocab\.(txt|json)|.*\.model"
)
"""Files that Python reads of a model whose weights another language reads."""


class Inputs:
    """What a user's thing came from: what a watch saw, and what its code reaches."""

    def __init__(
        self,
        watch: Watch,
        *,
        base: Path | None = None,
        leaving_out: Collection[str | Path] = (),
    ) -> None:
        self._watch = watch
        self._base = project_folder() if base is None else base.absolute()
        self._left_out = frozenset(str(Path(path).absolute()) for path in leaving_out)
        self._known: dict[str, tuple[str, Content]] = {}
        """Files as they were when first digested: their stamp and what they held."""
        self._own: dict[str, bool] = {}
        self._settings: dict[str, tuple[OriginPart, ...]] = {}
        """By stage the settings before it was asked."""

    def origin(
        self, stage: str, *things: object, settings: Mapping[str, Any] | None = None
    ) -> Origin:
        """What the outcomes of a stage came from, as far as it was seen up to now."""
        reached = reached_from(things, self._watch.modules, self._base, self._left_out)
        found: dict[tuple[str, ...], OriginPart] = {}
        for part in self._parts(reached):
            found.setdefault((part.kind, part.name, part.digest[:6]), part)
        now = setting_parts(settings or {})
        first = self._settings.setdefault(stage, now)
        parts = tuple(sorted({*found.values(), *own_state(first, now)}))
        reach: Reach = "open" if any(part.digest == "open" for part in parts) else "closed"
        return Origin(stage, parts, reach)

    def _parts(self, reached: Reached) -> Iterator[OriginPart]:
        watch = self._watch
        for module in reached.modules.values():
            yield from self._module(module)
        for path, stamp in list(watch.opened.items()):
            yield from self._file(path, stamp)
        for path in _with_weights([*watch.opened, *reached.files]):
            yield from self._file(path, "")
        for path in reached.folders:
            yield self._folder(path)
        for path in sorted(watch.listed):
            yield self._listing(path)
        for name, value in list(watch.variables.items()):
            yield OriginPart("env", name, env_digest(name, value))
        for package in _distributions(reached.packages):
            yield OriginPart("package", package, package_version(package))
        yield OriginPart("package", "python", package_version("python"))
        yield from self._unseen(reached)

    def _unseen(self, reached: Reached) -> Iterator[OriginPart]:
        for name, sentence in list(self._watch.unseen.items()):
            is_address = name in sentence and ":" in name
            yield OriginPart("address" if is_address else "unseen", name, "open", 0, sentence)
        for sentence in reached.unseen:
            yield OriginPart("unseen", sentence, "open", 0, sentence)
        if not all(self._was_seen(module) for module in reached.modules.values()):
            for kind in reached.opaque:
                sentence = f"it holds a {kind} that was made before ragbench could watch"
                yield OriginPart("unseen", kind, "open", 0, sentence)
        for path in sorted(self._watch.written):
            if os.path.exists(path):  # noqa: PTH110
                yield OriginPart(
                    "unseen", self._name(path), "written", 0, "written by the code itself"
                )

    def _name(self, path: str) -> str:
        return name_of(Path(path), self._base)

    def _was_seen(self, module: types.ModuleType) -> bool:
        """Whether a module was loaded while it was watched."""
        file = os.path.abspath(module.__file__ or "")  # noqa: PTH100
        return module.__name__ in self._watch.modules or file in self._watch.opened

    def _module(self, module: types.ModuleType) -> Iterator[OriginPart]:
        file = os.path.abspath(module.__file__ or "")  # noqa: PTH100
        if not self._was_seen(module) and not _is_as_written(module, file):
            yield OriginPart("code", self._name(file), CHANGED_MEANWHILE)
        else:
            yield from self._file(file, self._watch.opened.get(file, ""))

    def _file(self, path: str, stamp: str) -> Iterator[OriginPart]:
        if path in self._watch.written or self._is_own(path):
            return
        now = stamp_of(path)
        before, content = self._known.get(path, (stamp or now, None))
        if now == ABSENT and before != ABSENT:
            if path.startswith(tempfile.gettempdir()):  # made and deleted again
                return
            content = Content(CHANGED_MEANWHILE)
        elif now != before or content is None:
            present = file_content(Path(path))
            is_same = now == before or (content is not None and present[:2] == content[:2])
            content = present if is_same else Content(CHANGED_MEANWHILE)
            self._known[path] = (now if is_same else before, content)
        if content.digest == CHANGED_MEANWHILE and path in self._watch.databases:
            sentence = f"the database {self._name(path)} is written to while it is in use"
            yield OriginPart("unseen", self._name(path), "open", 0, sentence)
        elif not os.path.isdir(path):  # noqa: PTH112
            yield OriginPart(_kind(path), self._name(path), *content)

    def _is_own(self, path: str) -> bool:
        """Whether ragbench keeps answers or outcomes in a file: what they came from counts."""
        if path not in self._own:
            self._own[path] = _written_by_ragbench(path)
        return self._own[path]

    def _folder(self, path: str) -> OriginPart:
        content = folder_content(Path(path), without={*self._watch.written, *self._left_out})
        if content.digest == "too large":
            sentence = f"{self._name(path)}/ holds too many files to read them all"
            return OriginPart("unseen", self._name(path), "open", 0, sentence)
        return OriginPart("folder", self._name(path), *content)

    def _listing(self, path: str) -> OriginPart:
        if f"{path}/" not in self._known:
            content = listing(Path(path), without={*self._watch.written, *self._left_out})
            self._known[f"{path}/"] = ("", content)
        return OriginPart("folder", self._name(path), *self._known[f"{path}/"][1])


_OWN_APPLICATIONS = (b"RAGB", b"RBCL")
"""What the SQLite files of runs and of kept answers hold at byte 68; see `ragbench.ledger.tables`
and `ragbench.llm.cache`."""


def _written_by_ragbench(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            head = file.read(72)
    except OSError:
        return False
    return head.startswith(b"SQLite format 3\0") and head[68:72] in _OWN_APPLICATIONS


def _kind(path: str) -> PartKind:
    return "code" if path.endswith(_CODE) else "model" if path.endswith(_MODEL) else "file"


def _with_weights(paths: Iterable[str]) -> list[str]:
    """The files, and the weights that lie beside a model's configuration."""
    found = dict.fromkeys(paths)
    for folder in {os.path.dirname(p) for p in found if _CARDS.fullmatch(os.path.basename(p))}:  # noqa: PTH119, PTH120
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208
        except OSError:
            continue
        found |= dict.fromkeys(os.path.join(folder, n) for n in names if n.endswith(_MODEL))  # noqa: PTH118
    return list(found)


# --- code that was loaded before anybody watched


def _is_as_written(module: types.ModuleType, file: str) -> bool:
    """Whether a module's file still says what was loaded from it."""
    loader = getattr(module.__spec__, "loader", None)
    if loader is not None and not isinstance(loader, SourceFileLoader):
        return True  # something compiles it in its own way: pytest rewrites assertions

    try:
        source = Path(file).read_bytes()
        tree = ast.parse(source)
        code = compile(source, file, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return False
    written = {one.co_qualname: compiled(one) for one in _all_code(code)}
    live = _live_code(module, file)
    values = vars(module)
    return all(written.get(name) == digest for name, digest in live.items()) and all(
        name in values and _is_value(values[name], value) for name, value in _constants(tree)
    )


def _all_code(code: types.CodeType) -> Iterator[types.CodeType]:
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield one
            yield from _all_code(one)


def _live_code(module: types.ModuleType, file: str) -> dict[str, str]:
    """Digests of the functions that a module defines, its classes' methods among them."""
    things = list(vars(module).values())
    for value in list(things):
        if isinstance(value, type) and value.__module__ == module.__name__:
            things += [getattr(member, "__func__", member) for member in vars(value).values()]
    found = [getattr(value, "__code__", None) for value in things]
    return {
        code.co_qualname: compiled(code)
        for code in found
        if isinstance(code, types.CodeType) and code.co_filename == file
    }


def _constants(tree: ast.Module) -> Iterator[tuple[str, object]]:
    """The names at the top of a module that are given a plain value, once."""
    counts: dict[str, int] = {}
    found: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                counts[target.id] = counts.get(target.id, 0) + 1
                if isinstance(node.value, ast.Constant):
                    found[target.id] = node.value.value
    yield from ((name, value) for name, value in found.items() if counts[name] == 1)


def _is_value(live: object, written: object) -> bool:
    return type(live) is type(written) and live == written


# --- packages

_NAME = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)([^;]*)(;.*)?$")


def _distributions(modules: Collection[str]) -> list[str]:
    """The packages that modules are of, with what those require and is loaded; sorted."""
    loaded = {_plain(name) for name in list(sys.modules) if "." not in name}
    found: set[str] = set()
    waiting = [name for module in modules for name in _distributions_of(module)]
    while waiting:
        name = waiting.pop()
        if name not in found and package_version(name):
            found.add(name)
            waiting += [each for each in _required(name) if each in loaded]
    return sorted(found)


@lru_cache(maxsize=1_000)
def _distributions_of(module: str) -> tuple[str, ...]:
    if package_version(module):  # nearly all are called what they are imported as
        return (_plain(module),)
    return tuple(_plain(name) for name in _all_distributions().get(module, ()))


@lru_cache(maxsize=1)
def _all_distributions() -> Mapping[str, list[str]]:
    return packages_distributions()


@lru_cache(maxsize=1_000)
def _required(name: str) -> tuple[str, ...]:
    try:
        lines = requires(name) or ()
    except PackageNotFoundError:
        return ()
    matches = [_NAME.match(line) for line in lines if "extra ==" not in line]
    return tuple(_plain(match[1]) for match in matches if match)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
