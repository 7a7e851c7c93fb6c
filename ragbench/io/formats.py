"""The formats that cases, documents and recorded answers are read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragbench.plugins import Registry

if TYPE_CHECKING:
    from ragbench.io.source import Kind

CASES_FILE, CORPUS_FILE = "cases.jsonl", "corpus.jsonl"
"""In a folder of ragbench's own form; BEIR's corpus is called so, too."""
QUERIES_FILE, QRELS_FOLDER = "queries.jsonl", "qrels"
"""By which a folder of BEIR is known."""
QUERY_FILES = ("queries.tsv", "topics.tsv", "queries.txt", "topics.txt")
"""By one of which a folder of TREC is."""

_BOTH: tuple[Kind, ...] = ("cases", "documents")
_BY_FIELDS = "what its fields say, such as response and retrieved_contexts"


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatInfo:
    name: str
    summary: str
    example: str
    reader: str
    """Where its ``RowReader`` is: ``module:function``."""
    reads: tuple[Kind, ...] = _BOTH
    records: str = ""
    """What a system did that it can hold, in a few words; empty when it can hold nothing of it."""
    suffixes: tuple[str, ...] = ()
    """Suffixes that it is recognised by; empty when it is recognised by its shape."""
    streamed: bool = True
    extra: str | None = None


FORMATS: tuple[FormatInfo, ...] = (
    FormatInfo(
        name="jsonl",
        reader="ragbench.io.json_files:read_json_lines",
        summary="One JSON object per line, plain or gzip.",
        records=_BY_FIELDS,
        example="cases.jsonl",
        suffixes=(".jsonl", ".ndjson", ".jsonl.gz"),
    ),
    FormatInfo(
        name="json",
        reader="ragbench.io.json_files:read_json",
        summary='A JSON array of objects, or an object with one under "cases" or "data".',
        records=_BY_FIELDS,
        example="cases.json",
        suffixes=(".json",),
        streamed=False,
    ),
    FormatInfo(
        name="csv",
        reader="ragbench.io.tables:read_csv",
        summary="Comma-separated with a header row; lists as JSON or as Python prints them.",
        records=_BY_FIELDS,
        example="cases.csv",
        suffixes=(".csv",),
    ),
    FormatInfo(
        name="tsv",
        reader="ragbench.io.tables:read_tsv",
        summary="Tab-separated with a header row.",
        records=_BY_FIELDS,
        example="cases.tsv",
        suffixes=(".tsv", ".tab"),
    ),
    FormatInfo(
        name="xlsx",
        reader="ragbench.io.tables:read_workbook",
        summary="A sheet of an Excel workbook with a header row; --split names the sheet.",
        records=_BY_FIELDS,
        example="cases.xlsx",
        suffixes=(".xlsx", ".xlsm"),
        extra="excel",
    ),
    FormatInfo(
        name="parquet",
        reader="ragbench.io.arrow:read_parquet",
        summary="Apache Parquet, read a thousand rows at a time.",
        records=_BY_FIELDS,
        example="cases.parquet",
        suffixes=(".parquet", ".pq"),
        extra="hf",
    ),
    FormatInfo(
        name="hf",
        reader="ragbench.io.arrow:read_hugging_face",
        summary="A folder saved by Hugging Face datasets, or a dataset's name on the hub.",
        records=_BY_FIELDS,
        example="hf:owner/name:test",
        extra="hf",
    ),
    FormatInfo(
        name="beir",
        reader="ragbench.io.folders:read_beir",
        summary="A BEIR folder: queries.jsonl, corpus.jsonl, graded judgements in qrels/.",
        example="scifact/",
    ),
    FormatInfo(
        name="squad",
        reader="ragbench.io.research_sets:read_squad",
        summary="SQuAD 1.1 or 2.0 JSON; its paragraphs are the corpus.",
        example="dev-v2.0.json",
        streamed=False,
    ),
    FormatInfo(
        name="mtrag",
        reader="ragbench.io.research_sets:read_mtrag",
        summary="MTRAG's tasks: the last turn is the case, those before are its metadata.",
        example="reference.jsonl",
        reads=("cases",),
    ),
    FormatInfo(
        name="ragas",
        reader="ragbench.io.eval_tools:read_ragas",
        summary="A RAGAS EvaluationDataset or test set as JSONL, CSV or JSON.",
        records=_BY_FIELDS,
        example="testset.csv",
        reads=("cases",),
    ),
    FormatInfo(
        name="trec",
        reader="ragbench.io.folders:read_trec",
        summary="A folder with queries.tsv and qrels.txt; its corpus is collection.tsv.",
        example="msmarco/",
    ),
    FormatInfo(
        name="text",
        reader="ragbench.io.converted:read",
        summary="A folder of texts, Markdown, PDF, HTML, Word; the path is the document's id.",
        example="handbook/",
        reads=("documents",),
        suffixes=(".txt", ".md", ".markdown", ".pdf", ".html", ".docx"),
    ),
    FormatInfo(
        name="ragbench",
        reader="ragbench.io.folders:read_own",
        summary="ragbench's own folder: cases.jsonl and corpus.jsonl.",
        example="datasets/handbook/",
        records=_BY_FIELDS,
    ),
    FormatInfo(
        name="run",
        reader="ragbench.io.written:read_run",
        summary="The folder of a run of ragbench eval.",
        example="reports/handbook-baseline-1a2b3c4d/",
        reads=("cases",),
        records="every stage's outcome, with status, reason and time",
    ),
    FormatInfo(
        name="export",
        reader="ragbench.io.written:read_export",
        summary="What ragbench export wrote as jsonl, csv, parquet or hf.",
        example="run.jsonl",
        reads=("cases",),
        records="every stage's outcome, with status, reason and time",
    ),
    FormatInfo(
        name="report",
        reader="ragbench.io.written:read_report",
        summary="ragbench's report.json.",
        example="run/report.json",
        reads=("cases",),
        records="responses, verdicts, statuses; retrieved ids with --corpus",
        streamed=False,
    ),
    FormatInfo(
        name="verdicts",
        reader="ragbench.io.written:read_verdicts",
        summary="What ragbench validate wrote; to be joined with a dataset.",
        example="--answers verdicts.jsonl",
        reads=("cases",),
        records="verdicts",
    ),
    FormatInfo(
        name="deepeval",
        reader="ragbench.io.eval_tools:read_deepeval",
        summary="DeepEval test runs and test cases as JSON, JSONL or CSV.",
        example=".deepeval/.latest_test_run.json",
        reads=("cases",),
        records="actual output, retrieval context, completion time, tokens",
    ),
    FormatInfo(
        name="ragchecker",
        reader="ragbench.io.eval_tools:read_ragchecker",
        summary="RAGChecker's input and output JSON.",
        example="checking_outputs.json",
        reads=("cases",),
        records="response, retrieved context",
    ),
    FormatInfo(
        name="promptfoo",
        reader="ragbench.io.eval_tools:read_promptfoo",
        summary="What promptfoo eval writes as JSON or JSONL.",
        example="results.json",
        reads=("cases",),
        records="output, context, errors, latency, tokens",
    ),
    FormatInfo(
        name="open-rag-eval",
        reader="ragbench.io.eval_tools:read_open_rag_eval",
        summary="open-rag-eval's answers as CSV, a passage per row.",
        example="answers.csv",
        reads=("cases",),
        records="generated answer, passages",
    ),
)
"""Every format that ragbench brings, in the order in which ``ragbench show formats`` lists them."""

READERS = Registry(kind="formats", builtin={info.name: info.reader for info in FORMATS})
"""Name of a format to its ``RowReader``; packages add theirs in the group ``ragbench.formats``."""


_ZIP_MAGIC, _WORKBOOK_PART = b"PK\x03\x04", b"[Content_Types].xml"


def is_workbook(head: bytes) -> bool:
    """Whether a file begins as a workbook of Excel and its like does."""
    return head.startswith(_ZIP_MAGIC) and _WORKBOOK_PART in head
