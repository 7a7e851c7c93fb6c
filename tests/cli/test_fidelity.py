"""``ragbench fidelity``: made-up questions beside real ones, from the command line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ragbench.stats.agreement import Scored, best_of, kendall_tau, tau_interval
from tests.cli.runs import Ragbench, lines

THINGS = "amber basalt copper diamond emerald flint garnet hematite iron jade".split()  # noqa: SIM905
PLACES = ("harbour", "museum", "station")
FILLER = "The keeper notes the weather, the visitors and the hour in a book by the door. " * 12
NEAR = "Of the {} in the {} the register says little, whatever anybody asks about it."
COPIED = "{} is kept at the {} since the year of the flood"
REAL = "Where does the {1} keep its {0} today?"
NAMES = [(THINGS[row % 10], PLACES[row // 10]) for row in range(30)]


def questions(form: str, ids: list[str] | None = None, cluster: str | None = None) -> list[Any]:
    return [
        {
            "query": form.format(*names),
            "reference_context_ids": ids or [f"d{at}"],
            "cluster": cluster,
        }
        for at, names in enumerate(NAMES)
    ]


def asked(made: list[Any], real: list[Any] | None = None) -> tuple[str, ...]:
    """Thirty long documents whose answer is a short sentence, thirty short ones beside them."""
    long = [
        {"id": f"d{row}", "title": names[1], "text": f"{FILLER}{COPIED.format(*names)}. {FILLER}"}
        for row, names in enumerate(NAMES)
    ]
    near = [{"id": f"n{row}", "text": NEAR.format(*names)} for row, names in enumerate(NAMES)]
    return (
        lines("made.jsonl", made),
        "--real",
        lines("real.jsonl", questions(REAL) if real is None else real),
        "--corpus",
        lines("corpus.jsonl", [*long, *near]),
        "--embedder",
        "none",
        "-q",
    )


def test_copied_sentences_are_easier_and_said_to_be_copied(ragbench: Ragbench) -> None:
    done = ragbench("fidelity", *asked(questions(COPIED)), "--json").ends(1)
    found = done.json
    mrr = {one["name"]: (one["real"], one["made"]) for one in found["retrievers"]}
    assert len(mrr) == 12
    # A short neighbour beats the long document, but where the question repeats its sentence.
    expected = {"bm25 b=0": (0.5, 1.0), "bm25": (0.25, 1.0), "bm25 b=1": (0.0, 0.5)}
    assert {name: mrr[name] for name in expected} == expected
    assert found["made"]["copied"] == 1.0 > found["real"]["copied"]
    gap = pytest.approx(found["made"]["mrr"] - found["real"]["mrr"])
    assert 0 < found["inflation"]["low"] < found["inflation"]["value"] == gap
    assert found["best"] == "bm25 b=0"
    chosen = [real for real, made in mrr.values() if made == 1.0]
    assert len(found["chosen"]) == len(chosen)
    assert found["cost"]["mean"] == pytest.approx(0.5 - sum(chosen) / len(chosen))
    assert [(one["questions"], one["tau"]) for one in found["draws"]] == [(5, 1), (10, 1), (15, 1)]
    assert (found["worth"], found["draws"][1]["better"]) == ("do not use", 1.0)
    assert found["verdict"].startswith("Ten real questions rank retrievers better than these 30")
    assert ragbench("fidelity", *asked(questions(COPIED)), "--json").out == done.out


def test_real_questions_are_as_good_as_real_ones(ragbench: Ragbench) -> None:
    found = ragbench("fidelity", *asked(questions(REAL)), "--json").ok().json
    assert (found["worth"], found["tau"]["value"]) == ("as good as real ones", 1.0)
    assert (found["shared"], found["cost"]["mean"], found["inflation"]["value"]) == (30, 0.0, 0.0)
    shown = ragbench("fidelity", *asked(questions(REAL))).ok().out
    assert "15 real questions, half of yours, rank no better than these 30." in shown
    assert "choice        'bm25 b=0' by both" in shown
    assert len(shown.splitlines()) <= 40


def test_it_cannot_tell(ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ("29 made-up, 0 real", "one of the sets finds every retriever")
    unfound = [
        made | {"reference_context_ids": [f"d{20 + at % 10}"]}
        for at, made in enumerate(questions("zzz"))
    ]
    ragbench("fidelity", *asked(unfound)).ends(3, *wanted)
    monkeypatch.setattr("ragbench.verbs.fidelity._LEAST_CEILING", 1.1)
    told = "halves of the 30 real questions do not agree"
    ragbench("fidelity", *asked(questions(COPIED))).ends(3, told)


@pytest.mark.parametrize(
    ("made", "real", "message"),
    [
        ({}, 12, "only 12 of 12 real questions in 12 clusters have gold"),
        ({"ids": ["x1"]}, 30, "are needed (gold x1, corpus d0)"),
        ({"cluster": "one"}, 30, "questions in 1 clusters have gold"),
    ],
)
def test_one_clear_error(ragbench: Ragbench, made: Any, real: int, message: str) -> None:
    done = ragbench("fidelity", *asked(questions(COPIED, **made), questions(REAL)[:real]))
    assert (done.code, done.out, done.err.count("Error"), message in done.err) == (2, "", 1, True)


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
    parts = {(*part.tolist(), *rest.tolist()) for part, rest in scored.parts(1, 50, 0)}
    assert parts == {(1, 0, 0, 0.5), (0, 1, 2 / 3, 0), (0, 0, 2 / 3, 1 / 3)}
    assert np.isfinite([*scored.parts(4, 50, 0)]).all()  # something is always left to compare with
    found = tau_interval(0.5, np.linspace(0.0, 0.4, 401))
    assert (found.low, found.high) == pytest.approx((0.002, 0.998))
    assert best_of(np.array([1.0, 3.0, 3.0])).tolist() == [[0.0, 0.5, 0.5]]
