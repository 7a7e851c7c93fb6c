"""An old answer is never shown as new, whatever was edited between two runs."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from ragbench import Case, EvalSettings, evaluate, load_rag, metric, parse_metrics
from ragbench.errors import InterruptedRunError
from ragbench.io.only import Selection
from ragbench.io.sources import open_source
from ragbench.ledger.journal import Journal
from ragbench.ledger.watch import Watch
from ragbench.metrics.matching import Matching
from ragbench.stages import reuse
from ragbench.stages.reuse import RunVersion, project_of, run_version
from ragbench.verbs.evaluate import RunRequest, run_evaluation
from ragbench.views.report import report_json
from ragbench.views.write import are_written, write_reports
from tests.cli.runs import lines

CASES = [Case(id=str(n), query=f"q{n}", reference="yes") for n in range(3)]
RAG = '''
import json, os, sqlite3, subprocess, sys, threading
from pathlib import Path

from edited_pkg import prompts
from ragbench import RAGInterface

HERE = Path(__file__).parent
AT_IMPORT = os.environ.get("AT_IMPORT")


def native_open(path):
    """Stands for a library in C++, which opens the file unseen."""


class Edited(RAGInterface):
    def __init__(self, weight=1.0):
        super().__init__()
        self.weight = weight

    def retrieve(self, query, top_k=None):
        from edited_pkg import lazy

        json.loads((HERE / "data.json").read_text())
        base = sqlite3.connect(HERE / "kb.sqlite")
        base.execute("select x from t").fetchall()
        base.close()
        os.listdir(HERE / "pages")
        thread = threading.Thread(target=(HERE / "thread.txt").read_text)
        thread.start()
        thread.join()
        native_open(os.path.join(HERE, "index", "".join(("fa", "iss")) + ".bin"))
        Path(os.environ["OUTSIDE"], "far.txt").read_text()
        os.path.exists(HERE / "switch")
        return [prompts.PROMPT, lazy.MORE]

    def generate(self, query, contexts):
        sys.edit_calls.append(query)
        return getattr(sys, "edit_answer", "yes")
'''
FILES = {
    "pyproject.toml": '[tool.ragbench]\nignore = ["notes/*.txt"]\ninputs = ["../declared"]\n',
    "edited_rag.py": RAG,
    "edited_metric.py": (
        "from ragbench import metric\nimport os\nimport edited_formula\n\n"
        '@metric\ndef edited(response: str) -> float:\n    """One."""\n'
        "    return edited_formula.VALUE * float(os.environ.get('FACTOR', '1'))\n"
    ),
    "edited_formula.py": "VALUE = .5\n",
    "edited_pkg/__init__.py": "",
    "edited_pkg/prompts.py": 'PROMPT = "Answer."\n',
    "edited_pkg/lazy.py": "MORE = 'more'\n",
    "edited_pkg/unused.py": "",
    "config.yaml": "k: 3\n",
    ".env": "TOKEN_LIMIT=400\nAPI_KEY=abcdefgh\n",
    ".gitignore": "ignored/\n",
    "data.json": '{"a": 1}\n',
    "thread.txt": "threads\n",
    "child.txt": "read by a program that is started\n",
    "model.onnx": "weights",
    "index/faiss.bin": "vectors",
    "ignored/cache.bin": "in no commit",
    ".hidden/index.bin": "vectors",
    "pages/one.html": "<p>",
    "templates/answer.j2": "{{ query }}",
    "notes/todo.txt": "does not matter",
}
OUTSIDE = {
    "outside/far.txt": "opened",
    "declared/native.bin": "opened by a library in C++",
    "library/far_module.py": "VALUE = 1\n",
    "site/thing-1.0.dist-info/RECORD": "thing.py,sha256=aaa,1\n",
    "site/local-1.0.dist-info/RECORD": "",
    "site/local-1.0.dist-info/direct_url.json": "",
    "editable/local.py": "VALUE = 1\n",
}
NAMES = ("edited_rag", "edited_pkg", "edited_metric", "edited_formula", "far_module")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project, and what lies around it; the folder of the project is the current one."""
    for files, root in ((FILES, tmp_path / "project"), (OUTSIDE, tmp_path)):
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    editable = {"url": f"file://{tmp_path}/editable", "dir_info": {"editable": True}}
    url = tmp_path / "site/local-1.0.dist-info/direct_url.json"
    url.write_text(json.dumps(editable))
    with sqlite3.connect(tmp_path / "project" / "kb.sqlite") as base:
        base.execute("create table t (x)")
    base.close()
    path = list(sys.path)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("OUTSIDE", str(tmp_path / "outside"))
    monkeypatch.setitem(vars(sys), "edit_calls", [])
    # What is compared has to notice each edit alone, without the cases that are asked again.
    monkeypatch.setattr(reuse, "ASKED", 0)
    sys.path += [str(tmp_path / "library"), str(tmp_path / "site")]
    __import__("far_module")
    yield tmp_path / "project"
    sys.path[:] = path
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in NAMES]:
        del sys.modules[name]


