"""Cases and documents of a source: every field checked, every problem noted, ids unique.

A row of a case gives a case and, where a system's answers stand in it, what they are recorded as.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

from ragbench.core.case import Case
from ragbench.core.chunk import Document
from ragbench.core.outcome import Outcome
from ragbench.core.record import Record
from ragbench.core.trace import Entry
from ragbench.errors import ConfigError, DataError
from ragbench.io.converted import text_files
from ragbench.io.detect import detect_format, reader_of
from ragbench.io.dumps.form import fields_shown, getter, without_path
from ragbench.io.expected import is_expectation, merged, take_expectations
from ragbench.io.fields import (
    ANSWER_FIELDS,
    HIT_FIELDS,
    IGNORED,
    absence,
    disagreement,
    document_fields,
    entry_fields,
    may_be_reference,
    outcome_fields,
    squash,
    targets,
)
from ragbench.io.overrides import Overrides, joined_rows, meant_fields
from ragbench.io.proposals import question_problem
from ragbench.io.recorded import Retrieved, outcomes
from ragbench.io.research_sets import flatten_squad_row
from ragbench.io.source import (
    IdRegister,
    Kind,
    Problems,
    Row,
    Source,
    derived_id,
    noting_read_errors,
)
from ragbench.io.unread import gold_of_objects
from ragbench.io.values import (
    HOLDS_NUL,
    NumberText,
    ValueProblem,
    check_depth,
    converters,
    has_carriage_return,
    is_list,
    parse_cell,
    spelled_list,
    with_line_feeds,
)
from ragbench.safe_text import listed_names
from ragbench.shell import shell_quoted

RecordT = TypeVar("RecordT")
RowsOf = Callable[..., Iterable[Row]]
"""A reader of rows: given the source, and ``problems`` by name."""


def read_cases(
    source: str | Path,
    *,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    split: str | None = None,
    encoding: str | None = None,
    problems: Problems | None = None,
) -> Iterator[Case]:
    """Reads cases; nothing is opened before the first one is asked for.

    A bad record never hides the others: it is noted, the good ones are yielded, and the error
    with all problems comes at the end. Who needs all or nothing takes nothing before the end.

    Example:
        >>> for case in read_cases("cases.jsonl", fields={"query": "Frage"}):  # doctest: +SKIP
        ...     print(case.id)

    Args:
        source: a file, a folder, ``-`` for standard input, or ``hf:owner/name[:split]``.
        format: name of the format; recognised from the source when not given.
        fields: field of a case to field of the source, for names that are not recognised. An
            empty name means that no field of the source has it.
        split: part of the source, for formats that have parts (``beir``, ``trec``, ``hf``).
        encoding: how text is encoded, when it is neither UTF-8 nor UTF-16 with a mark.
        problems: takes what is wrong; then no error is raised, and the caller looks at it.

    Yields:
        The cases, in the order of the source, with unique ids.

    Raises:
        ConfigError: no such format, encoding, or field of a case (at the call).
        DataError: something is wrong with the source (at the end; ``problems`` not given).
        MissingExtraError: the format needs a package that is not installed.
    """
    overrides = meant_fields("cases", fields or {})
    decoder = EntryDecoder(
        problems=Problems() if problems is None else problems,
        fields=overrides.fields,
        outcomes=False,
        overrides=overrides,
    )
    place = Source.of(source, split=split, encoding=encoding)
    reader = None if format is None else partial(reader_of(format), kind="cases")
    return _cases_of(decoder, place, reader, is_raised=problems is None)


def _cases_of(
    decoder: EntryDecoder, place: Source, reader: RowsOf | None, *, is_raised: bool
) -> Iterator[Case]:
    """The cases of a source, with a better error for a table in which no column has the question.

    Such a table is refused once, with a proposal of what its columns are, and not once per row.

    Args:
        decoder: makes the cases of rows, and keeps the problems.
        reader: reads the rows; None where the format is to be recognised.
        is_raised: whether problems are raised at the end; else the caller looks at them.
    """
    for entry in decoder.records(place, reader, is_raised=False):
        yield entry.case
    if not is_raised:
        return
    # One error for the table, with a proposal for its columns, in place of one a row.
    if decoder.headless:
        plan = decoder.plans[tuple(decoder.headless[0].values)]
        problem = question_problem(
            [row.values for row in decoder.headless],
            plan.unknown,
            [target for target, _ in plan.bindings],
            place.name,
            reads_labels=False,
        )
        if problem is not None:
            raise DataError([problem])
    decoder.problems.raise_if_any()


def read_documents(
    source: str | Path,
    *,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    split: str | None = None,
    encoding: str | None = None,
    problems: Problems | None = None,
) -> Iterator[Document]:
    """Reads the documents of a corpus; arguments, order and errors as for ``read_cases``.

    Every field is checked, every problem noted, and ids are unique: an index is built of them.
    """
    overrides = meant_fields("documents", fields or {})
    decoder = DocumentDecoder(
        problems=Problems() if problems is None else problems, fields=overrides.fields
    )
    place = Source.of(source, split=split, encoding=encoding)
    reader = None if format is None else partial(reader_of(format), kind="documents")
    return decoder.records(place, reader, is_raised=problems is None)


def skipped_files(source: str | Path, *, format: str | None = None) -> list[str]:
    """The files of a folder of texts that `read_documents` does not read, such as images.

    A user is shown them, so that documents do not go missing unnoticed. Empty for any other source:
    there a file that cannot be read is an error.
    """
    origin = Source.of(source)
    if origin.path is None or not origin.is_folder:
        return []
    if format is None:
        format = detect_format(origin, "documents", Problems())
    if format != "text":
        return []
    return list(text_files(origin.path, others=True))


# --- which field of a row is which of a record

_MOST_PLANS = 1000
"""Plans that are kept: a file whose records all have other fields must not fill the memory."""


class FieldPlan(Record):
    """What the fields of a source mean, for records with these fields."""

    bindings: tuple[tuple[str, str], ...]
    """Field of the record and field of the source, in the order of the source."""
    unknown: tuple[str, ...]
    """Fields of the source that mean nothing known: they become metadata."""
    chunks: str | None = None
    """The field of the source that holds what was retrieved."""
    has_outcome: bool = False
    """Whether any of the fields is what a system did."""
    rival: str | None = None
    """An unknown field that may hold the reference, where ``answer`` is taken for it."""


class FieldMap(dict[tuple[str, ...], FieldPlan]):
    """Plans by the names of a record's fields, each made when it is first asked for.

    Names given by the user count first, then those that are recognised.

    Args:
        overrides: field of the record to field of the source; the names otherwise recognised for
            it then count no more. An empty name means that no field has it.
        has_answers: whether a system's answers stand in the source, also when a record has none:
            what stands beside an answer then counts in every record.
        is_join: whether the source is there for a system's answers alone.

    Raises:
        ConfigError: an override is for a field that does not exist.
    """

    def __init__(
        self,
        kind: Kind,
        overrides: Mapping[str, str],
        *,
        has_answers: bool = False,
        is_join: bool = False,
    ) -> None:
        """Refuses an override of a field that does not exist: it is most often misspelled.

        An override is a field that the user named, with the name that it has in the source.
        """
        self.overrides = overrides
        self._has_answers = has_answers
        """Whether a system's answers are in the source, also where a record has none."""
        self._is_join = is_join
        """Whether the source gives only a system's answers, for the cases of another source."""
        self._targets = targets(kind)
        """Field by each recognised name, in the spelling of `squash`."""
        names = (*entry_fields(), *HIT_FIELDS) if kind == "cases" else (*document_fields(),)
        for target in overrides:
            if target not in names:
                raise ConfigError(f"no field '{target}' to map to.{listed_names(target, names)}")
        self.unseen = {name for name, source in overrides.items() if source} - HIT_FIELDS.keys()
        """Fields with an override whose source field no record had so far."""

    def __missing__(self, names: tuple[str, ...]) -> FieldPlan:
        """Makes the plan for records with these fields, and keeps it for the next such record.

        A plan says which field of a case each field of the source is. A plan is made once for each
        set of names, since a file may have millions of records. The order counts: what the user
        named, then names that are recognised, then what names mean beside each other; the rest
        becomes metadata.
        """
        if len(self) >= _MOST_PLANS:
            self.clear()
        overridden: list[tuple[str, str]] = []
        for own_target, source in self.overrides.items():
            if source in names and own_target not in HIT_FIELDS:
                overridden.append((own_target, source))
                self.unseen.discard(own_target)
        overridden_targets = {target for target, _ in overridden}
        overridden_sources = {source for _, source in overridden}

        recognised: list[tuple[str | None, str]] = []
        for name in names:
            if name in overridden_sources:
                continue
            field = self._targets.get(IGNORED.sub("", name).casefold())
            # An override is the only source of its field: any other is nothing known.
            if field in self.overrides:
                field = None
            recognised.append((field, name))
        if self._is_join or _has_outcome(overridden, recognised):
            recognised = self._settled(recognised, overridden_targets)
        has_outcome = _has_outcome(overridden, recognised)

        bindings = overridden
        unknown: list[str] = []
        for field, name in recognised:
            if field is None:
                unknown.append(name)
            else:
                bindings.append((field, name))
        chunks = [source for target, source in bindings if target == "retrieved_contexts"]
        plan = FieldPlan(
            bindings=tuple(bindings),
            unknown=tuple(unknown),
            rival=self._rival(recognised, unknown),
            chunks=chunks[0] if chunks else None,
            has_outcome=has_outcome,
        )
        self[names] = plan
        return plan

    def _rival(
        self, recognised: Sequence[tuple[str | None, str]], unknown: Sequence[str]
    ) -> str | None:
        """The unknown field beside ``answer`` that may be the reference in its place; else None.

        A file of results often calls the system's answer ``answer``, and the right one ``truth`` or
        ``gold``. Taking the wrong one for the reference would turn the evaluation round, so the
        caller refuses until the user says which is which.
        """
        if not {"reference", "response"}.isdisjoint(self.overrides):
            return None
        meanings = {(target, squash(name)) for target, name in recognised}
        if ("reference", "answer") not in meanings:
            return None
        for name in unknown:
            if may_be_reference(name):
                return name
        return None

    def _settled(
        self, recognised: list[tuple[str | None, str]], overridden: set[str]
    ) -> list[tuple[str | None, str]]:
        """Settles fields whose names leave their meaning open, by the other fields of the record.

        Early RAGAS files hold question, contexts, answer and ground_truth: there ``answer`` is a
        system's answer, and so it is in a file of answers alone. Elsewhere it is the right answer.
        A confidence, an error or a time belongs to a system only where the record has the system's
        answer, too.

        Args:
            recognised: the field that each name is known for, or None, and the name in the source.
            overridden: the fields that the user named a source for.
        """
        all_targets = set(overridden)
        reference_count = 1 if "reference" in overridden else 0
        for target, _ in recognised:
            if target is not None:
                all_targets.add(target)
            if target == "reference":
                reference_count += 1
        has_second_reference = reference_count > 1 and "retrieved_contexts" in all_targets
        if self._is_join or has_second_reference:
            # Where another field is the response, this one is nothing known.
            has_response = "response" in all_targets or "response" in self.overrides
            meaning = None if has_response else "response"
            recognised = _with_meaning_of_answer(recognised, meaning)
        if "retrieved_context_ids" not in (*all_targets, *self.overrides):
            recognised = self._with_ids_of_contexts(recognised)
        has_answers = self._has_answers or self._is_join
        if has_answers or not all_targets.isdisjoint(ANSWER_FIELDS):
            return recognised
        return _without_outcomes(recognised)

    def _with_ids_of_contexts(
        self, recognised: list[tuple[str | None, str]]
    ) -> list[tuple[str | None, str]]:
        """The fields, with a name such as ``context_ids`` beside ``contexts`` as the ids of these.

        A `RetrievalResult` is written so. Alone, the name does not say whose ids these are: the
        retrieval's, or the gold's.
        """
        context_names = [name for target, name in recognised if target == "retrieved_contexts"]
        overriding_name = self.overrides.get("retrieved_contexts")
        if overriding_name:
            context_names.append(overriding_name)
        # The names of `contexts`, without their plural: "contexts" has "contextids".
        id_names = {squash(name).removesuffix("s") + "ids" for name in context_names}
        with_ids: list[tuple[str | None, str]] = []
        for target, name in recognised:
            if target is None and squash(name) in id_names:
                with_ids.append(("retrieved_context_ids", name))
            else:
                with_ids.append((target, name))
        return with_ids


