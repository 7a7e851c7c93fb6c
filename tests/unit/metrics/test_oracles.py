"""Metrics with a published formula beside its reference implementation, on 400 random cases each.

SQuAD's scripts are not packages: they are written down again from their definition.
"""

from __future__ import annotations

import random
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
RANK_METRICS = {
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
ANSWER_METRICS = [
    "exact_match",
    "token_f1",
    "end_to_end_em",
    "end_to_end_f1",
    "edit_similarity",
    "rouge1",
    "rouge2",
    "rougeL",
    "bleu",
    "chrf",
    "best_of_n",
    "candidate_agreement",
    "brier",
    "ECE",
    "abstention_accuracy",
    "answer_rate",
    "abstention_recall",
    "abstention_precision",
]
NO_FORMULA = ("ragbench", "measured", "usage", "as reported", "promptfoo", "logistic regression")
"""How the source of a metric begins whose formula nobody else has published as code."""


def has_published_formula(definition: MetricDefinition) -> bool:
    if definition.name.startswith("ragas:"):
        return False  # RAGAS itself computes it
    return not definition.citation.startswith(NO_FORMULA)


def test_every_published_formula_is_compared() -> None:
    published = filter(has_published_formula, definitions())

    names = {definition.name for definition in published}

    assert names == {*RANK_METRICS, *ANSWER_METRICS}


def values(metric: str, traces: Sequence[Trace]) -> list[float | None]:
    return [row[0].value for row in cells(metric, *traces)]


def row_values(metrics: str, traces: Sequence[Trace]) -> list[list[float | None]]:
    """Of each case, the values of all metrics."""
    rows: list[list[float | None]] = []
    for row in cells(metrics, *traces):
        rows.append([cell.value for cell in row])
    return rows


# --- rankings: trec_eval, by ir_measures

DOCUMENTS = [f"d{number}" for number in range(12)]
EXPONENTIAL_GAINS = {grade: 2**grade - 1 for grade in range(1, 16)}
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "rel": ("", "rel=2"),
    "judged_only": ("", "judged_only=true"),
    "dcg": ("", "dcg=exp-log2"),
}
"""The settings that are tried of each parameter; the empty one is the default."""
CUTOFFS = {"required": ("@1", "@3", "@10"), "optional": ("", "@3"), "none": ("",)}
NOT_OF_TREC_EVAL = {
    # trec_eval's MRR has no cutoff ...
    "MRR@3",
    "MRR(rel=2)@3",
    "MRR(judged_only=true)@3",
    "MRR(rel=2, judged_only=true)@3",
    # ... and its Judged always has one.
    "Judged",
}


def spellings_of(definition: MetricDefinition) -> list[str]:
    """A metric at some cutoffs, with every combination of its parameters."""
    tried = [SETTINGS[parameter.name] for parameter in definition.parameters]
    texts: list[str] = []
    for combination in product(*tried):
        parameters = ", ".join(filter(None, combination))
        metric = f"{definition.name}({parameters})" if parameters else definition.name
        for cutoff in CUTOFFS[definition.cutoff]:
            texts.append(metric + cutoff)
    return texts


def spellings() -> list[str]:
    """Every rank metric as trec_eval knows it."""
    texts: list[str] = []
    for definition in definitions():
        if definition.name in RANK_METRICS:
            texts += spellings_of(definition)
    return [text for text in texts if text not in NOT_OF_TREC_EVAL]


def measure_of(text: str) -> Any:
    """The measure of ir_measures that a metric of ours stands for."""
    metric = parse_metric(text)
    measure: Any = RANK_METRICS[metric.definition.name]
    for key, setting in metric.parameters:
        if key == "dcg":
            measure = measure(gains=EXPONENTIAL_GAINS)
        else:
            measure = measure(**{key: setting})
    if metric.cutoff is None:
        return measure
    return measure @ metric.cutoff


