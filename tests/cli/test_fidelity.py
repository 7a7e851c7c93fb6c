"""``ragbench fidelity``: made-up questions beside real ones, from the command line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ragbench.stats.agreement import Scored, best_of, kendall_tau, tau_interval
from tests.cli.runs import Ragbench, lines

THINGS = (
    "amber",
    "basalt",
    "copper",
    "diamond",
    "emerald",
    "flint",
    "garnet",
    "hematite",
    "iron",
    "jade",
)
PLACES = ("harbour", "museum", "station")
# Thirty things at places: what each document and each question is about.
SUBJECTS = [(thing, place) for place in PLACES for thing in THINGS]

FILLER = "The keeper notes the weather, the visitors and the hour in a book by the door. " * 12
NEIGHBOUR = (
    "Of the {thing} in the {place} the register says little, whatever anybody asks about it."
)
ANSWER = "{thing} is kept at the {place} since the year of the flood"
# A made-up question that repeats the sentence of its answer, and a real one.
COPIED = ANSWER
REAL = "Where does the {place} keep its {thing} today?"


def questions(form: str, **fields: Any) -> list[dict[str, Any]]:
    """A question about each subject, whose gold is its long document; with other fields."""
    rows = []
    for number, (thing, place) in enumerate(SUBJECTS):
        row: dict[str, Any] = {
            "query": form.format(thing=thing, place=place),
            "reference_context_ids": [f"d{number}"],
        }
        rows.append(row | fields)
    return rows


def corpus() -> list[dict[str, str]]:
    """Of each subject a long document with a short answer in it, and a short neighbour."""
    documents = []
    for number, (thing, place) in enumerate(SUBJECTS):
        answer = ANSWER.format(thing=thing, place=place)
        text = f"{FILLER}{answer}. {FILLER}"
        documents.append({"id": f"d{number}", "title": place, "text": text})
        neighbour = NEIGHBOUR.format(thing=thing, place=place)
        documents.append({"id": f"n{number}", "text": neighbour})
    return documents


def fidelity(
    made: list[dict[str, Any]], real: list[dict[str, Any]] | None = None
) -> tuple[str, ...]:
    """The command over made-up questions and, by default, all thirty real ones."""
    made_file = lines("made.jsonl", made)
    real_file = lines("real.jsonl", questions(REAL) if real is None else real)
    corpus_file = lines("corpus.jsonl", corpus())
    options = ("--real", real_file, "--corpus", corpus_file, "--embedder", "none", "-q")
    return ("fidelity", made_file, *options)


# --- from the command line


@pytest.fixture
def of_copied(ragbench: Ragbench) -> Any:
    """What the command gives as data about questions that copy their documents."""
    command = fidelity(questions(COPIED))
    return ragbench(*command, "--json").ends(1).json


def test_copied_questions_are_easier_than_real_ones(of_copied: Any) -> None:
    made = of_copied["made"]
    real = of_copied["real"]
    assert made["copied"] == 1.0
    assert real["copied"] < 1.0
    inflation = of_copied["inflation"]
    assert inflation["value"] == pytest.approx(made["mrr"] - real["mrr"])
    assert 0 < inflation["low"] < inflation["value"]
    # A short neighbour beats the long document, but where the question repeats its sentence.
    real_and_made_mrr = {}
    for row in of_copied["retrievers"]:
        real_and_made_mrr[row["name"]] = (row["real"], row["made"])
    assert len(real_and_made_mrr) == 12
    assert real_and_made_mrr["bm25 b=0"] == (0.5, 1.0)
    assert real_and_made_mrr["bm25"] == (0.25, 1.0)
    assert real_and_made_mrr["bm25 b=1"] == (0.0, 0.5)


def test_a_choice_by_copied_questions_costs_what_real_ones_lose(of_copied: Any) -> None:
    # All retrievers with the best score over the made-up questions are chosen alike.
    assert of_copied["best"] == "bm25 b=0"
    best = [row for row in of_copied["retrievers"] if row["made"] == 1.0]
    mean = sum(row["real"] for row in best) / len(best)
    assert len(of_copied["chosen"]) == len(best)
    assert of_copied["cost"]["mean"] == pytest.approx(0.5 - mean)


def test_copied_questions_are_worth_less_than_ten_real_ones(of_copied: Any) -> None:
    draws = of_copied["draws"]
    assert [draw["questions"] for draw in draws] == [5, 10, 15]
    assert [draw["tau"] for draw in draws] == [1, 1, 1]
    assert draws[1]["better"] == 1.0
    assert of_copied["worth"] == "do not use"
    verdict = "Ten real questions rank retrievers better than these 30"
    assert of_copied["verdict"].startswith(verdict)


def test_the_same_command_prints_the_same(ragbench: Ragbench) -> None:
    command = (*fidelity(questions(COPIED)), "--json")

    done = ragbench(*command)
    repeated = ragbench(*command)

    assert repeated.out == done.out


def test_real_questions_are_as_good_as_real_ones(ragbench: Ragbench) -> None:
    document = ragbench(*fidelity(questions(REAL)), "--json").ok().json

    assert document["worth"] == "as good as real ones"
    assert document["tau"]["value"] == 1.0
    assert document["shared"] == 30
    assert document["cost"]["mean"] == 0.0
    assert document["inflation"]["value"] == 0.0


def test_the_answer_is_told_in_words_on_one_screen(ragbench: Ragbench) -> None:
    done = ragbench(*fidelity(questions(REAL))).ok(
        "15 real questions, half of yours, rank no better than these 30.",
        "choice        'bm25 b=0' by both",
    )

    assert len(done.out.splitlines()) <= 40


def test_questions_that_find_nothing_leave_it_open(ragbench: Ragbench) -> None:
    unfound = questions("zzz")
    for number, question in enumerate(unfound):
        question["reference_context_ids"] = [f"d{20 + number % 10}"]

    done = ragbench(*fidelity(unfound))

    done.ends(3, "29 made-up, 0 real", "one of the sets finds every retriever")


def test_real_questions_that_disagree_among_themselves_leave_it_open(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No two halves agree as much as this.
    monkeypatch.setattr("ragbench.verbs.fidelity._LEAST_CEILING", 1.1)

    done = ragbench(*fidelity(questions(COPIED)))

    done.ends(3, "halves of the 30 real questions do not agree")


@pytest.mark.parametrize(
    ("made", "real", "message"),
    [
        pytest.param(
            questions(COPIED),
            questions(REAL)[:12],
            "only 12 of 12 real questions in 12 clusters have gold",
            id="too few real questions",
        ),
        pytest.param(
            questions(COPIED, reference_context_ids=["x1"]),
            questions(REAL),
            "are needed (gold x1, corpus d0)",
            id="gold of another corpus",
        ),
        pytest.param(
            questions(COPIED, cluster="one"),
            questions(REAL),
            "questions in 1 cluster have gold",
            id="all in one cluster",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_with_one_error(
    ragbench: Ragbench, made: list[Any], real: list[Any], message: str
) -> None:
    done = ragbench(*fidelity(made, real)).refused(message)

    assert done.out == ""
    assert done.err.count("Error") == 1


# --- the statistics, by hand


@pytest.mark.parametrize(
    ("scores", "other_scores", "tau"),
    [
        pytest.param((3, 2, 1), (30, 20, 10), 1.0, id="the same order"),
        pytest.param((3, 2, 1), (1, 2, 3), -1.0, id="turned"),
        pytest.param((4, 3, 2, 1), (4, 3, 1, 2), 4 / 6, id="five pairs agree, one does not"),
        pytest.param((3, 2, 1), (3, 1, 1), 2 / 6**0.5, id="a tie on one side: tau-b"),
    ],
)
def test_kendall_tau_by_hand(
    scores: tuple[float, ...], other_scores: tuple[float, ...], tau: float
) -> None:
    values = np.array(scores, float)
    other_values = np.array(other_scores, float)

    (computed,) = kendall_tau(values, other_values)

    assert computed == pytest.approx(tau)


def test_scores_that_are_all_equal_have_no_tau() -> None:
    equal = np.array([1.0, 1.0, 1.0])
    falling = np.array([3.0, 2.0, 1.0])

    (computed,) = kendall_tau(equal, falling)

    assert np.isnan(computed)


# Scores of two retrievers over four questions, of which the first two are a cluster.
SCORES = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
CLUSTERS = ["a", "a", None, None]


def test_means_are_those_of_the_questions() -> None:
    scored = Scored.of(SCORES, CLUSTERS)

    assert scored.means.tolist() == [0.5, 0.25]


def test_draws_keep_clusters_together() -> None:
    scored = Scored.of(SCORES, CLUSTERS)

    drawn_means = set()
    for drawn, remaining in scored.parts(1, 50, 0):
        drawn_means.add((*drawn.tolist(), *remaining.tolist()))

    # The means of what is drawn and of what remains: the cluster, the third or the fourth question.
    assert drawn_means == {
        (1, 0, 0, 0.5),
        (0, 1, 2 / 3, 0),
        (0, 0, 2 / 3, 1 / 3),
    }


def test_a_draw_of_everything_leaves_something_to_compare_with() -> None:
    scored = Scored.of(SCORES, CLUSTERS)

    means = list(scored.parts(4, 50, 0))

    assert np.isfinite(means).all()


def test_an_interval_of_tau_holds_its_value() -> None:
    interval = tau_interval(0.5, np.linspace(0.0, 0.4, 401))

    assert interval.low == pytest.approx(0.002)
    assert interval.high == pytest.approx(0.998)


def test_equally_good_retrievers_share_the_first_place() -> None:
    scores = np.array([1.0, 3.0, 3.0])

    shares = best_of(scores)

    assert shares.tolist() == [[0.0, 0.5, 0.5]]