@contextmanager
def watched(arguments: dict[str, Any]) -> Generator[tuple[Watch, Any]]:
    forget()
    with Watch() as watch:
        __import__("far_module")
        yield watch, load_rag("edited_rag.py:Edited", arguments)


def command(
    metrics: str = "exact_match",
    *,
    source: str = "",
    out: str = "run",
    stored: bool = False,
    cases: Any = CASES,
    stopped: Callable[[], bool] = lambda: False,
    **arguments: Any,
) -> tuple[int, Any]:
    """Evaluates as the command does, in modules loaded afresh: how often it asked, the report."""
    before = len(vars(sys)["edit_calls"])
    with watched(arguments) as (watch, rag):
        chosen = parse_metrics(metrics)
        settings = EvalSettings(source=source, trust_stored=stored)
        given: Any = {"settings": settings, "watch": watch, "stopped": stopped}
        request = RunRequest(out=Path(out), rag=rag, metrics=chosen, **given)
        report = run_evaluation(cases, request)
    return len(vars(sys)["edit_calls"]) - before, report


def add(name: str, text: str = "\nx = 1\n") -> Callable[[], object]:
    def edit() -> None:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        with Path(name).open("a") as file:
            file.write(text)

    return edit


def same_second() -> None:
    """An edit of equal length that keeps the time of the file."""
    prompts = Path("edited_pkg/prompts.py")
    times = prompts.stat()
    prompts.write_text(prompts.read_text().replace("Answer.", "Reply!!"))
    os.utime(prompts, ns=(times.st_atime_ns, times.st_mtime_ns))


def database() -> None:
    with sqlite3.connect("kb.sqlite") as base:
        base.execute("insert into t values (1)")
    base.close()


def linked() -> None:
    Path("linked").symlink_to("../declared", target_is_directory=True)


EDITS: dict[str, Callable[[], object]] = {
    "the file of the class": add("edited_rag.py"),
    "an imported module": add("edited_pkg/prompts.py"),
    "a module imported by a call": add("edited_pkg/lazy.py"),
    "a package's own file": add("edited_pkg/__init__.py"),
    "a module that nothing imports yet": add("edited_pkg/unused.py"),
    "a new module": add("edited_pkg/fresh.py"),
    "an edit of equal length in the same second": same_second,
    "a module that is removed": lambda: Path("edited_pkg/unused.py").unlink(),
    "a module outside of the project": add("../library/far_module.py"),
    "a text file": add("data.json", " "),
    "a file read in a thread": add("thread.txt"),
    "a file read by a program": add("child.txt"),
    "a database": database,
    "a file in a listed folder": add("pages/two.html"),
    "a file that was looked for": add("switch"),
    "a template": add("templates/answer.j2"),
    "a configuration": add("config.yaml"),
    "a credential in .env": lambda: Path(".env").write_text("TOKEN_LIMIT=400\nAPI_KEY=ijklmnop\n"),
    "a number in .env": lambda: Path(".env").write_text("TOKEN_LIMIT=500\nAPI_KEY=abcdefgh\n"),
    "a model": add("model.onnx"),
    "an index that C++ opens": add("index/faiss.bin"),
    "a file that git ignores": add("ignored/cache.bin"),
    "a file in a hidden folder": add(".hidden/index.bin"),
    "a link to a folder": linked,
    "a file elsewhere that was opened": add("../outside/far.txt"),
    "a declared file elsewhere": add("../declared/native.bin"),
    "a package at the same version": add("../site/thing-1.0.dist-info/RECORD", "b.py,sha256=b,1\n"),
    "a package that is new": add("../site/more-1.0.dist-info/RECORD", "more.py,sha256=b,1\n"),
    "an editable package": add("../editable/local.py"),
}
VARIABLES = (
    "API_KEY",
    "AT_IMPORT",
    "LANGUAGE",
    "LCEL_MODEL",
    "MODEL",
    "PIPELINE",
    "PIPELINE_MODE",
    "PIP_MODE",
    "RICHNESS",
    "TERM_WEIGHT",
    "TOKEN_LIMIT",
    "UV_INDEX_SET",
)


