"""promptfoo's configuration (``promptfooconfig.yaml``) and its files of tests, as cases.

Facts of the form, as promptfoo reads it:

- ``tests`` is a list, or names files next to the configuration: ``tests.csv``,
  ``file://tests/*.yaml``. An entry of the list may name files, too.
- A test has ``vars`` (a mapping, or a file with one) and ``assert``. A variable that is a list
  stands for a test per entry. ``defaultTest`` has variables and assertions of every test.
- A table of tests has a column per variable, and ``__expected`` (also ``__expected1`` ...) with an
  assertion per cell: ``contains: two years``; a text without a kind is the whole answer.

A configuration holds nothing that a system did: a variable such as ``context`` is the text that the
prompt is given, and becomes metadata.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import NamedTuple

from ragbench.core.in_words import UnreadableError
from ragbench.io.detect import CONTAINERS, container_rows, detect_container, reader_of
from ragbench.io.expected import expectation_kinds, promptfoo_expectations
from ragbench.io.fields import field_names, outcome_fields
from ragbench.io.json_files import load
from ragbench.io.promptfoo_asserts import is_read, kinds_of_assertions, references
from ragbench.io.read import FieldMap
from ragbench.io.source import Kind, Problems, Row, Source, noting_read_errors
from ragbench.io.values import as_list, as_object, is_list, is_missing, is_object
from ragbench.io.yaml_cases import load_yaml

Values = Mapping[str, object]

_FILE = "file://"
_DATA_SUFFIXES = frozenset({".yaml", ".yml", ".json", ".jsonl", ".csv", ".tsv", ".xlsx"})
_TEXT_SUFFIXES = frozenset({".txt", ".md"})
_MAX_TESTS = 10_000
"""Tests that lists in one test's variables may stand for."""
_READ_RESULTS_INSTEAD = "read its results instead: promptfoo eval -o results.json"
_ASSERTION_CELL = re.compile(
    r"(?P<kind>[a-z][a-z0-9:-]*?)(?:\([\d.]+\))?(?::\s*(?P<value>.*))?", re.DOTALL
)


class _Test(NamedTuple):
    """A test, with where it stands."""

    path: str
    line: int | None
    values: Values


