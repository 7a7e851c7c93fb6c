"""From a name on the command line to a RAG."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from ragbench.errors import ConfigError, InterfaceError, RagbenchError
from ragbench.interface.adapt import AnyRAG, as_rag
from ragbench.interface.adapters.http_rag import http_rag
from ragbench.interface.adapters.parts import Adapted
from ragbench.interface.base import RAGBase
from ragbench.interface.config import RAGConfig
from ragbench.interface.masking import mask_text

__all__ = ["load_rag", "load_target"]

_FORMS = "package.module:attribute, path/to/file.py:attribute or http(s)://host/..."


def load_rag(
    spec: str, arguments: Mapping[str, Any] | None = None, *, search_path: str | Path = "."
) -> AnyRAG:
    """Loads a RAG by name.

    ``search_path`` becomes importable, as the current directory does under ``python -m``, and
    stays so: a RAG may import its own modules only when it is first asked. For a file, the
    directory that it lies in becomes importable too.

    Args:
        spec: ``package.module:attribute``, ``path/to/file.py:attribute`` or a URL. The attribute
            (dots are followed) is a class, a factory, an instance, or anything else that `as_rag`
            takes. A function is a factory when nothing is left to fill once the arguments are
            given; when one parameter is left it takes the query and is the system itself.
        arguments: given by name to the class, factory or function. Those that its signature does
            not take go into the configuration, if it takes ``config``: into the class that the
            parameter is annotated with, or into `RAGConfig`.
        search_path: the directory that modules are looked for in first; files and modules alike.

    Raises:
        ConfigError: the name is malformed; the module is missing, or importing it failed (the
            cause is kept); the attribute is missing, is no RAG, takes other arguments, or raised.
        InterfaceError: as a `ConfigError` that names the spec.
    """
    given = dict(arguments or {})
    if spec.lower().startswith(("http://", "https://")):
        return http_rag(spec, **given)
    target = load_target(spec, search_path=search_path)
    return _as_rag(target, given, spec)


def load_target(spec: str, *, search_path: str | Path = ".") -> Any:
    """Imports what a name points at, as it is; see `load_rag` for where it is looked for.

    Args:
        spec: ``package.module:attribute`` or ``path/to/file.py:attribute``.
        search_path: the directory that modules are looked for in first; files and modules alike.

    Raises:
        ConfigError: the name is malformed, or the module or the attribute is missing.
    """
    module_name, colon, path = spec.rpartition(":")
    if not colon or not module_name or not path:
        raise ConfigError(f"'{spec}' is not of the form {_FORMS}")
    root = Path(search_path).resolve()
    _make_importable(root)
    is_file = module_name.endswith(".py")
    module = _from_file(root / module_name) if is_file else _from_name(module_name, root)
    return _attribute(module, path, spec)


def _make_importable(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


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


def _from_file(file: Path) -> types.ModuleType:
    if not file.is_file():
        raise ConfigError(f"there is no file '{file.name}' in {file.parent.name or file.parent}/")
    _make_importable(file.parent)
    name = file.stem
    while (loaded := sys.modules.get(name)) is not None:
        if getattr(loaded, "__file__", None) == str(file):
            return loaded
        name = f"{name}_"  # some other module has that name
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"'{file.name}' cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look it up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _import_failed(file.name, error) from error
    return module


def _import_failed(name: str, error: BaseException) -> ConfigError:
    return ConfigError(f"importing '{name}' failed: {_told(error)}")


def _similar_module(name: str, root: Path) -> str:
    here = [path.stem for path in root.glob("*.py")]
    here += [path.parent.name for path in root.glob("*/__init__.py")]
    close = get_close_matches(name, sorted(here), n=1)
    return f". Did you mean '{close[0]}'?" if close else ""


def _attribute(module: types.ModuleType, path: str, spec: str) -> Any:
    value: Any = module
    for name in path.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            public = [known for known in dir(value) if not known.startswith("_")]
            close = get_close_matches(name, public, n=3) or _candidates(value, public)
            hint = f". Did you mean {' or '.join(close)}?" if close else ""
            raise ConfigError(f"'{spec}': there is no '{name}'{hint}") from None
    return value


def _candidates(module: Any, names: list[str]) -> list[str]:
    """The RAG classes that a module defines itself."""
    here = getattr(module, "__name__", None)
    found = [(name, getattr(module, name)) for name in names]
    return [
        name
        for name, value in found
        if inspect.isclass(value) and issubclass(value, RAGBase) and value.__module__ == here
    ][:3]


def _as_rag(target: Any, given: dict[str, Any], spec: str) -> AnyRAG:
    if inspect.isclass(target):
        target = _call(cast("type", target), given, spec)
    elif inspect.isroutine(target):
        target = _factory_or_system(cast("Callable[..., Any]", target), given, spec)
    elif given:
        raise ConfigError(
            f"'{spec}' is an instance and takes no arguments ({', '.join(sorted(given))}): name "
            "its class, or a function that builds it"
        )
    try:
        rag = as_rag(target)
    except InterfaceError as error:
        raise ConfigError(f"'{spec}' is no RAG: {error}") from error
    if isinstance(target, functools.partial) and isinstance(rag, Adapted):
        rag.adapts = (target.func,)
    return rag


def _factory_or_system(function: Callable[..., Any], given: dict[str, Any], spec: str) -> Any:
    if isinstance(getattr(function, "__self__", None), RAGBase):
        raise ConfigError(f"'{spec}' is a method: name the object that it belongs to")
    required = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and name not in given
    ]
    if len(required) == 1 and required[0] != "config" and not _returns_rag(function):
        _arguments(function, given, spec)  # refuses unknown ones
        return functools.partial(function, **given) if given else function
    if inspect.iscoroutinefunction(function):
        raise ConfigError(f"'{spec}' is a coroutine: a factory must be a plain function")
    return _call(function, given, spec)


def _returns_rag(function: Callable[..., Any]) -> bool:
    returned = _hints(function).get("return")
    return inspect.isclass(returned) and issubclass(returned, RAGBase)


def _call(target: Callable[..., Any], given: dict[str, Any], spec: str) -> Any:
    arguments = _arguments(target, given, spec)
    try:
        inspect.signature(target).bind(**arguments)
    except TypeError as error:
        raise ConfigError(f"'{spec}': {error}. It takes {_accepted(target)}") from None
    try:
        return target(**arguments)
    except RagbenchError as error:
        raise ConfigError(f"'{spec}': {error}") from error
    except Exception as error:
        raise ConfigError(f"'{spec}' raised {_told(error)}") from error


def _arguments(target: Callable[..., Any], given: dict[str, Any], spec: str) -> dict[str, Any]:
    """What the target takes by name, with what it does not take in its configuration."""
    parameters = inspect.signature(target).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return given
    taken = {name: value for name, value in given.items() if name in parameters}
    rest = {name: value for name, value in given.items() if name not in parameters}
    config = parameters.get("config")
    if config is None:
        if rest:
            raise ConfigError(
                f"'{spec}' takes no {', '.join(sorted(rest))}. It takes {_accepted(target)}"
            )
        return taken
    own = taken.get("config")
    if (
        rest
        or isinstance(own, Mapping)
        or ("config" not in taken and config.default is config.empty)
    ):
        values = {**cast("Mapping[str, Any]", own or {}), **rest}
        taken["config"] = _config(target, values, spec)
    return taken


def _config(target: Callable[..., Any], values: dict[str, Any], spec: str) -> Any:
    cls = _annotated(target)
    try:
        if cls is RAGConfig or issubclass(cls, RAGConfig):
            return cls.from_mapping(values)
        return cast("Any", cls)(**values)
    except RagbenchError as error:
        raise ConfigError(f"'{spec}': {error}") from error
    except Exception as error:
        raise ConfigError(
            f"'{spec}': building {cls.__name__} of {', '.join(sorted(values)) or 'nothing'} raised "
            f"{_told(error)}"
        ) from error


def _annotated(target: Callable[..., Any]) -> type[Any]:
    """The class that a parameter ``config`` is annotated with, `RAGConfig` when that is unclear."""
    hint = _hints(target.__init__ if inspect.isclass(target) else target).get("config")
    union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    options = typing.get_args(hint) if union else (hint,)
    classes = [one for one in options if inspect.isclass(one) and one is not types.NoneType]
    return classes[0] if len(classes) == 1 else RAGConfig


def _hints(function: object) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):  # names that exist for type checkers only
        return {}


def _accepted(target: Callable[..., Any]) -> str:
    names = [
        name
        for name, parameter in inspect.signature(target).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    return ", ".join(names) or "no arguments"


def _told(error: BaseException) -> str:
    return mask_text(f"{type(error).__name__}: {error}")
