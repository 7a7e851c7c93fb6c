"""Metrics with a published formula beside its reference implementation, on 400 random cases each.

SQuAD's scripts are not packages: they are written down again from their definition.
"""

from __future__ import annotations

import math
import random
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.core.metric import MetricDefinition
from ragbench.core.outcome import Cell
from ragbench.core.trace import Trace
from ragbench.metrics.candidates import expected_calibration_error
from ragbench.metrics.registry import definitions, parse_metric
from ragbench.text.tokens import squad_tokens
from tests.unit.metrics.builders import answered, cells, generated, ranked, trace, value

CASES = 400
RANK = {
    "recall": ir_measures.R,
    "precision": ir_measures.P,
    "hit_rate": ir_measures.Success,
    "MRR": ir_measures.RR,
    "MAP": ir_measures.AP,
    "nDCG": ir_measures.nDCG,
    "Judged": ir_measures.Judged,
    "set_precision": ir_measures.SetP,
    "set_recall": ir_measures.SetR,
    "set_f1": ir_measures.SetF,
}
COMPARED = {
    *RANK,
    *("exact_match", "token_f1", "end_to_end_em", "end_to_end_f1", "edit_similarity"),
    *("rouge1", "rouge2", "rougeL", "bleu", "chrf"),
    *("best_of_n", "candidate_agreement", "brier", "ECE"),
    *("abstention_accuracy", "answer_rate", "abstention_recall", "abstention_precision"),
}
NO_FORMULA = ("ragbench", "measured", "usage", "as reported", "promptfoo", "logistic regression")
"""How the source of a metric begins whose formula nobody else has published as code."""


def has_published_formula(definition: MetricDefinition) -> bool:
    is_of_ragas = definition.name.startswith("ragas:")  # computed by RAGAS itself
    return not is_of_ragas and not definition.citation.startswith(NO_FORMULA)


def test_every_published_formula_is_compared() -> None:
    assert {each.name for each in definitions() if has_published_formula(each)} == COMPARED


def values(metric: str, traces: Sequence[Trace]) -> list[float | None]:
    return [row[0].value for row in cells(metric, *traces)]


# --- rankings: trec_eval, by ir_measures

DOCUMENTS = [f"d{number}" for number in range(12)]
GAINS = {grade: 2**grade - 1 for grade in range(1, 16)}
CHOICES: Mapping[str, tuple[str, ...]] = {
    "rel": ("", "rel=2"),
    "judged_only": ("", "judged_only=true"),
    "dcg": ("", "dcg=exp-log2"),
}
CUTOFFS = {"required": ("@1", "@3", "@10"), "optional": ("", "@3"), "none": ("",)}


def spellings() -> list[str]:
    """Every rank metric at some cutoffs, with every combination of its parameters."""
    texts: list[str] = []
    for definition in definitions():
        if definition.name not in RANK:
            continue
        choices = [CHOICES[parameter.name] for parameter in definition.parameters]
        for chosen, cutoff in product(product(*choices), CUTOFFS[definition.cutoff]):
            parameters = ", ".join(filter(None, chosen))
            texts.append(f"{definition.name}({parameters}){cutoff}")
    texts.remove("MRR()@3")  # trec_eval's has no cutoff ...
    for parameters in ("judged_only=true", "rel=2", "rel=2, judged_only=true"):
        texts.remove(f"MRR({parameters})@3")
    texts.remove("Judged()")  # ... and that of Judged must be there
    return [text.replace("()", "") for text in texts]


def measure_of(text: str) -> Any:
    metric = parse_metric(text)
    measure: Any = RANK[metric.definition.name]
    for key, setting in metric.parameters:
        measure = measure(gains=GAINS) if key == "dcg" else measure(**{key: setting})
    return measure if metric.cutoff is None else measure @ metric.cutoff


def test_rank_metrics_equal_trec_eval_to_the_last_bit() -> None:
    seeded = random.Random(53)
    runs: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, int]] = {}
    traces: list[Trace] = []
    for number in range(CASES):
        ids = seeded.sample(DOCUMENTS, seeded.randint(1, 12))
        grades = {id: seeded.randint(-1, 3) for id in seeded.sample(DOCUMENTS, number % 9 + 1)}
        if number % 4 == 0:  # nothing of grade 2; now and then nothing relevant
            grades = {id: min(grade, number % 2 + number % 3) for id, grade in grades.items()}
        runs[str(number)] = {id: float(len(ids) - place) for place, id in enumerate(ids)}
        qrels[str(number)] = grades
        traces.append(ranked(ids, grades))
    assert sum(max(grades.values()) < 1 for grades in qrels.values()) > 20
    measures = {text: measure_of(text) for text in spellings()}
    # nDCG of trec_eval reads foreign memory for a grade below 0, which gains nothing and counts as
    # no judgement, and for a query without a relevant document, which counts 0.
    relevant: dict[str, dict[str, int]] = {}
    for query, grades in qrels.items():
        if max(grades.values()) > 0:
            relevant[query] = {id: grade for id, grade in grades.items() if grade >= 0}
    wanted = {(query, text): 0.0 for query in qrels for text in measures}
    for text, measure in measures.items():
        # One at a time: evaluated together, measures of other gains get each other's values.
        judged = relevant if text.startswith("nDCG") else qrels
        for found in ir_measures.iter_calc([measure], judged, runs):
            wanted[found.query_id, text] = found.value
    differences: list[str] = []
    for number, row in enumerate(cells(list(measures), *traces)):
        for text, cell in zip(measures, row, strict=True):
            if cell.value != wanted[str(number), text]:
                differences.append(f"{text}: {cell} {runs[str(number)]} {qrels[str(number)]}")
    assert differences == []


