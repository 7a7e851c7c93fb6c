"""``ragbench fidelity``: made-up questions beside real ones, from the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ragbench.stats.rankings import Scored, best_of, kendall_tau
from ragbench.verbs.fidelity import tau_interval
from tests.cli.runs import Ragbench, lines

THINGS = "amber basalt copper diamond emerald flint garnet hematite iron jade".split()  # noqa: SIM905
PLACES = ("harbour", "museum", "station")
FILLER = "The keeper notes the weather, the visitors and the hour in a book by the door. " * 12
NEAR = "Of the {} in the {} the register says little, whatever anybody asks about it."
TRUE = "{0} is kept at the {1} since the year of the flood."


def question(form: str, row: int) -> dict[str, Any]:
    thing, place = THINGS[row % 10], PLACES[row // 10]
    query = form.format(thing, place, row=row)
    return {"id": f"q{row}", "query": query, "reference_context_ids": [f"d{row}"]}


REAL = "Where does the {1} keep its {0} today?"
COPIED = "{0} is kept at the {1} since the year of the flood"


@pytest.fixture
def corpus() -> str:
    """Thirty long documents whose answer is a short sentence, and thirty short ones beside them."""
    places = [(row, THINGS[row % 10], PLACES[row // 10]) for row in range(30)]
    long = [
        {"id": f"d{row}", "title": place, "text": f"{FILLER}{TRUE.format(thing, place)} {FILLER}"}
        for row, thing, place in places
    ]
    near = [{"id": f"n{row}", "text": NEAR.format(thing, place)} for row, thing, place in places]
    return lines("corpus.jsonl", [*long, *near])


def sets(made: str = COPIED, real: str = REAL, count: int = 30) -> tuple[str, ...]:
    return (
        lines("made.jsonl", [question(made, row) for row in range(30)]),
        "--real", lines("real.jsonl", [question(real, row) for row in range(count)]),
        "--corpus", "corpus.jsonl", "--embedder", "none", "-q",
    )  # fmt: skip


def card(ragbench: Ragbench, *asked: str) -> tuple[int, dict[str, Any]]:
    done = ragbench("fidelity", *asked, "--json")
    return done.code, json.loads(done.out)


@pytest.mark.usefixtures("corpus")
def test_copied_sentences_are_easier_and_said_to_be_copied(ragbench: Ragbench) -> None:
    code, found = card(ragbench, *sets())
    mrr = {one["name"]: (one["real"], one["made"]) for one in found["retrievers"]}
    assert len(mrr) == 12
    # The short neighbour stands above the long document for whoever holds its length against it,
    # but not where the question repeats the sentence.
    expected = {"bm25 b=0": (0.5, 1.0), "bm25": (0.25, 1.0), "bm25 b=1": (0.0, 0.5)}
    assert {name: mrr[name] for name in expected} == expected
    assert found["made"]["copied"] == 1.0 > found["real"]["copied"]
    assert found["inflation"]["value"] == pytest.approx(found["made"]["mrr"] - found["real"]["mrr"])
    assert found["inflation"]["low"] > 0
    assert found["best"] == "bm25 b=0"
    chosen = [mrr[name] for name in found["chosen"]]
    assert all(made == 1.0 for _, made in chosen) and len(chosen) > 1
    assert found["cost"]["mean"] == pytest.approx(0.5 - sum(one for one, _ in chosen) / len(chosen))
    assert found["tau"]["low"] <= found["tau"]["value"] <= found["tau"]["high"]
    assert [one["questions"] for one in found["draws"]] == [5, 10, 15]
    assert found["draws"][-1]["tau"] == found["ceiling"]
    assert (code, found["worth"], found["draws"][1]["better"]) == (1, "do not use", 1.0)
    assert found["verdict"].startswith("Ten real questions rank retrievers better than these 30")
    assert card(ragbench, *sets()) == (code, found)


@pytest.mark.usefixtures("corpus")
def test_real_questions_are_as_good_as_real_ones(ragbench: Ragbench) -> None:
    code, found = card(ragbench, *sets(made=REAL))
    assert (code, found["worth"], found["tau"]["value"]) == (0, "as good as real ones", 1.0)
    assert (found["shared"], found["cost"]["mean"], found["inflation"]["value"]) == (30, 0.0, 0.0)
    shown = ragbench("fidelity", *sets(made=REAL)).ok().out
    assert "These 30 questions rank retrievers as well as 15 real ones, half of yours." in shown
    assert len(shown.splitlines()) <= 40


@pytest.mark.usefixtures("corpus")
def test_the_same_question_again_and_again_is_counted_and_of_no_use(ragbench: Ragbench) -> None:
    done = ragbench("fidelity", *sets(made="What is kept since the flood?"))
    assert done.code == 3
    assert "29 made-up, 0 real" in done.out
    assert "Cannot tell" in done.out


@pytest.mark.usefixtures("corpus")
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"count": 12}, "only 12 of 12 real questions"),
        ({"ids": ["x1"]}, "only 0 of 30 made-up questions (the first names 'x1')"),
        ({"ids": None}, "only 0 of 30 made-up questions have gold"),
        ({"cluster": "one"}, "30 made-up questions form 1 clusters: 10"),
        ({"corpus": "nothing.jsonl"}, "nothing.jsonl: no such file"),
    ],
)
def test_what_cannot_be_compared_is_one_error(
    ragbench: Ragbench, changed: Mapping[str, Any], message: str
) -> None:
    asked = [*sets(count=changed.get("count", 30))]
    rows = [question(COPIED, row) for row in range(30)]
    for row in rows:
        row["reference_context_ids"] = changed.get("ids", row["reference_context_ids"])
        row["cluster"] = changed.get("cluster")
    lines("made.jsonl", rows)
    asked[4] = changed.get("corpus", asked[4])
    done = ragbench("fidelity", *asked)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("Error") == 1


@pytest.mark.parametrize(
    ("first", "second", "tau"),
    [
        ((3, 2, 1), (30, 20, 10), 1.0),
        ((3, 2, 1), (1, 2, 3), -1.0),
        ((4, 3, 2, 1), (4, 3, 1, 2), 4 / 6),  # five pairs agree, one does not
        ((3, 2, 1), (3, 1, 1), 2 / 6**0.5),  # a tie on one side: tau-b
        ((1, 1, 1), (3, 2, 1), None),
    ],
)
def test_tau(first: tuple[float, ...], second: tuple[float, ...], tau: float | None) -> None:
    found = float(kendall_tau(np.array(first, float), np.array(second, float))[0])
    assert found == pytest.approx(tau) if tau is not None else np.isnan(found)


def test_draws_keep_clusters_together_and_intervals_hold_their_value() -> None:
    table = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    scored = Scored.of(table, ["a", "a", None, None])
    assert scored.means.tolist() == [0.5, 0.25]
    parts = [(part.tolist(), rest.tolist()) for part, rest in scored.parts(1, 50, 0)]
    assert {tuple(part) for part, _ in parts} == {(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)}
    assert ([1.0, 0.0], [0.0, 0.5]) in parts
    found = tau_interval(0.5, np.linspace(0.0, 0.4, 401))
    assert (found.low, found.high) == pytest.approx((0.002, 0.998))
    assert best_of(np.array([1.0, 3.0, 3.0])).tolist() == [[0.0, 0.5, 0.5]]