def _has_outcome(
    overridden: Sequence[tuple[str, str]], recognised: Sequence[tuple[str | None, str]]
) -> bool:
    """Whether one of the fields of a row is surely what a system did, such as retrieved chunks.

    Only then rows give outcomes, and ambiguous names such as ``answer`` or ``error`` are read as a
    system's: alone, ``answer`` may as well be the right answer.

    Args:
        overridden: field of a record and name in the source, as the user said.
        recognised: the same by name; None for a name that means nothing known.
    """
    outcomes = outcome_fields()
    return any(target in outcomes for target, _ in (*overridden, *recognised))


def _with_meaning_of_answer(
    recognised: Sequence[tuple[str | None, str]], meaning: str | None
) -> list[tuple[str | None, str]]:
    """The fields of a row, with the one called ``answer`` as another field than the reference.

    Files of results call the system's answer so, and datasets the right one.

    Args:
        recognised: field of a record, or None, and the name in the source.
        meaning: the field that ``answer`` is in place of the reference; None: nothing known.
    """
    fields: list[tuple[str | None, str]] = []
    for target, name in recognised:
        if target == "reference" and squash(name) == "answer":
            fields.append((meaning, name))
        else:
            fields.append((target, name))
    return fields


def _without_outcomes(
    recognised: Sequence[tuple[str | None, str]],
) -> list[tuple[str | None, str]]:
    """The fields of a row, with those of a system's outcome as nothing known: they become metadata.

    A dataset may have a ``confidence`` or an ``error`` of its own. Without any answer beside them,
    such fields must not count as the outcome of a system.

    Args:
        recognised: field of a record, or None, and the name in the source.
    """
    outcomes = outcome_fields()
    fields: list[tuple[str | None, str]] = []
    for target, name in recognised:
        if target in outcomes:
            fields.append((None, name))
        else:
            fields.append((target, name))
    return fields


