"""Finds Python objects by name, and imports them when they are first needed.

- `Registry`: ragbench's own parts by name, and those of other packages.
- `require`: packages of an extra, which may be missing.
- `load_target`: an object of a user's, by ``package.module:name`` or ``file.py:name``.
- `np`: NumPy, which takes long to import.

A registry maps a name to ``"module:attribute"``. Nothing is imported before it is used, so that a
command does not wait for packages that it does not use. Other packages add names through entry
points in the group ``ragbench.<kind>``, for example::

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
from contextlib import contextmanager
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
"""Whether the module of this name is one of ragbench's."""


_warned_changes: set[tuple[str, str]] = set()
"""Changes of the working directory that a warning was given for: by whom, and to where."""


@contextmanager
def directory_kept(who: str) -> Generator[None]:
    """Undoes a change of the working directory by a user's code that runs inside, and warns once.

    Otherwise every relative path of the command would name another file afterwards: the dataset,
    the run's folder.

    Args:
        who: the code that runs inside, for the warning.
    """
    before = _working_directory()
    try:
        yield
    finally:
        after = _working_directory()
        # `before` is empty where the folder was deleted: there is no way back then.
        if before and after != before:
            os.chdir(before)
            # Once for each code and folder: a RAG that does it at every call would fill the screen.
            if (who, after) not in _warned_changes:
                _warned_changes.add((who, after))
                warn(
                    f"{who} changed the working directory to {after}: it is {before} again. Have "
                    "the RAG open its files by absolute paths, such as Path(__file__).parent / ..."
                )


def _working_directory() -> str:
    """The path of the working directory; empty where the directory was deleted.

    Python raises an error for a deleted one.
    """
    try:
        return os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        return ""


@contextmanager
def silenced(*names: str) -> Generator[None]:
    """Turns off loggers while the code inside runs.

    For libraries whose exceptions have the same messages: the user would read each twice.

    Args:
        *names: of the loggers.
    """
    # By name, so that a library that is not imported yet has the same logger later.
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            # Above the highest level, so that nothing at all is logged.
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        # Each logger gets its own level back, also after an error.
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


_NO_USAGE_DATA = {
    "datasets": ("HF_HUB_DISABLE_TELEMETRY", "1"),
    "fastembed": ("HF_HUB_DISABLE_TELEMETRY", "1"),
    "huggingface_hub": ("HF_HUB_DISABLE_TELEMETRY", "1"),
    "mlflow": ("MLFLOW_DISABLE_TELEMETRY", "true"),
    "ragas": ("RAGAS_DO_NOT_TRACK", "true"),
    "ray": ("RAY_USAGE_STATS_ENABLED", "0"),
    "sentence_transformers": ("HF_HUB_DISABLE_TELEMETRY", "1"),
    "wandb": ("WANDB_ERROR_REPORTING", "false"),
}
"""The variable by which a package sends no usage data to its makers, and its value. It is read when
the package is imported or first used. A user who has set it is obeyed."""


def require(module: str, *, extra: str) -> ModuleType:
    """The module of an optional package (an extra of ragbench), imported.

    Optional packages are imported through here, so that a missing one ends with the line that
    installs it, and none sends usage data to its makers.

    Raises:
        MissingExtraError: its package is not installed.
        BrokenExtraError: it is installed and cannot be imported: it lacks a module or a package
            that it needs, its compiled parts are of another version, or it raises anything else.
    """
    package = module.partition(".")[0]
    if package in _NO_USAGE_DATA:
        os.environ.setdefault(*_NO_USAGE_DATA[package])
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == package or _is_absent(package):
            raise MissingExtraError(package, extra) from error
        # The package is installed and lacks another package, or a module of its own.
        lacks = (error.name or "").partition(".")[0]
        if lacks == package:
            lacks = ""
        raise BrokenExtraError(
            package, extra, _import_error(package, error), lacks=lacks
        ) from error
    except Exception as error:  # of any type, as where the versions of two packages do not fit
        raise BrokenExtraError(package, extra, _import_error(package, error)) from error


