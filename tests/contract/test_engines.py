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

from ragbench import Document, index, open_embedder, open_store
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
        before = signal.getsignal(signal.SIGTERM)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        found: Any = None
        why = ""
        for _ in range(2):  # on a busy machine a node may not register within Ray's 30 s
            try:
                quiet = {"include_dashboard": False, "logging_level": "ERROR"}
                found = ray.init("local", num_cpus=2, **quiet)
                break
            except Exception as error:  # noqa: BLE001  # Ray raises a plain one
                why = str(error)
            gc.collect()  # what a failed start has left warns here, and in no other test
        signal.signal(signal.SIGTERM, before)
        if found is None:
            pytest.skip(f"Ray cannot be started here: {why}")
        yield found["gcs_address"]
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
    with opened_engine(name, workers=1 if name == "ray" else 2) as found:
        yield found


@pytest.fixture(params=["local", *ENGINES])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "ray":
        request.getfixturevalue("cluster")
    with opened_engine(request.param, workers=2) as found:
        yield found


# --- what the workers call


def squares() -> Callable[[int], tuple[int, int]]:
    return lambda number: (number * number, os.getpid())


def dying(*numbers: int) -> Callable[[int], int]:
    def call(number: int) -> int:
        if number in numbers:
            os._exit(7)
        return number

    return call


def dying_once(number: int, folder: Path) -> Callable[[int], int]:
    """Takes its worker down the first time that it is given a number; notes what it was given."""

    def call(given: int) -> int:
        with (folder / str(given)).open("a") as file:
            file.write(".")
        if given == number and (folder / str(given)).stat().st_size == 1:
            os._exit(7)
        return given

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
    found = mapped(squares, range(400), engine, batch=8)
    assert [square for square, _ in found] == [number * number for number in range(400)]
    pids = {pid for _, pid in found}
    assert len(pids) <= 2
    assert (engine.batch == 1) == (os.getpid() in pids)


def test_few_items_are_read_ahead(engine: Engine) -> None:
    read = 0

    def counted() -> Iterator[int]:
        nonlocal read
        for number in range(10_000):
            read += 1
            yield number

    with pool_of(squares, engine, batch=5) as pool:
        results = pool.map(counted())
        for _ in range(10):
            next(results)
        assert read < 100


def test_an_error_comes_in_its_place(engine: Engine) -> None:
    found: list[float] = []
    with pytest.raises(ZeroDivisionError), pool_of(dividing, engine, batch=1) as pool:
        found.extend(pool.map(range(40)))
    assert found == [1 / 3, 1 / 2, 1 / 1]


def test_what_cannot_be_made_is_the_error_that_says_so(engine: Engine) -> None:
    with pytest.raises(MissingExtraError, match="this needs the extra 'onnx'"):
        mapped(refusing, range(40), engine)


def test_once_stopped_what_is_in_flight_is_finished(engine: Engine) -> None:
    done = 0
    found: list[int] = []
    with pool_of(squares, engine, batch=4, stopped=lambda: done >= 10) as pool:
        for square, _ in pool.map(range(1000)):
            done += 1
            found.append(square)
    assert 10 <= len(found) < 100
    assert found == [number * number for number in range(len(found))]


