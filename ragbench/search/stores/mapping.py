"""Rows of other programs as chunks: which field means what, named or guessed and checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any, cast

import orjson

from ragbench.core.chunk import Chunk
from ragbench.errors import ConfigError
from ragbench.io.dumps.form import getter, text_paths, without_path
from ragbench.io.fields import field_names
from ragbench.io.settings import from_settings
from ragbench.io.values import ValueProblem, as_id, check_depth, is_missing, is_object
from ragbench.safe_text import counted, did_you_mean, listed, shortened_line
from ragbench.search.stores.base import MetricName, Row
from ragbench.shell import shell_quoted


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldMapping:
    """The path of each field in a row of a collection; dots lead into objects: ``metadata.source``.

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
        """Refuses a field name of nothing but blanks, commas and dots, which no row could have.

        A search would go on without the field.
        """
        for name, value in asdict(self).items():
            if value is not None and not value.strip(" ,."):
                raise ConfigError(f"map: {name} names no field")

    @classmethod
    def of(cls, fields: Mapping[str, str], *, where: str = "--field") -> FieldMapping:
        """The mapping that a user writes as field names by role, such as ``{"text": "body"}``.

        Commands and pipeline files write it so.

        Args:
            fields: field names or paths, by the names of `FieldMapping`.
            where: where the user wrote them, for errors.
        """
        return cast("FieldMapping", from_settings(cls, fields, where=where))

    def described(self) -> str:
        """The mapping of fields in one line, such as ``text=page_content vector=dense``.

        A user checks by it what was guessed of a collection. Results store the line with what was
        searched.
        """
        parts: list[str] = []
        for name, value in asdict(self).items():
            if value:
                parts.append(f"{name}={value}")
        return "  ".join(parts)

    def places(self) -> dict[str, tuple[str, ...]]:
        """The paths in a row of its text, id, document, title and metadata, by role.

        Only known ones. Several paths are possible for the metadata alone.
        """
        places: dict[str, tuple[str, ...]] = {}
        for name in ("text", "id", "document_id", "title"):
            path = getattr(self, name)
            if path is not None:
                places[name] = (path,)
        if self.metadata is not None:
            paths = [path.strip() for path in self.metadata.split(",")]
            places["metadata"] = tuple(path for path in paths if path)
        return places

    def chosen_vector(self, name: str, vectors: Sequence[str]) -> str:
        """The vector field of a collection that is searched.

        The one the user names, or the only one. With several, a guess could search the wrong one
        without an error.

        Args:
            name: of the collection, for errors.
            vectors: the names of its vectors; a vector without a name is empty.

        Raises:
            ConfigError: the collection has no vector, not this one, or several of which none is
                named.
        """
        vector = self.vector
        # A vector without a name is the empty text, which is in the list, too.
        if vector is None and len(vectors) == 1:
            return vectors[0]
        if vector is not None and vector in vectors:
            return vector
        if not vectors:
            problem = "keeps no dense vectors: nothing to search by"
        elif vector is None:
            problem = (
                f"has several vectors ({listed(vectors)}): choose the one to be searched with "
                f"--field vector={shell_quoted(vectors[0])}"
            )
        elif any(vectors):
            problem = f"has no vector '{vector}'; it has {listed(vectors)}"
        else:
            problem = f"has no vector '{vector}'; its own has no name: leave it out"
        raise ConfigError(f"the collection '{name}' {problem}")

    def chosen_words(
        self, name: str, fields: Sequence[str], usual: str | None = None
    ) -> str | None:
        """The field of a collection that the store ranks by words.

        None where it is not clear which field that is, or there is none. Unlike a vector, such a
        field need not be there: a search by vectors alone is possible.

        Args:
            name: of the collection, for errors.
            fields: those that the store can rank by words.
            usual: the field that is taken where the user names none.

        Raises:
            ConfigError: the collection has no such field as the user names.
        """
        words = self.words or usual
        # Of several fields none is chosen unasked: one may hold other words, such as a title's.
        if words is None and len(fields) == 1:
            return fields[0]
        if words is not None and words not in fields:
            present = "it keeps nothing for such a search"
            if fields:
                present = f"there are: {listed(fields)}"
            raise ConfigError(f"the collection '{name}' has no words '{words}'; {present}")
        return words

    def checked_metric(self, name: str, metric: MetricName) -> MetricName:
        """The metric by which the store compares vectors, if the user names no other one.

        A metric other than the store's would give the scores a wrong meaning.

        Args:
            name: of the collection, for errors.
            metric: the one that the store knows.

        Raises:
            ConfigError: the user names another metric, by which the store cannot search.
        """
        if self.metric is not None and self.metric != metric:
            raise ConfigError(
                f"the collection '{name}' compares vectors by {metric}, not by {self.metric}: "
                "leave the metric out"
            )
        return metric


