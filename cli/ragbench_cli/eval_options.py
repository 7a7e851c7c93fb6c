"""What an evaluation can be told: the options of ``ragbench eval``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ragbench_cli.options import argument, option

MATCHINGS = ("auto", "id", "document_id", "text")
"""How retrieved chunks can be matched with the gold."""


def _matching(typed: str) -> list[str]:
    return [name for name in MATCHINGS if name.startswith(typed)]


def _formats(typed: str) -> list[str]:
    from ragbench.io.dumps.forms import form_names
    from ragbench.io.formats import READERS

    names = dict.fromkeys((*READERS.targets(), *form_names()))
    return [name for name in names if name.startswith(typed)]


def _metrics(typed: str) -> list[str]:
    from ragbench.metrics.registry import definitions

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
        help="File or folder with cases, with or without recorded answers; a run; '-' for "
        "standard input, 'hf:OWNER/NAME' for the hub. See: ragbench show formats.",
    ),
]
AnswersOption = Annotated[
    str | None,
    option(
        "--answers",
        help="File with recorded answers or retrievals, joined with the cases by id, else by the "
        "exact question.",
        metavar="FILE",
    ),
]
AnswersFormatOption = Annotated[
    str | None,
    option(
        "--answers-format",
        help="Format of --answers; detected if omitted.",
        metavar="FORMAT",
        complete=_formats,
    ),
]
AskAgainOption = Annotated[
    bool,
    option(
        "--ask-again",
        help="Ask the RAG for everything and ignore recorded answers. By default recorded "
        "answers are used and only the rest is asked.",
    ),
]
SplitOption = Annotated[
    str | None,
    option(
        "--split",
        help="Part to read from a source with several: a split of a BEIR or Hugging Face "
        "dataset, a provider or prompt of promptfoo. With --answers, the part of that "
        "file.",
        metavar="NAME",
    ),
]
QueriesOption = Annotated[
    Path | None,
    option("--queries", help="File with the queries of a TREC run.", metavar="FILE"),
]
QrelsOption = Annotated[
    Path | None,
    option(
        "--qrels",
        help="Relevance judgements (qrels) of a TREC run; by default those next to it or "
        "in the corpus folder.",
        metavar="FILE",
    ),
]
RagOption = Annotated[
    str | None,
    option(
        "--rag",
        help="Your RAG: package.module:attr (a class, a factory or an instance), file.py:attr "
        "or an http(s) address. Without it, recorded answers are scored; if there are "
        "none, the baseline RAG over the dataset's own corpus is.",
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
        help="Documents for the baseline RAG, or for a pipeline that names none; by default "
        "those next to the cases. Also the texts of a source that holds only ids.",
        metavar="PATH",
    ),
]
PostRetrievalOption = Annotated[
    Path | None,
    option(
        "--post-retrieval",
        help="YAML file with operators to run between the RAG's retrieval and its generation. "
        "See docs/post_retrieval.md.",
        metavar="FILE",
    ),
]
ValidateOption = Annotated[
    str | None,
    option(
        "--validate",
        help="Validate what was retrieved with this validator: auto, lexical, local, llm or "
        "cascade. Adds the answer/abstain matrix to the report. See docs/validate.md.",
        metavar="NAME",
    ),
]
MetricsOption = Annotated[
    str | None,
    option(
        "--metrics",
        "-m",
        help="Metrics by name, or functions of your own as file.py:function, separated by commas. "
        "See: ragbench show metrics.",
        metavar="LIST",
        complete=_metrics,
    ),
]
OutOption = Annotated[
    Path | None,
    option(
        "--out",
        "-o",
        help="Folder of the run. By default a folder under reports/ derived from the "
        "arguments, so that the same command resumes the same run.",
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
        help="How many contexts to ask for. By default the RAG decides.",
        metavar="K",
        min=1,
    ),
]
BatchSizeOption = Annotated[
    int,
    option(
        "--batch-size",
        help="Queries per batch, for a RAG that supports batching.",
        metavar="N",
        min=1,
        show_default=True,
    ),
]
ConcurrencyOption = Annotated[
    int | None,
    option(
        "--concurrency",
        help="Concurrent calls. By default 1, or what the pipeline sets; more than 1 needs a "
        "RAG that allows it.",
        metavar="N",
        min=1,
    ),
]
TimeoutOption = Annotated[
    float | None, option("--timeout", help="Time limit per query, in seconds.", metavar="SECONDS")
]
GiveUpAfterOption = Annotated[
    int,
    option(
        "--give-up-after",
        help="Ask no more once a stage has failed for the first N cases and answered none: a dead "
        "key, a service that is down. 0 asks all the same.",
        metavar="N",
        min=0,
        show_default=True,
    ),
]
MaxErrorRateOption = Annotated[
    float | None,
    option(
        "--max-error-rate",
        help="Largest share of failed cases per stage, 0 to 1; above it the exit code is 1. "
        "[default: 1, no limit]",
        metavar="SHARE",
    ),
]
MatchingOption = Annotated[
    str,
    option(
        "--matching",
        help="How retrieved chunks are matched with the relevant ones: auto, id, "
        "document_id or text.",
        metavar="HOW",
        show_default=True,
        complete=_matching,
    ),
]
FormatOption = Annotated[
    str | None,
    option(
        "--format",
        help="Format of the dataset; detected if omitted. See: ragbench show formats and "
        "ragbench show dumps.",
        metavar="FORMAT",
        complete=_formats,
    ),
]
FieldOption = Annotated[
    list[str] | None,
    option(
        "--field",
        help="Where a field is found, such as query=Frage, response=said or "
        "retrieved_contexts=outputs.docs (dots lead into objects); repeatable. For --answers: "
        "answers.response=said.",
        metavar="TARGET=SOURCE",
    ),
]
DryRunOption = Annotated[
    bool,
    option(
        "--dry-run",
        help="Estimate calls, tokens and cost of the judged metrics without judging. The RAG "
        "is asked, and its answers are kept for the run.",
    ),
]
MaxCostOption = Annotated[
    str | None,
    option(
        "--max-cost",
        help="Cap on what models may cost in this command; needs a known price.",
        metavar="AMOUNT",
    ),
]
MaxCostRunOption = Annotated[
    str | None,
    option(
        "--max-cost-run",
        help="The most that models may cost in all commands of this run together, those included "
        "that were killed.",
        metavar="AMOUNT",
    ),
]
RagRepeatsOption = Annotated[
    int,
    option(
        "--rag-repeats",
        help="How many times the RAG is asked for each case, retrieval and generation. A score is "
        "the mean; the report shows how much of the variance is the system's own noise. Needs "
        "--rag.",
        metavar="N",
        min=1,
        show_default=True,
    ),
]
RepeatsOption = Annotated[
    int,
    option(
        "--repeats",
        help="How many times each case is judged. A score is the mean; the report shows how "
        "far the judge agrees with itself.",
        metavar="N",
        min=1,
        show_default=True,
    ),
]
CanariesOption = Annotated[
    int,
    option(
        "--canaries",
        help="Put N claims of known truth, made of the run's own contexts, to its judge: the "
        "report then tells how often it is wrong.",
        metavar="N",
        min=0,
        show_default=True,
    ),
]
NoPreflightOption = Annotated[
    bool,
    option("--no-preflight", help="Do not try the models before the first judgement."),
]
FreshOption = Annotated[
    bool, option("--fresh", help="Ask everything again: stored answers of this run are dropped.")
]
ReuseOption = Annotated[
    bool,
    option(
        "--reuse",
        help="Reuse the stored answers of the latest run even where it is unknown whether "
        "something has changed, such as a model behind an API. The report says so.",
    ),
]
RetryFailedOption = Annotated[
    bool, option("--retry-failed", help="Retry what failed in an earlier run.")
]
QuietOption = Annotated[bool, option("--quiet", "-q", help="Show no progress and no hints.")]
