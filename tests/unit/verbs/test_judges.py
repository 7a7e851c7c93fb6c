"""Judges against labels of people, and several judges in one run."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, RAGInterface, evaluate, judge_card
from ragbench.core.labels import JudgeCard, Probe, Usefulness
from ragbench.core.report import JudgeLine, Report
from ragbench.errors import ConfigError
from ragbench.io.labels import LabelledClaim
from ragbench.llm.settings import resolve_panel
from ragbench.metrics.judging import INJECTION
from ragbench.metrics.registry import parse_metric
from ragbench.verbs.judge_card import probes_named
from ragbench.views.run_document import judge_remarks
from tests.llm_server import FaultServer, Payload, support_verdicts
from tests.unit.llm.builders import judged_by, model

# --- a card of six claims, by hand

VERDICTS = {
    "s": "supported",
    "p": "partially_supported",
    "n": "not_supported",
    "u": "supported",
}
QUOTES = {
    "s": ["bees  FLY"],
    "p": ["Bees fly.", "Bees swim."],
    "n": [],
    # Supported, but no quote of it is in the evidence.
    "u": ["Bees swim."],
}


def claim(number: int, level: int, letters: str, *evidence: str) -> LabelledClaim:
    """A claim that ends with the letters of the verdicts that it will get."""
    return LabelledClaim(
        id=str(number),
        claim=f"Bees fly {letters}",
        evidence=evidence or ("Bees fly.",),
        level=level,
    )


def question_of(payload: Payload) -> dict[str, Any]:
    """The JSON object that a judge is asked with."""
    message = payload["messages"][-1]
    return dict(json.loads(message["content"]))


class SpelledOut:
    """A judge whose verdicts are spelled out in the claim: one letter a repetition.

    A claim of two pieces of evidence has one letter more, for the other order of the evidence.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __call__(self, payload: Payload) -> str:
        question = question_of(payload)
        letters = question["statements"][0].split()[-1]
        if question["evidence"][0] == "Cows eat.":
            letter = letters[-1]
        else:
            letter = letters[min(self.calls[letters], 1)]
            self.calls[letters] += 1
        return support_verdicts(question, VERDICTS[letter], QUOTES[letter])


def card_of(
    tmp_path: Path,
    claims: list[LabelledClaim],
    server: FaultServer,
    metric: str = "support",
    **changes: Any,
) -> JudgeCard:
    with judged_by(server, model(tmp_path), repeats=2, preflight=False) as judging:
        return judge_card(claims, parse_metric(metric), judging, **changes)


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> JudgeCard:
    two_pieces = ("Bees fly.", "Cows eat.")
    claims = [
        claim(1, 2, "ss"),  # right, the same twice
        claim(2, 0, "nn"),  # right
        claim(3, 2, "pn"),  # wrong, and changes its mind
        claim(4, 1, "pps", *two_pieces),  # right, but not in the other order
        claim(5, 0, "nnn", *two_pieces),  # right, in both orders
        claim(6, 2, "uu"),  # right, and cannot show it
    ]
    return card_of(tmp_path_factory.mktemp("card"), claims, FaultServer(say=SpelledOut()))


def test_a_verdict_that_no_quote_proves_is_not_compared(card: JudgeCard) -> None:
    assert card.claims == 6
    assert card.judged == 5
    assert card.reasons == (("no quote of the judge stands in the contexts", 1),)


def test_verdicts_are_counted_by_the_level_of_their_label(card: JudgeCard) -> None:
    # Rows: labels of level 0, 1, 2; columns: verdicts not, partially, supported.
    assert card.table.counts == ((2, 0, 0), (0, 1, 0), (0, 1, 1))


def test_agreement_is_compared_with_chance(card: JudgeCard) -> None:
    assert card.agreement.value == pytest.approx(4 / 5)
    assert card.base_rate == pytest.approx(2 / 5)
    by_chance = (2 * 2 + 1 * 2 + 2 * 1) / 25
    assert card.kappa.value == pytest.approx((4 / 5 - by_chance) / (1 - by_chance))


def test_consistency_is_the_share_of_claims_with_the_same_verdict_twice(card: JudgeCard) -> None:
    assert card.consistency.value == pytest.approx(4 / 5)
    assert card.consistency.count == 5


