"""How long users wait for a run beside the ideal: systems that answer after a while, and a judge.

Usage::

    python -m benchmarks.flow [--cases 200]

The ideal is the sum of all waiting, shared by as many calls as may be in flight (sixteen), or the
longest single case where that is more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "cli")]

from ragbench import (  # noqa: E402
    AsyncRAGInterface,
    CallSettings,
    EvalSettings,
    RAGInterface,
    evaluate,
    open_judge,
)
from ragbench.stages.stage import MOST_CALLS  # noqa: E402
from tests.llm_server import FaultServer, Payload, said_by_default  # noqa: E402

SECONDS = 0.5
"""Of an answer, half of it for the retrieval."""
JUDGE_SECONDS = 0.6
SEED = 3


class Waiting(AsyncRAGInterface):
    """A system of coroutines that answers after the seconds of each question."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        super().__init__()
        self.seconds = seconds

    async def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        await asyncio.sleep(self.seconds[query] / 2)
        return [f"text {query}"]

    async def generate(self, query: str, contexts: list[str]) -> str:
        await asyncio.sleep(self.seconds[query] / 2)
        return f"answer {query}"


class Blocking(RAGInterface):
    """The same with plain methods."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        super().__init__()
        self.seconds = seconds

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        time.sleep(self.seconds[query] / 2)
        return [f"text {query}"]

    def generate(self, query: str, contexts: list[str]) -> str:
        time.sleep(self.seconds[query] / 2)
        return f"answer {query}"


def measured(
    rag: object, queries: list[str], concurrency: int | None, judging: Any = None
) -> float:
    """Seconds of a whole run."""
    cases: list[dict[str, object]] = []
    for query in queries:
        cases.append({"query": query, "reference": f"answer {query}"})
    metrics = "answer_correct,recall@5"
    if judging is not None:
        metrics += ",correctness"
    settings = EvalSettings(limits=CallSettings(concurrency=concurrency))
    with TemporaryDirectory() as folder:
        began = time.perf_counter()
        evaluate(
            cases, rag, out=Path(folder, "run"), metrics=metrics, settings=settings, judging=judging
        )
        return time.perf_counter() - began


def judge_reply(payload: Payload) -> str:
    """What a judge says that calls each answer right."""
    if "answer" not in payload["messages"][-1]["content"]:
        return said_by_default(payload)
    return json.dumps({"reason": "The same.", "verdict": "right"})


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    count = parser.parse_args(arguments).cases
    queries = [f"q{number}" for number in range(count)]
    even = dict.fromkeys(queries, SECONDS)
    source = random.Random(SEED)
    uneven = {query: source.lognormvariate(-1.2, 0.8) for query in queries}

    print(f"{'':44}{'seconds':>9}{'ideal':>9}{'ratio':>8}")
    for name, seconds, kind, concurrency in (
        ("coroutines of .5 s, defaults", even, Waiting, None),
        (f"coroutines of .5 s, {MOST_CALLS} at once", even, Waiting, MOST_CALLS),
        (f"coroutines, lognormal, {MOST_CALLS} at once", uneven, Waiting, MOST_CALLS),
        (f"plain methods of .5 s, {MOST_CALLS} at once", even, Blocking, MOST_CALLS),
    ):
        ideal = max(sum(seconds.values()) / MOST_CALLS, max(seconds.values()))
        elapsed = measured(kind(seconds), queries, concurrency)
        print(f"{name:44}{elapsed:9.2f}{ideal:9.2f}{elapsed / ideal:8.2f}")

    without = measured(Waiting(even), queries, MOST_CALLS)
    with (
        FaultServer(say=judge_reply, latency=JUDGE_SECONDS) as server,
        open_judge(base_url=server.url, model="m", preflight=False, cache="off") as judging,
    ):
        judged = measured(Waiting(even), queries, MOST_CALLS, judging)
    name = f"a judge of {JUDGE_SECONDS} s beside the run without"
    print(f"{name:44}{judged:9.2f}{without:9.2f}{judged / without:8.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
