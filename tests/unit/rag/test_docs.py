"""The pages on RAGs: their code runs, gives what it says and is typed; their JSON is understood."""

import json
import re
import subprocess
import sys
import threading
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
    code = re.sub(r"^(\S.*?)  # -> (.*)$", r"assert (\1) == (\2), (\1)", block, flags=re.M)
    names = {"__name__": "documented"} if names is None else names
    exec(compile(code, "documentation", "exec"), names)
    return names


def test_it_runs_and_gives_what_it_says() -> None:
    example, usage = blocks("advanced_example")
    names = run(example)
    run(usage, names)

    rag = names["NotesRAG"]()
    found = rag.retrieve_with_metadata("How far do bees fly?")
    for field in ("context_ids", "scores", "context_metadata", "metadata"):
        assert getattr(found, field) is not None
    answer = rag.generate_with_metadata("How far do bees fly?", found.contexts)
    for field in ("multi_responses", "confidence", "abstained", "metadata"):
        assert getattr(answer, field) is not None


@pytest.mark.extra("dev", package="mypy")
@pytest.mark.nightly
def test_it_is_typed_and_metadata_of_another_type_is_refused(tmp_path: Path) -> None:
    wrong = 'GenerationResult[Took]("a", metadata={"secs": 1.0})\n'
    (tmp_path / "notes.py").write_text(blocks("advanced_example")[0] + wrong)
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\nmypy_path = {ROOT}\ncache_dir = {ROOT / '.mypy_cache' / 'typed'}\n"
        "[mypy-ragbench.*]\nfollow_imports = silent\n"
    )
    command = [sys.executable, "-m", "mypy", "notes.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    (error,) = re.findall(r"error: (.*)", done.stdout)
    assert '"secs"' in error or '"metadata"' in error


def test_every_block_runs() -> None:
    every = blocks("migration")
    assert len(every) == 15
    for block in every:
        assert "  # -> " in block
        run(block)


@pytest.mark.extra("http")
def test_the_server_can_be_asked() -> None:
    (block,) = blocks("http")
    with run(block)["serve"](port=0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        server.daemon_threads = True
        thread.start()
        rag: Any = http_rag(f"http://127.0.0.1:{server.server_port}")
        try:
            found = rag.retrieve_with_metadata("Do bees fly?", top_k=1)
            assert found == RetrievalResult(["Bees fly."], context_ids=["d1"], scores=[2.0])
            answer = rag.generate_with_metadata("Do bees fly?", ["Bees fly."])
            assert answer == GenerationResult("Bees fly.", confidence=0.5)
            assert rag.generate_with_metadata("Who?", []).abstained is True
            bad: Any = [["Bees fly."], 3]
            with pytest.raises(TypeError):
                rag.batch_generate_with_metadata(["q", "r"], bad)
            with pytest.raises(PartialBatchError, match="AttributeError"):
                rag.batch_retrieve(["bees", 3])
        finally:
            rag.close()
            server.shutdown()
            thread.join()


@pytest.mark.extra("http")
def test_the_json_shown_is_what_the_client_reads(server: Server) -> None:
    page = (ROOT / "docs" / "http.md").read_text("utf-8")
    _, _, own_requests = page.partition("\n## ragbench's own requests\n")
    shown = [json.loads(block) for block in fenced(own_requests, "json")]
    retrieve_request, retrieved, generate_request, generated, in_conversation, failed = shown
    server.then(Answer(retrieved), Answer(generated), Answer(retrieved), Answer(failed))
    rag: Any = http_rag(server.url)
    (found,) = rag.batch_retrieve_with_metadata(["Do bees fly?"])
    (reported,) = rag.batch_generate_with_metadata(["Do bees fly?"], [["Bees fly."]])
    assert server.requests[0].body == retrieve_request
    assert server.requests[1].body == generate_request
    rag.batch_retrieve_with_metadata(["And on Sunday?"], history=in_conversation["history"])
    assert server.requests[2].body == in_conversation
    assert found.to_dict() == retrieved["results"][0]
    assert reported.to_dict() == generated["results"][0]
    with pytest.raises(PartialBatchError, match="ValueError: too long"):
        rag.batch_retrieve_with_metadata(["q", "r"])
    rag.close()
