"""Ratings of answers on a scale become right and wrong by a bound that the user says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragbench.errors import ConfigError, DataError
from ragbench.io.people import LabelBook, read_people
from ragbench.io.ratings import RatingBound, metric_and_bound, rating_of, says_rating, scale_of

RATED = "question,answer,stars\nCan bees fly?,Yes.,4\nCan fish fly?,Yes.,2\nCan cows?,No.,\n"


@pytest.mark.parametrize(
    ("cell", "rating"),
    [
        pytest.param(4, 4.0, id="number"),
        pytest.param("4.5", 4.5, id="half"),
        pytest.param("4,5", 4.5, id="decimal comma"),
        pytest.param("4/5", 4.0, id="of five"),
        pytest.param("3 von 5 Punkten", None, id="other words"),
        pytest.param("3 von 5", 3.0, id="German"),
        pytest.param("2 stars", 2.0, id="stars in words"),
        pytest.param("★★★☆☆", 3.0, id="stars"),
        pytest.param("⭐️⭐️", 2.0, id="coloured stars"),
        pytest.param("good", None, id="word"),
        pytest.param(True, None, id="truth value"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_a_rating_is_read_as_people_write_it(cell: object, rating: float | None) -> None:
    assert rating_of(cell) == rating


@pytest.mark.parametrize(
    ("header", "is_rating"),
    [
        ("Stars (1-5)", True),
        ("Bewertung", True),
        ("Note /5", True),
        ("Puntuación", True),
        ("Retrieval score", False),
        ("Confidence score", False),
        ("Topic", False),
    ],
)
def test_a_header_says_whether_it_is_of_ratings(header: str, is_rating: bool) -> None:
    assert says_rating(header) is is_rating


@pytest.mark.parametrize(
    ("header", "values", "ends"),
    [
        pytest.param("Stars", ["5", "1"], (1, 5), id="seen"),
        pytest.param("Stars (1-5)", ["3", "2"], (1, 5), id="of the header"),
        pytest.param("Score", ["3/10"], (1, 10), id="of the cells"),
        pytest.param("Score", ["0", "4"], (0, 4), id="from zero"),
        pytest.param("Rater 2024 score", ["4"], (1, 4), id="a year"),
    ],
)
def test_the_scale_has_the_numbers_of_header_and_cells(
    header: str, values: list[object], ends: tuple[int, int]
) -> None:
    scale = scale_of(header, values)

    assert scale is not None
    assert (scale.low, scale.high) == ends


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(["0.83", "0.2"], id="shares"),
        pytest.param(["1", "0"], id="verdicts"),
        pytest.param(["87", "45"], id="percentages"),
        pytest.param(["4", "fine"], id="a text"),
        pytest.param([], id="empty"),
    ],
)
def test_a_column_of_something_else_has_no_scale(values: list[object]) -> None:
    assert scale_of("Score", values) is None


def test_four_of_five_stars_are_proposed_as_right() -> None:
    scale = scale_of("Stars", ["5", "1"])

    assert scale is not None
    assert scale.bound == 4
    assert scale.reverse_bound == 2


@pytest.mark.parametrize(
    ("sign", "values"), [(">=", [1.0, 0.0, None]), ("<=", [0.0, 1.0, None])], ids=["high", "low"]
)
def test_the_bound_decides_which_ratings_are_right(
    tmp_path: Path, sign: str, values: list[float | None]
) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(RATED, encoding="utf-8")
    number = 4 if sign == ">=" else 2

    book = LabelBook.read([f"answer_correct{sign}{number}={path}"])

    assert [label.value for label in book.labels] == values
    assert book.by_metric() == {"answer_correct": 2}


@pytest.mark.parametrize("text", ["answer_correct>4", "answer_correct>=four", ">=4"])
def test_what_is_no_bound_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="such as answer_correct>=4=FILE"):
        metric_and_bound(text)


def test_a_row_without_a_rating_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("question,answer,stars\nCan bees fly?,Yes.,lovely\n", encoding="utf-8")

    with pytest.raises(DataError, match="expected one field with a rating") as caught:
        read_people(path, bound=RatingBound(number=4))

    assert caught.value.problems[0].line == 2


def test_ratings_without_a_bound_are_refused_where_they_leave_the_scale(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(RATED.replace("stars", "rating"), encoding="utf-8")
    label = LabelBook.read([f"answer_correct={path}"]).labels[0]

    with pytest.raises(ConfigError, match=r'is 4, and answer_correct is at most 1.*>=4=FILE"'):
        label.check_scale("answer_correct", 0.0, 1.0)
