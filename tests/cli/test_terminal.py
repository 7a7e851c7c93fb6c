"""Texts of others act on no terminal: every command, on a pseudo-terminal."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ragbench_cli.main import COMMANDS, main
from tests.cli.runs import lines
from tests.llm_server import FaultServer, Payload, said_by_default

if sys.platform == "win32":
    pytest.skip("no pseudo-terminals", allow_module_level=True)

ATTACKS = (
    "\x1b[2J\x1b[H", "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\", "\x1b]0;owned\x07",
    "\x1b[8mhidden", "\x9b31m", "\x1bP1;2|x\x1b\\", "real\rPASSED", "ab\x08\x08ok", "\u202eevil",
    "\u2066iso\u2069", "\x7fdel", "\u2028line",
)  # fmt: skip
EVIL = "".join(ATTACKS)
ACTS = re.compile("\x1b|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[2K|\x1b\[1A|\x1b\[\?25[lh]|\r\n|\r")
"""Colours, and how rich draws bars. A terminal makes a carriage return of each line's end."""
RAG = f"""
from ragbench import RAGInterface, RetrievalResult

EVIL = {EVIL!r}


class Evil(RAGInterface):
    def retrieve(self, query, top_k=None):
        if "desk" in query:
            raise RuntimeError(f"gone {{EVIL}}")
        texts = [f"27 days of leave {{EVIL}}", "x"]
        return RetrievalResult(texts, context_ids=[f"leave{{EVIL}}", "x"])

    def generate(self, query, contexts):
        return f"27 days {{EVIL}}"
"""


VARIANTS = f"""
variants:
  - name: {json.dumps(f"first {EVIL}")}
    operators: [{{action: filter, type: top_k, k: 1}}]
"""


@pytest.fixture
def terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Calls a command on a terminal and gives what that was sent."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def call(*arguments: str) -> str:
        primary, secondary = os.openpty()
        sent: list[bytes] = []

        def read() -> None:
            try:
                while block := os.read(primary, 65_536):
                    sent.append(block)
            except OSError:  # how Linux says that the other side is closed
                return

        reader = threading.Thread(target=read)
        reader.start()
        with (
            open(secondary, "w", encoding="utf-8", errors="backslashreplace") as screen,  # noqa: PTH123
            monkeypatch.context() as patch,
        ):
            patch.setattr(sys, "stdout", screen)
            patch.setattr(sys, "stderr", screen)
            assert screen.isatty()
            main(arguments)
            screen.flush()
        reader.join()
        os.close(primary)
        return b"".join(sent).decode("utf-8", "replace")

    return call


def say(payload: Payload) -> str:
    text = said_by_default(payload)
    if not text.startswith("{"):
        return f"ready {EVIL}"
    answer = json.loads(text)
    if "reason" in answer:
        answer["reason"] = EVIL
    return json.dumps(answer)