@pytest.mark.parametrize("edit", EDITS)
def test_after_an_edit_it_is_asked_again(project: Path, edit: str) -> None:
    assert command()[0] == 3
    assert command()[0] == 0
    EDITS[edit]()
    calls, report = command()
    assert calls == 3
    assert any("asked again" in note for note in report.notes)
    assert command()[0] == 0


@pytest.mark.parametrize("name", VARIABLES)
def test_after_a_variable_changed_it_is_asked_again(
    project: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [command()[0]]
    for value in ("one", "two"):
        monkeypatch.setenv(name, value)
        asked.append(command()[0])

    monkeypatch.delenv(name)

    assert [*asked, command()[0]] == [3, 3, 3, 3]


def test_files_that_no_text_names_and_that_nothing_can_read_are_no_hindrance(project: Path) -> None:
    Path(os.fsdecode(b"name-\xff.txt")).write_text("bytes in its name")
    os.mkfifo("pipe")
    Path("loop").symlink_to(".", target_is_directory=True)
    Path("nowhere").symlink_to("gone.txt")
    assert command()[0] == 3
    assert command()[0] == 0
    Path(os.fsdecode(b"name-\xff.txt")).write_text("other bytes")
    assert command()[0] == 3


def test_what_no_comparison_sees_is_found_by_asking_three_cases_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reuse, "ASKED", 2)  # of three cases
    assert [command()[0] for _ in range(2)] == [3, 2]
    monkeypatch.setattr(sys, "edit_answer", "no", raising=False)
    asked, report = command()
    assert asked == 1 + 3  # the first that differs says enough
    assert any("generate of " in note and "another one now" in note for note in report.notes)
    assert {row.response for row in report.rows()} == {"no"}
    assert command()[0] == 2


def test_a_corpus_beside_the_cases_counts_and_the_cases_do_not(project: Path) -> None:
    Path("data").mkdir()
    Path("data/corpus.jsonl").write_text("{}\n")
    Path("data/cases.jsonl").write_text("{}\n")
    rag = Path("edited_rag.py")
    read = 'json.loads((HERE / "data.json").read_text())'
    rag.write_text(rag.read_text().replace(read, f'{read}; Path("data/corpus.jsonl").read_text()'))
    assert [command(source="data")[0] for _ in range(2)] == [3, 0]
    add("data/cases.jsonl")()
    assert command(source="data")[0] == 0
    add("data/corpus.jsonl")()
    assert command(source="data")[0] == 3


def test_another_argument_of_a_program_asks_again(project: Path) -> None:
    """What a program does with its arguments is in no file."""
    program = (
        "import sys\nfrom ragbench import evaluate\nANSWER = sys.argv[1]\n"
        "def rag(query):\n    return {'contexts': ['c'], 'response': ANSWER}\n"
        "cases = [{'id': '1', 'query': 'q', 'reference': 'yes'}]\n"
        "found = evaluate(cases, rag, out='run', metrics=['exact_match'])\n"
        "print(found.summaries[0].score, found.stages[1].reused)\n"
    )
    Path("program.py").write_text(program)
    call = [sys.executable, "program.py"]
    root = Path(__file__).parents[3]
    paths = {"PYTHONPATH": os.pathsep.join([str(root), str(root / "cli")])}

    printed = [
        subprocess.run([*call, answer], capture_output=True, text=True, env=os.environ | paths)
        for answer in ("yes", "yes", "no")
    ]

    assert [one.stdout.split() for one in printed] == [["1.0", "0"], ["1.0", "1"], ["0.0", "0"]]


def test_an_argument_asks_again_and_what_is_ignored_does_not(project: Path) -> None:
    assert command()[0] == 3
    assert command(weight=2.0)[0] == 3
    add("notes/todo.txt")()
    add("run.lock")()
    assert command(weight=2.0)[0] == 0


# --- which folder a command goes on in, and which stored outcomes hold


def version() -> RunVersion:
    with watched({}) as (watch, rag):
        return run_version(Path("run"), project_of(rag, None, None, watch=watch))


REWORDED = add("edited_pkg/prompts.py")


def test_each_version_has_a_folder_next_to_the_first(project: Path) -> None:
    command()
    for number in (2, 3):
        REWORDED()
        found = version()
        assert (found.folder, found.is_changed) == (Path(f"run-{number}"), True)
        assert found.because == ("edited_pkg/prompts.py changed",)
        command(out=str(found.folder))
        assert version().folder == found.folder


