"""What ``--field`` and ``fields=`` accept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragbench import open_source, read_cases
from ragbench.core.trace import Entry
from ragbench.errors import ConfigError, DataError

TABLE = "Frage,Hit 1,Hit 2,Hit 10,Gold\nWho?,Ada wrote it.,,A tenth.,d1;d2\nWhen?,,,,\n"
HITS = {"query": "Frage", "context_10": "Hit 10", "context_1": "Hit 1", "context_2": "Hit 2"}


def recorded(entry: Entry, stage: str) -> Any:
    """What the source holds of a stage."""
    value = entry.recorded[stage].value
    assert value is not None
    return value


def table(folder: Path) -> Path:
    path = folder / "sheet.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


def test_numbered_columns_are_one_retrieval_in_their_order(tmp_path: Path) -> None:
    with open_source(table(tmp_path), fields=HITS) as source:
        assert source.info.mapping["retrieved_contexts"] == "Hit 1 + Hit 2 + Hit 10"
        first, second = source

    assert recorded(first, "retrieve").contexts == ["Ada wrote it.", "A tenth."]
    assert recorded(second, "retrieve").contexts == []
    assert first.case.metadata == {"Gold": "d1;d2"}


def test_a_numbered_column_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the mapping context_2=Hit 3 names"):
        list(read_cases(table(tmp_path), fields={"query": "Frage", "context_2": "Hit 3"}))


@pytest.mark.parametrize("name", ["relevant_ids", "gold_doc_ids", "Reference Context IDs"])
def test_every_documented_name_of_a_field_is_accepted(tmp_path: Path, name: str) -> None:
    cases = [*read_cases(table(tmp_path), fields={"question": "Frage", name: "Gold"})]
    assert cases[0].reference_context_ids == ("d1", "d2")
    with open_source(table(tmp_path), fields={"question": "Frage", name: "Gold"}) as source:
        assert next(iter(source)).case.reference_context_ids == ("d1", "d2")


def test_two_names_of_one_field_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'question' and 'query' both map the field 'query'"):
        read_cases(table(tmp_path), fields={"question": "Frage", "query": "Gold"})


def test_a_name_that_is_unknown_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no field 'qery' to map to"):
        read_cases(table(tmp_path), fields={"qery": "Frage"})
