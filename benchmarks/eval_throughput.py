"""Cases a second and memory of an evaluation, beside a plain loop and beside other tools.

Every line is a process of its own, on the same generated cases: ten chunks of 60 words and an
answer of 12 words a question, a RAG that only looks them up, and four metrics that equal RAGAS' id
precision, id recall, exact match and string similarity. The column "process CPU" is what a user
pays: start, imports and files of the report included.

Run: ``python benchmarks/eval_throughput.py [--cases 1000 10000] [--tools loop ragbench ...]``
"""

from __future__ import annotations

import argparse
import compileall
import cProfile
import gc
import json
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
METRICS = "set_precision, set_recall, exact_match(normalise=none), edit_similarity"
TOLERANCE = 1e-9
Scores = list[tuple[float, ...]]

sys.path[:0] = [str(ROOT), str(ROOT / "cli")]


@dataclass(kw_only=True)
class Measured:
    """What one tool took for one number of cases."""

    tool: str
    cases: int
    loop_cpu: float = 0.0
    """Seconds of CPU time from the first case to the last score, storing included."""
    loop_wall: float = 0.0
    process_cpu: float = 0.0
    """Seconds of CPU time from the start of the interpreter to the last score."""
    source: str = ""
    """The file with the cases, for tools that read one."""
    memory: float = 0.0
    """Peak, in megabytes."""
    scores: Scores = field(default_factory=list)


def timed(result: Measured, work: Callable[[], Any]) -> Any:
    """Runs the loop of a tool and notes its times."""
    wall, cpu = time.perf_counter(), time.process_time()
    value = work()
    result.process_cpu = time.process_time()
    result.loop_cpu, result.loop_wall = result.process_cpu - cpu, time.perf_counter() - wall
    return value


def plain_loop(result: Measured) -> None:
    """The floor: the same calls and the same four numbers in a plain loop, nothing stored."""
    from rapidfuzz.distance import Levenshtein

    from benchmarks.throughput_rag import Trivial, case

    rag = Trivial()
    cases = [case(number) for number in range(result.cases)]

    def work() -> Scores:
        scores: Scores = []
        for start in range(0, len(cases), 32):
            batch = cases[start : start + 32]
            queries = [item.query for item in batch]
            found = rag.batch_retrieve_with_metadata(queries)
            answers = rag.batch_generate_with_metadata(queries, [list(f.contexts) for f in found])
            for item, retrieval, answer in zip(batch, found, answers, strict=True):
                ids, gold = set(retrieval.context_ids or ()), set(item.reference_context_ids or ())
                hits = len(ids & gold)
                similarity = Levenshtein.normalized_similarity(
                    item.reference or "", answer.response
                )
                same = float(item.reference == answer.response)
                scores.append((hits / len(ids), hits / len(gold), same, similarity))
        return scores

    result.scores = timed(result, work)


def ragbench_library(result: Measured) -> None:
    """evaluate() on a stream of cases: journal, scores and the figures of the report."""
    from benchmarks.throughput_rag import Trivial, case
    from ragbench import evaluate, parse_metrics

    rag, metrics = Trivial(), parse_metrics(METRICS)
    with tempfile.TemporaryDirectory() as folder:
        report = timed(
            result,
            lambda: evaluate(
                (case(number) for number in range(result.cases)),
                rag,
                out=Path(folder) / "run",
                metrics=metrics,
            ),
        )
        if os.environ.get("THROUGHPUT_SCORES"):
            result.scores = [tuple(cell.value for cell in row.cells) for row in report.rows()]


def ragbench_command(result: Measured, *options: str) -> None:
    """The whole command: cases read from a file, every form of the report written.

    Args:
        options: those that say what is measured.
    """
    from ragbench_cli.main import main

    gc.set_threshold(250_000, 20, 50)  # as the program sets it at its start
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = ["eval", result.source, *options, "-m", METRICS, "-o", str(out), "-q"]
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
            code = timed(result, lambda: main(command))
        if code != 0:
            raise SystemExit(f"the command failed with {code}")
        if os.environ.get("THROUGHPUT_SCORES"):
            from ragbench import report_of

            result.scores = [
                tuple(cell.value or 0.0 for cell in row.cells) for row in report_of(out).rows()
            ]


def asking_command(result: Measured) -> None:
    """The command with a RAG that it asks."""
    ragbench_command(result, "--rag", f"{HERE / 'throughput_rag.py'}:Trivial")


def recorded_command(result: Measured) -> None:
    """The command with chunks and answers in the file, as RAGAS is given them."""
    ragbench_command(result)


