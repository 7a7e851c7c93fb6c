"""Proposes what the columns of a spreadsheet are whose headers are not names of fields.

A user reads each proposal beside an example and pastes the line of options that accepts it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from ragbench.core.record import Record, field, replace
from ragbench.errors import Problem
from ragbench.io.fields import says_verdict
from ragbench.io.headers import SIDES_OF, header_meaning, numbered_headers
from ragbench.io.ratings import RatingScale, scale_of
from ragbench.io.values import is_missing
from ragbench.io.verdicts import is_verdict
from ragbench.shell import shell_quoted

_EXAMPLE = 50
"""Characters of a value that a proposal shows."""
_QUESTION_MARKS = ("?", "？", "؟")
_FEWEST_NUMBERS = 2
"""Rows from which on consecutive numbers are taken for a count of the rows."""
_VERDICT = "verdict"
_PROPOSED = (
    "query",
    "reference",
    "response",
    "reference_contexts",
    "retrieved_contexts",
    "seconds",
    "milliseconds",
)
"""The fields that are proposed, in the order in which they are shown."""
_DESCRIPTIONS = {
    "query": "the question",
    "reference": "the right answer",
    "response": "your system's answer",
    "reference_contexts": "the right source",
    "retrieved_contexts": "what your system retrieved",
    "seconds": "the time that your system took",
    "milliseconds": "the time that your system took",
}


class Column(Record):
    """A column that is not read, with what its header and its values suggest."""

    name: str
    values: tuple[str, ...]
    """Those that are not missing."""
    meaning: str
    """A field, a key of `SIDES_OF`, `_VERDICT`, or empty."""

    @property
    def example(self) -> str:
        """The column's first value, cut to `_EXAMPLE` characters to fit beside its name.

        A user recognises an unread column by it. Line breaks become spaces: a proposal is one line.
        """
        text = " ".join(self.values[0].split())
        return text if len(text) <= _EXAMPLE else f"{text[:_EXAMPLE]}..."


class Proposal(Record):
    """The fields that the columns of a table may be."""

    fields: Mapping[str, tuple[Column, ...]] = field(default_factory=dict[str, tuple[Column, ...]])
    """Field to its column; several columns if each holds one retrieved text."""
    doubtful: tuple[Column, ...] = ()
    """Columns that may be either of two fields."""
    verdicts: Column | None = None
    """A column with people's verdicts on the answers."""
    scale: RatingScale | None = None
    """The scale of the verdicts, where they are ratings; None where they are yes and no."""
    lacks_query: bool = False
    """Whether the table has no column for the question, and none is proposed."""

    @property
    def is_empty(self) -> bool:
        """Whether no column suggests a field: then there is no proposal to show to the user."""
        return not self.fields and not self.doubtful

    def lines(self, path: str) -> Iterator[str]:
        """The proposal as printed lines: fields with a column and an example, then the options.

        The user compares the examples, and pastes the line of options, which has to be a valid one.

        Args:
            path: the table, as its user wrote it.
        """
        for name, columns in self.fields.items():
            headers = ", ".join([shell_quoted(column.name) for column in columns])
            yield f"  {name}: {headers} ({columns[0].example})"
        if self.verdicts is not None:
            yield f"  {self._described_verdicts(self.verdicts)}"
        for column in self.doubtful:
            yield f"  in doubt: {shell_quoted(column.name)} ({column.example})"
        options = self.options(path)
        if options:
            yield "Check them, and add:"
            yield f"  {options}"
        for column in self.doubtful:
            header = shell_quoted(column.name)
            # A noun such as "answer" may be either of two fields: each gets an option of its own.
            for name in SIDES_OF.get(column.meaning, (column.meaning,)):
                yield f"  --field {name}={header}   if it is {_DESCRIPTIONS[name]}"

    def options(self, path: str) -> str:
        """The command-line options that accept the proposed fields, except those in doubt.

        The user pastes the line, so names are quoted for a shell. A lone NAME is his to fill in.
        Several columns for the retrieved texts become ``context_1``, ``context_2`` and so on, names
        that ``--field`` knows.
        """
        options = ["--field query=NAME"] if self.lacks_query else []
        for name, columns in self.fields.items():
            if len(columns) == 1:
                options.append(f"--field {name}={shell_quoted(columns[0].name)}")
                continue
            for number, column in enumerate(columns, start=1):
                options.append(f"--field context_{number}={shell_quoted(column.name)}")
        if self.verdicts is not None:
            options.append(f"--labels {labels_value('answer_correct', path, self.scale)}")
        return " ".join(options)

    def _described_verdicts(self, column: Column) -> str:
        """The proposal's line about a column of people's verdicts on answers, with an example.

        Of ratings it also says from which rating on an answer counts as right: only the user can
        check that bound.
        """
        header = shell_quoted(column.name)
        if self.scale is None:
            return f"verdicts of people: {header} ({column.example})"
        return f"ratings of people: {header} ({column.example}); {self.scale.described}"


