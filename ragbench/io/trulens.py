"""TruLens' records: the table of ``get_records_and_feedback``.

Facts of the form: a row per record with ``app_id``, ``record_id``, ``input``, ``output``, ``ts``,
``latency`` (seconds), ``total_tokens``, and the JSON of app, record, cost and performance. The mean
of a feedback function is under its name, what it was called with under ``NAME_calls``. There is no
column with what was retrieved. ``tags`` is ``-`` where there are none.

The other tool's scores are kept as metadata: they are not measured here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragbench.io.detect import container_rows
from ragbench.io.eval_tools import one_part
from ragbench.io.fields import field_names
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.spans import answer_in, question_in
from ragbench.io.values import is_missing

_CASE_FIELDS: Mapping[str, str] = {
    "record_id": "id",
    "latency": "seconds",
    "total_tokens": "total_tokens",
}
_IGNORED_COLUMNS = frozenset({"app_json", "record_json", "cost_json", "perf_json", "tags"})
"""What repeats other columns, or says nothing of a case."""
_NO_CONTEXTS_NOTE = (
    "a table of TruLens' records has no column with what was retrieved: metrics of retrieval are "
    "skipped. Traces have it"
)


def read_records(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per record of TruLens; of several apps, `source.split` names one.

    ``formats.toml`` names this reader.

    Two apps' answers to the same question are not one system's.
    """
    # All rows first: whether several apps are in the file is seen in all of them together.
    rows = list(container_rows(source, problems, field_names("array")["cases"]))
    app_names = [_app_name(row.values) for row in rows]
    if rows:
        source.notes[_NO_CONTEXTS_NOTE] = None
    for row in one_part(rows, app_names, source):
        case = _record_case(row, source, problems)
        if case is not None:
            yield row._replace(values=case, cells=False)


def _app_name(values: Mapping[str, object]) -> str:
    """The app of a TruLens record as its user names it, with its version; else its id.

    A user picks one of several apps by this name (``--split``).
    """
    words: list[str] = []
    for column in ("app_name", "app_version"):
        word = values.get(column)
        if isinstance(word, str) and not is_missing(word):
            words.append(word)
    return " ".join(words) or str(values.get("app_id"))


def _record_case(row: Row, source: Source, problems: Problems) -> dict[str, object] | None:
    """The fields of a case from a TruLens record; None, and a problem, without a question.

    TruLens' own scores and all else become metadata. The tool's names are noted as roles, which
    reports show.
    """
    query = question_in(row.values.get("input"))
    if query is None:
        message = "expected the question of a record, as text or in an object"
        problems.add(message, path=row.path, line=row.line, field="input")
        return None
    source.roles |= {"query": "input", "response": "output"}
    case: dict[str, object] = {"query": query, "response": answer_in(row.values.get("output"))}
    metadata: dict[str, object] = {}
    for name, value in row.values.items():
        if name in _IGNORED_COLUMNS or name in ("input", "output"):
            continue
        # A blank cell says nothing.
        if isinstance(value, str) and is_missing(value):
            continue
        target = _CASE_FIELDS.get(name)
        if target is None:
            metadata[name] = value
        else:
            source.roles[target] = name
            case[target] = value
    case["metadata"] = metadata
    return case
