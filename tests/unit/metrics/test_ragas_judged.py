"""RAGAS' judged metrics: its own prompts and formulas, without what it loses on the way."""

from __future__ import annotations

import asyncio
import random
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from ragbench import parse_metrics
from ragbench.core.outcome import Cell, Status
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError, DataError, LLMBudgetError, LLMRefusedError
from ragbench.metrics.judging import JudgePlan
from ragbench.metrics.plan import Plan
from ragbench.metrics.ragas import judged_metrics
from tests.unit.metrics.builders import (
    Judge,
    answered,
    cell,
    cells,
    generated,
    judged,
    retrieved,
    statements,
    trace,
    value,
)

pytestmark = pytest.mark.extra("ragas")

DEFINITIONS = [one.definition for one in judged_metrics().values()]


def case(
    response: str = "Bees fly and sing.", *, texts: tuple[str, ...] = ("Bees fly.", "Cows eat.")
) -> Trace:
    ids = [str(number) for number in range(len(texts))]
    gold: Any = {"references": ["Bees fly."], "gold_texts": ["Bees fly."]}
    found = retrieved(*ids, texts=texts)
    return trace(**gold, retrieval=found, generation=generated(response))


# --- the list


def test_every_judged_metric_of_the_installed_release_is_offered() -> None:
    from ragbench.plugins import import_ragas, require

    import_ragas()
    known = require("ragas.metrics.collections", extra="ragas")
    offered = {entry.cls for entry in judged_metrics().values()}
    fields = {name: getattr(getattr(known, name), "__annotations__", {}) for name in known.__all__}
    asking = {name for name, known in fields.items() if {"llm", "embeddings"} & set(known)}
    assert asking - offered == {
        # of agents and pictures, and other names
        "AgentGoalAccuracy",
        "AgentGoalAccuracyWithReference",
        "AgentGoalAccuracyWithoutReference",
        "MultiModalFaithfulness",
        "MultiModalRelevance",
        "TopicAdherence",
        "ContextPrecisionWithReference",
        "ContextPrecisionWithoutReference",
    }
    assert offered - set(known.__all__) == {"AspectCritic"}


@pytest.mark.parametrize(
    ("metric", "calls", "texts"),
    [
        ("ragas:faithfulness", 2, 0),
        ("ragas:answer_relevancy", 3, 4),
        ("ragas:answer_relevancy(strictness=1)", 1, 2),
        ("ragas:response_groundedness", 2, 0),
        ("ragas:factual_correctness", 4, 0),
        ("ragas:factual_correctness(mode=precision)", 2, 0),
        ("ragas:answer_correctness", 3, 2),
        ("ragas:answer_accuracy", 2, 0),
        ("ragas:semantic_similarity", 0, 2),
        ("ragas:noise_sensitivity", 2 * 2 + 3, 0),
        ("ragas:summary_score", 3, 0),
        ("ragas:sql_semantic_equivalence", 1, 0),
        ("ragas:context_precision", 2, 0),
        ("ragas:context_utilization", 2, 0),
        ("ragas:context_recall", 1, 0),
        ("ragas:context_entity_recall", 2, 0),
        ("ragas:context_relevance", 2, 0),
        ("ragas:rubrics_score", 1, 0),
        ("ragas:conciseness", 1, 0),
        ('ragas:aspect_critic(definition="Is it short?")', 1, 0),
    ],
)
def test_a_case_takes_the_calls_that_its_definition_names(
    metric: str, calls: int, texts: int
) -> None:
    judge = Judge()
    found = judged(metric, case(), judge)
    assert found.cell.status is Status.MEASURED, found.cell
    assert (len(judge.asked), sum(map(len, judge.embedded))) == (calls, texts)
    assert len(found.judgements[0].steps) == calls


