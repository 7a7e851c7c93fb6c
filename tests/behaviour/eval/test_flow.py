"""Cases flow: none waits for others, and results do not depend on the order in which they end."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from ragbench import (
    AsyncRAGInterface,
    CallSettings,
    Chunk,
    EvalSettings,
    RAGInterface,
    Verdict,
    evaluate,
)
from ragbench.core.chat import Message
from ragbench.errors import InterruptedRunError, RagbenchWarning, UnreachableError
from ragbench.post.filter import LlmFilter
from ragbench.post.operator import OperatorInput, RankedChunk
from ragbench.post.stage import PostRetrieval
from ragbench.stages.flow import FIRST_CALLS
from ragbench.stages.stage import MOST_CALLS
from ragbench.validators.lexical import LexicalValidator
from ragbench.verbs.evaluate import RunRequest, run_evaluation
from ragbench.verbs.models import open_judge
from tests.behaviour.rags import Counts, NotingRAG, cases, counts, run
from tests.llm_server import FaultServer, Payload, said_by_default

PATIENCE = CallSettings(timeout=30.0)
"""A call that waits for another one fails after this, where the two never meet."""


class Echo(AsyncRAGInterface):
    """Answers at once, unless a call has to wait for another one; counts its calls in flight."""

    def __init__(self, waits: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.waits = waits or {}
        """By call, the one that has to begin before it is answered."""
        self.in_flight = 0
        self.most_in_flight = 0
        self.order: list[str] = []
        self._begun: dict[str, asyncio.Event] = {}

    async def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        await self._called(f"retrieve {query}")
        return [f"text {query}"]

    async def generate(self, query: str, contexts: list[str]) -> str:
        await self._called(f"generate {query}")
        return f"answer {query}"

    async def _called(self, call: str) -> None:
        self.order.append(call)
        self._event(call).set()
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self.answer(call)
        finally:
            self.in_flight -= 1

    async def answer(self, call: str) -> None:
        """What happens during a call."""
        if call in self.waits:
            await self._event(self.waits[call]).wait()
        await asyncio.sleep(0)

    def _event(self, call: str) -> asyncio.Event:
        return self._begun.setdefault(call, asyncio.Event())


def questions(count: int) -> list[str]:
    return [f"q{number:03}" for number in range(count)]


# --- nobody waits for others


def test_a_case_is_answered_while_another_one_is_still_retrieved(tmp_path: Path) -> None:
    rag = Echo(waits={"retrieve slow": "generate fast"})

    report = run(cases("slow", "fast"), rag, tmp_path, limits=PATIENCE)

    assert counts(report)["generate"] == Counts(measured=2)


@pytest.mark.extra("llm")
def test_a_case_is_judged_while_another_one_is_still_answered(tmp_path: Path) -> None:
    judged: list[str] = []
    has_judged = threading.Event()

    def say(payload: Payload) -> str:
        texts = json.loads(payload["messages"][-1]["content"])
        judged.append(texts["answer"])
        has_judged.set()
        return said_by_default(payload)

    class Slow(Echo):
        async def answer(self, call: str) -> None:
            if call == "generate slow":
                await asyncio.to_thread(has_judged.wait, PATIENCE.timeout)

    with (
        FaultServer(say=say) as server,
        open_judge(base_url=server.url, model="m", preflight=False, cache="off") as judging,
    ):
        report = evaluate(
            [{"query": query, "reference": "r"} for query in ("slow", "fast")],
            Slow(),
            out=tmp_path,
            metrics="correctness",
            judging=judging,
            settings=EvalSettings(limits=PATIENCE),
        )

    assert judged == ["answer fast", "answer slow"]
    assert report.summaries[0].measured == 2


def test_the_next_window_begins_while_the_last_case_of_the_one_before_is_slow(
    tmp_path: Path,
) -> None:
    queries = questions(600)  # more than a window
    slow_query = queries[0]
    last_query = queries[-1]
    rag = Echo(waits={f"generate {slow_query}": f"generate {last_query}"})

    report = run(cases(*queries), rag, tmp_path, limits=PATIENCE)

    assert counts(report)["generate"] == Counts(measured=600)


# --- how many are in flight


class Meeting(Echo):
    """Answers a call only when as many as there may be are in flight, as long as cases last."""

    def __init__(self, first: int, most: int, calls: int) -> None:
        super().__init__()
        self.first = first
        self.most = most
        self.last_meeting = calls - most
        self.answered = 0
        self.changed: asyncio.Condition | None = None

    async def answer(self, call: str) -> None:
        self.changed = self.changed or asyncio.Condition()
        async with self.changed:
            self.changed.notify_all()
            await self.changed.wait_for(self._have_met)
            self.answered += 1
            self.changed.notify_all()

    def _have_met(self) -> bool:
        expected = min(self.first + self.answered, self.most)
        return self.most_in_flight >= expected or len(self.order) > self.last_meeting


@pytest.mark.parametrize("most", [1, 2, 7])
def test_as_many_calls_are_in_flight_as_the_user_says(tmp_path: Path, most: int) -> None:
    rag = Meeting(first=most, most=most, calls=80)

    run(
        cases(*questions(40)),
        rag,
        tmp_path,
        limits=CallSettings(concurrency=most, timeout=PATIENCE.timeout),
    )

    assert rag.most_in_flight == most


def test_without_a_number_four_calls_begin_and_each_answer_lets_one_more(tmp_path: Path) -> None:
    rag = Meeting(first=FIRST_CALLS, most=MOST_CALLS, calls=120)

    report = run(cases(*questions(60)), rag, tmp_path, limits=PATIENCE)

    assert counts(report)["generate"] == Counts(measured=60)
    assert rag.most_in_flight == MOST_CALLS


def test_a_plain_system_is_called_once_at_a_time_and_stage_by_stage(tmp_path: Path) -> None:
    calls: list[str] = []

    class Plain(RAGInterface):
        def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
            calls.append(f"retrieve {query}")
            return ["text"]

        def generate(self, query: str, contexts: list[str]) -> str:
            calls.append(f"generate {query}")
            return "answer"

    run(cases("a", "b"), Plain(), tmp_path)

    assert calls == ["retrieve a", "retrieve b", "generate a", "generate b"]


class WaitingValidator:
    """Judges the first queries only when four of them are in flight, as a slow service might."""

    name = "waiting"
    identity = "1"
    bears_calls = True

    def __init__(self) -> None:
        self.meeting = threading.Barrier(FIRST_CALLS)

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        if query in questions(FIRST_CALLS):
            self.meeting.wait(PATIENCE.timeout)
        return LexicalValidator().validate(query, chunks)


def test_a_validator_that_waits_has_calls_of_its_own_in_flight(tmp_path: Path) -> None:
    report = run(cases(*questions(20)), NotingRAG(), tmp_path, validator=WaitingValidator())

    assert counts(report)["validate"] == Counts(measured=20)


class WaitingChat:
    """A model that keeps the first passage; the first questions wait for one another."""

    name = "waiting"
    bears_calls = True

    def __init__(self) -> None:
        self.meeting = threading.Barrier(FIRST_CALLS)

    def complete(self, messages: Sequence[Message]) -> str:
        prompt = messages[-1].content
        if any(query in prompt for query in questions(FIRST_CALLS)):
            self.meeting.wait(PATIENCE.timeout)
        return '{"keep": [1]}'


def test_an_operator_that_waits_for_a_model_has_calls_of_its_own_in_flight(tmp_path: Path) -> None:
    operators = PostRetrieval(operators=(LlmFilter(chat=WaitingChat()),), on_error="raise")

    report = run(cases(*questions(20)), NotingRAG(), tmp_path, post_retrieval=operators)

    assert counts(report)["post_retrieve"] == Counts(measured=20)


def test_operators_of_the_users_are_applied_to_one_question_at_a_time() -> None:
    class Own:
        name = "own"

        def apply(self, context: OperatorInput) -> Sequence[RankedChunk]:
            return context.chunks

    chat = LlmFilter(chat=WaitingChat())

    assert PostRetrieval(operators=(chat,)).bears_calls
    assert not PostRetrieval(operators=(chat, Own())).bears_calls


def test_a_plain_system_beside_a_validator_that_waits_stays_in_its_thread(tmp_path: Path) -> None:
    threads: set[int] = set()

    class Plain(RAGInterface):
        def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
            threads.add(threading.get_ident())
            return ["text"]

        def generate(self, query: str, contexts: list[str]) -> str:
            threads.add(threading.get_ident())
            return "answer"

    run(cases(*questions(20)), Plain(), tmp_path, validator=WaitingValidator())

    assert threads == {threading.get_ident()}


def test_a_batch_leaves_cases_for_the_other_calls(tmp_path: Path) -> None:
    sizes: list[int] = []

    class Batched(AsyncRAGInterface):
        async def batch_retrieve(
            self, queries: list[str], top_k: int | None = None
        ) -> list[list[str]]:
            sizes.append(len(queries))
            return [["text"] for _ in queries]

        async def batch_generate(
            self, queries: list[str], contexts_list: list[list[str]]
        ) -> list[str]:
            return ["answer" for _ in queries]

    run(cases(*questions(64)), Batched(), tmp_path, limits=CallSettings(concurrency=16))

    assert max(sizes) == 4  # 64 cases for 16 calls
    assert sum(sizes) == 64


# --- what a system does not bear


class TooManyError(Exception):
    """As clients of services raise it."""

    status_code = 429
    headers: Mapping[str, str] = {"Retry-After": "0"}


class Refusing(Echo):
    """Refuses the first call of each third question."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    async def answer(self, call: str) -> None:
        self.calls[call] += 1
        stage, _, query = call.partition(" ")
        is_third_question = int(query.removeprefix("q")) % 3 == 0
        if stage == "generate" and is_third_question and self.calls[call] == 1:
            raise TooManyError


