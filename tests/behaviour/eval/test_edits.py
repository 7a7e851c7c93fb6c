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
from typing import Any, NamedTuple
from unittest import mock

import pytest

from ragbench import Case, EvalSettings, Report, evaluate, load_rag, metric, parse_metrics
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

CASES = [Case(id=str(number), query=f"q{number}", reference="yes") for number in range(3)]
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
    for root, files in ((tmp_path / "project", FILES), (tmp_path, OUTSIDE)):
        for name, text in files.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    editable = {"url": f"file://{tmp_path}/editable", "dir_info": {"editable": True}}
    url = tmp_path / "site/local-1.0.dist-info/direct_url.json"
    url.write_text(json.dumps(editable))
    with sqlite3.connect(tmp_path / "project" / "kb.sqlite") as base:
        base.execute("create table t (x)")
    base.close()
    search_path = list(sys.path)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("OUTSIDE", str(tmp_path / "outside"))
    monkeypatch.setitem(vars(sys), "edit_calls", [])
    # What is compared has to notice each edit alone, without the cases that are asked again.
    monkeypatch.setattr(reuse, "ASKED", 0)
    sys.path += [str(tmp_path / "library"), str(tmp_path / "site")]
    __import__("far_module")
    yield tmp_path / "project"
    sys.path[:] = search_path
    forget()


def forget() -> None:
    """Drops the project's modules, so that they are loaded as they are now."""
    for name in list(sys.modules):
        if name.partition(".")[0] in NAMES:
            del sys.modules[name]


@contextmanager
def watched(arguments: dict[str, Any]) -> Generator[tuple[Watch, Any]]:
    forget()
    with Watch() as watch:
        __import__("far_module")
        yield watch, load_rag("edited_rag.py:Edited", arguments)


class Run(NamedTuple):
    """What a command did."""

    calls: int
    """How often it asked for an answer."""
    report: Report

    @property
    def notes(self) -> str:
        return "\n".join(self.report.notes)


def command(
    metrics: str = "exact_match",
    *,
    source: str = "",
    out: str = "run",
    trust_stored: bool = False,
    cases: Any = CASES,
    stopped: Callable[[], bool] = lambda: False,
    **arguments: Any,
) -> Run:
    """Evaluates as the command does, in modules loaded afresh.

    Args:
        arguments: of the RAG's class.
    """
    calls_before = len(edit_calls())
    with watched(arguments) as (watch, rag):
        request = RunRequest(
            out=Path(out),
            rag=rag,
            metrics=parse_metrics(metrics),
            settings=EvalSettings(source=source, trust_stored=trust_stored),
            watch=watch,
            stopped=stopped,
        )
        report = run_evaluation(cases, request)
    return Run(len(edit_calls()) - calls_before, report)


def edit_calls() -> list[str]:
    """The queries that the RAG was asked; it notes them where its modules do not matter."""
    calls: list[str] = vars(sys)["edit_calls"]
    return calls


def add(name: str, text: str = "\nx = 1\n") -> Callable[[], object]:
    """An edit that appends to a file, which may be new."""

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
    assert command().calls == 3
    assert command().calls == 0

    EDITS[edit]()

    edited = command()
    assert edited.calls == 3
    assert "asked again" in edited.notes
    unchanged = command()
    assert unchanged.calls == 0, unchanged.notes


WRITES = """
        with (HERE / "calls.log").open("a") as log:
            log.write(query)
        (HERE / "answers").mkdir(exist_ok=True)
        (HERE / "answers" / query).write_text(query)
        with sqlite3.connect(HERE / "calls.sqlite") as calls:
            calls.execute("create table if not exists t (x)")
            calls.execute("insert into t values (1)")
        calls.close()
        with (HERE / "model.onnx").open("r+") as weights:
            weights.read()
"""


@pytest.fixture
def _writing(project: Path) -> None:
    """The system writes a log, a cache and a database, and opens its model for both."""
    rag = Path("edited_rag.py")
    place = "        from edited_pkg import lazy\n"
    rag.write_text(rag.read_text().replace(place, f"{place}{WRITES}"))


@pytest.mark.usefixtures("_writing")
def test_what_a_system_writes_asks_nothing_again(project: Path) -> None:
    assert command().calls == 3

    unchanged = command()

    assert unchanged.calls == 0, unchanged.notes


@pytest.mark.usefixtures("_writing")
def test_an_interrupted_run_of_a_system_that_writes_goes_on(project: Path) -> None:
    with pytest.raises(InterruptedRunError):
        command(stopped=lambda: len(edit_calls()) >= 1)

    continued = command()

    assert continued.calls == 2, continued.notes


