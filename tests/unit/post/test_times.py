"""Dates of any spelling, years that are years, and ages that are not made up."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest

from ragbench import PostRetrieval, RetrievalResult
from ragbench.errors import DataError, InputError
from ragbench.ledger.folder import read_manifest
from ragbench.post.augment import Temporal
from ragbench.post.build import load_post_retrieval
from ragbench.post.chunks import age_text, known_time, parse_time
from ragbench.post.rerank import Rerank
from ragbench.post.rerankers import fusion
from ragbench.verbs.report import open_traces
from tests.behaviour.rags import NotingRAG, cases, run

NOW = datetime(2024, 6, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "shown", "precision"),
    [
        (1998, "1998", "year"),
        ("2024", "2024", "year"),
        (2024.0, "2024", "year"),
        ("1998 AD", "1998", "year"),
        ("2023-05", "2023-05", "month"),
        ("May 2023", "2023-05", "month"),
        ("May 3, 2024", "2024-05-03", "day"),
        ("3 May 2024", "2024-05-03", "day"),
        (20240501, "2024-05-01", "day"),
        ("Tue, 07 May 2024 22:00:00 -0400", "2024-05-08", "time"),
        (1714560000, "2024-05-01", "time"),
        (datetime(2024, 5, 1, 12), "2024-05-01", "time"),
        (date(2024, 5, 1), "2024-05-01", "day"),
        ("1714560000000000000", "2024-05-01", "time"),
    ],
)
def test_a_time_is_as_precise_as_it_was_reported(value: object, shown: str, precision: str) -> None:
    time = known_time(value)

    assert time is not None
    assert (time.shown, time.precision) == (shown, precision)


NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        NOON,
        NOON.replace(tzinfo=None),
        NOON.astimezone(timezone(timedelta(hours=8))),
        "2024-05-01T12:00:00",
        " 2024-05-01T14:00:00+02:00 ",
        1714564800,
        1714564800.0,
        1714564800000,
        "1714564800",
    ],
)
def test_one_point_in_time_in_many_spellings(value: object) -> None:
    assert parse_time(value) == NOON


@pytest.mark.parametrize(
    "value",
    ["May", "10:30", "summer", "", "x" * 1000, True, None, [2024], float("nan"), 1e300, "inf"],
)
def test_what_names_no_year_is_no_time(value: object) -> None:
    assert known_time(value) is None


@pytest.mark.parametrize(
    ("value", "age"),
    [
        (1998, "26 years old"),
        (2024, "this year"),
        (2025, "in 1 year"),
        ("2024-06", "this month"),
        ("2023-05", "13 months old"),
        ("2024-06-02", "today"),
        ("2024-06-01", "1 day old"),
        ("2024-06-04", "in 2 days"),
    ],
)
def test_an_age_is_no_more_precise_than_its_time(value: object, age: str) -> None:
    time = known_time(value)

    assert time is not None
    assert age_text(time, NOW) == age


DATED_STAGE = PostRetrieval(operators=(Temporal(field="at"),))
DATED_ITEM = {"text": "Text.", "metadata": {"at": "2024-12-31"}}


def test_now_in_a_mapping_is_a_text_too_and_a_wrong_one_is_refused() -> None:
    data = {"question": "?", "now": "2025-01-01T00:00:00Z", "memory_data": [DATED_ITEM]}

    assert DATED_STAGE.execute(data)["history_text"] == "[2024-12-31, 1 day old]\nText."

    with pytest.raises(InputError, match="now must be a time"):
        DATED_STAGE.execute({**data, "now": "soon"})


def test_a_file_sets_now_and_a_wrong_one_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "stage.yaml"

    file.write_text("now: 2024-06-02\noperators: [{action: augment, type: temporal}]\n")
    assert load_post_retrieval(file).now == NOW

    file.write_text("operators: [{action: none}]\nnow: soon\n")
    with pytest.raises(DataError, match=r"stage\.yaml:2: field 'now': now must be a date"):
        load_post_retrieval(file)


def test_only_what_reads_the_time_is_dated() -> None:
    within_another = fusion.ReciprocalRankFusionReranker(rerankers=[fusion.TimeWeightedReranker()])
    by_recency = fusion.WeightedReranker(factors=[fusion.Factor(field="recency")])
    timeless = fusion.WeightedReranker()

    for operator in (Rerank(reranker=within_another), Rerank(reranker=by_recency), Temporal()):
        assert PostRetrieval(operators=(operator,)).dated(NOW).now == NOW
    assert PostRetrieval(operators=(Rerank(reranker=timeless),)).dated(NOW).now is None


class Dated(NotingRAG):
    """Retrieves a text of 2019."""

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        return RetrievalResult(["Text."], context_metadata=[{"timestamp": 2019}])


def test_a_run_counts_from_its_date_records_it_and_keeps_it(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    without_date = PostRetrieval(operators=(Temporal(),))
    of_2020 = PostRetrieval(operators=(Temporal(),), now=datetime(2020, 1, 1, tzinfo=UTC))

    began = datetime.now(UTC)
    run(cases("a"), Dated(), new, post_retrieval=without_date)
    ended = datetime.now(UTC)
    settings = read_manifest(new / "manifest.json").settings["post_retrieve"]
    recorded = datetime.fromisoformat(settings["now"])
    assert recorded.date() in {began.date(), ended.date()}

    # The same command without a date goes on with the one that the run has.
    run(cases("a"), Dated(), old, post_retrieval=of_2020)
    run(cases("a"), Dated(), old, post_retrieval=without_date)
    outcome = next(open_traces(old)).trace.context
    assert outcome.value is not None
    assert outcome.value.contexts == ["[2019, 1 year old]\nText."]
