"""How far causes hold on labelled sets: ``python -m benchmarks.attribution_agreement DATA``.

DATA is a folder with ``mtrag_human_eval.json`` (MTRAG: answers of two models, with the passages
that were shown; Katsis et al. 2025, arXiv:2501.03468) and ``rgb_en_fact.jsonl`` (RGB: questions
with snippets that hold the answer, that hold none, and a false answer; Chen et al. 2023,
arXiv:2309.01431). Nobody judges: the words of the answer decide. Three tables:

- *raters*: is an answer called right where at least two of three raters found it complete and
  faithful (3 or 4 of 4)? Gold ids are known; intervals by Clopper and Pearson.
- *reference only*: the same cases without gold ids. A relevant passage is in every context, so that
  whatever blames retrieval is wrong.
- *built*: RGB's cases, half without the answer, the others with it and a right or a false answer.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench import Case, GenerationResult, RetrievalResult
from ragbench.core.attribution import Answer, Cause
from ragbench.core.outcome import Outcome, Status
from ragbench.core.trace import Trace
from ragbench.metrics.answer import abstained
from ragbench.stages.attribution import attribute
from ragbench.stats.mean import proportion_interval

GOOD = 3.0
"""Of 4: the grade from which raters found an answer good."""
ANSWERABLE = ("ANSWERABLE", "PARTIAL")


def trace_of(case: Case, ids: list[str], texts: list[str], response: str) -> Trace:
    """One answer as a run would hold it."""
    found: RetrievalResult[Any] = RetrievalResult(texts, context_ids=ids)
    said = GenerationResult(response)
    status = Status.ABSTAINED if abstained(said) else Status.MEASURED
    return Trace(
        case=case,
        retrieval=Outcome(status=Status.MEASURED, value=found),
        generation=Outcome(status=status, value=said),
    )


def is_good(annotations: Mapping[str, Any]) -> bool:
    """What the raters said of an answer."""
    return all(
        statistics.median(float(rating["value"]) for rating in annotations[what].values()) >= GOOD
        for what in ("completeness", "faithfulness")
    )


def rated(folder: Path) -> Iterator[tuple[Trace, str, bool]]:
    """Each answer with its question's kind, and whether raters found it good."""
    data = json.loads((folder / "mtrag_human_eval.json").read_text("utf-8"))
    tasks = {task["task_id"]: task for task in data["tasks"]}
    texts = {document["document_id"]: document["text"] for document in data["documents"]}
    for evaluation in data["evaluations"]:
        task = tasks[evaluation["task_id"]]
        if evaluation["model_id"] == "reference" or task["Answerability"][0] not in ANSWERABLE:
            continue
        ids = [context["document_id"] for context in task["contexts"]]
        case = Case(
            id=task["task_id"],
            query=task["input"][-1]["text"],
            reference=task["targets"][0]["text"],
            reference_context_ids=tuple(ids),
        )
        trace = trace_of(case, ids, [texts[id] for id in ids], evaluation["model_response"])
        yield trace, task["Answerability"][0], is_good(evaluation["annotations"])


def built(folder: Path) -> Iterator[tuple[Trace, Cause]]:
    """RGB's questions in turn: twice without the answer, once answered rightly, once falsely."""
    for line in (folder / "rgb_en_fact.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        answer, other = _first(row["answer"]), _first(row["fakeanswer"])
        without = [text for text in row["negative"] if answer.lower() not in text.lower()]
        kind = (Cause.NOT_SEEN, Cause.NOT_SEEN, Cause.RIGHT, Cause.NOT_USED)[row["id"] % 4]
        texts = without[:5] if kind is Cause.NOT_SEEN else row["positive"][:3] + without[:2]
        response = f"The answer is {answer}." if kind is Cause.RIGHT else f"It is {other}."
        case = Case(id=str(row["id"]), query=row["query"], reference=answer)
        yield trace_of(case, [*map(str, range(len(texts)))], texts, response), kind


def _first(answer: Any) -> str:
    return answer if isinstance(answer, str) else _first(answer[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    data: Path = parser.parse_args().data
    answers, alone = Counter[tuple[Answer, bool]](), Counter[str]()
    for trace, kind, good in rated(data):
        if kind == "ANSWERABLE":
            answers[attribute(trace).answer, good] += 1
        case = replace(trace.case, reference_context_ids=None)
        alone[attribute(replace(trace, case=case)).cause.value] += 1
    right, wrong = answers[Answer.RIGHT, True], answers[Answer.WRONG, False]
    told = sum(n for (answer, _), n in answers.items() if answer in (Answer.RIGHT, Answer.WRONG))
    low, high = proportion_interval(right + wrong, told)
    agree = right + wrong
    print(f"raters: {answers.total()} answers, {told} told by words, {agree} of those agree")
    print(f"  {agree / told:.3f} ({low:.3f} to {high:.3f}); called right: ", end="")
    print(f"{right + answers[Answer.RIGHT, False]}, wrong: {wrong + answers[Answer.WRONG, True]}")
    print(f"reference only: {alone.total()} answers: {dict(alone.most_common())}")
    pairs = [(attribute(trace).cause, wanted) for trace, wanted in built(data)]
    print(f"built: {sum(found is wanted for found, wanted in pairs)} of {len(pairs)} as built")
    for cause in sorted({found for found, _ in pairs}):
        held = [wanted is cause for found, wanted in pairs if found is cause]
        print(f"  called {cause.value}: {len(held)}, of those so built {sum(held)}")


if __name__ == "__main__":
    main()
