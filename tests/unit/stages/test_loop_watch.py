"""A coroutine that blocks its event loop is told of, with its place; a time limit ends the run."""

from __future__ import annotations

import asyncio
import bdb
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

from ragbench import AsyncRAGInterface, CallSettings
from ragbench.core.calling import LoopThread
from ragbench.errors import RagbenchWarning, RunError
from ragbench.stages import loop_watch
from ragbench.stages.loop_watch import LoopWatch
from tests.behaviour.rags import cases, run

PATIENCE = 20.0
"""Seconds after which a test gives up."""


@pytest.fixture
def loop() -> Generator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.stop()


@pytest.fixture
def release() -> Generator[threading.Event]:
    """Set at the end of a test: whatever blocks a loop goes on."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(autouse=True)
def _told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "_SILENCE", 0.02)
    monkeypatch.setattr(loop_watch, "_LOOKS", 2)
    monkeypatch.setattr(loop_watch, "_LONG", 0.0)
    monkeypatch.setattr(loop_watch, "_GRACE", 0.0)


async def blocking(release: threading.Event) -> None:
    release.wait(PATIENCE)


def looked_at_until(watch: LoopWatch, seconds: float, limit: float | None = None) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        watch.look(limit)
        time.sleep(0.005)


def test_what_blocks_the_loop_is_named_with_its_place(
    loop: LoopThread, release: threading.Event
) -> None:
    loop.begin(blocking(release))

    with pytest.warns(RagbenchWarning, match=r"^blocking \(test_loop_watch\.py, line \d+\) blocks"):
        looked_at_until(LoopWatch(loop), 0.3)


def test_it_is_told_once(loop: LoopThread, release: threading.Event) -> None:
    loop.begin(blocking(release))

    with pytest.warns(RagbenchWarning) as warned:
        looked_at_until(LoopWatch(loop), 0.3)

    assert len(warned) == 1


def test_nothing_is_told_of_a_loop_that_waits(loop: LoopThread) -> None:
    loop.begin(asyncio.sleep(PATIENCE))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        looked_at_until(LoopWatch(loop), 0.3)


def test_a_call_that_blocks_beyond_its_time_limit_is_an_error(
    loop: LoopThread, release: threading.Event
) -> None:
    loop.begin(blocking(release))

    with pytest.raises(RunError, match=r"no answer within 0\.1 s: blocking \(.* blocks the event"):
        looked_at_until(LoopWatch(loop), PATIENCE, limit=0.1)


def test_calls_that_block_one_after_the_other_have_a_time_limit_each(loop: LoopThread) -> None:
    async def short() -> None:
        time.sleep(0.1)  # a real one: the loop is measured by the clock

    for _ in range(6):
        loop.begin(short())

    with pytest.warns(RagbenchWarning, match=r"^short \("):
        looked_at_until(LoopWatch(loop), 0.6, limit=0.5)


def short_step() -> Callable[[], Coroutine[Any, Any, None]]:
    """Makes coroutines that block their loop for a moment."""

    async def step() -> None:
        time.sleep(0.1)  # a real one: the loop is measured by the clock

    return step


def test_one_step_that_blocks_for_a_while_is_no_fault(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watch, "_LONG", PATIENCE)
    loop.begin(short_step()())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        looked_at_until(LoopWatch(loop), 0.3)


def test_a_step_that_blocks_again_is_told(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watch, "_LONG", PATIENCE)
    step = short_step()
    loop.begin(step())
    loop.begin(step())

    with pytest.warns(RagbenchWarning, match=r"^step \("):
        looked_at_until(LoopWatch(loop), 0.3)


def test_steps_that_are_far_apart_are_no_fault(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watch, "_LONG", PATIENCE)
    monkeypatch.setattr(loop_watch, "_QUIET", 0.2)
    watch = LoopWatch(loop)
    step = short_step()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop.begin(step())
        looked_at_until(watch, 0.5)
        loop.begin(step())
        looked_at_until(watch, 0.2)


def test_time_in_which_the_whole_process_stood_still_does_not_count(
    loop: LoopThread, release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watch, "_LOOKS", 100)
    monkeypatch.setattr(loop_watch, "_LONGEST_LOOK", 0.01)
    loop.begin(blocking(release))
    watch = LoopWatch(loop)

    looked_at_until(watch, 0.1)
    time.sleep(0.5)  # nobody looks
    watch.look(limit=0.4)


def test_a_loop_in_a_debugger_is_not_blocked(loop: LoopThread, release: threading.Event) -> None:
    async def debugged() -> None:
        debugger = bdb.Bdb()
        debugger.runcall(release.wait, PATIENCE)

    loop.begin(debugged())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        looked_at_until(LoopWatch(loop), 0.3, limit=0.1)


def blocking_rag(release: threading.Event) -> AsyncRAGInterface:
    class Blocking(AsyncRAGInterface):
        async def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
            return ["text"]

        async def generate(self, query: str, contexts: list[str]) -> str:
            if query == "b":
                release.wait(PATIENCE)
            return "answer"

    return Blocking()


@pytest.mark.filterwarnings("ignore::ragbench.errors.RagbenchWarning")
def test_a_run_whose_system_blocks_ends_by_its_time_limit(
    tmp_path: Path, release: threading.Event
) -> None:
    rag = blocking_rag(release)

    with pytest.raises(RunError, match=r"generate \(test_loop_watch\.py, line \d+\) blocks"):
        run(cases("a", "b"), rag, tmp_path, limits=CallSettings(timeout=0.2))
