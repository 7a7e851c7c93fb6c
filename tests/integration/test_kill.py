"""Runs that are killed or interrupted, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SAME = ("report.json", "report.md", "cases.csv")
QUERIES = [f"question {number}" for number in range(10)]
QUERIES[4] = "question 4 bad"  # which no answer is given to
CALLS = {(stage, query) for stage in ("retrieve", "generate") for query in QUERIES}

PLAIN = "import sys; from ragbench_cli.main import main; sys.exit(main(sys.argv[1:]))"
# Ends the process in the n-th transaction of the journal: all is written, nothing or all committed.
IN_TRANSACTION = """
import os, signal, sys
from contextlib import contextmanager
from ragbench.ledger import journal
from ragbench_cli.main import main
real, wanted, when, count = journal.transaction, int(sys.argv[1]), sys.argv[2], 0

@contextmanager
def mortal(db, **undo):
    global count
    count += 1
    dies = count == wanted  # others may be a part of it
    with real(db, **undo):
        yield
        if dies and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)

journal.transaction = mortal
sys.exit(main(sys.argv[3:]))
"""


class Ended(NamedTuple):
    code: int
    error: str
    finished: list[tuple[str, str]]
    """The stages and the queries of the calls that were finished."""


class Workplace:
    """A folder with a dataset, in which commands are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        lines = []
        for number, query in enumerate(QUERIES):
            case = {
                "id": f"c{number}",
                "query": query,
                "reference": f"answer to {query}",
                "reference_contexts": [f"context of {query}"],
                "tags": ["odd"] if number % 2 else [],
            }
            lines.append(json.dumps(case))
        (folder / "cases.jsonl").write_text("\n".join(lines), encoding="utf-8")

    def run(
        self,
        out: str,
        *options: str,
        rag: str = "Mortal",
        script: tuple[str, ...] = (PLAIN,),
        **fate: str,
    ) -> Ended:
        """Runs ``ragbench eval`` in a process of its own."""
        log = self.folder / f"{out}.log"
        calls_before = self.calls(log)
        rag_name = f"{HERE / 'mortal_rag.py'}:{rag}"
        arguments = ["eval", "cases.jsonl", "--rag", rag_name, "--out", out, *options]
        variables = {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}",
            "MORTAL_LOG": str(log),
        }
        done = subprocess.run(
            [sys.executable, "-c", *script, *arguments],
            cwd=self.folder,
            check=False,
            env=os.environ | variables | fate,
            capture_output=True,
            text=True,
        )
        own_calls = self.calls(log)[len(calls_before) :]
        return Ended(done.returncode, done.stderr, own_calls)

    def killed(self, out: str, *options: str, **how: Any) -> tuple[Ended, Ended]:
        """A run that SIGKILL ends, and the same command again; both gave what a whole one gives."""
        rag = how.get("rag", "Mortal")
        killed = self.run(out, *options, **how)
        assert killed.code == -signal.SIGKILL, killed.error
        return killed, self.resumed(out, *options, rag=rag)

    def resumed(self, out: str, *options: str, rag: str = "Mortal") -> Ended:
        resumed = self.run(out, *options, rag=rag)
        assert resumed.code == 0, resumed.error
        assert self.report(out) == self.report(f"whole-{rag}")
        return resumed

    @staticmethod
    def calls(log: Path) -> list[tuple[str, str]]:
        """The stages and the queries of the finished calls."""
        if not log.exists():
            return []
        calls = []
        for line in log.read_text(encoding="utf-8").splitlines():
            stage, query = line.split("\t")[:2]
            calls.append((stage, query))
        return calls

    def report(self, out: str) -> dict[str, bytes]:
        """The files that are the same for each run of the same command."""
        return {name: (self.folder / out / name).read_bytes() for name in SAME}


def nightly(*rows: tuple[Any, ...]) -> list[Any]:
    return [pytest.param(*row, marks=pytest.mark.nightly) for row in rows]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    workplace = Workplace(tmp_path_factory.mktemp("kill"))
    for rag in ("Mortal", "MortalBatch"):
        ended = workplace.run(f"whole-{rag}", rag=rag)
        assert ended.code == 0, ended.error
        assert set(ended.finished) >= CALLS
    return workplace


def test_a_run_changes_no_bytes_from_time_to_time(undisturbed: Workplace) -> None:
    undisturbed.resumed("again")