def _import_error(package: str, error: Exception) -> str:
    """Why a package cannot be imported, naming the package below it that fails, if there is one.

    The user has to repair the latter, and knows only the former.
    """
    text = error_text(error)
    raising_package = _raising_package(error)
    if raising_package in ("", package):
        return text
    return f"'{installed_name(raising_package)}', which it imports, raises {text}"


def _raising_package(error: Exception) -> str:
    """The name of the installed package whose code raised an error; empty where ragbench's own did.

    So the user knows which package to repair.
    """
    raising_package = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):  # from the outermost call inwards
        module = str(frame.f_globals.get("__name__", ""))
        package = module.partition(".")[0]
        if package not in sys.stdlib_module_names and not is_own(module):
            raising_package = package
    return raising_package


def _is_absent(package: str) -> bool:
    """Whether a package is not installed, found without importing it.

    A package may be there and fail when it is imported, which is another message.

    Args:
        package: the name of its outermost module.
    """
    try:
        return importlib.util.find_spec(package) is None
    except (ImportError, ValueError):
        return False


CORE = "core"
"""The name, in place of an extra's, for the packages that every installation has."""


@cache
def extras() -> Mapping[str, tuple[str, ...]]:
    """For each extra of ragbench the modules that it brings; ``core`` is for every installation.

    Read from ``extras.toml``: the doctor command checks an installation by importing them.
    """
    table = tomllib.loads((get_data("ragbench", "extras.toml") or b"").decode())
    return {extra: tuple(modules) for extra, modules in table.items()}


def extra_problem(extra: str, begins: Callable[[str], None] | None = None) -> str:
    """The message of the error that importing the modules of an extra raises; or empty.

    A check of the installation shows it, with the line that repairs it.

    Args:
        extra: its name, or `CORE`.
        begins: called with the name of each package before it is imported, since that may crash the
            process.
    """
    try:
        for module in extras().get(extra, ()):
            package = module.partition(".")[0]
            # Before the import: a crash must leave the name behind.
            if begins is not None:
                begins(installed_name(package))
            if package == "ragas":
                import_ragas()
            require(module, extra=extra)
    except MissingExtraError as error:
        if extra != CORE:
            return str(error)
        # No extra brings a package of the core: its message names another command.
        reason = str(error)
        if isinstance(error.__cause__, Exception):
            reason = _import_error(error.package, error.__cause__)
        return f"{error.package}: {reason}. Install it with: pip install --force-reinstall ragbench"
    return ""


def import_packages_of(*parts: object) -> None:
    """Imports the packages that parts of a system would import at their first call.

    So a missing package is reported before any call is paid for. A part of ragbench's own has a
    method ``import_packages`` for it. Parts have parts in their fields: a cascade two validators, a
    fusion its rerankers, an operator its language model.

    Raises:
        MissingExtraError: a package is not installed, or cannot be imported.
    """
    # Parts may hold each other: without this set the loop would not end.
    seen: set[int] = set()
    waiting = [*parts]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        # Fields may be lists of parts; strings are none.
        if isinstance(part, (list, tuple)):
            waiting.extend(cast("Sequence[object]", part))
        elif is_own(type(part).__module__):
            # Only of ragbench's own parts: a user's method of that name may do anything.
            import_packages = getattr(part, "import_packages", None)
            if import_packages is not None:
                import_packages()
            waiting.extend(_field_values(part))


def _field_values(part: object) -> list[object]:
    """The values of the fields of a record or dataclass; none of an object of any other kind.

    Parts of a system have further parts in their fields.
    """
    names: Iterable[str] = getattr(part, "__struct_fields__", ())
    if is_dataclass(part):
        names = [field.name for field in fields(part)]
    return [getattr(part, name, None) for name in names]