@pytest.mark.usefixtures("_writing")
@pytest.mark.parametrize("edit", EDITS)
def test_after_an_edit_an_interrupted_run_is_asked_again(project: Path, edit: str) -> None:
    with pytest.raises(InterruptedRunError):
        command(stopped=lambda: len(edit_calls()) >= 1)

    EDITS[edit]()

    edited = command()
    assert edited.calls == 3
    assert "asked again" in edited.notes


@pytest.mark.parametrize("name", VARIABLES)
def test_after_a_variable_changed_it_is_asked_again(
    project: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command().calls == 3

    monkeypatch.setenv(name, "one")
    assert command().calls == 3

    monkeypatch.setenv(name, "two")
    assert command().calls == 3

    monkeypatch.delenv(name)
    assert command().calls == 3


def test_files_that_no_text_names_and_that_nothing_can_read_are_no_hindrance(project: Path) -> None:
    Path(os.fsdecode(b"name-\xff.txt")).write_text("bytes in its name")
    os.mkfifo("pipe")
    Path("loop").symlink_to(".", target_is_directory=True)
    Path("nowhere").symlink_to("gone.txt")
    assert command().calls == 3
    assert command().calls == 0

    Path(os.fsdecode(b"name-\xff.txt")).write_text("other bytes")

    assert command().calls == 3


def test_a_change_that_no_comparison_sees_is_noticed_by_asking_some_cases_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reuse, "ASKED", 2)  # of three cases
    assert command().calls == 3
    assert command().calls == 2

    monkeypatch.setattr(sys, "edit_answer", "no", raising=False)
    changed = command()

    assert changed.calls == 1 + 3  # the first that differs says enough
    assert "generate of " in changed.notes
    assert "another one now" in changed.notes
    assert [row.response for row in changed.report.rows()] == ["no", "no", "no"]
    assert command().calls == 2


@pytest.fixture(name="data")
def project_that_reads_a_corpus_beside_its_cases(project: Path) -> Path:
    Path("data").mkdir()
    Path("data/corpus.jsonl").write_text("{}\n")
    Path("data/cases.jsonl").write_text("{}\n")
    rag = Path("edited_rag.py")
    read = 'json.loads((HERE / "data.json").read_text())'
    rag.write_text(rag.read_text().replace(read, f'{read}; Path("data/corpus.jsonl").read_text()'))
    return Path("data")


def test_an_edit_of_the_cases_asks_nothing_again(data: Path) -> None:
    assert command(source="data").calls == 3

    add("data/cases.jsonl")()

    assert command(source="data").calls == 0


def test_an_edit_of_the_corpus_beside_them_asks_again(data: Path) -> None:
    assert command(source="data").calls == 3
    assert command(source="data").calls == 0

    add("data/corpus.jsonl")()

    assert command(source="data").calls == 3


PROGRAM = """
import sys
from ragbench import evaluate

ANSWER = sys.argv[1]

def rag(query):
    return {'contexts': ['c'], 'response': ANSWER}

cases = [{'id': '1', 'query': 'q', 'reference': 'yes'}]
report = evaluate(cases, rag, out='run', metrics=['exact_match'])
print(report.summaries[0].score, report.stages[1].reused)
"""


def score_and_reused(answer: str) -> str:
    """What the program prints that answers with its argument."""
    root = Path(__file__).parents[3]
    paths = {"PYTHONPATH": os.pathsep.join([str(root), str(root / "cli")])}
    process = subprocess.run(
        [sys.executable, "program.py", answer],
        capture_output=True,
        text=True,
        env=os.environ | paths,
    )
    return process.stdout.strip()


def test_another_argument_of_a_program_asks_again(project: Path) -> None:
    """What a program does with its arguments is in no file."""
    Path("program.py").write_text(PROGRAM)

    assert score_and_reused("yes") == "1.0 0"
    assert score_and_reused("yes") == "1.0 1"
    assert score_and_reused("no") == "0.0 0"


def test_another_argument_of_the_rag_asks_again(project: Path) -> None:
    assert command().calls == 3
    assert command(weight=2.0).calls == 3


def test_an_edit_of_what_the_project_ignores_asks_nothing_again(project: Path) -> None:
    assert command().calls == 3

    add("notes/todo.txt")()
    add("run.lock")()

    assert command().calls == 0


# --- which folder a command goes on in, and which stored outcomes hold


def version() -> RunVersion:
    """The folder of the version of now, and why it is another one."""
    with watched({}) as (watch, rag):
        return run_version(Path("run"), project_of(rag, None, None, watch=watch))


REWORDED = add("edited_pkg/prompts.py")


def test_each_version_has_a_folder_next_to_the_first(project: Path) -> None:
    command()
    for folder in (Path("run-2"), Path("run-3")):
        REWORDED()

        new_version = version()

        assert new_version.folder == folder
        assert new_version.is_changed
        assert new_version.because == ("edited_pkg/prompts.py changed",)
        command(out=str(folder))
        assert version().folder == folder


