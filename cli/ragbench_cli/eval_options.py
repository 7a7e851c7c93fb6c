"""What an evaluation can be told: the options of ``ragbench eval``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ragbench_cli.options import argument, option

__all__ = [
    "MATCHINGS",
    "BatchSizeOption",
    "ConcurrencyOption",
    "CorpusOption",
    "DatasetArgument",
    "DryRunOption",
    "FieldOption",
    "FormatOption",
    "FreshOption",
    "LimitOption",
    "MatchingOption",
    "MaxCostOption",
    "MetricsOption",
    "NoPreflightOption",
    "OutOption",
    "PipelineOption",
    "PostRetrievalOption",
    "QuietOption",
    "RagArgsOption",
    "RagOption",
    "RepeatsOption",
    "RetryFailedOption",
    "SampleOption",
    "SeedOption",
    "TimeoutOption",
    "TopKOption",
    "ValidateOption",
]

MATCHINGS = ("auto", "id", "document_id", "text")
"""How retrieved chunks can be matched with the gold."""


def _matching(typed: str) -> list[str]:
    return [name for name in MATCHINGS if name.startswith(typed)]


def _formats(typed: str) -> list[str]:
    from ragbench.data.formats import READERS

    return [name for name in READERS.targets() if name.startswith(typed)]


def _metrics(typed: str) -> list[str]:
    """Names for the last metric of the list."""
    from ragbench.scoring.registry import definitions

    before, comma, last = typed.rpartition(",")
    return [
        f"{before}{comma}{definition.name}"
        for definition in definitions()
        if definition.name.casefold().startswith(last.casefold())
    ]


DatasetArgument = Annotated[
    str,
    argument(
        metavar="DATASET",
        help="File or folder with cases, '-' for standard input, 'hf:OWNER/NAME' for the hub. "
        "See: ragbench show formats.",
    ),
]
RagOption = Annotated[
    str | None,
    option(
        "--rag",
        help="Your RAG: package.module:attr (a class, a factory or an instance), file.py:attr "
        "or an http(s) address. Without it, the baseline RAG over the dataset's own corpus.",
        metavar="RAG",
    ),
]
PipelineOption = Annotated[
    Path | None,
    option(
        "--pipeline",
        help="YAML file that describes the stages of a RAG. See docs/pipeline.md.",
        metavar="FILE",
    ),
]
RagArgsOption = Annotated[
    str | None,
    option("--rag-args", help="Arguments for the class or factory, as JSON.", metavar="JSON"),
]
CorpusOption = Annotated[
    str | None,
    option(
        "--corpus",
        help="Documents for the baseline RAG, or for a pipeline that names none, if not those "
        "beside the cases.",
        metavar="PATH",
    ),
]
PostRetrievalOption = Annotated[
    Path | None,
    option(
        "--post-retrieval",
        help="YAML file with operators that stand between the RAG's retrieval and its "
        "generation. See docs/post_retrieval.md.",
        metavar="FILE",
    ),
]
ValidateOption = Annotated[
    str | None,
    option(
        "--validate",
        help="Judge what was retrieved, by this validator: auto, lexical, local, llm or cascade. "
        "Adds the answer/abstain matrix to the report. See docs/validate.md.",
        metavar="NAME",
    ),
]
MetricsOption = Annotated[
    str | None,
    option(
        "--metrics",
        "-m",
        help="Metrics by name, separated by commas. See: ragbench show metrics.",
        metavar="LIST",
        complete=_metrics,
    ),
]
OutOption = Annotated[
    Path | None,
    option(
        "--out",
        "-o",
        help="Folder of the run. By default one under reports/ that this command always "
        "arrives at again.",
        metavar="FOLDER",
    ),
]
LimitOption = Annotated[
    int | None, option("--limit", help="Take only the first N cases.", metavar="N")
]
SampleOption = Annotated[
    int | None, option("--sample", help="Draw N cases at random.", metavar="N")
]
SeedOption = Annotated[
    int, option("--seed", help="Seed of the draw.", metavar="N", show_default=True)
]
TopKOption = Annotated[
    int | None,
    option(
        "--top-k",
        help="How many contexts to ask for; the RAG decides when not given.",
        metavar="K",
        min=1,
    ),
]
BatchSizeOption = Annotated[
    int,
    option(
        "--batch-size",
        help="Queries a call, for a RAG that takes batches.",
        metavar="N",
        min=1,
        show_default=True,
    ),
]
ConcurrencyOption = Annotated[
    int | None,
    option(
        "--concurrency",
        help="Calls in flight, 1 unless a pipeline says more; more than 1 needs a RAG that "
        "allows it.",
        metavar="N",
        min=1,
    ),
]
TimeoutOption = Annotated[
    float | None, option("--timeout", help="Seconds allowed for each query.", metavar="SECONDS")
]
MatchingOption = Annotated[
    str,
    option(
        "--matching",
        help="How retrieved chunks are matched with the gold: auto, id, document_id or text.",
        metavar="HOW",
        show_default=True,
        complete=_matching,
    ),
]
FormatOption = Annotated[
    str | None,
    option(
        "--format",
        help="The dataset's format, if not to be recognised.",
        metavar="FORMAT",
        complete=_formats,
    ),
]
FieldOption = Annotated[
    list[str] | None,
    option(
        "--field",
        help="Where a field of the cases is found, such as query=Frage; repeatable.",
        metavar="TARGET=SOURCE",
    ),
]
DryRunOption = Annotated[
    bool,
    option(
        "--dry-run",
        help="Judge nothing: render the prompts of metrics that ask models and tell calls, "
        "tokens and price. The RAG is asked, and its answers are kept for the run.",
    ),
]
MaxCostOption = Annotated[
    str | None,
    option(
        "--max-cost",
        help="The most that models may cost in this command; needs a known price.",
        metavar="AMOUNT",
    ),
]
RepeatsOption = Annotated[
    int,
    option(
        "--repeats",
        help="How often each case is judged: a score is the mean, and the report tells how far "
        "the judge agrees with itself.",
        metavar="N",
        min=1,
        show_default=True,
    ),
]
NoPreflightOption = Annotated[
    bool,
    option("--no-preflight", help="Do not try the models before the first judgement."),
]
FreshOption = Annotated[bool, option("--fresh", help="Start over instead of continuing.")]
RetryFailedOption = Annotated[
    bool, option("--retry-failed", help="Call again what failed in an earlier run.")
]
QuietOption = Annotated[bool, option("--quiet", "-q", help="No progress and no hints.")]