# --- rows to records

_NO_VALUE = frozenset({"NaN", "nan", "NULL", "Null", "null", "<NA>", "#N/A"})
"""What other programs write into a cell of a table that has no value."""
_MAY_BE_ANY_WORD = frozenset({"query", "id", "text", "title"})
"""Fields whose text may be such a word."""
_MAY_BE_BLANK = frozenset({"text", "response"})
"""Fields in which a blank text is a value: a document, an answer. A table's blank cell holds no
answer: it may be that none is known."""


@dataclass(kw_only=True, slots=True)
class RowDecoder(ABC, Generic[RecordT]):
    """Makes records of rows; what is wrong with a row is noted, and it gives none."""

    KIND: ClassVar[Kind]
    MAIN: ClassVar[str]
    """The field without which there is no record; an id is made of it where there is none."""

    problems: Problems
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """Field of the record to field of the source, as the user named them."""
    has_answers: bool = False
    """See `FieldMap`."""
    outcomes: bool = True
    """Whether what a system did is looked at; it never becomes a part of the case."""
    is_join: bool = False
    """Whether the rows only add to other cases: they may lack a query, and an id may come back."""
    no_values: Counter[str] = field(default_factory=Counter[str])
    """Cells of a table that hold a word such as NaN instead of a value, by field of the source."""
    overrides: Overrides | None = None
    """Columns of the source that are to be joined to one field, where they are not yet."""
    null_ids: Counter[str] = field(default_factory=Counter[str])
    """Nulls among the ids of relevant contexts, which are skipped, by field of the source."""
    plans: FieldMap = field(init=False)
    """How the rows so far were read."""
    headless: list[Row] = field(default_factory=list[Row])
    """The first rows of a table that has no column for the main field."""
    _paths: tuple[tuple[str, Callable[[object], object]], ...] = field(init=False)
    """What a mapping names that stands deeper in a row."""
    _ids: IdRegister = field(default_factory=IdRegister)
    """The ids so far, which have to be unique in a source."""
    _count: int = 0
    """Rows so far, the wrong ones included; the line of a row that names none."""

    def __post_init__(self) -> None:
        """Refuses a mapping to a field that does not exist, before anything is read.

        It also prepares the paths of the mapping (names with dots) that lead into a row's objects.
        """
        self.plans = FieldMap(
            type(self).KIND, self.fields, has_answers=self.has_answers, is_join=self.is_join
        )
        paths: list[tuple[str, Callable[[object], object]]] = []
        for target, path in self.fields.items():
            # A path of a chunk's field leads on from the chunk, not from the row.
            if "." in path and target not in HIT_FIELDS:
                paths.append((path, getter(path)))
        self._paths = tuple(paths)

    def records(
        self, source: Source, reader: RowsOf | None = None, *, is_raised: bool = True
    ) -> Iterator[RecordT]:
        """The records of a source: its cases, or its documents.

        Notes what only the end shows, too: no record at all, or a mapping that never applied.

        Args:
            reader: reads the rows; None where the format is to be recognised.
            is_raised: whether all problems are raised at the end; else the caller looks at them.
        """
        problems = self.problems
        count_before = problems.count
        # Looking at a folder may fail as well as reading a file.
        with closing(source), noting_read_errors(source.name, problems):
            for row in self._rows(source, reader):
                record = self.decode(row)
                if record is not None:
                    yield record
        # That a source could not be read at all is a problem that is noted already.
        if self._count == 0 and problems.count == count_before:
            problems.add(f"holds no {self.KIND}", path=source.name)
        if self._count > 0:
            for target in sorted(self.plans.unseen):
                name = self.fields[target]
                message = f"no record has the field that the mapping {target}={name} names"
                problems.add(message, path=source.name, field=name)
        if is_raised:
            problems.raise_if_any()

    def _rows(self, source: Source, reader: RowsOf | None) -> Iterable[Row]:
        """The rows of a source, with columns joined where the user joins them.

        Empty where no format is recognised, which is noted then.

        Args:
            reader: reads the rows; None where the format is to be recognised.
        """
        if reader is None:
            format_name = detect_format(source, self.KIND, self.problems)
            if format_name is None:
                return ()
            reader = partial(reader_of(format_name), kind=self.KIND)
        if self.overrides is not None and self.overrides.columns:
            reader = partial(joined_rows, self.overrides, reader)
        return reader(source, problems=self.problems)

    def decode(self, row: Row) -> RecordT | None:
        """The record of a row; None if something is wrong with the row, which is then noted.

        So a bad row never hides what is wrong with those behind it.
        """
        self._count += 1
        with noting_read_errors(row.path, self.problems, row.line):
            return self._decoded(row)
        return None

    @abstractmethod
    def _decoded(self, row: Row) -> RecordT | None:
        """The case, or the document, of a row; None where something wrong was noted.

        Cases and documents each have a method of this name. What it raises, `decode` notes as a
        problem of the row.
        """

    def _converted_fields(self, row: Row, plan: FieldPlan) -> dict[str, Any] | None:
        """The fields of a record from those of a row, checked and converted; None if one is wrong.

        Every wrong field is noted before None is returned, so that a user mends a row in one go.
        The method runs for each row, and a file may have millions: a look at a value's type comes
        before a call.

        Args:
            plan: which field of the record each field of the row is; others become metadata.
        """
        path, line, values, cells, _ = row
        count_before = self.problems.count
        record: dict[str, Any] = {}
        has_nul = False
        # Outcomes that are not asked for are not converted: a damaged answer must not keep a case
        # from being read.
        ignored = outcome_fields() if plan.has_outcome and not self.outcomes else ()
        for target, source in plan.bindings:
            value = values[source]
            if value is None or target in ignored:
                continue
            if type(value) is float and isnan(value):
                continue
            if type(value) is str:
                may_be_empty = cells or not value or value.isspace()
                if may_be_empty and not self._has_value(target, source, value, cells):
                    continue
            try:
                converted = self._converted(target, source, value, cells)
            except ValueProblem as problem:
                message = str(problem)
                is_repeated = has_nul and message == HOLDS_NUL
                if not is_repeated:  # a NUL is reported once of a record
                    self.problems.add(message, path=path, line=line, field=source)
                has_nul = has_nul or message == HOLDS_NUL
                continue
            if target in record:
                converted = self._second_value(target, source, record[target], converted, row, plan)
            record[target] = converted
        if plan.unknown:
            _add_metadata(record, row, plan.unknown, self.problems)
        return record if self.problems.count == count_before else None

    def _second_value(
        self, target: str, source: str, earlier: Any, value: Any, row: Row, plan: FieldPlan
    ) -> Any:
        """The value of a record's field that has two fields of the source, which have to agree.

        Disagreement is noted as a problem. Only the expectations of both fields count together: an
        answer can have to fulfil several.

        Args:
            target: the field of the record.
            source: the second field of the source with a value for `target`.
            earlier: the value of the first field of the source.
            value: the value of the second field of the source.
        """
        if is_expectation(target):
            return merged(earlier, value)
        if value != earlier:
            # The first binding of the field: the second one is the source at hand.
            earlier_source = next(name for bound, name in plan.bindings if bound == target)
            message = disagreement(target, earlier_source, source)
            self.problems.add(message, path=row.path, line=row.line, field=source)
        # The two are equal, or the row gives no record.
        return value

    def _converted(self, target: str, source: str, value: object, cells: bool) -> Any:
        """The value of a record's field, checked and in its own type.

        The order counts: a cell of a table is parsed first, and only then has its line ends mended,
        since inside a spelled list they are escapes.

        Args:
            target: the field of the record.
            source: what the source calls it.
            cells: whether the value is a cell of a table, in which lists are spelled out.

        Raises:
            ValueProblem: the field cannot hold it.
        """
        if cells:
            cell = value if isinstance(value, str) else str(value)
            value = parse_cell(target, cell)
            # Only now: a cell that spells a list has the line ends of its texts as escapes.
            if self.KIND == "cases" and target not in _EXACT and has_carriage_return(value):
                value = with_line_feeds(value)
        elif type(value) is str and value[:1] == "[":
            value = spelled_list(target, value)
        value = gold_of_objects(target, value)
        if target == "reference_context_ids" and is_list(value) and None in value:
            self.null_ids[source] += value.count(None)
        return converters()[target](value)

    def _has_value(self, target: str, source: str, value: str, cells: bool) -> bool:
        """Whether a cell of a table, or a text, holds a value rather than nothing.

        A blank is a value only as the text of a document, or as an answer outside of tables. Other
        programs write NaN or NULL into empty cells: as a reference, the word would be compared with
        answers. Such cells are counted for a note.

        Args:
            target: the field of the record.
            source: what the source calls it.
            cells: whether the value is a cell of a table.
        """
        if not value or value.isspace():
            # A blank is no reference, but is the text of a document as it stands.
            return target in _MAY_BE_BLANK and (target == "text" or not cells)
        if cells and value in _NO_VALUE and target not in _MAY_BE_ANY_WORD:
            self.no_values[source] += 1
            return False
        return True

    def _has_identity(self, record: dict[str, Any], row: Row, plan: FieldPlan) -> bool:
        """Sees to it that a record has its main field (query or text), and an id of its own.

        False, and a problem, where it lacks the field or has an earlier record's id: results are
        kept and compared by id. A made id depends on the text alone, so that it stays when records
        move in the file. Rows that are joined with other cases may repeat an id: the first of them
        counts there.
        """
        if self.MAIN not in record:
            if not self.is_join or "id" not in record:
                self._note_absence(row, plan)
                return False
            record[self.MAIN] = ""  # the id says which case the row is joined with
        line = self._count if row.line is None else row.line
        if "id" not in record:
            prefix = "q" if self.MAIN == "query" else "d"  # a query's id, or a document's
            text_id = derived_id(prefix, record[self.MAIN])
            record["id"] = self._ids.add_derived(text_id, line)
            return True
        if self.is_join:
            return True
        earlier = self._ids.add(record["id"], line)
        if earlier is not None:
            message = f"'{record['id']}' is already the id of record {earlier}; ids must be unique"
            self.problems.add(message, path=row.path, line=line, field="id")
        return earlier is None

    def _note_absence(self, row: Row, plan: FieldPlan) -> None:
        """Notes that a row has no main field (query or text): empty here, or under no known name.

        The second is the same for all rows with these fields, so it is noted once, with a count;
        where lists or objects may hold the field, the message shows them.
        """
        target = self.MAIN
        source = next((source for bound, source in plan.bindings if bound == target), None)
        if source is not None:
            message = f"expected the {target} as text, found nothing"
            self.problems.add(message, path=row.path, line=row.line, field=source)
            return
        if row.cells and len(self.headless) < _HEADLESS_ROWS:
            self.headless.append(row)
        message = absence(target, row.values)
        if any(type(value) in (list, dict) for value in row.values.values()):
            message += "\n" + "\n".join(fields_shown(row.values))
        self.problems.add_kind((row.path, target, plan), message, path=row.path, line=row.line)


