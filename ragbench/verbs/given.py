"""What people give to the verbs: paths as text, rows as dicts, functions as systems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ragbench.core.case import Case
from ragbench.core.trace import Entry
from ragbench.errors import ConfigError
from ragbench.io.decoder import EntryDecoder
from ragbench.io.source import Problems, Row
from ragbench.rag.adapt import as_rag
from ragbench.stages.rag import RAG

GivenCases = str | Path | Iterable[Case | Entry | Mapping[str, object]]
"""A path, an address, or records: cases, cases with what is known of them, dicts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """Cases with what is known of where they come from."""

    entries: Iterable[Case | Entry]
    name: str = "dataset"
    path: str = ""
    notes: tuple[str, ...] = ()


def cases_of(given: object, stack: ExitStack) -> Dataset:
    """The cases of a path or of records; what is opened for them is closed with the stack."""
    if isinstance(given, (str, Path)):
        from ragbench.io.sources import open_source

        source = stack.enter_context(open_source(given))
        name = dataset_name(str(given))
        return Dataset(entries=source, name=name, path=str(given), notes=source.info.notes)
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise ConfigError(
            "cases are a path, or a list of cases or dicts, and not "
            f"{_kind(cast('Any', given))}: give "
            '[{"query": ..., "reference": ...}], or the path of a dataset'
        )
    return Dataset(entries=_entries(cast("Iterable[object]", given)))


def _entries(records: Iterable[object]) -> Iterator[Case | Entry]:
    """Records as they are, dicts as lines of a dataset; what is wrong is raised at the end."""
    problems = Problems()
    decoder = EntryDecoder(problems=problems, fields={})
    for number, record in enumerate(records, 1):
        if isinstance(record, (Case, Entry)):
            yield record
        elif isinstance(record, Mapping):
            values = {str(k): v for k, v in cast("Mapping[object, object]", record).items()}
            if (entry := decoder.decode(Row("cases", number, values))) is not None:
                yield entry
        else:
            raise ConfigError(
                f"case {number} is {_kind(record)}: a case is a dict such as "
                '{"query": ..., "reference": ...}, or a ragbench.Case'
            )
    problems.raise_if_any()


_GENERIC = ("cases", "queries", "test", "dev", "train", "questions")
"""File names that say nothing: the folder's name says more."""


def dataset_name(source: str) -> str:
    """The name that a dataset gets in reports."""
    if source == "-":
        return "stdin"
    if source.startswith("hf:"):
        return source[3:]
    path = Path(source)
    name = path.name.split(".")[0]
    if name in _GENERIC or not name:
        name = path.resolve().parent.name if name else path.resolve().name
    return name or "dataset"


def checked(call: str, **given: tuple[object, type]) -> None:
    """Refuses arguments of a wrong type, each given with the right one; None is always right.

    Raises:
        ConfigError: one is of another type.
    """
    for name, (value, kind) in given.items():
        if value is not None and not isinstance(value, kind):
            raise ConfigError(f"{call}({name}=...) takes {kind.__name__}, and not {_kind(value)}")


def rag_of(given: object) -> RAG | None:
    """A system from all that ``--rag`` and `as_rag` take; None for none."""
    if given is None:
        return None
    if isinstance(given, str):
        from ragbench.rag.load import load_rag

        return load_rag(given)
    return as_rag(given)


def _kind(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:60]!r}"
