"""What receipts say of commands that were killed, beside the server's own books.

    python benchmarks/judge_books.py [--cases 200] [--kills 4]

`ragbench eval` judges cases with `support` against a server that takes 20 ms, is killed (SIGKILL)
at seeded moments and started again until it is through. Printed: requests, prompt tokens and
questions answered twice as the server counted them, and as the receipts of all commands add up.
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
from pathlib import Path

ROOT = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "cli")]

from tests.llm_server import FaultServer  # noqa: E402

ROW = {"response": "There are 27 days.", "retrieved_contexts": ["There are 27 days of leave."]}
PRICES = {"RAGBENCH_LLM_PRICE_INPUT": "1", "RAGBENCH_LLM_PRICE_OUTPUT": "2"}


def command(folder: Path, url: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "cli")])
    line = [sys.executable, "-m", "ragbench_cli", "eval", "cases.jsonl", "--out", "run", "-q"]
    line += ["-m", "support", "--llm-model", "m", "--llm-base-url", url]
    known = os.environ | PRICES | {"PYTHONPATH": path, "RAGBENCH_LLM_CACHE": "kept.sqlite"}
    return subprocess.Popen(line, cwd=folder, env=known, stdout=subprocess.DEVNULL)


def killed(folder: Path, server: FaultServer, kills: int, draw: random.Random, cases: int) -> int:
    """Runs and kills; gives how often it was killed before it was through."""
    for count in range(kills):
        process = command(folder, server.url)
        enough = len(server.good) + draw.randrange(5, max(6, cases // kills))
        while len(server.good) < enough and process.poll() is None:
            time.sleep(0.001)
        if process.poll() is not None:
            return count
        process.send_signal(signal.SIGKILL)
        process.wait()
    if command(folder, server.url).wait():
        raise SystemExit("the last command failed")
    return kills


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp, FaultServer(latency=0.02) as server:
        rows = [{"id": f"q{n}", "query": f"Days {n}?", **ROW} for n in range(options.cases)]
        Path(tmp, "cases.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        draw = random.Random(options.seed)
        count = killed(Path(tmp), server, options.kills, draw, options.cases)
        text = Path(tmp, "run", "receipts.jsonl").read_text("utf-8")
    receipts = [json.loads(line) for line in text.splitlines()]
    lines = [line for receipt in receipts for line in receipt["lines"]]
    asked = [json.dumps(call.payload, sort_keys=True) for call in server.calls]
    used = sum(len(m["content"]) // 4 + 4 for c in server.calls for m in c.payload["messages"])
    flying = sum(receipt.get("in_flight", 0) for receipt in receipts)
    again = sum(receipt.get("asked_again", {}).get("requests", 0) for receipt in receipts)
    booked = sum(line["requests"] for line in lines)
    confirmed = sum(line["prompt_tokens"] for line in lines)
    unconfirmed = sum(float(line["unconfirmed"]) for line in lines)
    print(f"{options.cases} cases, {count} kills: {[receipt['ended'] for receipt in receipts]}")
    print(f"requests       server {len(asked):,}   booked {booked:,}   in flight {flying}")
    print(f"prompt tokens  server {used:,}   confirmed {confirmed:,}")
    print(f"asked twice    server {len(asked) - len(set(asked))}   in the books {again}")
    print(f"at most billed besides, for answers that never came: {unconfirmed:.4f} USD")


if __name__ == "__main__":
    main()