@dataclass(kw_only=True, slots=True)
class EntryDecoder(RowDecoder[Entry]):
    """Makes cases of rows, each with the outcomes that the row records."""

    KIND: ClassVar[Kind] = "cases"
    MAIN: ClassVar[str] = "query"

    chunks: Retrieved = field(default_factory=Retrieved)
    """How retrieved chunks that are objects are read."""

    def _decoded(self, row: Row) -> Entry | None:
        """The case of a row, with what a system did where `outcomes` asks for it.

        None if something in the row is wrong.

        The order counts: paths become names before a plan is chosen by the names, and fields that
        only lead to others (`unanswerable`, `must_contain`) are gone before the case is made.
        """
        if self._paths or type(row.values.get("answers")) is dict:
            row = self._with_deep_values(row)
        plan = self.plans[tuple(row.values)]
        row = _with_line_feeds(row, plan)
        # What is wrong may be noted without an error: a case is made of a row without any problem.
        count_before = self.problems.count
        self._check_rival(row, plan)
        record = self._converted_fields(row, plan)
        if record is None:
            return None
        _join_references(record)
        self._take_answerable(record, row)
        self._take_behavior(record, row, plan)
        expectations = take_expectations(record)
        if expectations:
            record["expectations"] = expectations
        recorded: Mapping[str, Outcome[Any]] = {}
        if self.outcomes and (plan.has_outcome or row.recorded):
            recorded = outcomes(record, row, self.chunks, plan.chunks, self.problems)
        if self.problems.count > count_before or not self._has_identity(record, row, plan):
            return None
        return Entry(case=Case(**record), recorded=recorded)

    def _check_rival(self, row: Row, plan: FieldPlan) -> None:
        """Notes that ``answer`` was taken for the reference, and another text may be it as well.

        Then the system's answer might be compared with itself, or with nothing: the user has to
        choose. The problem is noted once for all rows with these fields.
        """
        rival = plan.rival
        if rival is None or not isinstance(row.values[rival], str):
            return
        # `add_kind` puts the number of further records in the place of {more}.
        message = (
            f"'answer' and '{rival}' may both be the reference{{more}}. Say which is whose: "
            f"--field reference={shell_quoted(rival)} --field response=answer, if the answer is "
            "the system's; --field reference=answer, if it is the right one"
        )
        self.problems.add_kind((row.path, "rival", plan), message, path=row.path, line=row.line)

    def _take_answerable(self, record: dict[str, Any], row: Row) -> None:
        """Turns a record's ``unanswerable`` round into the ``answerable`` that a case has.

        Datasets have either. Both fields may be given, if they agree: ``answerable: false`` beside
        ``unanswerable: true``.
        """
        if "unanswerable" not in record:
            return
        if record.get("answerable") is record["unanswerable"]:
            message = "'answerable' and its opposite are given and contradict each other"
            self.problems.add(message, path=row.path, line=row.line, field="answerable")
        record["answerable"] = not record.pop("unanswerable")

    def _take_behavior(self, record: dict[str, Any], row: Row, plan: FieldPlan) -> None:
        """Reads a record's `expected_behavior`: a refusal says that the case has no answer.

        Other words say nothing. The field stays in the metadata, since it may hold more than that.

        Args:
            record: changed in place: the field leaves it, and may set ``answerable``.
        """
        if "expected_behavior" not in record:
            return
        value, answerable = record.pop("expected_behavior")
        source = next(name for target, name in plan.bindings if target == "expected_behavior")
        record["metadata"] = {**(record.get("metadata") or {}), source: value}
        if answerable is None:
            return
        # A field of its own may have said it already: the two have to agree.
        if record.setdefault("answerable", answerable) is not answerable:
            message = "says another thing than the field on whether there is an answer"
            self.problems.add(message, path=row.path, line=row.line, field=source)

    def _with_deep_values(self, row: Row) -> Row:
        """The row with values from inside its objects at its top, where the user named their paths.

        Fields are recognised by the names at the top of a row. SQuAD's object of answers is
        unfolded, too.
        """
        values = row.values
        if type(values.get("answers")) is dict:
            values = flatten_squad_row(values)
        for path, find in self._paths:
            if path in values:  # a field with this very name counts before a path
                continue
            value = find(values)
            if value is not None:
                values = {**without_path(values, path), path: value}
        if values is row.values:
            return row
        return row._replace(values=values)


