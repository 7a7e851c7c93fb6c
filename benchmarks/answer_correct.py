"""Fits the weights of ``answer_correct``, and shows how far it agrees with people.

    python -m benchmarks.answer_correct DATA [--write]

DATA is a folder with ``evouna_tq.json`` (EVOUNA: answers of five systems, each labelled right or
wrong), ``mtrag_human_eval.json`` (MTRAG: answers rated 1 to 4 by three people; good where the
means of faithfulness, completeness and appropriateness are all 3 or more) and
``ragchecker_human.json`` (two people said which of two long answers is more correct, and which
is more complete). Figures are of questions that the weights were not fitted on (five folds by
question), then of systems that they were not fitted on.
Then answers of domains that no weight was fitted on, from ``answers/`` (finance.jsonl,
nq301.jsonl, mohler.jsonl), and kinds of mistakes from ``kinds/answers.jsonl``, if DATA has them.
Behind them stand the answers of a planted set: references of the bundled dataset, made wrong, or
written otherwise.
"""

from __future__ import annotations

import json
import re
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.stats import rankdata

from ragbench.metrics.correct import (
    SAME,
    AnswerBeside,
    answer_correct,
    is_same,
    probability,
    ruled,
)

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS = ROOT / "ragbench" / "metrics" / "correct.toml"
LONG = ("bias", "recall_of_new", "sentences", "precision", "unsure")
FOLDS = 5
Floats = npt.NDArray[np.float64]


class Labelled(NamedTuple):
    """An answer that people called right or wrong."""

    query: str
    response: str
    references: Sequence[str]
    is_right: bool
    system: str


def evouna(folder: Path) -> Iterator[Labelled]:
    for row in json.loads((folder / "evouna_tq.json").read_text("utf-8")):
        references = [one.strip() for one in row["golden_answer"].split("/") if one.strip()]
        for system in ("fid", "gpt35", "chatgpt", "gpt4", "newbing"):
            response = row[f"answer_{system}"]
            if not row["improper"] and isinstance(response, str) and response.strip():
                is_right = bool(row[f"judge_{system}"])
                yield Labelled(row["question"], response, references, is_right, system)


def mtrag(folder: Path) -> Iterator[Labelled]:
    data = json.loads((folder / "mtrag_human_eval.json").read_text("utf-8"))
    tasks = {task["task_id"]: task for task in data["tasks"]}
    for row in data["evaluations"]:
        if row["model_id"] == "reference":
            continue
        task = tasks[row["task_id"]]
        means = [
            np.mean([float(vote["value"]) for vote in row["annotations"][name].values()])
            for name in ("faithfulness", "completeness", "appropriateness")
        ]
        query, reference = task["input"][-1]["text"], task["targets"][0]["text"]
        good = bool(min(means) >= 3)
        yield Labelled(query, row["model_response"], [reference], good, row["model_id"])


class Rows(NamedTuple):
    """Answers with the features of each of their references."""

    labelled: list[Labelled]
    features: list[Floats]
    answers: list[list[AnswerBeside | None]]
    """Beside each reference; None where the answer is in its words."""
    names: tuple[str, ...]

    @classmethod
    def of(cls, rows: Iterable[Labelled], *, long: bool) -> Rows:
        labelled: list[Labelled] = []
        features: list[Floats] = []
        answers: list[list[AnswerBeside | None]] = []
        names: tuple[str, ...] = ()
        for row in rows:
            count = len(row.references)
            beside = [
                AnswerBeside(row.query, row.response, reference, count)
                for reference in row.references
            ]
            beside = [answer for answer in beside if answer.is_long == long]
            if not beside:
                continue
            features_by_name = [answer.features() for answer in beside]
            names = LONG if long else tuple(features_by_name[0])
            labelled.append(row)
            features.append(
                np.array([[values[name] for name in names] for values in features_by_name])
            )
            answers.append(
                [None if is_same(row.response, answer.reference) else answer for answer in beside]
            )
        return cls(labelled, features, answers, names)

    @property
    def labels(self) -> npt.NDArray[np.bool_]:
        return np.array([one.is_right for one in self.labelled])

    @property
    def are_open(self) -> npt.NDArray[np.bool_]:
        """Whether an answer is in other words than each reference: these are fitted."""
        return np.array([None not in answers for answers in self.answers])

    @property
    def systems(self) -> npt.NDArray[np.str_]:
        return np.array([one.system for one in self.labelled])

    @property
    def folds(self) -> npt.NDArray[np.int64]:
        return np.array([zlib.crc32(one.query.encode()) % FOLDS for one in self.labelled])


