"""Installs each extra by itself, in its newest versions, and does the one thing that it is for.

Run from the root of the project, for all extras or for those that are named::

    python .ci/alone.py
    python .ci/alone.py llm excel

Each extra gets an environment of its own, without constraints: what another package happens to
bring along is missing there. Prints a line per extra; the exit code is 1 if one does not work.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = {"all", "dev", "docs", "sentence-transformers"}
"""Not for users, or 2 GB."""

CASES = """
from pathlib import Path
Path("cases.jsonl").write_text(
    '{"query": "When does the pool open?", "reference": "At seven.", "response": "At seven.",'
    ' "retrieved_contexts": ["The pool opens at seven."],'
    ' "reference_contexts": ["The pool opens at seven."]}\\n', "utf-8"
)
"""
EVALUATED = """
from ragbench import evaluate
report = evaluate("cases.jsonl", None, out="run", metrics="{metrics}")
assert all(summary.measured == 1 for summary in report.summaries), report.summaries
"""
READ = """
from ragbench import open_source
with open_source("{name}") as source:
    assert [entry.case.query for entry in source] == ["When does the pool open?"]
"""
SEARCHED = """
from ragbench_cli.main import main
Path("docs").mkdir()
Path("docs/pool.md").write_text("The pool opens at seven.", "utf-8")
assert main(["index", "docs", "--store", "{store}", "--embedder", "hashing", "-q"]) == 0
assert main(["search", "--store", "{store}", "--embedder", "hashing", "pool"]) == 0
"""
SERVER = """
import json, threading
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({answer}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
"""
ASKED_MODEL = """
import subprocess, sys
asked = [sys.executable, "-m", "ragbench_cli", "doctor", "--llm", "--llm-model", "m"]
done = subprocess.run([*asked, "--llm-base-url", f"{url}/v1"], capture_output=True, text=True)
assert "'Paris'" in done.stdout, done
"""
ASKED_RAG = """
from ragbench.rag.load import load_rag
assert load_rag(url).families
"""
WORKBOOK = """
import openpyxl
book = openpyxl.Workbook()
book.active.append(["query", "reference"])
book.active.append(["When does the pool open?", "At seven."])
book.save("cases.xlsx")
"""
PARQUET = """
import pyarrow as pa, pyarrow.parquet as pq
pq.write_table(pa.table({"query": ["When does the pool open?"]}), "cases.parquet")
"""
PAGE = """
Path("docs").mkdir()
Path("docs/pool.html").write_text(
    "<html><body><p>The pool opens at seven on weekdays and at nine on Sundays.</p></body></html>",
    "utf-8",
)
from ragbench import read_documents
assert "seven" in next(iter(read_documents("docs"))).text
"""
EMBEDDED = """
from ragbench_cli.main import main
Path("docs").mkdir()
Path("docs/pool.md").write_text("The pool opens at seven.", "utf-8")
assert main(["index", "docs", "--store", "memory:store", "--embedder", "{embedder}", "-q"]) == 0
"""
PURPOSES = {
    "documents": CASES + PAGE,
    "embeddings": CASES + EMBEDDED.replace("{embedder}", "english"),
    "excel": WORKBOOK + READ.format(name="cases.xlsx"),
    "hf": PARQUET + READ.format(name="cases.parquet"),
    "http": SERVER.replace("{answer}", '{"answer": "At seven."}') + ASKED_RAG,
    "llm": SERVER.replace(
        "{answer}",
        '{"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": '
        '[{"index": 0, "finish_reason": "stop", "message": '
        '{"role": "assistant", "content": "Paris"}}]}',
    )
    + ASKED_MODEL,
    "qdrant": CASES + SEARCHED.replace("{store}", "qdrant:store"),
    "ragas": CASES + EVALUATED.format(metrics="ragas:exact_match"),
    "remote": CASES
    + READ.format(name="{place}").replace('"{place}"', 'Path("cases.jsonl").resolve().as_uri()'),
    "text": CASES + EVALUATED.format(metrics="rouge"),
}
"""What each extra is for. Of the others the packages are imported that ragbench imports for it."""


def required(extra: str) -> list[str]:
    """The modules that ragbench imports for an extra."""
    modules: set[str] = set()
    for path in (ROOT / "ragbench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "require":
                continue
            module, keyword = node.args[0], node.keywords[0].value
            names = isinstance(keyword, ast.Constant) and keyword.value == extra
            if names and isinstance(module, ast.Constant):
                modules.add(str(module.value))
    return sorted(modules)


def script_of(extra: str) -> str:
    """A program that imports what an extra needs, and uses it."""
    imports = "".join(f"import {module}\n" for module in required(extra))
    return f"{imports}{PURPOSES.get(extra, '')}"


def tried(extra: str, folder: Path) -> str:
    """Installs an extra and runs its program; returns what went wrong, or nothing."""
    environment = folder / "environment"
    python = environment / "bin" / "python"
    target = f"{ROOT}[{extra}]"
    steps: list[list[str]] = [
        [sys.executable, "-m", "venv", str(environment)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", target],
        [str(python), "-W", "ignore", "-c", script_of(extra)],
    ]
    for step in steps:
        done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
            return lines[-1] if lines else f"exit code {done.returncode}"
    return ""


def main() -> int:
    """Tries the extras that are named, or all."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = sys.argv[1:] or sorted(set(project["optional-dependencies"]) - LEFT_OUT)
    failed = 0
    for extra in extras:
        with tempfile.TemporaryDirectory(prefix=f"ragbench-{extra}-") as folder:
            problem = tried(extra, Path(folder))
        failed += bool(problem)
        print(f"{extra:<16}{problem or 'works'}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
