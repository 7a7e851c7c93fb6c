"""How a dump is read, guessed from its first records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from ragbench.core.fusion import ScoreOrders
from ragbench.core.record import replace
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.io.dumps.decode import Decoder
from ragbench.io.dumps.form import (
    MAPPABLE,
    AnyRow,
    DumpForm,
    DumpMapping,
    Hits,
    ScoreKind,
    chunks_getter,
    fields_shown,
    getter,
    opened_json,
    text_of,
    text_paths,
)
from ragbench.io.dumps.forms import forms
from ragbench.io.dumps.reranked import holds_ranking, unread_ranking
from ragbench.io.fields import field_names, says_gold, squash
from ragbench.io.values import ValueProblem, as_label, as_score, describe, is_list, is_object
from ragbench.safe_text import listed_names
from ragbench.shell import shell_quoted

_SHORTEST_TEXT = 20
"""Characters from which a text with spaces may be a chunk, whatever its name."""
_DEEPEST = 5
"""Dots in the path of a list that a message may propose as the chunks."""
_WITH_HITS = 1000
"""How much more a list with hits counts than an empty one: more than all records looked at."""
_SHOWN_KEYS = 12
"""Fields of an object that a message names: enough to know the record again."""
_PLAIN = frozenset({"ragbench", "plain"})
_WITHOUT_SIGNATURE = _PLAIN | {"langchain", "llamaindex", "haystack", "ragas", "pgvector"}
"""Forms that datasets use as well: what they hold may have been retrieved, or be gold."""


@cache
def _forms_in_order() -> tuple[DumpForm, ...]:
    """The forms of retrieval results in the order in which they are tried.

    The plain one is last: it fits many lists that are another form's.
    """
    plain = forms()["plain"]
    with_signs = [form for form in forms().values() if form.special is not plain.special]
    return (*with_signs, plain)


class _Place(NamedTuple):
    """Where the chunks of a record are, and in which form."""

    path: str
    """The empty path is the record itself."""
    form: DumpForm


_OPTIONAL_FIELDS = frozenset({"id", "score", "metadata", "relevant"})
"""Fields of a chunk that a user can switch off by an empty name."""


def guess_mapping(
    records: Sequence[AnyRow],
    *,
    form: DumpForm | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Decoder:
    """Guesses from a dump's first records how all of it is read.

    A log of retrievals has no fixed fields, and its user should not have to describe it. A guess in
    doubt is an error that proposes options: wrong chunks would be judged unnoticed.

    Args:
        records: the first records.
        form: the form of the responses, where the user names it.
        overrides: field of a dump to the path where the user says that it is.

    Raises:
        ConfigError: an override is for a field that a dump does not have.
        DataError: no chunks are recognised, or which of several lists has them is in doubt.
    """
    paths: dict[str, str] = {}
    for name, path in (overrides or {}).items():
        if name not in MAPPABLE:
            raise ConfigError(f"--field {name}: no such field.{listed_names(name, MAPPABLE)}")
        # An empty path to the chunks is the record itself. One to a field that a chunk can lack
        # says that it has none.
        if path or name == "chunks" or name in _OPTIONAL_FIELDS:
            paths[name] = path
    values = [record.values for record in records]
    names = field_names("retrieval")
    query = _path_of("query", paths, values, names["query"], texts=True)
    answer_present = _path_of("answer_present", paths, values, names["answer_present"])

    is_own = form is None and "chunks" not in paths and all(map(_is_written_by_ragbench, values))
    if is_own and not any(map(holds_ranking, values)):
        place = _Place("chunks", forms()["plain"])
        lists: list[Sequence[object]] = [_own_chunks(value) for value in values]
    else:
        likeliest = _likeliest_place(records, form, paths.get("chunks"))
        if likeliest is None:
            mapping, form = _guess_rows(records, form, paths, query)
            return Decoder(replace(mapping, answer_present=answer_present), form)
        place = likeliest
        lists = _lists_at(place, values)

    format_name = place.form.name
    if format_name in _PLAIN:  # ragbench's own unwraps as the plain one does
        has_query = any(is_object(value) and "query" in value for value in values)
        is_ragbench = has_query and place.path == "chunks"
        format_name = "ragbench" if is_ragbench else "plain"
    if "chunks" not in paths and place.form.name in _WITHOUT_SIGNATURE:
        _refuse_unread_ranking(records, place.path)
    chunks: list[object] = []
    for chunks_of_query in lists:
        chunks += chunks_of_query
    fields = _paths_of_chunk_fields(chunks, place.form, paths, records[0])
    _refuse_blank(chunks, fields["text"], records[0])
    query_id = _path_of("query_id", paths, values, (*names["row_id"], *names["query_id"]))
    mapping = DumpMapping(
        format=format_name,
        query=query,
        query_id=query_id,
        chunks=place.path,
        answer_present=answer_present,
        **fields,
        scores=_score_kind(lists, fields["score"], place.form.scores_are_distances),
    )
    return Decoder(mapping, place.form)


def _own_chunks(value: object) -> Sequence[object]:
    """The chunks of a record that ragbench wrote; empty where it has none.

    The fields of a chunk are guessed from them like those of other dumps.
    """
    chunks = chunks_getter("chunks")(value)
    return chunks if is_list(chunks) else ()


def _lists_at(place: _Place, values: Sequence[object]) -> list[Sequence[object]]:
    """The chunks of all queries of a dump's first records, as a list for each query.

    The fields of a chunk are guessed from them next.

    Args:
        place: where the chunks are, and in which form.
    """
    lists: list[Sequence[object]] = []
    find = chunks_getter(place.path)
    for value in values:
        response = find(value)
        hits = place.form.unwrap(response)
        if hits:
            lists += hits
        elif is_list(response):
            lists.append(response)  # what does not begin with a chunk may hold some
    return lists


def _guess_rows(
    records: Sequence[AnyRow],
    form: DumpForm | None,
    paths: Mapping[str, str],
    query: str | None,
) -> tuple[DumpMapping, DumpForm]:
    """Guesses how records are read that are one chunk each, as rows of a SQL query are.

    Args:
        form: the form of the rows, where the user names it.
        paths: field of a dump to the path where the user says that it is.
        query: the path of the query's text, where one is recognised.

    Raises:
        DataError: they are no chunks either.
    """
    values = [record.values for record in records]
    query_id = _path_of("query_id", paths, values, field_names("retrieval")["row_id"])
    text = _path_of("text", paths, values, field_names("hit")["text"], texts=True)
    names_query = query is not None or query_id is not None
    if "chunks" in paths or text is None or not names_query:
        raise _not_recognised(records[0], form, paths)
    row_form = forms()["pgvector"] if form is None else form
    fields = _paths_of_chunk_fields(values, row_form, paths, records[0])
    if fields["id"] == query_id:
        # The query's id is not the chunk's.
        id_names = [name for name in field_names("hit")["id"] if name != query_id]
        fields["id"] = _path_of("id", paths, values, id_names)
    # Whether high scores are good is guessed from the order of the chunks of one query.
    find_key = getter(query_id or query or "")
    rows_of_query: dict[str, list[object]] = {}
    for value in values:
        rows_of_query.setdefault(str(find_key(value)), []).append(value)
    scores = _score_kind(list(rows_of_query.values()), fields["score"], None)
    # One field cannot be both: the user may name one as the text that looks like the query.
    if query == fields["text"]:
        query = None
    mapping = DumpMapping(
        format=row_form.name,
        layout="rows",
        query=query,
        query_id=query_id,
        **fields,
        scores=scores,
    )
    return mapping, row_form


def _is_written_by_ragbench(value: object) -> bool:
    """Whether a record of a dump is as ragbench writes it: then its fields need no guess.

    Its chunks are under ``chunks``, and have ragbench's own fields alone.
    """
    if not is_object(value) or "query" not in value:
        return False
    chunks = value.get("chunks")
    if not is_list(chunks):
        return False
    own_fields = set(field_names("hit")["own"])
    return all(is_object(chunk) and own_fields.issuperset(chunk) for chunk in chunks)


def _likeliest_place(
    records: Sequence[AnyRow], form: DumpForm | None, path: str | None
) -> _Place | None:
    """The place where most of a dump's first records hold chunks, and the form of these chunks.

    None where no record has any. An empty list says little, since it fits every form, so it counts
    only where no list has a hit.

    Args:
        form: the only form that may be there, where the user names it.
        path: the only place that may have them, where the user names it.

    Raises:
        DataError: a record holds what is recognised as chunks and cannot be read.
    """
    counts: Counter[_Place] = Counter()
    for record in records:
        try:
            for place, lists in _candidate_places(record.values, form, path):
                if any(lists):
                    counts[place] += _WITH_HITS
                    break
                # A list without a hit says little of the form: it counts if there is nothing else.
                counts[place] += 1
        except ValueProblem as problem:
            error = Problem(message=str(problem), path=record.path, line=record.line)
            raise DataError([error]) from None
    return max(counts, key=counts.__getitem__, default=None)


def _candidate_places(
    value: object, form: DumpForm | None, path: str | None
) -> Iterator[tuple[_Place, Sequence[Hits]]]:
    """The places of a record that may hold chunks, with the lists there, one for each query.

    The order counts: the caller takes the first place with a hit.

    Args:
        form: the only form that may be there, where the user names it.
        path: the only place that may have them, where the user names it.
    """
    places = list(_container_paths(value)) if path is None else [(path, True)]
    candidate_forms = _forms_in_order() if form is None else (form,)
    for where, is_documented in places:
        response = chunks_getter(where)(value)
        needs_signature = form is None and not is_documented
        for candidate in candidate_forms:
            if needs_signature and candidate.name in _WITHOUT_SIGNATURE:
                continue  # anything may be written so: shape alone gives no role
            lists = candidate.unwrap(response)
            if lists is not None:
                yield _Place(where, candidate), lists
        # Here a list is one of chunks whatever it begins with: its name, or the user, says so.
        if is_list(response) and (where == "chunks" or path is not None):
            list_form = forms()["plain"] if form is None else form
            yield _Place(where, list_form), [response]


def _container_paths(value: object) -> Iterator[tuple[str, bool]]:
    """The paths in a record where chunks may be, and whether each has a documented name.

    They are the record itself, its documented fields, any other, and those one deeper; never a
    field whose name says that it holds gold. The likelier ones come first.
    """
    yield "", True
    if not is_object(value):
        return
    names = field_names("retrieval")
    documented = [name for name in names["chunks"] if name in value]
    excluded = {*documented, *names["not_chunks"]}
    undocumented = [name for name in value if name not in excluded and not says_gold(str(name))]
    for name in documented:
        yield name, True
    for name in (*documented, *undocumented):
        inner = opened_json(value[name])
        if is_object(inner):
            for inner_name in names["chunks"]:
                if inner_name in inner:
                    yield f"{name}.{inner_name}", True
    for name in undocumented:
        content = opened_json(value[name])
        # A list of texts under an unknown name may be anything, such as tags.
        if is_list(content):
            may_hold_chunks = bool(content) and not isinstance(content[0], str)
        else:
            may_hold_chunks = is_object(content)
        if may_hold_chunks:
            yield name, False


def _refuse_unread_ranking(records: Sequence[AnyRow], chunks: str) -> None:
    """Refuses a dump whose documents have a ranking beside them that is not understood.

    The order of the documents may be the one before the ranking, and would be judged in its place.

    Args:
        chunks: the path of the documents.

    Raises:
        DataError: such a ranking is in a record.
    """
    for record in records:
        path = unread_ranking(record.values, chunks)
        if path is not None:
            message = (
                f"field '{path}' ranks the chunks in '{chunks}' in a form that is not known, so "
                "their order may be the one before the ranking. If it is the right one, say so: "
                f"--field chunks={shell_quoted(chunks)}"
            )
            problem = Problem(message=message, path=record.path, line=record.line)
            raise DataError([problem])


def _refuse_blank(hits: Hits, text: str, record: AnyRow) -> None:
    """Refuses chunks of which none has a text: their text is most likely in another field.

    Ids alone pass: a corpus may have their texts.

    Args:
        text: the path of the text of a chunk.
        record: the dump's first record, which the error names.

    Raises:
        DataError: the texts of all chunks are empty.
    """
    if not hits or any(_has_text(hit, text) for hit in hits):
        return
    letters = Counter[str]()
    for hit in hits:
        for path, value in text_paths(hit):
            is_id = path.rpartition(".")[2] in field_names("hit")["id"]
            if value.strip() and path != text and not is_id:
                letters[path] += len(value)
    if letters:
        longest, _ = letters.most_common(1)[0]
        option = f"--field text={shell_quoted(longest)}"
        remedy = f"Fields with a text: {', '.join(letters)}. Choose one: {option}"
    elif any(getter(text)(hit) is not None for hit in hits if is_object(hit)):
        remedy = "No other field of them holds one; leave the field out where only ids are known"
    else:
        return  # ids alone
    problem = Problem(
        message=f"every chunk is empty under '{text}'. {remedy}",
        path=record.path,
        line=record.line,
    )
    raise DataError([problem])


def _has_text(hit: object, path: str) -> bool:
    """Whether a chunk has a visible text at a path; a chunk that is a text has it itself.

    By this the field of the text is chosen among the usual ones.
    """
    if isinstance(hit, str):
        text: str | None = hit
    else:
        text = text_of(getter(path)(hit))
    return text is not None and text.strip() != ""


def _paths_as_spelled(values: Sequence[object], paths: Sequence[str]) -> tuple[str, ...]:
    """The usual names of a field, then those of the records that differ in case and marks alone.

    Tools write one name as ``chunkId``, ``chunk_id`` or ``Chunk ID``.

    Args:
        values: the records, or the chunks.
        paths: the usual names, the more telling ones first.
    """
    # Of two spellings of one name in the records the last one counts.
    spellings: dict[str, str] = {}
    for value in values:
        if is_object(value):
            for key in value:
                spellings[squash(key)] = key
    own_spellings = [spellings[squash(path)] for path in paths if squash(path) in spellings]
    return (*paths, *own_spellings)


def _path_of(
    field: str,
    paths: Mapping[str, str],
    values: Sequence[object],
    candidates: Sequence[str],
    *,
    texts: bool = False,
) -> str | None:
    """The path of a field of a dump: the one that the user names, else the first with a value.

    The user's word counts before any guess.

    Args:
        field: the field, such as ``query``.
        paths: field of a dump to the path where the user says that it is.
        candidates: the usual names of the field, the more telling ones first.
        texts: whether the field holds texts, rather than ids or labels.
    """
    named_path = paths.get(field)
    if named_path:
        return named_path
    return _first_with_value(values, candidates, texts=texts)


def _first_with_value(
    values: Sequence[object], paths: Sequence[str], *, texts: bool = True
) -> str | None:
    """The first of a field's usual paths at which a record, or a chunk, has a value.

    Paths are in the order of how telling they are; one record with a value is enough, as others may
    lack it.

    Args:
        texts: whether the value is a text or a list; else a text, a number or a truth value.
    """
    kinds = (str, list) if texts else (str, int, float, bool)
    for path in _paths_as_spelled(values, paths):
        find = getter(path)
        if any(isinstance(find(value), kinds) for value in values):
            return path
    return None


def _paths_of_chunk_fields(
    hits: Hits, form: DumpForm, paths: Mapping[str, str], record: AnyRow
) -> dict[str, Any]:
    """The path of each field of a chunk: those that the user names, and for the others a guess.

    Args:
        hits: the chunks of the dump's first records.
        form: the form of the chunks, which lists likely paths.
        paths: field to the path where the user says that it is; empty if chunks have no such field.
        record: the first record, which an error names.

    Returns:
        The fields of `DumpMapping` for a chunk.

    Raises:
        DataError: no text of the chunks is recognised.
    """
    objects = [hit for hit in hits if is_object(hit)]
    if form.name in _PLAIN:
        form = forms()["plain"]
    text = paths.get("text")
    if not text:
        text = _text_path(objects, form)
    if text is None:
        _refuse_unknown_text(objects, record)
        text = "text"  # chunks of ids alone: the field of a text that they lack
    score = _first_with_value(objects, form.score, texts=False)
    if score is None:  # a score that is null in every chunk is a score, too
        score = _first_where(form.score, lambda path: any(path in hit for hit in objects))
    metadata = _first_where(
        form.metadata, lambda path: any(map(is_object, map(getter(path), objects)))
    )
    label_names = _paths_as_spelled(objects, field_names("hit")["relevant"])
    relevant = _first_where(label_names, lambda path: _holds_labels(objects, path))
    fields: dict[str, Any] = {
        "id": _first_with_value(objects, form.id, texts=False),
        "text": text,
        "score": score,
        "metadata": metadata,
        "relevant": relevant,
    }
    # An empty path of the user's says that chunks have no such field, whatever was recognised.
    for name, path in paths.items():
        if name in fields:
            fields[name] = path or None
    return fields


def _first_where(paths: Sequence[str], is_met: Callable[[str], bool]) -> str | None:
    """The first path of a field that meets a condition, as paths go by how telling they are.

    None where no path does: chunks then lack the field.
    """
    return next(filter(is_met, paths), None)


def _holds_labels(hits: Sequence[object], path: str) -> bool:
    """Whether all values of chunks at a path are labels, and there is one.

    A field of scores may have the name of a label: its numbers are none.
    """
    labels: list[bool | None] = []
    for value in map(getter(path), hits):
        if value is not None:
            labels.append(as_label(value))
    return bool(labels) and None not in labels


def _refuse_unknown_text(objects: Sequence[Mapping[str, object]], record: AnyRow) -> None:
    """Refuses chunks without a text if a field of another name may hold the text.

    Read without their texts, they would be judged as empty, and the user would not notice.

    Chunks with known fields alone are ids, and pass.

    Args:
        record: the dump's first record, which the error names.

    Raises:
        DataError: a chunk has such a field.
    """
    known: set[str] = set()
    for kind in ("metadata", "text", "id", "score", "relevant", "known"):
        known.update(field_names("hit")[kind])
    if any(set(hit) - known for hit in objects):
        chunk = _described_record(objects[0])
        message = (
            f"the chunks have no text that is recognised: a chunk is {chunk}. "
            "Say where it is: --field text=FIELD (dots lead into objects: payload.body)"
        )
        problem = Problem(message=message, path=record.path, line=record.line, field="text")
        raise DataError([problem])


def _text_path(objects: Sequence[object], form: DumpForm) -> str | None:
    """The path of a chunk's text: the usual name that most chunks have, or else the longest texts.

    None where no text is found.

    Args:
        objects: the chunks of the dump's first records.
        form: the form of the chunks, which lists likely paths.
    """
    paths = _paths_as_spelled(objects, (*form.text, *field_names("hit")["text"]))
    counts: Counter[str] = Counter()
    for path in paths:
        counts[path] = sum(_has_text(value, path) for value in objects)
    # `max` gives the first of equal paths, which has the more telling name.
    best = max(paths, key=counts.__getitem__, default=None)
    if best is not None and counts[best] > 0:
        return best
    # A candidate that is there and empty: another field that holds texts may be anything.
    for path in form.text:
        parent, _, name = path.rpartition(".")
        find_parent = getter(parent)
        for hit in objects:
            fields = find_parent(hit)
            if is_object(fields) and name in fields:
                return path
    if form.any_text_in is None:
        return None
    return _path_of_longest_text(objects, form.any_text_in)


def _path_of_longest_text(objects: Sequence[object], below: str) -> str | None:
    """The path with the most letters in all chunks, at or below a path; None without a text.

    A text under no usual name counts only if it is long enough to be a passage.
    """
    names = field_names("hit")
    letters: Counter[str] = Counter()
    for hit in objects:
        for path, text in text_paths(getter(below)(hit), below):
            if not below and path.partition(".")[0] in names["metadata"]:
                continue  # what is said of a chunk is not the chunk
            is_named = path.rpartition(".")[2] in names["text"]
            if is_named or (len(text) >= _SHORTEST_TEXT and " " in text.strip()):
                letters[path] += len(text)
    return max(letters, key=letters.__getitem__, default=None)


def _score_kind(
    lists: Sequence[Hits], path: str | None, distances: bool | None
) -> ScoreKind | None:
    """Guesses whether a dump's scores are similarities or distances; None without scores.

    A retriever hands over the best chunk first. When scores fall, higher is better; when they rise,
    lower is. Only when neither holds, the field's name decides, or what its tool is known for:
    Milvus, for one, calls both a distance.

    Args:
        lists: the chunks of each query, in the order of the dump.
        path: the path of the score in a chunk.
        distances: whether the tool's scores are distances; None where that is not known.
    """
    if path is None:
        return None
    orders = ScoreOrders()
    for hits in lists:
        values = map(as_score, map(getter(path), hits))
        scores = [score for score in values if score is not None]
        # A single score has no order.
        if len(scores) > 1:
            orders.add(scores)
    if orders.rising > orders.falling:
        return ScoreKind.DISTANCE
    if orders.falling > orders.rising:
        return ScoreKind.SIMILARITY
    if distances is None:
        distances = path.rpartition(".")[2].lower() in field_names("hit")["distance"]
    return ScoreKind.DISTANCE if distances else ScoreKind.SIMILARITY


def _not_recognised(record: AnyRow, form: DumpForm | None, paths: Mapping[str, str]) -> DataError:
    """The error for a record without chunks: its content, and the options that may read it.

    The options are complete, so that a user can paste them.

    Args:
        form: the form that the user named.
        paths: field of a dump to the path where the user says that it is.
    """
    value = record.values
    longest_list = max(_lists_with_texts(value, ""), default=None)
    if longest_list is not None:
        _, chunks, text = longest_list
        options = f"--field chunks={shell_quoted(chunks)}"
        if text:
            options += f" --field text={shell_quoted(text)}"
        proposal = f"Perhaps: {options}, or name the --format"
    else:
        # Without a list or an object in it, the record can only be a chunk itself.
        values = value.values() if is_object(value) else [value]
        has_inner = any(is_list(inner) or is_object(inner) for inner in values)
        option = "chunks" if has_inner else "query"
        proposal = (
            f"Say where they are: --field {option}=FIELD --field text=FIELD, or name the --format"
        )
        if is_object(value) and "query" in value:
            proposal += "; questions alone are asked first: ragbench eval DATASET --rag RAG"
    in_form = f" in the form '{form.name}'" if form is not None else ""
    under = f" under '{paths['chunks']}'" if "chunks" in paths else ""
    content = _described_record(value)
    message = f"no chunks are recognised{in_form}{under}; the record is {content}. {proposal}"
    if is_object(value):
        message += "\n" + "\n".join(fields_shown(value))
    return DataError([Problem(message=message, path=record.path, line=record.line)])


def _plain_name(name: str) -> str:
    """The name of a field in the spelling of the words ``no_text``: small letters, no underscores.

    A field so named (a question, an answer) is not proposed as the chunks.
    """
    return name.replace("_", "").lower()


def _lists_with_texts(value: object, path: str) -> Iterator[tuple[int, str, str]]:
    """Lists of a record that may be the chunks: letters in them, their path, the text's path.

    An error proposes the list with the most letters.

    Args:
        path: of the value; empty for the record itself.
    """
    value = opened_json(value)
    if is_list(value) and value and path:
        letters, text = _letters_in(value)
        # The names of what was asked or answered: in hits those of their text, else the list's.
        names = text.split(".") if text else [path.rpartition(".")[2]]
        no_text = set(field_names("hit")["no_text"])
        if letters is not None and no_text.isdisjoint(map(_plain_name, names)):
            # The letters first: the caller takes the largest of these tuples.
            yield letters, path, text
    elif is_object(value) and path.count(".") < _DEEPEST:
        for name, inner in value.items():
            inner_path = f"{path}.{name}" if path else name
            yield from _lists_with_texts(inner, inner_path)


def _letters_in(items: Sequence[object]) -> tuple[int | None, str]:
    """The letters of the texts in a list of a record, and the path of the text in an item.

    The list with the most letters is most likely the one of the chunks.

    The path is empty where items are texts. None where they are neither texts nor objects with one.
    """
    text = _path_of_longest_text(items, "")
    letters = 0
    if text is not None:
        for item in items:
            letters += sum(len(part) for place, part in text_paths(item) if place == text)
        return letters, text
    for item in items:
        if not isinstance(item, str):
            return None, ""
        letters += len(item)
    return letters, ""


def _described_record(value: object) -> str:
    """A record as the end of a message's sentence, by the names of its fields.

    A user sees by them where his chunks may be.
    """
    if is_object(value):
        names = ", ".join(list(value)[:_SHOWN_KEYS])
        return f"an object with {names or 'no fields'}"
    if is_list(value):
        return f"a list of {len(value)}"
    return describe(value)
