"""RAGAS' judged metrics: its own prompts and formulas, without what it loses on the way."""

from __future__ import annotations

import asyncio
import random
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
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

DEFINITIONS = [entry.definition for entry in judged_metrics().values()]


def case(
    response: str = "Bees fly and sing.", *, texts: tuple[str, ...] = ("Bees fly.", "Cows eat.")
) -> Trace:
    """An answer to a question whose reference, and whose reference context, is "Bees fly."."""
    ids = [str(number) for number in range(len(texts))]
    return trace(
        references=["Bees fly."],
        gold_texts=["Bees fly."],
        retrieval=retrieved(*ids, texts=texts),
        generation=generated(response),
    )


# --- the list

NOT_OFFERED = {
    # of agents and pictures
    "AgentGoalAccuracy",
    "AgentGoalAccuracyWithReference",
    "AgentGoalAccuracyWithoutReference",
    "MultiModalFaithfulness",
    "MultiModalRelevance",
    "TopicAdherence",
    # other names of ContextPrecision and ContextUtilization
    "ContextPrecisionWithReference",
    "ContextPrecisionWithoutReference",
}


def test_every_judged_metric_of_the_installed_release_is_offered() -> None:
    from ragbench.plugins import import_ragas, require

    import_ragas()
    collection = require("ragas.metrics.collections", extra="ragas")
    asks_a_model: set[str] = set()
    for name in collection.__all__:
        fields = getattr(getattr(collection, name), "__annotations__", {})
        if "llm" in fields or "embeddings" in fields:
            asks_a_model.add(name)

    offered = {entry.cls for entry in judged_metrics().values()}

    assert asks_a_model - offered == NOT_OFFERED
    assert offered - set(collection.__all__) == {"AspectCritic"}


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

    result = judged(metric, case(), judge)

    assert result.cell.status is Status.MEASURED, result.cell
    assert len(judge.asked) == calls
    assert len(result.judgements[0].steps) == calls
    embedded = [text for batch in judge.embedded for text in batch]
    assert len(embedded) == texts


def test_a_metric_gets_the_same_score_from_ragas_itself() -> None:
    """Faithfulness of two statements, one of them supported: by both, 1/2."""
    from ragbench.plugins import import_ragas, require

    import_ragas()
    base: Any = require("ragas.llms.base", extra="ragas").InstructorBaseRagasLLM
    say = statements(["Bees fly.", "Bees sing."], [1, 0])
    ragas_prompts: list[str] = []

    class RagasLLM(base):  # type: ignore[misc]
        """Answers RAGAS as the judge answers us."""

        is_async, generate = True, None

        async def agenerate(self, prompt: str, response_model: type[Any]) -> Any:
            ragas_prompts.append(prompt)
            return response_model(**say(prompt, response_model.model_json_schema(), 0))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ragas.metrics.collections import Faithfulness
    judge = Judge(say)

    our_score = judged("ragas:faithfulness", case(), judge).cell.value
    ragas_score = asyncio.run(
        Faithfulness(llm=RagasLLM()).ascore(
            user_input="query",
            response="Bees fly and sing.",
            retrieved_contexts=["Bees fly.", "Cows eat."],
        )
    )

    assert our_score == 0.5
    assert ragas_score.value == 0.5
    assert ragas_prompts == [prompt for prompt, _ in judge.asked]


# --- what a judge says is checked and kept


def test_a_forgotten_verdict_is_no_verdict() -> None:
    """RAGAS would divide by the one that came: 1.0 for a half checked answer."""
    judge = Judge(statements(["a", "b"], [1]))

    cell = judged("ragas:faithfulness", case(), judge).cell

    assert cell.status is Status.FAILED
    assert "one entry for each of 2, not 1" in str(cell.failure)


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

    cell = judged(metric, case(), judge).cell

    assert cell.status is Status.FAILED
    assert "must be one of" in str(cell.failure)
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
    judge = Judge(lambda *_: answer)

    cell = judged(metric, case(), judge).cell

    assert (cell.status, cell.value) == (Status.SKIPPED, None)
    assert reason in str(cell.reason)


def test_equal_prompts_of_a_judging_are_repetitions() -> None:
    judge = Judge()

    judged("ragas:answer_relevancy", case(), judge)

    prompts = [prompt for prompt, _ in judge.asked]
    assert prompts == [prompts[0]] * 3
    assert [repeat for _, repeat in judge.asked] == [0, 1, 2]


# --- failures


def test_a_refusal_costs_one_cell_and_half_a_judgement_is_none() -> None:
    answers = iter([{"rating": 4}, LLMRefusedError("I will not")])
    judge = Judge(lambda *_: next(answers))

    result = judged("ragas:answer_accuracy", case(), judge)

    assert result.cell.status is Status.FAILED
    assert result.cell.failure is not None
    assert result.cell.failure.type == "LLMRefusedError"
    assert [step.answer for step in result.judgements[0].steps] == [{"rating": 4}]