@dataclass
class Rankings:
    """The same ranked documents and judgements, as ir_measures reads them and as we do."""

    runs: dict[str, dict[str, float]] = field(default_factory=dict)
    qrels: dict[str, dict[str, int]] = field(default_factory=dict)
    traces: list[Trace] = field(default_factory=list)

    def add(
        self, ids: list[str], grades: dict[str, int], *, shown_to_oracle: int | None = None
    ) -> None:
        """Adds a case; the oracle sees only the first documents where a number says so."""
        query = str(len(self.traces))
        self.runs[query] = {}
        for place, id in enumerate(ids[:shown_to_oracle]):
            self.runs[query][id] = float(len(ids) - place)
        self.qrels[query] = grades
        self.traces.append(ranked(ids, grades))

    def oracle_values(self, measure: Any) -> list[float]:
        """The value of each case, and 0 where trec_eval reads no query without relevant ones."""
        qrels = self.qrels
        if str(measure).startswith("nDCG"):
            qrels = self.qrels_for_ndcg()
        by_query = {query: 0.0 for query in self.qrels}
        # One measure a call: evaluated together, measures of other gains get each other's values.
        for metric in ir_measures.iter_calc([measure], qrels, self.runs):
            by_query[metric.query_id] = metric.value
        return list(by_query.values())

    def qrels_for_ndcg(self) -> dict[str, dict[str, int]]:
        """Judgements without what trec_eval's nDCG reads foreign memory for.

        That is a grade below 0, which gains nothing and counts as no judgement, and a query
        without a relevant document, which counts 0.
        """
        qrels: dict[str, dict[str, int]] = {}
        for query, grades in self.qrels.items():
            if max(grades.values()) > 0:
                qrels[query] = {id: grade for id, grade in grades.items() if grade >= 0}
        return qrels


@pytest.fixture(scope="module")
def rankings() -> Rankings:
    """Cases of 1 to 12 documents, of which 1 to 9 have a grade from -1 to 3."""
    seeded = random.Random(53)
    rankings = Rankings()
    for number in range(CASES):
        ids = seeded.sample(DOCUMENTS, seeded.randint(1, 12))
        judged = seeded.sample(DOCUMENTS, number % 9 + 1)
        grades = {id: seeded.randint(-1, 3) for id in judged}
        if number % 4 == 0:
            # Every fourth case has no high grade, and now and then nothing that is relevant.
            highest = number % 2 + number % 3
            grades = {id: min(grade, highest) for id, grade in grades.items()}
        rankings.add(ids, grades)
    return rankings


def test_the_random_rankings_have_cases_without_a_relevant_document(rankings: Rankings) -> None:
    highest_grades = [max(grades.values()) for grades in rankings.qrels.values()]

    without_relevant = [grade for grade in highest_grades if grade < 1]

    assert len(without_relevant) > 20


@pytest.mark.parametrize("metric", spellings())
def test_a_rank_metric_equals_trec_eval_to_the_last_bit(metric: str, rankings: Rankings) -> None:
    expected = rankings.oracle_values(measure_of(metric))

    assert values(metric, rankings.traces) == expected


@pytest.mark.parametrize("rel", [1, 2])
def test_mrr_at_a_cutoff_is_that_of_the_first_documents(rel: int) -> None:
    seeded = random.Random(54)
    rankings = Rankings()
    for _ in range(CASES):
        ids = seeded.sample(DOCUMENTS, 9)
        judged = seeded.sample(DOCUMENTS, 4)
        grades = {id: seeded.randint(0, 2) for id in judged}
        rankings.add(ids, grades, shown_to_oracle=3)

    expected = rankings.oracle_values(ir_measures.RR(rel=rel))

    assert values(f"MRR(rel={rel})@3", rankings.traces) == expected


def test_nothing_retrieved_counts_zero_as_by_trec_eval_with_all_queries() -> None:
    metrics = [text for text in spellings() if not text.startswith("Judged")]

    (row,) = cells(metrics, ranked([], {"a": 2, "b": 0}))

    assert set(row) == {Cell.measured(0.0)}


# --- answers

PLAIN_WORDS = [
    "The",
    "a",
    "an",
    "cat",
    "Cat.",
    "cats",
    "sat",
    "sitting",
    "mats",
    "mat,",
    "on",
    "naïve",
]
ODD_WORDS = ["it's", "state-of-the-art", "$5", "2,008", "–", "“x”", "U.S."]
WORDS = [*PLAIN_WORDS, *ODD_WORDS, "running", "runs", "and"]


def sentence(seeded: random.Random) -> str:
    return " ".join(seeded.choices(WORDS, k=seeded.randint(1, 12)))


def sentence_pairs(seed: int) -> list[tuple[str, str]]:
    """Answers and references that share words; each tenth answer is its reference."""
    seeded = random.Random(seed)
    pairs: list[tuple[str, str]] = []
    for number in range(CASES):
        reference = sentence(seeded)
        answer = reference if number % 10 == 0 else sentence(seeded)
        pairs.append((answer, reference))
    return pairs