def test_the_note_outlives_an_interruption(project: Path) -> None:
    command()
    REWORDED()
    made = vars(sys)["edit_calls"]
    with pytest.raises(InterruptedRunError):
        command(stopped=lambda: len(made) >= 4)

    calls, report = command()

    assert calls == 2
    assert "retrieve and generate asked again: edited_pkg/prompts.py changed" in report.notes
    assert all(stage.reused == 0 for stage in report.stages)


def test_what_cannot_be_seen_is_reused_only_to_finish_a_run(project: Path) -> None:
    rag, made = Path("edited_rag.py"), vars(sys)["edit_calls"]
    unseen = 'subprocess.run([sys.executable, "-c", ""], check=True)'
    rag.write_text(rag.read_text().replace("thread.start()", f"thread.start(); {unseen}"))
    with pytest.raises(InterruptedRunError):
        command(stopped=lambda: bool(made))
    assert command()[0] == 2
    found = version()
    assert (found.folder, found.is_changed) == (Path("run-2"), False)
    calls, report = command()
    assert calls == 3
    assert any("asked again" in note for note in report.notes)


def test_stored_outcomes_are_trusted_where_the_user_says_so(project: Path) -> None:
    command()
    REWORDED()

    calls, report = command(stored=True)

    assert calls == 0
    assert any(note.startswith("retrieve and generate --reuse") for note in report.notes)


# --- metrics


def halved() -> None:
    text = Path("edited_metric.py").read_text()
    Path("edited_metric.py").write_text(text.replace("VALUE *", "VALUE / 2 *"))