def test_the_note_outlives_an_interruption(project: Path) -> None:
    command()
    REWORDED()
    with pytest.raises(InterruptedRunError):
        command(stopped=lambda: len(edit_calls()) >= 4)

    continued = command()

    assert continued.calls == 2
    note = "retrieve and generate asked again: edited_pkg/prompts.py changed"
    assert note in continued.report.notes
    assert [stage.reused for stage in continued.report.stages] == [0, 0]


@pytest.fixture(name="unseen")
def project_that_starts_a_program(project: Path) -> None:
    """What a program reads cannot be seen."""
    rag = Path("edited_rag.py")
    start = 'subprocess.run([sys.executable, "-c", ""], check=True)'
    rag.write_text(rag.read_text().replace("thread.start()", f"thread.start(); {start}"))


@pytest.mark.usefixtures("unseen")
def test_what_cannot_be_seen_is_reused_to_finish_a_run(project: Path) -> None:
    with pytest.raises(InterruptedRunError):
        command(stopped=lambda: len(edit_calls()) >= 1)

    assert command().calls == 2


@pytest.mark.usefixtures("unseen")
def test_what_cannot_be_seen_is_not_reused_by_the_next_run(project: Path) -> None:
    command()

    next_version = version()
    next_run = command()

    assert next_version.folder == Path("run-2")
    assert not next_version.is_changed
    assert next_run.calls == 3
    assert "asked again" in next_run.notes


def test_stored_outcomes_are_trusted_where_the_user_says_so(project: Path) -> None:
    command()
    REWORDED()

    trusting = command(trust_stored=True)

    assert trusting.calls == 0
    assert "retrieve and generate --reuse" in trusting.notes


# --- metrics


def halved() -> None:
    text = Path("edited_metric.py").read_text()
    Path("edited_metric.py").write_text(text.replace("VALUE *", "VALUE / 2 *"))


