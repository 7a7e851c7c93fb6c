"""How far a user's code reaches: modules, packages, and the files that it names.

An audit hook sees what Python opens. What libraries in C++ or Rust open (onnxruntime, tokenizers,
faiss, LanceDB) it does not see: so every setting, attribute, variable of a module and text in the
code that names a file or folder which is there counts as if it were read.
"""

from __future__ import annotations

import ast
import functools
import inspect
import os
import re
import sys
import tempfile
import types
import warnings
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, NamedTuple, cast

from ragbench.ledger.content import stamp_of
from ragbench.ledger.identity import named_path, slots_of
from ragbench.ledger.source import is_own
from ragbench.ledger.whose import whose

_MOST_OBJECTS = 50_000
_MOST_ENTRIES = 1_000
_DEEPEST = 10
_DEEPEST_FOREIGN = 3
_MOST_FOLDERS = 50
_FILE_NAME = re.compile(r"\S[^\n\0]{0,200}\.\w{1,12}|[^\n\0]{0,100}[/\\][^\n\0]{0,100}")
_BARE_NAME = re.compile(r"[\w\-]{1,60}")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
_UNSEEN_CLIENTS = frozenset(
    {"curl_cffi", "google.api_core.grpc_helpers", "oracledb", "psycopg", "psycopg2", "pycurl",
     "pymilvus", "pymssql", "pyodbc"}
)  # fmt: skip
"""Modules whose connections Python does not see."""
_OPAQUE = ("_io", "ctypes", "dbm", "http", "mmap", "shelve", "socket", "sqlite3", "ssl")
"""Of the standard library: what holds on to something outside of the process."""


class Reached(NamedTuple):
    """What a user's code reaches."""

    modules: Mapping[str, types.ModuleType]
    """The project's modules by name."""
    files: Collection[str]
    """Files that are named."""
    folders: Collection[str]
    """Folders of data that are named."""
    packages: Collection[str]
    """Installed packages that are imported, by their modules' first name."""
    opaque: Collection[str]
    """Objects that nobody can look into, by class."""
    unseen: Collection[str]
    """Why more may be reached than is known, as sentences."""


def reached_from(
    things: Iterable[object], imported: Mapping[str, bool], base: Path, left_out: Collection[str]
) -> Reached:
    """Finds all that things reach: through what they hold on to, and what their code imports."""
    search = _Walk()
    for thing in things:
        search.add(thing)
    for name, by_user in imported.items():
        search.add_module(name, only_project=not by_user)
    search.run()
    return Reached(
        search.modules,
        *_named_files(search, base, left_out),
        search.packages,
        search.opaque,
        search.unseen,
    )