def fitted(rows: Rows, chosen: npt.NDArray[np.bool_]) -> Floats:
    """Weights of the reference that speaks most for each answer, chosen anew six times."""
    features = [rows.features[at] for at in np.flatnonzero(chosen)]
    signs = np.where(rows.labels[chosen], 1.0, -1.0)
    picked = [rows[np.argmax(rows.sum(axis=1))] for rows in features]
    weights = np.zeros(features[0].shape[1])
    for _ in range(6):
        matrix = np.array(picked)

        def loss(given: Floats, matrix: Floats = matrix) -> tuple[float, Floats]:
            margins = signs * (matrix @ given)
            kept = np.r_[0.0, given[1:]]
            slopes = -(matrix.T @ (signs / (1 + np.exp(margins)))) + kept
            return float(np.logaddexp(0, -margins).sum() + kept @ kept / 2), slopes

        weights = minimize(loss, np.zeros(len(weights)), jac=True, method="L-BFGS-B").x
        picked = [rows[np.argmax(rows @ weights)] for rows in features]
    return np.asarray(weights)


def probabilities(rows: Rows, weights: Floats, chosen: npt.NDArray[np.bool_]) -> Floats:
    likely: list[float] = []
    for row in np.flatnonzero(chosen):
        by_words = 1 / (1 + np.exp(-(rows.features[row] @ weights)))
        by_reference: list[float] = []
        for answer, values, word_share in zip(
            rows.answers[row], rows.features[row], by_words, strict=True
        ):
            if answer is None:
                by_reference.append(SAME)
                continue
            features = dict(zip(rows.names, values, strict=True))
            by_reference.append(ruled(answer, features, float(word_share)).probability)
        likely.append(max(by_reference))
    return np.array(likely)


def held_out(rows: Rows, folds: npt.NDArray[Any]) -> Floats:
    """The probability of each answer by weights of the other folds."""
    found = np.zeros(len(rows.labelled))
    for fold in np.unique(folds):
        inside = folds == fold
        found[inside] = probabilities(rows, fitted(rows, rows.are_open & ~inside), inside)
    return found


def shown(name: str, rows: Rows, found: Floats, of: npt.NDArray[np.bool_] | None = None) -> None:
    kept = np.ones(len(found), bool) if of is None else of
    found, labels, systems = found[kept], rows.labels[kept], rows.systems[kept]
    print(f"{name}: {len(labels)} answers")
    print(f"{'':24}{'people':>8}{'mean p':>8}{'agree':>8}{'sure':>8}{'sure agree':>12}")
    for system in ("all", *sorted(set(systems))):
        chosen = systems == system if system != "all" else np.ones(len(labels), bool)
        p, right = found[chosen], labels[chosen]
        sure = (p < 0.2) | (p > 0.8)
        agree = (p > 0.5) == right
        agreed = agree[sure].mean() if sure.any() else float("nan")
        print(f"{system:24}{right.mean():8.3f}{p.mean():8.3f}{agree.mean():8.3f}", end="")
        print(f"{sure.mean():8.3f}{agreed:12.3f}")
    print("reliability", end=" ")
    for low in np.arange(0, 1, 0.2):
        inside = (found >= low) & (found < low + 0.2 + (low > 0.7))
        if inside.any():
            print(
                f"{found[inside].mean():.2f}:{labels[inside].mean():.2f} ({inside.sum()})", end=" "
            )
    print()
    for said, so, inside in (("right", labels, found >= 0.8), ("wrong", ~labels, found < 0.2)):
        print(f"called {said}: {inside.sum()}, of those so {so[inside].sum()}")


def preferred(folder: Path) -> None:
    """RAGChecker: does the answer that people prefer have the higher probability?"""
    pairs: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in json.loads((folder / "ragchecker_human.json").read_text("utf-8")):
        pairs[row["instance_id"]].append(row)
    differences = []
    for row, *_ in pairs.values():
        answers = (row[model]["response"] for model in ("model1", "model2"))
        one, other = (probability(row["query"], text, row["gt_answer"]) for text in answers)
        differences.append(other - one)
    for name in ("correctness_label", "completeness_label"):
        people = np.array([[row[name] for row in rows[:2]] for rows in pairs.values()])
        by_words = _rank_correlation(differences, people.mean(axis=1))
        between = _rank_correlation(people[:, 0], people[:, 1])
        print(f"RAGChecker, {len(pairs)} pairs, {name}: with people {by_words:.3f}, ", end="")
        print(f"one with the other {between:.3f}")


