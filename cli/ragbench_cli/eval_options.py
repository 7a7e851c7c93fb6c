"""The options of ``ragbench eval``, each a field of the record that its values become.

The string below a field is the option's help, `PANEL` the heading under which the help lists it.
Options with ``rare=True`` are listed by ``--help-all`` alone: a first user needs few of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from ragbench.core.record import Record, field
from ragbench_cli.models import ModelChoice
from ragbench_cli.options import (
    CalibrationOption,
    EncodingOption,
    Labelled,
    OnEngine,
    Panel,
    RecordChoice,
    ValidatorArgsOption,
    argument,
    complete_metrics,
    option,
)
from ragbench_cli.services import ServiceChoice


def complete_format(typed: str) -> list[str]:
    """The formats that begin with what the user typed, for the shell's completion.

    ``--format`` takes those of datasets and those of dumps of queries.
    """
    # Late: a shell waits for the answer, and every command imports this module.
    from ragbench.io.detect import readers
    from ragbench.io.dumps.forms import form_names

    # A name may be that of a reader and of a form of dumps: the dictionary keeps it once, in order.
    names = dict.fromkeys((*readers().targets(), *form_names()))
    return [name for name in names if name.startswith(typed)]


class SourceChoice(Record):
    """Where the cases are, and how they are read."""

    PANEL: ClassVar = Panel.CASES

    dataset: Annotated[str, argument("DATASET")]
    """File or folder with cases, with or without recorded answers; a run; '-' for standard input,
    'hf:OWNER/NAME' for the hub. See: ragbench show formats."""
    answers: Annotated[str | None, option("FILE", "--outputs")] = None
    """File with recorded outputs, joined with the cases by id, else by question."""
    min_joined: Annotated[float, option("SHARE", rare=True)] = 0.0
    """Least share of the cases that --outputs must have an output for, 0 to 1; below it nothing
    is scored."""
    corpus: Annotated[str | None, option("PATH", rare=True)] = None
    """Documents for --rag baseline or a pipeline, and texts of a source with ids alone; by default
    those next to the cases."""
    field: Annotated[list[str] | None, option("TARGET=SOURCE")] = None
    """Where a field is found, such as query=Frage (dots lead into objects); repeatable. For
    --outputs: outputs.response=text."""
    ask_again: Annotated[bool, option(rare=True)] = False
    """Ignore recorded answers and ask the RAG for all."""
    format: Annotated[str | None, option("FORMAT", complete=complete_format, rare=True)] = None
    """Format of the dataset; detected if omitted."""
    answers_format: Annotated[
        str | None, option("FORMAT", "--outputs-format", complete=complete_format, rare=True)
    ] = None
    """Format of --outputs; detected if omitted."""
    split: Annotated[str | None, option(rare=True)] = None
    """Part to read: a split of a BEIR or Hugging Face dataset, a provider or prompt of promptfoo.
    With --outputs, the part of that file."""
    queries: Annotated[Path | None, option(rare=True)] = None
    """File with the queries of a TREC run."""
    qrels: Annotated[Path | None, option(rare=True)] = None
    """Relevance judgements (qrels) of a TREC run or BEIR results; by default those next to it or in
    the corpus folder. They are enough: no queries and no texts are needed."""
    encoding: EncodingOption = None


class SystemChoice(Record):
    """What the options say of the RAG, and of what stands behind its retrieval."""

    PANEL: ClassVar = Panel.CASES

    rag: Annotated[str | None, option("RAG")] = None
    """Your RAG: package.module:attr, file.py:attr or an address (POST:https://host/ask). Without
    it, recorded answers are scored. 'baseline': a keyword RAG over the dataset's corpus."""
    service: ServiceChoice = field(default_factory=ServiceChoice)
    pipeline: Path | None = None
    """YAML file that describes the stages of a RAG. See docs/pipeline.md."""
    rag_args: Annotated[str | None, option("JSON", rare=True)] = None
    """Arguments for the class or factory, as JSON."""
    operators: Annotated[Path | None, option("--post-retrieval", rare=True)] = None
    """YAML file with operators to run between the RAG's retrieval and its generation. See
    docs/post_retrieval.md."""


class Measuring(Record):
    """What is measured, and of which cases."""

    PANEL: ClassVar = Panel.MEASURED

    metrics: Annotated[str | None, option("LIST", "--metrics", "-m", complete=complete_metrics)] = (
        None
    )
    """Metrics by name or file.py:function, with commas; +LIST adds to the usual ones. See:
    ragbench show metrics."""
    validate: str | None = None
    """Validate the retrieved chunks: auto, lexical, local, llm or cascade. Shows how often the
    system answers without evidence. See docs/validate.md."""
    validator_args: ValidatorArgsOption = None
    calibration: CalibrationOption = None
    matching: Annotated[
        Literal["auto", "id", "document_id", "text"], option("HOW", "--matching", rare=True)
    ] = "auto"
    """How retrieved chunks are matched with the relevant ones: auto, id, document_id or text."""
    limit: Annotated[int | None, option(panel=Panel.CASES)] = None
    """Take only the first N cases."""
    sample: Annotated[int | None, option(panel=Panel.CASES, rare=True)] = None
    """Draw N cases at random."""
    seed: Annotated[int, option(panel=Panel.CASES, rare=True)] = 0
    """Seed of the draw."""
    canaries: Annotated[int, option("--judge-controls", min=0, panel=Panel.JUDGING, rare=True)] = 0
    """Put N claims of known truth, made of the run's own contexts, to its judge: the report then
    shows how often it is wrong."""


class Asking(Record):
    """How the system is asked."""

    PANEL: ClassVar = Panel.ASKING

    top_k: Annotated[int | None, option("K", min=1, rare=True)] = None
    """How many contexts to ask for. By default the RAG decides."""
    turns: Annotated[Literal["recorded", "own"], option(rare=True)] = "recorded"
    """Earlier answers that a RAG gets in a conversation: those of the dataset, or its own, turn
    after turn."""
    concurrency: Annotated[str | None, option("N")] = None
    """Calls in flight. Plain code is called once at a time; coroutines and addresses begin with 4
    and go up to 16 ('auto')."""
    timeout: Annotated[float | None, option("SECONDS", rare=True)] = None
    """Time limit per query, in seconds."""
    repeats: Annotated[int, option("--rag-repeats", min=1, rare=True)] = 1
    """How many times the RAG is asked for each case; the report shows its noise. Needs --rag."""
    batch_size: Annotated[int, option(min=1, rare=True)] = 32
    """Queries per batch, for a RAG that supports batching."""
    give_up_after: Annotated[int, option(min=0, rare=True)] = 100
    """Stop asking once a stage has failed for each of the first N cases. 0: never."""
    max_error_rate: Annotated[float | None, option(rare=True)] = None
    """Largest share of failed cases per stage, 0 to 1; above it the exit code is 1. [default: 1, no
    limit]"""
    on: OnEngine


class Keeping(Record):
    """Where a run is stored, and what of it is used again."""

    PANEL: ClassVar = Panel.ASKING

    out: Annotated[Path | None, option("FOLDER", "-o", panel=Panel.OUTPUT)] = None
    """Folder of the run. By default one under reports/ derived from the arguments, so that the same
    command resumes the same run."""
    retry_failed: Annotated[bool, option(rare=True)] = False
    """Retry the cases that failed in an earlier run."""
    fresh: bool = False
    """Ask everything again; drop the stored answers."""
    reuse: Annotated[bool, option(rare=True)] = False
    """Reuse the stored answers of the latest run even if something may have changed, such as a
    model behind an API. The report notes it."""


class EvalOptions(Record):
    """All options of the command, in groups: a stage of the evaluation takes the group it needs."""

    system: SystemChoice
    cases: SourceChoice
    records: RecordChoice
    measuring: Measuring
    asking: Asking
    models: ModelChoice
    keeping: Keeping
    labelled: Labelled
    quiet: Annotated[bool, option("-q", panel=Panel.OUTPUT)] = False
    """Print only the run's folder, and errors."""
