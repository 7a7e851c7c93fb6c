"""``ragbench explain`` and ``ragbench cases``: from a number to its cause."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from tests.cli.runs import Ragbench, lines, own_rag


@pytest.fixture
def run(ragbench: Ragbench) -> str:
    """A run of a RAG that finds one document and always says 27 days: c1 is right."""
    ragbench("eval", "office", "--rag", "rags.py:Plain", "-o", "run", "-q").ok()
    return "run"


# --- explain


def test_the_waterfall_of_a_run_counts_causes_and_names_cases(ragbench: Ragbench, run: str) -> None:
    done = ragbench("explain", run).ok()

    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "not retrieved 1 33% by words" in lines
    assert "- c2: When is the help desk open?" in lines
    assert done.err == ""


def test_the_worst_cases_of_each_cause_are_data(ragbench: Ragbench, run: str) -> None:
    explained = ragbench("explain", run, "--json").ok().json

    assert explained["worst"] == {"not_retrieved": ["c2"], "answered_without_evidence": ["c3"]}


def test_a_case_is_shown_hop_by_hop(ragbench: Ragbench, run: str) -> None:
    done = ragbench("explain", run, "c2")

    done.ok("When is the help desk open?", "not retrieved", "desk", "27 days of paid leave")


def test_a_case_is_told_hop_by_hop_as_data(ragbench: Ragbench, run: str) -> None:
    story = ragbench("explain", run, "c1", "--json").ok().json["story"]

    (chunk,) = story["chunks"]
    assert chunk["retrieved"] == 1
    assert chunk["shown"] == 1
    assert chunk["is_gold"] is True
    assert story["references"] == ["27 days"]


def test_a_case_is_named_by_the_beginning_of_its_question(ragbench: Ragbench, run: str) -> None:
    by_question = ragbench("explain", run, "when is the HELP desk").ok()
    by_id = ragbench("explain", run, "c2").ok()

    assert by_question.out == by_id.out


def test_a_beginning_of_no_question_is_refused(ragbench: Ragbench, run: str) -> None:
    ragbench("explain", run, "Why").refused("no question that begins so")


def test_a_beginning_of_two_questions_asks_for_more(ragbench: Ragbench, run: str) -> None:
    ragbench("explain", run, "Wh").refused("2 questions of the run begin with 'Wh'", "c2, c3")


def test_an_id_that_ragbench_made_is_not_shown(ragbench: Ragbench) -> None:
    lines("q.jsonl", [{"query": "When is tea?", "reference": "at 4", "response": "at 5"}])
    ragbench("eval", "q.jsonl", "-o", "tea", "-q").ok()

    done = ragbench("explain", "tea").ok("unexplained\n", "- When is tea?\n")

    assert "q-" not in done.out


# --- one vocabulary


def _names_of_causes(run: str, ragbench: Ragbench) -> dict[str, set[str]]:
    """The causes of a run as each form of its report prints them."""
    screen = ragbench("explain", run).ok().out
    page = Path(run, "report.html").read_text("utf-8")
    with Path(run, "cases.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    report = json.loads(Path(run, "report.json").read_text("utf-8"))
    markdown = Path(run, "report.md").read_text()
    return {
        "screen": set(re.findall(r"^  (\S[a-z ]*?\S) +\d+ +\d+%", screen, re.MULTILINE)),
        "markdown": set(re.findall(r"^\| ([a-z ]+) \| \d+ \| \d+% ", markdown, re.MULTILINE)),
        "page": set(re.findall(r"class=case data-c=(\w+)", page)),
        "filter": set(re.findall(r'<option value="\w+">([a-z ]+)</option>', page)) - {"any loss"},
        "json": {count["cause"] for count in report["causes"]},
        "csv": {row["cause"] for row in rows},
    }


def test_every_form_of_a_report_has_the_same_names_of_causes(ragbench: Ragbench, run: str) -> None:
    names = {"not_retrieved", "answered_without_evidence", "right"}
    labels = {"not retrieved", "answered without evidence", "right"}

    printed = _names_of_causes(run, ragbench)

    assert printed == {
        "screen": labels,
        "markdown": labels,
        "page": names,
        "filter": labels,
        "json": names,
        "csv": names,
    }


# --- cases


def test_cases_are_listed_by_their_cause(ragbench: Ragbench, run: str) -> None:
    done = ragbench("cases", run, "--cause", "not_retrieved").ok()

    assert done.out.startswith("c2: When is the help desk open?\n  not retrieved ")
    assert done.err == "1 case\n"


def test_a_cause_without_cases_lists_none(ragbench: Ragbench, run: str) -> None:
    listed = ragbench("cases", run, "--cause", "dropped", "--json").ok().json

    assert listed["found"] == 0


def test_a_cause_is_taken_as_tables_print_it(ragbench: Ragbench, run: str) -> None:
    in_words = ragbench("cases", run, "--cause", "answered though nothing was there").ok()
    by_name = ragbench("cases", run, "--cause", "answered_without_evidence").ok()

    assert in_words.out == by_name.out


def test_cases_are_listed_from_the_worst_score_on(ragbench: Ragbench, run: str) -> None:
    listed = ragbench("cases", run, "--worst", "token_f1", "--json").ok().json

    # c3 has no reference to be measured by, so it stands last.
    assert [case["id"] for case in listed["cases"]] == ["c2", "c1", "c3"]


def test_failures_become_a_dataset_that_measures_what_the_run_measured(
    ragbench: Ragbench, run: str
) -> None:
    written = ragbench("cases", run, "--cause", "not_retrieved", "-o", "regress").ok()
    ragbench("eval", "regress", "--rag", "rags.py:Plain", "-o", "again", "-q").ok()

    assert "1 case written to regress" in written.out + written.err
    rows = ragbench("cases", run, "--json").ok().json["cases"]
    (row,) = ragbench("cases", "again", "--json").ok().json["cases"]
    scores_before = {case["id"]: case["scores"] for case in rows}
    assert row["id"] == "c2"
    assert row["scores"] == scores_before["c2"]


def test_a_dataset_that_is_there_is_not_overwritten(ragbench: Ragbench, run: str) -> None:
    command = ("cases", run, "--cause", "not_retrieved", "-o", "regress")
    ragbench(*command).ok()

    ragbench(*command).refused("is there already")


def test_a_dataset_without_cases_is_refused(ragbench: Ragbench, run: str) -> None:
    ragbench("cases", run, "--tag", "none", "-o", "empty").refused()

    assert not Path("empty").exists()


def test_listed_cases_keep_their_gold_when_they_are_read(ragbench: Ragbench, run: str) -> None:
    listed = ragbench("cases", run, "--json").ok().out
    Path("listed.json").write_text(listed, encoding="utf-8")

    done = ragbench("eval", "listed.json")

    assert "reference_context_ids=reference_ids" in done.err


# --- explain --replay: the system is asked again, with one thing changed

WEEK = [
    {"id": "buried", "query": "Which day is pay day?", "reference_context_ids": ["pay"]},
    {"id": "missed", "query": "Which day does the cafe close?", "reference_context_ids": ["cafe"]},
    {"id": "right", "query": "Which day is the fire drill?", "reference_context_ids": ["drill"]},
]
TEXTS = {
    "pay": "Pay day is Friday.",
    "cafe": "It is shut on Friday.",
    "drill": "The drill: Friday.",
}
RETRIEVE = f"""\
texts = {TEXTS!r}
if "pay" in query:
    return ["a", texts["pay"], "b"]