def test_a_refused_case_is_asked_again_and_has_not_failed(tmp_path: Path) -> None:
    rag = Refusing()

    with pytest.warns(RagbenchWarning, match="the system refuses or loses calls"):
        report = run(cases(*questions(30)), rag, tmp_path)

    assert counts(report)["generate"] == Counts(measured=30)
    assert rag.calls["generate q003"] == 2
    assert rag.calls["generate q004"] == 1


def test_a_case_that_is_refused_each_time_fails_in_the_end(tmp_path: Path) -> None:
    class Refused(Echo):
        async def answer(self, call: str) -> None:
            if call == "generate q001":
                raise TooManyError

    rag = Refused()
    report = run(cases(*questions(3)), rag, tmp_path)

    assert counts(report)["generate"] == Counts(measured=2, failed=1)
    assert rag.order.count("generate q001") == 7


def test_a_system_that_asks_to_wait_for_hours_fails_the_case_if_asked_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragbench.stages.flow._LONGEST_WAIT", 0.01)

    class NoneLeftError(TooManyError):
        headers: Mapping[str, str] = {"Retry-After": "3600"}

    class Refused(Echo):
        async def answer(self, call: str) -> None:
            if call == "generate q001":
                raise NoneLeftError

    rag = Refused()
    with pytest.warns(RagbenchWarning, match="the system refuses or loses calls"):
        report = run(cases(*questions(3)), rag, tmp_path)

    assert counts(report)["generate"] == Counts(measured=2, failed=1)
    # With 4 in flight and more, with half as many, ... alone, and once more for its reason.
    assert rag.order.count("generate q001") in (4, 5)


