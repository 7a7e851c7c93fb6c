"""What holds for calls wherever they are made: in threads, in processes, on a cluster.

All that needs Ray stands in this file, so that one process starts it once.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from ragbench import Document, IndexResult, index, open_embedder, open_store
from ragbench.errors import ConfigError, MissingExtraError, RagbenchWarning, RunError
from ragbench.io.dumps.pieces import SplitDump
from ragbench.stages import far_dump
from ragbench.workers import engines
from ragbench.workers import pool as pool_module
from ragbench.workers.engines import Engine, check_engine, opened_engine
from ragbench.workers.pool import WorkerPool
from ragbench_cli.main import main
from tests.cli.runs import lines

# A cluster takes seconds to start: by default only one command runs on it.
RAY = [pytest.mark.extra("ray"), pytest.mark.nightly]
ENGINES = ("processes", pytest.param("ray", marks=RAY))
SOON = 60.0
"""Seconds for something that happens at once on an idle machine."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A Ray with two processors; its address."""
    ray: Any = import_module("ray")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Ray puts a handler of its own in the place of pytest's.
        handler = signal.getsignal(signal.SIGTERM)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        started: Any = None
        reason = ""
        for _ in range(2):  # on a busy machine a node may not register within Ray's 30 s
            try:
                started = ray.init(
                    "local", num_cpus=2, include_dashboard=False, logging_level="ERROR"
                )
                break
            except Exception as error:  # noqa: BLE001  # Ray raises a plain one
                reason = str(error)
            gc.collect()  # what a failed start has left warns here, and in no other test
        signal.signal(signal.SIGTERM, handler)
        if started is None:
            pytest.skip(f"Ray cannot be started here: {reason}")
        yield started["gcs_address"]
        ray.shutdown()


@pytest.fixture(params=ENGINES)
def name(request: pytest.FixtureRequest) -> str:
    """An engine whose workers are processes of their own."""
    if request.param == "ray":
        request.getfixturevalue("cluster")
    return str(request.param)


@pytest.fixture
def apart(name: str) -> Iterator[Engine]:
    """With two workers; of Ray one, for its take a second each."""
    with opened_engine(name, workers=1 if name == "ray" else 2) as engine:
        yield engine


@pytest.fixture(params=["local", *ENGINES])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "ray":
        request.getfixturevalue("cluster")
    with opened_engine(request.param, workers=2) as engine:
        yield engine


# --- what the workers call


def squares() -> Callable[[int], tuple[int, int]]:
    return lambda number: (number * number, os.getpid())


def dying(fatal: int) -> Callable[[int], int]:
    def call(number: int) -> int:
        if number == fatal:
            os._exit(7)
        return number

    return call


def dying_once(number: int, folder: Path) -> Callable[[int], int]:
    """Takes its worker down the first time that it gets a number.

    Each number has a file in the folder, with a dot for each time that it came.
    """

    def call(item: int) -> int:
        dots = folder / str(item)
        with dots.open("a") as file:
            file.write(".")
        if item == number and dots.stat().st_size == 1:
            os._exit(7)
        return item

    return call


def dividing() -> Callable[[int], float]:
    return lambda number: 1 / (3 - number)


def refusing() -> Callable[[int], int]:
    raise MissingExtraError("onnxruntime", "onnx")


def waiting_for(path: Path) -> Callable[[int], int]:
    def call(number: int) -> int:
        while not path.exists():
            time.sleep(0.01)
        return number

    return call


Make = Callable[[], Callable[[Any], Any]]


def two_processes() -> Engine:
    with engines.opened_engine("processes", workers=2) as engine:
        return engine


def one_by_one(make: Make) -> Callable[[Sequence[Any]], list[Any]]:
    call = make()
    return lambda items: [call(item) for item in items]


def pool_of(make: Make, engine: Engine, **settings: Any) -> WorkerPool[Any, Any]:
    return WorkerPool(partial(one_by_one, make), engine, **settings)


def mapped(make: Make, items: Sequence[Any], engine: Engine, **settings: Any) -> list[Any]:
    with pool_of(make, engine, **settings) as pool:
        return list(pool.map(items))


