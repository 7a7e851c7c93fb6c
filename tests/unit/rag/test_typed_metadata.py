"""A user's own metadata type reaches mypy: what it infers is compared with what it should."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TYPED = """
from typing import TypedDict

from ragbench import AsyncRAGInterface, GenerationResult, RAGInterface, RetrievalResult


class Took(TypedDict):
    seconds: float


class Timed(RAGInterface[Took]):
    def retrieve_with_metadata(
        self, query: str, top_k: int | None = None
    ) -> RetrievalResult[Took]:
        return RetrievalResult(["a"], metadata={"seconds": 0.1})

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult[Took]:
        return GenerationResult("a", metadata={"seconds": 0.1})


class Untyped(RAGInterface):
    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return ["a"]

    def generate(self, query: str, contexts: list[str]) -> str:
        return "a"


class Dict(RAGInterface, families=("retrieval",)):
    def retrieve_with_metadata(
        self, query: str, top_k: int | None = None
    ) -> RetrievalResult[dict[str, int]]:
        return RetrievalResult(["a"], metadata={"tokens": 1})


class Later(AsyncRAGInterface[Took]):
    async def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return ["a"]

    async def generate(self, query: str, contexts: list[str]) -> str:
        return "a"


reveal_type(Timed().retrieve_with_metadata("q").metadata)
reveal_type(Timed().batch_generate_with_metadata(["q"], [[]])[0].metadata)
reveal_type(Timed().retrieve("q"))
reveal_type(Untyped().retrieve_with_metadata("q").metadata)
reveal_type(RetrievalResult(["a"], metadata=Took(seconds=1.0)))


async def ask() -> None:
    reveal_type((await Later().generate_with_metadata("q", [])).metadata)


GenerationResult[Took]("a", metadata={"secs": 1.0})
GenerationResult(["a"])
"""

TOOK = "TypedDict(typed.Took, {seconds: float})"
REVEALED = [
    f"{TOOK} | None",
    f"{TOOK} | None",
    "list[str]",
    "Mapping[str, Any] | None",
    f"RetrievalResult[{TOOK}]",
    f"{TOOK} | None",
]


@pytest.mark.nightly
@pytest.mark.extra("dev", package="mypy")
def test_the_metadata_type_is_inferred_and_enforced(tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(TYPED)
    root = Path(__file__).parents[3]
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\nmypy_path = {root}\ncache_dir = {root / '.mypy_cache' / 'typed'}\n"
        "[mypy-ragbench.*]\nfollow_imports = silent\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "typed.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    revealed = [
        re.sub(r"'|\b(builtins|typing|collections\.abc|ragbench\.core\.result)\.", "", found)
        for found in re.findall(r'Revealed type is "(.*)"', run.stdout)
    ]
    assert revealed == REVEALED, run.stdout + run.stderr
    errors = re.findall(r"^typed.py:\d+: error: (.*)", run.stdout, re.MULTILINE)
    assert len(errors) == 2, run.stdout
    assert '"secs"' in errors[0] or '"metadata"' in errors[0]
    assert 'incompatible type "list[str]"; expected "str"' in errors[1]
