"""Valid files of every format that ragbench reads, and the commands that read each."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ragbench.llm.cache import ResponseCache
from ragbench.plugins import require
from ragbench_cli.main import main
from tests.fuzz.mutations import BYTES, GZIP, JSON, LINES, SQLITE, TEXT, ZIP, Mutation
from tests.unit.io.trace_forms import FORMS, Record, TracedQuestion
from tests.unit.llm.builders import reply

Arguments = tuple[str, ...]

QUESTIONS = [
    ("How many days of paid leave are there?", "27 days", "leave", "Everyone has 27 days."),
    ("When is the help desk open?", "from 8 to 17", "desk", "The help desk is open from 8 to 17."),
    ("Who reports a lost badge?", "The gate", "badge", "A lost badge is reported at the gate."),
    ("Where is Zürich?", "In Switzerland", "zurich", "Zürich is in Switzerland."),
]
ANSWERED: list[dict[str, Any]] = []
for number, (query, reference, document, text) in enumerate(QUESTIONS, 1):
    ANSWERED.append(
        {
            "id": f"c{number}",
            "query": query,
            "reference": reference,
            "reference_context_ids": [document],
            "reference_contexts": [text],
            "retrieved_contexts": [text, "Something else."],
            "retrieved_context_ids": [document, "x"],
            "response": reference,
            "tags": ["a", "b"],
            "metadata": {"page": number, "score": 0.5},
        }
    )
DOCUMENTS = [{"id": document, "title": "T", "text": text} for _, _, document, text in QUESTIONS]
CONVERSATION = {
    "id": "talk",
    "messages": [
        {"role": "user", "content": "When does it open?"},
        {"role": "assistant", "content": "At nine."},
        {"role": "user", "content": "And when does it close?"},
        {"role": "assistant", "content": "At five."},
    ],
}
LABELS = """question,answer,metric,value,by
How many days of paid leave are there?,27 days,answer_correctness,1,ada
When is the help desk open?,from 8 to 17,answer_correctness,0,ada
"""
PIPELINE = """name: mine
indexing: {chunker: {type: sentence, size: 40}}
retrieval: {type: bm25, top_k: 3}
post_retrieval: [{action: filter, type: top_k, k: 1}]
"""
SETTINGS = """gate:
  baseline: baseline.json
  metrics: {recall@3: {max_drop: 0.05, min: 0.2}}
  max_error_rate: 0.05
llm: {base_url: "http://localhost:1/v1", model: m, temperature: 0}
"""
VARIANTS = """variants:
  - {name: as retrieved, operators: [{action: filter, type: top_k, k: 2}]}
  - {name: first, operators: [{action: filter, type: top_k, k: 1}]}
"""
TREC_RUN = "c1 Q0 leave 1 0.9 mine\nc2 Q0 desk 1 0.9 mine\nc3 Q0 badge 1 0.9 mine\n"
QRELS = "c1 0 leave 1\nc2 0 desk 1\nc3 0 badge 1\n"
ANSWER_KEYS = ("a", "b", "c")
PAGE = b"<html><title>T</title><body><h1>Leave</h1><p>Everyone has 27 days.</p></body></html>"


class Target(NamedTuple):
    """A file that is damaged, and what reads it."""

    file: str
    """Its path in the folder of all valid files."""
    mutations: Sequence[Mutation]
    commands: Sequence[Arguments]
    beside: Sequence[str] = ()
    """Files and folders that the commands also need."""


def json_lines(rows: Sequence[object]) -> bytes:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return text.encode()


def table(delimiter: str) -> bytes:
    """The answered cases as a table of text, lists as JSON."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(ANSWERED[0])
    for row in ANSWERED:
        writer.writerow(cell(value) for value in row.values())
    return file.getvalue().encode()