@pytest.mark.parametrize(
    ("edit", "score", "calls"),
    [
        pytest.param(halved, 0.25, 0, id="its file, which asks nothing"),
        pytest.param(
            lambda: Path("edited_formula.py").write_text("VALUE = .25\n"),
            0.25,
            3,
            id="a module that it imports",
        ),
        pytest.param(lambda: os.environ.update(FACTOR="2"), 1.0, 3, id="a variable"),
    ],
)
def test_a_metric_of_ones_own_has_no_old_score(
    project: Path,
    edit: Callable[[], object],
    score: float,
    calls: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FACTOR", "1")
    assert command("edited_metric.py:edited").report.summaries[0].score == 0.5

    edit()
    edited = command("edited_metric.py:edited")

    assert edited.calls == calls
    assert edited.report.summaries[0].score == score


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


class Way(NamedTuple):
    """What answers, and how to change it without a file."""

    rag: object
    change: Callable[[], Any]


WAYS = {
    "a dict of the module": Way(Counting, lambda: mock.patch.dict(SETTINGS, answer="no")),
    "a global that is bound anew": Way(Counting, lambda: mock.patch(f"{__name__}.GLOBAL", "no")),
    "a patched method": Way(
        Counting,
        lambda: mock.patch.object(Counting, "generate", lambda *_: "no"),
    ),
    "a closure": Way(closure(SETTINGS), lambda: mock.patch.dict(SETTINGS, answer="no")),
}


def scored(out: Path, rag: object = Counting, **options: Any) -> float | None:
    options.setdefault("metrics", "exact_match")
    return evaluate(CASES, rag, out=out, **options).summaries[0].score


@pytest.mark.parametrize("way", WAYS)
def test_a_sweep_in_one_process_has_new_answers(tmp_path: Path, way: str) -> None:
    rag, change = WAYS[way]

    assert scored(tmp_path, rag) == 1.0
    with change():
        assert scored(tmp_path, rag) == 0.0
    assert scored(tmp_path, rag) == 1.0


def calls_of_version(out: Path, version: str | None) -> int:
    calls_before = len(CALLS)
    scored(out, version=version)
    return len(CALLS) - calls_before


def test_a_version_that_is_named_is_trusted(tmp_path: Path) -> None:
    assert calls_of_version(tmp_path, "1") == 3
    assert calls_of_version(tmp_path, "1") == 0
    assert calls_of_version(tmp_path, "2") == 3


def test_without_a_version_a_system_in_memory_is_asked_each_time(tmp_path: Path) -> None:
    assert calls_of_version(tmp_path, None) == 3
    assert calls_of_version(tmp_path, None) == 3


# --- a run that is the same


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder holds answers; each is right, and another field of it is wrong."""
    monkeypatch.chdir(tmp_path)
    write_answers()


def write_answers(response: str = "yes") -> None:
    rows: list[dict[str, str]] = []
    for number in range(3):
        rows.append(
            {
                "id": str(number),
                "query": f"q{number}",
                "reference": "yes",
                "response": response,
                "said": "no",
            }
        )
    lines("answers.jsonl", rows)


def recorded(
    *, fields: dict[str, str] | None = None, metrics: Any = "exact_match", **settings: Any
) -> tuple[Report, list[str]]:
    """The report of recorded answers, and when each run in the folder began."""
    with open_source("answers.jsonl", fields=fields or {}) as source:
        report = evaluate(source, out="run", metrics=metrics, settings=EvalSettings(**settings))
    if not are_written(report, Path("run")):
        write_reports(report, Path("run"))
    return report, starts_of_runs()


def starts_of_runs() -> list[str]:
    with Journal(Path("run/journal.sqlite")) as journal:
        return list(journal.runs.started().values())


def report_times() -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in Path("run").glob("report.*")}


def same_size() -> None:
    """Another answer in as many bytes, in a file with the time of before."""
    times = Path("answers.jsonl").stat()
    write_answers("nay")
    os.utime("answers.jsonl", ns=(times.st_atime_ns, times.st_mtime_ns))


def manifest_edited() -> None:
    path = Path("run/manifest.json")
    path.write_text(path.read_text().replace('"dataset"', '"other"', 1))


class Change(NamedTuple):
    """A change between two runs of recorded answers, and the score after it."""

    score: float
    edit: Callable[[], object] | None = None
    settings: dict[str, Any] = {}  # noqa: RUF012


CHANGES = {
    "an answer": Change(0.0, edit=lambda: write_answers("no")),
    "an answer of equal length at the same time": Change(0.0, edit=same_size),
    "the fields": Change(0.0, settings={"fields": {"response": "said"}}),
    "a metric": Change(1.0, settings={"metrics": "token_f1"}),
    "a metric's parameter": Change(1.0, settings={"metrics": "exact_match(normalise=none)"}),
    "the limit": Change(1.0, settings={"selection": Selection(limit=2)}),
    "the draw": Change(1.0, settings={"selection": Selection(sample=2)}),
    "the matching": Change(1.0, settings={"matching": Matching.TEXT}),
    "the name": Change(1.0, settings={"name": "other"}),
    "the notes": Change(1.0, settings={"notes": ("other",)}),
    "the manifest": Change(1.0, edit=manifest_edited),
}


@pytest.mark.usefixtures("answers")
def test_the_same_run_is_neither_counted_nor_written_again() -> None:
    report, starts = recorded()
    times = report_times()

    same_report, same_starts = recorded()

    assert report_json(same_report) == report_json(report)
    assert same_starts == starts
    assert report_times() == times


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.usefixtures("answers")
def test_another_run_is_counted_anew(change: str) -> None:
    _, starts = recorded()
    score, edit, settings = CHANGES[change]
    if edit is not None:
        edit()

    report, later_starts = recorded(**settings)

    assert later_starts[:-1] == starts
    assert report.summaries[0].score == score
    rows = Path("run/cases.csv").read_text().count("\n") - 1  # without the header
    assert rows == report.manifest["dataset"]["cases"]


@pytest.mark.usefixtures("answers")
def test_after_a_run_of_another_metric_the_first_one_is_as_before() -> None:
    report, _ = recorded()
    recorded(metrics="token_f1")

    later_report, _ = recorded()

    summary = later_report.summaries[0]
    assert summary.metric.name == "exact_match"
    assert summary.score == report.summaries[0].score


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

        report, _ = recorded(metrics=[swept])

        assert report.summaries[0].score == value
        assert scored(Path("asked"), metrics=[swept], version="1") == value


class Effort(NamedTuple):
    """Answers that a run asked for and reused, and the runs that have begun in its folder."""

    calls: int
    reused: int
    begun_runs: int


def test_a_run_whose_answers_are_reused_is_not_begun_again(project: Path) -> None:
    lines("data.jsonl", [{"query": "q", "reference": "yes"}])

    def run_of_data() -> Effort:
        with open_source("data.jsonl") as source:
            run = command(cases=source)
        generation = run.report.stages[1]
        return Effort(run.calls, generation.reused, len(starts_of_runs()))

    assert run_of_data() == Effort(calls=1, reused=0, begun_runs=1)
    # Of the first run with a reused answer the report differs: it says so.
    assert run_of_data() == Effort(calls=0, reused=1, begun_runs=2)
    assert run_of_data() == Effort(calls=0, reused=1, begun_runs=2)

    REWORDED()

    assert run_of_data() == Effort(calls=1, reused=0, begun_runs=3)
    assert run_of_data() == Effort(calls=0, reused=1, begun_runs=4)
