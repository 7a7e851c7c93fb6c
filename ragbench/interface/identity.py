"""What a RAG is, for fingerprints: the same description means the same answers may be reused."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, cast
from uuid import UUID

from ragbench.interface.adapters.parts import Adapted
from ragbench.interface.base import RAGBase
from ragbench.interface.config import RAGConfig
from ragbench.interface.masking import MASK, is_secret, mask_url, mask_urls

__all__ = ["describe_class", "describe_rag"]

# Objects that hold each other are not followed for ever.
_DEEPEST = 8
_AUTHORIZATION = re.compile(r"(Bearer|Basic)\s+\S+")
_ABSOLUTE = re.compile(r"(/|~/|[A-Za-z]:[\\/])[^\n]+")


def describe_rag(
    rag: RAGBase[Any], spec: str, arguments: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Describes a RAG so that another system, or another version of it, is described otherwise.

    The description holds the name that it was loaded by; its class, with a digest of the source
    file of that class and of each class that it inherits from outside ragbench and the standard
    library; the same for what an adapter adapts; the arguments, the configuration, and what
    `RAGBase.stage_identity` says. It holds nothing of the machine and no credentials: values under
    names such as ``api_key`` are masked, paths below the current directory are relative to it, and
    others are their last part with a digest of the whole.

    Args:
        rag: the system.
        spec: the name or URL that it was loaded by.
        arguments: what it was built with.

    Returns:
        A mapping of what JSON can hold, the same for the same system in every process.
    """
    described: dict[str, Any] = {"spec": _spec(spec), **_class(type(cast("object", rag)))}
    if isinstance(rag, Adapted):
        described = {"spec": _spec(spec), "class": "ragbench.interface.adapt"}
        described["adapts"] = [_source(source) for source in rag.adapts]
        if rag.top_k is not None:
            described["top_k"] = rag.top_k
    else:
        described["config"] = _plain(rag.config)
    if arguments:
        described["arguments"] = _plain(dict(arguments))
    stages = {stage: _plain(rag.stage_identity(stage)) for stage in ("retrieve", "generate")}
    described["stages"] = {stage: said for stage, said in stages.items() if said is not None}
    return described


def describe_class(cls: type) -> dict[str, Any]:
    """A class by its name, with a digest of the source of each file that it was written in.

    Args:
        cls: the class; what it inherits from ragbench and the standard library is left out.
    """
    return _class(cls)


def _spec(spec: str) -> str:
    if "://" in spec:
        return mask_url(spec)
    module, _, attribute = spec.rpartition(":")
    # The file's content is in the digest; where it lies is the machine's business.
    return f"{PurePath(module).name}:{attribute}" if module.endswith(".py") else spec


def _class(cls: type) -> dict[str, Any]:
    owners = [owner for owner in cls.__mro__ if _is_foreign(owner)]
    sources = {_path(owner): _digest(owner) for owner in owners}
    return {"class": _path(cls), "sources": sources}


def _is_foreign(cls: type) -> bool:
    package = cls.__module__.partition(".")[0]
    return package not in ("ragbench", "builtins") and package not in sys.stdlib_module_names


def _path(thing: object) -> str:
    name = getattr(thing, "__qualname__", type(thing).__qualname__)
    module = getattr(thing, "__module__", None)
    # A script is __main__ when it runs and has its own name when it is imported.
    return name if module in (None, "__main__") else f"{module}:{name}"


def _digest(thing: Any) -> str | None:
    """Digest of the source file that defines a class or function; None where there is none."""
    try:
        file = inspect.getsourcefile(thing)
    except TypeError:
        file = None
    try:
        text = None if file is None else Path(file).read_bytes()
    except OSError:
        text = None
    # Line ends differ between checkouts of the same commit.
    return None if text is None else _sha(text.replace(b"\r\n", b"\n"))


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _source(source: object) -> Any:
    inner = getattr(source, "func", source)  # functools.partial
    if inspect.isroutine(inner):
        return {"function": _path(inner), "source": _digest(inner)}
    described = _class(type(source))
    if isinstance(source, RAGBase):
        return {**described, "config": _plain(cast("RAGBase[Any]", source).config)}
    settings = _settings(source, _DEEPEST)
    return described if settings is None else {**described, "settings": settings}


def _settings(value: object, depth: int) -> dict[str, Any] | None:
    """The fields of a dataclass or model, which say what it was built with."""
    if is_dataclass(value):
        names = [item.name for item in fields(value)]
        if isinstance(value, RAGConfig):  # subclasses that are no dataclasses themselves
            names += sorted(vars(value).keys() - set(names))
    else:
        known = getattr(type(value), "model_fields", None)  # pydantic
        if not isinstance(known, Mapping):
            return None
        names = sorted(cast("Mapping[str, Any]", known))
    return {name: _named(name, getattr(value, name, None), depth) for name in names}


def _named(name: str, value: object, depth: int) -> Any:
    return MASK if is_secret(name) and value is not None else _plain(value, depth)


def _plain(value: object, depth: int = _DEEPEST) -> Any:
    """The value as JSON can hold it, without credentials, addresses and absolute paths."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON knows no NaN and no infinity
    if isinstance(value, Enum):
        return _plain(value.value, depth)
    if isinstance(value, (str, PurePath)):
        return _text(str(value))
    if isinstance(value, bytes):
        return f"bytes#{_sha(value)}"
    if isinstance(value, (date, time, UUID)):
        return str(value)
    return _container(value, depth)


def _container(value: object, depth: int) -> Any:
    if depth > 0:
        if isinstance(value, Mapping):
            entries = cast("Mapping[Any, Any]", value).items()
            return {str(key): _named(str(key), entry, depth - 1) for key, entry in entries}
        if isinstance(value, (list, tuple)):
            return [_plain(entry, depth - 1) for entry in cast("list[Any]", value)]
        if isinstance(value, (set, frozenset)):
            plain = [_plain(entry, depth - 1) for entry in cast("set[Any]", value)]
            return sorted(plain, key=lambda entry: json.dumps(entry, sort_keys=True))
    if inspect.isroutine(value) or inspect.isclass(value):
        return {"function": _path(value), "source": _digest(value)}
    settings = _settings(value, depth - 1) if depth > 0 else None
    if settings is not None:
        return {"class": _path(type(value)), **settings}
    # An instance of an unknown class: its representation may hold an address.
    return {"class": _path(type(value)), "source": _digest(type(value))}


def _text(value: str) -> str:
    if _AUTHORIZATION.fullmatch(value):
        return MASK
    if not _ABSOLUTE.fullmatch(value):
        return mask_urls(value)
    path = Path(value).expanduser()
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        # Two paths that end alike must stay two.
        return f"{PurePath(value).name}#{_sha(value.encode('utf-8', 'surrogatepass'))[:8]}"
