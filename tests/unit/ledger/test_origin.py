"""Outcomes are the same only while everything that they came from is."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragbench import load_rag
from ragbench.core.calling import accounted
from ragbench.core.origin import Origin
from ragbench.ledger.content import folder_content
from ragbench.ledger.inputs import Inputs
from ragbench.ledger.journal import Journal
from ragbench.ledger.origin import (
    Reuse,
    may_reuse,
    still_same,
)
from ragbench.ledger.watch import Watch
from ragbench.llm.cache import ResponseCache
from ragbench.rag.load import describe_rag

ROOT = Path(__file__).parents[3]
RAG = '''
import json, mmap, os, sqlite3, threading
from dataclasses import dataclass, field
from pathlib import Path

from ragbench import RAGConfig, RAGInterface
from watched_pkg import prompts

HERE = Path(__file__).parent
TEMPLATE = HERE / "templates" / "answer.j2"


@dataclass
class Inner:
    weight: float = 1.0


@dataclass
class Settings(RAGConfig):
    inner: Inner = field(default_factory=Inner)


class Reranker:
    def __init__(self, power):
        self._power = power


class Watched(RAGInterface):
    def __init__(self, k=3, weight=1.0, power=1, model="model.onnx", corpus=None):
        super().__init__(Settings(top_k=k, inner=Inner(weight)))
        self.reranker, self.model, self.corpus = Reranker(power), HERE / model, corpus
        self.mode = os.environ.get("WATCHED_MODE", "plain")

    def retrieve(self, query, top_k=None):
        from watched_pkg import lazy
        import numpy as np

        json.loads((HERE / "data.json").read_text())
        np.load(HERE / "vectors.npy", mmap_mode="r")
        with open(HERE / "mapped.bin", "rb") as file:
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ).close()
        base = sqlite3.connect(HERE / "kb.sqlite")
        base.execute("select x from t").fetchall()
        base.close()
        os.listdir(HERE / "pages")
        thread = threading.Thread(target=(HERE / "thread.txt").read_text)
        thread.start()
        thread.join()
        native_open(os.path.join(HERE, "index", "faiss.bin"))
        with open(HERE / "calls.log", "a") as log:
            log.write("asked")
        return [prompts.PROMPT, lazy.MORE, "WATCHED_TONE" in os.environ and "x" or "y"]

    def generate(self, query, contexts):
        return "yes"


def native_open(path):
    """Stands for a library in C++, which opens the file unseen."""
'''
FILES = {
    "watched_rag.py": RAG,
    "watched_pkg/__init__.py": "",
    "watched_pkg/prompts.py": 'PROMPT = """Answer.\nBe short.\nBe kind."""\n',
    "watched_pkg/lazy.py": "MORE = 'more'\n",
    "data.json": '{"a": 1}\n',
    "mapped.bin": "0123",
    "thread.txt": "threads\n",
    "model.onnx": "weights",
    "corpus.jsonl": '{"id": "d", "text": "t"}\n',
    "index/faiss.bin": "vectors",
    "pages/one.html": "<p>",
    "templates/answer.j2": "{{ query }}",
    "unrelated.txt": "nobody reads this",
}


class Session:
    """A RAG that was asked once, and how it is described now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = f"{folder}/watched_rag.py:Watched"
        self.arguments: dict[str, Any] = {"corpus": str(folder / "corpus.jsonl")}
        self.origin = self.record()

    def record(self) -> Origin:
        watch = Watch()
        inputs = Inputs(watch, base=self.folder)
        with watch:
            rag: Any = load_rag(self.spec, self.arguments)
        description = describe_rag(rag, self.spec, self.arguments)
        with watch:
            rag.retrieve("who?")
        return inputs.origin("retrieve", rag, settings=description)

    def changes(self) -> dict[str, str]:
        """Names of the parts that are not what they were, with the sentence for each."""
        found = still_same(self.origin, self.folder)
        return {change.part.name: change.sentence for change in found}

    def append(self, name: str, text: str = "\nx = 1\n") -> Callable[[], None]:
        """Changes a file, and returns what changes it back."""
        path = self.folder / name
        before = path.read_bytes()
        path.write_bytes(before + text.encode())
        return lambda: void(path.write_bytes(before))