def test_a_metric_gets_the_same_score_from_ragas_itself() -> None:
    """Faithfulness of two statements, one of them supported: by both, 1/2."""
    from ragbench.plugins import import_ragas, require

    import_ragas()
    base: Any = require("ragas.llms.base", extra="ragas").InstructorBaseRagasLLM
    say = statements(["Bees fly.", "Bees sing."], [1, 0])
    judge = Judge(say)
    assert judged("ragas:faithfulness", case(), judge).cell.value == 0.5
    prompts: list[str] = []

    class Theirs(base):  # type: ignore[misc]
        is_async, generate = True, None

        async def agenerate(self, prompt: str, response_model: type[Any]) -> Any:
            prompts.append(prompt)
            return response_model(**say(prompt, response_model.model_json_schema(), 0))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ragas.metrics.collections import Faithfulness
    texts: Any = {
        "response": "Bees fly and sing.",
        "retrieved_contexts": ["Bees fly.", "Cows eat."],
    }
    asked = Faithfulness(llm=Theirs()).ascore(user_input=case().case.query, **texts)
    assert asyncio.run(asked).value == 0.5
    assert prompts == [prompt for prompt, _ in judge.asked]


# --- what a judge says is kept and checked


def test_a_forgotten_verdict_is_no_verdict() -> None:
    """RAGAS would divide by the one that came: 1.0 for a half checked answer."""
    found = judged("ragas:faithfulness", case(), Judge(statements(["a", "b"], [1])))
    assert found.cell.status is Status.FAILED
    assert "one entry for each of 2, not 1" in str(found.cell.failure)


@pytest.mark.parametrize(
    ("metric", "answer"),
    [
        ("ragas:context_precision", {"reason": "x", "verdict": 2}),
        ("ragas:answer_accuracy", {"rating": 3}),
        ("ragas:context_relevance", {"rating": 4}),
        ("ragas:rubrics_score", {"feedback": "x", "score": 6}),
    ],
)
def test_a_number_out_of_its_values_is_no_verdict(metric: str, answer: Mapping[str, Any]) -> None:
    judge = Judge(lambda *_: answer)
    found = judged(metric, case(), judge)
    assert found.cell.status is Status.FAILED
    assert "must be one of" in str(found.cell.failure)
    assert len(judge.asked) == 1  # RAGAS asks five times, then gives the other judge's half


@pytest.mark.parametrize(
    ("metric", "answer", "reason"),
    [
        ("ragas:faithfulness", {"statements": []}, "no statement"),
        ("ragas:answer_correctness", {"statements": []}, "no statement"),  # RAGAS: 1.0
        ("ragas:factual_correctness", {"claims": []}, "no claim"),  # RAGAS: 0.0
        ("ragas:context_recall", {"classifications": []}, "no statement"),
        ("ragas:context_entity_recall", {"entities": []}, "no entity in the reference"),  # 0.0
    ],
)
def test_an_empty_list_is_no_score(metric: str, answer: Mapping[str, Any], reason: str) -> None:
    found = judged(metric, case(), Judge(lambda *_: answer))
    assert (found.cell.status, found.cell.value) == (Status.SKIPPED, None)
    assert reason in str(found.cell.reason)


def test_equal_prompts_of_a_judging_are_repetitions() -> None:
    judge = Judge()
    judged("ragas:answer_relevancy", case(), judge)
    assert len({prompt for prompt, _ in judge.asked}) == 1
    assert [repeat for _, repeat in judge.asked] == [0, 1, 2]


# --- failures


def test_a_refusal_costs_one_cell_and_half_a_judgement_is_none() -> None:
    answers = iter([{"rating": 4}, LLMRefusedError("I will not")])
    found = judged("ragas:answer_accuracy", case(), Judge(lambda *_: next(answers)))
    assert found.cell.status is Status.FAILED
    assert found.cell.failure is not None and found.cell.failure.type == "LLMRefusedError"
    assert [step.answer for step in found.judgements[0].steps] == [{"rating": 4}]


@pytest.mark.parametrize("metric", ["ragas:faithfulness", "ragas:answer_accuracy"])
def test_the_end_of_all_calls_is_no_cell(metric: str) -> None:
    """Also where RAGAS swallows exceptions."""
    with pytest.raises(LLMBudgetError):
        judged(metric, case(), Judge(lambda *_: LLMBudgetError("capped")))


# --- what nobody is asked about


def test_a_declined_answer_is_abstained_where_it_would_distort() -> None:
    judge = Judge()
    for metric in parse_metrics([d.name for d in DEFINITIONS if "critic" not in d.name]):
        found = judged(metric.name, case("I don't know."), judge)
        reads_answer = metric.definition.abstains
        assert (found.cell.status is Status.ABSTAINED) is reads_answer, metric.name
    assert {d.name for d in DEFINITIONS if not d.abstains} == {
        "ragas:context_precision",
        "ragas:context_recall",
        "ragas:context_entity_recall",
        "ragas:context_relevance",
    }


