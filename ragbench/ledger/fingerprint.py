"""Fingerprints: short names for content, equal exactly when the content is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, cast

import orjson
from msgspec import Struct, structs

SIZE = 16
"""Bytes of a digest: 2**64 contents before two are likely to collide."""

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS

NOTHING = bytes(SIZE)
"""In the place of a digest where there is nothing to digest."""


def digest(parts: Iterable[bytes]) -> bytes:
    """A digest of several byte strings, in which it matters where one ends and the next begins.

    Without their sizes, ``ab, c`` and ``a, bc`` would be equal. Stored in journals: the form stays.
    """
    contents = tuple(parts)
    # Eight bytes each, all before the contents: the form is stored.
    sizes = [len(part).to_bytes(8, "big") for part in contents]
    return blake2b(b"".join([*sizes, *contents]), digest_size=SIZE).digest()


def fixed_digest(*parts: bytes) -> bytes:
    """A digest of byte strings of which all but the last have a fixed size.

    Faster than `digest`, which puts the size of each part into its digest. The digests are stored
    in journals, so the form stays.
    """
    return blake2b(b"".join(parts), digest_size=SIZE).digest()


@lru_cache(maxsize=8192)  # many texts are retrieved again and again
def text_digest(text: str) -> bytes:
    """The digest of a text, under which a journal stores the text once.

    A text is retrieved by many cases, and digested anew for each without the cache.
    """
    return blake2b(text.encode(), digest_size=SIZE).digest()


def fingerprint(value: object) -> str:
    """A hexadecimal fingerprint of any value, whatever the order of its keys.

    Manifests hold such fingerprints: two runs compare only where they are equal, so that the form
    stays.
    """
    return blake2b(always_jsonable(value), digest_size=SIZE).hexdigest()


def always_jsonable(value: object) -> bytes:
    """A value as JSON with sorted keys, where values that JSON cannot hold are replaced.

    See `jsonable` for the form and `readable` for the replacements.

    A user's settings may hold anything, and a fingerprint must not fail for it.
    """
    try:
        return jsonable(value)
    except TypeError:
        return jsonable(readable(value))


def readable(value: object, depth: int = 32) -> object:
    """A value with everything replaced that `jsonable` refuses, so that it can be stored."""
    # Broken characters become their escapes.
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int):
        # JSON holds 64 bits: beyond that a number is a text.
        return value if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, (Mapping, list, tuple, set, frozenset)):
        # A collection may hold itself; the bound also ends that.
        if depth == 0:
            return "<nested too deeply>"
        if isinstance(value, Mapping):
            plain: dict[str, object] = {}
            for key, entry in cast("Mapping[object, object]", value).items():
                name = readable(key)
                # A key that is no text, such as a tuple, is written as JSON.
                if not isinstance(name, str):
                    name = jsonable(name).decode()
                plain[name] = readable(entry, depth - 1)
            return plain
        return [readable(entry, depth - 1) for entry in _listed(cast("Iterable[object]", value))]
    if isinstance(value, Struct):
        # A record is no level of its own.
        return readable(structs.asdict(value), depth)
    try:
        return orjson.loads(jsonable(value))
    except TypeError:
        return _class_name(value)


def _listed(values: Iterable[object]) -> list[object]:
    """The elements of a collection as a list, those of a set sorted.

    The order of a set differs from process to process, and with it a digest would differ.
    """
    if isinstance(values, (set, frozenset)):
        return sorted(
            # By their bytes, since members may be of kinds that do not compare.
            cast("frozenset[object]", values),
            key=lambda entry: jsonable(readable(entry)),
        )
    return list(values)


def _default(value: Any) -> object:
    """A value that orjson does not know, converted to one that it knows.

    orjson calls this for subclasses of built-in types as well. Digests are made of the result:
    another conversion makes stored fingerprints unequal.
    """
    # The order of the table decides: a subclass of several of its types takes the first.
    for types, convert in _CONVERSIONS:
        if isinstance(value, types):
            return convert(value)
    # Looked for by method: neither library is imported.
    for method in ("tolist", "model_dump"):  # arrays and tensors; pydantic
        if not hasattr(value, method):
            continue
        plain: object = getattr(value, method)()
        # Of its own type it would come here again, for ever.
        if type(plain) is not type(value):
            return plain
    # For numbers of other libraries and Decimal, for example.
    if hasattr(value, "__float__"):
        return float(value)
    return _class_name(value)


def _class_name(value: object) -> str:
    """The name of a value's class, which takes the place of a value that has no JSON form.

    A value's own text may hold an address in memory, which would differ in every run.
    """
    cls = type(value)
    module = cls.__module__
    if module.partition(".")[0] == "ragbench":  # whose files move between versions
        module = "ragbench"
    return f"<{module}.{cls.__qualname__}>"


_CONVERSIONS: tuple[tuple[type | tuple[type, ...], Callable[[Any], object]], ...] = (
    (Enum, lambda value: value.value),
    (Struct, structs.asdict),
    (str, "".join),
    (Mapping, dict),
    ((set, frozenset), _listed),
    (bytes, bytes.hex),
    (Sequence, list),
    (bool, bool),
    (int, int),
    (float, float),
    ((PurePath, timedelta), str),
)


def jsonable(value: object) -> bytes:
    """A value as JSON with sorted keys; values that JSON does not know get a stable form.

    Fingerprints and stored records are made of it: the same value must give the same bytes in every
    process and version. Sets become sorted lists, tuples lists, NumPy values numbers and lists,
    other numbers floats, NaN and infinity null. Objects of other types become ``"<module.Class>"``:
    their text may hold an address, which would differ from run to run.

    Raises:
        TypeError: a text holds a lone surrogate, an integer more than 64 bits, or a key is neither
            a text nor a number, a flag, None, a date or an enumeration.
    """
    options = _OPTIONS
    # Asked for, orjson loads NumPy for whatever it does not know. Where NumPy is not loaded yet, no
    # value is NumPy's.
    if "numpy" in sys.modules:
        options |= orjson.OPT_SERIALIZE_NUMPY
    return orjson.dumps(value, default=_default, option=options)
