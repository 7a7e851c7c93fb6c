"""What ``--field`` and ``fields=`` accept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragbench import open_source, read_cases
from ragbench.core.trace import Entry
from ragbench.errors import ConfigError, DataError
from tests.unit.io.traces import written

TABLE = "Frage,Hit 1,Hit 2,Hit 10,Gold\nWho?,Ada wrote it.,,A tenth.,d1;d2\nWhen?,,,,\n"
HITS = {"query": "Frage", "context_10": "Hit 10", "context_1": "Hit 1", "context_2": "Hit 2"}


def recorded(entry: Entry, stage: str) -> Any:
    """What the source holds of a stage."""
    value = entry.recorded[stage].value
    assert value is not None
    return value


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return written(tmp_path / "sheet.csv", TABLE)


def test_numbered_columns_are_one_retrieval_in_their_order(table: Path) -> None:
    with open_source(table, fields=HITS) as source:
        with_hits, without_hits = source

    assert recorded(with_hits, "retrieve").contexts == ["Ada wrote it.", "A tenth."]
    assert recorded(without_hits, "retrieve").contexts == []


def test_numbered_columns_are_no_metadata(table: Path) -> None:
    with open_source(table, fields=HITS) as source:
        entry, _ = source

    assert entry.case.metadata == {"Gold": "d1;d2"}


def test_the_mapping_of_numbered_columns_is_reported(table: Path) -> None:
    with open_source(table, fields=HITS) as source:
        assert source.info.mapping["retrieved_contexts"] == "Hit 1 + Hit 2 + Hit 10"


def test_a_numbered_column_that_is_not_there_is_a_problem(table: Path) -> None:
    with pytest.raises(DataError, match="the mapping context_2=Hit 3 names"):
        list(read_cases(table, fields={"query": "Frage", "context_2": "Hit 3"}))


@pytest.mark.parametrize("name", ["relevant_ids", "gold_doc_ids", "Reference Context IDs"])
def test_every_documented_name_of_a_field_is_accepted(table: Path, name: str) -> None:
    cases = list(read_cases(table, fields={"question": "Frage", name: "Gold"}))

    assert cases[0].reference_context_ids == ("d1", "d2")


def test_two_names_of_one_field_are_refused(table: Path) -> None:
    with pytest.raises(ConfigError, match="'question' and 'query' both map the field 'query'"):
        read_cases(table, fields={"question": "Frage", "query": "Gold"})


def test_a_name_that_is_unknown_is_refused(table: Path) -> None:
    with pytest.raises(ConfigError, match="no field 'qery' to map to"):
        read_cases(table, fields={"qery": "Frage"})