@pytest.mark.parametrize(("answerable", "value"), [(False, None), (True, 0.0)])
def test_what_the_judge_calls_noncommittal_is_an_abstention_where_there_is_no_answer(
    answerable: bool, value: float | None
) -> None:
    known = case("That is hard to say these days, one hears this and that.")
    one = replace(known, case=replace(known.case, answerable=answerable))
    judge = Judge(lambda *_: {"question": "What?", "noncommittal": 1})
    found = judged("ragas:answer_relevancy", one, judge).cell
    assert (found.status, found.value) == ("measured" if answerable else "abstained", value)


def test_an_empty_retrieval_is_0_for_the_retriever_and_no_score_for_the_answer() -> None:
    judge, empty = Judge(), case(texts=())
    assert judged("ragas:context_recall", empty, judge).cell.value == 0.0
    assert judged("ragas:context_precision", empty, judge).cell.value == 0.0
    assert judged("ragas:faithfulness", empty, judge).cell.status is Status.SKIPPED
    assert judge.asked == []


# --- repetitions


def test_repetitions_are_asked_anew_and_averaged() -> None:
    def say(prompt: str, schema: Mapping[str, Any], repeat: int) -> Any:
        return {"reason": "x", "verdict": int(repeat < 1000)}  # the first judging: all relevant

    judge = Judge(say)
    found = judged("ragas:context_precision", case(), judge, repeats=2)
    assert list(found.values) == pytest.approx([1.0, 0.0])
    assert found.cell.value == pytest.approx(0.5)
    assert sorted(repeat for _, repeat in judge.asked) == [0, 0, 1000, 1000]


# --- settings


def test_a_rubric_file_is_read_and_is_part_of_the_judge(tmp_path: Any) -> None:
    path = tmp_path / "grades.yaml"
    lines = [f"score{grade}_description: 'worth {grade}'\n" for grade in range(1, 6)]
    path.write_text("".join(lines), encoding="utf-8")
    text = f'ragas:rubrics_score(rubrics="{path}")'
    judge = Judge()
    assert judged(text, case(), judge).cell.value == 1.0
    assert "worth 4" in judge.asked[0][0]
    before = JudgePlan(parse_metrics(text)).identities
    path.write_text("".join(lines).replace("worth 4", "worth a lot"), encoding="utf-8")
    assert JudgePlan(parse_metrics(text)).identities != before
    path.write_text("score1_description: 'x'\n", encoding="utf-8")
    with pytest.raises(DataError, match="score5_description"):
        JudgePlan(parse_metrics(text))
    with pytest.raises(ConfigError):
        JudgePlan(parse_metrics("ragas:answer_correctness(factuality=1.5)"))


def test_nobody_to_ask_is_reported_with_what_to_set() -> None:
    plan = JudgePlan(parse_metrics("ragas:faithfulness, ragas:semantic_similarity"))
    with pytest.raises(ConfigError, match=r"ragas:faithfulness: .*--llm-model"):
        plan.check(None, None)
    with pytest.raises(ConfigError, match="needs a language model, which this command"):
        Plan(parse_metrics("ragas:faithfulness"))


# --- what needs no judge


def asked_directly(name: str, **fields: Any) -> float:
    from ragbench.plugins import import_ragas

    package: Any = import_ragas()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric = getattr(package.metrics, name)()
    sample = package.SingleTurnSample(**fields)
    return float(asyncio.run(metric.single_turn_ascore(sample)))


PAIRS = [
    ("The Eiffel Tower", "The Eiffel Tower"),
    ("the tower", "The Eiffel Tower"),
    ("It is the Eiffel Tower in Paris", "Eiffel Tower"),
    ("kitten", "sitting"),
    ("北京", "北京市"),
]