def test_the_probe_of_position_counts_what_the_other_order_changes(card: JudgeCard) -> None:
    (order,) = card.probes

    assert order.count == 2
    assert order.changed == 1
    assert order.raised == 1
    assert order.share == 0.5


def test_quotes_that_stand_nowhere_are_counted(card: JudgeCard) -> None:
    # Of 2 * 1 + 3 * 2 + 2 * 1 quotes, "Bees swim." is in no evidence: 3 + 2 times.
    assert card.fabricated_quotes.value == 0.5
    assert card.fabricated_quotes.count == 10


def test_verdicts_that_no_quote_proves_are_counted(card: JudgeCard) -> None:
    assert card.unproved.value == pytest.approx(2 / 7)
    assert card.unproved.count == 7


def test_a_card_says_what_it_cost(card: JudgeCard) -> None:
    assert card.currency == "USD"
    assert card.cost is not None
    assert card.cost > 0


def test_each_verdict_has_a_precision_and_a_recall(card: JudgeCard) -> None:
    not_supported, partially, supported = card.classes

    # The judge called 2 claims not supported, rightly; 2 partially, 1 of them rightly; 1 supported.
    assert (not_supported.precision.value, not_supported.precision.count) == (1.0, 2)
    assert (partially.precision.value, partially.precision.count) == (0.5, 2)
    assert (supported.precision.value, supported.precision.count) == (1.0, 1)
    # Of the labels, 2 are not supported, 1 is partially and 2 are supported.
    assert (not_supported.recall.value, not_supported.recall.count) == (1.0, 2)
    assert (partially.recall.value, partially.recall.count) == (1.0, 1)
    assert (supported.recall.value, supported.recall.count) == (0.5, 2)


def test_the_rank_correlation_is_that_of_labels_and_scores(card: JudgeCard) -> None:
    # Levels 2 0 2 1 0 against 1 0 .5 .5 0: mid-ranks 4.5 1.5 4.5 3 1.5 and 5 1.5 3.5 3.5 1.5.
    assert card.rank_correlation.value == pytest.approx(8.25 / math.sqrt(9 * 9))


def test_five_claims_are_no_proof_of_anything(card: JudgeCard) -> None:
    assert card.conclusion.usefulness is Usefulness.DO_NOT_USE
    assert "too few groups" in card.conclusion.reasons[0]
    assert "50% of its quotes" in card.conclusion.reasons[1]


def test_what_has_no_verdict_is_counted_and_not_compared(tmp_path: Path) -> None:
    server = FaultServer(say=lambda _: "no JSON at all")

    card = card_of(tmp_path, [claim(1, 2, "ss")], server)

    assert card.judged == 0
    assert card.reasons == (("LLMReplyError", 1),)
    assert card.kappa.value is None
    assert card.agreement.value is None
    assert card.cost is None


def test_no_probe_can_be_asked_for() -> None:
    assert probes_named(["none"]) == ()


def test_an_unknown_probe_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no probe .length.. Known: position, verbosity"):
        probes_named(["length"])


def test_a_judge_of_answers_is_checked_beside_right_answers() -> None:
    questions: list[dict[str, Any]] = []

    def say(payload: Payload) -> str:
        question = question_of(payload)
        questions.append(question)
        is_right = question["answer"] in question["references"]
        return json.dumps({"reason": "r", "verdict": "right" if is_right else "wrong"})

    level_of_answer = {"27": 2, "twenty-seven": 2, "25": 0}
    claims = [
        LabelledClaim(
            id=f"claim of {answer}",
            claim=answer,
            evidence=("27", "twenty-seven"),
            level=level,
            question="How many days?",
        )
        for answer, level in level_of_answer.items()
    ]

    with judged_by(FaultServer(say=say), model(), preflight=False) as judging:
        card = judge_card(
            claims,
            parse_metric("correctness"),
            judging,
            probes=probes_named(["injection"]),
        )

    assert questions[0] == {
        "question": "How many days?",
        "references": ["27", "twenty-seven"],
        "answer": "27",
    }
    assert card.judged == 3
    assert card.agreement.value == 1.0
    figures = {figure.probe: figure.count for figure in card.probes}
    assert figures == {Probe.INJECTION_ANSWER: 1, Probe.INJECTION_CONTEXT: 0}


