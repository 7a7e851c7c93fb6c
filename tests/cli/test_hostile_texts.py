"""Credentials, and letters that act, planted wherever a text may come from: every command.

On a terminal no such letter acts, and neither it nor any file that is written shows a credential.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ragbench_cli.main import COMMANDS, main
from tests.cli.runs import lines, own_rag, sent_to
from tests.llm_server import FaultServer, Payload, said_by_default

if sys.platform == "win32":
    pytest.skip("no pseudo-terminals", allow_module_level=True)

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
ATTACKS = (
    "\x1b[2J\x1b[H",
    "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\x1b]0;owned\x07",
    "\x1b[8mhidden",
    "\x9b31m",
    "\x1bP1;2|x\x1b\\",
    "real\rPASSED",
    "ab\x08\x08ok",
    "\u202eevil",
    "\u2066iso\u2069",
    "\x7fdel",
    "\u2028line",
)
EVIL = "".join(ATTACKS)
ACTS = re.compile("\x1b|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[2K|\x1b\[1A|\x1b\[\?25[lh]|\r\n|\r")
"""Colours, and how rich draws bars. A terminal makes a carriage return of each line's end."""
BAD = f"{' '.join(SECRETS)} {EVIL}"

RAG = f'''
import json, os, sys
from ragbench import RAGInterface, GenerationResult, RetrievalResult

EVIL = {EVIL!r}
NAMES = {sorted(PLANTED)!r}
GIVEN = []


def told():
    return [*map(os.environ.__getitem__, NAMES), os.environ["DATABASE_URL"], *GIVEN]


class Leaky(RAGInterface):
    """Puts every credential that it knows of everywhere, with letters that act."""

    answer = "27 days"

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
                raise RuntimeError(f"auth failed for {{told()}} {{EVIL}}") from error
        said = ["", *told()]
        return RetrievalResult(
            [f"Everyone has 27 days. {{secret}} {{EVIL}}" for secret in said],
            context_ids=[f"d{{n}} {{s}} {{EVIL}}" for n, s in enumerate(said)],
            context_metadata=[{{"source": s, s: EVIL}} for s in said],
        )

    def generate(self, query, contexts):
        said = [self.answer, *told(), EVIL]
        return GenerationResult(" ".join(said), metadata={{"used": told()}})


class Worse(Leaky):
    answer = "no idea"
'''
CASES: list[dict[str, Any]] = [
    {
        "id": f"leave {EVIL}",
        "query": f"How many days? {EVIL}",
        "reference": f"27 days {EVIL}",
        "reference_context_ids": [f"d0  {EVIL}"],
        "tags": [f"t{EVIL}"],
        "cluster": EVIL,
    },
    {"id": "desk", "query": f"When is the desk open? {EVIL}", "reference": "8"},
    {"id": "again", "query": "How many days are there?", "reference": "27 days"},
]
CHUNKS = [
    {"id": f"d{n} {EVIL}", "text": f"27 days of leave {s} {EVIL}"} for n, s in enumerate(SECRETS)
]
ROWS: dict[str, list[Any]] = {
    "cases.jsonl": CASES,
    "documents.jsonl": [{"id": f"d {BAD}", "text": "27 days of leave", "title": BAD}],
    "answers.jsonl": [{"id": CASES[0]["id"], "query": CASES[0]["query"], "response": BAD}],
    "dump.jsonl": [{"query_id": EVIL, "query": f"How? {SECRETS[0]} {EVIL}", "chunks": CHUNKS}],
    "verdict-labels.jsonl": [{"query": BAD, "chunks": [BAD], "label": BAD}],
    "people.jsonl": [{"question": EVIL, "answer": BAD, "metric": BAD, "value": 1, "by": EVIL}],
    "broken.jsonl": [{"question": EVIL, "answer": BAD, "value": BAD, EVIL: BAD}],
    "labels.jsonl": [{"claim": f"27 {EVIL}", "evidence": [BAD], "label": True, "id": EVIL}],
}
FILES = {
    "variants.yaml": f"variants: [{{name: {json.dumps(f'first {EVIL}')}, operators: "
    "[{action: filter, type: top_k, k: 1}]}]",
    "ragbench.yaml": "llm: {headers: {X-Gateway-Key: '${GATEWAY_KEY}'}, price_input: 1,"
    " price_output: 2}",
    "rag.yaml": "indexing:\n  corpus: documents.jsonl\ngeneration: extractive\n",
    f"bad{EVIL[:6]}.yaml": f"x: [{EVIL!r}",
    "key.txt": IN_FILE,
    "leaky.py": RAG,
}
# Exit code, command; braces hold what is tried in turn, `WORDS` what a word in capitals stands for.
JUDGED = """
0 eval RAG --out a MODEL METRICS --validate llm --seed 1
0 eval cases.jsonl --rag leaky.py:Worse --rag-args ARGUMENTS --out b MODEL METRICS
0 eval RAG --out a MODEL METRICS {--json,--retry-failed}
0 eval RAG --out c MODEL METRICS --llm-api-key-file key.txt
0 eval RAG MODEL -m support {--out d --dry-run,--out g --panel PANEL --canaries 2}
0 doctor --llm MODEL --rag leaky.py:Leaky --rag-args ARGUMENTS
2 doctor --llm MODEL --rag leaky.py:Leaky --rag-args ARGUMENTS --question DESK
1 judge-card labels.jsonl MODEL {,--json}
1 validate dump.jsonl {,--json,--out verdicts.jsonl,--validator llm MODEL}
2 calibrate verdict-labels.jsonl --validator llm MODEL
"""
REFUSED = """
2 {,--traceback} eval RAG --out e MODEL -m support
2 eval cases.jsonl --config BAD_FILE -m support
2 doctor --llm MODEL
"""
PLAIN = """
0 eval answers.jsonl --out r
0 eval cases.jsonl {--answers answers.jsonl --out j,--pipeline rag.yaml --out h -m token_f1}
0 doctor --pipeline rag.yaml
0 report a {,--json}
0 cases a {,--tag TAG --worst token_f1}
0 explain a {,--json,ID}
2 explain a EVIL
0 compare a b {,--json,--md compare.md}
0 ablate a --variants variants.yaml -m recall@1 {,--json}
0 eval a --out i -m token_f1
2 eval export.jsonl --out k
1 validate a --out run-verdicts.jsonl
0 export a {--to jsonl --out export.jsonl,--to csv --out export.csv,--to hf --out export.hf}
0 export a {--to ragas --out export.ragas,--to parquet --out export.parquet,--to labels}
0 baseline set a --out baseline.json
0 gate b {--baseline a --md gate.md --junit gate.xml,--baseline baseline.json --json}
0 baseline show baseline.json
0 baseline add {a,c} --out main.json
0 history main.json {,--json}
0 label b --against a -m token_f1 -n 4 --page label.html -o said.jsonl
0 report b --against a --html against.html
0 label b --against a -m token_f1 --page label.html --show-judge -o said.jsonl
0 report a --labels people.jsonl
2 report a --labels broken.jsonl
0 eval RAG --out l -m token_f1 --rag-repeats 2
0 cache {stats,prune --unused-days 1}
0 init {project,EVIL/x}
0 index documents.jsonl --store memory:store --embedder hashing
0 search LEAVE --store memory:store {--strategy sparse,--json}
2 tune-search memory:store --questions cases.jsonl
2 fidelity cases.jsonl --real cases.jsonl --corpus documents.jsonl --embedder none
0 why memory:store LEAVE --gold EVIL
0 show metrics
2 show EVIL
2 index documents.jsonl --store POSTGRES
2 search q --store QDRANT
2 eval cases.jsonl {--rag HTTP --out f,--rag leaky.py:Nothing --rag-args ARGUMENTS}
2 --traceback eval cases.jsonl --rag leaky.py:EVIL
2 eval missingEVIL.jsonl
2 EVIL
"""
NESTED = {"api_key": IN_ARGUMENTS, "x": PLANTED["OPENAI_API_KEY"]}
ARGUMENTS = json.dumps({"nested": NESTED})
WORDS = {
    "RAG": ["cases.jsonl", "--rag", "leaky.py:Leaky", "--rag-args", ARGUMENTS],
    "ARGUMENTS": [ARGUMENTS],
    "METRICS": ["-m", "token_f1,recall@3,support"],
    "PANEL": [f"p{EVIL[:3]}"],
    "DESK": [f"desk {EVIL}"],
    "TAG": [f"t{EVIL}"],
    "ID": [f"leave {EVIL}"],
    "LEAVE": [f"leave {SECRETS[0]} {EVIL}"],
    "BAD_FILE": [f"bad{EVIL[:6]}.yaml"],
    "POSTGRES": [f"postgres://bob:{URL_PASSWORD}@127.0.0.1:1/x"],
    "QDRANT": [f"qdrant:http://bob:{URL_PASSWORD}@127.0.0.1:1"],
    "HTTP": [f"http://bob:{URL_PASSWORD}@127.0.0.1:1/", "--rag-args", '{"retries": 0}'],
}