# --- the contract


def test_results_come_in_order_from_at_most_two_processes(engine: Engine) -> None:
    results = mapped(squares, range(400), engine, batch=8)

    squared = [square for square, _ in results]
    assert squared == [number * number for number in range(400)]
    processes = {process for _, process in results}
    assert len(processes) <= 2
    # Threads take items one by one, and work in this process.
    is_of_threads = engine.batch == 1
    assert (os.getpid() in processes) == is_of_threads


def test_few_items_are_read_ahead(engine: Engine) -> None:
    read = 0

    def count_reads() -> Iterator[int]:
        nonlocal read
        for number in range(10_000):
            read += 1
            yield number

    with pool_of(squares, engine, batch=5) as pool:
        results = pool.map(count_reads())
        for _ in range(10):
            next(results)

        assert read < 100


def test_an_error_comes_in_its_place(engine: Engine) -> None:
    results: list[float] = []

    # 1 / (3 - number) for the numbers 0, 1, 2, and 3.
    with pytest.raises(ZeroDivisionError), pool_of(dividing, engine, batch=1) as pool:
        results.extend(pool.map(range(40)))

    assert results == [1 / 3, 1 / 2, 1 / 1]


def test_what_cannot_be_made_is_the_error_that_says_so(engine: Engine) -> None:
    with pytest.raises(MissingExtraError, match="this needs the extra 'onnx'"):
        mapped(refusing, range(40), engine)


def test_once_stopped_what_is_in_flight_is_finished(engine: Engine) -> None:
    results: list[int] = []

    with pool_of(squares, engine, batch=4, stopped=lambda: len(results) >= 10) as pool:
        for square, _ in pool.map(range(1000)):
            results.append(square)

    assert 10 <= len(results) < 100
    assert results == [number * number for number in range(len(results))]


