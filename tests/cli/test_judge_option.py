"""``--judge MODEL`` and criteria in words, end to end beside a scripted judge."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.cli.runs import Ragbench, lines, report
from tests.llm_server import FaultServer, Payload, said_by_default

VERDICT_OF_ANSWER = {
    "Twenty-seven days.": "right",
    "27 days, and 6 of them carry over.": "right",
    "Some days.": "partly",
    "25 days.": "wrong",
}
ANSWERS = "answers.jsonl"
EVAL = ("eval", ANSWERS, "--out", "run")


def judged_texts(payload: Payload) -> Mapping[str, object]:
    """The texts of the case that a judge is asked about; empty where it is asked another thing.

    They are in an earlier message where a reply could not be used, and is asked for again.
    """
    for message in payload["messages"]:
        content = message["content"].partition("\n\n")[0]
        if content.startswith('{"'):
            texts: Mapping[str, object] = json.loads(content)
            return texts
    return {}


def verdict_by_answer(payload: Payload) -> str:
    """A judge of correctness that knows the four answers of these tests."""
    answer = judged_texts(payload).get("answer")
    if answer not in VERDICT_OF_ANSWER:
        return said_by_default(payload)
    verdict = VERDICT_OF_ANSWER[str(answer)]
    return json.dumps({"reason": f"It is {verdict} about the days.", "verdict": verdict})


def passes_answers_with(word: str) -> Callable[[Payload], str]:
    """A judge of a criterion that passes the answers with a word."""

    def say(payload: Payload) -> str:
        answer = judged_texts(payload).get("answer")
        if answer is None:
            return said_by_default(payload)
        verdict = "pass" if word in str(answer) else "fail"
        return json.dumps({"reason": f"It looks for {word!r}.", "verdict": verdict})

    return say


def write_answers(answers: Iterable[str]) -> None:
    """Recorded answers to one question, a case each."""
    rows: list[object] = []
    for number, answer in enumerate(answers):
        row = {
            "id": f"c{number}",
            "query": "How many days of paid leave are there?",
            "reference": "27 days",
            "response": answer,
        }
        rows.append(row)
    lines(ANSWERS, rows)


@pytest.fixture
def answers(workplace: Path) -> None:
    """Four answers; words alone do not call the third wrong."""
    write_answers(VERDICT_OF_ANSWER)


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer(say=verdict_by_answer) as server:
        yield server


def judged_by(server: FaultServer) -> tuple[str, ...]:
    return ("--judge", "m", "--llm-base-url", server.url)


def column(name: str) -> list[str]:
    """A column of cases.csv, in the order of the cases."""
    with Path("run/cases.csv").open(newline="", encoding="utf-8") as file:
        return [row[name] for row in csv.DictReader(file)]


pytestmark = [pytest.mark.extra("llm"), pytest.mark.usefixtures("answers")]


# --- what the judge decides


def test_the_judge_decides_headline_causes_and_cases(
    ragbench: Ragbench, server: FaultServer
) -> None:
    done = ragbench(*EVAL, *judged_by(server)).ok("correctness: 2 right, 1 partly, 1 wrong")

    headline = "Of 4 cases: 2 right, 1 partly right, 1 wrong. Decided by the judge m"
    assert headline in done.flat
    assert column("correctness") == ["1.0", "1.0", "0.5", "0.0"]
    assert column("answer_is") == ["right", "right", "partly", "wrong"]
    assert set(column("decided_by")) == {"judge"}


def test_the_reason_of_the_judge_is_beside_the_case(
    ragbench: Ragbench, server: FaultServer
) -> None:
    ragbench(*EVAL, *judged_by(server)).ok()

    reason = "It is wrong about the days."
    assert column("answer_reason")[3] == reason
    assert reason in ragbench("explain", "run", "c3").out
    assert f"By judge: {reason}" in ragbench("cases", "run", "--worst", "correctness").flat
    assert f"Answer wrong by judge: {reason}" in Path("run/report.html").read_text("utf-8")


def test_the_judge_reads_question_references_and_answer_as_data(
    ragbench: Ragbench, server: FaultServer
) -> None:
    ragbench(*EVAL, *judged_by(server), "--no-preflight").ok()

    # Cases are judged side by side: their calls come in any order.
    payload_of_answer: dict[str, Payload] = {}
    for call in server.calls:
        answer = str(judged_texts(call.payload)["answer"])
        payload_of_answer[answer] = call.payload
    payload = payload_of_answer["25 days."]
    assert judged_texts(payload) == {
        "question": "How many days of paid leave are there?",
        "references": ["27 days"],
        "answer": "25 days.",
    }
    assert payload["messages"][0]["role"] == "system"


def test_the_verdicts_are_counted_in_the_report(ragbench: Ragbench, server: FaultServer) -> None:
    ragbench(*EVAL, *judged_by(server)).ok()

    (line,) = report()["judging"]["lines"]
    assert line["verdicts"] == {"right": 2, "partly": 1, "wrong": 1}


def test_a_case_that_the_judge_refuses_is_failed_and_no_wrong_answer(ragbench: Ragbench) -> None:
    def refuses_one(payload: Payload) -> str:
        if judged_texts(payload).get("answer") == "25 days.":
            return "I would rather not say."
        return verdict_by_answer(payload)

    with FaultServer(say=refuses_one) as server:
        ragbench(*EVAL, *judged_by(server))

    assert column("correctness") == ["1.0", "1.0", "0.5", "failed"]
    assert column("decided_by") == ["judge", "judge", "judge", "words"]


def test_a_reply_that_is_no_json_is_asked_for_again(ragbench: Ragbench) -> None:
    replies: list[str] = []

    def mends_itself(payload: Payload) -> str:
        if judged_texts(payload).get("answer") == "25 days.":
            replies.append("Sure: {")
            if len(replies) == 1:
                return replies[0]
        return verdict_by_answer(payload)

    with FaultServer(say=mends_itself) as server:
        ragbench(*EVAL, *judged_by(server)).ok()

    assert column("correctness") == ["1.0", "1.0", "0.5", "0.0"]


def test_a_judge_that_cannot_be_reached_ends_the_run_and_keeps_the_answers(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_LLM_RETRIES", "0")  # each repetition waits twice as long

    done = ragbench(*EVAL, "--judge", "m", "--llm-base-url", "http://127.0.0.1:9/v1")

    assert done.code != 0
    assert "127.0.0.1:9" in done.err
    assert "Traceback" not in done.err


# --- who is named


def test_the_file_names_the_judge(ragbench: Ragbench, server: FaultServer) -> None:
    Path("ragbench.yaml").write_text(f"judge: m\nllm: {{base_url: '{server.url}'}}\n", "utf-8")

    done = ragbench(*EVAL).ok()

    assert "Decided by the judge m" in done.flat


def test_off_switches_the_judge_of_the_file_off(ragbench: Ragbench, server: FaultServer) -> None:
    Path("ragbench.yaml").write_text(f"judge: m\nllm: {{base_url: '{server.url}'}}\n", "utf-8")

    ragbench(*EVAL, "--judge", "off").ok()

    assert not server.calls
    assert set(column("decided_by")) == {"words"}


def test_two_models_as_judge_are_refused(ragbench: Ragbench) -> None:
    done = ragbench(*EVAL, "--judge", "a", "--llm-model", "b")

    done.refused("--judge a and --llm-model b name two models")


def test_a_judge_of_the_file_that_is_no_name_is_refused_with_its_line(ragbench: Ragbench) -> None:
    Path("ragbench.yaml").write_text("llm: {model: m}\njudge: {model: m}\n", "utf-8")

    ragbench(*EVAL).refused("ragbench.yaml:2", "must be the name of a model")


def test_the_price_is_estimated_without_asking(ragbench: Ragbench, server: FaultServer) -> None:
    done = ragbench(*EVAL, *judged_by(server), "--dry-run").ok("correctness")

    assert "4 judgements would be made" in done.out
    assert not server.calls


def test_metrics_that_are_named_are_measured_beside_the_judge(
    ragbench: Ragbench, server: FaultServer
) -> None:
    ragbench(*EVAL, *judged_by(server), "-m", "token_f1").ok()

    with Path("run/cases.csv").open(encoding="utf-8") as file:
        header = next(csv.reader(file))
    assert header[-2:] == ["correctness", "token_f1"]


# --- criteria in words


def test_a_criterion_gives_pass_or_fail_with_a_reason(ragbench: Ragbench) -> None:
    with FaultServer(say=passes_answers_with("27")) as server:
        model = ("--llm-model", "m", "--llm-base-url", server.url)
        criterion = "rubric:digits=The answer, if it has a number, writes it in digits."
        done = ragbench(*EVAL, *model, "-m", criterion).ok("rubric:digits: 1 pass, 3 fail")

    assert "rubric:digits" in done.out
    assert column("rubric:digits") == ["0.0", "1.0", "0.0", "0.0"]


def test_a_criterion_of_the_file_is_measured_by_its_name(ragbench: Ragbench) -> None:
    with FaultServer(say=passes_answers_with("days")) as server:
        config = f"llm: {{model: m, base_url: '{server.url}'}}\nrubrics: {{days: It names days.}}\n"
        Path("ragbench.yaml").write_text(config, "utf-8")
        done = ragbench(*EVAL, "-m", "rubric:days")

    done.ok("rubric:days: 4 pass, 0 fail")


def test_other_words_under_the_same_name_are_judged_anew(ragbench: Ragbench) -> None:
    with FaultServer(say=passes_answers_with("days")) as server:
        model = ("--llm-model", "m", "--llm-base-url", server.url, "--no-preflight")
        command = (*EVAL, *model, "-m")
        ragbench(*command, "rubric:days=It names days.").ok()
        ragbench(*command, "rubric:days=It names days.").ok()
        assert len(server.calls) == 4

        ragbench(*command, "rubric:days=It says how many days.").ok()
        assert len(server.calls) == 8


def test_a_criterion_fails_a_gate(ragbench: Ragbench) -> None:
    write_answers(["Some days."] * 40)
    with FaultServer(say=passes_answers_with("27")) as server:
        model = ("--llm-model", "m", "--llm-base-url", server.url)
        ragbench(*EVAL, *model, "-m", "rubric:digits=It writes 27 in digits.").ok()
    limits = "gate: {metrics: {'rubric:digits': {min: 0.9}}}\n"
    Path("ragbench.yaml").write_text(limits, "utf-8")

    done = ragbench("gate", "run")

    assert done.code == 1
    assert "failed: rubric:digits (judge's opinion) 0.000 is below 0.900" in done.flat


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        pytest.param("rubric:kind", "the rubric 'kind' has no words", id="no words"),
        pytest.param("rubric:kind=", "the rubric 'kind' has no words", id="empty words"),
        pytest.param("rubric:2=It is kind.", "'2' cannot be the name of a rubric", id="bad name"),
    ],
)
def test_a_criterion_that_cannot_be_used_is_refused(
    ragbench: Ragbench, metrics: str, message: str
) -> None:
    ragbench(*EVAL, "-m", metrics).refused(message)


def test_a_criterion_of_the_file_without_words_is_refused_with_its_line(ragbench: Ragbench) -> None:
    Path("ragbench.yaml").write_text("rubrics:\n  kind: 5\n", "utf-8")

    done = ragbench(*EVAL, "-m", "rubric:kind")

    done.refused("ragbench.yaml:2", "'kind' must be a criterion in words")