def void(_: object) -> None:
    """A call for its effect."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    np.save(folder / "vectors.npy", np.arange(4))
    with sqlite3.connect(folder / "kb.sqlite") as base:
        base.execute("create table t(x)")
    base.close()
    path = list(sys.path)
    yield Session(folder)
    sys.path[:] = path
    for name in [name for name in sys.modules if name.startswith("watched_")]:
        del sys.modules[name]


def new_page(session: Session) -> Callable[[], None]:
    path = session.folder / "pages" / "two.html"
    path.write_text("<p>")
    return path.unlink


def new_row(session: Session) -> Callable[[], None]:
    path = session.folder / "kb.sqlite"
    before = path.read_bytes()
    with sqlite3.connect(path) as base:
        base.execute("insert into t values (1)")
    base.close()
    return lambda: void(path.write_bytes(before))


def variable(name: str) -> Callable[[Session], Callable[[], None]]:
    def change(_: Session) -> Callable[[], None]:
        os.environ[name] = "other"
        return lambda: void(os.environ.pop(name))

    return change


def file(name: str) -> Callable[[Session], Callable[[], None]]:
    return lambda session: session.append(name)


INPUTS: dict[str, tuple[Callable[[Session], Callable[[], None]], set[str]]] = {
    "its own module": (file("watched_rag.py"), {"watched_rag.py"}),
    "a module": (file("watched_pkg/prompts.py"), {"watched_pkg/prompts.py"}),
    "a module imported in a function": (file("watched_pkg/lazy.py"), {"watched_pkg/lazy.py"}),
    "the package": (file("watched_pkg/__init__.py"), {"watched_pkg/__init__.py"}),
    "a data file": (file("data.json"), {"data.json"}),
    "an array": (file("vectors.npy"), {"vectors.npy"}),
    "a mapped file": (file("mapped.bin"), {"mapped.bin"}),
    "a file that a thread reads": (file("thread.txt"), {"thread.txt"}),
    "a database": (new_row, {"kb.sqlite"}),
    "a listed folder": (new_page, {"pages"}),
    "a model that a setting names": (file("model.onnx"), {"model.onnx"}),
    "a corpus that an argument names": (
        file("corpus.jsonl"),
        {"corpus.jsonl"},
    ),
    "a file that only C++ opens": (file("index/faiss.bin"), {"index/faiss.bin", "index"}),
    "a file that a variable names": (
        file("templates/answer.j2"),
        {"templates/answer.j2", "templates"},
    ),
    "a variable": (variable("WATCHED_TONE"), {"WATCHED_TONE"}),
    "a variable read at once": (variable("WATCHED_MODE"), {"WATCHED_MODE"}),
}


def test_nothing_changed_and_nothing_is_reported(session: Session) -> None:
    assert session.changes() == {}
    assert session.origin.reach == "closed"
    assert may_reuse(session.origin, ()) == Reuse(True, False, "")


@pytest.mark.parametrize("name", INPUTS)
def test_any_one_input_counts(session: Session, name: str) -> None:
    back = INPUTS[name][0](session)
    try:
        found = session.changes()
    finally:
        back()
    assert set(found) == INPUTS[name][1]
    assert session.changes() == {}


def test_dates_and_line_ends_and_what_nobody_reads_change_nothing(session: Session) -> None:
    os.utime(session.folder / "model.onnx", (1, 1))
    prompts = session.folder / "watched_pkg" / "prompts.py"
    before = prompts.read_bytes()
    prompts.write_bytes(before.replace(b"\n", b"\r\n"))
    back = session.append("unrelated.txt")
    log = session.append("calls.log")
    assert session.changes() == {}
    for undo in (back, log):
        undo()
    prompts.write_bytes(before)


# --- single things


def watched(folder: Path, *calls: Callable[[], object], **options: Any) -> Origin:
    watch = Watch()
    with watch:
        for call in calls:
            call()
    return Inputs(watch, base=folder, **options).origin("stage")


def names(origin: Origin, *kinds: str) -> set[str]:
    return {part.name for part in origin.parts if part.kind in kinds}


def test_what_is_written_is_not_an_input(tmp_path: Path) -> None:
    cache, text = tmp_path / "cache.json", tmp_path / "text.txt"
    cache.write_text("{}")
    text.write_text("x")
    origin = watched(tmp_path, cache.read_text, text.read_text, lambda: cache.write_text("{1}"))
    assert names(origin, "file") == {"text.txt"}
    assert names(origin, "unseen") == {"cache.json"}
    cache.write_text("{2}")
    assert still_same(origin, tmp_path) == ()


def test_a_file_that_was_not_there_counts_when_it_comes(tmp_path: Path) -> None:
    optional = tmp_path / "settings.local.json"

    def read() -> None:
        with pytest.raises(FileNotFoundError):
            optional.read_text()

    origin = watched(tmp_path, read)
    assert still_same(origin, tmp_path) == ()
    optional.write_text("{}")
    assert [c.sentence for c in still_same(origin, tmp_path)] == [
        "settings.local.json is there now"
    ]


def test_what_changes_while_it_is_used_is_never_the_same(tmp_path: Path) -> None:
    text = tmp_path / "prompts.txt"
    text.write_text("one")
    watch = Watch()
    inputs = Inputs(watch, base=tmp_path)
    with watch:
        text.read_text()
    os.utime(text, (1, 1))  # a date alone is no change, once the content is known
    with watch:
        os.utime(text, (2, 2))
    first = inputs.origin("stage")
    assert [c.sentence for c in still_same(first, tmp_path)] == [
        "prompts.txt changed while it was in use"
    ]


def test_credentials_are_in_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "hush")
    monkeypatch.setenv("BASE", "https://bob:hush@db/x")
    (tmp_path / ".env").write_text("API_KEY=hush\nMODEL=small\n")
    origin = watched(
        tmp_path,
        lambda: os.environ["SERVICE_API_KEY"],
        lambda: os.getenv("BASE"),
        (tmp_path / ".env").read_text,
    )
    assert names(origin, "env") == {"SERVICE_API_KEY", "BASE"}
    assert "hush" not in json.dumps(origin.as_json())
    # A key that is renewed changes no answer.
    monkeypatch.setenv("SERVICE_API_KEY", "other")
    monkeypatch.setenv("BASE", "https://bob:other@db/x")
    (tmp_path / ".env").write_text("API_KEY=other\nMODEL=small\n")
    assert still_same(origin, tmp_path) == ()
    (tmp_path / ".env").write_text("API_KEY=other\nMODEL=large\n")
    monkeypatch.delenv("SERVICE_API_KEY")
    assert [c.sentence for c in still_same(origin, tmp_path)] == [
        "environment variable SERVICE_API_KEY is not set any more",
        ".env changed",
    ]


def test_weights_beside_a_configuration_count(tmp_path: Path) -> None:
    model = tmp_path / "hub" / "reader"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_text("weights")
    origin = watched(tmp_path, (model / "config.json").read_text)
    assert names(origin, "model") == {"hub/reader/model.safetensors"}


def test_programs_and_connections_open_the_reach(tmp_path: Path) -> None:
    origin = watched(tmp_path, lambda: subprocess.run(["true"], check=True))
    assert origin.reach == "open"
    reuse = may_reuse(origin, ())
    assert reuse.allowed and reuse.same_run_only
    assert reuse.because == "it starts the program 'true', whose work cannot be seen"


def connect() -> None:
    import socket

    with socket.socket() as one, pytest.raises(OSError):
        one.connect(("127.0.0.1", 1))


def test_connections_open_the_reach_and_those_that_are_accounted_for_do_not(
    tmp_path: Path,
) -> None:
    def accounted_for() -> None:
        with accounted():
            connect()

    assert watched(tmp_path, accounted_for).reach == "closed"
    origin = watched(tmp_path, connect)
    assert names(origin, "address") == {"127.0.0.1:1"}
    assert may_reuse(origin, ()).because == "it asks 127.0.0.1:1, whose answers may change"


def test_a_package_that_is_imported_counts_by_its_version(session: Session) -> None:
    assert {"numpy", "python"} <= names(session.origin, "package")
    parts = tuple(
        part._replace(digest="0.1") if part.name == "numpy" else part
        for part in session.origin.parts
    )
    (change,) = still_same(session.origin._replace(parts=parts), session.folder)
    assert change.sentence == f"package numpy: 0.1 -> {np.__version__}"


class Counting:
    """Changes itself while it is asked."""

    def __init__(self, power: int = 1) -> None:
        self.power, self.calls, self.cache = power, 0, {"a": 1}
        self.seen: list[str] = []

    def ask(self) -> None:
        self.calls += 1
        self.cache["b"] = 2
        self.seen.append("q")
        self.made_late = 1


# --- what cannot be seen, see docs/reuse.md


# --- content


def test_a_folder_of_chroma_is_the_same_after_it_was_opened(tmp_path: Path) -> None:
    chromadb = pytest.importorskip("chromadb", reason="pip install 'ragbench[chroma]'")

    def opened() -> Any:
        return chromadb.PersistentClient(str(tmp_path / "kb")).get_or_create_collection("docs")

    opened().add(ids=["a"], embeddings=[[0.1, 0.2]], documents=["one"])
    first = folder_content(tmp_path / "kb")
    assert opened().query(query_embeddings=[[0.1, 0.2]], n_results=1)["ids"] == [["a"]]
    assert folder_content(tmp_path / "kb") == first
    opened().upsert(ids=["a"], embeddings=[[0.1, 0.2]], documents=["two"])
    assert folder_content(tmp_path / "kb") != first


def test_what_ragbench_keeps_itself_is_not_an_input_and_other_databases_are(tmp_path: Path) -> None:
    """A cache of answers grows with every run: what the answers came from counts."""
    with ResponseCache(tmp_path / "llm.sqlite"), Journal(tmp_path / "journal.sqlite"):
        pass
    with closing(sqlite3.connect(tmp_path / "own.sqlite")) as db:
        db.execute("CREATE TABLE pages (text TEXT)")
        db.commit()

    asks = SimpleNamespace(
        cache=tmp_path / "llm.sqlite",
        journal=tmp_path / "journal.sqlite",
        own=tmp_path / "own.sqlite",
    )
    origin = Inputs(Watch(), base=tmp_path).origin("generate", asks)
    assert names(origin, "file") == {"own.sqlite"}
