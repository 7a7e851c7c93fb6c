"""Microseconds per case for sets of metrics, on synthetic cases; CPU time, best of several rounds.

The first line is the usual set on short cases (3 contexts, answers of 8 words), in windows of 512
as a run scores them: about 20 us by ir_measures and scorers a family, about 8 us as functions over
a window. All others are on cases with 10 contexts and answers of 12 words.

Run: ``python benchmarks/score_metrics.py [--cases N] [--profile]``
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import time

from ragbench import Case, GenerationResult, RetrievalResult, parse_metrics
from ragbench.core.outcome import Outcome, Status
from ragbench.core.trace import Trace
from ragbench.metrics.matching import Matching
from ragbench.metrics.plan import Plan
from ragbench.metrics.registry import default_metrics

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
USUAL = "recall@5, nDCG@10, exact_match, token_f1"
WINDOW = 512
VOCABULARY = [f"word{number}" for number in range(300)]


def traces(size: int, seed: int = 1, contexts: int = 10, words: int = 12) -> list[Trace]:
    """Cases with contexts of 60 words, 2 relevant ids and an answer of some words."""
    rng = random.Random(seed)

    def text(words: int) -> str:
        return " ".join(rng.choice(VOCABULARY) for _ in range(words))

    corpus = [text(60) for _ in range(200)]
    made: list[Trace] = []
    for number in range(size):
        chosen = rng.sample(range(200), contexts)
        reference = text(words)
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
                        reference if rng.random() < 0.3 else f"{reference[:20]} {text(words - 3)}",
                        multi_responses=[text(10), text(10), text(10)],
                        confidence=rng.random(),
                    ),
                    seconds=0.002,
                ),
            )
        )
    return made


def usual(cases: int, rounds: int) -> float:
    """Microseconds per case of the usual set, a window at a time."""
    plan = Plan(parse_metrics(USUAL), matching=Matching.ID)
    best = float("inf")
    for number in range(rounds + 1):
        made = traces(cases, number, contexts=3, words=8)
        windows = [made[at : at + WINDOW] for at in range(0, cases, WINDOW)]
        begin = time.process_time()
        for window in windows:
            plan.score(window)
        if number:  # the first round imports
            best = min(best, time.process_time() - begin)
    return best / cases * 1e6


def main() -> None:
    """Prints one line per set of metrics."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    print(f"{usual(options.cases, options.rounds):7.1f} us/case    id  {USUAL} (3 contexts)")
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