def each(table: str) -> Iterator[str]:
    """The lines of a table, one for each of the words that a line has in braces."""
    for line in table.strip().splitlines():
        before, _, behind_brace = line.partition("{")
        words, _, after = behind_brace.partition("}")
        for word in words.split(","):
            yield f"{before}{word}{after}"


@pytest.fixture(autouse=True)
def _planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PLANTED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DATABASE_URL", f"postgres://bob:{quote(URL_PASSWORD)}@db.example/rag")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for file, rows in ROWS.items():
        lines(file, rows)
    with Path("dump.jsonl").open("a", encoding="utf-8") as dump:
        dump.write(f"{EVIL}\n")
    for file, text in FILES.items():
        Path(file).write_text(text, "utf-8")


@pytest.fixture
def terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Calls a command on a terminal and gives its exit code, and what that was sent."""

    def call(*arguments: str) -> tuple[int, str]:
        primary, secondary = os.openpty()
        with (
            ThreadPoolExecutor() as threads,
            open(secondary, "w", encoding="utf-8", errors="backslashreplace") as screen,  # noqa: PTH123
            monkeypatch.context() as patch,
        ):
            patch.setattr(sys, "stdout", screen)
            patch.setattr(sys, "stderr", screen)
            assert screen.isatty()
            sent = threads.submit(sent_to, primary)
            code = main(arguments)
            screen.flush()
        return code, sent.result().decode("utf-8", "replace")

    return call


def echo(payload: Payload) -> str:
    """A judge that repeats all it has read, credentials included."""
    text = said_by_default(payload)
    if not text.startswith("{"):
        return f"ready {' '.join(PLANTED.values())} {EVIL}"
    answer = json.loads(text)
    if "reason" in answer:
        prompt = payload["messages"][-1]["content"]
        answer["reason"] = f"{EVIL} {prompt[:6_000]}"
    return json.dumps(answer)


def leaks(data: bytes) -> list[str]:
    """The credentials that data hold, in any form in which a writer may have put them down."""
    leaked: list[str] = []
    for secret in SECRETS:
        forms = {
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            repr(secret)[1:-1],
            quote(secret, safe=""),
            quote(secret),
            secret.replace('"', '""'),
        }
        if any(form.encode() in data for form in forms):
            leaked.append(secret)
    return leaked


def files_of(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def acting_on_terminal(screens: dict[str, str]) -> dict[str, list[str]]:
    """The screens on which more acts than our own colours, each with its signs that do."""
    acting = {}
    for line, screen in screens.items():
        signs = ACTS.findall(OURS.sub("", screen))
        if signs or "\rPASSED" in screen or "\x1b[8m" in screen:
            acting[line] = sorted({ascii(sign) for sign in signs})
    return acting


def leaking_screens(screens: dict[str, str]) -> dict[str, list[str]]:
    leaking = {}
    for line, screen in screens.items():
        leaked = leaks(screen.encode("utf-8", "replace"))
        if leaked:
            leaking[line] = leaked
    return leaking


def leaking_files(paths: Iterable[Path]) -> dict[str, list[str]]:
    leaking = {}
    for path in paths:
        for data in texts_of(path):
            leaked = leaks(data)
            if leaked:
                leaking[str(path)] = leaked
    return leaking


def texts_of(path: Path) -> Iterator[bytes]:
    """A file's bytes, and those of the texts in a table that is compressed."""
    yield path.read_bytes()
    if path.suffix in (".parquet", ".arrow"):
        pa: Any = pytest.importorskip("pyarrow")
        if path.suffix == ".parquet":
            table = pytest.importorskip("pyarrow.parquet").read_table(path)
        else:
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_stream(source).read_all()
        yield repr(table.to_pydict()).encode()