def write_cases(path: Path, count: int, *, is_recorded: bool) -> None:
    """The cases as a file; recorded ones with their chunks and answers."""
    with path.open("w", encoding="utf-8") as file:
        for case, texts, ids, response in answered(count):
            row: dict[str, Any] = {
                "id": case.id,
                "query": case.query,
                "reference": case.reference,
                "reference_context_ids": case.reference_context_ids,
            }
            if is_recorded:
                row["retrieved_contexts"] = texts
                row["retrieved_context_ids"] = ids
                row["response"] = response
            file.write(json.dumps(row) + "\n")


def answered(count: int) -> Iterator[tuple[Any, list[str], list[str], str]]:
    """Each case with its chunks, their ids and its answer, for tools that are given results."""
    from benchmarks.throughput_rag import Trivial, case, response, retrieved

    rag = Trivial()
    for number in range(count):
        chunks = retrieved(number)
        texts, ids = [rag.texts[c] for c in chunks], [rag.ids[c] for c in chunks]
        yield case(number), texts, ids, response(number)


def ragas_evaluate(result: Measured) -> None:
    """ragas.evaluate() with its own four metrics."""
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")
    import warnings

    warnings.simplefilter("ignore")
    import ragas
    import ragas.metrics

    samples: list[Any] = [
        ragas.SingleTurnSample(
            user_input=case.query,
            response=response,
            reference=case.reference,
            retrieved_contexts=texts,
            retrieved_context_ids=list[Any](ids),
            reference_context_ids=list(case.reference_context_ids or ()),
        )
        for case, texts, ids, response in answered(result.cases)
    ]
    names = ("IDBasedContextPrecision", "IDBasedContextRecall", "ExactMatch")
    metrics = [getattr(ragas.metrics, name)() for name in (*names, "NonLLMStringSimilarity")]
    dataset = ragas.EvaluationDataset(samples=samples)
    found = timed(result, lambda: ragas.evaluate(dataset, metrics=metrics, show_progress=False))
    columns = [found[metric.name] for metric in metrics]
    result.scores = list(zip(*columns, strict=True))


def four(case: Any, ids: Sequence[str], response: str) -> tuple[float, ...]:
    """The four scores by hand, for tools that have no such metrics."""
    from rapidfuzz.distance import Levenshtein

    found, gold = set(ids), set(case.reference_context_ids or ())
    hits = len(found & gold)
    similarity = Levenshtein.normalized_similarity(case.reference, response)
    return hits / len(found), hits / len(gold), float(case.reference == response), similarity


def deepeval(result: Measured) -> None:
    """deepeval.evaluate() with four metrics of the same formulas (it has none of its own)."""
    os.environ.setdefault("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")
    from deepeval import evaluate  # type: ignore[import-not-found]
    from deepeval.evaluate.configs import (  # type: ignore[import-not-found]
        AsyncConfig,
        CacheConfig,
        DisplayConfig,
    )
    from deepeval.metrics import BaseMetric  # type: ignore[import-not-found]
    from deepeval.test_case import LLMTestCase  # type: ignore[import-not-found]

    class One(BaseMetric):  # type: ignore[misc]
        def __init__(self, place: int) -> None:
            self.place, self.threshold, self.async_mode = place, 0.0, True

        def measure(self, test_case: Any, *_: object, **__: object) -> float:
            self.score: float = four(*test_case.additional_metadata["row"])[self.place]
            self.success, self.reason = True, ""
            return self.score

        async def a_measure(self, test_case: Any, *_: object, **__: object) -> float:
            return self.measure(test_case)

        def is_successful(self) -> bool:
            return True

        @property
        def __name__(self) -> str:
            return f"metric {self.place}"

    cases = [
        LLMTestCase(
            input=case.query,
            actual_output=response,
            expected_output=case.reference,
            retrieval_context=texts,
            additional_metadata={"row": (case, ids, response)},
        )
        for case, texts, ids, response in answered(result.cases)
    ]
    found = timed(
        result,
        lambda: evaluate(
            cases,
            [One(place) for place in range(4)],
            async_config=AsyncConfig(run_async=True, max_concurrent=100),
            display_config=DisplayConfig(show_indicator=False, print_results=False),
            cache_config=CacheConfig(write_cache=False, use_cache=False),
        ),
    )
    result.scores = [
        tuple(data.score for data in sorted(test.metrics_data, key=lambda data: data.name))
        for test in sorted(found.test_results, key=lambda test: int(test.input.split()[-1]))
    ]