if "drill" in query:
    return [texts["drill"], "c"]
return ["d"]"""
READ_THE_ENDS = "return 'Friday' if 'Friday' in contexts[0] + contexts[-1] else 'Monday'"
READ_ALL = "return 'Friday' if 'Friday' in str(contexts) else 'Monday'"


@pytest.fixture
def week(ragbench: Ragbench) -> str:
    """A run of a RAG that reads its first and its last context alone, and misses the cafe.

    So the case `buried` fails by the place of its context, `missed` by its absence.
    """
    Path("week").mkdir()
    lines("week/cases.jsonl", [{**case, "reference": "Friday"} for case in WEEK])
    documents = [{"id": name, "text": text} for name, text in TEXTS.items()]
    lines("week/corpus.jsonl", documents)
    rag = own_rag(READ_THE_ENDS, RETRIEVE)
    ragbench("eval", "week", "--rag", rag, "-o", "run", "-q").ok()
    return "run"


def test_a_replay_says_which_single_change_cures_a_case(ragbench: Ragbench, week: str) -> None:
    done = ragbench("explain", week, "buried", "--replay")

    done.ok("moved to the first place: cures it", "nothing: asked again: does not cure it")
    assert "asking Own 2 times for 1 case" in done.err


def test_a_replay_of_a_run_counts_what_each_change_cures(ragbench: Ragbench, week: str) -> None:
    cures = ragbench("explain", week, "--replay", "--json").ok().json["cures"]

    tried_and_cured = {}
    for cure in cures:
        tried_and_cured[cure["change"]] = (cure["tried"], cure["cured"])
    assert tried_and_cured == {
        "nothing: asked again": (2, 0),
        "the gold moved to the first place": (1, 1),
        "the gold put into the context": (1, 1),
    }


def test_a_replay_asks_for_as_many_cases_as_most_says(ragbench: Ragbench, week: str) -> None:
    done = ragbench("explain", week, "--replay", "--most", "1").ok()

    assert "for 1 case" in done.err


def test_a_replay_of_a_misspelled_case_is_refused(ragbench: Ragbench, week: str) -> None:
    ragbench("explain", week, "burried", "--replay").refused("Did you mean 'buried'?")


def test_a_replay_of_recorded_answers_needs_a_rag(ragbench: Ragbench) -> None:
    row = {
        **WEEK[0],
        "reference": "Friday",
        "response": "Monday",
        "retrieved_contexts": ["a"],
    }
    lines("recorded.jsonl", [row])
    ragbench("eval", "recorded.jsonl", "-o", "recorded", "-q").ok()

    done = ragbench("explain", "recorded", "--replay")

    done.refused("name it with --rag or --pipeline")


def test_a_replay_needs_a_rag_whose_file_is_still_there(ragbench: Ragbench, week: str) -> None:
    Path("own.py").rename("elsewhere.py")

    done = ragbench("explain", week, "--replay")

    done.refused("name it with --rag or --pipeline")


ONE_CALL = "def ask(query):\n    return {'answer': 'a', 'contexts': ['']}\n"
"""A system that gives no answer to contexts that are handed to it."""


def test_a_replay_of_a_system_that_answers_in_one_call_is_refused_before_it_is_asked(
    ragbench: Ragbench, week: str
) -> None:
    Path("one.py").write_text(ONE_CALL, "utf-8")

    done = ragbench("explain", week, "--replay", "--rag", "one.py:ask")

    done.refused("in one call")
    assert "asking" not in done.err


def test_a_replay_takes_a_rag_or_a_pipeline(ragbench: Ragbench, week: str) -> None:
    Path("one.py").write_text(ONE_CALL, "utf-8")
    systems = ("--rag", "one.py:ask", "--pipeline", "rag.yaml")

    done = ragbench("explain", week, "--replay", *systems)

    done.refused("cannot be combined: the file")


@pytest.mark.usefixtures("week")
def test_what_an_operator_dropped_is_put_back(ragbench: Ragbench) -> None:
    """The context of `buried` is the second one, and only one is kept."""
    Path("post.yaml").write_text("operators:\n  - {action: filter, type: top_k, k: 1}\n", "utf-8")
    system = ("--rag", "own.py:Own", "--post-retrieval", "post.yaml")
    ragbench("eval", "week", *system, "-q", "-o", "cut").ok()
    own_rag(READ_ALL)

    done = ragbench("explain", "cut", "buried", "--replay", "--rag", "own.py:Own")

    done.ok("what filter.top_k dropped put back: cures it")


# --- gold that is a document


def test_figures_that_rest_on_gold_by_document_say_so(ragbench: Ragbench) -> None:
    row = {
        "query": "How long is the leave?",
        "reference": "27 days",
        "response": "two weeks",
        "reference_context_ids": ["leave"],
        "retrieved_context_ids": ["leave#1"],
        "retrieved_contexts": ["# Leave"],
    }
    lines("q.jsonl", [row])

    done = ragbench("eval", "q.jsonl", "-o", "chunks")

    done.ok("wrong passage ")
    assert re.search(r"^recall@5 .* document ", done.out, re.MULTILINE)
    report = json.loads(Path("chunks", "report.json").read_text("utf-8"))
    by_document = {row["metric"] for row in report["summaries"] if row["by_document"]}
    assert {"recall@5", "nDCG@10"} <= by_document
    assert "answer_correct" not in by_document
