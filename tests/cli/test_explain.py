"""``ragbench explain`` and ``ragbench cases``: from a number to its cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.runs import Ragbench, lines, own_rag


@pytest.fixture
def run(ragbench: Ragbench) -> str:
    """A run of a RAG that finds one document and always says 27 days."""
    assert ragbench("eval", "office", "--rag", "rags.py:Plain", "-o", "run", "-q").code == 0
    return "run"


def test_the_waterfall_and_the_worst_cases(ragbench: Ragbench, run: str) -> None:
    done = ragbench("explain", run)
    assert (done.code, done.err) == (0, "")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "not retrieved 1 33% by words" in lines
    assert "c2: When is the help desk open?" in lines
    found = ragbench("explain", run, "--json").json
    assert found["worst"] == {"not_retrieved": ["c2"], "answered_without": ["c3"]}


def test_one_case_hop_by_hop(ragbench: Ragbench, run: str) -> None:
    shown = ("When is the help desk open?", "not retrieved", "desk", "27 days of paid leave")
    ragbench("explain", run, "c2").ok(*shown)
    story = ragbench("explain", run, "c1", "--json").json["story"]
    (chunk,) = story["chunks"]
    assert (chunk["retrieved"], chunk["shown"], chunk["is_gold"]) == (1, 1, True)
    assert story["references"] == ["27 days"]


def test_a_cause_is_taken_as_tables_print_it(ragbench: Ragbench, run: str) -> None:
    in_words = ragbench("cases", run, "--cause", "answered though nothing was there").ok()
    assert in_words.out == ragbench("cases", run, "--cause", "answered_without").out


def test_cases_by_cause_tag_and_metric(ragbench: Ragbench, run: str) -> None:
    done = ragbench("cases", run, "--cause", "not_retrieved")
    assert (done.code, done.out.splitlines()[0].split()[0]) == (0, "c2")
    assert done.err == "1 case\n"
    found = ragbench("cases", run, "--worst", "token_f1", "--json").json
    assert [case["id"] for case in found["cases"]] == ["c2", "c1", "c3"]  # unmeasured last
    assert ragbench("cases", run, "--cause", "dropped", "--json").json["found"] == 0


def test_failures_become_a_dataset_that_measures_what_the_run_measured(
    ragbench: Ragbench, run: str
) -> None:
    done = ragbench("cases", run, "--cause", "not_retrieved", "-o", "regress").ok()
    assert "1 case written to regress" in done.out + done.err
    ragbench("eval", "regress", "--rag", "rags.py:Plain", "-o", "again", "-q").ok()
    scores = []
    for folder in (run, "again"):
        rows = ragbench("cases", folder, "--json").json["cases"]
        scores.append({row["id"]: row["scores"] for row in rows})
    assert scores[1] == {"c2": scores[0]["c2"]}
    ragbench("cases", run, "--cause", "not_retrieved", "-o", "regress").refused("is there already")
    ragbench("cases", run, "--tag", "none", "-o", "empty").refused()


def test_listed_cases_keep_their_gold_when_they_are_read(ragbench: Ragbench, run: str) -> None:
    listed = ragbench("cases", run, "--json").out
    Path("listed.json").write_text(listed, encoding="utf-8")
    assert "reference_context_ids=reference_ids" in ragbench("eval", "listed.json").err


PLACES = [
    {"id": "buried", "query": "Which day is pay day?", "reference_context_ids": ["pay"]},
    {"id": "missed", "query": "Which day does the cafe close?", "reference_context_ids": ["cafe"]},
    {"id": "right", "query": "Which day is the fire drill?", "reference_context_ids": ["drill"]},
]
TEXTS = {
    "pay": "Pay day is Friday.",
    "cafe": "It is shut on Friday.",
    "drill": "The drill: Friday.",
}


@pytest.fixture
def places(ragbench: Ragbench) -> str:
    """A run of a RAG that reads its first and its last context, and misses the cafe."""
    Path("week").mkdir()
    lines("week/cases.jsonl", [{**case, "reference": "Friday"} for case in PLACES])
    lines("week/corpus.jsonl", [{"id": id, "text": text} for id, text in TEXTS.items()])
    rag = own_rag(
        "return 'Friday' if 'Friday' in contexts[0] + contexts[-1] else 'Monday'",
        f"texts = {TEXTS!r}\n"
        "return (['a', texts['pay'], 'b'] if 'pay' in query else "
        "[texts['drill'], 'c'] if 'drill' in query else ['d'])",
    )
    assert ragbench("eval", "week", "--rag", rag, "-o", "run", "-q").code == 0
    return "run"


def test_a_replay_says_which_single_change_cures(ragbench: Ragbench, places: str) -> None:
    done = ragbench("explain", places, "buried", "--replay").ok(
        "moved to the first place: cures it"
    )
    assert "nothing: asked again: does not cure it" in done.out
    assert "asking Own 2 times for 1 case" in done.err  # before anything is asked
    found = ragbench("explain", places, "--replay", "--json").ok().json
    assert {one["change"]: (one["tried"], one["cured"]) for one in found["cures"]} == {
        "nothing: asked again": (2, 0),
        "the gold moved to the first place": (1, 1),
        "the gold put into the context": (1, 1),
    }
    assert ragbench("explain", places, "--replay", "--most", "1").out.count("\n") == 5


def test_a_replay_needs_a_rag_and_a_case(ragbench: Ragbench, places: str) -> None:
    ragbench("explain", places, "burried", "--replay").refused("Did you mean 'buried'?")
    row = {**PLACES[0], "reference": "Friday", "response": "Monday", "retrieved_contexts": ["a"]}
    assert ragbench("eval", lines("said.jsonl", [row]), "-o", "said", "-q").code == 0
    Path("own.py").rename("elsewhere.py")
    for run in ("said", places):
        ragbench("explain", run, "--replay").refused("name it with --rag or --pipeline")
    Path("one.py").write_text("def ask(q):\n return {'answer': 'a', 'contexts': ['']}\n", "utf-8")
    both = ("--rag", "one.py:ask", "--pipeline", "rag.yaml")
    ragbench("explain", places, "--replay", *both).refused("cannot be combined: the file")
    done = ragbench("explain", places, "--replay", "--rag", "one.py:ask").refused("in one call")
    assert "asking" not in done.err


def test_what_an_operator_dropped_is_put_back(ragbench: Ragbench, places: str) -> None:
    Path("post.yaml").write_text("operators:\n  - {action: filter, type: top_k, k: 1}\n", "utf-8")
    eval_ = ("eval", "week", "--rag", "own.py:Own", "--post-retrieval", "post.yaml", "-q")
    assert ragbench(*eval_, "-o", "cut").code == 0
    own_rag("return 'Friday' if 'Friday' in str(contexts) else 'Monday'")
    ragbench("explain", "cut", "buried", "--replay", "--rag", "own.py:Own").ok(
        "what filter.top_k dropped put back: cures it"
    )