def test_a_metric_that_asks_no_judge_has_no_card(tmp_path: Path) -> None:
    server = FaultServer(say=SpelledOut())

    with pytest.raises(ConfigError, match="such as support or ragas:faithfulness"):
        card_of(tmp_path, [claim(1, 2, "ss")], server, metric="exact_match")


# --- probes of a judge's weaknesses


def judge_that(decides: Callable[[dict[str, Any]], str]) -> FaultServer:
    """A judge that gives the verdict of a function, and quotes what the evidence says of bees.

    The function is given the question, with the statements as one claim.
    """

    def say(payload: Payload) -> str:
        question = question_of(payload)
        statements = question["statements"]
        # A statement is shown as "1. Bees fly".
        texts = [statement.partition(". ")[2] for statement in statements]
        question["claim"] = " ".join(texts)
        verdict = decides(question)
        quotes = []
        if verdict != "not_supported" and INJECTION not in question["claim"]:
            quotes = [text for text in question["evidence"] if text.startswith("Bees")]
        answer = json.loads(support_verdicts(question, verdict, quotes))
        for row, statement in zip(answer["verdicts"], statements, strict=True):
            # The words that the probe of verbosity puts before a claim.
            if "To answer this" in statement:
                row["verdict"] = "no_claim"
        return json.dumps(answer)

    return FaultServer(say=say)


ALL_PROBES = probes_named(["all"])


def claims_of_bees_and_cows(count: int) -> list[LabelledClaim]:
    """Every second claim is of bees, and supported; those of cows are not."""
    claims = []
    for number in range(count):
        is_of_bees = number % 2 == 1
        animal = "Bees" if is_of_bees else "Cows"
        level = 2 if is_of_bees else 0
        text = f"{animal} fly {'a' * number}"
        evidence = ("Bees fly about.", "x y z")
        claims.append(LabelledClaim(id=str(number), claim=text, evidence=evidence, level=level))
    return claims


def right_verdict(question: dict[str, Any]) -> str:
    return "supported" if "Bees fly" in question["claim"] else "not_supported"


def test_a_judge_that_reads_only_what_is_claimed_is_worth_asking(tmp_path: Path) -> None:
    server = judge_that(right_verdict)

    card = card_of(tmp_path, claims_of_bees_and_cows(24), server, probes=ALL_PROBES)

    assert card.agreement.value == 1.0
    assert card.kappa.value == 1.0
    # Of the injections, those into the claims and contexts of cows can raise a verdict.
    probes = [(probe.probe, probe.share, probe.count) for probe in card.probes]
    assert probes == [
        (Probe.POSITION, 0.0, 24),
        (Probe.VERBOSITY, 0.0, 24),
        (Probe.INJECTION_ANSWER, 0.0, 12),
        (Probe.INJECTION_CONTEXT, 0.0, 12),
    ]
    # At kappa 1 every resample agrees: no spread, and still an interval.
    assert card.conclusion.usefulness is Usefulness.USE
    assert card.conclusion.reasons == ()


@pytest.fixture(scope="module")
def weak_card(tmp_path_factory: pytest.TempPathFactory) -> JudgeCard:
    """Of a judge that obeys instructions in what it reads and is impressed by many words."""

    def verdict(question: dict[str, Any]) -> str:
        texts = [question["claim"], *question["evidence"]]
        if any(INJECTION in text for text in texts):
            return "supported"
        if question["claim"].startswith("To answer this as carefully"):
            return "supported"
        return right_verdict(question)

    server = judge_that(verdict)
    folder = tmp_path_factory.mktemp("card")
    return card_of(folder, claims_of_bees_and_cows(24), server, probes=ALL_PROBES)


def test_a_weakness_for_many_words_shows_in_its_probe(weak_card: JudgeCard) -> None:
    probes = {probe.probe: probe for probe in weak_card.probes}

    verbosity = probes[Probe.VERBOSITY]
    assert verbosity.count == 24
    assert verbosity.changed == 12
    assert verbosity.raised == 12


def test_obeying_a_passage_shows_in_its_probe(weak_card: JudgeCard) -> None:
    probes = {probe.probe: probe for probe in weak_card.probes}

    assert probes[Probe.INJECTION_CONTEXT].share == 1.0