def squad_normalised(text: str) -> str:
    without_punctuation = text.lower().translate(str.maketrans("", "", string.punctuation))
    without_articles = re.sub(r"\b(a|an|the)\b", " ", without_punctuation)
    return " ".join(without_articles.split())


def squad_f1(answer: str, reference: str) -> float:
    answer_words = squad_normalised(answer).split()
    reference_words = squad_normalised(reference).split()
    if not answer_words or not reference_words:
        return float(answer_words == reference_words)
    shared_words = Counter(answer_words) & Counter(reference_words)
    shared = shared_words.total()
    if shared == 0:
        return 0.0
    precision = shared / len(answer_words)
    recall = shared / len(reference_words)
    return 2 * precision * recall / (precision + recall)


SQUAD_WORDS = ["a", "The", "an", "cat", "Cat.", "naïve", "it's", "–", "“x”", "北京", "$5", "a-b"]
SENTENCES = st.lists(st.sampled_from(SQUAD_WORDS), max_size=8).map(" ".join)


@settings(max_examples=CASES)
@given(SENTENCES, SENTENCES)
def test_answers_score_as_in_squad(start: str, reference: str) -> None:
    answer = f"{start} zebra"  # never without a word: that would be an answer that says nothing
    case = answered(answer, reference)

    f1 = value("token_f1(normalise=squad)", case)
    exact = value("exact_match(normalise=squad)", case)

    assert f1 == squad_f1(answer, reference)
    assert exact == float(squad_normalised(answer) == squad_normalised(reference))


@settings(max_examples=100)
@given(SENTENCES)
def test_the_words_of_a_text_are_those_of_squad(text: str) -> None:
    assert squad_tokens(text) == tuple(squad_normalised(text).split())


@dataclass(frozen=True)
class SquadQuestion:
    """A question of SQuAD 2.0: without references, it has no answer."""

    references: list[str]
    response: str


def official_means(questions: list[SquadQuestion]) -> tuple[float, float]:
    """What evaluate-v2.0.py prints as exact and f1, over 100, written down from the script."""
    exact: list[bool] = []
    f1: list[float] = []
    for question in questions:
        references = [text for text in question.references if squad_normalised(text)] or [""]
        response = question.response
        exact.append(squad_normalised(response) in map(squad_normalised, references))
        f1.append(max(squad_f1(response, reference) for reference in references))
    return sum(exact) / len(exact), sum(f1) / len(f1)


TEXTS = st.sampled_from(
    ["the", ".", "in 1999", "The year 1999!", "a red fox", "red fox", "fox", ""]
)
QUESTIONS = st.builds(SquadQuestion, st.lists(TEXTS, max_size=3), TEXTS)


@settings(max_examples=CASES)
@given(st.lists(QUESTIONS, min_size=1, max_size=8))
def test_end_to_end_scores_of_a_set_are_those_of_the_official_script(
    questions: list[SquadQuestion],
) -> None:
    traces: list[Trace] = []
    for question in questions:
        answer = generated(question.response, abstained=question.response == "")
        answerable = bool(question.references)
        case = trace(references=question.references, answerable=answerable, generation=answer)
        traces.append(case)

    exact = values("squad2_em(normalise=squad)", traces)
    f1 = values("squad2_f1(normalise=squad)", traces)

    assert None not in exact
    assert None not in f1
    means = (np.mean(np.array(exact, float)), np.mean(np.array(f1, float)))
    assert means == pytest.approx(official_means(questions))


@pytest.mark.extra("text")
def test_edit_similarity_is_levenshteins() -> None:
    from nltk import edit_distance  # type: ignore[import-untyped]

    traces: list[Trace] = []
    expected: list[float] = []
    for answer, reference in sentence_pairs(3):
        traces.append(answered(answer, reference))
        longest = max(len(answer), len(reference))
        expected.append(1 - edit_distance(answer, reference) / longest)

    assert values("edit_similarity", traces) == pytest.approx(expected)


@pytest.mark.extra("text")
@pytest.mark.parametrize("stemmer", ["true", "false"])
@pytest.mark.parametrize("variant", ["rouge1", "rouge2", "rougeL"])
def test_rouge_is_that_of_rouge_score(variant: str, stemmer: str) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([variant], use_stemmer=stemmer == "true")
    traces: list[Trace] = []
    expected: list[float] = []
    for answer, reference in sentence_pairs(4):
        traces.append(answered(answer, reference))
        expected.append(scorer.score(reference, answer)[variant].fmeasure)

    scores = values(f"{variant}(stemmer={stemmer})", traces)

    # A reference of "–" alone is skipped: ROUGE's tokenizer reads nothing of it.
    assert [score or 0.0 for score in scores] == expected


