"""Rows of other programs as chunks: which field means what, named or guessed and checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from itertools import count
from typing import Any, cast

import orjson

from ragbench.core.chunk import Chunk
from ragbench.errors import ConfigError
from ragbench.io.dumps.form import getter, text_paths, without_path
from ragbench.io.fields import named
from ragbench.io.settings import from_settings
from ragbench.io.values import ValueProblem, as_id, check_depth, is_missing, is_object
from ragbench.safe_text import counted, did_you_mean, listed, shortened_line
from ragbench.search.stores.base import MetricName, Row


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

    @classmethod
    def of(cls, given: Mapping[str, str], *, where: str = "--field") -> FieldMapping:
        return cast("FieldMapping", from_settings(cls, given, where=where))

    def described(self) -> str:
        """The mapping in one line, such as ``text=page_content  vector=dense``."""
        known: dict[str, str | None] = asdict(self)
        return "  ".join(f"{name}={value}" for name, value in known.items() if value)

    def places(self) -> dict[str, tuple[str, ...]]:
        """The paths of what is read out of a row, by name; only those that are known."""
        named = ((at, getattr(self, at)) for at in ("text", "id", "document_id", "title"))
        found: dict[str, tuple[str, ...]] = {at: (path,) for at, path in named if path is not None}
        if self.metadata is not None:
            listed = (path.strip() for path in self.metadata.split(","))
            found["metadata"] = tuple(path for path in listed if path)
        return found

    def chosen_vector(self, name: str, known: Sequence[str]) -> str:
        wanted = self.vector
        if wanted in known or (wanted is None and len(known) == 1):
            return known[0] if wanted is None else wanted
        if not known:
            problem = "keeps no dense vectors: nothing to search by"
        elif wanted is None:
            problem = (
                f"has several vectors ({listed(known)}): choose the one to be searched with "
                f"--field vector={known[0]}"
            )
        else:
            has = f"it has {listed(known)}" if any(known) else "its own has no name: leave it out"
            problem = f"has no vector '{wanted}'; {has}"
        raise ConfigError(f"the collection '{name}' {problem}")

    def chosen_words(self, name: str, known: Sequence[str], usual: str | None = None) -> str | None:
        """What is searched by words; None where there is nothing, or several and none is named."""
        wanted = self.words or usual
        if wanted is not None and wanted not in known:
            has = f"there are: {listed(known)}" if known else "it keeps nothing for such a search"
            raise ConfigError(f"the collection '{name}' has no words '{wanted}'; {has}")
        return known[0] if wanted is None and len(known) == 1 else wanted

    def checked_metric(self, name: str, found: MetricName) -> MetricName:
        wanted = self.metric
        if wanted is not None and wanted != found:
            raise ConfigError(
                f"the collection '{name}' compares vectors by {found}, not by {wanted}: leave the "
                "metric out"
            )
        return found


METADATA_NAMES = ("metadata", "meta", "metadata_", "cmetadata", "langchain_metadata", "payload")
"""What programs call the object with a row's metadata."""
_DOCUMENT_IDS = ("document_id", "ref_doc_id", "doc_id", "source_id")


def complete_mapping(
    name: str, given: FieldMapping, rows: Sequence[Row]
) -> tuple[FieldMapping, tuple[str, ...], list[str]]:
    """A mapping that names the text, and what whoever uses it should know.

    That is which names were guessed, and what is named, such as ``title=heading``, and stands in
    no row that was looked at.
    """
    known = dict.fromkeys(at for row in rows for at in row.fields)
    known |= dict.fromkeys(path for row in rows for path, _ in text_paths(row.fields))
    there = f"There are: {listed([*known]) or 'no fields at all'}"

    def values(path: str) -> list[object]:
        find = getter(path)
        return [find(row.fields) for row in rows]

    def texts(path: str) -> int:
        return sum(isinstance(value, str) and bool(value.strip()) for value in values(path))

    absent: list[str] = []
    for what, paths in given.places().items():
        for path in (path for path in paths if all(value is None for value in values(path))):
            absent.append(f"{what}={path}")
            if what in ("text", "id"):
                raise ConfigError(
                    f"--field {what}={path}: no row that was looked at in '{name}' has such a "
                    f"field.{did_you_mean(path, known)} {there}"
                )
    # Rather in the row itself than in the objects with metadata that it has.
    objects = [at for at in METADATA_NAMES if any(map(is_object, values(at)))]
    prefixes = ["", *(f"{at}." for at in objects)]
    usual = (*named("hit")["text"], "_node_content.text")
    text = given.text or max((f"{prefix}{at}" for prefix in prefixes for at in usual), key=texts)
    if given.text is None and not texts(text):
        raise ConfigError(
            f"no field of the collection '{name}' is known to hold the text: name it with "
            f"--field text=FIELD. {there}"
        )
    ids = (f"{prefix}{at}" for prefix in prefixes for at in _DOCUMENT_IDS)
    free = (path for path in ids if path not in (given.text, given.id, given.title))
    document = given.document_id or next((p for p in free if any(map(_names, values(p)))), None)
    found = replace(given, text=text, document_id=document)
    known_as = ("text", "document_id")
    guessed = tuple(at for at in known_as if getattr(found, at) != getattr(given, at))
    return found, guessed, absent


