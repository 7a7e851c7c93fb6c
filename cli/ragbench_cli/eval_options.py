"""The options of ``ragbench eval``, each a field of the record that its values become."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ragbench_cli import console
from ragbench_cli.options import (
    ASKING,
    CASES,
    JUDGING,
    MEASURED,
    OUTPUT,
    EngineOption,
    EngineWorkersOption,
    RagArgsOption,
    json_object,
    one_of,
    option,
)
from ragbench_cli.validator_options import CalibratedChoice, CalibrationOption, ValidatorArgsOption

if TYPE_CHECKING:
    from ragbench.core.metric import Metric
    from ragbench.io.read import Selection
    from ragbench.metrics.matching import Matching
    from ragbench.stages.stage import CallSettings
    from ragbench_cli.systems import System

_MATCHINGS = ("auto", "id", "document_id", "text")
"""How retrieved chunks can be matched with the gold."""
GIVE_UP_AFTER = 100


def complete_metrics(typed: str) -> list[str]:
    from ragbench.metrics.registry import definitions

    before, comma, last = typed.rpartition(",")
    return [
        f"{before}{comma}{definition.name}"
        for definition in definitions()
        if definition.name.casefold().startswith(last.casefold())
    ]


LimitOption = Annotated[
    int | None,
    option("--limit", help="Take only the first N cases.", metavar="N", panel=CASES),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemChoice:
    """What the options say of the RAG, and of what stands behind its retrieval."""

    PANEL: ClassVar = CASES

    rag: Annotated[str | None, option("RAG")] = None
    """Your RAG: package.module:attr (a class, a factory or an instance), file.py:attr or an http(s)
    address. Without it recorded answers are scored, else the baseline RAG over the dataset's own
    corpus."""
    pipeline: Path | None = None
    """YAML file that describes the stages of a RAG. See docs/pipeline.md."""
    rag_args: RagArgsOption = None
    operators: Annotated[Path | None, option("--post-retrieval")] = None
    """YAML file with operators to run between the RAG's retrieval and its generation. See
    docs/post_retrieval.md."""

    def __post_init__(self) -> None:
        from ragbench.errors import ConfigError

        given = {
            "--rag": self.rag,
            "--rag-args": self.rag_args,
            "--post-retrieval": self.operators,
        }
        for name, value in given.items():
            if value is not None and self.pipeline is not None:
                raise ConfigError(
                    f"{name} and --pipeline cannot be combined: the file describes the whole system"
                )
        _ = self.arguments

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the RAG or of the baseline."""
        return json_object(self.rag_args, "--rag-args")

    def named(self, system: System) -> object:
        """What distinguishes the system from others; an edited file is another version of it."""
        if self.pipeline is not None:
            return str(self.pipeline)
        return system.description if self.rag is None else (self.rag, self.rag_args)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measuring:
    """What is measured, and of which cases."""

    PANEL: ClassVar = MEASURED

    spelled: Annotated[str | None, option("LIST", "--metrics", "-m", complete=complete_metrics)] = (
        None
    )
    """Metrics by name or file.py:function, with commas; +LIST adds to the usual ones. See:
    ragbench show metrics."""
    validate: str | None = None
    """Validate what was retrieved: auto, lexical, local, llm or cascade. Shows how often the system
    answers without evidence. See docs/validate.md."""
    validator_args: ValidatorArgsOption = None
    calibration: CalibrationOption = None
    matched: Annotated[str, option("HOW", "--matching", complete=_MATCHINGS, rare=True)] = "auto"
    """How retrieved chunks are matched with the relevant ones: auto, id, document_id or text."""
    limit: LimitOption = None
    sample: Annotated[int | None, option(panel=CASES)] = None
    """Draw N cases at random."""
    seed: Annotated[int, option(panel=CASES, rare=True)] = 0
    """Seed of the draw."""
    canaries: Annotated[int, option(min=0, panel=JUDGING, rare=True)] = 0
    """Put N claims of known truth, made of the run's own contexts, to its judge: the report then
    shows how often it is wrong."""

    def metrics(self) -> tuple[Metric, ...]:
        from ragbench.errors import ConfigError
        from ragbench.metrics.registry import default_metrics, parse_metrics

        with console.users_code():  # a file of the user's own may print
            given = self.spelled
            chosen = default_metrics() if given is None else parse_metrics(given)
        if not chosen:
            raise ConfigError("--metrics names no metric. 'ragbench show metrics' lists all")
        return tuple(chosen)

    @property
    def matching(self) -> Matching:
        from ragbench.metrics.matching import Matching

        return Matching(one_of(self.matched, _MATCHINGS, "--matching"))

    @property
    def selection(self) -> Selection:
        from ragbench.io.read import Selection

        return Selection(limit=self.limit, sample=self.sample, seed=self.seed)

    @property
    def validator(self) -> CalibratedChoice | None:
        from ragbench.errors import ConfigError

        if self.validate is not None:
            return CalibratedChoice(
                name=self.validate, settings=self.validator_args, calibration=self.calibration
            )
        given = {"--calibration": self.calibration, "--validator-args": self.validator_args}
        for name, value in given.items():
            if value is not None:
                raise ConfigError(f"{name} is for a validator: name one with --validate")
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """How the system is asked."""

    PANEL: ClassVar = ASKING

    top_k: Annotated[int | None, option("K", min=1)] = None
    """How many contexts to ask for. By default the RAG decides."""
    concurrency: Annotated[int | None, option(min=1)] = None
    """Concurrent calls. By default 1, or what the pipeline sets; more than 1 needs a RAG that
    allows it."""
    timeout: Annotated[float | None, option("SECONDS")] = None
    """Time limit per query, in seconds."""
    repeats: Annotated[int, option("--rag-repeats", min=1)] = 1
    """How many times the RAG is asked for each case. A score is the mean; the report shows how much
    of the variance is the system's own noise. Needs --rag."""
    batch_size: Annotated[int, option(min=1, rare=True)] = 32
    """Queries per batch, for a RAG that supports batching."""
    give_up_after: Annotated[int, option(min=0, rare=True)] = GIVE_UP_AFTER
    """Stop asking once a stage has failed for each of the first N cases. 0: never."""
    max_error_rate: Annotated[float | None, option(rare=True)] = None
    """Largest share of failed cases per stage, 0 to 1; above it the exit code is 1. [default: 1, no
    limit]"""
    engine: EngineOption = "local"
    workers: EngineWorkersOption = None

    def check(self, system: SystemChoice, *, dry_run: bool) -> None:
        """Refuses what cannot be, before anything is read."""
        from ragbench.errors import ConfigError

        share = self.max_error_rate
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigError(f"--timeout must be more than 0 seconds, not {self.timeout:g}")
        if share is not None and not 0 <= share <= 1:
            raise ConfigError(f"--max-error-rate must be between 0 and 1, not {share:g}")
        if self.repeats == 1:
            return
        if system.rag is None:
            raise ConfigError(
                "--rag-repeats needs --rag: recorded answers are the same each time, and so are "
                "the cached answers of a pipeline's models"
            )
        if dry_run:
            raise ConfigError(
                "--dry-run cannot be combined with --rag-repeats: estimate one repeat and multiply"
            )

    def limits(self, system: System) -> CallSettings:
        from ragbench.stages.stage import CallSettings

        return CallSettings(
            batch_size=self.batch_size,
            concurrency=self.concurrency or system.concurrency,
            timeout=self.timeout,
            give_up_after=self.give_up_after,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Keeping:
    PANEL: ClassVar = ASKING

    out: Annotated[Path | None, option("FOLDER", "-o", panel=OUTPUT)] = None
    """Folder of the run. By default one under reports/ derived from the arguments, so that the same
    command resumes the same run."""
    retry_failed: bool = False
    """Retry what failed in an earlier run."""
    fresh: bool = False
    """Ask everything again; drop the stored answers."""
    reuse: Annotated[bool, option(rare=True)] = False
    """Reuse the stored answers of the latest run even where it is unknown whether something has
    changed, such as a model behind an API. The report says so."""