@pytest.mark.parametrize(("response", "reference"), PAIRS)
@pytest.mark.parametrize(
    ("ours", "ragas_name", "class_name"),
    [
        ("edit_similarity", "ragas:non_llm_string_similarity", "NonLLMStringSimilarity"),
        ("exact_match(normalise=none)", "ragas:exact_match", "ExactMatch"),
        (None, "ragas:string_presence", "StringPresence"),
        (None, "ragas:bleu", "BleuScore"),
        (None, "ragas:rouge", "RougeScore"),
        (None, "ragas:chrf", "ChrfScore"),
    ],
)
def test_answers_score_as_in_ragas(
    ours: str | None, ragas_name: str, class_name: str, response: str, reference: str
) -> None:
    wanted = asked_directly(class_name, response=response, reference=reference)
    assert value(ragas_name, answered(response, reference)) == wanted
    if ours is not None:
        assert value(ours, answered(response, reference)) == wanted


@pytest.mark.extra("text")
def test_rouge_is_that_of_ragas_on_400_random_pairs() -> None:
    seeded = random.Random(53)
    words = (
        "The",
        "a",
        "cat",
        "cats",
        "sat.",
        "sitting",
        "on",
        "mats,",
        "state-of-the-art",
        "2,008",
    )
    traces: list[Trace] = []
    for _ in range(400):
        response, reference = (" ".join(seeded.choices(words, k=9)) for _ in "12")
        traces.append(answered(response, reference))
    rows = cells("rouge, ragas:rouge", *traces)
    assert [ours.value for ours, _ in rows] == [theirs.value for _, theirs in rows]


@pytest.mark.parametrize(
    ("ids", "gold", "precision", "recall"),
    [
        (["a", "b", "a"], ["a", "c"], 1 / 2, 1 / 2),
        (["a"], ["a"], 1.0, 1.0),
        (["x"], ["a"], 0.0, 0.0),
    ],
)
def test_ids_score_as_in_ragas(
    ids: list[str], gold: list[str], precision: float, recall: float
) -> None:
    one = trace(gold=gold, retrieval=retrieved(*ids))
    names = "ragas:id_based_context_precision, ragas:id_based_context_recall"
    row = cells(f"{names}, set_precision, set_recall", one)[0]
    assert [c.value for c in row] == [precision, recall, precision, recall]
    fields = {"retrieved_context_ids": ids, "reference_context_ids": gold}
    assert asked_directly("IDBasedContextPrecision", **fields) == precision
    assert asked_directly("IDBasedContextRecall", **fields) == recall


def test_contexts_score_as_in_ragas() -> None:
    texts = ["nothing of the kind", "the gateway drops connections"]
    gold = ["the gateway drops connection"]
    one = trace(gold_texts=gold, retrieval=retrieved("a", "b", texts=texts))
    fields = {"retrieved_contexts": texts, "reference_contexts": gold}
    wanted = asked_directly("NonLLMContextPrecisionWithReference", **fields)
    assert wanted == pytest.approx(0.5)
    assert value("ragas:non_llm_context_precision_with_reference", one) == wanted
    assert value("ragas:non_llm_context_recall", one) == 1.0


NAN = Cell.skipped("RAGAS gave NaN: the metric is not defined for this case")


@pytest.mark.parametrize(
    ("name", "one", "found"),
    [
        ("id_based_context_precision", trace(gold=["a"], retrieval=retrieved()), NAN),
        (
            "id_based_context_recall",
            trace(retrieval=retrieved("a")),
            Cell.skipped("no reference context ids"),
        ),
        # RAGAS takes the largest of no similarities, which raises.
        (
            "non_llm_context_recall",
            trace(gold_texts=["some text"], retrieval=retrieved(texts=[])),
            Cell.measured(0.0),
        ),
    ],
)
def test_what_ragas_cannot_define_is_no_number(name: str, one: Trace, found: Cell) -> None:
    assert cell(f"ragas:{name}", one) == found


def test_what_ragas_cannot_compute_fails_alone() -> None:
    gold = ["the gateway drops connections"]
    fine = trace(gold_texts=gold, retrieval=retrieved("a", texts=gold))
    broken = trace(gold_texts=gold, retrieval=retrieved("a", texts=cast("list[str]", [3])))
    rows = cells("ragas:non_llm_context_recall", fine, broken, fine)
    assert [row[0].status for row in rows] == [Status.MEASURED, Status.FAILED, Status.MEASURED]
    assert rows[1][0].failure is not None and rows[1][0].failure.type == "ValidationError"