def _names(value: object) -> bool:
    # LlamaIndex writes the word for what is not there.
    return (isinstance(value, str) and value not in ("", "None")) or type(value) is int


def json_value(value: object) -> Any:
    """A value that any writer of JSON takes.

    Dates become ISO 8601 texts, decimals floats, NaN and infinity null, bytes hexadecimal digits,
    and what JSON has no word for texts.

    Raises:
        ValueProblem: it holds what no JSON can: numbers of more than 64 bits, halves of surrogate
            pairs, or values that are nested too deep.
    """
    try:
        found = orjson.loads(orjson.dumps(value, _written, orjson.OPT_NON_STR_KEYS))
    except (TypeError, RecursionError) as error:
        raise ValueProblem(str(error)) from error
    check_depth(found)
    return found


def _written(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, (Mapping, set, frozenset, tuple)):
        form: Any = dict if isinstance(value, Mapping) else list
        return form(value)
    return str(value)


_TROUBLES = {
    "text": "no text under '{text}': kept with an empty one",
    "id": "no id under '{id}': the store's own id is used",
    "document_id": "what is not a document id under '{document_id}': skipped",
    "duplicate": "an id that a better row of the same result has: a number was added",
    "score": "a score that is not a number: skipped",
    "metadata": "metadata that no JSON can hold, or nested too deep: skipped",
}
"""What a row can lack."""


class AttachedRows:
    """Makes chunks of rows, and remembers which rows something was wrong with."""

    def __init__(self, mapping: FieldMapping) -> None:
        """The mapping is complete: it names the text."""
        self.mapping = mapping
        self._places = mapping.places()
        self._getters = {
            name: getter(path) for name, (path, *_) in self._places.items() if name != "metadata"
        }
        self._troubled: dict[str, dict[str, None]] = {}

    def chunks(self, rows: Sequence[Row]) -> list[Chunk]:
        """The rows of one result, best first, each as a chunk with an id of its own."""
        used: set[str] = set()
        return [self._chunk(row, place, used) for place, row in enumerate(rows, start=1)]

    def warnings(self) -> list[str]:
        """What was wrong with how many rows so far, a line each."""
        names = {name: shortened_line(at or "") for name, at in asdict(self.mapping).items()}
        return [
            f"{counted(len(ids), 'row')} {'has' if len(ids) == 1 else 'have'} "
            f"{_TROUBLES[trouble].format(**names)} (such as '{shortened_line(next(iter(ids)))}')"
            for trouble, ids in self._troubled.items()
        ]

    def _chunk(self, row: Row, place: int, used: set[str]) -> Chunk:
        own = row.id or f"#{place}"
        text, document = self._value(row, "text"), self._value(row, "document_id")
        if not isinstance(text, str):
            self.note("text", own)
        document_id = _identifier(document)
        if document_id is None and not is_missing(document):
            self.note("document_id", own)
        return Chunk(
            id=self._id(row, own, used),
            # A lone surrogate, no file can hold.
            text=text.encode("utf-8", "replace").decode() if isinstance(text, str) else "",
            score=row.score,
            document_id=document_id,
            metadata=self._metadata(row, own),
        )

    def _id(self, row: Row, own: str, used: set[str]) -> str:
        found = own
        if self.mapping.id is not None:
            named = _identifier(self._value(row, "id"))
            if named is None:
                self.note("id", own)
            found = named or own
        if found in used:
            self.note("duplicate", found)
            found = next(f"{found}#{n}" for n in count(2) if f"{found}#{n}" not in used)
        used.add(found)
        return found

    def _metadata(self, row: Row, own: str) -> dict[str, Any]:
        fields = row.fields
        for name, (path, *_) in self._places.items():
            if name != "metadata":
                rest = {key: value for key, value in fields.items() if key != path}
                fields = rest if path in fields else without_path(fields, path)
        found: dict[str, object] = {}
        title = self._value(row, "title")
        if not is_missing(title):
            found["title"] = title
        wanted = self._places.get("metadata")
        for within, held in _all(fields) if wanted is None else _picked(fields, wanted):
            for name, value in held.items():
                while name in found:  # under a longer name
                    name = f"{within}.{name}"
                found[name] = value
        try:
            return cast("dict[str, Any]", json_value(found))
        except ValueProblem:
            self.note("metadata", own)
            return {}

    def _value(self, row: Row, name: str) -> object:
        find = self._getters.get(name)
        return None if find is None else find(row.fields)

    def note(self, trouble: str, id: str) -> None:
        self._troubled.setdefault(trouble, {})[id] = None


def _identifier(value: object) -> str | None:
    if isinstance(value, Decimal):
        return str(value)
    try:
        found = as_id(json_value(value))
    except ValueProblem:
        return None
    return None if found.isspace() else found or None


Lots = Iterator[tuple[str, Mapping[str, object]]]


def _all(fields: Mapping[str, object]) -> Lots:
    """All fields, then those of the usual objects; before each lot, where it is."""
    lifted = {name: inner for name in METADATA_NAMES if is_object(inner := fields.get(name))}
    yield "row", {name: value for name, value in fields.items() if name not in lifted}
    yield from lifted.items()


def _picked(fields: Mapping[str, object], paths: Iterable[str]) -> Lots:
    for path in paths:
        value = getter(path)(fields)
        within, _, name = path.rpartition(".")
        if is_object(value):
            yield path, value
        elif value is not None:
            yield within or "row", {name: value}