def test_what_nobody_has_begun_is_dropped(engine: Engine, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    with pool_of(partial(waiting_for, gate), engine, batch=16) as pool:
        batches = [pool.begin([number] * 16) for number in range(20)]
        # The workers wait at the gate with the first batches.
        assert pool.drop(batches[-1])
        gate.touch()
        assert [*pool.take(batches[0])] == [0] * 16


def test_an_empty_batch_is_dropped(engine: Engine) -> None:
    with pool_of(squares, engine, batch=16) as pool:
        assert pool.drop(pool.begin([]))


def test_of_a_lost_worker_only_the_batches_in_flight_are_given_again(
    apart: Engine, tmp_path: Path
) -> None:
    results = mapped(partial(dying_once, 100, tmp_path), range(200), apart, batch=4)

    assert results == list(range(200))
    given_twice: list[int] = []
    for dots in tmp_path.iterdir():
        if dots.stat().st_size > 1:
            given_twice.append(int(dots.name))
    assert 100 in given_twice
    # A worker has two batches of 4 at a time.
    assert len(given_twice) <= 4 * 2


def test_an_item_that_takes_every_worker_down_costs_one_item(apart: Engine) -> None:
    dying_at_50 = partial(dying, 50)

    results = mapped(dying_at_50, range(100), apart, batch=8, lost=lambda number: -number)

    assert results == [*range(50), -50, *range(51, 100)]


def test_workers_that_end_are_one_clear_error(apart: Engine) -> None:
    dying_at_50 = partial(dying, 50)

    with pytest.raises(RunError, match="a worker process ended without a result"):
        mapped(dying_at_50, range(100), apart, batch=8)


def test_a_worker_that_dies_while_all_is_stopped_is_no_error(apart: Engine) -> None:
    # Batches are begun; then a signal ends this process and its workers.
    answers = iter([False, False, False, False])

    def stopped() -> bool:
        return next(answers, True)

    results = mapped(partial(dying, 3), range(200), apart, batch=8, stopped=stopped)

    assert results == []


def test_a_worker_that_is_replaced_is_said(tmp_path: Path) -> None:
    with pytest.warns(RagbenchWarning, match="a worker ended and is replaced; what it had in hand"):
        mapped(partial(dying_once, 3, tmp_path), range(40), two_processes(), batch=4)


# --- of one engine


Nodes = list[tuple[bool, float]]
"""Of each node: whether it lives, and how many processors it has."""


class Cluster:
    """Stands in for Ray: each look at its nodes gives the next answer, or raises it."""

    def __init__(self, *answers: Nodes | Exception) -> None:
        self.answers = iter(answers)

    def nodes(self) -> list[dict[str, Any]]:
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        nodes: list[dict[str, Any]] = []
        for alive, processors in answer:
            nodes.append({"Alive": alive, "Resources": {"CPU": processors}})
        return nodes


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param([(False, 4.0)], id="its node is dead"),
        pytest.param([], id="it has no node"),
        pytest.param(RuntimeError("the head has ended"), id="it does not answer"),
    ],
)
def test_a_cluster_that_has_ended_ends_the_run(
    answer: Nodes | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself waits for ever."""
    monkeypatch.setattr(pool_module, "_QUIET", 0.01)
    one_node: Nodes = [(True, 4.0)]
    check = engines._ClusterCheck(Cluster(one_node, answer))

    def start_worker_without_results(_: object) -> engines.Worker:
        return engines.Worker(call=lambda _: Future(), close=lambda: None)

    silent = Engine(start=start_worker_without_results, check=check)

    with pytest.raises(RunError, match=r"nodes have ended, .* the same command continues"):
        mapped(squares, range(40), silent, batch=4)


def test_a_cluster_may_wait_for_a_node_of_its_autoscaler(monkeypatch: pytest.MonkeyPatch) -> None:
    idle: Nodes = [(True, 0.0)]
    busy: Nodes = [(True, 0.0), (True, 8.0), (False, 8.0)]
    # Idle for 599 s, busy at 800 s, and idle again until 601 s later.
    clock = iter([100.0, 100.0, 699.0, 800.0, 800.0, 1401.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    check = engines._ClusterCheck(Cluster(idle, idle, busy, idle, idle))
    for _ in range(4):
        check()

    with pytest.raises(RunError, match="had a processor for 10 minutes"):
        check()


TWO_PROCESSES = two_processes()


@pytest.mark.parametrize(
    ("count", "engine"),
    [
        pytest.param(10, TWO_PROCESSES, id="ten items"),
        pytest.param(0, TWO_PROCESSES, id="no items"),
        pytest.param(200, engines.engine_here(), id="one worker"),
    ],
)
def test_few_items_or_one_worker_stay_in_this_process(count: int, engine: Engine) -> None:
    results = mapped(squares, range(count), engine, batch=8)

    here = os.getpid()
    assert results == [(number * number, here) for number in range(count)]


@pytest.mark.parametrize("text", ["cluster", "ray://", "processes://2", ""])
def test_an_unknown_engine_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected local, processes, ray or ray://HOST:PORT"):
        check_engine(text)


# --- the command on a cluster


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder is empty, and the test's own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def dump(in_folder: None) -> str:
    """What a retriever returned for 600 queries, in the current folder."""
    rows: list[dict[str, Any]] = []
    for number in range(600):
        text = f"The tower {number} has {number + 7} rooms. It is old."
        row = {
            "query_id": f"q{number}",
            "query": f"How many rooms has tower {number}?",
            "chunks": [{"id": "a", "text": text}],
        }
        rows.append(row)
    return lines("dump.jsonl", rows)


def validate(dump: str, out: str, *options: str) -> int:
    """The exit code of a command that writes verdicts to a file."""
    return main(["validate", dump, "-o", out, "-q", "--validator", "lexical", *options])


@pytest.mark.extra("ray")
def test_a_command_on_a_cluster_gives_the_same_bytes(cluster: str, dump: str) -> None:
    assert validate(dump, "ray.jsonl", "--engine", "ray", "--workers", "1") == 0
    assert validate(dump, "local.jsonl", "--engine", "local") == 0

    assert Path("ray.jsonl").read_bytes() == Path("local.jsonl").read_bytes()


@pytest.mark.nightly
@pytest.mark.extra("ray")
def test_workers_of_a_cluster_read_a_dump_that_is_named_by_its_address(
    cluster: str, dump: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = Path(dump).resolve().as_uri()
    assert validate(dump, "local.jsonl", "--engine", "local") == 0
    read_pieces = far_dump.read_pieces

    def read_small_pieces(split: SplitDump, pool: Any) -> Iterator[Any]:
        return read_pieces(replace(split, piece=5_000), pool)

    monkeypatch.setattr("ragbench.verbs.validate.read_pieces", read_small_pieces)

    # The command itself reads no piece.
    with mock.patch("ragbench.io.dumps.pieces.read_range", side_effect=AssertionError):
        assert validate(address, "ray.jsonl", "--engine", "ray", "--workers", "2") == 0

    assert Path("ray.jsonl").read_bytes() == Path("local.jsonl").read_bytes()


def test_without_the_extra_one_line_says_how_to_get_it(
    dump: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)

    code = validate(dump, "v.jsonl", "--engine", "ray")

    assert code == 2
    assert "pip install 'ragbench[ray]'" in capsys.readouterr().err
    assert not Path("v.jsonl.journal").exists()


@pytest.mark.extra("ray")
def test_a_cluster_that_is_not_there_is_one_clear_error(
    dump: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray: Any = import_module("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", mock.Mock(side_effect=ConnectionError("nobody listens")))

    code = validate(dump, "v.jsonl", "--engine", "ray://far:10001")

    assert code == 2
    assert "Ray cannot be used at ray://far:10001: nobody listens" in capsys.readouterr().err


@pytest.mark.extra("ray")
def test_standard_output_holds_the_verdicts_alone_though_ray_talks(
    dump: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def talking(*_: Any, **__: Any) -> Generator[Engine]:
        print("(raylet) A worker died")
        yield engines.engine_here()

    monkeypatch.setattr("ragbench.verbs.validate.opened_engine", talking)

    code = main(["validate", dump, "--json", "-q", "--engine", "ray", "--limit", "3"])

    assert code == 0
    streams = capfd.readouterr()
    query_ids = [json.loads(line)["query_id"] for line in streams.out.splitlines()]
    assert query_ids == ["q0", "q1", "q2"]
    assert "A worker died" in streams.err


# --- a run whose work is done by workers

RAG = '''
import os
from ragbench import RAGInterface


class Counting(RAGInterface):
    """Says which process was asked; some questions raise, one takes the process down."""

    on_workers = True

    def retrieve(self, query, top_k=None):
        with open("pids", "a") as file:
            print(os.getpid(), file=file)
        if "raise" in query:
            raise ValueError("no such thing")
        if "die" in query:
            os._exit(7)
        return [f"context of {query}", "another"][:top_k]

    def generate(self, query, contexts):
        return f"answer to {query}"


class Retriever(RAGInterface, families=("retrieval",)):
    on_workers = True
    retrieve = Counting.retrieve


def ask(query):
    """Retrieves and answers in one call."""
    with open("pids", "a") as file:
        print(os.getpid(), file=file)
    return {"answer": f"answer to {query}", "contexts": [f"context of {query}"]}


ask.on_workers = True


async def ask_async(query):
    return {"answer": query, "contexts": []}


ask_async.on_workers = True
'''


@pytest.fixture
def cases(in_folder: None) -> str:
    """80 cases in the current folder, of which one raises, and a RAG in a file next to them."""
    Path("counting.py").write_text(RAG, encoding="utf-8")
    rows: list[dict[str, Any]] = []
    for number in range(80):
        query = f"question {number}"
        if number == 7:
            query += " raise"
        row = {
            "id": f"c{number}",
            "query": query,
            "reference": f"answer to question {number}",
            "reference_contexts": [f"context of {query}"],
        }
        rows.append(row)
    return lines("cases.jsonl", rows)


def evaluated(cases: str, engine: str, *options: str, rag: str = "Counting") -> bytes:
    """The table of cases that an evaluation writes."""
    out = f"out-{engine}"
    command = ["eval", cases, "--rag", f"counting.py:{rag}", "--validate", "lexical", "-q"]
    assert main([*command, "-o", out, "--engine", engine, *options]) == 0
    return Path(out, "cases.csv").read_bytes()


def processes_of_calls() -> list[str]:
    """Which process was asked, call by call."""
    return Path("pids").read_text("utf-8").split()


def test_a_local_evaluation_asks_the_rag_in_this_process(cases: str) -> None:
    evaluated(cases, "local")

    assert set(processes_of_calls()) == {str(os.getpid())}


def test_an_evaluation_gives_the_same_bytes_on_every_engine(cases: str, name: str) -> None:
    in_this_process = evaluated(cases, "local")
    Path("pids").unlink()

    by_workers = evaluated(cases, name, "--workers", "2", "--batch-size", "8")

    assert by_workers == in_this_process
    calls = processes_of_calls()
    assert str(os.getpid()) not in calls
    # Each question is a call of its own: one that raises costs no other a second call, or its time.
    assert len(calls) == 80
    timings = json.loads(Path(f"out-{name}", "timings.json").read_bytes())
    latencies = timings["latencies"]
    assert [row["stage"] for row in latencies] == ["retrieve", "validate", "generate"]
    assert [row["sharing"] for row in latencies] == [1, 1, 1]


def test_a_case_that_takes_workers_down_fails_alone(cases: str) -> None:
    with Path(cases).open("a") as file:
        file.write('{"id": "last", "query": "die", "reference": "x"}\n')

    evaluated(cases, "processes", "--workers", "2")

    report = Path("out-processes", "report.md").read_text("utf-8")
    row = "| retrieve | ProcessDied: took three worker processes down, perhaps for lack of memory |"
    assert f"{row} 1 | die |" in report


def test_workers_have_no_part_in_a_stage_that_the_rag_lacks(cases: str) -> None:
    in_this_process = evaluated(cases, "local", rag="Retriever")

    by_workers = evaluated(cases, "processes", "--workers", "2", rag="Retriever")

    assert by_workers == in_this_process


def test_a_function_that_answers_in_one_call_is_called_once_per_case_on_workers(
    cases: str,
) -> None:
    here = evaluated(cases, "local", rag="ask")
    Path("pids").unlink()

    on_workers = evaluated(cases, "processes", "--workers", "2", rag="ask")

    calls = processes_of_calls()
    assert on_workers == here
    assert str(os.getpid()) not in calls
    assert len(calls) == 80


def test_coroutines_on_workers_are_refused_with_what_to_change(
    cases: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["eval", cases, "--rag", "counting.py:ask_async", "--engine", "processes"]

    assert main(command) == 2

    assert "Remove on_workers from its class or factory" in capsys.readouterr().err


def test_a_script_may_name_workers_for_every_engine(cases: str) -> None:
    with_workers = evaluated(cases, "local", "--workers", "2")

    assert with_workers == evaluated(cases, "local")


# --- an index whose texts are embedded by workers


def indexed(engine: str, **options: Any) -> IndexResult:
    """Of 600 documents, in a store that is named after the engine."""
    documents: list[Document] = []
    for number in range(600):
        text = f"The tower {number} has {number + 7} rooms."
        documents.append(Document(id=f"d{number}", text=text))
    store = f"memory:{engine}"
    result = index(documents, store, "towers", embedder="hashing:64", engine=engine, **options)
    return replace(result, store="")


def best_of(engine: str) -> list[tuple[str, float | None]]:
    """Ids and scores of the twenty nearest to a question."""
    query = open_embedder("hashing:64").embed_queries(["rooms of tower 33"])
    with open_store(f"memory:{engine}", "towers") as store:
        (chunks,) = store.search(query, k=20)
    return [(chunk.id, chunk.score) for chunk in chunks]


@pytest.mark.usefixtures("in_folder")
def test_an_index_is_the_same_on_every_engine(name: str) -> None:
    in_this_process = indexed("local")

    by_workers = indexed(name, workers=2)

    assert in_this_process.written == 600
    assert by_workers == in_this_process
    assert best_of(name) == best_of("local")


@pytest.mark.usefixtures("in_folder")
def test_what_workers_have_indexed_is_not_indexed_again(name: str) -> None:
    indexed(name, workers=2)

    second_result = indexed(name, workers=2)

    assert second_result.written == 0
    assert second_result.unchanged == 600