@pytest.mark.parametrize(
    ("edit", "score", "asked"),
    [
        (halved, 0.25, 0),  # what changes a metric alone asks nothing
        (lambda: Path("edited_formula.py").write_text("VALUE = .25\n"), 0.25, 3),
        (lambda: os.environ.update(FACTOR="2"), 1.0, 3),
    ],
    ids=["its file", "what it imports", "a variable"],
)
def test_a_metric_of_ones_own_has_no_old_score(
    project: Path,
    edit: Callable[[], object],
    score: float,
    asked: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FACTOR", "1")
    assert command("edited_metric.py:edited")[1].summaries[0].score == 0.5
    edit()
    calls, report = command("edited_metric.py:edited")
    assert (calls, report.summaries[0].score) == (asked, score)


# --- within one process


class Counting:
    """A system in memory: what it answers is what it finds in the places that people change."""

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return ["context"]

    def generate(self, query: str, contexts: list[str]) -> str:
        CALLS.append(query)
        return SETTINGS["answer"] if GLOBAL is None else GLOBAL


CALLS: list[str] = []
SETTINGS = {"answer": "yes"}
GLOBAL: str | None = None


def closure(settings: dict[str, str]) -> Callable[[str], dict[str, Any]]:
    return lambda query: {"contexts": ["c"], "response": settings["answer"]}


def says_no(*_: object) -> str:
    return "no"


WAYS: dict[str, tuple[object, Callable[[], Any]]] = {
    # What answers, and how to change it without a file.
    "a dict of the module": (Counting, lambda: mock.patch.dict(SETTINGS, answer="no")),
    "a global that is bound anew": (Counting, lambda: mock.patch(f"{__name__}.GLOBAL", "no")),
    "a patched method": (
        Counting,
        lambda: mock.patch.object(Counting, "generate", lambda *_: "no"),
    ),
    "a closure": (closure(SETTINGS), lambda: mock.patch.dict(SETTINGS, answer="no")),
}


def scored(out: Path, rag: object = Counting, **options: Any) -> float | None:
    options.setdefault("metrics", "exact_match")
    return evaluate(CASES, rag, out=out, **options).summaries[0].score


@pytest.mark.parametrize("way", WAYS)
def test_a_sweep_in_one_process_has_new_answers(tmp_path: Path, way: str) -> None:
    rag, changed = WAYS[way]
    assert scored(tmp_path, rag) == 1.0
    with changed():
        assert scored(tmp_path, rag) == 0.0
    assert scored(tmp_path, rag) == 1.0


def test_a_version_that_is_named_is_trusted(tmp_path: Path) -> None:
    asked: list[int] = []
    for version in ("1", "1", "2", None, None):
        before = len(CALLS)
        scored(tmp_path / "run", version=version)
        asked.append(len(CALLS) - before)

    assert asked == [3, 0, 3, 3, 3]


# --- a run that is the same


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder holds answers; each is right, and another field of it is wrong."""
    monkeypatch.chdir(tmp_path)
    write_answers()


def write_answers(response: str = "yes") -> None:
    lines(
        "answers.jsonl",
        (
            {"id": str(n), "query": f"q{n}", "reference": "yes", "response": response, "said": "no"}
            for n in range(3)
        ),
    )


def recorded(**given: Any) -> tuple[Any, list[str]]:
    """The report of recorded answers, and when each run in the folder began."""
    fields, metrics = given.pop("fields", {}), given.pop("metrics", "exact_match")
    with open_source("answers.jsonl", fields=fields) as source:
        report = evaluate(source, out="run", metrics=metrics, settings=EvalSettings(**given))
    if not are_written(report, Path("run")):
        write_reports(report, Path("run"))
    with Journal(Path("run/journal.sqlite")) as journal:
        return report, [*journal.runs.started().values()]


def same_size() -> None:
    """Another answer in as many bytes, in a file with the time of before."""
    times = Path("answers.jsonl").stat()
    write_answers("nay")
    os.utime("answers.jsonl", ns=(times.st_atime_ns, times.st_mtime_ns))


def manifest_edited() -> None:
    path = Path("run/manifest.json")
    path.write_text(path.read_text().replace('"dataset"', '"other"', 1))


CHANGES: dict[str, tuple[Callable[[], object] | None, dict[str, Any], float]] = {
    "an answer": (lambda: write_answers("no"), {}, 0.0),
    "an answer of equal length at the same time": (same_size, {}, 0.0),
    "the fields": (None, {"fields": {"response": "said"}}, 0.0),
    "a metric": (None, {"metrics": "token_f1"}, 1.0),
    "a metric's parameter": (None, {"metrics": "exact_match(normalise=none)"}, 1.0),
    "the limit": (None, {"selection": Selection(limit=2)}, 1.0),
    "the draw": (None, {"selection": Selection(sample=2)}, 1.0),
    "the matching": (None, {"matching": Matching.TEXT}, 1.0),
    "the name": (None, {"name": "other"}, 1.0),
    "the notes": (None, {"notes": ("other",)}, 1.0),
    "the manifest": (manifest_edited, {}, 1.0),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.usefixtures("answers")
def test_the_same_run_stands_and_another_is_counted_anew(change: str) -> None:
    first, began = recorded()
    files = {path.name: path.stat().st_mtime_ns for path in Path("run").glob("report.*")}
    same, still = recorded()
    assert (report_json(same), still) == (report_json(first), began)
    assert files == {path.name: path.stat().st_mtime_ns for path in Path("run").glob("report.*")}
    edit, given, score = CHANGES[change]
    if edit is not None:
        edit()
    report, later = recorded(**given)
    assert later[: len(began)] == began and len(later) == len(began) + 1
    assert report.summaries[0].score == score
    assert Path("run/cases.csv").read_text().count("\n") == report.manifest["dataset"]["cases"] + 1
    assert recorded()[0].summaries[0].metric.name == "exact_match"


@pytest.mark.usefixtures("answers")
def test_files_of_a_run_that_stands_are_written_where_they_are_not_as_they_were() -> None:
    recorded()
    table = Path("run/cases.csv").read_bytes()
    Path("run/cases.csv").write_text("edited")
    Path("run/report.md").unlink()

    recorded()

    assert Path("run/cases.csv").read_bytes() == table
    assert Path("run/report.md").exists()


@pytest.mark.usefixtures("answers")
def test_a_metric_that_changed_in_one_process_has_a_new_score_though_the_run_is_the_same() -> None:
    values = {"value": 0.5}

    @metric
    def swept(response: str) -> float:
        return values["value"]

    for value in (0.5, 0.75):
        values["value"] = value
        assert recorded(metrics=[swept])[0].summaries[0].score == value
        assert scored(Path("asked"), metrics=[swept], version="1") == value


def test_a_run_whose_answers_are_reused_stands(project: Path) -> None:
    def began() -> int:
        with Journal(Path("run/journal.sqlite")) as journal:
            return len(journal.runs.started())

    lines("data.jsonl", [{"query": "q", "reference": "yes"}])
    counts: list[tuple[int, int, int]] = []
    for edited in (False, False, False, True, False):
        if edited:
            REWORDED()
        with open_source("data.jsonl") as source:
            calls, report = command(cases=source)
        counts.append((calls, report.stages[1].reused, began()))
    assert counts == [(1, 0, 1), (0, 1, 2), (0, 1, 2), (1, 0, 3), (0, 1, 4)]
