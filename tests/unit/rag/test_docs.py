"""The pages on RAGs: their code runs, gives what it says and is typed; their JSON is understood."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragbench import GenerationResult, PartialBatchError, RetrievalResult
from ragbench.rag.load import http_rag
from tests.cli.runs import ROOT, fenced
from tests.unit.rag.http_server import Answer, Server


def blocks(name: str, language: str = "python") -> list[str]:
    return fenced((ROOT / "docs" / f"{name}.md").read_text("utf-8"), language)


def run(block: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """The names that a block of code leaves, where each `value  # -> expected` was compared."""
    code = re.sub(r"^(\S.*?)  # -> (.*)$", r"assert (\1) == (\2), (\1)", block, flags=re.M)
    if names is None:
        names = {"__name__": "documented"}
    exec(compile(code, "documentation", "exec"), names)
    return names


def test_it_runs_and_gives_what_it_says() -> None:
    example, usage = blocks("advanced_example")
    names = run(example)
    run(usage, names)

    rag = names["NotesRAG"]()
    retrieval = rag.retrieve_with_metadata("How far do bees fly?")
    answer = rag.generate_with_metadata("How far do bees fly?", retrieval.contexts)

    for field in ("context_ids", "scores", "context_metadata", "metadata"):
        assert getattr(retrieval, field) is not None
    for field in ("multi_responses", "confidence", "abstained", "metadata"):
        assert getattr(answer, field) is not None


@pytest.mark.extra("dev", package="mypy")
@pytest.mark.nightly
def test_it_is_typed_and_metadata_of_another_type_is_refused(tmp_path: Path) -> None:
    example, _ = blocks("advanced_example")
    wrong = 'GenerationResult[Took]("a", metadata={"secs": 1.0})\n'
    (tmp_path / "notes.py").write_text(example + wrong)
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\nmypy_path = {ROOT}\ncache_dir = {ROOT / '.mypy_cache' / 'typed'}\n"
        "[mypy-ragbench.*]\nfollow_imports = silent\n"
    )
    command = [sys.executable, "-m", "mypy", "notes.py"]

    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    (error,) = re.findall(r"error: (.*)", process.stdout)
    assert '"secs"' in error or '"metadata"' in error


def test_every_block_runs() -> None:
    migration = blocks("migration")

    assert len(migration) == 15
    for block in migration:
        assert "  # -> " in block
        run(block)


@pytest.fixture
def documented_rag() -> Iterator[Any]:
    """A RAG that asks the server which the page on HTTP shows."""
    (block,) = blocks("http")
    serve = run(block)["serve"]
    with serve(port=0) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        rag: Any = http_rag(f"http://127.0.0.1:{server.server_port}")
        try:
            yield rag
        finally:
            rag.close()
            server.shutdown()
            thread.join()


@pytest.mark.extra("http")
def test_the_server_can_be_asked(documented_rag: Any) -> None:
    retrieval = documented_rag.retrieve_with_metadata("Do bees fly?", top_k=1)
    answer = documented_rag.generate_with_metadata("Do bees fly?", ["Bees fly."])
    without_contexts = documented_rag.generate_with_metadata("Who?", [])

    assert retrieval == RetrievalResult(["Bees fly."], context_ids=["d1"], scores=[2.0])
    assert answer == GenerationResult("Bees fly.", confidence=0.5)
    assert without_contexts.abstained is True


@pytest.mark.extra("http")
def test_the_server_refuses_what_it_cannot_read(documented_rag: Any) -> None:
    contexts_and_a_number: Any = [["Bees fly."], 3]

    with pytest.raises(TypeError):
        documented_rag.batch_generate_with_metadata(["q", "r"], contexts_and_a_number)
    with pytest.raises(PartialBatchError, match="AttributeError"):
        documented_rag.batch_retrieve(["bees", 3])


@pytest.mark.extra("http")
def test_the_json_shown_is_what_the_client_reads(server: Server) -> None:
    page = (ROOT / "docs" / "http.md").read_text("utf-8")
    _, _, own_requests = page.partition("\n## ragbench's own requests\n")
    documents = [json.loads(block) for block in fenced(own_requests, "json")]
    retrieve_request, retrieved, generate_request, generated, in_conversation, failed = documents
    server.then(Answer(retrieved), Answer(generated), Answer(retrieved), Answer(failed))
    rag: Any = http_rag(server.url)

    (retrieval,) = rag.batch_retrieve_with_metadata(["Do bees fly?"])
    (generation,) = rag.batch_generate_with_metadata(["Do bees fly?"], [["Bees fly."]])
    rag.batch_retrieve_with_metadata(["And on Sunday?"], history=in_conversation["history"])
    with pytest.raises(PartialBatchError, match="ValueError: too long"):
        rag.batch_retrieve_with_metadata(["q", "r"])
    rag.close()

    bodies = [request.body for request in server.requests]
    assert bodies[:3] == [retrieve_request, generate_request, in_conversation]
    assert retrieval.to_dict() == retrieved["results"][0]
    assert generation.to_dict() == generated["results"][0]