@pytest.mark.parametrize("rel", [1, 2])
def test_mrr_at_a_cutoff_is_that_of_the_first_documents(rel: int) -> None:
    seeded = random.Random(54)
    runs: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, int]] = {}
    traces: list[Trace] = []
    for number in range(CASES):
        ids = seeded.sample(DOCUMENTS, 9)
        grades = {id: seeded.randint(0, 2) for id in seeded.sample(DOCUMENTS, 4)}
        runs[str(number)] = {id: float(9 - place) for place, id in enumerate(ids[:3])}
        qrels[str(number)] = grades
        traces.append(ranked(ids, grades))
    found = ir_measures.iter_calc([ir_measures.RR(rel=rel)], qrels, runs)
    wanted = {each.query_id: each.value for each in found}
    assert values(f"MRR(rel={rel})@3", traces) == [wanted[str(n)] for n in range(CASES)]


def test_nothing_retrieved_counts_zero_as_by_trec_eval_with_all_queries() -> None:
    names = [text for text in spellings() if not text.startswith("Judged")]
    (row,) = cells(names, ranked([], {"a": 2, "b": 0}))
    assert set(row) == {Cell.measured(0.0)}


# --- answers

WORDS = (
    *("The", "a", "an", "cat", "Cat.", "cats", "sat", "sitting", "mats", "mat,", "on", "naïve"),
    *("it's", "state-of-the-art", "$5", "2,008", "–", "“x”", "running", "runs", "U.S.", "and"),
)


def sentence(seeded: random.Random) -> str:
    return " ".join(seeded.choices(WORDS, k=seeded.randint(1, 12)))


def sentence_pairs(seed: int) -> list[tuple[str, str]]:
    """Answers and references that share words, some of them equal."""
    seeded = random.Random(seed)
    pairs: list[tuple[str, str]] = []
    for number in range(CASES):
        reference = sentence(seeded)
        answer = reference if number % 10 == 0 else sentence(seeded)
        pairs.append((answer, reference))
    return pairs


def squad_normalised(text: str) -> str:
    lowered = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", lowered).split())


def squad_f1(answer: str, reference: str) -> float:
    given, wanted = squad_normalised(answer).split(), squad_normalised(reference).split()
    if not given or not wanted:
        return float(given == wanted)
    shared = sum((Counter(given) & Counter(wanted)).values())
    if shared == 0:
        return 0.0
    precision, recall = shared / len(given), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


SENTENCES = st.lists(
    st.sampled_from(
        ["a", "The", "an", "cat", "Cat.", "naïve", "it's", "–", "“x”", "北京", "$5", "a-b"]
    ),
    max_size=8,
).map(" ".join)


@settings(max_examples=CASES)
@given(SENTENCES, SENTENCES)
def test_answers_score_as_in_squad(answer: str, reference: str) -> None:
    assert squad_tokens(answer) == tuple(squad_normalised(answer).split())
    if answer:
        one = answered(f"{answer} zebra", reference)
        assert value("token_f1(normalise=squad)", one) == squad_f1(f"{answer} zebra", reference)
        assert value("exact_match(normalise=squad)", one) == float(
            squad_normalised(f"{answer} zebra") == squad_normalised(reference)
        )


def official(answers: dict[str, list[str]], predictions: dict[str, str]) -> tuple[float, float]:
    """What evaluate-v2.0.py prints as exact and f1, over 100, written down from the script."""

    exact, f1 = [], []
    for key, golds in answers.items():
        wanted = [gold for gold in golds if squad_normalised(gold)] or [""]
        given = predictions[key]
        exact.append(max(squad_normalised(gold) == squad_normalised(given) for gold in wanted))
        f1.append(max(squad_f1(given, gold) for gold in wanted))
    return sum(exact) / len(exact), sum(f1) / len(f1)


TEXTS = st.sampled_from(
    ["the", ".", "in 1999", "The year 1999!", "a red fox", "red fox", "fox", ""]
)


@settings(max_examples=CASES)
@given(st.lists(st.tuples(st.lists(TEXTS, max_size=3), TEXTS), min_size=1, max_size=8))
def test_end_to_end_scores_of_a_set_are_those_of_the_official_script(
    data: list[tuple[list[str], str]],
) -> None:
    said = [generated(response, abstained=response == "") for _, response in data]
    traces = [
        trace(references=golds, answerable=bool(golds), generation=answer)
        for (golds, _), answer in zip(data, said, strict=True)
    ]
    rows = cells("squad2_em(normalise=squad), squad2_f1(normalise=squad)", *traces)
    means = [math.fsum(row[at].value or 0.0 for row in rows) / len(rows) for at in (0, 1)]
    assert all(one.value is not None for row in rows for one in row)
    answers = {str(n): golds for n, (golds, _) in enumerate(data)}
    predictions = {str(n): response for n, (_, response) in enumerate(data)}
    assert means == pytest.approx(official(answers, predictions))