class _LazyModule(ModuleType):
    """A module that is imported when an attribute of it is first used."""

    def __getattr__(self, name: str) -> Any:
        """An attribute of the module, which is imported for it now.

        Python calls this for an attribute that is not there yet; afterwards all of them are.
        """
        module = importlib.import_module(self.__name__)
        # With all attributes of the module as its own, this method is not called again.
        vars(self).update(vars(module))
        return getattr(module, name)


if TYPE_CHECKING:  # for modules of formulas: `from ragbench.plugins import Floats, np`
    import numpy
    from numpy.typing import NDArray as NDArray

    np = numpy
    Floats: TypeAlias = NDArray[numpy.float64]
    Floats32: TypeAlias = NDArray[numpy.float32]
    Integers: TypeAlias = NDArray[numpy.int64]
else:
    np = _LazyModule("numpy")
    NDArray = Floats = Floats32 = Integers = Any


def package_folder(package: str, *, extra: str) -> Path:
    """The folder of an installed package, found without importing it; for data files in it.

    To import some packages takes seconds.

    Raises:
        MissingExtraError: the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(package, extra)
    return Path(spec.submodule_search_locations[0])


_VERTEXAI = "langchain_community.chat_models.vertexai"


def import_ragas() -> ModuleType:
    """The package ragas, imported without its warnings; that takes seconds the first time.

    ragas needs a module that a later langchain-community removed; it is replaced first.

    Raises:
        MissingExtraError: it is not installed, or cannot be imported.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        # Once: with ragas imported, what it needed is there.
        if "ragas" not in sys.modules:
            _replace_missing_vertexai()
        return require("ragas", extra="ragas")


def _replace_missing_vertexai() -> None:
    """Adds an empty module in place of one that ragas imports and langchain-community removed.

    It is missing since langchain-community 0.4.2. ragas only checks whether a model is an instance
    of its class ``ChatVertexAI``, which is then never the case.
    """
    try:
        importlib.import_module(_VERTEXAI)
    except ModuleNotFoundError as error:
        # With another name langchain-community as a whole is missing, and ragas with it.
        if error.name == _VERTEXAI:
            stub = ModuleType(_VERTEXAI, "Stands in for a module that ragas expects.")
            stub.__dict__["ChatVertexAI"] = type("ChatVertexAI", (), {})
            sys.modules[_VERTEXAI] = stub


def load_attribute(target: str) -> Any:
    """The object at ``"package.module:attribute"``, whose module is imported.

    Dots may follow the colon. For places that ragbench and other packages write; those that users
    write are loaded by `load_target`, which explains mistakes.
    """
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path:
        raise ConfigError(f"'{target}' is not of the form package.module:attribute")
    module = importlib.import_module(module_name)
    # `attrgetter` follows the dots of a class and its method.
    try:
        return attrgetter(path)(module)
    except AttributeError as error:
        raise ConfigError(f"module '{module_name}' has no attribute '{path}'") from error


@cache
def _places_of_parts() -> dict[str, dict[str, str]]:
    """The places of ragbench's own parts, by kind and name, from ``parts.toml``.

    A part is an implementation that a name in a setting chooses, such as a format or a reranker.
    """
    return tomllib.loads((get_data("ragbench", "parts.toml") or b"").decode())