def is_masked(path: Path) -> bool:
    """Whether a credential was replaced by stars, which Markdown has behind backslashes."""
    data = path.read_bytes()
    return b"***" in data or rb"\*\*\*" in data


@pytest.mark.extra("llm")
@pytest.mark.extra("hf")
def test_no_text_acts_on_a_terminal_and_no_credential_is_shown_or_written(
    terminal: Callable[..., tuple[int, str]], workplace: Path
) -> None:
    files_before = files_of(workplace)
    screens: dict[str, str] = {}
    wrong: dict[str, tuple[int, str]] = {}

    def call(table: str, url: str = "") -> None:
        """Runs each command of a table, and keeps its screen and an exit code that is wrong."""
        model = ["--llm-base-url", url, "--llm-model", f"m{EVIL[:3]}"]
        placeholders = {**WORDS, "MODEL": model}
        for line in each(table):
            expected_code, *words = line.split()
            arguments: list[str] = []
            for word in words:
                arguments += placeholders.get(word, [word.replace("EVIL", EVIL)])
            code, screen = terminal(*arguments)
            screens[line] = screen
            if code != int(expected_code):
                wrong[line] = (int(code), screen[-500:])

    with FaultServer(say=echo) as server:
        call(JUDGED, server.url)
    with FaultServer(key="another", say=echo) as server:  # refuses the key and quotes it
        call(REFUSED, server.url)
    call(PLAIN)

    assert not wrong, "\n".join(map(repr, wrong.items()))
    # A new command comes into the tables above.
    assert {line.split()[1] for line in screens} >= set(COMMANDS)

    assert acting_on_terminal(screens) == {}
    assert leaking_screens(screens) == {}
    # A store of chunks is the user's documents, as they are.
    exempt = {"__pycache__", "store"}
    new_files = files_of(workplace) - files_before
    written = [path for path in new_files if exempt.isdisjoint(path.relative_to(workplace).parts)]
    assert leaking_files(written) == {}

    # Otherwise nothing was tried: most commands had such a text to show, and showed it spelled.
    spelled = [line for line, text in screens.items() if "\\u001b" in text or "\\x1b" in text]
    assert len(spelled) >= 20, spelled
    assert any("\x1b[" in screen for screen in screens.values())  # colours are still there
    assert len(SECRETS) == 20
    assert len(screens) >= 60
    assert len(written) >= 30
    assert {path.name for path in written if is_masked(path)} >= {
        "journal.sqlite",
        "report.json",
        "report.md",
        "cases.csv",
        "judgements.jsonl",
        "manifest.json",
        "export.jsonl",
        "export.csv",
        "export.ragas",
        "llm-cache.sqlite",
    }