def read_config(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per test of promptfoo's configuration, or of a file with tests.

    A note counts the assertions that are not read, because they need a program or a judge.
    """
    reader = _ConfigReader(source=source, problems=problems)
    for test in reader.tests():
        yield from reader.rows(test)
    if reader.unread:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(reader.unread.items()))
        source.notes[f"Assertions of promptfoo that are not read: {counts}"] = None


@dataclass(kw_only=True, slots=True)
class _ConfigReader:
    """Reads a configuration: first which tests there are, then what each of them says."""

    source: Source
    problems: Problems
    default: Values = field(default_factory=dict[str, object])
    """``defaultTest``."""
    unread: Counter[str] = field(default_factory=Counter[str])
    """Assertions that need a program or a judge, by kind."""
    fields: FieldMap = field(default_factory=lambda: FieldMap("cases", {}))
    """Which variable is which field of a case."""

    # --- which tests there are

    def tests(self) -> Iterator[_Test]:
        """Yields the tests of a configuration, of a list of tests, or of a table of tests.

        A configuration also says what all its tests have in common, which is kept in `default`.
        """
        container, _ = detect_container(self.source, "cases", self.problems)
        # Any other form is a table or lines of tests: only a document says what all tests share.
        if container not in ("yaml", "json"):
            yield from self._tests_of_rows(container_rows(self.source, self.problems))
            return
        document: object = None
        lines: Mapping[tuple[str | int, ...], int] = {}
        if container == "json":
            document = load(self.source, self.problems)
        else:
            file = load_yaml(self.source, self.problems)
            if file is not None:
                document = file.value
                lines = file.lines
        if is_object(document):
            self.default = self._default_test(document.get("defaultTest"))
            yield from self._listed_tests(document.get("tests"), ("tests",), lines)
        elif document is not None:
            yield from self._listed_tests(document, (), lines)

    def _default_test(self, value: object) -> Values:
        """The test whose parts all tests of the configuration share (``defaultTest``).

        It is an object, or the first record of a file that is named.
        """
        if not isinstance(value, str):
            return as_object(value)
        for file in self._files(value, None):
            for row in container_rows(file, self.problems):
                return row.values
        return {}

    def _listed_tests(
        self,
        tests: object,
        place: tuple[str, ...],
        lines: Mapping[tuple[str | int, ...], int],
    ) -> Iterator[_Test]:
        """Yields the tests of a list, whose entries may name files; no list counts as one entry.

        An entry that is neither a test nor a file is noted, and the others are read.

        Args:
            tests: the value under ``tests``, or the whole document.
            place: the keys that lead to the list in the document.
            lines: keys and positions that lead to a value, to the line on which the value begins.
        """
        entries = tests if is_list(tests) else [tests]
        for position, entry in enumerate(entries):
            line = lines.get((*place, position), lines.get(place))
            if isinstance(entry, str):
                for file in self._files(entry, line):
                    yield from self._tests_of_rows(self._rows_of(file))
            elif is_object(entry) and isinstance(entry.get("path"), str):
                # An object with a path is a generator of tests with its settings.
                self._note_program(str(entry["path"]), line)
            elif is_object(entry):
                if line is None:  # of JSON the lines are not known: the place in the list is shown
                    line = position + 1
                yield _Test(self.source.name, line, entry)
            else:
                message = "expected a test, as a mapping with 'vars', or the name of a file"
                self.problems.add(message, path=self.source.name, line=line, field="tests")

    def _rows_of(self, file: Source) -> Iterator[Row]:
        """Yields the records of a file that the configuration names.

        A file that cannot be read is a problem of the configuration: the other tests are read.
        """
        with noting_read_errors(file.name, self.problems):
            container, _ = detect_container(file, "cases", self.problems)
            if container in CONTAINERS:
                reader = reader_of(container)
                yield from reader(file, kind="cases", problems=self.problems)

    def _tests_of_rows(self, rows: Iterable[Row]) -> Iterator[_Test]:
        """Yields the tests of a file, whose records are tests, or rows of a table of tests.

        A test in a file of JSON may also be spelled as if it were the row of a table.
        """
        for row in rows:
            values = row.values
            # In a file of JSON, too, a test may be spelled as if it were the row of a table.
            if row.cells or "vars" not in values:
                values = _test_of_cells(values)
            yield _Test(row.path, row.line, values)

    def _files(self, name: str, line: int | None) -> Iterator[Source]:
        """Yields the files that a name in the configuration means, ``*`` in it for several.

        The files are looked for next to the configuration. A name that no file has is a problem,
        with its line.
        """
        if self.source.path is None:
            message = f"'{name}' is next to a configuration that is not a file here"
            self.problems.add(message, path=self.source.name, line=line)
            return
        relative = name.removeprefix(_FILE)
        # An address with a prefix of its own is of a package or a server, not of a file here.
        if Path(relative).suffix.lower() not in _DATA_SUFFIXES or "://" in relative:
            self._note_program(name, line)
            return
        folder = self.source.path.parent
        paths = [folder / relative]
        if "*" in relative:
            paths = sorted(folder.glob(relative))
        if not paths:
            self.problems.add(f"no file is named '{name}'", path=self.source.name, line=line)
        for path in paths:
            # The copy gets no stream: the one of `self.source` is of the configuration itself.
            yield replace(self.source, name=str(path), path=path, split=None, _stream=None)

    def _note_program(self, name: str, line: int | None) -> None:
        """Notes tests that a program makes: they are not read, as ragbench runs no such program.

        The problem names the results of promptfoo's own run, which hold these tests, too.
        """
        message = (
            f"'{name}' makes tests by a program or is not a file of tests: {_READ_RESULTS_INSTEAD}"
        )
        self.problems.add(message, path=self.source.name, line=line)

    # --- what a test says

    def rows(self, test: _Test) -> Iterator[Row]:
        """Yields the cases of one test, completed by what all tests share.

        A test whose variables are lists stands for several cases, see `_variables_of_each_test`.
        """
        variables = self._variables(test)
        if variables is None:
            return
        default_assertions = as_list(self.default.get("assert"))
        own_assertions = as_list(test.values.get("assert"))
        assertions = list(_without_sets([*default_assertions, *own_assertions]))
        for kind in kinds_of_assertions(assertions):
            if not is_read(kind):
                self.unread[kind] += 1
        # What the test says itself counts more than what all tests have in common.
        metadata = dict(as_object(self.default.get("metadata")))
        metadata.update(as_object(test.values.get("metadata")))
        description = test.values.get("description")
        if isinstance(description, str):
            metadata["description"] = description
        for test_variables in _variables_of_each_test(variables):
            case = self._case(test_variables, assertions, metadata)
            yield Row(test.path, test.line, case)

    def _variables(self, test: _Test) -> dict[str, object] | None:
        """The variables of a test, with the texts of files that they name.

        Returns:
            Name to value; None where a file cannot be read, which is then noted: without its text
                the test would be another one.
        """
        variables: dict[str, object] = {}
        # In this order, so that a variable of the test itself wins.
        for part in (self.default.get("vars"), test.values.get("vars")):
            if isinstance(part, str):
                for file in self._files(part, test.line):
                    # Variables from a file are those of its first record.
                    for row in islice(self._rows_of(file), 1):
                        variables |= row.values
            else:
                variables |= as_object(part)
        for name, value in variables.items():
            if isinstance(value, str) and value.startswith(_FILE):
                text = self._text_of(value, test.line)
                if text is None:
                    return None
                variables[name] = text
        return variables

    def _text_of(self, name: str, line: int | None) -> str | None:
        """The text of a file that a test's variable names; None, and a problem, without one.

        promptfoo puts the text in the place of a variable whose value begins with ``file://``. Only
        text files are read: other files would be run or parsed by promptfoo.
        """
        path = Path(name.removeprefix(_FILE))
        if self.source.path is None or path.suffix.lower() not in _TEXT_SUFFIXES:
            message = (
                f"'{name}' is not the name of a text file (.txt, .md): {_READ_RESULTS_INSTEAD}"
            )
            self.problems.add(message, path=self.source.name, line=line)
            return None
        with noting_read_errors(str(path), self.problems):
            data = self.source.limits.read_settings(self.source.path.parent / path)
            return data.decode("utf-8-sig", "replace").strip()
        return None  # it could not be read, which was noted

    def _case(
        self, variables: Values, assertions: Sequence[Values], metadata: Values
    ) -> dict[str, object]:
        """The fields of the case that a test is for one set of its variables.

        A variable's name says which field of the case it is: promptfoo's users choose the names.

        Args:
            variables: name, to the value that the prompt is given.
            assertions: what the test demands of the answer.
            metadata: what else is said of the test.
        """
        bindings = dict(self.fields[tuple(variables)].bindings)
        case: dict[str, object] = {}
        case_metadata: dict[str, object] = dict(metadata)
        # A variable with such a name was given to the prompt: no system has answered yet.
        outcome_names = {bindings[field] for field in outcome_fields() if field in bindings}
        for name, value in variables.items():
            if name in outcome_names or name == "metadata":
                case_metadata[name] = value
            else:
                case[name] = value
        if "query" not in bindings:
            # Where no name says so, the only variable with a text is the question.
            texts = [name for name, value in variables.items() if isinstance(value, str)]
            if len(texts) == 1:
                # The variable is a field of the case, or was kept as metadata above: a field is
                # moved to the query, metadata are copied there.
                case["query"] = case.pop(texts[0], variables[texts[0]])
        if "reference" not in bindings and "answers" not in bindings:
            case["answers"] = references(assertions, variables)
        expectations = promptfoo_expectations(assertions, variables)
        if expectations:
            case["expectations"] = expectations
        if case_metadata:
            case["metadata"] = case_metadata
        return case


def _without_sets(assertions: Iterable[object]) -> Iterator[Values]:
    """Yields the assertions of a test, with those of a set in the place of the set.

    A set of which all have to hold asks no more than its parts. A set with a threshold stays one: a
    part of it is enough.
    """
    for value in assertions:
        assertion = as_object(value)
        if assertion.get("type") == "assert-set" and assertion.get("threshold") is None:
            yield from _without_sets(as_list(assertion.get("assert")))
        else:
            yield assertion


def _variables_of_each_test(variables: Values) -> Iterator[Values]:
    """Yields the variables of each test that lists among a test's variables stand for.

    promptfoo makes a test of each combination of the lists' entries.

    Raises:
        UnreadableError: the lists make more than `_MAX_TESTS`: their number is a product.
    """
    lists: dict[str, Sequence[object]] = {}
    for name, value in variables.items():
        # An empty list would leave no combination, and so no test at all.
        if is_list(value) and value:
            lists[name] = value
    count = prod(len(entries) for entries in lists.values())
    if count > _MAX_TESTS:
        raise UnreadableError(f"lists in the variables of a test make {count:,} tests of it")
    for entries in product(*lists.values()):
        entry_of_list = dict(zip(lists, entries, strict=True))
        yield {**variables, **entry_of_list}


# --- tables of tests


def _test_of_cells(cells: Values) -> dict[str, object]:
    """A row of a table of promptfoo tests as a test, in the form of a configuration.

    Columns that begin with two underscores describe the test; each other one is a variable.
    """
    variables: dict[str, object] = {}
    metadata: dict[str, object] = {}
    assertions: list[Values] = []
    # The test holds these three objects, which are filled below.
    test: dict[str, object] = {"vars": variables, "assert": assertions, "metadata": metadata}
    for name, cell in cells.items():
        if is_missing(cell):
            continue
        if re.fullmatch(r"__expected\d*", name):
            assertions.append(_assertion_of(str(cell)))
        elif name == "__description":
            test["description"] = cell
        elif name.startswith("__metadata:"):
            metadata[name.removeprefix("__metadata:").removesuffix("[]")] = cell
        elif not name.startswith("__"):
            variables[name] = cell
    return test


def _assertion_of(cell: str) -> Values:
    """The assertion that a cell of a table of tests spells: a kind and value, or a whole answer.

    In a cell ``contains: two years`` is a kind with its value; a text without a kind is the right
    answer.
    """
    text = cell.strip()
    match = _ASSERTION_CELL.fullmatch(text)
    # A right answer may have a colon, too: only a kind that promptfoo knows is one.
    if match is None or match["kind"] not in _all_kinds():
        return {"type": "equals", "value": text}
    return {"type": match["kind"], "value": match["value"]}


@cache
def _all_kinds() -> frozenset[str]:
    """The kinds of promptfoo's assertions by which a cell may begin, each also with ``not-``.

    A text before a colon that is none of them belongs to a right answer.
    """
    kinds = set(expectation_kinds())
    for group, names in field_names("promptfoo").items():
        if group == "answer":  # no kinds, but the keys of an answer
            continue
        for kind in names:
            kinds.update((kind, f"not-{kind}"))
    return frozenset(kinds)
