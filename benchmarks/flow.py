"""How long users wait for a run beside the ideal: systems that answer after a while, and a judge.

Usage::

    python -m benchmarks.flow [--cases 200] [--peers FOLDER]

The ideal is the sum of all waiting, shared by as many calls as may be in flight (sixteen), or the
longest single case where that is more.

With a folder, the same questions go through Inspect, DeepEval and promptfoo at their defaults; each
is installed there, in an environment of its own. What cannot be installed is skipped.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
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

HERE = Path(__file__).parent

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
    # In the forms of ragbench, DeepEval, promptfoo and Inspect, each of which reads its own.
    return json.dumps(
        {"reason": "GRADE: C", "verdict": "right", "score": 10, "pass": True},
    )


# --- the same questions through others

Install = Callable[[Path], None]
Measure = Callable[[Path, Mapping[str, Any]], float]


def _installed(folder: Path, *packages: str) -> None:
    """Makes a virtual environment with some packages."""
    if not (folder / "bin").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        command = [str(folder / "bin" / "pip"), "install", "--quiet", *packages]
        subprocess.run(command, check=True, capture_output=True)


def _timed_in(script: str) -> Measure:
    """Runs a script of `benchmarks/flow_peers` with the Python of a folder; it prints seconds."""

    def measure(folder: Path, options: Mapping[str, Any]) -> float:
        script_path = HERE / "flow_peers" / script
        command = [str(folder / "bin" / "python"), str(script_path), json.dumps(options)]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=options["folder"], env=QUIET
        )
        return float(done.stdout.split()[-1])

    return measure


def _install_promptfoo(folder: Path) -> None:
    """Installs promptfoo with npm."""
    if not (folder / "node_modules" / ".bin" / "promptfoo").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}", "utf-8")
        command = ["npm", "install", "--no-audit", "--no-fund", "promptfoo"]
        subprocess.run(command, check=True, capture_output=True, cwd=folder)


def _promptfoo(folder: Path, options: Mapping[str, Any]) -> float:
    """Runs promptfoo, and gives the seconds that it counts itself, without the start of Node."""
    place = Path(options["folder"])
    tests: list[dict[str, Any]] = []
    for number in range(options["cases"]):
        check: dict[str, Any] = {"type": "equals", "value": f"answer q{number}"}
        if options["judge"]:
            check = {"type": "llm-rubric", "value": f"The same as answer q{number}"}
        tests.append({"vars": {"query": f"q{number}"}, "assert": [check]})
    stub = (
        "module.exports = class { id() { return 'stub' } async callApi(prompt) {"
        f"await new Promise(done => setTimeout(done, {options['seconds'] * 1000}));"
        "return { output: 'answer ' + prompt } } }"
    )
    (place / "stub.js").write_text(stub, "utf-8")
    config: dict[str, Any] = {
        "prompts": ["{{query}}"],
        "providers": ["file://stub.js"],
        "tests": tests,
    }
    if options["judge"]:
        judge = {"apiBaseUrl": options["judge"], "apiKey": "none"}
        grader = {"id": "openai:chat:m", "config": judge}
        config["defaultTest"] = {"options": {"provider": grader}}
    (place / "promptfooconfig.json").write_text(json.dumps(config), "utf-8")
    program = str(folder / "node_modules" / ".bin" / "promptfoo")
    command = [program, "eval", "-c", "promptfooconfig.json", "--no-cache", "-o", "out.json"]
    environment = QUIET | {"PROMPTFOO_CONFIG_DIR": str(place)}
    subprocess.run(command, check=True, capture_output=True, cwd=place, env=environment)
    results = json.loads((place / "out.json").read_text("utf-8"))["results"]
    return float(results["stats"]["durationMs"]) / 1e3


QUIET = os.environ | {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
}
PEERS: dict[str, tuple[Install, Measure]] = {
    "Inspect": (
        lambda folder: _installed(folder, "inspect-ai", "openai"),
        _timed_in("inspect_flow.py"),
    ),
    "DeepEval": (lambda folder: _installed(folder, "deepeval"), _timed_in("deepeval_flow.py")),
    "promptfoo": (_install_promptfoo, _promptfoo),
}


def compare_peers(folder: Path, queries: list[str]) -> None:
    """Prints the seconds of each tool at its defaults, without a judge and with one."""
    even = dict.fromkeys(queries, SECONDS)
    print(f"\n{'at defaults':44}{'seconds':>9}{'judged':>9}")
    with FaultServer(say=judge_reply, latency=JUDGE_SECONDS) as server:
        with open_judge(base_url=server.url, model="m", preflight=False, cache="off") as judging:
            plain = measured(Waiting(even), queries, None)
            judged = measured(Waiting(even), queries, None, judging)
        print(f"{'ragbench':44}{plain:9.2f}{judged:9.2f}", flush=True)
        for name, (install, measure) in PEERS.items():
            place = folder / name.lower()
            try:
                install(place)
                seconds: list[float] = []
                for judge in ("", server.url):
                    with TemporaryDirectory() as scratch:
                        options = {
                            "cases": len(queries),
                            "seconds": SECONDS,
                            "judge": judge,
                            "folder": scratch,
                        }
                        seconds.append(measure(place, options))
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"{name} is skipped: {error}")
                continue
            print(f"{name:44}{seconds[0]:9.2f}{seconds[1]:9.2f}", flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--peers", type=Path, help="a folder in which others are installed")
    options = parser.parse_args(arguments)
    count = options.cases
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
    if options.peers is not None:
        compare_peers(options.peers.absolute(), queries)


if __name__ == "__main__":
    main(sys.argv[1:])
