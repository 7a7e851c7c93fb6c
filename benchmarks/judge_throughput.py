"""Judged metrics beside `ragas.evaluate()`: calls in flight, wall time, CPU time, scores.

    PYTHONPATH=.:cli python benchmarks/judge_throughput.py --cases 50

A server answers every call after 50 ms, and equal inputs alike: both sides must come to the same
scores. Each side runs in a process of its own, imports left out of its times.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "cli")]

from tests.llm_server import FaultServer, Payload, instance_of  # noqa: E402

LATENCY = 0.05
NAMES = {
    "faithfulness": "ragas:faithfulness",
    "context_recall": "ragas:context_recall",
    "llm_context_precision_with_reference": "ragas:context_precision",
    "factual_correctness(mode=f1)": "ragas:factual_correctness",
}
"""RAGAS' columns and ours."""


def said(payload: Payload) -> str:
    """What follows the schema in RAGAS' prompt; verdicts by what the input is."""
    prompt: str = payload["messages"][-1]["content"]
    schema, _ = json.JSONDecoder().raw_decode(prompt[prompt.index("{") :])
    told = json.loads(prompt.rpartition("\ninput: ")[2].rpartition("\nOutput:")[0])
    verdict = zlib.crc32(json.dumps(told, sort_keys=True).encode()) % 2
    answer = instance_of(schema)
    statements = told.get("statements")
    if statements and "statements" in answer:
        answer["statements"] = [{**answer["statements"][0], "statement": s} for s in statements]
    return json.dumps(_with_verdict(answer, verdict))


def _with_verdict(value: Any, verdict: int) -> Any:
    if isinstance(value, list):
        return [_with_verdict(item, verdict) for item in value]
    if isinstance(value, dict):
        return {
            key: verdict if key in ("verdict", "attributed") else _with_verdict(inner, verdict)
            for key, inner in value.items()
        }
    return value


def rows(count: int, contexts: int) -> list[dict[str, Any]]:
    return [
        {
            "user_input": f"What is leaf {n}?",
            "response": f"Leaf {n} is green and {n} days old.",
            "reference": f"Leaf {n} is green.",
            "retrieved_contexts": [
                f"Leaf {n} has {k} veins and is green." for k in range(contexts)
            ],
        }
        for n in range(count)
    ]


def ours(url: str, count: int, contexts: int) -> dict[str, Any]:
    from ragbench import Case, RAGInterface, evaluate, parse_metrics
    from ragbench.llm.endpoint import Endpoint
    from ragbench.llm.session import LLMSession, open_models
    from ragbench.llm.settings import LLMSettings
    from ragbench.llm.transport import CallLimits
    from ragbench.plugins import import_ragas
    from ragbench.stages.judge import Judging

    import_ragas()
    importlib.import_module("openai")
    importlib.import_module("ragas.metrics.collections")

    data = {row["user_input"]: row for row in rows(count, contexts)}

    class Known(RAGInterface):
        """Gives what the rows hold."""

        def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
            return list(data[query]["retrieved_contexts"])

        def generate(self, query: str, contexts: Any) -> str:
            return str(data[query]["response"])

    with tempfile.TemporaryDirectory() as tmp:
        settings = LLMSettings(
            endpoint=Endpoint(base_url=url, model="m"),
            limits=CallLimits(concurrency=32),
            cache=f"{tmp}/cache.sqlite",
            cache_bytes=10**9,
            settings=(),
        )
        cases = [
            Case(id=str(n), query=row["user_input"], reference=row["reference"])
            for n, row in enumerate(data.values())
        ]
        started, used = time.perf_counter(), time.process_time()
        with LLMSession(lambda: open_models(settings)) as session:
            report = evaluate(
                cases,
                Known(),
                out=Path(tmp, "run"),
                metrics=parse_metrics(list(NAMES.values())),
                judging=Judging(session=session, chat=settings, preflight=False),
            )
        found = {
            "seconds": time.perf_counter() - started,
            "cpu": time.process_time() - used,
            "scores": [[cell.value for cell in row.cells] for row in report.rows()],
        }
    return found


def theirs(url: str, count: int, contexts: int) -> dict[str, Any]:
    from ragbench.plugins import import_ragas

    ragas: Any = import_ragas()
    warnings.simplefilter("ignore")
    import openai

    llms: Any = importlib.import_module("ragas.llms")

    known: Any = importlib.import_module("ragas.metrics")

    client = openai.AsyncOpenAI(base_url=url, api_key="none")
    judge = llms.llm_factory("m", client=client)
    data = ragas.EvaluationDataset.from_list(rows(count, contexts))
    metrics = [
        known.Faithfulness(),
        known.LLMContextRecall(),
        known.LLMContextPrecisionWithReference(),
        known.FactualCorrectness(),
    ]
    config = ragas.RunConfig(max_workers=32)
    started, used = time.perf_counter(), time.process_time()
    result = ragas.evaluate(
        data, metrics=metrics, llm=judge, run_config=config, show_progress=False
    )
    seconds, cpu = time.perf_counter() - started, time.process_time() - used
    table = result.to_pandas()
    scores = [[None if v != v else float(v) for v in row] for row in table[list(NAMES)].to_numpy()]
    return {"seconds": seconds, "cpu": cpu, "scores": scores}


def measured(side: str, count: int, contexts: int) -> dict[str, Any]:
    with FaultServer(latency=LATENCY, say=said) as server:
        done = subprocess.run(
            [sys.executable, __file__, "--side", side, "--url", server.url,
             "--cases", str(count), "--contexts", str(contexts)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "cli")])},
            stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        found |= {"calls": len(server.calls), "peak": server.peak}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--contexts", type=int, default=5)
    parser.add_argument("--side", choices=("ours", "theirs"))
    parser.add_argument("--url", default="")
    options = parser.parse_args()
    count, contexts = options.cases, options.contexts
    if options.side is not None:
        measure = ours if options.side == "ours" else theirs
        print(json.dumps(measure(options.url, count, contexts)))
        return
    both = {side: measured(side, count, contexts) for side in ("ours", "theirs")}
    for side, found in both.items():
        print(
            f"{side:<7} {found['calls']:>6,} calls, {found['peak']:>3} in flight, "
            f"{found['seconds']:6.2f} s wall, {found['cpu']:6.2f} s CPU, "
            f"{1000 * found['cpu'] / found['calls']:.2f} ms CPU a call"
        )
    wall = both["theirs"]["seconds"] / both["ours"]["seconds"]
    cpu = both["theirs"]["cpu"] / both["ours"]["cpu"]
    pairs = [
        (one, two)
        for mine, other in zip(both["ours"]["scores"], both["theirs"]["scores"], strict=True)
        for one, two in zip(mine, other, strict=True)
    ]
    same = sum(one is not None and two is not None and abs(one - two) < 1e-9 for one, two in pairs)
    print(f"wall {wall:.2f} times, CPU {cpu:.2f} times ours; {same} of {len(pairs)} scores equal")


if __name__ == "__main__":
    main()