@pytest.mark.extra("llm")
def test_what_no_variable_holds_is_known_before_the_first_byte_is_stored(
    workplace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # One secret for each way in which ragbench gets to know one.
    secrets = [f"q{number}Zx8Kj3Vb6Nm1" for number in range(5)]
    of_command, of_yaml, of_url, of_argument, of_error = secrets
    answer = f"27 {of_command} {of_yaml}"
    case = {
        "id": "c1",
        "query": "How?",
        "reference": "27",
        "response": answer,
        "contexts": [answer],
        "metadata": {"a": answer},
    }
    lines("recorded.jsonl", [case])
    rag = own_rag("return ''", f"raise OSError('403: https://acc.example/f?sig={of_error}')")
    Path("print_key.py").write_text(f"print({of_command!r})", "utf-8")
    key_command = f"{sys.executable} print_key.py"
    config = f"{{llm: {{api_key_command: {key_command}}}, x: {{token: {of_yaml}}}}}"
    Path("command.yaml").write_text(config, "utf-8")
    files_before = files_of(workplace)
    model = ("--llm-model", "m", "-m", "support,token_f1", "--config", "command.yaml")
    failing = ("--rag", rag, "--rag-args", json.dumps({"pw": of_argument}))

    with FaultServer(say=echo) as server:
        judged = ("--out", "recorded", "--llm-base-url", server.url, *model)
        assert main(["eval", "recorded.jsonl", *judged]) == 0
    assert main(["eval", "cases.jsonl", *failing, "--out", "failing", "-m", "token_f1"]) == 2
    assert main(["index", "cases.jsonl", "--store", f"http://bob:{of_url}@127.0.0.1:1/"]) == 2

    printed = "".join(capfd.readouterr()).encode()
    written = files_of(workplace) - files_before
    assert "report.html" in {path.name for path in written}
    data_by_place = {"printed": printed}
    for path in written:
        data_by_place[str(path)] = path.read_bytes()
    for place, data in data_by_place.items():
        for secret in secrets:
            assert secret.encode() not in data, place
    assert b"27 ***" in Path("recorded/cases.csv").read_bytes()
    assert b"sig=***" in printed
    for folder in ("recorded", "failing"):
        assert Path(folder).stat().st_mode & 0o777 == 0o700
