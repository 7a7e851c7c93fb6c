"""Every provider at ragbench's defaults, against servers that behave as its documentation says.

    python benchmarks/judge_providers.py

One row per provider of `tests.provider_mocks`: structured answers out of 8 and the requests that
they took, whether tokens equal the server's own books, what becomes of a limit per minute, of a
lack of money, of prompts of half the context and of one that is longer than it, and which
parameters were left out. With --signals: seconds from a SIGTERM to the end of a command, by what it
waits for.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "cli")]

from ragbench.errors import LLMError, LLMPromptCutError, LLMRequestError  # noqa: E402
from ragbench.llm.client import LLMClient  # noqa: E402
from tests.llm_server import FaultServer  # noqa: E402
from tests.provider_mocks import PROVIDERS, Provider  # noqa: E402
from tests.unit.llm.builders import VERDICT, prompt  # noqa: E402
from tests.unit.llm.test_providers import CountingClock, long_prompt, using  # noqa: E402

CALLS = 8


async def verdicts(client: LLMClient) -> int:
    calls = (client.ask(prompt(f"Good? {n}"), schema=VERDICT) for n in range(CALLS))
    done = await asyncio.gather(*calls, return_exceptions=True)
    return sum(not isinstance(one, BaseException) for one in done)


def defaults(kind: Provider) -> tuple[str, str, str]:
    """Answers and requests; whether the books agree; what was left out."""
    with kind() as server:

        async def work(client: LLMClient) -> tuple[int, Any, list[str]]:
            answered = await verdicts(client)
            [line] = client.receipt().lines
            return answered, line, list(client.dialect.learned.not_sent)

        answered, line, left_out = using(server, work)
        told: list[Any] = [seen.usage for seen in server.answered if seen.usage]
        names = ("prompt_tokens", "cache_read_input_tokens")
        prompts = sum(usage.get(name, 0) for usage in told for name in names)
        said = sum(usage["total_tokens"] for usage in told) - prompts
        theirs = (len(server.seen), prompts, said)
        ours = (line.requests, line.prompt_tokens, line.completion_tokens)
    books = f"{ours[0]}/{ours[1]}/{ours[2]}"
    books += " equal" if ours == theirs else f" DIFFER {theirs}"
    return f"{answered} of {CALLS}", books, ", ".join(left_out) or "-"


def ended(kind: Provider, work: Callable[[LLMClient], Awaitable[Any]], **more: Any) -> str:
    """What becomes of some work, in a word, with the requests that it took."""
    clock = CountingClock()
    with kind(**more) as server:
        try:
            done = using(server, work, clock=clock)
        except LLMError as error:
            done = type(error).__name__
        return f"{done}, {len(server.seen)} requests, {clock.waited:.0f} s waited"


def too_long(kind: Provider) -> str:
    """What becomes of a prompt of twice the context."""
    long_question = long_prompt(max(2 * kind.context, 12_000))
    with kind() as server:
        try:
            using(server, lambda client: client.ask(long_question))
        except LLMPromptCutError:
            return "cut and failed"
        except LLMRequestError:
            return "refused"
    return "BELIEVED"


def half(kind: Provider) -> str:
    """Answers to prompts of half the context, beside short ones, and the requests they took."""
    long = long_prompt(int(min(kind.context, 5_000) * 0.4))
    with kind() as server:

        async def work(client: LLMClient) -> int:
            asks = [client.ask([*long, *prompt(f"Good? {n}")], schema=VERDICT) for n in range(4)]
            done = await asyncio.gather(verdicts(client), *asks, return_exceptions=True)
            return sum(not isinstance(one, BaseException) for one in done[1:])

        return f"{using(server, work)} of 4, {len(server.seen)} requests"


_CASE = {"question": "A?", "answer": "B.", "contexts": ["B."], "ground_truth": "B."}


def signals() -> None:
    waits = {"a request": {"hang": 1.0}, "a rate limit": {"429": 1.0}, "a repetition": {"500": 1.0}}
    for name, faults in waits.items():
        for more in ([], ["--no-preflight"]):
            with (
                FaultServer(faults=faults, retry_after="500") as server,
                TemporaryDirectory() as at,
            ):
                (Path(at) / "c.jsonl").write_text(json.dumps(_CASE), "utf-8")
                model = ["--llm-model", "m", "--llm-base-url", server.url, *more]
                command = [sys.executable, "-m", "ragbench_cli", "eval", "c.jsonl", "-m", "support"]
                run = subprocess.Popen([*command, *model], cwd=at, stderr=subprocess.PIPE)
                while not server.calls:
                    time.sleep(0.01)
                time.sleep(1.0)
                run.send_signal(signal.SIGTERM)
                started = time.monotonic()
                code = run.wait()
                print(f"{name} {' '.join(more)}: {time.monotonic() - started:.2f} s, exit {code}")


def main() -> None:
    if "--signals" in sys.argv:
        signals()
        return
    heads = ("provider", "defaults", "requests/in/out", "left out", "limit per minute", "no money")
    print(" | ".join((*heads, "half the context", "prompt too long")))
    for kind in PROVIDERS.values():
        answered, books, left_out = defaults(kind)
        limited = ended(kind, verdicts, limited=4)
        money = ended(kind, lambda client: client.ask(prompt("A word?")), is_out_of_money=True)
        paid = "-" if kind.is_local else money
        row = (kind.name, answered, books, left_out, limited, paid, half(kind), too_long(kind))
        print(" | ".join(row), flush=True)


if __name__ == "__main__":
    main()
