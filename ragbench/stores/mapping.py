"""Which field means what: named, or guessed and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import NamedTuple, cast

from ragbench.errors import ConfigError
from ragbench.io.dumps.form import TEXT_NAMES, getter, text_paths
from ragbench.io.settings import from_settings
from ragbench.io.values import is_object
from ragbench.safe_text import listed, shortened_line
from ragbench.stores.base import MetricName, Row


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldMapping:
    """What is where in a row of a collection. Dots lead into objects, as in ``metadata.source``.

    Raises:
        ConfigError: something is named by an empty text.
    """

    text: str | None = None
    """Field with the text; guessed by its name when it is not given."""
    id: str | None = None
    """Field with the id; the store's own id of a row when it is not given."""
    document_id: str | None = None
    """Field with the id of the document that the text was cut from; guessed by its name when it is
    not given, and none where nothing has such a name."""
    title: str | None = None
    """Field with the title, which is kept in the metadata as ``title``."""
    metadata: str | None = None
    """Fields with the metadata, with commas between them: of an object its fields. All other
    fields when it is not given."""
    vector: str | None = None
    """The vector that is searched, where there are several."""
    metric: MetricName | None = None
    """How vectors are compared, where the store does not say: cosine, dot, euclid, manhattan."""
    words: str | None = None
    """What is searched by words: in PostgreSQL a column (tsvector or text), in Qdrant a named
    sparse vector, in Milvus the output of a BM25 function. The only one when it is not given."""
    language: str | None = None
    """Language of the words, where the store does not say: in PostgreSQL a text search
    configuration, in Qdrant a Snowball stemmer; such as ``english``."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not value.strip(" ,."):
                raise ConfigError(f"map: {name} names no field")

    def described(self) -> str:
        """The mapping in one line, such as ``text=page_content  vector=dense``."""
        known: dict[str, str | None] = asdict(self)
        return "  ".join(f"{name}={value}" for name, value in known.items() if value)

    def places(self) -> dict[str, tuple[str, ...]]:
        """The paths of what is read out of a row, by name; only those that are known."""
        named = {
            "text": self.text,
            "id": self.id,
            "document_id": self.document_id,
            "title": self.title,
        }
        found: dict[str, tuple[str, ...]] = {
            name: (path,) for name, path in named.items() if path is not None
        }
        if self.metadata is not None:
            listed = (path.strip() for path in self.metadata.split(","))
            found["metadata"] = tuple(path for path in listed if path)
        return found


def field_mapping(given: Mapping[str, str], *, where: str = "--map") -> FieldMapping:
    return cast("FieldMapping", from_settings(FieldMapping, given, where=where))


METADATA_NAMES = ("metadata", "meta", "metadata_", "cmetadata", "langchain_metadata", "payload")
"""What programs call the object with a row's metadata."""
_TEXTS = (*TEXT_NAMES, "_node_content.text")
_DOCUMENT_IDS = ("document_id", "ref_doc_id", "doc_id", "source_id")
_NONE = "no fields at all"


class CheckedMapping(NamedTuple):
    """A mapping that names the text, and what whoever uses it should know."""

    mapping: FieldMapping
    guessed: tuple[str, ...]
    """Of which names the fields were guessed."""
    absent: tuple[str, ...]
    """What is named, such as ``title=heading``, and stands in no row that was looked at."""


def complete_mapping(name: str, given: FieldMapping, rows: Sequence[Row]) -> CheckedMapping:
    absent: list[str] = []
    for what, paths in given.places().items():
        for path in paths:
            if all(getter(path)(row.fields) is None for row in rows):
                absent.append(f"{what}={path}")
                if what in ("text", "id"):
                    raise _no_such_field(name, what, path, rows)
    taken = {given.text, given.id, given.title}
    found = replace(
        given,
        text=given.text or _text(name, rows),
        document_id=given.document_id or _document_id(rows, taken),
    )
    changed = (at for at in ("text", "document_id") if getattr(found, at) != getattr(given, at))
    return CheckedMapping(found, tuple(changed), tuple(absent))


def _no_such_field(name: str, what: str, path: str, rows: Sequence[Row]) -> ConfigError:
    known = _known(rows)
    close = get_close_matches(path, known, n=1)
    meant = f" Did you mean '{shortened_line(close[0])}'?" if close else ""
    return ConfigError(
        f"--map {what}={path}: no row that was looked at in '{name}' has such a field.{meant} "
        f"There are: {listed(known) or _NONE}"
    )


def _text(name: str, rows: Sequence[Row]) -> str:
    """The usual name under which most rows have a text, rather in the row than in an object."""
    paths = [f"{prefix}{at}" for prefix in _prefixes(rows) for at in _TEXTS]
    best = max(paths, key=lambda path: _with_text(path, rows))
    if _with_text(best, rows):
        return best
    raise ConfigError(
        f"no field of the collection '{name}' is known to hold the text: name it with "
        f"--map text=FIELD. There are: {listed(_known(rows)) or _NONE}"
    )


def _prefixes(rows: Sequence[Row]) -> list[str]:
    """Where fields may be: in the row itself, and in the objects with metadata that it has."""
    objects = [at for at in METADATA_NAMES if any(is_object(row.fields.get(at)) for row in rows)]
    return ["", *(f"{at}." for at in objects)]


def _with_text(path: str, rows: Sequence[Row]) -> int:
    find = getter(path)
    values = [find(row.fields) for row in rows]
    return sum(isinstance(value, str) and bool(value.strip()) for value in values)


def _document_id(rows: Sequence[Row], taken: set[str | None]) -> str | None:
    for prefix in _prefixes(rows):
        for path in (f"{prefix}{at}" for at in _DOCUMENT_IDS):
            find = getter(path)
            if path not in taken and any(_names(find(row.fields)) for row in rows):
                return path
    return None


def _names(value: object) -> bool:
    # LlamaIndex writes the word for what is not there.
    return (isinstance(value, str) and value not in ("", "None")) or type(value) is int


def _known(rows: Sequence[Row]) -> list[str]:
    """All fields, and the texts within them."""
    found: dict[str, None] = {}
    for row in rows:
        found.update(dict.fromkeys(row.fields))
        found.update(dict.fromkeys(path for path, _ in text_paths(row.fields)))
    return list(found)