METADATA_NAMES = ("metadata", "meta", "metadata_", "cmetadata", "langchain_metadata", "payload")
"""What programs call the object with a row's metadata."""
_DOCUMENT_IDS = ("document_id", "ref_doc_id", "doc_id", "source_id")
"""What programs call the id of the document that a text was cut from."""


def complete_mapping(
    name: str, mapping: FieldMapping, rows: Sequence[Row]
) -> tuple[FieldMapping, tuple[str, ...], list[str]]:
    """The mapping with text and document fields guessed, the guessed roles, the absent fields.

    Other programs' rows have names of their own: ragbench looks for usual ones in some rows. Absent
    is a field that the user names, such as ``title=heading``, and that none of these rows has.

    Args:
        name: of the collection, for errors.
        mapping: which fields the user names.
        rows: some rows of the collection.

    Raises:
        ConfigError: no field can be the text, or the named text or id is in no row.
    """
    sample = _Sample(rows)
    absent = _absent_fields(name, mapping, sample)
    # A field is looked for in the row itself, and then in the objects with metadata that it has.
    prefixes = [""]
    for object_name in METADATA_NAMES:
        if any(is_object(value) for value in sample.values(object_name)):
            prefixes.append(f"{object_name}.")
    guessed: list[str] = []
    if mapping.text is None:
        text = sample.likeliest_text(prefixes)
        if text is None:
            raise ConfigError(
                f"no field of the collection '{name}' is known to hold the text: name it with "
                f"--field text=FIELD. {sample.field_list()}"
            )
        guessed.append("text")
    else:
        text = mapping.text
    document_id = mapping.document_id
    if document_id is None:
        mapped_paths = (mapping.text, mapping.id, mapping.title)
        document_id = sample.first_document_id(prefixes, mapped_paths)
        if document_id is not None:
            guessed.append("document_id")
    completed = replace(mapping, text=text, document_id=document_id)
    return completed, tuple(guessed), absent


def _absent_fields(name: str, mapping: FieldMapping, sample: _Sample) -> list[str]:
    """The fields that the user names, such as ``title=heading``, and that no row of the sample has.

    Such fields are probably slips: a report names them, as chunks would come without a title.

    Raises:
        ConfigError: the text or the id is in no row; nothing could be read without them.
    """
    absent: list[str] = []
    for role, paths in mapping.places().items():
        for path in paths:
            is_present = any(value is not None for value in sample.values(path))
            if is_present:
                continue
            # Noted before the error: for all other roles the search goes on without the field.
            absent.append(f"{role}={path}")
            if role in ("text", "id"):
                raise ConfigError(
                    f"--field {role}={path}: no row that was looked at in '{name}' has such a "
                    f"field.{did_you_mean(path, sample.paths())} {sample.field_list()}"
                )
    return absent