@pytest.mark.parametrize(
    ("fate", "options"),
    [
        ("retrieve 6", ()),
        ("generate 7", ("--concurrency", "3")),
        *nightly(
            ("retrieve 1", ()),
            ("generate 1", ()),
            ("generate 10", ()),
            ("generate 7", ("--timeout", "60")),
            ("retrieve 7", ("--concurrency", "3")),
        ),
    ],
)
def test_a_killed_run_ends_like_an_undisturbed_one(
    undisturbed: Workplace, fate: str, options: tuple[str, ...]
) -> None:
    out = f"{fate} {options}".replace(" ", "")

    killed, resumed = undisturbed.killed(out, *options, MORTAL_FATE=fate, MORTAL_SIGNAL="SIGKILL")

    repeated = set(killed.finished) & set(resumed.finished)
    # Three calls side by side, and those in their places, may be finished and not yet stored.
    allowed = 6 if "--concurrency" in options else 0
    assert len(repeated) <= allowed, repeated
    assert set(killed.finished) | set(resumed.finished) == CALLS


@pytest.mark.parametrize("fate", [*nightly(("retrieve 6",)), "generate 9"])
def test_a_killed_batch_run_repeats_at_most_the_batch_in_flight(
    undisturbed: Workplace, fate: str
) -> None:
    out = f"batch{fate}".replace(" ", "")
    options = ("--batch-size", "4")
    death = {"MORTAL_FATE": fate, "MORTAL_SIGNAL": "SIGKILL"}

    killed, resumed = undisturbed.killed(out, *options, rag="MortalBatch", **death)

    # Query 4 fails its batch, which is split: its neighbours are asked in smaller batches.
    repeated = set(killed.finished) & set(resumed.finished)
    assert len(repeated) < 4


@pytest.mark.parametrize(
    ("transaction", "when"),
    [
        (2, "before"),
        (16, "before"),
        *nightly((1, "before"), (1, "after"), (8, "after"), (22, "before")),
    ],
)
def test_a_run_killed_while_it_stores_ends_like_an_undisturbed_one(
    undisturbed: Workplace, transaction: int, when: str
) -> None:
    script = (IN_TRANSACTION, str(transaction), when)

    killed, resumed = undisturbed.killed(f"transaction-{transaction}-{when}", script=script)

    repeated = set(killed.finished) & set(resumed.finished)
    allowed = 1 if when == "before" else 0
    assert len(repeated) <= allowed, repeated


@pytest.mark.parametrize(
    ("name", "fate"),
    [("SIGTERM", "retrieve 10"), ("SIGINT", "generate 4"), *nightly(("SIGINT", "retrieve 3"))],
)
def test_an_interrupted_run_finishes_the_call_in_flight_and_continues(
    undisturbed: Workplace, name: str, fate: str
) -> None:
    out = f"{name}{fate}".replace(" ", "")

    stopped = undisturbed.run(out, MORTAL_FATE=fate, MORTAL_SIGNAL=name)
    assert stopped.code == 130
    assert "The same command continues" in stopped.error
    assert "Traceback" not in stopped.error
    stage, number = fate.split()
    call_in_flight = (stage, QUERIES[int(number) - 1])
    assert stopped.finished[-1] == call_in_flight

    resumed = undisturbed.resumed(out)

    assert not set(stopped.finished) & set(resumed.finished)


@pytest.mark.parametrize(
    ("stage", "options"),
    [
        ("retrieve", ()),
        ("generate", ("--concurrency", "3")),
        *nightly(("retrieve", ("--concurrency", "3")), ("generate", ())),
    ],
)
def test_a_question_that_takes_the_process_down_costs_itself_alone(
    tmp_path: Path, stage: str, options: tuple[str, ...]
) -> None:
    workplace = Workplace(tmp_path)

    crashed = workplace.run("run", *options, rag="Poisoned", MORTAL_POISON=stage)
    assert crashed.code == -signal.SIGSEGV
    resumed = workplace.run("run", *options, rag="Poisoned", MORTAL_POISON=stage)
    assert resumed.code == 0, resumed.error

    report = json.loads((tmp_path / "run" / "report.json").read_bytes())
    (death,) = [group for group in report["failures"] if group["type"] == "ProcessDied"]
    assert death["stage"] == stage
    assert death["message"] == "took the process down (signal 11, SIGSEGV)"
    assert death["count"] == 1
    finished = crashed.finished + resumed.finished
    answered = {query for call_stage, query in finished if call_stage == stage}
    assert answered == set(QUERIES) - {"question 7"}
    assert not (tmp_path / "run" / "journal.sqlite-in-flight").exists()
