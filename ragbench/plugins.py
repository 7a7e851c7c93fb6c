"""Names to things: registry, entry points, extras, file.py:Thing.

A registry maps a name to ``"module:attribute"``. Nothing is imported before it is asked for,
so that a command pays only for what it uses. Other packages add names through entry points in
the group ``ragbench.<kind>``, for example::

    [project.entry-points."ragbench.formats"]
    mylog = "my_package.mylog:read"
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import os
import re
import sys
import tomllib
import traceback
import types
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from importlib.machinery import SourceFileLoader
from operator import attrgetter
from pathlib import Path
from pkgutil import get_data
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ragbench.errors import (
    BrokenExtraError,
    ConfigError,
    MissingExtraError,
    installed_name,
    warn,
)
from ragbench.masking import mask_text
from ragbench.safe_text import did_you_mean, listed_names

is_own = re.compile(r"ragbench(_cli)?(?:\.|\Z)").match
"""Finds out whether a module is ragbench's."""


_warned_of: set[tuple[str, str]] = set()
"""Who was warned of to have gone where."""


@contextmanager
def directory_kept(what: str) -> Generator[None]:
    """Puts the working directory back where a user's code has changed it, and warns once.

    Else every relative path of the command would name another file from then on: the dataset, the
    run's folder.
    """
    before = now = ""  # as of a directory that was deleted
    with suppress(FileNotFoundError):
        before = os.getcwd()  # noqa: PTH109
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            now = os.getcwd()  # noqa: PTH109
        if before and now != before:
            os.chdir(before)
            if (what, now) not in _warned_of:
                _warned_of.add((what, now))
                warn(
                    f"{what} changed the working directory to {now}: it is {before} again. Have "
                    "the RAG open its files by absolute paths, such as Path(__file__).parent / ..."
                )


@contextmanager
def silenced(*names: str) -> Generator[None]:
    """Keeps the logs of packages off the screen: what they raise says the same."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def require(module: str, *, extra: str) -> ModuleType:
    """Imports a module of an extra.

    Raises:
        MissingExtraError: its package is not installed.
        BrokenExtraError: it is installed and cannot be imported: it lacks a module or a package
            that it needs, its compiled parts are of another version, or it raises anything else.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == package or _is_absent(package):
            raise MissingExtraError(package, extra) from error
        missing = (error.name or "").partition(".")[0]
        lacks = missing if missing != package else ""
        raise BrokenExtraError(
            package, extra, _import_error(package, error), lacks=lacks
        ) from error
    except Exception as error:  # whatever a package raises that does not fit the others
        raise BrokenExtraError(package, extra, _import_error(package, error)) from error


def _import_error(package: str, error: Exception) -> str:
    """Why a package cannot be imported, and in which of those that it imports that is."""
    text = error_text(error)
    culprit = _raising_package(error)
    if culprit in ("", package):
        return text
    return f"'{installed_name(culprit)}', which it imports, raises {text}"


def _raising_package(error: Exception) -> str:
    """The installed package whose code raised an error; empty where it is ragbench's own."""
    raising = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        top = module.partition(".")[0]
        if top not in sys.stdlib_module_names and not is_own(module):
            raising = top
    return raising


def _is_absent(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is None
    except (ImportError, ValueError):
        return False


CORE = "core"
"""In place of an extra: the packages that every installation has."""


@cache
def extras() -> Mapping[str, tuple[str, ...]]:
    """The modules that ragbench imports for each extra; under ``core`` those that it always has."""
    table = tomllib.loads((get_data("ragbench", "extras.toml") or b"").decode())
    return {extra: tuple(modules) for extra, modules in table.items()}


def extra_problem(extra: str, begins: Callable[[str], None] | None = None) -> str:
    """Imports all that ragbench imports for an extra; the error in words, empty without one.

    Args:
        extra: its name, or `CORE`.
        begins: called with the name of a package before it is imported, which may end the process.
    """
    try:
        for module in extras().get(extra, ()):
            package = module.partition(".")[0]
            if begins is not None:
                begins(installed_name(package))
            if package == "ragas":
                import_ragas()
            require(module, extra=extra)
    except MissingExtraError as error:
        if extra != CORE:
            return str(error)
        reason = error.__cause__
        cause = str(error)
        if isinstance(reason, Exception):
            cause = _import_error(error.package, reason)
        return f"{error.package}: {cause}. Install it with: pip install --force-reinstall ragbench"
    return ""


def import_packages_of(*parts: object) -> None:
    """Imports the packages that parts of a system load with their first call, before any is paid.

    A part of ragbench's own has a method ``import_packages`` for that. Parts hold parts in their
    fields: a cascade two validators, a fusion its rerankers, an operator its language model.

    Raises:
        MissingExtraError: a package is not installed, or cannot be imported.
    """
    seen: set[int] = set()
    waiting = [*parts]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, (list, tuple)):
            waiting.extend(cast("Sequence[object]", part))
        elif is_own(type(part).__module__):
            importing = getattr(part, "import_packages", None)
            if importing is not None:
                importing()
            waiting.extend(_held_by(part))


