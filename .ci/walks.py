"""The functions and files that one question passes, and the options of all commands, as JSON.

Each way is gone twice in this process; the second time is counted, when everything is imported
and compiled. A function counts once however often it is called; lambdas and comprehensions are
not counted, module bodies neither. ``house.py`` runs this in a process of its own.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "cli")]
OURS = (f"{ROOT / 'ragbench'}{os.sep}", f"{ROOT / 'cli'}{os.sep}")

CASE = {
    "id": "1",
    "query": "How many days of leave are there?",
    "reference": "27",
    "reference_context_ids": ["leave"],
}
DUMP = {
    "query": "How many days of leave are there?",
    "chunks": [{"id": "leave", "text": "There are 27 days of paid leave.", "score": 0.9}],
}
RAG = """
from ragbench import GenerationResult, RAGInterface, RetrievalResult


class MyRAG(RAGInterface):
    def retrieve_with_metadata(self, query, top_k=None):
        text = "There are 27 days of paid leave."
        return RetrievalResult(contexts=[text], context_ids=["leave"], scores=[1.0])

    def generate_with_metadata(self, query, contexts):
        return GenerationResult(response="27")
"""


def passed(walk: Callable[[], object], later: int) -> list[CodeType]:
    """The code of ragbench's named functions that run during a call, in any thread.

    The call believes that it is so many seconds later: what depends on how long ago something was
    does not depend on how fast the machine is.
    """
    seen: set[CodeType] = set()

    def see(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    clocks = time.monotonic, time.time, time.time_ns
    time.monotonic = lambda: clocks[0]() + later
    time.time = lambda: clocks[1]() + later
    time.time_ns = lambda: clocks[2]() + later * 10**9
    threading.setprofile(see)
    sys.setprofile(see)
    try:
        walk()
    finally:
        time.monotonic, time.time, time.time_ns = clocks
        sys.setprofile(None)
        threading.setprofile(None)
    return [
        code
        for code in seen
        if code.co_filename.startswith(OURS) and not code.co_name.startswith("<")
    ]


def walks(folder: Path) -> dict[str, Callable[[int], object]]:
    """The three ways, each given how often it was gone before."""
    from my_rag import MyRAG  # pyright: ignore[reportMissingImports]

    from ragbench import evaluate, read_cases
    from ragbench_cli.main import main

    def command(*arguments: str) -> None:
        if status := main(list(arguments)):
            sys.exit(f"ragbench {' '.join(arguments)}: exit {status}")

    return {
        "evaluate": lambda n: evaluate(
            read_cases(folder / "cases.jsonl"), MyRAG(), out=folder / f"evaluate-{n}"
        ),
        "eval": lambda n: command(
            "eval", "cases.jsonl", "--rag", "my_rag:MyRAG", "--out", f"eval-{n}"
        ),
        "validate": lambda _: command("validate", "dump.jsonl", "--validator", "lexical"),
    }


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its options, by its words."""
    import typer.main

    from ragbench_cli.main import app

    program: Any = typer.main.get_command(app)
    for name, listed in program.commands.items():
        command = listed.loaded()
        inner: dict[str, Any] = getattr(command, "commands", {})
        yield from ((f"{name} {second}", inner[second]) for second in inner)
        if not inner:
            yield name, command


def shown_help(name: str, command: Any) -> str:
    """What `--help` of a command prints."""
    from typer.core import TyperCommand

    return str(TyperCommand.get_help(command, command.context_class(command, info_name=name)))


def main() -> None:
    found = list(commands())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases.jsonl").write_text(json.dumps(CASE) + "\n", "utf-8")
        (folder / "dump.jsonl").write_text(json.dumps(DUMP) + "\n", "utf-8")
        (folder / "my_rag.py").write_text(RAG, "utf-8")
        os.chdir(folder)
        sys.path.insert(0, name)
        figures: dict[str, int] = {}
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            for hours, (way, walk) in enumerate(walks(folder).items(), 1):
                # Later, too: what was written just now would be read again, or not, by chance.
                passed(lambda walk=walk: walk(1), later=3600 * hours - 1800)
                codes = passed(lambda walk=walk: walk(2), later=3600 * hours)
                figures[f"{way}_functions"] = len(codes)
                figures[f"{way}_files"] = len({code.co_filename for code in codes})
    figures["options"] = sum(
        parameter.param_type_name == "option"
        for _, command in found
        for parameter in command.params
    )
    figures["help_words"] = max(len(shown_help(*each).split()) for each in found)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
