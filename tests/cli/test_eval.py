"""``ragbench eval``, called as a user calls it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import PELLORIN, Ragbench, calls, lines, own_rag, report, score

PLAIN = ("eval", "office", "--rag", "rags.py:Plain", "--out", "run")
NO_GOLD = "Nothing to compare with: no case has a reference answer or relevant contexts."


def next_command(done: Any) -> list[str]:
    (line,) = re.findall(r"^next    ragbench (.*)$", done.err, re.M)
    return shlex.split(line)


def test_the_baseline_is_evaluated_by_its_name(ragbench: Ragbench) -> None:
    options = ("--rag", "baseline", "-o", "run", "-m", "recall@5,hit_rate@1,token_f1")

    done = ragbench("eval", "office", *options).ok()

    assert done.out.startswith("baseline on office: 3 cases\nmetric ")
    assert score("recall@5") == (1.0, 2)
    assert "report  run/report.html" in done.err
    for name in ("report.json", "report.md", "cases.csv"):
        assert Path("run", name).is_file()


def test_ids_of_another_space_are_not_comparable(ragbench: Ragbench) -> None:
    rows = []
    for number in range(3):
        row = {
            "user_input": "Question?",
            "retrieved_contexts": ["text"],
            "retrieved_context_ids": [f"row-{number}"],
            "reference_context_ids": [f"page-{number}"],
        }
        rows.append(row)
    lines("a.jsonl", rows)

    done = ragbench("eval", "a.jsonl", "-o", "run", "-m", "recall@5,nDCG@10").ends(3)

    message = "comparable: Retrieval was not compared with the gold"
    reason = "none of 3 retrieved ids (such as 'row-0') is one of the gold's (such as 'page-0')"
    assert done.flat.startswith(f"not {message}: {reason}")
    assert score("recall@5") == (None, 0)
    assert "0.000" not in done.out
    assert f"- Not {message}" in Path("run/report.md").read_text("utf-8")


def test_a_stage_that_gave_nothing_at_all_ends_with_2(ragbench: Ragbench) -> None:
    # Retrieval works, the key of the language model is dead.
    dead = own_rag("raise PermissionError('401')")
    without_answers = ragbench("eval", "office", "--rag", dead, "-o", "run", "-m", "token_f1")
    without_answers.refused("Error: no call of generate succeeded.")

    # Retrieval fails already. Nothing was measured, which is another thing than wrong answers.
    broken = ragbench("eval", "office", "--rag", "rags.py:Broken", "-o", "broken").refused()
    assert broken.err.endswith("Error: no call succeeded, so nothing was measured.\n")
    assert "retrieve  3 failed" in broken.out
    assert "ragbench export" not in broken.err
    assert "Right:" not in broken.out
    assert report("broken")["answers"]["failed"] == 3
    assert "Right:" not in Path("broken/report.md").read_text("utf-8")

    # Answers that come without contexts are some, though each other call fails.
    function = "def ask(question):\n    return {'o': '27'}[question[1]]\n"
    Path("some.py").write_text(function, "utf-8")
    partly = ragbench("eval", "office", "--rag", "some.py:ask", "-o", "s", "-m", "token_f1")
    partly.ok("2 failed")


@pytest.mark.parametrize(("share", "code"), [("0.2", 1), ("0.4", 0), ("1", 0)])
def test_more_failed_cases_than_allowed_end_with_1(
    ragbench: Ragbench, share: str, code: int
) -> None:
    command = ("eval", "office", "--rag", "rags.py:Failing", "-o", "run", "-m", "token_f1")

    done = ragbench(*command, "--max-error-rate", share).ends(code)

    error = "Error: too many cases failed: generate 1 of 3 (--max-error-rate 0.2)."
    assert (error in done.err) == (code == 1)


def test_without_out_the_same_command_finds_its_run_again(ragbench: Ragbench) -> None:
    command = ("eval", "office", "--rag", "rags.py:Plain")

    ragbench(*command)
    ragbench(*command)
    ragbench(*command, "--limit", "2")

    names = [path.name for path in Path("reports").iterdir()]
    assert len(names) == 2
    for name in names:
        assert name.startswith("office-Plain-")
    assert calls() == 3 + 3 + 2


def test_failures_are_printed_and_the_next_command_is_named(ragbench: Ragbench) -> None:
    command = ("eval", "office", "--rag", "rags.py:Failing", "-o", "run", "--fresh")

    done = ragbench(*command).ok("generate  2 answered, 1 failed")

    error = "generate, 1 case: ValueError: no [bold]desk[/nothing] here (as in: When is"
    assert error in done.flat
    next_line = "ragbench eval office --rag rags.py:Failing -o run --retry-failed"
    assert f"retry   {next_line}\n" in done.err

    Path("mended").touch()
    *same_command, retry_failed = next_line.split()[1:]
    # A failure is kept until it is asked for.
    assert "failed" in ragbench(*same_command).out
    assert "failed" not in ragbench(*same_command, retry_failed).out
    assert calls() == 3 + 2 * 3  # what had worked was not called again, but to compare it


@pytest.mark.extra("http")
def test_an_address_where_nobody_is_ends_the_run_with_one_error(ragbench: Ragbench) -> None:
    rag = ("--rag", "http://127.0.0.1:9", "--rag-args", '{"retries": 1}')

    done = ragbench("eval", "office", *rag, "-o", "run").refused()

    error = "Error: http://127.0.0.1:9/retrieve cannot be reached after 2 attempts: "
    assert done.err.splitlines()[-1].startswith(error)
    assert ragbench("report", "run").out.count("failed") == 0  # nothing is to be retried


def test_documents_lie_beside_a_case_file_or_elsewhere(ragbench: Ragbench) -> None:
    command = ("eval", "office/cases.jsonl", "--rag", "baseline", "-m", "recall@5", "-o")

    assert ragbench(*command, "run").code == 0
    assert report()["manifest"]["dataset"]["name"] == "office"

    Path("office/corpus.jsonl").rename("pages.jsonl")
    assert ragbench(*command, "other", "--corpus", "pages.jsonl").code == 0
    assert score("recall@5", "run") == (1.0, 2)
    assert score("recall@5", "other") == (1.0, 2)


def test_options_come_from_the_environment(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"LIMIT": "2", "RAG": "rags.py:Plain", "OUT": "run", "METRICS": "MRR", "JSON": "1"}
    for name, value in values.items():
        monkeypatch.setenv(f"RAGBENCH_EVAL_{name}", value)
    command = ("eval", "office", "--rag", "baseline")

    by_environment = ragbench(*command).json
    by_option = ragbench(*command, "--limit", "1").json

    assert by_environment["manifest"]["dataset"]["cases"] == 2
    assert [summary["metric"] for summary in by_environment["summaries"]] == ["MRR"]
    # An option of the command line counts more.
    assert by_option["manifest"]["dataset"]["cases"] == 1


def test_an_error_in_the_users_code_can_be_located(ragbench: Ragbench) -> None:
    command = ("eval", "office", "--rag", "rags.py:Unbuilt")

    done = ragbench(*command)
    located = ragbench("--traceback", *command)

    assert done.code == 2
    assert done.out == ""
    assert done.err.splitlines()[1] == f"Where: ragbench --traceback {' '.join(command)}"
    located.refused('rags.py", line')
    assert "Where:" not in located.err


def test_after_a_run_without_gold_the_next_command_needs_none(ragbench: Ragbench) -> None:
    rows = [{"query": "How many days of leave are there?"}, {"query": "When is the desk open?"}]
    bare = lines("bare.jsonl", rows)

    done = ragbench("eval", bare, "--rag", "rags.py:Plain", "--out", "run", "--fresh").ok()

    assert NO_GOLD in done.err
    # Each command is exact: it runs, over the answers of the run, and asks no RAG.
    calls_before = calls()
    validation = next_command(done)
    assert validation[-2:] == ["--validate", "lexical"]
    validated = ragbench(*validation).ok("answer in the chunks")
    support = next_command(validated)
    assert support[-5:] == ["-m", "support", "--llm-model", "MODEL", "--dry-run"]
    assert ragbench(*support).code == 0
    assert calls() == calls_before


@pytest.mark.parametrize(
    ("row", "lacking"),
    [
        pytest.param(
            {"reference": "b", "retrieved_contexts": ["x y"]},
            "no answer is known, and no case has relevant contexts",
            id="no response",
        ),
        pytest.param(
            {"reference_contexts": ["x y"], "response": "b"},
            "no retrieval is known, and no case has a reference answer",
            id="no retrieval",
        ),
        pytest.param(
            {"response": "b", "retrieved_contexts": ["x y"]},
            "no case has a reference answer or relevant contexts",
            id="no labels",
        ),
    ],
)
def test_what_is_missing_for_a_comparison_is_named(
    ragbench: Ragbench, row: dict[str, Any], lacking: str
) -> None:
    lines("r.jsonl", [{"query": "When does it open?", **row}])

    done = ragbench("eval", "r.jsonl", "-o", "r").ok()

    done.told(f"Nothing to compare with: {lacking}.\n")


def test_gold_that_nothing_could_be_compared_with_is_not_called_missing(ragbench: Ragbench) -> None:
    assert NO_GOLD not in ragbench(*PLAIN).err
    assert ragbench(*PLAIN, "--quiet").err == ""

    # A reference, and no answer to compare it with.
    lines("r.jsonl", [{"query": "q", "reference": "r", "retrieved_contexts": ["c"]}])
    assert NO_GOLD not in ragbench("eval", "r.jsonl", "-o", "r", "-m", "token_f1").err

    # Every answer declines: exact_match has no value, and yet there are references.
    shy = own_rag('return "I don\'t know."')
    silent = ragbench("eval", "office", "--rag", shy, "--out", "s", "-m", "exact_match")
    assert "not measured" in silent.out
    assert NO_GOLD not in silent.err
    assert next_command(silent) == ["explain", "s"]


def test_the_ordinary_run_fits_one_screen_and_ends_with_one_command(
    ragbench: Ragbench, workplace: Path
) -> None:
    done = ragbench("eval", str(PELLORIN), "--rag", "baseline", "--out", "run")

    lines = done.err.splitlines() + done.out.splitlines()
    next_lines = [line for line in lines if line.startswith("next ")]
    assert len(lines) <= 24
    assert next_lines == ["next    ragbench explain run"]
    assert "more    2 notes: ragbench report run" in lines
    assert "not measured" not in done.out
    assert "end_to_end_f1" not in done.out
    assert next_command(done) == ["explain", "run"]

    worst_cases = ragbench("explain", "run", "--json").json["worst"]
    explained = ragbench("explain", "run", worst_cases["declined"][0])
    assert len(explained.out.splitlines()) <= 22

    more_command = explained.err.removeprefix("more: ragbench ")
    in_full = ragbench(*shlex.split(more_command))
    assert len(in_full.out.splitlines()) > len(explained.out.splitlines())

    # Lines that the screen leaves out are in the report.
    report = ragbench("report", "run").out
    for part in ("precision@5", "time per case", "notes"):
        assert part in report


def test_a_quiet_run_prints_its_folder_alone(ragbench: Ragbench) -> None:
    done = ragbench("eval", str(PELLORIN), "--rag", "baseline", "--limit", "2", "-o", "run", "-q")

    assert done.ok().out == "run\n"
    assert done.err == ""


def test_one_note_is_counted_as_one(ragbench: Ragbench) -> None:
    lines("q.jsonl", [{"query": "When is tea?", "reference": "at 4", "response": "I do not know."}])

    done = ragbench("eval", "q.jsonl", "-o", "run").ok()

    assert "more    1 note: ragbench report run\n" in done.err
    assert "Of 1 case: 1 declined." in done.out


@pytest.mark.parametrize(
    "metadata", ["'a text'", "7", "['a']", "True", "object()", "__import__('numpy').zeros(3)"]
)
def test_metadata_of_any_type_leave_a_case_scored(ragbench: Ragbench, metadata: str) -> None:
    Path("system.py").write_text(
        "def ask(query):\n"
        f"    return {{'response': 'a', 'contexts': ['a'], 'metadata': {metadata}}}\n",
        encoding="utf-8",
    )
    lines("cases.jsonl", [{"query": "q", "reference": "a"}])

    done = ragbench("eval", "cases.jsonl", "--rag", "system.py:ask", "-m", "token_f1")

    done.ok("token_f1")