_HEADLESS_ROWS = 1000
"""Rows of a table without a question by which is proposed what its columns are."""
_EXACT = frozenset(
    {"id", "cluster", "tags", "grades", "reference_context_ids", "retrieved_context_ids"}
)
"""Fields that are compared with names from elsewhere: they stay as they are."""


def _join_references(record: dict[str, Any]) -> None:
    """Makes a record's one reference, and alternatives to it, of all fields with right answers.

    A case has one reference; the other right answers are alternatives to it. The order counts: the
    first one becomes the reference.

    Args:
        record: changed in place: ``answers`` leaves it.
    """
    references: tuple[str, ...] = record.pop("reference", ())
    for answer in record.pop("answers", ()):
        if answer not in references:
            references += (answer,)
    if references:
        record["reference"] = references[0]
    if len(references) > 1:
        alternatives = record.get("alternative_references", ())
        record["alternative_references"] = references[1:] + alternatives


def _with_line_feeds(row: Row, plan: FieldPlan) -> Row:
    """A row whose texts have the line ends of a checkout on any system.

    How lines end is no part of a case: else a checkout on Windows would edit each of them.

    Ids and names that are compared with others (`_EXACT`) keep theirs.
    """
    if not any(map(_has_carriage_return, row.values.values())):
        return row
    exact_names = {source for target, source in plan.bindings if target in _EXACT}
    values: dict[str, object] = {}
    for name, value in row.values.items():
        if name in exact_names:
            values[name] = value
        else:
            values[name] = with_line_feeds(value)
    return row._replace(values=values)