def test_a_stop_is_seen_while_a_refused_case_waits(tmp_path: Path) -> None:
    class LaterError(TooManyError):
        headers: Mapping[str, str] = {"Retry-After": "50"}

    class Refused(Echo):
        async def answer(self, call: str) -> None:
            raise LaterError

    rag = Refused()
    began = time.monotonic()
    looks_after_the_call = iter([False] * 5)  # the refusal is settled, and the case waits

    def stopped() -> bool:
        return bool(rag.order) and next(looks_after_the_call, True)

    request = RunRequest(out=tmp_path, rag=rag, stopped=stopped)
    with (
        pytest.warns(RagbenchWarning, match="the system refuses or loses calls"),
        pytest.raises(InterruptedRunError),
    ):
        run_evaluation(cases("q"), request)

    assert time.monotonic() - began < 20
    assert rag.order == ["retrieve q"]


def test_a_limit_that_goes_up_and_down_is_told_once(tmp_path: Path) -> None:
    class Bounded(Echo):
        async def answer(self, call: str) -> None:
            await asyncio.sleep(0.001)
            if self.in_flight > 3:
                raise TooManyError

    with pytest.warns(RagbenchWarning) as warnings:
        run(cases(*questions(200)), Bounded(), tmp_path)

    assert 1 <= len(warnings) <= 3  # of 4, at most: 2, 1


