"""Answers that exist, scored from the command line."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import Ragbench, calls, lines, report, score

SAID: list[dict[str, Any]] = [
    {
        "user_input": "How many days of paid leave are there?",
        "response": "27 days",
        "retrieved_contexts": ["Everyone has 27 days of paid leave."],
        "reference": "27 days",
    },
    {
        "user_input": "When is the help desk open?",
        "response": None,
        "retrieved_contexts": ["The help desk is open from 8 to 17."],
        "reference": "from 8 to 17",
    },
]


def test_recorded_answers_are_scored_and_nobody_is_asked(ragbench: Ragbench) -> None:
    answers = lines("said.jsonl", SAID)

    done = ragbench("eval", answers, "-o", "run", "-m", "exact_match,token_f1").ok()

    assert done.out.splitlines()[:2] == [
        "recorded on said: 2 cases",
        "generate  1 answered, 1 skipped, 1 recorded",
    ]
    assert done.err.splitlines()[:3] == [
        "read said.jsonl as ragas: query=user_input, reference, response, retrieved_contexts",
        "2 cases; recorded: retrieve 2, generate 1 of 2; no times are recorded",
        "no RAG is asked: what is not recorded is skipped (--rag names one)",
    ]
    assert "retry" not in done.err
    assert score("exact_match") == (1.0, 1)  # the one that is missing is not a zero


def test_the_rag_can_be_asked_for_everything_again(ragbench: Ragbench) -> None:
    answers = lines("said.jsonl", SAID)
    command = ("eval", answers, "--rag", "rags.py:Plain", "-o", "run")

    done = ragbench(*command, "--ask-again", "-m", "token_f1")

    assert "asking Plain for everything: what is recorded is not used (--ask-again)" in done.err
    assert calls() == 2
    # The recorded answers are not part of the cases: the two runs can be compared.
    ragbench("eval", answers, "-o", "recorded", "-m", "token_f1")
    fingerprints = report("run")["manifest"]["fingerprints"]
    fingerprints_of_recorded = report("recorded")["manifest"]["fingerprints"]
    assert fingerprints["dataset"] == fingerprints_of_recorded["dataset"]


def test_a_newcomer_sees_what_is_missing_and_the_ways_on(ragbench: Ragbench) -> None:
    questions = lines("questions.jsonl", [{"query": "Who?", "reference": "Ada"}])

    done = ragbench("eval", questions)

    assert done.code == 2
    assert done.out == ""
    error = "questions.jsonl holds 1 case without recorded answers, and no system is named"
    assert done.err.startswith(f"Error: {error}")
    ways = (
        "ragbench eval questions.jsonl --rag my_rag.py:ask\n",
        "ragbench eval questions.jsonl --outputs results.jsonl\n",
        "--field response=NAME",
        "ragbench eval questions.jsonl --rag baseline\n",
    )
    for way in ways:
        assert way in done.err
    assert not Path("reports").exists()


def test_answers_are_joined_with_their_dataset(ragbench: Ragbench) -> None:
    rows = [{"id": "c1", "response": "27 days"}, {"id": "c9", "response": "to whom?"}]
    answers = lines("said.jsonl", rows)

    done = ragbench("eval", "office", "--outputs", answers, "-o", "run")

    assert "said on office: 1 case" in done.out
    notes = report()["notes"][:2]
    assert notes[0] == "outputs of said.jsonl: 1 by id joined with 3 cases"
    assert set(notes) <= set(done.err.splitlines())
    assert score("exact_match") == (1.0, 1)
    description = report()["manifest"]["rag"]["description"]
    assert description == {"spec": "recorded", "answers": "said.jsonl"}


def test_verdicts_join_a_run(ragbench: Ragbench) -> None:
    ragbench("eval", "office", "--rag", "baseline", "-o", "first", "-q")
    ragbench("validate", "first", "-o", "verdicts.jsonl", "-q")
    verdicts = ("--outputs", "verdicts.jsonl", "-m", "answer_rate")

    done = ragbench("eval", "office", *verdicts, "-o", "run")

    done.ok("validate  3 done, 3 recorded")
    assert report()["validation"]["verdicts"] == 3


def test_fields_of_the_answers_have_names_of_their_own(ragbench: Ragbench) -> None:
    lines("log.jsonl", [{"q": "When is the help desk open?", "out": {"text": "from 8 to 17"}}])
    command = ("eval", "office", "--outputs", "log.jsonl", "-o", "run", "-m", "exact_match")
    fields = ("--field", "answers.query=q", "--field", "answers.response=out.text")

    ragbench(*command, *fields).ok()

    assert score("exact_match") == (1.0, 1)


def test_an_error_about_the_outputs_names_a_field_as_the_command_takes_it(
    ragbench: Ragbench,
) -> None:
    lines("cases.jsonl", [{"id": 1, "query": "When?", "reference_context_ids": ["d1"]}])
    record = {"id": 1, "answer": "1843", "context_ids": ["d1"], "contextIds": ["d2"]}
    lines("outputs.jsonl", [{**record, "contexts": ["It was in 1843."]}])
    command = ["eval", "cases.jsonl", "--outputs", "outputs.jsonl", "--out", "run"]
    field = "outputs.retrieved_context_ids=context_ids"

    refused = ragbench(*command)
    accepted = ragbench(*command, "--field", field)

    assert refused.code == 2
    assert f"--field {field}" in refused.err
    assert accepted.code == 0
    assert score("recall@5") == (1.0, 1)


def test_standard_input_holds_answers(ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch) -> None:
    def pipe(rows: list[dict[str, Any]]) -> None:
        data = Path(lines("piped.jsonl", rows)).read_bytes()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    pipe(SAID)
    assert ragbench("eval", "-", "-o", "run", "-m", "exact_match").code == 0
    assert score("exact_match") == (1.0, 1)

    pipe([{"query": "Who?"}])
    done = ragbench("eval", "-", "--rag", "baseline")
    done.refused("the baseline RAG needs documents")


def test_another_file_of_answers_is_another_run(ragbench: Ragbench) -> None:
    for name in ("one.jsonl", "two.jsonl"):
        lines(name, [{"id": "c1", "response": name}])
        ragbench("eval", "office", "--outputs", name, "-m", "exact_match", "-q")

    runs = list(Path("reports").iterdir())
    assert len(runs) == 2


# --- ids alone


def judged_run() -> None:
    """Writes a run over three queries, and their judgements."""
    Path("qrels.txt").write_text("q1 0 p1 1\nq2 0 s1 1\nq3 0 z 1\n")
    Path("x.run").write_text("q1 Q0 p2 1 3.0 x\nq1 Q0 p1 2 2.0 x\nq2 Q0 s1 1 3.0 x\n")


def test_a_run_and_its_judgements_are_enough(ragbench: Ragbench) -> None:
    judged_run()

    done = ragbench("eval", "x.run", "--qrels", "qrels.txt", "-o", "run", "-m", "MRR").ok()

    assert score("MRR") == (0.5, 3)  # (1/2 + 1 + 0) / 3
    assert "Right:" not in done.out
    assert "not in the corpus" not in done.out
    assert "a query is known by its id" in done.err


def test_a_folder_of_judgements_is_joined_with_a_run(ragbench: Ragbench) -> None:
    judged_run()
    Path("data").mkdir()
    Path("qrels.txt").rename("data/qrels.txt")
    ragbench("eval", "data", "--outputs", "x.run", "-o", "run", "-m", "MRR").ok()
    assert score("MRR") == (0.5, 3)


def test_a_run_of_other_queries_leaves_no_run(ragbench: Ragbench) -> None:
    judged_run()
    Path("other.txt").write_text("w 0 p1 1\n")

    done = ragbench("eval", "x.run", "--qrels", "other.txt", "-o", "run")

    assert done.code == 2
    assert done.out == ""
    error = "no query of the run (such as 'q1') is one of the judged queries (such as 'w')"
    assert error in done.err
    assert not Path("run").exists()


def test_judgements_without_topics_are_no_questions_to_ask(ragbench: Ragbench) -> None:
    judged_run()
    Path("data").mkdir()
    Path("qrels.txt").rename("data/qrels.txt")

    done = ragbench("eval", "data", "--rag", "rags.py:Plain", "-o", "run")

    assert done.code == 2
    assert "Add queries.tsv" in done.err


def test_a_table_of_ids_is_scored(ragbench: Ragbench) -> None:
    Path("ids.csv").write_text("query,relevant_ids,retrieved_ids\nWho?,p1,p2;p1\nWhen?,s1,s1;p1\n")

    ragbench("eval", "ids.csv", "-o", "run", "-m", "MRR").ok()

    assert score("MRR") == (0.75, 2)  # (1/2 + 1) / 2