class _Sample:
    """Some rows of a collection, looked through for fields by their usual names."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """A sample of a collection's rows, in which the meaning of its fields is looked for.

        A user need not name a field that can be guessed from them.
        """
        self._rows = rows

    def values(self, path: str) -> list[object]:
        """The value at a path in each row of the sample; None where a row has none.

        A role is guessed by how many rows fill the path.
        """
        read = getter(path)
        return [read(row.fields) for row in self._rows]

    def paths(self) -> list[str]:
        """The field names of the sampled rows, then the paths of all texts in them.

        A user who has to name a field chooses among them.
        """
        # A dict as an ordered set: a path comes where it was first seen.
        paths: dict[str, None] = {}
        for row in self._rows:
            paths.update(dict.fromkeys(row.fields))
        for row in self._rows:
            for path, _ in text_paths(row.fields):
                paths[path] = None
        return list(paths)

    def field_list(self) -> str:
        """The sampled rows' fields as the last sentence of an error.

        The user chooses one of them.
        """
        paths = listed(self.paths())
        if not paths:
            paths = "no fields at all"
        return f"There are: {paths}"

    def likeliest_text(self, prefixes: Sequence[str]) -> str | None:
        """The path of the text in most rows, among the names that programs usually give it.

        Else None. Of paths that are equally frequent the first counts: a field of the row itself
        comes before one of its metadata.

        Args:
            prefixes: where names are looked for: ``""`` for the row, ``"metadata."`` for an object.
        """
        likeliest = None
        most_texts = 0
        # LlamaIndex keeps a text within the JSON of its node.
        usual_names = (*field_names("hit")["text"], "_node_content.text")
        for prefix in prefixes:
            for field in usual_names:
                path = f"{prefix}{field}"
                texts = sum(_is_text(value) for value in self.values(path))
                if texts > most_texts:
                    likeliest = path
                    most_texts = texts
        return likeliest

    def first_document_id(
        self, prefixes: Sequence[str], mapped_paths: Sequence[str | None]
    ) -> str | None:
        """The first usual path of a document's id that some row fills, and that has no other role.

        Without such a path it is not known which chunks are of one document.

        Args:
            prefixes: where names are looked for: ``""`` for the row, ``"metadata."`` for an object.
            mapped_paths: paths with a role already.
        """
        for prefix in prefixes:
            for field in _DOCUMENT_IDS:
                path = f"{prefix}{field}"
                if path in mapped_paths:
                    continue
                if any(_is_document_id(value) for value in self.values(path)):
                    return path
        return None


def _is_text(value: object) -> bool:
    """Whether a value is a text with more than blanks in it, as the text of a chunk is.

    The text of a collection is guessed by how many values of a field are one.
    """
    return isinstance(value, str) and bool(value.strip())


def _is_document_id(value: object) -> bool:
    """Whether a value can be the id of a document: a whole number, or a text that is not empty.

    LlamaIndex writes the text "None" for a missing id, which is none here.
    """
    if isinstance(value, str):
        # LlamaIndex writes "None" for what is not there.
        return value not in ("", "None")
    # Not `isinstance`: True and False would pass for numbers.
    return type(value) is int


def json_value(value: object) -> Any:
    """A value that any writer of JSON takes, of a value that a database's client gives.

    Dates become ISO 8601 texts, decimals floats, NaN and infinity null, bytes hexadecimal digits,
    and objects that JSON does not know texts. So chunks of other programs can be written into
    results.

    Raises:
        ValueProblem: it holds what no JSON can: numbers of more than 64 bits, halves of surrogate
            pairs, or values that are nested too deep.
    """
    try:
        # Written and read back: what results is plain, whatever types the client has.
        text = orjson.dumps(value, _json_replacement, orjson.OPT_NON_STR_KEYS)
        plain = orjson.loads(text)
    except (TypeError, RecursionError) as error:
        raise ValueProblem(str(error)) from error
    check_depth(plain)
    return plain


def _json_replacement(value: object) -> object:
    """A value of JSON for one that orjson does not know; orjson calls this while it writes.

    Clients of databases give types of Python that JSON has no word for, such as Decimal and sets.
    """
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if isinstance(value, (set, frozenset)):
        # A set has no order: without one its list would differ from run to run.
        return sorted(cast("Iterable[object]", value), key=repr)
    if isinstance(value, tuple):
        return list(cast("Iterable[object]", value))
    return str(value)


_TROUBLES = {
    "text": "no text under '{text}': kept with an empty one",
    "id": "no id under '{id}': the store's own id is used",
    "document_id": "what is not a document id under '{document_id}': skipped",
    "duplicate": "an id that a better row of the same result has: a number was added",
    "score": "a score that is not a number: skipped",
    "metadata": "metadata that no JSON can hold, or nested too deep: skipped",
}
"""What can be wrong with a row, in the words of a warning: so many rows have this."""


class AttachedRows:
    """Makes chunks of rows, and remembers which rows something was wrong with.

    Rows of other programs are never refused: one bad row must not end a search.
    """

    def __init__(self, mapping: FieldMapping) -> None:
        """A reader of another program's rows, by a mapping that names their text field.

        The paths of all roles are looked up once, as there may be many rows.
        """
        self.mapping = mapping
        places = mapping.places()
        self._metadata_paths = places.pop("metadata", None)
        """The fields that are metadata; None where all fields without another role are."""
        self._paths = {name: path for name, (path,) in places.items()}
        """The paths of text, id, document and title by role, where the mapping names them."""
        self._getters = {name: getter(path) for name, path in self._paths.items()}
        """What reads the value of a role off a row, by the role's name."""
        self._troubled: dict[str, dict[str, None]] = {}
        """By trouble: the ids of the rows that had it, each once, in order."""

    def chunks(self, rows: Sequence[Row]) -> list[Chunk]:
        """The rows of one result, best first, as chunks; no two of them share an id.

        Ids are unique within a result, not among results.
        """
        used_ids: set[str] = set()
        return [self._chunk(row, rank, used_ids) for rank, row in enumerate(rows, start=1)]

    def warnings(self) -> list[str]:
        """The problems of the rows so far, each with its count and an example, a line each.

        Rows are never refused, so these lines are the only sign that fields are mapped wrongly.
        """
        paths: dict[str, str] = {}
        for name, path in asdict(self.mapping).items():
            paths[name] = shortened_line(path or "")
        lines: list[str] = []
        for trouble, ids in self._troubled.items():
            has = "has" if len(ids) == 1 else "have"
            problem = _TROUBLES[trouble].format(**paths)
            # The first row that had the trouble: the next run names the same one.
            example = shortened_line(next(iter(ids)))
            lines.append(f"{counted(len(ids), 'row')} {has} {problem} (such as '{example}')")
        return lines

    def _chunk(self, row: Row, rank: int, used_ids: set[str]) -> Chunk:
        """Another program's row as a chunk; what it lacks is noted for `warnings`, never refused.

        One bad row must not end a search.

        Args:
            row: as the engine gives it.
            rank: the row's place in the result, from 1; names a row without an id.
            used_ids: of the chunks before it; the row's own id is added.
        """
        own_id = row.id or f"#{rank}"
        text = self._value_of_role(row, "text")
        if not isinstance(text, str):
            self.note("text", own_id)
            text = ""
        document = self._value_of_role(row, "document_id")
        document_id = _value_as_id(document)
        if document_id is None and not is_missing(document):
            self.note("document_id", own_id)
        # No file can hold half of a surrogate pair: question marks take their place.
        writable_text = text.encode("utf-8", "replace").decode()
        return Chunk(
            id=self._unique_id(row, own_id, used_ids),
            text=writable_text,
            score=row.score,
            document_id=document_id,
            metadata=self._metadata(row, own_id),
        )

    def _unique_id(self, row: Row, own_id: str, used_ids: set[str]) -> str:
        """The id of a row, with a number where an earlier row of the result has the same one.

        Results are scored by ids: two chunks of one result must not share one.

        Args:
            own_id: the store's id of the row, which names it where the mapped field holds none.
            used_ids: of the chunks before it; the row's id is added.
        """
        id_ = own_id
        if self.mapping.id is not None:
            mapped = _value_as_id(self._value_of_role(row, "id"))
            if mapped is None:
                self.note("id", own_id)
            else:
                id_ = mapped
        # Numbers begin at 2, as the first row with the id is the first of them.
        if id_ in used_ids:
            self.note("duplicate", id_)
            number = 2
            while f"{id_}#{number}" in used_ids:
                number += 1
            id_ = f"{id_}#{number}"
        used_ids.add(id_)
        return id_

    def _metadata(self, row: Row, own_id: str) -> dict[str, Any]:
        """The metadata of a row's chunk: its title, and the fields that have no other role.

        Of two fields with one name the later gets the name of its place before it, such as
        ``meta.year``. Metadata that JSON cannot hold become empty, and are noted for `warnings`.
        """
        metadata: dict[str, object] = {}
        title = self._value_of_role(row, "title")
        if not is_missing(title):
            metadata["title"] = title
        fields = self._unmapped_fields(row.fields)
        if self._metadata_paths is None:
            groups = _all_groups(fields)
        else:
            groups = _picked_groups(fields, self._metadata_paths)
        for place, values in groups:
            for name, value in values.items():
                # Until the name is free: `meta.meta.year` where `meta.year` is taken, too.
                while name in metadata:
                    name = f"{place}.{name}"
                metadata[name] = value
        try:
            return cast("dict[str, Any]", json_value(metadata))
        except ValueProblem:
            self.note("metadata", own_id)
            return {}

    def _unmapped_fields(self, fields: Mapping[str, object]) -> Mapping[str, object]:
        """The fields of a row without its text, id, document and title: its possible metadata.

        A field with another role would be in the chunk twice.
        """
        for path in self._paths.values():
            if path in fields:  # a field of the row itself, though its name may have dots
                fields = {key: value for key, value in fields.items() if key != path}
            else:
                fields = without_path(fields, path)
        return fields

    def _value_of_role(self, row: Row, name: str) -> object:
        """A row's value for a role (text, id, document_id, title).

        None where the mapping names no field. The path of a role is read from the mapping once, at
        the start.
        """
        read = self._getters.get(name)
        if read is None:
            return None
        return read(row.fields)

    def note(self, trouble: str, id: str) -> None:
        """Remembers a problem of a row, by its key in ``_TROUBLES``, for `warnings`.

        A row counts once for each problem, in however many results it is.
        """
        self._troubled.setdefault(trouble, {})[id] = None