def _held_by(part: object) -> list[object]:
    """The values of a record's fields; those of another object are its own business."""
    names: Iterable[str] = getattr(part, "__struct_fields__", ())
    if is_dataclass(part):
        names = [field.name for field in fields(part)]
    return [getattr(part, name, None) for name in names]


class _Late(ModuleType):
    """A module that is imported once something of it is used."""

    def __getattr__(self, name: str) -> Any:
        module = importlib.import_module(self.__name__)
        vars(self).update(vars(module))  # from now on, nothing lies in between
        return getattr(module, name)


if TYPE_CHECKING:  # for modules of formulas: `from ragbench.plugins import Floats, np`
    import numpy
    from numpy.typing import NDArray as NDArray

    np = numpy
    Floats: TypeAlias = NDArray[numpy.float64]
    Floats32: TypeAlias = NDArray[numpy.float32]
    Integers: TypeAlias = NDArray[numpy.int64]
else:
    np = _Late("numpy")
    NDArray = Floats = Floats32 = Integers = Any


def package_folder(package: str, *, extra: str) -> Path:
    """Where a package lies, which is not imported: only the files that it brings are wanted."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError(package, extra)
    return Path(found.submodule_search_locations[0])


_TRACKING = "RAGAS_DO_NOT_TRACK"
_VERTEXAI = "langchain_community.chat_models.vertexai"


def import_ragas() -> ModuleType:
    """Imports ragas; takes seconds the first time.

    ragas sends usage data unless ``RAGAS_DO_NOT_TRACK`` is ``true`` (no other value counts) before
    its first use. It is set here, unless the user has set it to anything.
    """
    os.environ.setdefault(_TRACKING, "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        if "ragas" not in sys.modules:
            _seed_vertexai()
        return require("ragas", extra="ragas")


def _seed_vertexai() -> None:
    """Stands in for a module that ragas imports and langchain-community 0.4.2 removed.

    ragas only asks whether a model is an instance of its class, which then is never the case.
    """
    try:
        importlib.import_module(_VERTEXAI)
    except ModuleNotFoundError as error:
        # Another name: langchain-community as a whole is missing, and then ragas is as well.
        if error.name == _VERTEXAI:
            stub = ModuleType(_VERTEXAI, "Stands in for a module that ragas expects.")
            stub.__dict__["ChatVertexAI"] = type("ChatVertexAI", (), {})
            sys.modules[_VERTEXAI] = stub


def load_attribute(target: str) -> Any:
    """Imports ``"package.module:attribute"`` (dots may follow the colon)."""
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path:
        raise ConfigError(f"'{target}' is not of the form package.module:attribute")
    module = importlib.import_module(module_name)
    try:
        return attrgetter(path)(module)
    except AttributeError as error:
        raise ConfigError(f"module '{module_name}' has no attribute '{path}'") from error


@cache
def _parts() -> dict[str, dict[str, str]]:
    return tomllib.loads((get_data("ragbench", "parts.toml") or b"").decode())


@dataclass(frozen=True, kw_only=True, slots=True)
class Registry:
    """Implementations of one kind of thing, by name."""

    kind: str
    """What is registered, in the plural and as entry-point groups spell it: ``"formats"``."""
    own: Mapping[str, str] | None = None
    """In place of what ``parts.toml`` has of the kind."""

    @property
    def builtin(self) -> Mapping[str, str]:
        """Name to ``"module:attribute"`` of what ragbench brings itself."""
        return _parts().get(self.kind, {}) if self.own is None else self.own

    def targets(self) -> dict[str, str]:
        """All names with their targets, built in ones first; a built in name wins."""
        found = dict(self.builtin)
        from importlib.metadata import entry_points  # takes long to load

        for point in sorted(entry_points(group=f"ragbench.{self.kind}"), key=lambda p: p.name):
            found.setdefault(point.name, point.value)
        return found

    def load(self, name: str) -> Any:
        """Imports and returns what is registered under a name."""
        target = self.builtin.get(name)
        if target is None:
            targets = self.targets()
            if name not in targets:
                hint = listed_names(name, sorted(targets))
                raise ConfigError(f"unknown name '{name}' among {self.kind}.{hint}")
            target = targets[name]
        return load_attribute(target)


_FORMS = "package.module:attribute, path/to/file.py:attribute or http(s)://host/..."


def load_target(
    spec: str, *, search_path: str | Path = ".", offers: Callable[[object], bool] | None = None
) -> Any:
    """Imports what a name points at, as it is; see `load_rag` for where it is looked for."""
    module_name, colon, path = spec.rpartition(":")
    if not colon or not module_name or not path:
        raise ConfigError(f"'{spec}' is not of the form {_FORMS}")
    root = Path(search_path).resolve()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    is_file = module_name.endswith(".py")
    value: Any = _from_file(root / module_name) if is_file else _from_name(module_name, root)
    for name in path.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            public = [known for known in dir(value) if not known.startswith("_")]
            close = get_close_matches(name, public, n=3)
            close = close or _candidates(value, public, offers or _is_rag)
            hint = f". Did you mean {' or '.join(close)}?" if close else ""
            raise ConfigError(f"'{spec}': there is no '{name}'{hint}") from None
    return value


def _from_name(name: str, root: Path) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise ConfigError(
                f"there is no module '{missing}': looked in {root.name or root}/ and in the "
                f"installed packages{_similar_module(missing, root)}"
            ) from None
        raise _import_failed(name, error) from error
    except (Exception, SystemExit) as error:
        raise _import_failed(name, error) from error


class _Loader(SourceFileLoader):
    """Loads a file as it is now.

    The compiled code that Python keeps may be older than the file: it compares whole seconds.
    """

    def get_code(self, fullname: str) -> types.CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


_AGES: dict[Path, tuple[int, int]] = {}
"""When each file was changed last, and its size, as it was loaded."""


def _from_file(file: Path) -> types.ModuleType:
    if not file.is_file():
        raise ConfigError(f"there is no file '{file.name}' in {file.parent.name or file.parent}/")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    state = file.stat()
    age = (state.st_mtime_ns, state.st_size)
    name = file.stem
    while (loaded := sys.modules.get(name)) is not None:
        if getattr(loaded, "__file__", None) == str(file):
            if _AGES.get(file, age) == age:
                return loaded
            break  # edited since, as in a notebook
        name = f"{name}_"  # some other module has that name
    spec = importlib.util.spec_from_file_location(name, file, loader=_Loader(name, str(file)))
    if spec is None or spec.loader is None:
        raise ConfigError(f"'{file.name}' cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look it up there
    _AGES[file] = age
    try:
        spec.loader.exec_module(module)
    except ConfigError:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _import_failed(file.name, error) from error
    return module


def _import_failed(name: str, error: BaseException) -> ConfigError:
    return ConfigError(f"importing '{name}' failed: {error_text(error)}")


def _similar_module(name: str, root: Path) -> str:
    here = [path.stem for path in root.glob("*.py")]
    here += [path.parent.name for path in root.glob("*/__init__.py")]
    hint = did_you_mean(name, sorted(here))
    return f".{hint}" if hint else ""


def _candidates(module: Any, names: list[str], offers: Callable[[object], bool]) -> list[str]:
    """Things that a module defines itself and that may have been meant."""
    here = getattr(module, "__name__", None)
    found = [(name, getattr(module, name)) for name in names]
    return [
        name
        for name, value in found
        if getattr(value, "__module__", None) == here and offers(value)
    ][:3]


def _is_rag(value: object) -> bool:
    return inspect.isclass(value) and any(
        "retrieve" in name or "generate" in name for name in dir(value)
    )


def error_text(error: BaseException) -> str:
    """An error as its type and its message, without credentials."""
    return mask_text(f"{type(error).__name__}: {error}")
