"""What filters ask, in a form that any store can execute: for engines that cannot compare values.

Chroma's metadata are scalars of four kinds, Milvus compares ``true`` with 1 and looks into lists in
ways of its own. So beside the plain fields they keep of each chunk:

- labels, one a value: a digest of the field's name and the value, equal exactly when
  `ragbench.core.filters` calls the values equal. Equality is then membership, everywhere; that a
  field is there is a label, too, and a field within an object has its dotted name. Which numbers
  there are is said by labels, too, for engines where denying a comparison with what is missing is
  not true;
- numbers, one a field: its number, or its date in milliseconds, under a name made of the field's.

A prefix is executed as equality with one of the texts that begin so and are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b

from ragbench.core.chunk import Chunk
from ragbench.core.filters import (
    And,
    Equals,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Prefix,
    equality_key,
    equality_keys,
    field_values,
    instant,
    number,
)
from ragbench.errors import StoreError
from ragbench.stores.record import searched_fields

_EXISTS = "e:"
"""In the place of an equality key: the field is there."""
_MOST_TEXTS = 500
"""Texts that one prefix may stand for: more make a condition that engines refuse, or never end."""


def labels_and_numbers(chunk: Chunk) -> tuple[list[str], dict[str, float]]:
    """A chunk's labels, sorted, the keys of its numbers among them; and the numbers."""
    labels: set[str] = set()
    numbers: dict[str, float] = {}
    for name, value in field_values(searched_fields(chunk)).items():
        if value is not None:
            labels.add(label(name, _EXISTS))
            labels.update([label(name, key) for key in equality_keys(value)])
            _add_numbers(numbers, name, value)
    return sorted(labels | numbers.keys()), numbers


def wanted_labels(filters: Equals | In | Exists) -> list[str]:
    """The labels of which a chunk that passes has one."""
    if isinstance(filters, Exists):
        return [label(filters.field, _EXISTS)]
    values = filters.values if isinstance(filters, In) else (filters.value,)
    keys = [key for value in values if (key := equality_key(value)) is not None]
    return [label(filters.field, key) for key in keys]


def without_prefixes(
    filters: Filter, texts: Callable[[str], Iterable[str]], address: str
) -> Filter:
    """The same filter, each prefix said by the texts that are there and begin so."""
    if isinstance(filters, And | Or):
        parts = [without_prefixes(part, texts, address) for part in filters.filters]
        return type(filters)(filters=tuple(parts))
    if isinstance(filters, Not):
        return Not(filter=without_prefixes(filters.filter, texts, address))
    if not isinstance(filters, Prefix):
        return filters
    found = sorted({text for text in texts(filters.field) if text.startswith(filters.prefix)})
    if len(found) > _MOST_TEXTS:
        raise StoreError(
            f"{address}: filter on '{filters.field}': {len(found):,} different texts begin with "
            f"'{filters.prefix}', and this store can ask for {_MOST_TEXTS} of them: give a longer "
            "prefix, or take Qdrant or PostgreSQL, which compare prefixes themselves"
        )
    return In(field=filters.field, values=tuple(found))


@lru_cache(maxsize=65536)
def label(field: str, key: str) -> str:
    """The label of a value, given its `ragbench.core.filters.equality_key`."""
    said = f"{len(field)}:{field}{key}".encode("utf-8", "surrogatepass")
    return blake2b(said, digest_size=12).hexdigest()


@lru_cache(maxsize=4096)
def number_name(field: str, *, dates: bool) -> str:
    """The name under which a field's number, or its date, is kept: letters and digits only."""
    said = field.encode("utf-8", "surrogatepass")
    return ("d" if dates else "n") + blake2b(said, digest_size=8).hexdigest()


def _add_numbers(numbers: dict[str, float], name: str, value: object) -> None:
    found = number(value)
    if found is not None:
        numbers[number_name(name, dates=False)] = found
        return
    moment = instant(value)
    if moment is not None:
        numbers[number_name(name, dates=True)] = float(moment)