@dataclass(frozen=True, kw_only=True, slots=True)
class Registry:
    """The implementations of one kind, such as formats or rerankers, by name."""

    kind: str
    """The kind in the plural, as in the name of the group of entry points: ``"formats"``."""
    own: Mapping[str, str] | None = None
    """ragbench's own parts of the kind, in place of those in ``parts.toml``."""

    @property
    def builtin(self) -> Mapping[str, str]:
        """The kind's parts of ragbench itself: ``"module:attribute"`` by name.

        Found without a look through the installed packages, which takes time.
        """
        if self.own is not None:
            return self.own
        return _places_of_parts().get(self.kind, {})

    def targets(self) -> dict[str, str]:
        """The places of all parts of the kind by name, ragbench's own first.

        A part of another package cannot replace one of ragbench's own: a name means the same
        everywhere.
        """
        from importlib.metadata import entry_points  # takes long to load

        targets = dict(self.builtin)
        group = entry_points(group=f"ragbench.{self.kind}")
        for point in sorted(group, key=lambda point: point.name):
            targets.setdefault(point.name, point.value)
        return targets

    def has(self, name: str) -> bool:
        """Whether there is a part of the kind with a name.

        Other packages are looked through only for a name that is none of ragbench's own: it takes
        25 ms.
        """
        return name in self.builtin or name in self.targets()

    def load(self, name: str) -> Any:
        """The part of the kind with a name, imported.

        Only the module of this part is imported, and not those of the other ones.

        Raises:
            ConfigError: there is none; the message lists those that there are.
        """
        # The parts of ragbench itself first: to look for those of other packages takes time.
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
    """The object that a user's text points at, imported, and returned as it is.

    Users name their RAGs, metrics and parts so, in commands and files: a mistake is explained.

    Args:
        spec: ``package.module:attribute`` or ``path/to/file.py:attribute``.
        search_path: the folder in which files and modules are looked for first.
        offers: whether an object of the module may be what was meant, for the hint in an error
            about a wrong attribute. By default: whether it looks like a RAG.

    Raises:
        ConfigError: there is no such module, file or attribute, or importing it fails.
    """
    # From the right: a path of Windows has a colon of its own.
    module_name, colon, path = spec.rpartition(":")
    if not colon or not module_name or not path:
        raise ConfigError(f"'{spec}' is not of the form {_FORMS}")
    root = Path(search_path).resolve()
    # At the front, so that the user's modules go before installed ones of the same name. It stays,
    # since modules import others later.
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    value: Any
    if module_name.endswith(".py"):
        value = _module_of_file(root / module_name)
    else:
        value = _module_by_name(module_name, root)
    # Step by step: the message names the part that is missing, and its neighbours.
    for name in path.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            public_names = [attribute for attribute in dir(value) if not attribute.startswith("_")]
            suggestions = get_close_matches(name, public_names, n=3)
            if not suggestions:
                suggestions = _objects_offered(value, public_names, offers or _looks_like_rag)
            hint = f". Did you mean {' or '.join(suggestions)}?" if suggestions else ""
            raise ConfigError(f"'{spec}': there is no '{name}'{hint}") from None
    return value