def inspect(result: Measured) -> None:
    """inspect_ai.eval() with a solver that looks the answer up and a scorer of four values."""
    from inspect_ai import Task, eval  # type: ignore[import-not-found]
    from inspect_ai.dataset import Sample  # type: ignore[import-not-found]
    from inspect_ai.model import ModelOutput  # type: ignore[import-not-found]
    from inspect_ai.scorer import Score, mean, scorer  # type: ignore[import-not-found]
    from inspect_ai.solver import solver  # type: ignore[import-not-found]

    rows = {case.id: (case, ids, response) for case, _, ids, response in answered(result.cases)}

    @solver  # type: ignore[untyped-decorator]
    def fixed() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            state.output = ModelOutput.from_content("fixed", rows[state.sample_id][2])
            return state

        return solve

    @scorer(metrics={str(place): [mean()] for place in range(4)})  # type: ignore[untyped-decorator]
    def scores() -> Any:
        async def score(state: Any, target: Any) -> Any:
            return Score(value={str(n): v for n, v in enumerate(four(*rows[state.sample_id]))})

        return score

    samples = [
        Sample(id=case.id, input=case.query, target=case.reference, metadata={"contexts": texts})
        for case, texts, _, _ in answered(result.cases)
    ]
    with tempfile.TemporaryDirectory() as folder:
        (log,) = timed(
            result,
            lambda: eval(
                Task(dataset=samples, solver=fixed(), scorer=scores()),
                model="mockllm/model",
                display="none",
                log_dir=folder,
            ),
        )
    by_id = {sample.id: sample.scores["scores"].value for sample in log.samples}
    result.scores = [tuple(by_id[case].values()) for case in rows]


TOOLS: dict[str, Callable[[Measured], None]] = {
    "loop": plain_loop,
    "evaluate": ragbench_library,
    "command": asking_command,
    "recorded": recorded_command,
    "ragas": ragas_evaluate,
    "deepeval": deepeval,
    "inspect": inspect,
}


def in_process(tool: str, cases: int, *, scores: bool, profile: bool) -> Measured:
    """Measures one tool in a fresh process."""
    environment = dict(os.environ) | ({"THROUGHPUT_SCORES": "1"} if scores else {})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "measured.json"
        source = Path(folder) / "cases.jsonl"
        if tool in ("command", "recorded"):
            write_cases(source, cases, is_recorded=tool == "recorded")
        command = [sys.executable, __file__, "--one", tool, str(file), "--cases", str(cases)]
        command += ["--source", str(source)]
        if profile:
            command.append("--profile")
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        return Measured(**json.loads(file.read_bytes()))


def run_one(result: Measured, path: str, *, profile: bool) -> None:
    """Runs one tool in this process, and writes what was measured."""
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    TOOLS[result.tool](result)
    profiler.disable()
    if profile:
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(35)
    result.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    Path(path).write_text(json.dumps(asdict(result)))


def furthest(one: Scores, other: Scores) -> float:
    """The largest difference between two tools' scores."""
    return max(
        abs(a - b)
        for row, other_row in zip(one, other, strict=True)
        for a, b in zip(row, other_row, strict=True)
    )


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=[*TOOLS][:5])
    parser.add_argument("--most", type=int, default=10_000, help="most cases for other tools")
    parser.add_argument("--one", nargs=2, metavar=("TOOL", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--source", default="", help=argparse.SUPPRESS)
    parser.add_argument("--profile", action="store_true", help="prints where the time goes")
    options = parser.parse_args()
    if options.one:
        tool, path = options.one
        result = Measured(tool=tool, cases=options.cases[0], source=options.source)
        run_one(result, path, profile=options.profile)
        return
    # As an installer does for every tool: without it, each line would compile ours anew.
    for package in (ROOT / "ragbench", ROOT / "cli" / "ragbench_cli"):
        compileall.compile_dir(package, quiet=1)
    row = "{:>10} {:>8} {:>10} {:>12} {:>12} {:>12} {:>10}  {}"
    print(
        row.format(
            "tool", "cases", "us/case", "cases/s CPU", "cases/s wall", "process CPU", "peak MB", ""
        )
    )
    for cases in options.cases:
        floor: Scores = []
        for tool in options.tools:
            if tool not in [*TOOLS][:4] and cases > options.most:
                continue
            scores = cases <= options.most
            found = in_process(tool, cases, scores=scores, profile=options.profile)
            note = ""
            if tool == "loop":
                floor = found.scores
            elif found.scores and floor:
                gap = furthest(floor, found.scores)
                note = "same scores" if gap <= TOLERANCE else f"SCORES DIFFER by {gap:g}"
            print(
                row.format(
                    tool,
                    f"{cases:,}",
                    f"{found.loop_cpu / cases * 1e6:,.1f}",
                    f"{cases / found.loop_cpu:,.0f}",
                    f"{cases / found.loop_wall:,.0f}",
                    f"{found.process_cpu:.2f} s",
                    f"{found.memory:,.0f}",
                    note,
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