@pytest.mark.extra("text")
def test_bleu_and_chrf_are_those_of_sacrebleu() -> None:
    import sacrebleu

    seeded = random.Random(6)
    traces: list[Trace] = []
    expected: list[list[float]] = []
    for answer, reference in sentence_pairs(6):
        references = [reference, sentence(seeded)]
        traces.append(answered(answer, *references))
        bleu = sacrebleu.sentence_bleu(answer, references).score
        chrf = sacrebleu.sentence_chrf(answer, references).score
        expected.append([min(bleu / 100, 1.0), min(chrf / 100, 1.0)])

    assert row_values("bleu, chrf", traces) == expected


# --- candidates, confidence, declining


def ascii_sentence(seeded: random.Random) -> str:
    """A sentence whose tokens are SQuAD's: of ASCII texts all are."""
    return sentence(seeded).encode("ascii", "ignore").decode()


def test_candidates_score_by_their_definition() -> None:
    seeded = random.Random(7)
    traces: list[Trace] = []
    expected: list[float] = []
    for _ in range(CASES):
        candidates = [ascii_sentence(seeded) for _ in range(4)]
        reference = ascii_sentence(seeded)
        answer = generated(candidates[0], candidates=candidates, abstained=False)
        traces.append(trace(references=[reference], generation=answer))
        best_of_three = max(squad_f1(candidate, reference) for candidate in candidates[:3])
        agreements = [squad_f1(*pair) for pair in combinations(candidates, 2)]
        expected += [best_of_three, sum(agreements) / len(agreements)]

    rows = row_values("best_of_n(n=3), candidate_agreement", traces)

    assert [score for row in rows for score in row] == pytest.approx(expected)


@dataclass
class Confidences:
    """How sure an answer is, and whether it is right, of each case."""

    confidence: Any
    is_right: Any
    traces: list[Trace]


@pytest.fixture(scope="module")
def confidences() -> Confidences:
    """Answers that are right as often as they say."""
    seeded = random.Random(8)
    confidence = [seeded.random() for _ in range(CASES)]
    is_right = [seeded.random() < probability for probability in confidence]
    traces: list[Trace] = []
    for probability, right in zip(confidence, is_right, strict=True):
        answer = generated("Zurich" if right else "Bern", confidence=probability)
        traces.append(trace(references=["Zurich"], generation=answer))
    return Confidences(np.array(confidence), np.array(is_right, float), traces)


def test_brier_is_the_square_of_confidence_less_correctness(confidences: Confidences) -> None:
    expected = (confidences.confidence - confidences.is_right) ** 2

    assert values("brier", confidences.traces) == pytest.approx(expected)


def test_calibration_errs_by_the_bins_of_guo(confidences: Confidences) -> None:
    expected = 0.0
    for low in np.arange(10) / 10:  # temperature_scaling.py of Guo et al.
        in_bin = (confidences.confidence > low) & (confidences.confidence <= low + 0.1)
        mean_confidence = confidences.confidence[in_bin].mean()
        accuracy = confidences.is_right[in_bin].mean()
        expected += abs(mean_confidence - accuracy) * in_bin.mean()

    gaps = values("ECE", confidences.traces)

    measured_gaps = [gap for gap in gaps if gap is not None]
    assert expected_calibration_error(measured_gaps) == pytest.approx(expected)


def test_declining_is_counted_as_no_answer_in_squad_2() -> None:
    seeded = random.Random(9)
    traces: list[Trace] = []
    expected: list[list[float | None]] = []
    for _ in range(CASES):
        answerable = seeded.random() < 0.6
        declines = seeded.random() < 0.4
        answer = generated("" if declines else "Bern", abstained=declines)
        traces.append(trace(answerable=answerable, generation=answer))
        accuracy = float(declines != answerable)
        answer_rate = accuracy if answerable else None
        recall = None if answerable else accuracy
        precision = accuracy if declines else None
        expected.append([accuracy, answer_rate, recall, precision])

    metrics = "abstention_accuracy, answer_rate, abstention_recall, abstention_precision"

    assert row_values(metrics, traces) == expected