def test_no_text_acts_on_the_terminal(
    terminal: Callable[..., str], workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    (workplace / "evil.py").write_text(RAG, "utf-8")
    cases = [
        {"id": f"leave{EVIL}", "query": f"How many days? {EVIL}", "reference": f"27 days {EVIL}",
         "reference_context_ids": [f"leave{EVIL}"], "tags": [f"t{EVIL}"], "cluster": EVIL},
        {"id": "desk", "query": f"When is the desk open? {EVIL}", "reference": "8"},
        {"id": "again", "query": "How many days are there?", "reference": "27 days"},
    ]  # fmt: skip
    lines("cases.jsonl", cases)
    chunks = [{"id": f"c{EVIL}", "text": f"27 days of leave. {EVIL}", "score": 0.5}]
    dump = {"query_id": EVIL, "query": f"How many days of leave? {EVIL}", "chunks": chunks}
    (workplace / "dump.jsonl").write_text(f"{json.dumps(dump)}\n{EVIL}\n", "utf-8")
    claim = {"claim": EVIL, "evidence": [EVIL], "label": True, "id": EVIL}
    lines("labels.jsonl", [claim])
    document = {"id": f"d{EVIL}", "text": f"27 days of leave {EVIL}", "title": EVIL}
    lines("docs.jsonl", [document])
    answer = {"id": f"leave{EVIL}", "user_input": f"How many? {EVIL}", "response": f"27 {EVIL}"}
    lines("answers.jsonl", [answer])
    (workplace / "rag.yaml").write_text("indexing: {corpus: docs.jsonl}\n", "utf-8")
    (workplace / f"bad{EVIL[:6]}.yaml").write_text(f"x: [{EVIL!r}", "utf-8")
    (workplace / "variants.yaml").write_text(VARIANTS, "utf-8")
    # A worse answer to the first case, for what changes between runs.
    worse = RAG.replace("27 days {{EVIL}}", "no idea {{EVIL}}").replace('f"27 days {', 'f"none {')
    (workplace / "worse.py").write_text(worse, "utf-8")
    run = ("cases.jsonl", "--rag", "evil.py:Evil", "-m", "token_f1,recall@3,support")
    screens: dict[tuple[str, ...], str] = {}

    with FaultServer(say=say) as server:
        model = ("--llm-base-url", server.url, "--llm-model", f"m{EVIL[:3]}")
        for command in (
            ("eval", *run, "--out", "a", *model, "--validate", "lexical"),
            ("eval", "cases.jsonl", "--rag", "worse.py:Evil", "-m", "token_f1,recall@3,support",
             "--out", "b", *model),
            ("eval", *run, "--out", "a", *model, "--json"),
            ("eval", *run, "--out", "c", *model, "--dry-run"),
            ("judge-card", "labels.jsonl", *model),
            ("doctor", "--llm", *model, "--rag", "evil.py:Evil", "--question", f"desk {EVIL}"),
            ("eval", *run, "--out", "d", *model, "--panel", f"p{EVIL[:3]}", "--canaries", "2"),
            ("eval", "answers.jsonl", "--out", "r"),
            ("eval", "cases.jsonl", "--answers", "answers.jsonl", "--out", "j"),
            ("eval", "cases.jsonl", "--pipeline", "rag.yaml", "--out", "p"),
            ("doctor", "--pipeline", "rag.yaml"),
            ("validate", "dump.jsonl"),
            ("validate", "a", "--out", "verdicts.jsonl"),
            ("validate", "dump.jsonl", "--json"),
            ("validate", "dump.jsonl", "--validator", "llm", *model),
            ("report", "a"),
            ("report", "a", "--json"),
            ("cases", "a"),
            ("cases", "a", "--tag", f"t{EVIL}", "--worst", "token_f1"),
            ("explain", "a"),
            ("explain", "a", f"leave{EVIL}"),
            ("explain", "a", f"{EVIL}"),
            ("gate", "b", "--baseline", "a"),
            ("gate", "b", "--baseline", "a", "--json"),
            ("compare", "a", "b"),
            ("compare", "a", "b", "--json"),
            ("baseline", "set", "a", "--out", "base.json"),
            ("baseline", "show", "base.json"),
            ("baseline", "add", "a", "--out", "main.json"),
            ("history", "main.json"),
            ("report", "b", "--against", "a", "--html", "against.html"),
            ("eval", "cases.jsonl", "--rag", "evil.py:Evil", "-m", "token_f1", "--out", "t",
             "--rag-repeats", "2"),
            ("ablate", "a", "--variants", "variants.yaml", "-m", "recall@1"),
            ("export", "a", "--to", "jsonl", "--out", "x.jsonl"),
            ("index", "docs.jsonl", "--store", "memory:store"),
            ("search", f"leave {EVIL}", "--store", "memory:store"),
            ("tune", "memory:store", "--questions", "cases.jsonl"),
            ("search", f"leave {EVIL}", "--store", "memory:store", "--json"),
            ("calibrate", "dump.jsonl"),
            ("cache", "stats"),
            ("cache", "prune", "--unused-days", "1"),
            ("init", "project"),
            ("show", "metrics", EVIL),
            ("show", EVIL),
            ("init", f"{EVIL[:4]}/x"),
            ("eval", f"missing{EVIL}.jsonl"),
            ("eval", "cases.jsonl", "--rag", f"{EVIL}:x"),
            ("eval", "cases.jsonl", "--config", f"bad{EVIL[:6]}.yaml", "-m", "support"),
            ("--traceback", "eval", "cases.jsonl", "--rag", f"evil.py:{EVIL}"),
            (EVIL,),
        ):  # fmt: skip
            screens[command] = terminal(*command)

    # A new command comes into the list above.
    assert {command[0] for command in screens} >= set(COMMANDS)
    acting = {
        command: sorted({ascii(sign) for sign in ACTS.findall(OURS.sub("", screen))})
        for command, screen in screens.items()
        if ACTS.search(OURS.sub("", screen)) or "\rPASSED" in screen or "\x1b[8m" in screen
    }
    assert acting == {}
    # Otherwise nothing was tried: most commands had such a text to show, and showed it spelled.
    spelled = [command for command, text in screens.items() if "\\u001b" in text or "\\x1b" in text]
    assert len(spelled) >= 20, spelled
    assert any("\x1b[" in screen for screen in screens.values())  # colours are still there
