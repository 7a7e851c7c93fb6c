"""Microseconds a case for sets of metrics, on synthetic cases; CPU time, best of several rounds.

Run: ``python tests/benchmarks/score_metrics.py [--cases N] [--profile]``
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import time

from ragbench.interface.results import GenerationResult, RetrievalResult
from ragbench.records.cases import Case
from ragbench.records.cells import Outcome, Status
from ragbench.runs.trace import Trace
from ragbench.scoring.matching import Matching
from ragbench.scoring.plan import Plan
from ragbench.scoring.registry import default_metrics, parse_metrics

SETS: tuple[str, ...] = (
    "recall@5, MRR@10, nDCG@10, hit_rate@5",
    "recall@5, MRR@10, exact_match, token_f1",
    "set_precision, set_recall, exact_match(normalise=none), edit_similarity",
    "recall@5",
    "Judged@10",
    "exact_match",
    "token_f1",
    "edit_similarity",
    ", ".join(metric.name for metric in default_metrics()),
)
VOCABULARY = [f"word{number}" for number in range(300)]


def traces(size: int, seed: int = 1) -> list[Trace]:
    """Cases with 10 contexts of 60 words, 2 relevant ids and an answer of 12 words."""
    rng = random.Random(seed)

    def text(words: int) -> str:
        return " ".join(rng.choice(VOCABULARY) for _ in range(words))

    corpus = [text(60) for _ in range(200)]
    made: list[Trace] = []
    for number in range(size):
        chosen = rng.sample(range(200), 10)
        reference = text(12)
        made.append(
            Trace(
                case=Case(
                    id=str(number),
                    query=text(8),
                    reference=reference,
                    reference_context_ids=(f"doc{rng.choice(chosen)}", "doc7"),
                    reference_contexts=(corpus[rng.choice(chosen)], corpus[7]),
                    answerable=True,
                ),
                retrieval=Outcome(
                    status=Status.MEASURED,
                    value=RetrievalResult(
                        [corpus[position] for position in chosen],
                        context_ids=[f"doc{position}" for position in chosen],
                    ),
                    seconds=0.001,
                ),
                generation=Outcome(
                    status=Status.MEASURED,
                    value=GenerationResult(
                        f"{reference[:40]} {text(5)}",
                        multi_responses=[text(10), text(10), text(10)],
                        confidence=rng.random(),
                    ),
                    seconds=0.002,
                ),
            )
        )
    return made


def main() -> None:
    """Prints one line a set of metrics."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    for matching in (Matching.ID, Matching.TEXT):
        for names in SETS if matching is Matching.ID else SETS[:1]:
            plan = Plan(parse_metrics(names), matching=matching)
            plan.score(traces(10))  # imports
            best = float("inf")
            for round in range(options.rounds):
                # New texts each round: caches must not make it look faster than it is.
                cases = traces(options.cases, seed=round)
                begin = time.process_time()
                plan.score(cases)
                best = min(best, time.process_time() - begin)
            print(f"{best / options.cases * 1e6:7.1f} us/case  {matching:>4}  {names}")
    if options.profile:
        plan = Plan(parse_metrics(SETS[1]), matching=Matching.ID)
        cases = traces(options.cases)
        with cProfile.Profile() as profile:
            for _ in range(10):
                plan.score(cases)
        pstats.Stats(profile).sort_stats("tottime").print_stats(16)


if __name__ == "__main__":
    main()