def _module_by_name(name: str, root: Path) -> types.ModuleType:
    """The module of a dotted name that a user gave, imported.

    A missing module and one that fails while it is imported are two different mistakes of a user.

    Args:
        root: the folder where the error says that it was looked for.

    Raises:
        ConfigError: there is no such module, or importing it fails.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        # Otherwise the module is there, and lacks another one.
        if name == missing or name.startswith(f"{missing}."):
            raise ConfigError(
                f"there is no module '{missing}': looked in {root.name or root}/ and in the "
                f"installed packages{_similar_module_hint(missing, root)}"
            ) from None
        raise _import_failure(name, error) from error
    except BaseException as error:
        # The user's Ctrl-C is no mistake of the module.
        if is_users_interruption(error):
            raise
        raise _import_failure(name, error) from error


class _LoaderWithoutCache(SourceFileLoader):
    """Compiles a file as it is now.

    The compiled code that Python has stored may be older than the file: it compares whole seconds.
    """

    def get_code(self, fullname: str) -> types.CodeType:
        """The code of the file as it is now, compiled; Python's import calls this.

        An edit within the same second would be overlooked by Python's own cache.
        """
        return self.source_to_code(self.get_data(self.path), self.path)


_VERSIONS: dict[Path, tuple[int, int]] = {}
"""Of each loaded file the time of its last change, and its size, when it was loaded."""


def _module_of_file(file: Path) -> types.ModuleType:
    """The module of a user's file; one that has changed since it was loaded is loaded anew.

    In a notebook a user edits a file between two runs.

    Raises:
        ConfigError: there is no such file, or importing it fails.
    """
    if not file.is_file():
        raise ConfigError(f"there is no file '{file.name}' in {file.parent.name or file.parent}/")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    file_state = file.stat()
    version = (file_state.st_mtime_ns, file_state.st_size)
    # The module is named after the file, with a _ for each other module of that name.
    name = file.stem
    while True:
        loaded = sys.modules.get(name)
        if loaded is None:
            break
        if getattr(loaded, "__file__", None) == str(file):
            if _VERSIONS.get(file, version) == version:
                return loaded
            break  # the file was edited since, as in a notebook
        name = f"{name}_"
    loader = _LoaderWithoutCache(name, str(file))
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    if spec is None or spec.loader is None:
        raise ConfigError(f"'{file.name}' cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look it up there
    _VERSIONS[file] = version
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, ConfigError) or is_users_interruption(error):
            raise
        raise _import_failure(file.name, error) from error
    return module


def _import_failure(name: str, error: BaseException) -> ConfigError:
    """The error for a user's module that exists, and raises while it is imported.

    The user's code is to be mended, and the message says what it raised.

    Args:
        name: of the module or file, as the user knows it.
    """
    return ConfigError(f"importing '{name}' failed: {error_text(error)}")


def _similar_module_hint(name: str, root: Path) -> str:
    """A hint for the end of a message: the module in a folder whose name is nearest to a wrong one.

    Empty where none is near.
    """
    # Files and packages, as both can be imported.
    modules = [path.stem for path in root.glob("*.py")]
    modules += [path.parent.name for path in root.glob("*/__init__.py")]
    hint = did_you_mean(name, sorted(modules))
    if not hint:
        return ""
    return f".{hint}"


def _objects_offered(module: Any, names: list[str], offers: Callable[[object], bool]) -> list[str]:
    """Up to three names of a module's own objects that a user may have meant.

    Names that the module only imported are left out.

    Args:
        names: the public names of the module.
        offers: whether an object may be what was meant.
    """
    module_name = getattr(module, "__name__", None)
    candidates: list[str] = []
    for name in names:
        value = getattr(module, name)
        # By the module that an object names: imported ones name another.
        is_imported = getattr(value, "__module__", None) != module_name
        if not is_imported and offers(value):
            candidates.append(name)
    return candidates[:3]


def _looks_like_rag(value: object) -> bool:
    """Whether an object is a class with a method that retrieves or generates, by the method's name.

    A hint about a wrong name only offers such classes.
    """
    if not inspect.isclass(value):
        return False
    return any("retrieve" in name or "generate" in name for name in dir(value))


def is_users_interruption(error: BaseException) -> bool:
    """Whether the user has pressed Ctrl-C; the user's code may raise KeyboardInterrupt as well.

    A handler of signals runs in the main thread alone. A handler that is written in Python is the
    frame that raised the error. Python's own, in C, leaves no frame: then every KeyboardInterrupt
    of the main thread counts as the user's. Ctrl-C ends a run; one that a RAG raises is a failure
    like any other.
    """
    if not isinstance(error, KeyboardInterrupt):
        return False
    import signal  # late: few runs are interrupted
    import threading

    if threading.current_thread() is not threading.main_thread():
        return False
    handler_code = getattr(signal.getsignal(signal.SIGINT), "__code__", None)
    if handler_code is None:
        return True
    raised_in = None
    # The last frame is the one that raised.
    for frame, _ in traceback.walk_tb(error.__traceback__):
        raised_in = frame.f_code
    return raised_in is handler_code


def error_text(error: BaseException) -> str:
    """An error as its type and its message, without credentials, for messages and reports."""
    return mask_text(f"{type(error).__name__}: {error}")
