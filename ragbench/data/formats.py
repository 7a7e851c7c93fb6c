"""The formats that can be read: their readers by name, and what to tell a user about each."""

from __future__ import annotations

from dataclasses import dataclass

from ragbench.data.rows import Kind
from ragbench.registry import Registry

__all__ = ["FORMATS", "READERS", "FormatInfo"]

READERS = Registry(
    kind="formats",
    builtin={
        "jsonl": "ragbench.data.json_lines:read",
        "json": "ragbench.data.json_file:read",
        "csv": "ragbench.data.delimited:read_csv",
        "tsv": "ragbench.data.delimited:read_tsv",
        "parquet": "ragbench.data.parquet:read",
        "hf": "ragbench.data.hugging_face:read",
        "beir": "ragbench.data.beir:read",
        "squad": "ragbench.data.squad:read",
        "ragas": "ragbench.data.ragas:read",
        "trec": "ragbench.data.trec_folder:read",
        "text": "ragbench.data.text_folder:read",
        "ragbench": "ragbench.data.own_folder:read",
    },
)
"""Name of a format to its ``RowReader``; packages add theirs in the group ``ragbench.formats``."""

_BOTH: tuple[Kind, ...] = ("cases", "documents")


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatInfo:
    """What a user should know of a format."""

    name: str
    """As ``--format`` takes it."""
    summary: str
    """One sentence."""
    example: str
    """How a source of this format is named."""
    reads: tuple[Kind, ...] = _BOTH
    """What it can hold."""
    suffixes: tuple[str, ...] = ()
    """Suffixes that it is recognised by; empty when it is recognised by its shape."""
    streamed: bool = True
    """Whether memory stays flat; otherwise the whole file is loaded."""
    extra: str | None = None
    """The ragbench extra that it needs."""


FORMATS: tuple[FormatInfo, ...] = (
    FormatInfo(
        name="jsonl",
        summary="One JSON object a line, plain or gzip.",
        example="cases.jsonl",
        suffixes=(".jsonl", ".ndjson", ".jsonl.gz"),
    ),
    FormatInfo(
        name="json",
        summary='A JSON array of objects, or an object with one under "cases" or "data".',
        example="cases.json",
        suffixes=(".json",),
        streamed=False,
    ),
    FormatInfo(
        name="csv",
        summary="Comma-separated with a header row; lists as JSON or as Python prints them.",
        example="cases.csv",
        suffixes=(".csv",),
    ),
    FormatInfo(
        name="tsv",
        summary="Tab-separated with a header row.",
        example="cases.tsv",
        suffixes=(".tsv", ".tab"),
    ),
    FormatInfo(
        name="parquet",
        summary="Apache Parquet, read a thousand rows at a time.",
        example="cases.parquet",
        suffixes=(".parquet", ".pq"),
        extra="hf",
    ),
    FormatInfo(
        name="hf",
        summary="A folder saved by Hugging Face datasets, or a dataset's name on the hub.",
        example="hf:owner/name:test",
        extra="hf",
    ),
    FormatInfo(
        name="beir",
        summary="A BEIR folder: queries.jsonl, corpus.jsonl, graded judgements in qrels/.",
        example="scifact/",
    ),
    FormatInfo(
        name="squad",
        summary="SQuAD 1.1 or 2.0 JSON; its paragraphs are the corpus.",
        example="dev-v2.0.json",
        streamed=False,
    ),
    FormatInfo(
        name="ragas",
        summary="A RAGAS EvaluationDataset or test set as JSONL, CSV or JSON.",
        example="testset.csv",
        reads=("cases",),
    ),
    FormatInfo(
        name="trec",
        summary="A folder with queries.tsv and qrels.txt; its corpus is collection.tsv.",
        example="msmarco/",
    ),
    FormatInfo(
        name="text",
        summary="A folder of .txt and .md files; the path is the document's id.",
        example="handbook/",
        reads=("documents",),
        suffixes=(".txt", ".md", ".markdown"),
    ),
    FormatInfo(
        name="ragbench",
        summary="ragbench's own folder: cases.jsonl and corpus.jsonl.",
        example="datasets/handbook/",
    ),
)
"""Every format that ragbench brings, in the order in which ``ragbench show formats`` lists them."""
