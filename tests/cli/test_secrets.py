"""Twenty credentials, planted wherever one may lie: no file and no stream holds any of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ragbench_cli.main import COMMANDS
from tests.cli.runs import Ragbench
from tests.llm_server import FaultServer, Payload, said_by_default

PLANTED = {
    "OPENAI_API_KEY": "sk-proj-0a1b2c3d4e5f6g7h8i9j",
    "ANTHROPIC_API_KEY": "sk-ant-api03-zYxWvUtSrQpO",
    "GEMINI_API_KEY": "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "OPENROUTER_API_KEY": "sk-or-v1-fedcba9876543210",
    "HF_TOKEN": "hf_abcdefghijklmnopqrstuv",
    "GITHUB_TOKEN": "ghp_abcdefghijklmnopqrstuvwxyz012345",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AZURE_OPENAI_AD_TOKEN": "eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDB9.c2lnbmVkMTIz",
    "PGPASSWORD": "s3cr3t_pw!",
    "SMTP_PASSWORD": "quo\"te\\back`slash<&>'x1",
    "VAULT_PASSPHRASE": "correcthorsebatterystaple",
    "MY_SERVICE_SECRET": "Grüße-aus-Köln-42",
    "SLACK_BOT_TOKEN": "xoxb-1234567890-abcdefghij",
    "GATEWAY_KEY": "gw_live_key_77777",
    "SESSION_COOKIE": "sess-a1b2c3d4",
    "DEPLOY_CREDENTIALS": "user=x;pass=Zq9Zq9Zq9",
    "RAGBENCH_LLM_API_KEY": "sk-judge-11112222333344445555",
}
URL_PASSWORD = "Tr0ub4dor&3x"
IN_ARGUMENTS = "argument-token-90210"
IN_FILE = "file-key-0123456789abcdef"
SECRETS = (*PLANTED.values(), URL_PASSWORD, IN_ARGUMENTS, IN_FILE)

LEAKY = '''
import json, os, sys
from ragbench import RAGInterface, GenerationResult, RetrievalResult

def told():
    url = os.environ["DATABASE_URL"]
    return [*(os.environ[n] for n in sorted(os.environ) if n in NAMES), url, *GIVEN]

NAMES = set(json.loads(os.environ["PLANTED_NAMES"]))
GIVEN = []


class Leaky(RAGInterface):
    """Puts every credential that it knows of everywhere."""

    def __init__(self, config=None, **options):
        GIVEN[:] = [json.dumps(options), options["nested"]["api_key"]]
        self.options = options
        print("made with", *told())
        print("made with", *told(), file=sys.stderr)

    def retrieve(self, query, top_k=None):
        if "desk" in query:
            try:
                raise ConnectionError(" ".join(told()))
            except ConnectionError as error:
                raise RuntimeError(f"auth failed for {told()}") from error
        texts = [f"Everyone has 27 days. {secret}" for secret in told()]
        return RetrievalResult(
            texts, context_ids=[f"d{n} {s}" for n, s in enumerate(told())],
            context_metadata=[{"source": s, s: 1} for s in told()],
        )

    def generate(self, query, contexts):
        return GenerationResult("27 days " + " ".join(told()), metadata={"used": told()})
'''


@pytest.fixture(autouse=True)
def _planted(monkeypatch: pytest.MonkeyPatch, workplace: Path) -> None:
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    for name, value in PLANTED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DATABASE_URL", f"postgres://bob:{quote(URL_PASSWORD)}@db.example/rag")
    monkeypatch.setenv("PLANTED_NAMES", json.dumps(sorted(PLANTED)))
    (workplace / "leaky.py").write_text(LEAKY, "utf-8")


def echo(payload: Payload) -> str:
    """A judge that repeats all it has read, credentials included."""
    text = said_by_default(payload)
    if not text.startswith("{"):
        return f"ready {' '.join(PLANTED.values())}"
    answer = json.loads(text)
    if "reason" in answer:
        answer["reason"] = payload["messages"][-1]["content"][:6_000]
    return json.dumps(answer)


def forms(secret: str) -> set[bytes]:
    """How a writer may have put it down."""
    texts = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    texts |= {repr(secret)[1:-1], quote(secret, safe=""), quote(secret), secret.replace('"', '""')}
    return {text.encode() for text in texts}


def leaks(data: bytes) -> list[str]:
    return [secret for secret in SECRETS if any(form in data for form in forms(secret))]


def texts_of(path: Path) -> Iterator[bytes]:
    """The bytes of a file; of a compressed table its cells, too."""
    yield path.read_bytes()
    if path.suffix in (".parquet", ".arrow"):
        pa: Any = pytest.importorskip("pyarrow")
        if path.suffix == ".parquet":
            table = pytest.importorskip("pyarrow.parquet").read_table(path)
        else:
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_stream(source).read_all()
        yield repr(table.to_pydict()).encode()


LEAK = " ".join(SECRETS)
FILES = {
    "variants.yaml": "variants: [{name: first, operators: [{action: filter, type: top_k, k: 1}]}]",
    "documents.jsonl": json.dumps({"id": f"d {LEAK}", "text": "27 days", "title": LEAK}) + "\n",
    "verdict-labels.jsonl": json.dumps({"query": LEAK, "chunks": [LEAK], "label": LEAK}) + "\n",
    "ragbench.yaml": "llm: {model: m, headers: {X-Gateway-Key: '${GATEWAY_KEY}'},"
    " price_input: 1, price_output: 2}",
    "labels.jsonl": json.dumps({"claim": "27 days", "evidence": [LEAK], "label": True}) + "\n",
    "dump.jsonl": json.dumps(
        {
            "query": f"How? {SECRETS[0]}",
            "chunks": [{"id": f"d{n}", "text": f"27 days {s}"} for n, s in enumerate(SECRETS)],
        }
    ),
    "rag.yaml": "indexing:\n  corpus: documents.jsonl\ngeneration: extractive\n",
}
ARGUMENTS = json.dumps({"nested": {"api_key": IN_ARGUMENTS, "x": PLANTED["OPENAI_API_KEY"]}})
EVAL = ("eval", "office", "--rag", "leaky.py:Leaky", "--rag-args", ARGUMENTS)


@pytest.mark.extra("llm")
@pytest.mark.extra("hf")
def test_no_file_and_no_stream_holds_a_credential(ragbench: Ragbench, workplace: Path) -> None:
    (workplace / "key.txt").write_text(IN_FILE, "utf-8")
    given = {path for path in workplace.rglob("*") if path.is_file()}
    streams: list[tuple[str, str]] = []
    for name, text in FILES.items():
        (workplace / name).write_text(text, "utf-8")
        given.add(workplace / name)

    def call(*arguments: str, code: int = 0) -> None:
        done = ragbench(*arguments)
        streams.extend(((arguments[0], done.out), (arguments[0], done.err)))
        assert done.code == code, (arguments, done.code, done.out[-700:], done.err[-500:])

    with FaultServer(say=echo) as server:
        model = ("--llm-base-url", server.url)
        judged = (*model, "-m", "token_f1,recall@3,support", "--validate", "llm")
        for out in ("a", "b"):
            call(*EVAL, "--out", out, *judged, "--seed", "1" if out == "a" else "2")
        call(*EVAL, "--out", "a", *judged, "--json")
        call(*EVAL, "--out", "a", *judged, "--retry-failed")
        call(*EVAL, "--out", "c", *judged, "--llm-api-key-file", "key.txt")
        call(*EVAL, "--out", "d", "-m", "support", *model, "--dry-run")
        call("doctor", "--llm", *model, "--rag", "leaky.py:Leaky", "--rag-args", ARGUMENTS)
        call("doctor", "--rag", "leaky.py:Leaky", "--rag-args", ARGUMENTS, "--question",
             "desk?", code=2)  # fmt: skip
        call("judge-card", "labels.jsonl", *model)
        call("judge-card", "labels.jsonl", *model, "--json")
        for more in ((), ("--json",), ("--out", "verdicts.jsonl"), ("--validator", "llm", *model)):
            call("validate", "dump.jsonl", *more)
        judges = ("--panel", "second", "--canaries", "2")
        call(*EVAL, "--out", "g", "-m", "support", *model, *judges)
        call("calibrate", "verdict-labels.jsonl", "--validator", "llm", *model, code=2)
        call("eval", "office", "--pipeline", "rag.yaml", "--out", "h", "-m", "token_f1")
        call("doctor", "--pipeline", "rag.yaml")
    with FaultServer(key="another", say=echo) as server:  # refuses the key and quotes it
        call(*EVAL, "--out", "e", "-m", "support", "--llm-base-url", server.url, code=2)
        call("--traceback", *EVAL, "--out", "e", "-m", "support", "--llm-base-url", server.url,
             code=2)  # fmt: skip
    ablate = "ablate a --variants variants.yaml -m recall@1"
    for command in ("report a", "cases a", "explain a", "explain a c1", "compare a b", ablate):
        call(*command.split())
        call(*command.split(), "--json")
    call("eval", "a", "--out", "i", "-m", "token_f1")
    call("eval", "export.jsonl", "--out", "k", code=2)
    call("validate", "a", "--out", "run-verdicts.jsonl", code=1)
    for name in ("jsonl", "csv", "ragas", "parquet", "hf"):
        call("export", "a", "--to", name, "--out", f"export.{name}")
    call("baseline", "set", "a", "--out", "baseline.json")
    call("gate", "b", "--baseline", "a", "--md", "gate.md", "--junit", "gate.xml", code=1)
    call("gate", "b", "--baseline", "baseline.json", "--json", code=1)
    call("compare", "a", "b", "--md", "compare.md")
    call("baseline", "show", "baseline.json")
    for added in ("a", "b"):
        call("baseline", "add", added, "--out", "main.json")
    call("history", "main.json")
    call("history", "main.json", "--json")
    call("report", "b", "--against", "a", "--html", "against.html")
    call(*EVAL, "--out", "l", "-m", "token_f1", "--rag-repeats", "2")
    call("cache", "stats")
    call("cache", "prune", "--unused-days", "1")
    call("init", "project")
    call("index", "documents.jsonl", "--store", "memory:store")
    call("search", f"days {SECRETS[0]}", "--store", "memory:store", "--strategy", "sparse")
    call("tune", "memory:store", "--questions", "office", code=2)
    call("show", "metrics")
    call("index", "office", "--store", f"postgres://bob:{URL_PASSWORD}@127.0.0.1:1/x", code=2)
    call("search", "q", "--store", f"qdrant:http://bob:{URL_PASSWORD}@127.0.0.1:1", code=2)
    call("eval", "office", "--rag", f"http://bob:{URL_PASSWORD}@127.0.0.1:1/", "--out", "f",
         "--rag-args", '{"retries": 0}', code=2)  # fmt: skip
    call("eval", "office", "--rag", "leaky.py:Nothing", "--rag-args", ARGUMENTS, code=2)

    # A new command is called above, too.
    assert {name for name, _ in streams} - {"--traceback"} == set(COMMANDS)
    written = [path for path in workplace.rglob("*") if path.is_file() and path not in given]
    # A store of chunks is the user's documents, as they are.
    own = {"__pycache__", "store"}
    written = [path for path in written if own.isdisjoint(path.relative_to(workplace).parts)]
    found = {str(path): leaks(data) for path in written for data in texts_of(path) if leaks(data)}
    shown = {name: leaks(text.encode("utf-8", "replace")) for name, text in streams}
    assert (found, {name: seen for name, seen in shown.items() if seen}) == ({}, {})
    # Otherwise nothing was tried.
    assert len(SECRETS) == 20 and len(streams) >= 60 and len(written) >= 30
    marks = (b"***", rb"\*\*\*")
    masked = [path for path in written if any(mark in path.read_bytes() for mark in marks)]
    assert {path.name for path in masked} >= {
        "journal.sqlite", "report.json", "report.md", "cases.csv", "judgements.jsonl",
        "manifest.json", "export.jsonl", "export.csv", "export.ragas", "llm-cache.sqlite",
    }  # fmt: skip