class _Walk:
    """A walk through objects and modules."""

    def __init__(self) -> None:
        self.modules: dict[str, types.ModuleType] = {}
        self.packages: set[str] = set()
        self.opaque: set[str] = set()
        self.unseen: set[str] = set()
        self.paths: set[Path] = set()
        self.texts: set[tuple[str, str]] = set()
        """Texts in the code, with the folder that the code lies in."""
        self._seen: dict[tuple[int, bool], object] = {}
        self._waiting: deque[tuple[object, str, int, bool]] = deque()
        self._is_accounted = False
        """Whether what is looked at is held by an object of ragbench's, which says by its identity
        what it depends on."""

    def add(self, value: object, name: str = "", depth: int = _DEEPEST) -> None:
        if value is None or isinstance(value, (bool, int, float, bytes)):
            return
        if isinstance(value, (str, PurePath)):
            path = named_path(value, name)
            if path is not None:
                self.paths.add(path)
        elif depth and (id(value), self._is_accounted) not in self._seen:
            self._seen[id(value), self._is_accounted] = value
            self._waiting.append((value, name, depth, self._is_accounted))

    def run(self) -> None:
        while self._waiting:
            if len(self._seen) > _MOST_OBJECTS:
                self.unseen.add("it holds on to too many objects to look at all of them")
                return
            value, name, depth, self._is_accounted = self._waiting.popleft()
            self._look(value, name, depth)
        self._is_accounted = False

    def _look(self, value: object, name: str, depth: int) -> None:
        if isinstance(value, types.ModuleType):
            self.add_module(value.__name__)
        elif inspect.isclass(value):
            for owner in value.__mro__:
                self.add_module(owner.__module__)
        elif isinstance(value, Mapping):
            held = cast("Mapping[object, object]", value)
            for key, entry in islice(held.items(), _MOST_ENTRIES):
                self.add(entry, key if isinstance(key, str) else name, depth - 1)
        elif isinstance(value, (list, tuple, set, frozenset, deque)):
            for entry in islice(cast("Iterable[object]", value), _MOST_ENTRIES):
                self.add(entry, name, depth - 1)
        elif isinstance(value, functools.partial):
            call = cast("functools.partial[Any]", value)
            self.add([call.func, call.args, call.keywords], name, depth)
        elif inspect.isroutine(value) or isinstance(value, (property, staticmethod, classmethod)):
            self._add_function(value, depth)
        else:
            self._add_object(value, depth)

    def _add_function(self, function: Any, depth: int) -> None:
        self.add_module(getattr(function, "__module__", None) or "builtins")
        for name in (
            "__self__",
            "__func__",
            "__wrapped__",
            "fget",
            "__defaults__",
            "__kwdefaults__",
        ):
            self.add(getattr(function, name, None), "", depth - 1)
        for cell in getattr(function, "__closure__", None) or ():
            try:
                self.add(cell.cell_contents, "", depth - 1)
            except ValueError:  # not filled yet
                continue

    def _add_object(self, value: object, depth: int) -> None:
        kind = type(value)
        self.add(kind)
        top = kind.__module__.partition(".")[0]
        file = getattr(sys.modules.get(kind.__module__), "__file__", None) or "<frozen>"
        was_accounted = self._is_accounted and whose(file) != "project"
        if whose(file) == "installed" and not hasattr(value, "tobytes"):
            if not was_accounted:
                self.opaque.add(f"{kind.__module__}.{kind.__qualname__}")
            depth = min(depth, _DEEPEST_FOREIGN)
        elif whose(file) == "standard":
            if top in _OPAQUE and not was_accounted:
                self.opaque.add(f"{kind.__module__}.{kind.__qualname__}")
            depth = min(depth, 2)
        elif is_own(top):
            because = getattr(value, "unseen_because", None)  # ragbench.rag.http.RagEndpoint
            if isinstance(because, str):
                self.unseen.add(because)
        for name, held in _held(value):
            # What an adapter adapts is the user's (ragbench.rag.parts.AdaptedRAG).
            self._is_accounted = name != "adapts" if is_own(top) else was_accounted
            self.add(held, name, depth - 1)

    # --- modules

    def add_module(self, name: str, *, only_project: bool = False) -> None:
        """Has a module looked at, and what it holds and imports."""
        module = sys.modules.get(name)
        if module is None or name in self.modules or is_own(name):
            return
        file = getattr(module, "__file__", None)
        if file is None:
            if name == "__main__":
                self.unseen.add("some of the code is in no file")
            return
        kind = whose(os.path.abspath(file))  # noqa: PTH100  # called for thousands of modules
        if kind == "installed" and not only_project and not self._is_accounted:
            self.packages.add(name.partition(".")[0])
            if name in _UNSEEN_CLIENTS:
                self.unseen.add(f"it uses {name}, whose connections cannot be seen")
        elif kind == "project":
            self.modules[name] = module
            self._add_project_module(name, module, file)

    def _add_project_module(self, name: str, module: types.ModuleType, file: str) -> None:
        self._is_accounted = False
        parent = name.rpartition(".")[0]
        if parent:
            self.add_module(parent)
        source = _source(file, stamp_of(file))
        for candidate in source.imports(module):
            self.add_module(candidate)
        folder = os.path.dirname(os.path.abspath(file))  # noqa: PTH100, PTH120
        for text in source.texts:
            self.texts.add((text, folder))
            if _DOTTED.fullmatch(text) and text in sys.modules:
                self.add_module(text, only_project=True)
        for key, value in list(vars(module).items()):
            if not key.startswith("__"):
                self.add(value, key, _DEEPEST - 2)


