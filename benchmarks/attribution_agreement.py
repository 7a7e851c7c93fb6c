"""How far causes found by words agree with human raters, on MTRAG's human evaluation.

    python benchmarks/attribution_agreement.py mtrag_human_eval.json

For each answer of a system (not the reference itself) to an answerable question whose passages were
shown, as far as words can tell: is it called right where at least two of three raters found it
complete and faithful (3 or 4 of 4)? Without a judge the words of the answer decide. Source: Katsis
et al. 2025, MTRAG, arXiv:2501.03468; intervals by Clopper and Pearson.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragbench import Case, GenerationResult, RetrievalResult
from ragbench.core.attribution import Answer
from ragbench.core.outcome import Outcome, Status
from ragbench.core.trace import Trace
from ragbench.metrics.abstention import abstained
from ragbench.metrics.matching import Matching
from ragbench.stages.attribution import attribute, matches_of
from ragbench.stats.mean import proportion_interval

_TOLD = (Answer.RIGHT, Answer.WRONG)
GOOD = 3.0
"""Of 4: the grade from which raters found an answer good."""


def trace_of(task: Mapping[str, Any], texts: Mapping[str, str], response: str) -> Trace:
    """One answer as a run would hold it."""
    ids = [context["document_id"] for context in task["contexts"]]
    found: RetrievalResult[Any] = RetrievalResult([texts[id] for id in ids], context_ids=ids)
    said = GenerationResult(response)
    status = Status.ABSTAINED if abstained(said) else Status.MEASURED
    return Trace(
        case=Case(
            id=task["task_id"],
            query=task["input"][-1]["text"],
            reference=task["targets"][0]["text"],
            reference_context_ids=tuple(ids),
        ),
        retrieval=Outcome(status=Status.MEASURED, value=found),
        generation=Outcome(status=status, value=said),
    )


def is_good(annotations: Mapping[str, Any]) -> bool:
    """What the raters said of an answer."""
    return all(
        statistics.median(float(rating["value"]) for rating in annotations[what].values()) >= GOOD
        for what in ("completeness", "faithfulness")
    )


def pairs(data: Mapping[str, Any]) -> Iterator[tuple[Answer, bool]]:
    """For each answer: what ragbench calls it, and whether raters found it good."""
    tasks = {task["task_id"]: task for task in data["tasks"]}
    texts = {document["document_id"]: document["text"] for document in data["documents"]}
    for evaluation in data["evaluations"]:
        task = tasks[evaluation["task_id"]]
        if evaluation["model_id"] == "reference" or task["Answerability"] != ["ANSWERABLE"]:
            continue
        trace = trace_of(task, texts, evaluation["model_response"])
        found = attribute(trace, matches=matches_of(trace, Matching.ID))
        yield found.answer, is_good(evaluation["annotations"])


def main() -> None:
    """Prints the agreement and what it is made of."""
    data = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    counts = Counter(pairs(data))
    right, wrong = counts[Answer.RIGHT, True], counts[Answer.WRONG, False]
    told = sum(count for (answer, _), count in counts.items() if answer in _TOLD)
    low, high = proportion_interval(right + wrong, told)
    figures = {
        "answers": sum(counts.values()),
        "good_by_raters": sum(count for (_, good), count in counts.items() if good),
        "told_by_words": told,
        "agreement_of_those": round((right + wrong) / told, 3),
        "interval": [round(low, 3), round(high, 3)],
        "right": right + counts[Answer.RIGHT, False],
        "wrong": wrong + counts[Answer.WRONG, True],
        "declined": counts[Answer.DECLINED, True] + counts[Answer.DECLINED, False],
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