def cell(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def workbook() -> bytes:
    book = require("openpyxl", extra="excel").Workbook()
    sheet: Any = book.active
    for row in csv.reader(io.StringIO(table(",").decode())):
        sheet.append(row)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def word_document() -> bytes:
    document = require("docx", extra="documents").Document()
    document.add_heading("Leave", 1)
    document.add_paragraph("Everyone has 27 days of paid leave.")
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def parquet() -> bytes:
    file = io.BytesIO()
    rows = require("pyarrow", extra="hf").Table.from_pylist(ANSWERED)
    require("pyarrow.parquet", extra="hf").write_table(rows, file)
    return file.getvalue()


def responses() -> Iterator[tuple[str, bytes]]:
    """The responses of vector stores, one file each."""
    path = Path(__file__).parents[1] / "unit/io/dumps/responses.jsonl"
    for line in path.read_text("utf-8").splitlines():
        example = json.loads(line)
        response = json.dumps(example["value"])
        yield f"dump-{example['name']}.json", response.encode()


def written_by_us() -> dict[str, bytes]:
    """The files that other programs and people write, by name."""
    cases = json_lines(ANSWERED)
    opening = [("a", "At nine."), ("b", "Never.")]
    traces = [
        TracedQuestion(1, "When does it open?", opening, [1, 0], "9"),
        TracedQuestion(2, "Who runs it?", [("d", "Ada runs it.")], [0], "Ada.", session="s-2"),
    ]
    files = {
        "cases.jsonl": cases,
        "cases.json": json.dumps({"cases": ANSWERED}, indent=1).encode(),
        "cases.yaml": json.dumps(ANSWERED, indent=1).encode(),
        "cases.csv": table(","),
        "cases.tsv": table("\t"),
        "wide.csv": table(";").decode().encode("utf-16"),
        "cases.jsonl.gz": gzip.compress(cases, mtime=0),
        "cases.xlsx": workbook(),
        "cases.parquet": parquet(),
        "talk.jsonl": json_lines([CONVERSATION]),
        "corpus.jsonl": json_lines(DOCUMENTS),
        "page.docx": word_document(),
        "page.html": PAGE,
        "page.md": b"# Leave\n\nEveryone has 27 days of paid leave.\n",
        "run.trec": TREC_RUN.encode(),
        "gold.qrels": QRELS.encode(),
        "labels.csv": LABELS.encode(),
        "rag.yaml": PIPELINE.encode(),
        "ragbench.yaml": SETTINGS.encode(),
        "pyproject.toml": b'[tool.ragbench]\nignore = ["notes", "*.log"]\n',
        "variants.yaml": VARIANTS.encode(),
        "operators.yaml": b"[{action: filter, type: top_k, k: 1}]\n",
    }
    for form, records_of in FORMS.items():
        records: list[Record] = []
        for trace in traces:
            records += records_of(trace)
        files[f"traces-{form}.jsonl"] = json_lines(records)
        files[f"traces-{form}.json"] = json.dumps(records).encode()
    return {**files, **dict(responses())}


EMBEDDER = ("--embedder", "hashing:16")
OWN: tuple[Arguments, ...] = (
    ("eval", "cases.jsonl", "-m", "recall@3,token_f1", "--out", "run"),
    ("export", "run", "--to", "jsonl", "-o", "export.jsonl"),
    ("export", "run", "--to", "csv", "-o", "export.csv"),
    ("export", "run", "--to", "parquet", "-o", "export.parquet"),
    ("baseline", "set", "run", "-o", "baseline.json"),
    ("validate", "cases.jsonl", "--validator", "lexical", "-o", "verdicts.jsonl"),
    ("index", "corpus.jsonl", "--store", "memory:store", "--collection", "office", *EMBEDDER),
)
"""The commands that write the files which ragbench reads again."""


def write_all() -> None:
    """Writes every valid file into the working directory.

    Raises:
        RuntimeError: a command failed on valid files, so that nothing could be learned from it.
    """
    for name, content in written_by_us().items():
        Path(name).write_bytes(content)
    with ResponseCache(Path("calls.sqlite")) as cache:
        for name in ANSWER_KEYS:
            cache.put(reply(name), judge="j", model="m", purpose="faithfulness")
    for arguments in OWN:
        code = main([*arguments])
        if code != 0:
            raise RuntimeError(f"ragbench {' '.join(arguments)} ends with {code}")


READ_CASES = ("cases", "FILE")
READ_DOCUMENTS = ("documents", "FILE")
READ_DUMP = ("dump", "FILE")
READ_LABELS = ("labels", "FILE")
EVALUATE = ("eval", "FILE", "-m", "recall@3,token_f1", "--out", "out")
"""`FILE` stands for the damaged file."""
ASK_A_PIPELINE = ("eval", "cases.jsonl", "--pipeline", "FILE", "--corpus", "corpus.jsonl")
OPERATE = ("eval", "cases.jsonl", "--post-retrieval", "FILE", "--out", "out")
LABELLED = ("report", "run", "--labels", "FILE")
GATE = ("gate", "run", "--baseline", "FILE")
VALIDATE = ("validate", "cases.jsonl", "--validator", "lexical", "-o", "verdicts.jsonl")
SEARCH = ("search", "leave", "--store", "memory:store", "--collection", "office")
CACHE_COMMANDS = (
    ("cache", "stats", "--cache", "FILE"),
    ("cache", "prune", "--cache", "FILE", "--all"),
    ("answers", "FILE"),
)
EVALUATE_CASES = ("eval", "cases.jsonl", "-m", "recall@3,token_f1", "--out", "out")
GATED = ("run", "baseline.json", "cases.jsonl")
RUN_COMMANDS: tuple[Arguments, ...] = (
    ("report", "run"),
    ("cases", "run"),
    ("explain", "run"),
    ("export", "run", "--to", "jsonl", "-o", "out.jsonl"),
    ("gate", "run", "--baseline", "baseline.json"),
    ("compare", "run", "run"),
    ("eval", "run", "-m", "recall@3", "--out", "out"),
    ("eval", "cases.jsonl", "-m", "recall@3,token_f1", "--out", "run"),
)


def targets() -> list[list[Target]]:
    """Every file with what reads it, in families: each family gets as much damage as another."""
    of_cases = (READ_CASES, READ_CASES, EVALUATE)
    of_documents = (READ_DOCUMENTS,)
    families = [
        [
            Target("cases.jsonl", LINES, of_cases),
            Target("cases.json", JSON, of_cases),
            Target("cases.yaml", JSON, of_cases),
            Target("cases.csv", TEXT, of_cases),
            Target("cases.tsv", TEXT, of_cases),
            Target("wide.csv", TEXT, of_cases),
            Target("cases.jsonl.gz", GZIP, of_cases),
            Target("cases.xlsx", ZIP, of_cases),
            Target("cases.parquet", BYTES, of_cases),
            Target("talk.jsonl", LINES, of_cases),
            Target("run.trec", TEXT, (READ_CASES, READ_DUMP)),
            Target("gold.qrels", TEXT, (("eval", "run.trec", "--qrels", "FILE"),), ("run.trec",)),
        ],
        [
            Target("corpus.jsonl", LINES, of_documents),
            Target("page.docx", ZIP, of_documents),
            Target("page.html", TEXT, of_documents),
            Target("page.md", TEXT, of_documents),
        ],
        [
            Target("export.jsonl", LINES, of_cases),
            Target("export.csv", TEXT, of_cases),
            Target("export.parquet", BYTES, of_cases),
            Target("run/report.json", JSON, of_cases),
            Target("run/cases.csv", TEXT, of_cases),
            Target("verdicts.jsonl", LINES, of_cases),
        ],
        [
            Target("rag.yaml", TEXT, (ASK_A_PIPELINE,), ("cases.jsonl", "corpus.jsonl")),
            Target("ragbench.yaml", TEXT, (("gate", "run"), EVALUATE_CASES), GATED),
            Target("pyproject.toml", TEXT, (EVALUATE_CASES,), ("cases.jsonl",)),
            Target("variants.yaml", TEXT, (("ablate", "run", "--variants", "FILE"),), ("run",)),
            Target("operators.yaml", TEXT, (OPERATE,), ("cases.jsonl",)),
            Target("labels.csv", TEXT, (READ_LABELS, LABELLED), ("run",)),
            Target("baseline.json", JSON, (GATE, ("history", "FILE")), ("run",)),
        ],
        [
            Target("run/journal.sqlite", SQLITE, RUN_COMMANDS, GATED),
            Target("run/journal.sqlite", SQLITE, RUN_COMMANDS, GATED),
            Target("run/manifest.json", JSON, RUN_COMMANDS, GATED),
            Target("verdicts.jsonl.journal", SQLITE, (VALIDATE,), ("cases.jsonl",)),
            Target("calls.sqlite", SQLITE, CACHE_COMMANDS),
        ],
    ]
    store: list[Target] = []
    for path in sorted(Path("store").rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            mutations = JSON if path.suffix == ".json" else TEXT
            store.append(Target(str(path), mutations, (SEARCH,), ("store",)))
    traces: list[Target] = []
    for path in sorted(Path().glob("traces-*")):
        mutations = LINES if path.suffix == ".jsonl" else JSON
        traces.append(Target(str(path), mutations, (READ_CASES, READ_DUMP, EVALUATE)))
    dumps: list[Target] = []
    for path in sorted(Path().glob("dump-*")):
        dumps.append(Target(str(path), JSON, (READ_DUMP,)))
    return [*families, store, traces, dumps]