def _held(value: object) -> Iterator[tuple[str, object]]:
    kind = type(value)
    names = {slot for owner in kind.__mro__ for slot in slots_of(owner)}
    yield from list(getattr(value, "__dict__", {}).items())
    for name in sorted(names):
        if hasattr(value, name):
            yield name, getattr(value, name)


# --- sources


class _SourceFile(NamedTuple):
    modules: tuple[tuple[str, int, tuple[str, ...]], ...]
    """Of each import the module, how many packages up, and the names."""
    texts: tuple[str, ...]

    def imports(self, module: types.ModuleType) -> Iterator[str]:
        """Names of modules that the code imports, wherever it does so; some are none."""
        package = getattr(module, "__package__", None) or ""
        for name, level, names in self.modules:
            whole = name
            if level:
                above = package.split(".")[: len(package.split(".")) - level + 1]
                whole = ".".join([*above, name] if name else above)
            parts = whole.split(".")
            yield from (".".join(parts[:size]) for size in range(1, len(parts) + 1))
            yield from (f"{whole}.{one}" for one in names)


@lru_cache(maxsize=4_000)
def _source(file: str, stamp: str) -> _SourceFile:
    """What the code of a file imports, and the texts in it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(Path(file).read_bytes()) if file.endswith(".py") else None
    except (OSError, SyntaxError, ValueError):
        tree = None
    modules: list[tuple[str, int, tuple[str, ...]]] = []
    texts: dict[str, None] = {}
    for node in () if tree is None else ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [(alias.name, 0, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            modules.append((node.module or "", node.level, names))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts[node.value] = None
    return _SourceFile(tuple(modules), tuple(texts))


# --- files that are named


def _named_files(
    search: _Walk, base: Path, left_out: Collection[str]
) -> tuple[Collection[str], Collection[str]]:
    """Files and folders that the code names: whole, or by parts that it puts together."""
    homes = {str(Path.cwd()), str(base)}
    files = {str(path) for path in search.paths if path.is_file()}
    folders = {str(path) for path in search.paths if path.is_dir()}
    for _ in range(3):  # root / "data" / "index" / "file.bin"
        known = len(folders)
        for text, home in search.texts:
            is_file = _FILE_NAME.fullmatch(text) is not None
            if not is_file and not _BARE_NAME.fullmatch(text):
                continue
            for folder in {home, *homes, *sorted(folders)[:_MOST_FOLDERS]}:
                path = os.path.normpath(os.path.join(folder, text.lstrip("/\\") or "."))  # noqa: PTH118
                found = path if os.path.exists(path) else text if os.path.isabs(text) else ""  # noqa: PTH110, PTH117
                if os.path.isdir(found):  # noqa: PTH112
                    folders.add(found)
                elif is_file and os.path.isfile(found):  # noqa: PTH113
                    files.add(found)
        if len(folders) == known:
            break
    inside = [path for path in folders if _is_data(Path(path), base, left_out)]
    return {path for path in files if path not in left_out}, _outermost(inside)


_SYSTEM = ("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/run", "/sys", "/usr", "/var")


def _is_data(path: Path, base: Path, left_out: Collection[str]) -> bool:
    """Whether a folder may be an input: not code, not the project, not the system's."""
    text = str(path)
    around = {Path.cwd(), base, Path.home(), Path(tempfile.gettempdir())}
    if text in left_out or any(path == one or path in one.parents for one in around):
        return False
    if (
        text in _SYSTEM
        or text.startswith(("/dev/", "/proc/", "/sys/"))
        or path.name.startswith(".")
    ):
        return False
    if whose(f"{text}{os.sep}") != "project" or (path / "journal.sqlite").exists():
        return False
    return not any(entry.suffix == ".py" for entry in islice(path.iterdir(), _MOST_ENTRIES))


def _outermost(folders: Iterable[str]) -> list[str]:
    found: list[str] = []
    for folder in sorted(folders):
        if not any(folder.startswith(f"{other}{os.sep}") for other in found):
            found.append(folder)
    return found