@pytest.mark.parametrize("metric", ["ragas:faithfulness", "ragas:answer_accuracy"])
def test_the_end_of_all_calls_is_no_cell(metric: str) -> None:
    """Also where RAGAS swallows exceptions."""
    judge = Judge(lambda *_: LLMBudgetError("capped"))

    with pytest.raises(LLMBudgetError):
        judged(metric, case(), judge)


# --- what nobody is asked about

READS_NO_ANSWER = {
    "ragas:context_precision",
    "ragas:context_recall",
    "ragas:context_entity_recall",
    "ragas:context_relevance",
}


def test_only_metrics_of_the_retrieval_score_a_declined_answer() -> None:
    names = {definition.name for definition in DEFINITIONS if not definition.abstains}

    assert names == READS_NO_ANSWER


@pytest.mark.parametrize("metric", sorted(READS_NO_ANSWER))
def test_a_metric_of_the_retrieval_is_measured_where_the_answer_is_declined(metric: str) -> None:
    cell = judged(metric, case("I don't know."), Judge()).cell

    assert cell.status is not Status.ABSTAINED


READS_ANSWER = [
    definition.name
    for definition in DEFINITIONS
    # The critic needs a definition of what it criticises.
    if definition.abstains and "critic" not in definition.name
]


@pytest.mark.parametrize("metric", READS_ANSWER)
def test_a_declined_answer_is_abstained_where_it_would_distort(metric: str) -> None:
    judge = Judge()

    cell = judged(metric, case("I don't know."), judge).cell

    assert cell.status is Status.ABSTAINED


@pytest.mark.parametrize(
    ("answerable", "status", "score"),
    [(False, Status.ABSTAINED, None), (True, Status.MEASURED, 0.0)],
)
def test_what_the_judge_calls_noncommittal_is_an_abstention_where_there_is_no_answer(
    answerable: bool, status: Status, score: float | None
) -> None:
    vague = case("That is hard to say these days, one hears this and that.")
    vague = replace(vague, case=replace(vague.case, answerable=answerable))
    judge = Judge(lambda *_: {"question": "What?", "noncommittal": 1})

    cell = judged("ragas:answer_relevancy", vague, judge).cell

    assert (cell.status, cell.value) == (status, score)


@pytest.mark.parametrize("metric", ["ragas:context_recall", "ragas:context_precision"])
def test_an_empty_retrieval_is_0_for_the_retriever(metric: str) -> None:
    judge = Judge()

    cell = judged(metric, case(texts=()), judge).cell

    assert cell.value == 0.0
    assert judge.asked == []


def test_an_empty_retrieval_is_no_score_for_the_answer() -> None:
    judge = Judge()

    cell = judged("ragas:faithfulness", case(texts=()), judge).cell

    assert cell.status is Status.SKIPPED
    assert judge.asked == []


# --- repetitions


def test_repetitions_are_asked_anew_and_averaged() -> None:
    def say(prompt: str, schema: Mapping[str, Any], repeat: int) -> Any:
        # Of the first judging the repetitions begin at 0: all is relevant. Of the second, at 1000.
        return {"reason": "x", "verdict": int(repeat < 1000)}

    judge = Judge(say)

    result = judged("ragas:context_precision", case(), judge, repeats=2)

    assert list(result.values) == pytest.approx([1.0, 0.0])
    assert result.cell.value == pytest.approx(0.5)
    assert sorted(repeat for _, repeat in judge.asked) == [0, 0, 1000, 1000]


# --- settings

RUBRIC_LINES = [f"score{grade}_description: 'worth {grade}'\n" for grade in range(1, 6)]
RUBRIC = "".join(RUBRIC_LINES)


@pytest.fixture
def rubric(tmp_path: Path) -> Path:
    """A file with the five grades of a rubric."""
    path = tmp_path / "grades.yaml"
    path.write_text(RUBRIC, encoding="utf-8")
    return path


def test_the_judge_reads_the_rubric_of_a_file(rubric: Path) -> None:
    judge = Judge()

    cell = judged(f'ragas:rubrics_score(rubrics="{rubric}")', case(), judge).cell

    assert cell.value == 1.0
    [(prompt, _)] = judge.asked
    assert "worth 4" in prompt


def test_a_changed_rubric_is_another_judge(rubric: Path) -> None:
    metrics = parse_metrics(f'ragas:rubrics_score(rubrics="{rubric}")')
    before = JudgePlan(metrics).identities

    rubric.write_text(RUBRIC.replace("worth 4", "worth a lot"), encoding="utf-8")

    assert JudgePlan(metrics).identities != before


def test_a_rubric_without_a_grade_is_refused(rubric: Path) -> None:
    rubric.write_text("score1_description: 'x'\n", encoding="utf-8")

    with pytest.raises(DataError, match="score5_description"):
        JudgePlan(parse_metrics(f'ragas:rubrics_score(rubrics="{rubric}")'))


def test_a_setting_that_is_no_share_is_refused() -> None:
    with pytest.raises(ConfigError):
        JudgePlan(parse_metrics("ragas:answer_correctness(factuality=1.5)"))