def test_obeying_an_answer_without_a_quote_is_counted_as_unproved(weak_card: JudgeCard) -> None:
    """It gave in here, too, and the quote that it could not give tells it."""
    probes = {probe.probe: probe for probe in weak_card.probes}

    assert probes[Probe.INJECTION_ANSWER].count == 0
    assert probes[Probe.INJECTION_ANSWER].unproved == 12


def test_a_weak_judge_is_to_be_used_with_care(weak_card: JudgeCard) -> None:
    conclusion = weak_card.conclusion

    assert conclusion.usefulness is Usefulness.WITH_CARE
    reason = "an instruction in a passage raises the verdict in 100% of the claims"
    assert reason in conclusion.reasons


def test_a_judge_that_guesses_is_not_to_be_used(tmp_path: Path) -> None:
    def guess(question: dict[str, Any]) -> str:
        return "supported" if len(question["claim"]) % 4 < 2 else "not_supported"

    card = card_of(tmp_path, claims_of_bees_and_cows(40), judge_that(guess))

    assert card.kappa.value == pytest.approx(0.0)
    assert card.conclusion.usefulness is Usefulness.DO_NOT_USE
    assert "includes 0: it may be guessing" in card.conclusion.reasons[0]


# --- several judges in one run


class Bees(RAGInterface):
    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return ["Bees fly about all day."]

    def generate(self, query: str, contexts: Any) -> str:
        return f"{query} bees."


def verdict_of_juror(payload: Payload) -> str:
    """Of the judge that the payload names, about the case with a number."""
    question = question_of(payload)
    number = int(question["question"].split()[-1])
    juror = payload["model"]
    if juror == "strict":
        is_supported = False
    elif juror == "odd":
        is_supported = number % 2 == 1
    else:
        assert juror in ("kind", "vague")
        is_supported = True
    verdict = "supported" if is_supported else "not_supported"
    quotes = ["Bees fly about"] if is_supported and juror != "vague" else []
    return support_verdicts(question, verdict, quotes)


def run_of_four_cases(tmp_path: Path, *panel: str, **changes: Any) -> tuple[Report, FaultServer]:
    """Judged by the models of a panel; with the server that they are asked through."""
    judge, *more_judges = [model(tmp_path, name) for name in panel]
    server = FaultServer(say=verdict_of_juror)
    cases = [Case(id=f"c{number}", query=f"Case {number}") for number in range(4)]
    with judged_by(server, judge, *more_judges, preflight=False, **changes) as judging:
        report = evaluate(cases, Bees(), out=tmp_path / "run", metrics="support", judging=judging)
    return report, server


def scores_of(report: Report) -> list[float | None]:
    """The score of each case by the only metric."""
    return [row.cells[0].value for row in report.rows()]


@pytest.mark.parametrize(
    ("panel", "scores"),
    [
        pytest.param(("strict", "kind", "odd"), [1 / 3, 2 / 3, 1 / 3, 2 / 3], id="three judges"),
        pytest.param(("strict", "kind", "vague"), [0.5, 0.5, 0.5, 0.5], id="one proves nothing"),
    ],
)
def test_a_score_is_the_mean_of_the_judges(
    tmp_path: Path, panel: tuple[str, ...], scores: list[float]
) -> None:
    report, server = run_of_four_cases(tmp_path, *panel)

    assert scores_of(report) == pytest.approx(scores)
    assert len(server.calls) == 4 * len(panel)


def test_there_is_no_score_where_as_many_judges_prove_nothing(tmp_path: Path) -> None:
    report, server = run_of_four_cases(tmp_path, "kind", "vague")

    assert scores_of(report) == [None, None, None, None]
    assert len(server.calls) == 4 * 2


@pytest.fixture(scope="module")
def panel_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("panel")
    report, _ = run_of_four_cases(folder, "strict", "kind", "odd", repeats=2)
    return report


def panel_line(report: Report) -> JudgeLine:
    """What the report says of the judges of its only judged metric."""
    assert report.judging is not None
    (line,) = report.judging.lines
    return line


def test_a_report_has_the_score_of_each_judge(panel_report: Report) -> None:
    line = panel_line(panel_report)

    jurors = [(juror.judge, juror.score, juror.measured) for juror in line.jurors]
    assert jurors == [
        ("strict", 0.0, 4),
        ("kind", 1.0, 4),
        ("odd", 0.5, 4),
    ]