@pytest.mark.extra("text")
def test_edit_similarity_is_levenshteins() -> None:
    from nltk import edit_distance  # type: ignore[import-untyped]

    pairs = sentence_pairs(3)
    wanted = [1 - edit_distance(*pair) / max(map(len, pair)) for pair in pairs]
    assert values("edit_similarity", [answered(*pair) for pair in pairs]) == pytest.approx(wanted)


@pytest.mark.extra("text")
@pytest.mark.parametrize("stemmer", [True, False])
@pytest.mark.parametrize("variant", ["rouge1", "rouge2", "rougeL"])
def test_rouge_is_that_of_rouge_score(variant: str, stemmer: bool) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([variant], use_stemmer=stemmer)
    pairs = sentence_pairs(4)
    wanted = [scorer.score(reference, answer)[variant].fmeasure for answer, reference in pairs]
    metric = f"{variant}(stemmer={str(stemmer).lower()})"
    # A reference of "–" alone is skipped: ROUGE's tokenizer reads nothing of it.
    found = [value or 0.0 for value in values(metric, [answered(*pair) for pair in pairs])]
    assert found == wanted


@pytest.mark.extra("text")
def test_bleu_and_chrf_are_those_of_sacrebleu() -> None:
    import sacrebleu

    seeded = random.Random(6)
    traces: list[Trace] = []
    wanted: list[tuple[float, float]] = []
    for answer, reference in sentence_pairs(6):
        references = [reference, sentence(seeded)]
        traces.append(answered(answer, *references))
        bleu = sacrebleu.sentence_bleu(answer, references).score
        chrf = sacrebleu.sentence_chrf(answer, references).score
        wanted.append((min(bleu / 100, 1.0), min(chrf / 100, 1.0)))
    found = [tuple(cell.value for cell in row) for row in cells("bleu, chrf", *traces)]
    assert found == wanted


# --- candidates, confidence, declining


def test_candidates_score_by_their_definition() -> None:
    seeded = random.Random(7)
    for _ in range(CASES):
        # For ASCII texts all tokens are SQuAD's.
        *candidates, reference = (
            sentence(seeded).encode("ascii", "ignore").decode() for _ in "12345"
        )
        one = trace(
            references=[reference],
            generation=generated(candidates[0], candidates=candidates, abstained=False),
        )
        best = max(squad_f1(candidate, reference) for candidate in candidates[:3])
        pairs = [squad_f1(*pair) for pair in combinations(candidates, 2)]
        names = "best_of_n(n=3), candidate_agreement"
        found = [cell.value for cell in cells(names, one)[0]]
        assert found == pytest.approx([best, sum(pairs) / len(pairs)])


def test_confidence_scores_by_brier_and_by_the_bins_of_guo() -> None:
    seeded = random.Random(8)
    confidences = np.array([seeded.random() for _ in range(CASES)])
    correct = np.array([float(seeded.random() < confidence) for confidence in confidences])
    traces: list[Trace] = []
    for confidence, is_right in zip(confidences.tolist(), correct, strict=True):
        response = "Zurich" if is_right else "Bern"
        generation = generated(response, confidence=confidence)
        traces.append(trace(references=["Zurich"], generation=generation))
    rows = cells("brier, ECE", *traces)
    assert [row[0].value for row in rows] == pytest.approx((confidences - correct) ** 2)
    wanted = 0.0
    for low in np.arange(10) / 10:  # temperature_scaling.py of Guo et al.
        in_bin = (confidences > low) & (confidences <= low + 0.1)
        gap = abs(confidences[in_bin].mean() - correct[in_bin].mean())
        wanted += gap * in_bin.mean()
    gaps = [row[1].value for row in rows if row[1].value is not None]
    assert expected_calibration_error(gaps) == pytest.approx(wanted)


def test_declining_is_counted_as_no_answer_in_squad_2() -> None:
    seeded = random.Random(9)
    names = ("abstention_accuracy", "answer_rate", "abstention_recall", "abstention_precision")
    traces: list[Trace] = []
    wanted: list[tuple[float | None, ...]] = []
    for _ in range(CASES):
        answerable, declines = seeded.random() < 0.6, seeded.random() < 0.4
        generation = generated("" if declines else "Bern", abstained=declines)
        traces.append(trace(answerable=answerable, generation=generation))
        is_right = float(declines != answerable)
        wanted.append(
            (
                is_right,
                is_right if answerable else None,
                None if answerable else is_right,
                is_right if declines else None,
            )
        )
    found = [tuple(cell.value for cell in row) for row in cells(", ".join(names), *traces)]
    assert found == wanted