def test_nobody_to_ask_is_reported_with_what_to_set() -> None:
    plan = JudgePlan(parse_metrics("ragas:faithfulness, ragas:semantic_similarity"))

    with pytest.raises(ConfigError, match=r"ragas:faithfulness: .*--llm-model"):
        plan.check(None, None)


def test_a_judged_metric_is_refused_where_no_judge_can_be_asked() -> None:
    with pytest.raises(ConfigError, match="needs a language model, which this command"):
        Plan(parse_metrics("ragas:faithfulness"))


# --- what needs no judge


def ragas_score(name: str, **fields: Any) -> float:
    """The score that RAGAS' own class gives."""
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
    ("metric", "ragas_class"),
    [
        ("ragas:non_llm_string_similarity", "NonLLMStringSimilarity"),
        ("ragas:exact_match", "ExactMatch"),
        ("ragas:string_presence", "StringPresence"),
        ("ragas:bleu", "BleuScore"),
        ("ragas:rouge", "RougeScore"),
        ("ragas:chrf", "ChrfScore"),
        # Metrics of ours that are the same by definition.
        ("edit_similarity", "NonLLMStringSimilarity"),
        ("exact_match(normalise=none)", "ExactMatch"),
    ],
)
def test_answers_score_as_in_ragas(
    metric: str, ragas_class: str, response: str, reference: str
) -> None:
    expected = ragas_score(ragas_class, response=response, reference=reference)

    assert value(metric, answered(response, reference)) == expected


SENTENCE_WORDS = ["The", "a", "cat", "cats", "sat.", "sitting", "on", "mats,"]
ROUGE_WORDS = [*SENTENCE_WORDS, "state-of-the-art", "2,008"]


@pytest.mark.extra("text")
def test_rouge_is_that_of_ragas_on_400_random_pairs() -> None:
    seeded = random.Random(53)
    traces: list[Trace] = []
    for _ in range(400):
        response = " ".join(seeded.choices(ROUGE_WORDS, k=9))
        reference = " ".join(seeded.choices(ROUGE_WORDS, k=9))
        traces.append(answered(response, reference))

    rows = cells("rouge, ragas:rouge", *traces)

    our_scores = [ours.value for ours, _ in rows]
    ragas_scores = [ragas.value for _, ragas in rows]
    assert our_scores == ragas_scores


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
    retrieval = trace(gold=gold, retrieval=retrieved(*ids))
    fields = {"retrieved_context_ids": ids, "reference_context_ids": gold}

    assert ragas_score("IDBasedContextPrecision", **fields) == precision
    assert value("ragas:id_based_context_precision", retrieval) == precision
    assert value("set_precision", retrieval) == precision
    assert ragas_score("IDBasedContextRecall", **fields) == recall
    assert value("ragas:id_based_context_recall", retrieval) == recall
    assert value("set_recall", retrieval) == recall


def test_contexts_score_as_in_ragas() -> None:
    texts = ["nothing of the kind", "the gateway drops connections"]
    gold = ["the gateway drops connection"]
    retrieval = trace(gold_texts=gold, retrieval=retrieved("a", "b", texts=texts))

    expected = ragas_score(
        "NonLLMContextPrecisionWithReference",
        retrieved_contexts=texts,
        reference_contexts=gold,
    )

    assert expected == pytest.approx(0.5)
    assert value("ragas:non_llm_context_precision_with_reference", retrieval) == expected
    assert value("ragas:non_llm_context_recall", retrieval) == 1.0


# --- what RAGAS cannot compute


def test_where_ragas_gives_nan_the_case_is_skipped() -> None:
    retrieval = trace(gold=["a"], retrieval=retrieved())

    assert cell("ragas:id_based_context_precision", retrieval) == Cell.skipped(
        "RAGAS gave NaN: the metric is not defined for this case"
    )


def test_without_reference_ids_there_is_no_recall_of_ids() -> None:
    retrieval = trace(retrieval=retrieved("a"))

    assert cell("ragas:id_based_context_recall", retrieval) == Cell.skipped(
        "no reference context ids"
    )


def test_a_recall_of_nothing_retrieved_is_0() -> None:
    """RAGAS takes the largest of no similarities, which raises."""
    retrieval = trace(gold_texts=["some text"], retrieval=retrieved(texts=[]))

    assert cell("ragas:non_llm_context_recall", retrieval) == Cell.measured(0.0)


def test_what_ragas_cannot_compute_fails_alone() -> None:
    gold = ["the gateway drops connections"]
    fine = trace(gold_texts=gold, retrieval=retrieved("a", texts=gold))
    broken = trace(gold_texts=gold, retrieval=retrieved("a", texts=cast("list[str]", [3])))

    rows = cells("ragas:non_llm_context_recall", fine, broken, fine)

    assert [row[0].status for row in rows] == [Status.MEASURED, Status.FAILED, Status.MEASURED]
    failure = rows[1][0].failure
    assert failure is not None
    assert failure.type == "ValidationError"
