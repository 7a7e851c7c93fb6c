"""How a dump is read, guessed from its first records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from ragbench.io.fields import named, says_gold, squash
from ragbench.io.values import ValueProblem, as_label, as_score, describe, is_list, is_object
from ragbench.safe_text import listed_names

_SHORTEST_TEXT = 20
_DEEPEST = 5
_PLAIN = frozenset({"ragbench", "plain"})
_WITHOUT_SIGNATURE = _PLAIN | {"langchain", "llamaindex", "haystack", "ragas", "pgvector"}
"""Forms that datasets use as well: what they hold may have been retrieved, or be gold."""


@cache
def _tried() -> tuple[DumpForm, ...]:
    """The forms, those last that fit many a list."""
    plain = forms()["plain"]
    return (*(form for form in forms().values() if form.special is not plain.special), plain)


class _Place(NamedTuple):
    path: str
    form: DumpForm


def guess_mapping(
    records: Sequence[AnyRow],
    *,
    form: DumpForm | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Decoder:
    for name in overrides or ():
        if name not in MAPPABLE:
            raise ConfigError(f"--field {name}: no such field.{listed_names(name, MAPPABLE)}")
    given = {name: path for name, path in (overrides or {}).items() if path or name == "chunks"}
    values, names = [record.values for record in records], named("retrieval")
    is_own = form is None and "chunks" not in given and all(map(_is_own, values))
    is_own = is_own and not any(map(holds_ranking, values))
    own = _Place("chunks", forms()["plain"])
    place = own if is_own else _place(records, form, given.get("chunks"))
    query = given.get("query") or _first(values, names["query"])
    labels = (names["answer_present"], (*names["row_id"], *names["query_id"]))
    present, query_id = (_first(values, paths, texts=False) for paths in labels)
    present = given.get("answer_present") or present
    if place is None:
        mapping, form = _guess_rows(records, form, given, query)
        return Decoder(replace(mapping, answer_present=present), form)
    lists: list[Sequence[object]] = []
    for held in map(chunks_getter(place.path), values):
        hits = None if is_own else place.form.unwrap(held)
        # What does not begin with a chunk may hold some.
        lists += hits or ([held] if is_list(held) else ())
    name = place.form.name
    if name in _PLAIN:  # ragbench's own unwraps as the plain one does
        is_own = place.path == "chunks" and any(is_object(v) and "query" in v for v in values)
        name = "ragbench" if is_own else "plain"
    if "chunks" not in given and place.form.name in _WITHOUT_SIGNATURE:
        _refuse_unread_ranking(records, place.path)
    chunks: Hits = [chunk for some in lists for chunk in some]
    fields = _hit_fields(chunks, place.form, given, records[0])
    _refuse_blank(chunks, fields["text"], records[0])
    mapping = DumpMapping(
        format=name,
        query=query,
        query_id=given.get("query_id") or query_id,
        chunks=place.path,
        answer_present=present,
        **fields,
        scores=_score_kind(lists, fields["score"], place.form.scores_are_distances),
    )
    return Decoder(mapping, place.form)


def _guess_rows(
    records: Sequence[AnyRow],
    form: DumpForm | None,
    given: Mapping[str, str],
    query: str | None,
) -> tuple[DumpMapping, DumpForm]:
    """How records are read that are a chunk each; an error where they are none either."""
    values = [record.values for record in records]
    query_id = given.get("query_id") or _first(values, named("retrieval")["row_id"], texts=False)
    text = given.get("text") or _first(values, named("hit")["text"])
    if "chunks" in given or text is None or (query is None and query_id is None):
        raise _not_found(records[0], form, given)
    found = form or forms()["pgvector"]
    fields = _hit_fields(values, found, given, records[0])
    if fields["id"] == query_id:
        others = [one for one in named("hit")["id"] if one != query_id]
        fields["id"] = given.get("id") or _first(values, others, texts=False)
    groups: dict[str, list[object]] = {}
    for value, key in zip(values, map(getter(query_id or query or ""), values), strict=True):
        groups.setdefault(str(key), []).append(value)
    mapping = DumpMapping(
        format=found.name,
        layout="rows",
        query=None if query == fields["text"] else query,
        query_id=query_id,
        **fields,
        scores=_score_kind([*groups.values()], fields["score"], None),
    )
    return mapping, found


def _is_own(value: object) -> bool:
    """Whether a record is as ragbench writes it: there is nothing to guess."""
    chunks = value.get("chunks") if is_object(value) and "query" in value else None
    own = {*named("hit")["own"]}
    return is_list(chunks) and all(is_object(hit) and own.issuperset(hit) for hit in chunks)


def _place(records: Sequence[AnyRow], form: DumpForm | None, path: str | None) -> _Place | None:
    counts: Counter[_Place] = Counter()
    for record in records:
        try:
            for place, lists in _candidates(record.values, form, path):
                # A list without a hit says little of the form: it counts if there is nothing else.
                counts[place] += 1000 if any(lists) else 1
                if any(lists):
                    break
        except ValueProblem as problem:
            error = Problem(message=str(problem), path=record.path, line=record.line)
            raise DataError([error]) from None
    return max(counts, key=counts.__getitem__) if counts else None


def _candidates(
    value: object, form: DumpForm | None, path: str | None
) -> Iterator[tuple[_Place, Sequence[Hits]]]:
    places = [(path, True)] if path is not None else [*_container_paths(value)]
    for where, is_named in places:
        held = chunks_getter(where)(value)
        for known in _tried() if form is None else (form,):
            if not is_named and form is None and known.name in _WITHOUT_SIGNATURE:
                continue  # anything may be written so: shape alone gives no role
            lists = known.unwrap(held)
            if lists is not None:
                yield _Place(where, known), lists
        if is_list(held) and (where == "chunks" or path is not None):
            yield _Place(where, form or forms()["plain"]), [held]


def _container_paths(value: object) -> Iterator[tuple[str, bool]]:
    """Where chunks may be, and whether a documented name says so.

    They are the record itself, its documented fields, any other, and those one deeper; never a
    field whose name says that it holds what is right.
    """
    yield "", True
    if not is_object(value):
        return
    names = named("retrieval")
    usual = [name for name in names["chunks"] if name in value]
    others = [
        name
        for name in value
        if name not in (*usual, *names["not_chunks"]) and not says_gold(str(name))
    ]
    for name in usual:
        yield name, True
    for name in (*usual, *others):
        inner = opened_json(value[name])
        if is_object(inner):
            for deeper in names["chunks"]:
                if deeper in inner:
                    yield f"{name}.{deeper}", True
    for name in others:
        held = opened_json(value[name])
        if is_object(held) or (is_list(held) and held and not isinstance(held[0], str)):
            yield name, False


def _refuse_unread_ranking(records: Sequence[AnyRow], chunks: str) -> None:
    """Refuses documents beside a ranking of them that is not understood.

    Raises:
        DataError: such a ranking is in a record.
    """
    for record in records:
        path = unread_ranking(record.values, chunks)
        if path is not None:
            message = (
                f"field '{path}' ranks the chunks in '{chunks}' in a form that is not known, so "
                "their order may be the one before the ranking. If it is the right one, say so: "
                f"--field chunks={chunks}"
            )
            problem = Problem(message=message, path=record.path, line=record.line)
            raise DataError([problem])


def _refuse_blank(hits: Hits, text: str, first: AnyRow) -> None:
    """Refuses chunks of which none has a text: they are read in the wrong place.

    Raises:
        DataError: the texts of all chunks are empty.
    """
    if not hits or any(_text_at(hit, text) for hit in hits):
        return
    letters = Counter[str]()
    for hit in hits:
        for path, value in text_paths(hit):
            is_id = path.rpartition(".")[2] in named("hit")["id"]
            if value.strip() and path != text and not is_id:
                letters[path] += len(value)
    if letters:
        longest, _ = letters.most_common(1)[0]
        remedy = f"Fields with a text: {', '.join(letters)}. Choose one: --field text={longest}"
    elif any(getter(text)(hit) is not None for hit in hits if is_object(hit)):
        remedy = "No other field of them holds one; leave the field out where only ids are known"
    else:
        return  # ids alone
    problem = Problem(
        message=f"every chunk is empty under '{text}'. {remedy}", path=first.path, line=first.line
    )
    raise DataError([problem])


def _text_at(hit: object, path: str) -> bool:
    value = hit if isinstance(hit, str) else text_of(getter(path)(hit))
    return bool(value and value.strip())


def _spelled(values: Sequence[object], paths: Sequence[str]) -> tuple[str, ...]:
    """The paths, and after them the names in the records that differ in case and marks alone."""
    keys = {squash(key): key for value in values if is_object(value) for key in value}
    return (*paths, *(keys[squash(path)] for path in paths if squash(path) in keys))


def _first(values: Sequence[object], paths: Sequence[str], *, texts: bool = True) -> str | None:
    kinds = (str, list) if texts else (str, int, float, bool)
    for path in _spelled(values, paths):
        find = getter(path)
        if any(isinstance(find(value), kinds) for value in values):
            return path
    return None


def _hit_fields(
    hits: Hits, form: DumpForm, given: Mapping[str, str], first: AnyRow
) -> dict[str, Any]:
    objects = [hit for hit in hits if is_object(hit)]
    if form.name in _PLAIN:
        form = forms()["plain"]
    text = given.get("text") or _text_path(objects, form)
    names = ("metadata", "text", "id", "score", "relevant", "known")
    known = {name for what in names for name in named("hit")[what]}
    if text is None and any(set(hit) - known for hit in objects):
        message = (
            f"the chunks have no text that is recognised: a chunk is {_described(objects[0])}. "
            "Say where it is: --field text=FIELD (dots lead into objects: payload.body)"
        )
        problem = Problem(message=message, path=first.path, line=first.line, field="text")
        raise DataError([problem])
    named_scores = (path for path in form.score if any(path in one for one in objects))

    with_objects = (at for at in form.metadata if any(map(is_object, map(getter(at), objects))))
    labelled = _spelled(objects, named("hit")["relevant"])
    named_so = ((at, [*map(getter(at), objects)]) for at in labelled)
    told = ((at, [one for one in values if one is not None]) for at, values in named_so)
    # What holds a score may have the name of a label.
    labels = (at for at, values in told if values and None not in map(as_label, values))

    found: dict[str, Any] = {
        "id": _first(objects, form.id, texts=False),
        "text": text or "text",
        "score": _first(objects, form.score, texts=False) or next(named_scores, None),
        "metadata": next(with_objects, None),
        "relevant": next(labels, None),
    }
    return found | {name: path for name, path in given.items() if name in found}


def _text_path(objects: Sequence[object], form: DumpForm) -> str | None:
    """The candidate that most hits have a text at, or else the field with the longest texts."""
    counts: Counter[str] = Counter()
    paths = _spelled(objects, (*form.text, *named("hit")["text"]))
    for path in paths:
        texts = map(text_of, map(getter(path), objects))
        counts[path] = sum(bool(text and text.strip()) for text in texts)
    best = max(paths, key=counts.__getitem__, default=None)
    if best is not None and counts[best] > 0:
        return best
    # A candidate that is there and empty: another field that holds texts may be anything.
    for path in form.text:
        parent, _, name = path.rpartition(".")
        if any(is_object(o := getter(parent)(hit)) and name in o for hit in objects):
            return path
    return None if form.any_text_in is None else _longest(objects, form.any_text_in)


def _longest(objects: Sequence[object], below: str) -> str | None:
    total: Counter[str] = Counter()
    for hit in objects:
        for path, text in text_paths(getter(below)(hit), below):
            if not below and path.partition(".")[0] in named("hit")["metadata"]:
                continue  # what is said of a chunk is not the chunk
            name = path.rpartition(".")[2]
            if name in named("hit")["text"] or (
                len(text) >= _SHORTEST_TEXT and " " in text.strip()
            ):
                total[path] += len(text)
    return max(total, key=total.__getitem__) if total else None


def _score_kind(
    lists: Sequence[Hits], path: str | None, distances: bool | None
) -> ScoreKind | None:
    """Guesses which scores are the better ones.

    A retriever hands over the best chunk first. When scores fall, higher is better; when they
    rise, lower is. Only when neither holds, the field's name decides, or what its tool is known
    for: Milvus, for one, calls both a distance.
    """
    if path is None:
        return None
    orders = ScoreOrders()
    for hits in lists:
        found = map(as_score, map(getter(path), hits))
        scores = [score for score in found if score is not None]
        if len(scores) > 1:
            orders.add(scores)
    if orders.falling != orders.rising:
        return ScoreKind.DISTANCE if orders.rising > orders.falling else ScoreKind.SIMILARITY
    if distances is None:
        distances = path.rpartition(".")[2].lower() in named("hit")["distance"]
    return ScoreKind.DISTANCE if distances else ScoreKind.SIMILARITY


def _not_found(record: AnyRow, form: DumpForm | None, given: Mapping[str, str]) -> DataError:
    asked = f" in the form '{form.name}'" if form is not None else ""
    where = f" under '{given['chunks']}'" if "chunks" in given else ""
    # The options that read the list with the longest texts, where there is one.
    best = max(_text_lists(record.values, ""), default=None)
    values = record.values.values() if is_object(record.values) else [record.values]
    held = "chunks" if any(is_list(one) or is_object(one) for one in values) else "query"
    proposal = f"Say where they are: --field {held}=FIELD --field text=FIELD, or name the --format"
    if best is not None:
        _, place, text = best
        found = f"--field chunks={place}" + (f" --field text={text}" if text else "")
        proposal = f"Perhaps: {found}, or name the --format"
    elif is_object(record.values) and "query" in record.values:
        proposal += "; questions alone are asked first: ragbench eval DATASET --rag RAG"
    described = f"the record is {_described(record.values)}"
    message = f"no chunks are recognised{asked}{where}; {described}. {proposal}"
    if is_object(record.values):
        message += "\n" + "\n".join(fields_shown(record.values))
    return DataError([Problem(message=message, path=record.path, line=record.line)])


def _plain_name(name: str) -> str:
    return name.replace("_", "").lower()


def _text_lists(value: object, path: str) -> Iterator[tuple[int, str, str]]:
    """Lists that may be the chunks: letters in them, their path, the path of the text in a hit."""
    value = opened_json(value)
    if is_list(value) and value and path:
        found = _longest(value, "")
        no_text = {*named("hit")["no_text"]}
        if found is not None and not no_text.isdisjoint(map(_plain_name, found.split("."))):
            return  # what was asked or answered
        if found is None and all(isinstance(one, str) for one in value):
            if _plain_name(path.rpartition(".")[2]) in no_text:
                return
            yield sum(len(one) for one in value if isinstance(one, str)), path, ""
        elif found is not None:
            letters = sum(len(text) for one in value for at, text in text_paths(one) if at == found)
            yield letters, path, found
    elif is_object(value) and path.count(".") < _DEEPEST:
        for name, held in value.items():
            yield from _text_lists(held, f"{path}.{name}" if path else name)


def _described(value: object) -> str:
    if is_object(value):
        return f"an object with {', '.join(list(value)[:12]) or 'no fields'}"
    if is_list(value):
        return f"a list of {len(value)}"
    return describe(value)
