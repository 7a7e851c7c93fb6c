"""A judged run against a server that fails as real ones do: is every recoverable cell measured?

    PYTHONPATH=.:cli python benchmarks/judge_faults.py

Two parts, both over HTTP through the real client:

- faults: 200 cases under four metrics, 30% of the requests fail (429 with a long Retry-After, 500,
  hangs, cut connections, broken JSON, wrong schema, refusals, empty choices). Every cell must be
  measured or failed with its cause; failed ones must be those that met a refusal, or a wrong answer
  twice.
- kills: the same run in a process that is killed at seeded moments and started again, until it is
  through. No finished call may be repeated, and the report must be that of an undisturbed run.

Time is a thousandfold for the client's waits: a Retry-After of 60 s takes 60 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "cli")]

from ragbench import Case, RAGInterface, evaluate, parse_metrics  # noqa: E402
from ragbench.core.outcome import Status  # noqa: E402
from ragbench.core.report import Report  # noqa: E402
from ragbench.llm.endpoint import Endpoint  # noqa: E402
from ragbench.llm.session import (  # noqa: E402
    LLMSession,
    open_models,
)
from ragbench.llm.settings import LLMSettings  # noqa: E402
from ragbench.llm.transport import (  # noqa: E402
    CallLimits,
    Clock,
)
from ragbench.stages.judge import Judging  # noqa: E402
from ragbench.views.write import write_reports  # noqa: E402
from tests.llm_server import FaultServer  # noqa: E402

METRICS = "ragas:faithfulness, ragas:context_recall, ragas:context_precision, ragas:answer_accuracy"
FAULTS = {
    "429": 0.06, "500": 0.06, "hang": 0.02, "cut": 0.04, "bad_json": 0.03, "wrong_schema": 0.03,
    "refusal": 0.02, "empty_choices": 0.02, "garbage": 0.02,
}  # fmt: skip
SAME = ("report.json", "report.md", "cases.csv", "judgements.jsonl", "manifest.json")


class Green(RAGInterface):
    """Finds three contexts and answers with the first."""

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return [f"{query} is green.", "Cows eat.", "Bees fly."]

    def generate(self, query: str, contexts: Any) -> str:
        return str(contexts[0])


class FastClock(Clock):
    """A thousand seconds a second."""

    def now(self) -> float:
        return super().now() * 1000

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 1000)

    def limit(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return super().limit(None if seconds is None else seconds / 1000)


def judged_run(folder: Path, url: str, cases: int) -> Report:
    settings = LLMSettings(
        endpoint=Endpoint(base_url=url, model="m"),
        # Two seconds of real time for a request: a server that hangs costs that much.
        limits=CallLimits(timeout=2000.0, concurrency=32),
        cache=str(folder / "cache.sqlite"),
        cache_bytes=10**9,
        settings=(),
    )
    with LLMSession(lambda: open_models(settings, clock=FastClock())) as session:
        return evaluate(
            [
                Case(id=f"c{n}", query=f"Leaf {n}", reference=f"Leaf {n} is green.")
                for n in range(cases)
            ],
            Green(),
            out=folder / "run",
            metrics=parse_metrics(METRICS),
            judging=Judging(session=session, chat=settings, preflight=False),
        )


def with_faults(cases: int) -> bool:
    with (
        FaultServer(faults=FAULTS, seed=7, retry_after="60") as server,
        tempfile.TemporaryDirectory() as tmp,
    ):
        started = time.perf_counter()
        report = judged_run(Path(tmp), server.url, cases)
        seconds = time.perf_counter() - started
        cells = [cell for row in report.rows() for cell in row.cells]
    faults = Counter(call.fault or "answered" for call in server.calls)
    statuses = Counter(cell.status.value for cell in cells)
    causes = Counter(cell.failure.type for cell in cells if cell.failure is not None)
    mended = sum("Reply again with the whole" in json.dumps(call.payload) for call in server.calls)
    print(f"{len(server.calls):,} requests in {seconds:.1f} s, at most {server.peak} in flight")
    print("requests", dict(faults.most_common()))
    print("cells   ", dict(statuses), "failed by", dict(causes))
    # A refusal ends a call; a wrong answer is mended once. All else can be made good.
    lost = sum(causes.values())
    fine = (
        len(cells) == 4 * cases
        and set(statuses) <= {Status.MEASURED.value, Status.FAILED.value}
        and set(causes) <= {"LLMRefusedError", "LLMReplyError"}
        and causes["LLMRefusedError"] <= faults["refusal"]
        and causes["LLMReplyError"] <= mended
        and lost < len(cells)
    )
    print("every recoverable cell is measured" if fine else "CELLS ARE MISSING")
    return fine


def with_kills(cases: int, kills: int, seed: int) -> bool:
    draw = random.Random(seed)
    # Faults that retries make good: what a killed call met is not what the next one meets.
    with (
        FaultServer(
            faults={"429": 0.1, "500": 0.1, "cut": 0.05}, seed=seed, latency=0.01
        ) as server,
        tempfile.TemporaryDirectory() as tmp,
    ):
        killed, whole = Path(tmp, "killed"), Path(tmp, "whole")
        count = 0
        while True:
            process = _child(killed, server.url, cases)
            enough = len(server.good) + draw.randrange(20, 8 * cases // kills)
            while len(server.good) < enough and process.poll() is None:
                time.sleep(0.001)
            if count >= kills or process.poll() is not None:
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
            count += 1
        if process.wait():
            raise SystemExit("the last run failed")
        asked = [json.dumps(call.payload, sort_keys=True) for call in server.good]
        if _child(whole, server.url, cases).wait():
            raise SystemExit("the undisturbed run failed")
        same = [
            (killed / "run" / name).read_bytes() == (whole / "run" / name).read_bytes()
            for name in SAME
        ]
    repeated = len(asked) - len(set(asked))
    print(f"{count} kills, {len(set(asked)):,} questions, answered well more than once: {repeated}")
    print("an answer is repeated when the process died between its arrival and its storing")
    print("same report as undisturbed:", dict(zip(SAME, same, strict=True)))
    # In flight at a kill: at most as many as there are slots.
    return all(same) and repeated <= 32 * count


def _child(folder: Path, url: str, cases: int) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [
            sys.executable,
            str(Path(__file__).absolute()),
            "--child",
            str(folder),
            "--url",
            url,
            "--cases",
            str(cases),
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "cli")])},
        cwd=folder,  # outside of the repository: a commit meanwhile would change the manifest
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills-only", action="store_true")
    parser.add_argument("--child", type=Path)
    parser.add_argument("--url", default="")
    options = parser.parse_args()
    if options.child is not None:
        report = judged_run(options.child, options.url, options.cases)
        write_reports(report, options.child / "run")
        return 0
    fine = options.kills_only or with_faults(options.cases)
    fine = with_kills(options.cases, options.kills, options.seed) and fine
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