def question_problem(
    rows: Sequence[Mapping[str, object]],
    unused: Collection[str],
    used_fields: Collection[str],
    path: str,
    *,
    reads_labels: bool = True,
) -> Problem | None:
    """The error for a table in which no column has the question, with the columns that may have it.

    Without a question there are no cases. The message spares the user a look into the docs: it
    proposes a field for each column and the options to paste.

    Args:
        rows: records of the table.
        unused: their columns without a role.
        used_fields: the fields that have a column.
        path: the table, as its user wrote it.
        reads_labels: whether the caller can read verdicts of people, too; else none are proposed.

    Returns:
        None where the headers suggest neither questions nor answers: the table may be of documents.
    """
    proposal = propose(rows, unused, used_fields)
    if not reads_labels:
        proposal = replace(proposal, verdicts=None)
    if proposal.fields.keys().isdisjoint({"query", "reference", "response"}):
        return None
    message = "no column has the name of the query"
    if "query" not in proposal.fields:
        message += ", and none looks like questions: put the header of the right one for NAME"
    lines = "\n".join(proposal.lines(path))
    return Problem(message=f"{message}. The columns may be:\n{lines}", path=path)


def propose(
    rows: Sequence[Mapping[str, object]], unused: Collection[str], used_fields: Collection[str]
) -> Proposal:
    """Proposes a field for each unread column of a table whose header and values suggest one.

    A header such as "Answer" may be the right answer or the system's. That is settled where the
    table has a column for one of the two already, and in doubt otherwise: a wrong guess would be
    measured unnoticed.

    Args:
        rows: records of the table.
        unused: their columns without a role.
        used_fields: the fields that have a column.
    """
    columns: list[Column] = []
    for name in unused:
        column = _column(name, rows)
        if column is not None:
            columns.append(column)
    fields = _clear_fields(columns, used_fields)
    for noun in SIDES_OF:
        candidates: list[Column] = []
        for column in columns:
            # The question may be recognised by its values, and have such a header: "Ticket text".
            if column.meaning == noun and (column,) != fields.get("query"):
                candidates.append(column)
        missing = _missing_fields(noun, {*used_fields, *fields})
        if len(candidates) == 1 and len(missing) == 1:
            # The table has the field of the one side, so that this is the field of the other.
            fields[missing[0]] = (candidates[0],)
    all_fields = {*used_fields, *fields}
    proposed_columns = [column for group in fields.values() for column in group]
    doubtful: list[Column] = []
    for column in columns:
        if column not in proposed_columns and _missing_fields(column.meaning, all_fields):
            doubtful.append(column)
    verdicts = _verdicts(columns, all_fields)
    return Proposal(
        fields={name: fields[name] for name in _PROPOSED if name in fields},
        doubtful=tuple(doubtful),
        verdicts=verdicts,
        scale=None if verdicts is None else scale_of(verdicts.name, verdicts.values),
        lacks_query="query" not in all_fields,
    )


def _clear_fields(
    columns: Sequence[Column], used_fields: Collection[str]
) -> dict[str, tuple[Column, ...]]:
    """Field to columns, where exactly one column, or a numbered group, suggests the field.

    Only these are proposed without doubt. The order counts: the question and numbered retrieved
    texts come first, since their columns may have headers that suggest another field, too.
    """
    fields: dict[str, tuple[Column, ...]] = {}
    questions = _questions(columns)
    if questions is not None:
        fields["query"] = (questions,)
        columns = [column for column in columns if column is not questions]
    numbered = _numbered_texts(columns)
    if numbered:
        fields["retrieved_contexts"] = numbered
    for name in _PROPOSED:
        candidates: list[Column] = []
        for column in columns:
            if column.meaning == name and column not in numbered:
                candidates.append(column)
        # Of two columns with one meaning, only their owner knows.
        if len(candidates) == 1 and name not in fields:
            fields[name] = (candidates[0],)
    return {name: group for name, group in fields.items() if name not in used_fields}


def _missing_fields(meaning: str, used_fields: Collection[str]) -> list[str]:
    """The fields that a column of this meaning may still be: those that no column of the table has.

    Args:
        meaning: a field; a key of `SIDES_OF`, which may be either of two fields; or anything else,
            such as `_VERDICT`, for which no field is proposed.
    """
    if meaning in SIDES_OF:
        return [name for name in SIDES_OF[meaning] if name not in used_fields]
    return [meaning] if meaning in _PROPOSED and meaning not in used_fields else []


