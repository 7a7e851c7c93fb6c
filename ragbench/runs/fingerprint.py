"""Fingerprints: short names for content, equal exactly when the content is."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, cast

import orjson

__all__ = ["SIZE", "digest", "fingerprint", "jsonable", "text_digest"]

SIZE = 16
"""Bytes of a digest: 2**64 contents before two are likely to collide."""

_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_NON_STR_KEYS
    | orjson.OPT_SERIALIZE_NUMPY
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)


def digest(parts: Iterable[bytes]) -> bytes:
    """Digest of several byte strings; where one ends and the next begins matters."""
    framed = b"".join([b"%d:%b" % (len(part), part) for part in parts])
    return blake2b(framed, digest_size=SIZE).digest()


def text_digest(text: str) -> bytes:
    """Digest of a text.

    Raises:
        UnicodeEncodeError: it holds a lone surrogate.
    """
    return blake2b(text.encode(), digest_size=SIZE).digest()


def fingerprint(value: object) -> str:
    """Hexadecimal fingerprint of anything that JSON can hold, whatever its key order."""
    return blake2b(jsonable(value), digest_size=SIZE).hexdigest()


def jsonable(value: object) -> bytes:
    """A value as JSON with sorted keys; what JSON does not know is written in a stable form.

    Sets become sorted lists, tuples lists, NumPy values numbers and lists, NaN and infinity null.
    Objects of other types become ``"<module.Class>"``: their text may hold an address, which
    would differ from run to run.

    Raises:
        TypeError: a string holds a lone surrogate, or an integer exceeds 64 bits.
    """
    return orjson.dumps(value, default=_default, option=_OPTIONS)


def _default(value: Any) -> object:
    """What orjson does not know; subclasses of built-in types come here as well."""
    if isinstance(value, (set, frozenset)):
        return sorted(cast("frozenset[object]", value), key=repr)
    if isinstance(value, dict):
        return dict(cast("dict[object, object]", value))
    if isinstance(value, (list, tuple)):
        return list(cast("list[object]", value))
    if isinstance(value, Enum):
        return cast("object", value.value)
    if isinstance(value, str):
        return "".join(value)
    if isinstance(value, (int, float)):
        return float(value) if isinstance(value, float) else int(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "model_dump"):  # pydantic
        return cast("object", value.model_dump())
    return f"<{type(value).__module__}.{type(value).__qualname__}>"