def _rank_correlation(one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


# --- other domains


def other_domains(folder: Path) -> None:
    """Answers of domains that the weights were not fitted on, and written kinds of mistakes."""
    for name in ("finance", "nq301", "mohler"):
        path = folder / "answers" / f"{name}.jsonl"
        if path.exists():
            rows = [json.loads(line) for line in path.open(encoding="utf-8")]
            likely = np.array(
                [answer_correct(row["query"], row["response"], row["references"]) for row in rows]
            )
            labels = np.array([bool(row["right"]) for row in rows])
            _print_domain(name, likely, labels)
    path = folder / "kinds" / "answers.jsonl"
    if path.exists():
        rows = [json.loads(line) for line in path.open(encoding="utf-8")]
        likely = np.array(
            [answer_correct(row["query"], row["response"], [row["reference"]]) for row in rows]
        )
        _print_domain("kinds", likely, np.array([bool(row["right"]) for row in rows]))


def _print_domain(name: str, likely: Floats, labels: npt.NDArray[np.bool_]) -> None:
    agree = (likely >= 0.5) == labels
    sure = (likely >= 0.8) | (likely <= 0.2)
    ranks = rankdata(likely)
    right_count = labels.sum()
    wrong_count = len(labels) - right_count
    area = (ranks[labels].sum() - right_count * (right_count + 1) / 2) / (right_count * wrong_count)
    print(
        f"{name:10}{len(labels):6} answers  people {labels.mean():.3f}  mean {likely.mean():.3f}  "
        f"agree {agree.mean():.3f}  AUC {area:.3f}  sure {sure.mean():.2f}, true "
        f"{agree[sure].mean():.3f}; of all, sure and wrong {(sure & ~agree).mean():.3f}"
    )


# --- answers made wrong, or written otherwise


def _number(match: re.Match[str]) -> str:
    return str(int(match[0]) + 3)


WORDS = {"2": "two", "3": "three", "4": "four", "5": "five", "6": "six", "8": "eight"}
WRONG: Mapping[str, Callable[[str], str]] = {
    "another number": lambda text: re.sub(r"\d+", _number, text, count=1),
    "denied": lambda text: text if re.match("(Yes|No)", text) else f"It is not {text}.",
    "flipped": lambda text: re.sub(
        r"^(Yes|No)\b", lambda m: {"Yes": "No", "No": "Yes"}[m[0]], text
    ),
    "renamed": lambda text: re.sub(r"^[A-Z]\w+(?= [A-Z]\w+$)", "Bruno", text),
    "another unit": lambda text: re.sub(r"\bdays\b", "weeks", text, count=1),
}
RIGHT: Mapping[str, Callable[[str], str]] = {
    "in a sentence": lambda text: f"According to the handbook, the answer is {text}.",
    "in words": lambda text: re.sub(r"^[234568](?= )", lambda m: WORDS[m[0]], text),
    "sign of a currency": lambda text: re.sub(r"€(\d[\d,]*)", r"\1 EUR", text),
}


def planted() -> None:
    cases = [json.loads(line) for line in (ROOT / "datasets/pellorin/cases.jsonl").open("rb")]
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for case in cases:
        reference = case.get("reference")
        if not reference:
            continue
        for kind, ways in (("wrong", WRONG), ("right", RIGHT)):
            for name, way in ways.items():
                if (text := way(reference)) != reference:
                    found[kind, name].append(probability(case["query"], text, reference))
        for other in case.get("alternative_references", ()):
            found["right", "other words"].append(probability(case["query"], other, reference))
    for (kind, name), values in sorted(found.items()):
        below = np.mean([one < 0.5 for one in values])
        said = f"not called right {below:.3f}" if kind == "wrong" else f"called wrong {below:.3f}"
        print(f"planted {kind:6} {name:20} {len(values):4}  {said}")


def written(short: Mapping[str, float], long: Mapping[str, float]) -> None:
    head = WEIGHTS.read_text("utf-8").partition("[weights.short]")[0]
    parts = [
        f"[weights.{name}]\n" + "".join(f"{key} = {value:.3f}\n" for key, value in weights.items())
        for name, weights in (("short", short), ("long", long))
    ]
    WEIGHTS.write_text(head + "\n".join(parts), "utf-8")


def main(arguments: Sequence[str]) -> Any:
    folder = Path(arguments[0])
    short, long = Rows.of(evouna(folder), long=False), Rows.of(mtrag(folder), long=True)
    for name, rows in (("EVOUNA, TriviaQA part", short), ("MTRAG, long references", long)):
        shown(name, rows, held_out(rows, rows.folds))
        shown(f"{name}; other systems", rows, held_out(rows, rows.systems))
    alone = np.array([len(one.references) == 1 for one in short.labelled])
    shown("EVOUNA, questions with one reference", short, held_out(short, short.folds), alone)
    preferred(folder)
    if "--write" in arguments:
        written(
            *(
                dict(zip(rows.names, fitted(rows, rows.are_open), strict=True))
                for rows in (short, long)
            )
        )
        return None
    started = time.process_time()
    for one in short.labelled:
        probability(one.query, one.response, one.references[0])
    print(f"{(time.process_time() - started) / len(short.labelled) * 1e6:.0f} us an answer")
    other_domains(folder)
    return planted()


if __name__ == "__main__":
    main(sys.argv[1:])