def _column(name: str, rows: Sequence[Mapping[str, object]]) -> Column | None:
    """An unread column with its values and the field that they suggest; None if all are empty.

    The header alone misleads ("Answered?", "Source" above page numbers), so values can take away
    what it suggests: then nothing is proposed for the column. The order of the tests counts:
    ratings would also pass for other numbers.
    """
    values: list[str] = []
    for row in rows:
        value = row.get(name)
        if not is_missing(value):
            values.append(str(value))
    if not values:
        return None
    meaning = header_meaning(name)
    if scale_of(name, values) is not None:
        meaning = _VERDICT
    elif all(map(is_verdict, values)):
        meaning = _meaning_of_verdicts(name, meaning)
    elif meaning in ("seconds", "milliseconds"):
        meaning = meaning if all(map(_is_number, values)) else ""
    elif meaning.startswith(("source", "retrieved", "reference_")) and not _are_texts(values):
        # The name of a model, a page or a file, an id, a grade.
        meaning = ""
    elif _are_row_numbers(values):
        meaning = ""
    return Column(name=name, values=tuple(values), meaning=meaning)


def _meaning_of_verdicts(name: str, meaning: str) -> str:
    """The meaning of a column that holds only yes and no, or other words of a verdict.

    It is people's verdicts where the header says so. It is an answer only under a clear header,
    because yes and no may answer a question; else the meaning is empty, and nothing is proposed.
    """
    if says_verdict(name):
        return _VERDICT
    is_asked = name.rstrip().endswith("?")  # such as "Answered?"
    if meaning in ("reference", "response") and not is_asked:
        return meaning
    return ""


def _are_texts(values: Sequence[str]) -> bool:
    """Whether more than half of the column's values have several words, as answers and passages do.

    Names, ids and grades are single words: a column of them is not proposed as text.
    """
    texts = [value for value in values if len(value.split()) > 1]
    return 2 * len(texts) > len(values)


def _are_row_numbers(values: Sequence[str]) -> bool:
    """Whether the column's values count the rows, as those below ``Ref #`` do.

    By its header such a column may be taken for one of sources; row numbers name no source.
    """
    if len(values) < _FEWEST_NUMBERS or not all(value.isdecimal() for value in values):
        return False
    return all(int(after) == int(before) + 1 for before, after in pairwise(values))


def _is_number(text: str) -> bool:
    """Whether a cell is a number: a column is proposed for times only if all its cells are."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _questions(columns: Sequence[Column]) -> Column | None:
    """The column of the questions, without which a table gives no cases; None in doubt.

    The only column with a header for questions counts first. Else it is the only column whose
    values end with question marks: among the columns with such a header, or among all columns.
    """
    by_header = [column for column in columns if column.meaning == "query"]
    if len(by_header) == 1:
        return by_header[0]
    by_values = [column for column in by_header or columns if _are_questions(column.values)]
    return by_values[0] if len(by_values) == 1 else None


def _are_questions(values: Sequence[str]) -> bool:
    """Whether more than half of a column's values end with a question mark of some script.

    By this a column of questions is recognised when its header says nothing.
    """
    questions = [value for value in values if value.rstrip().endswith(_QUESTION_MARKS)]
    return 2 * len(questions) > len(values)


def _numbered_texts(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Columns that differ in a number alone, such as "Chunk 1", with a retrieved text in each.

    Empty where there is no such group, or several: then which one holds what was retrieved is
    unknown.
    """
    column_of: dict[str, Column] = {}
    for column in columns:
        if _are_texts(column.values):
            column_of[column.name] = column
    groups = numbered_headers(list(column_of))
    if len(groups) != 1:
        return ()
    return tuple([column_of[name] for name in groups[0]])


def _verdicts(columns: Sequence[Column], fields: Collection[str]) -> Column | None:
    """The column of people's verdicts on the answers, to propose as labels; None in doubt.

    Yes and no go before ratings, which need a bound. Without a column of answers there is nothing
    that the verdicts could be on.
    """
    verdicts = [column for column in columns if column.meaning == _VERDICT]
    if len(verdicts) > 1:
        verdicts = [column for column in verdicts if scale_of(column.name, column.values) is None]
    if len(verdicts) != 1 or not {"reference", "response"}.issubset(fields):
        return None
    return verdicts[0]


def labels_value(metric: str, path: str, scale: RatingScale | None = None) -> str:
    """The value of ``--labels`` that reads a column of people's verdicts, quoted for a shell.

    Messages print it for a user to paste: ``METRIC=FILE``, with a bound such as ``>=4`` for
    ratings.

    Args:
        path: the file, as its user wrote it; anything that is no file is written as FILE.
        scale: the scale of ratings, which has the bound; None for verdicts of yes and no.
    """
    file = path if Path(path).is_file() else "FILE"
    bound = "" if scale is None else f">={scale.bound}"
    return shell_quoted(f"{metric}{bound}={file}")