def test_a_number_of_the_users_own_is_kept_and_a_refusal_is_a_failure(tmp_path: Path) -> None:
    report = run(cases(*questions(30)), Refusing(), tmp_path, limits=CallSettings(concurrency=4))

    assert counts(report)["generate"] == Counts(measured=20, failed=10)


def test_what_can_never_be_reached_ends_the_run(tmp_path: Path) -> None:
    class Gone(Echo):
        async def answer(self, call: str) -> None:
            raise UnreachableError("nobody is there")

    rag = Gone()
    with pytest.raises(UnreachableError):
        run(cases(*questions(100)), rag, tmp_path)

    assert len(rag.order) == FIRST_CALLS


# --- the order in which cases end


def stopped_after(calls: int, rag: Echo) -> Callable[[], bool]:
    return lambda: len(rag.order) >= calls


def test_results_do_not_depend_on_the_order_in_which_cases_end(tmp_path: Path) -> None:
    class Uneven(Echo):
        async def answer(self, call: str) -> None:
            for _ in range(hash_of(call) % 50):
                await asyncio.sleep(0)

    def hash_of(text: str) -> int:
        total = 0
        for place, character in enumerate(text, start=1):
            total += ord(character) * place
        return total

    data = cases(*questions(60))
    in_turn = run(data, Uneven(), tmp_path / "in turn", limits=CallSettings(concurrency=1))
    at_once = run(data, Uneven(), tmp_path / "at once", limits=CallSettings(concurrency=16))

    for row, row_in_turn in zip(at_once.rows(), in_turn.rows(), strict=True):
        assert row.id == row_in_turn.id
        assert row.cells == row_in_turn.cells
    assert at_once.summaries == in_turn.summaries
    assert at_once.causes == in_turn.causes


def test_a_stopped_run_stores_what_was_in_flight_and_goes_on(tmp_path: Path) -> None:
    data = cases(*questions(50))
    stopped_rag = Echo()
    request = RunRequest(
        out=tmp_path / "run", rag=stopped_rag, stopped=stopped_after(60, stopped_rag), version="1"
    )
    with pytest.raises(InterruptedRunError):
        run_evaluation(data, request)
    calls_before = set(stopped_rag.order)

    continuing_rag = Echo()
    request = RunRequest(out=tmp_path / "run", rag=continuing_rag, version="1")
    report = run_evaluation(data, request)

    assert counts(report)["generate"] == Counts(measured=50)
    assert not calls_before & set(continuing_rag.order)


def test_a_call_that_changes_the_directory_changes_no_path_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)

    class Moving(Echo):
        async def answer(self, call: str) -> None:
            os.chdir(elsewhere)
            await super().answer(call)

    with pytest.warns(RagbenchWarning, match="changed the working directory"):
        report = run(cases(*questions(40)), Moving(), Path("run"))

    assert counts(report)["generate"] == Counts(measured=40)
    assert (tmp_path / "run" / "manifest.json").is_file()
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize(("number", "recorded"), [(None, "auto"), (1, "1"), (4, "4")])
def test_times_are_recorded_with_the_calls_in_flight(
    tmp_path: Path, number: int | None, recorded: str
) -> None:
    report = run(cases("a"), Echo(), tmp_path, limits=CallSettings(concurrency=number))

    assert {latency.concurrency for latency in report.latencies} == {recorded}