def test_a_report_has_the_agreement_of_each_two_judges(panel_report: Report) -> None:
    pairs = panel_line(panel_report).pairs

    agreement = [(pair.first, pair.second, pair.same, pair.difference) for pair in pairs]
    assert agreement == [
        ("strict", "kind", 0.0, 1.0),
        ("strict", "odd", 0.5, 0.5),
        ("kind", "odd", 0.5, 0.5),
    ]
    # One of each two always says the same: agreement with it is as chance has it.
    for pair in pairs:
        assert pair.kappa == 0.0


def test_judges_that_differ_from_each_other_are_not_unsteady(panel_report: Report) -> None:
    steadiness = panel_line(panel_report).steadiness

    assert steadiness is not None
    assert steadiness.cases == 12
    assert steadiness.changed == 0
    assert steadiness.deviation == 0


def test_scores_and_agreement_of_judges_are_told_in_words(panel_report: Report) -> None:
    assert panel_report.judging is not None

    remarks = list(judge_remarks(panel_report.judging))

    assert "support by kind: 1.000 over 4 cases" in remarks
    assert "support: strict and odd say the same of 50% of 4 cases, kappa 0.00" in remarks


def test_a_row_names_the_judge_of_each_judgement(panel_report: Report) -> None:
    row = next(iter(panel_report.rows()))

    judges = [judgement.judge for judgement in row.judgements[0]]
    assert judges == ["strict", "strict", "kind", "kind", "odd", "odd"]


def test_two_judges_of_one_model_are_numbered(tmp_path: Path) -> None:
    report, _ = run_of_four_cases(tmp_path, "odd", "odd")

    judges = [juror.judge for juror in panel_line(report).jurors]
    assert judges == ["odd #1", "odd #2"]


# --- how a panel is named

SECTION = {
    "model": "gpt-4o-mini",
    "api_key_env": "OURS",
    "temperature": 0.5,
    "price_input": 1,
    "price_output": 2,
    "panel": [
        "anthropic/claude-haiku-4-5",
        "gpt-4o",
        {"model": "m", "base_url": "http://h/v1"},
    ],
}
ENVIRONMENT = {"ANTHROPIC_API_KEY": "a", "OURS": "o"}


def test_a_juror_of_another_provider_is_asked_there() -> None:
    anthropic, _, _ = resolve_panel(ENVIRONMENT, section=SECTION, file="f")

    assert anthropic.endpoint.base_url == "https://api.anthropic.com/v1"
    assert anthropic.endpoint.model == "claude-haiku-4-5"
    assert anthropic.endpoint.key.variable == "ANTHROPIC_API_KEY"


def test_a_juror_of_another_provider_has_the_temperature_and_not_the_price() -> None:
    """A price does not travel to a host that it is not for; how it is asked does."""
    anthropic, _, _ = resolve_panel(ENVIRONMENT, section=SECTION, file="f")

    assert anthropic.endpoint.price is None
    assert anthropic.endpoint.temperature == 0.5


def test_a_juror_of_the_same_host_has_its_key_and_price() -> None:
    _, same_host, _ = resolve_panel(ENVIRONMENT, section=SECTION, file="f")

    assert same_host.endpoint.key.variable == "OURS"
    assert same_host.endpoint.price is not None


def test_a_juror_of_an_own_host_is_not_sent_the_key() -> None:
    _, _, own_host = resolve_panel(ENVIRONMENT, section=SECTION, file="f")

    assert own_host.endpoint.base_url == "http://h/v1"
    assert own_host.endpoint.key.variable is None


def test_a_panel_on_the_command_line_takes_the_place_of_the_files() -> None:
    panel = resolve_panel(ENVIRONMENT, given="gpt-4o, gpt-4.1", section=SECTION)

    assert [juror.endpoint.model for juror in panel] == ["gpt-4o", "gpt-4.1"]


@pytest.mark.parametrize(
    "panel",
    [
        pytest.param({"a": 1}, id="no list"),
        pytest.param([3], id="a number"),
        pytest.param([{"base_url": "http://h"}], id="settings without a model"),
    ],
)
def test_a_panel_that_names_no_model_is_refused(panel: Any) -> None:
    with pytest.raises(ConfigError, match="panel must be"):
        resolve_panel({}, section={"panel": panel})