def _value_as_id(value: object) -> str | None:
    """A value of a row as an id, which is a text; None where it cannot be one.

    Numbers are written out; lists, objects and blank texts are no ids.
    """
    if isinstance(value, Decimal):  # as it is written: 12345678901234567890 is no float
        return str(value)
    try:
        id_ = as_id(json_value(value))
    except ValueProblem:
        return None
    if not id_ or id_.isspace():
        return None
    return id_


FieldGroups = Iterator[tuple[str, Mapping[str, object]]]
"""Fields of a row that lie together, after the name of their place."""


def _all_groups(fields: Mapping[str, object]) -> FieldGroups:
    """A row's own fields, then those of each object with metadata, after the name of their place.

    Such an object (``metadata``, ``payload``) is dissolved: filters and reports name its fields.
    """
    row_fields: dict[str, object] = {}
    for name, value in fields.items():
        if name not in METADATA_NAMES or not is_object(value):
            row_fields[name] = value
    # First, so that a field of the row itself keeps its short name.
    yield "row", row_fields
    for name in METADATA_NAMES:
        value = fields.get(name)
        if is_object(value):
            yield name, value


def _picked_groups(fields: Mapping[str, object], paths: Iterable[str]) -> FieldGroups:
    """The fields at the paths that a user names for the metadata, after the name of their place.

    An object there gives its fields, another value itself.
    """
    for path in paths:
        value = getter(path)(fields)
        parent, _, name = path.rpartition(".")
        if is_object(value):
            yield path, value
        elif value is not None:
            yield parent or "row", {name: value}