def test_what_nobody_has_begun_is_dropped(engine: Engine, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with pool_of(partial(waiting_for, gate), engine, batch=16) as pool:
        begun = [pool.begin([number] * 16) for number in range(20)]
        assert pool.drop(begun[-1])
        gate.touch()
        assert [*pool.take(begun[0])] == [0] * 16
        assert pool.drop(pool.begin([]))


def test_of_a_lost_worker_only_the_batches_in_flight_are_given_again(
    apart: Engine, tmp_path: Path
) -> None:
    make = partial(dying_once, 100, tmp_path)
    assert mapped(make, range(200), apart, batch=4) == list(range(200))
    again = [int(path.name) for path in tmp_path.iterdir() if path.stat().st_size > 1]
    assert 100 in again
    assert len(again) <= 4 * 2  # the batches of one worker


def test_an_item_that_takes_every_worker_down_costs_one_item(apart: Engine) -> None:
    found = mapped(partial(dying, 50), range(100), apart, batch=8, lost=lambda number: -number)
    assert found == [-50 if number == 50 else number for number in range(100)]


def test_workers_that_end_are_one_clear_error(apart: Engine) -> None:
    with pytest.raises(RunError, match="a worker process ended without a result"):
        mapped(partial(dying, 50), range(100), apart, batch=8)


def test_a_worker_that_dies_while_all_is_stopped_is_no_error(apart: Engine) -> None:
    asked = iter([False] * 4)  # batches are begun; then a signal ends this process and its workers
    found = mapped(partial(dying, 3), range(200), apart, batch=8, stopped=lambda: next(asked, True))
    assert found == []


def test_a_worker_that_is_replaced_is_said(tmp_path: Path) -> None:
    with pytest.warns(RagbenchWarning, match="a worker ended and is replaced; what it had in hand"):
        mapped(partial(dying_once, 3, tmp_path), range(40), two_processes(), batch=4)


# --- of one engine


class Cluster:
    def __init__(self, *answers: object) -> None:
        self.answers = iter(answers)

    def nodes(self) -> list[dict[str, Any]]:
        found: Any = next(self.answers)
        if isinstance(found, Exception):
            raise found
        return [{"Alive": alive, "Resources": {"CPU": cpus}} for alive, cpus in found]


@pytest.mark.parametrize("answer", [[(False, 4.0)], [], RuntimeError("the head has ended")])
def test_a_cluster_that_has_ended_ends_the_run(
    answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself waits for ever."""
    monkeypatch.setattr(pool_module, "_QUIET", 0.01)
    check = engines._ClusterCheck(Cluster([(True, 4.0)], answer))

    def start(_: object) -> engines.Worker:
        return engines.Worker(call=lambda _: Future(), close=lambda: None)

    silent = Engine(start=start, check=check)
    with pytest.raises(RunError, match=r"nodes have ended, .* the same command continues"):
        mapped(squares, range(40), silent, batch=4)


def test_a_cluster_may_wait_for_a_node_of_its_autoscaler(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.0, 100.0, 699.0, 800.0, 800.0, 1401.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    idle, busy = [(True, 0.0)], [(True, 0.0), (True, 8.0), (False, 8.0)]
    check = engines._ClusterCheck(Cluster(idle, idle, busy, idle, idle))
    for _ in range(4):
        check()
    with pytest.raises(RunError, match="had a processor for 10 minutes"):
        check()


TWO = two_processes()


@pytest.mark.parametrize(("items", "engine"), [(10, TWO), (200, engines.engine_here()), (0, TWO)])
def test_few_items_or_one_worker_stay_here(items: int, engine: Engine) -> None:
    found = mapped(squares, range(items), engine, batch=8)
    assert found == [(number * number, os.getpid()) for number in range(items)]


@pytest.mark.parametrize("text", ["cluster", "ray://", "processes://2", ""])
def test_an_unknown_engine_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected local, processes, ray or ray://HOST:PORT"):
        check_engine(text)


# --- the command on a cluster


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def dump(here: None) -> str:
    """What a retriever returned, in the current folder."""
    rows: list[dict[str, Any]] = []
    for number in range(600):
        chunk = {"id": "a", "text": f"The tower {number} has {number + 7} rooms. It is old."}
        asked = {"query_id": f"q{number}", "query": f"How many rooms has tower {number}?"}
        rows.append({**asked, "chunks": [chunk]})
    return lines("dump.jsonl", rows)


def validate(dump: str, out: str, *options: str) -> list[str]:
    return ["validate", dump, "-o", out, "-q", "--validator", "lexical", *options]


@pytest.mark.extra("ray")
def test_a_command_on_a_cluster_gives_the_same_bytes(cluster: str, dump: str) -> None:
    assert main(validate(dump, "ray.jsonl", "--engine", "ray", "--workers", "1")) == 0
    assert main(validate(dump, "here.jsonl", "--engine", "local")) == 0
    assert Path("ray.jsonl").read_bytes() == Path("here.jsonl").read_bytes()


@pytest.mark.nightly
@pytest.mark.extra("ray")
def test_workers_of_a_cluster_read_a_dump_that_is_named_by_its_address(
    cluster: str, dump: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = Path(dump).resolve().as_uri()
    assert main(validate(dump, "here.jsonl", "--engine", "local")) == 0
    monkeypatch.setattr("ragbench.verbs.validate.read_pieces", small_pieces)
    # The command itself reads no piece.
    with mock.patch("ragbench.io.dumps.pieces.read_range", side_effect=AssertionError):
        assert main(validate(address, "far.jsonl", "--engine", "ray", "--workers", "2")) == 0
    assert Path("far.jsonl").read_bytes() == Path("here.jsonl").read_bytes()


def small_pieces(split: SplitDump, pool: Any) -> Iterator[Any]:
    return READ_PIECES(replace(split, piece=5_000), pool)


READ_PIECES = far_dump.read_pieces


def test_without_the_extra_one_line_says_how_to_get_it(
    dump: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(validate(dump, "v.jsonl", "--engine", "ray")) == 2
    assert "pip install 'ragbench[ray]'" in capsys.readouterr().err
    assert not Path("v.jsonl.journal").exists()


@pytest.mark.extra("ray")
def test_a_cluster_that_is_not_there_is_one_clear_error(
    dump: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray: Any = import_module("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", mock.Mock(side_effect=ConnectionError("nobody listens")))
    assert main(validate(dump, "v.jsonl", "--engine", "ray://far:10001")) == 2
    assert "Ray cannot be used at ray://far:10001: nobody listens" in capsys.readouterr().err


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
def cases(here: None) -> str:
    """Cases, in the current folder, and a RAG in a file next to them."""
    Path("counting.py").write_text(RAG, encoding="utf-8")
    rows: list[dict[str, Any]] = []
    for number in range(80):
        query = f"question {number}{' raise' * (number == 7)}"
        known = {"reference": f"answer to question {number}"}
        contexts = {"reference_contexts": [f"context of {query}"]}
        rows.append({"id": f"c{number}", "query": query, **known, **contexts})
    return lines("cases.jsonl", rows)


def evaluated(cases: str, engine: str, *options: str, rag: str = "Counting") -> bytes:
    out = f"out-{engine}"
    said = ["eval", cases, "--rag", f"counting.py:{rag}", "--validate", "lexical", "-q"]
    assert main([*said, "-o", out, "--engine", engine, *options]) == 0
    return Path(out, "cases.csv").read_bytes()


def test_an_evaluation_gives_the_same_bytes_on_every_engine(cases: str, name: str) -> None:
    here = evaluated(cases, "local")
    assert {*Path("pids").read_text("utf-8").split()} == {str(os.getpid())}
    Path("pids").unlink()
    assert evaluated(cases, name, "--workers", "2", "--batch-size", "8") == here
    asked = Path("pids").read_text("utf-8").split()
    assert str(os.getpid()) not in asked
    # Each question is a call of its own: one that raises costs no other a second call, or its time.
    assert len(asked) == 80
    times = json.loads(Path(f"out-{name}", "timings.json").read_bytes())["latencies"]
    assert [one["stage"] for one in times] == ["retrieve", "validate", "generate"]
    assert {one["sharing"] for one in times} == {1}


def test_a_case_that_takes_workers_down_fails_alone(cases: str) -> None:
    with Path(cases).open("a") as file:
        file.write('{"id": "last", "query": "die", "reference": "x"}\n')
    evaluated(cases, "processes", "--workers", "2")
    said = Path("out-processes", "report.md").read_text("utf-8")
    row = "| retrieve | ProcessDied: took three worker processes down, perhaps for lack of memory |"
    assert f"{row} 1 | die |" in said


def test_workers_have_no_part_in_a_stage_that_the_rag_lacks(cases: str) -> None:
    here = evaluated(cases, "local", rag="Retriever")
    assert evaluated(cases, "processes", "--workers", "2", rag="Retriever") == here


def test_a_function_that_answers_in_one_call_is_called_once_per_case_on_workers(
    cases: str,
) -> None:
    here = evaluated(cases, "local", rag="ask")
    Path("pids").unlink()

    on_workers = evaluated(cases, "processes", "--workers", "2", rag="ask")

    asked = Path("pids").read_text("utf-8").split()
    assert on_workers == here
    assert str(os.getpid()) not in asked
    assert len(asked) == 80


def test_coroutines_on_workers_are_refused_with_what_to_change(
    cases: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["eval", cases, "--rag", "counting.py:ask_async", "--engine", "processes"]

    assert main(command) == 2

    assert "Remove on_workers from its class or factory" in capsys.readouterr().err


def test_a_script_may_name_workers_for_every_engine(cases: str) -> None:
    assert evaluated(cases, "local", "--workers", "2") == evaluated(cases, "local")


# --- an index whose texts are embedded by workers


def indexed(engine: str, **options: Any) -> tuple[Any, list[Any]]:
    documents = [Document(id=f"d{n}", text=f"The tower {n} has {n + 7} rooms.") for n in range(600)]
    store = f"memory:{engine}"
    said = index(documents, store, "towers", embedder="hashing:64", engine=engine, **options)
    with open_store(store, "towers") as opened:
        vectors = open_embedder("hashing:64").embed_queries(["rooms of tower 33"])
        (chunks,) = opened.search(vectors, k=20)
    return replace(said, store=""), [(chunk.id, chunk.score) for chunk in chunks]


@pytest.mark.usefixtures("here")
def test_an_index_is_the_same_on_every_engine(name: str) -> None:
    here = indexed("local")
    assert here[0].written == 600
    assert indexed(name, workers=2) == here
    again, _ = indexed(name, workers=2)
    assert (again.written, again.unchanged) == (0, 600)


@pytest.mark.extra("ray")
def test_standard_output_holds_the_verdicts_alone_though_ray_talks(
    dump: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def talking(*_: Any, **__: Any) -> Generator[Engine]:
        print("(raylet) A worker died")
        yield engines.engine_here()

    monkeypatch.setattr("ragbench.verbs.validate.opened_engine", talking)
    assert main(["validate", dump, "--json", "-q", "--engine", "ray", "--limit", "3"]) == 0
    said = capfd.readouterr()
    assert [json.loads(line)["query_id"] for line in said.out.splitlines()] == ["q0", "q1", "q2"]
    assert "A worker died" in said.err