def _has_carriage_return(value: object) -> bool:
    """Whether a value of a row has a carriage return, so that its line ends have to be mended.

    Most values are texts: they are looked at here, which saves a second call for each.
    """
    if type(value) is str:
        return "\r" in value
    is_nested = type(value) is list or type(value) is dict
    return is_nested and has_carriage_return(cast("object", value))


class DocumentDecoder(RowDecoder[Document]):
    """Makes the documents of a corpus of rows."""

    KIND: ClassVar[Kind] = "documents"
    MAIN: ClassVar[str] = "text"

    def _decoded(self, row: Row) -> Document | None:
        """The document of a row of a corpus; None where something wrong was noted.

        Line ends need no mending here: the readers of text files have done it.
        """
        plan = self.plans[tuple(row.values)]
        record = self._converted_fields(row, plan)
        if record is None or not self._has_identity(record, row, plan):
            return None
        return Document(**record)


def _add_metadata(
    record: dict[str, Any], row: Row, unknown: tuple[str, ...], problems: Problems
) -> None:
    """Puts fields that mean nothing known into a record's metadata, beside what the row has there.

    None of the user's fields is lost: exports have them. A field that is in both with different
    values is a problem, since one would be lost.
    """
    nested: dict[str, Any] = record.get("metadata") or {}
    metadata: dict[str, Any] = {}
    for name in unknown:
        value = row.values[name]
        # Kept as people see it in the table; a field for numbers reads the number behind it.
        if isinstance(value, NumberText):
            value = str(value)
        metadata[name] = value
        try:
            check_depth(value)
        except ValueProblem as problem:
            problems.add(str(problem), path=row.path, line=row.line, field=name)
    for name in unknown:
        if name in nested and metadata[name] != nested[name]:
            message = "stands in the record and in its 'metadata', and the two disagree"
            problems.add(message, path=row.path, line=row.line, field=name)
    record["metadata"] = {**nested, **metadata}
