"""The forms of dumps that are recognised."""

from __future__ import annotations

from ragbench.data.dumps import (
    chroma,
    elasticsearch,
    haystack,
    langchain,
    llamaindex,
    milvus,
    plain,
    qdrant,
    ragas,
)
from ragbench.data.dumps.form import DumpForm
from ragbench.errors import ConfigError

__all__ = ["FORMS", "JOINED_FORMS", "ROWS", "find_form", "form_names"]

_OWN = DumpForm(
    name="ragbench",
    summary="ragbench's own form: a line a query.",
    example='{"query_id": "q1", "query": "..", "chunks": [{"id": "a", "text": "...", "score": 1}]}',
    unwrap=plain.FORM.unwrap,
    is_hit=plain.FORM.is_hit,
)
ROWS = DumpForm(
    name="pgvector",
    summary="Rows of a table, one a chunk, as CSV, TSV, JSONL or Parquet: PGVector and the like.",
    example="query_id,query,id,content,distance",
    unwrap=plain.FORM.unwrap,
    is_hit=plain.FORM.is_hit,
    id=plain.FORM.id,
    text=plain.FORM.text,
    score=plain.FORM.score,
    metadata=("metadata", "cmetadata", "metadata_", "meta"),
)

FORMS: tuple[DumpForm, ...] = (
    _OWN,
    qdrant.FORM,
    chroma.FORM,
    milvus.FORM,
    ROWS,
    elasticsearch.FORM,
    langchain.FORM,
    llamaindex.FORM,
    haystack.FORM,
    ragas.FORM,
    plain.FORM,
)
"""Forms whose records hold everything."""

JOINED_FORMS = {
    "trec": (
        "A TREC run; --corpus has the texts, --queries the topics.",
        "q1 Q0 doc7 1 12.3 bm25",
    ),
    "beir": (
        "BEIR results, a JSON object of query, document and score; --corpus is the BEIR folder.",
        '{"q1": {"doc7": 12.3}}',
    ),
}
"""Forms that hold ids alone, with what to tell a user about each."""

_ALIASES = {"opensearch": "elasticsearch", "rows": "pgvector", "jsonl": "plain", "json": "plain"}


def form_names() -> tuple[str, ...]:
    """What ``--format`` takes."""
    return (*(form.name for form in FORMS), *JOINED_FORMS)


def find_form(name: str) -> DumpForm | str:
    """The form of a name; a joined form's own name.

    Raises:
        ConfigError: there is none.
    """
    wanted = _ALIASES.get(name, name)
    if wanted in JOINED_FORMS:
        return wanted
    for form in FORMS:
        if form.name == wanted:
            return form
    raise ConfigError(f"no dump format '{name}'. Known: {', '.join(form_names())}")
