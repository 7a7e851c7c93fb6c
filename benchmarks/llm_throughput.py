"""Calls a second of the client against a server that takes 50 ms, beside the bare openai client.

The server runs in a process of its own. ``in flight`` is the most requests that it saw at once;
``floor`` is what calls of that latency must take at that concurrency.

Run: ``python benchmarks/llm_throughput.py [--calls 500] [--concurrency 32] [--latency 0.05]``
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "cli")]

from ragbench.core.chat import Message  # noqa: E402
from ragbench.llm.cache import ResponseCache  # noqa: E402
from ragbench.llm.client import LLMClient  # noqa: E402
from ragbench.llm.endpoint import Endpoint  # noqa: E402
from ragbench.llm.transport import CallLimits  # noqa: E402
from tests.llm_server import FaultServer  # noqa: E402


def serve(latency: float, pipe: Connection) -> None:
    """The server's process: tells its address, then its peak whenever it is asked."""
    with FaultServer(latency=latency) as server:
        pipe.send(server.url)
        while pipe.recv():
            pipe.send((server.peak, len(server.calls)))
            server.peak = 0
            server.calls.clear()


async def bare(url: str, calls: int, concurrency: int, tag: str) -> None:
    """What a loop over the package costs: a semaphore, no retries, no checks."""
    from openai import AsyncOpenAI

    slots = asyncio.Semaphore(concurrency)
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def one(number: int) -> None:
            async with slots:
                answer = await client.chat.completions.create(
                    model="m",
                    temperature=0,
                    max_tokens=4096,
                    messages=[{"role": "user", "content": f"{tag} {number}"}],
                )
            assert answer.choices[0].message.content

        await asyncio.gather(*(one(number) for number in range(calls)))


async def ours(
    url: str, calls: int, concurrency: int, tag: str, cache: ResponseCache | None = None
) -> None:
    """The same through the client."""
    limits = CallLimits(concurrency=concurrency)
    async with LLMClient(Endpoint(base_url=url, model="m"), limits=limits, cache=cache) as client:

        async def one(number: int) -> None:
            reply = await client.ask([Message(role="user", content=f"{tag} {number}")])
            assert reply.text

        await asyncio.gather(*(one(number) for number in range(calls)))


def measure(name: str, work: Callable[[], Awaitable[None]], pipe: Connection, calls: int) -> float:
    """Runs something and prints a line; gives its wall time."""
    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(_awaited(work))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    pipe.send(True)
    peak, seen = pipe.recv()
    print(f"{name:<22}{wall:>8.2f} s{cpu / calls * 1e3:>9.2f} ms{peak:>10}{seen:>10}")
    return wall


async def _awaited(work: Callable[[], Awaitable[Any]]) -> None:
    await work()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--latency", type=float, default=0.05)
    options = parser.parse_args()
    calls, concurrency, latency = options.calls, options.concurrency, options.latency
    pipe, other = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(latency, other), daemon=True)
    server.start()
    url = pipe.recv()
    asyncio.run(bare(url, 10, concurrency, "warm"))  # imports
    asyncio.run(ours(url, 10, concurrency, "warm"))
    pipe.send(True)
    pipe.recv()
    print(f"{calls} calls, floor {calls * latency / concurrency:.2f} s")
    print(f"{'':<22}{'wall':>10}{'CPU a call':>12}{'in flight':>10}{'requests':>10}")
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "cache.sqlite"
    with folder, ResponseCache(path) as cache:
        first = measure("bare openai", lambda: bare(url, calls, concurrency, "a"), pipe, calls)
        second = measure("ragbench", lambda: ours(url, calls, concurrency, "b"), pipe, calls)
        third = measure(
            "ragbench, storing", lambda: ours(url, calls, concurrency, "c", cache), pipe, calls
        )
        fourth = measure(
            "ragbench, stored", lambda: ours(url, calls, concurrency, "c", cache), pipe, calls
        )
    print(f"wall beside bare: {second / first:.2f}, {third / first:.2f}, {fourth / first:.3f}")
    pipe.send(False)
    server.join()


if __name__ == "__main__":
    main()
