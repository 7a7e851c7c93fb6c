"""The models of a command: options that commands share, ragbench.yaml, and what opens them."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from ragbench_cli import console
from ragbench_cli.options import JUDGING, amount, option

if TYPE_CHECKING:
    from ragbench.core.metric import Metric
    from ragbench.core.report import Report
    from ragbench.llm.budget import Budget
    from ragbench.llm.session import Chat, LLMSession, ModelClients
    from ragbench.llm.settings import LLMSettings
    from ragbench.stages.dry_run import DryRun
    from ragbench.stages.judge import Judging


DEFAULT_CONFIG = Path("ragbench.yaml")
"""Read where no other file is named and it exists."""

LLMModelOption = Annotated[
    str | None,
    option("--llm-model", help="Name of the language model.", metavar="NAME", panel=JUDGING),
]
LLMBaseUrlOption = Annotated[
    str | None,
    option(
        "--llm-base-url",
        help="Address of an OpenAI-compatible endpoint, such as http://localhost:8000/v1.",
        metavar="URL",
        panel=JUDGING,
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class LLMChoice:
    """The language model that options name; what they leave out, a file or the environment says."""

    PANEL: ClassVar = JUDGING

    model: LLMModelOption = None
    base_url: LLMBaseUrlOption = None
    api_key_env: Annotated[str | None, option("--llm-api-key-env", rare=True)] = None
    """Environment variable with its API key."""
    api_key_file: Annotated[Path | None, option("--llm-api-key-file", rare=True)] = None
    """File with its API key."""
    config: Path | None = None
    """YAML file with sections llm and embeddings. By default ragbench.yaml, where there is one."""

    def settings(self) -> LLMSettings:
        from ragbench.llm.settings import resolve

        options = {"model": self.model, **self._endpoint()}
        path = _config(self.config)
        return resolve(options, os.environ, section=llm_section(self.config), file=str(path or ""))

    def panel(self, models: str | None) -> tuple[LLMSettings, ...]:
        from ragbench.llm.settings import resolve_panel

        return resolve_panel(
            os.environ,
            given=models,
            options=self._endpoint(),
            section=llm_section(self.config),
            file=str(_config(self.config) or ""),
        )

    def embeddings(self, chat: LLMSettings | None) -> LLMSettings:
        """The model that gives vectors; it asks the address of ``chat`` if no other is named."""
        from ragbench.llm.settings import resolve_embeddings

        path = _config(self.config)
        section: Mapping[str, object] = {} if path is None else _section(path, "embeddings")
        return resolve_embeddings(os.environ, section=section, file=str(path or ""), chat=chat)

    def _endpoint(self) -> dict[str, str | None]:
        return {
            "base_url": self.base_url,
            "api_key_env": self.api_key_env,
            "api_key_file": None if self.api_key_file is None else str(self.api_key_file),
        }


def llm_section(config: Path | None = None) -> Mapping[str, object]:
    """The section ``llm`` of a configuration file, ragbench.yaml by default; empty if absent."""
    path = _config(config)
    return {} if path is None else _section(path, "llm")


def _config(named: Path | None) -> Path | None:
    return named or (DEFAULT_CONFIG if DEFAULT_CONFIG.is_file() else None)


def _section(path: Path, name: str) -> Mapping[str, object]:
    from ragbench.errors import DataError
    from ragbench.io.yaml_file import read_yaml

    file = read_yaml(path)
    if not isinstance(cast("object", file.value), dict):
        raise DataError([file.problem((), "must hold sections such as llm")])
    value = cast("dict[str, object]", file.value)
    section = value.get(name)
    if section is None:
        return {}
    if not isinstance(section, dict):
        raise DataError([file.problem((name,), "must hold settings such as 'model: NAME'")])
    return {str(name): value for name, value in cast("dict[object, object]", section).items()}


def write_llm_section(path: Path, settings: LLMSettings, wanted: Mapping[str, Any]) -> str:
    """Writes settings into the section ``llm`` of a file; everything else in it stays as it is.

    Address, model and the place of the key are written too where the file does not have them, so
    that the section says all that a run needs.
    """
    from ragbench.io.atomic import written_whole

    known: Mapping[str, Any] = _section(path, "llm") if path.is_file() else {}
    endpoint = settings.endpoint
    base: dict[str, Any] = {"base_url": endpoint.base_url, "model": endpoint.model}
    if endpoint.key.variable is not None:
        base["api_key_env"] = endpoint.key.variable
    elif endpoint.key.file is not None:
        base["api_key_file"] = endpoint.key.file
    new = {name: value for name, value in base.items() if name not in known}
    new |= {name: value for name, value in wanted.items() if known.get(name) != _plain(value)}
    if not new:
        return f"{path} says all that is needed"
    text = path.read_text("utf-8") if path.is_file() else ""
    changed = _with_settings(text, new, path)
    with written_whole(path) as file:
        file.write(changed.encode())
    text = ", ".join(f"{name}: {_plain(value)}" for name, value in new.items())
    return f"{path} has now {text}"


def _plain(value: object) -> object:
    return "none" if value is None else value


def _with_settings(text: str, new: Mapping[str, Any], path: Path) -> str:
    import re

    lines = text.splitlines()
    written = {name: f"{name}: {_yaml(value)}" for name, value in new.items()}
    starts = [at for at, line in enumerate(lines) if re.match(r"llm\s*:", line)]
    if not starts:
        block = ["llm:", *(f"  {line}" for line in written.values())]
        return "\n".join([*lines, *([""] if lines else []), *block]) + "\n"
    start = starts[0]
    if re.fullmatch(r"llm\s*:\s*(#.*)?", lines[start]) is None:
        from ragbench.errors import ConfigError

        text = "; ".join(written.values())
        raise ConfigError(f"{path}: the section llm is on one line. Put into it: {text}")
    end = next(
        (at for at in range(start + 1, len(lines)) if re.match(r"[^\s#]", lines[at])), len(lines)
    )
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    inside = lines[start + 1 : end]
    indents = [re.match(r"\s+", line) for line in inside if line.strip()]
    indent = next((found[0] for found in indents if found), "  ")
    for name, line in written.items():
        at = [n for n, old in enumerate(inside) if re.match(rf"{indent}{name}\s*:", old)]
        if at:
            inside[at[0]] = f"{indent}{line}"
        else:
            inside.append(f"{indent}{line}")
    return "\n".join([*lines[: start + 1], *inside, *lines[end:]]) + "\n"


def _yaml(value: object) -> str:
    import json

    plain = isinstance(value, str) and value.replace("_", "").replace("-", "").isalnum()
    return str(_plain(value)) if plain or value is None else json.dumps(value)


@contextmanager
def language_model(
    purpose: str, settings: Callable[[], LLMSettings], *, budget: Budget | None = None
) -> Generator[Chat]:
    """Gives a model for the length of a block; it costs nothing until it is used."""
    from ragbench.llm.session import Chat, LLMSession, open_models

    known = cache(settings)
    with LLMSession(lambda: open_models(known(), budget=budget)) as session:
        yield Chat(session=session, settings=known, purpose=purpose)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    PANEL: ClassVar = JUDGING

    llm: LLMChoice = field(default_factory=LLMChoice)
    dry_run: bool = False
    """Estimate calls, tokens and cost of the judged metrics without judging. The RAG is asked, and
    its answers are kept for the run."""
    max_cost: Annotated[str | None, option("AMOUNT")] = None
    """Cap on what models may cost in this command; needs a known price."""
    max_cost_run: Annotated[str | None, option("AMOUNT", rare=True)] = None
    """Cap on what models may cost in all commands of this run together, those included that were
    killed."""
    panel: Annotated[str | None, option("LIST", rare=True)] = None
    """Further judges besides the language model, by their models' names, separated by commas, such
    as anthropic/claude-haiku-4-5. Each judges every case; a score is their mean."""
    repeats: Annotated[int, option(min=1, rare=True)] = 1
    """How many times each case is judged. A score is the mean; the report shows how far the judge
    agrees with itself."""
    no_preflight: Annotated[bool, option(rare=True)] = False
    """Do not try the models before the first judgement."""

    def budget(self) -> Budget:
        """What may be spent: by this command, and by all commands of its run."""
        from ragbench.llm.budget import Budget

        return Budget(
            amount(self.max_cost, "--max-cost"),
            run_limit=amount(self.max_cost_run, "--max-cost-run"),
        )


@dataclass(slots=True)
class ModelsInUse:
    choice: ModelChoice
    session: LLMSession
    judging: Judging | None
    """None when no metric asks a model."""
    dry_run: DryRun | None
    budget: Budget
    """What all models of the evaluation may cost, those of a pipeline included."""
    _settings: Callable[[], LLMSettings]

    def chat(self, purpose: str) -> Chat:
        """The language model for a stage of the run: operators, a validator."""
        from ragbench.llm.session import Chat

        return Chat(session=self.session, settings=self._for_stages, purpose=purpose)

    def _for_stages(self) -> LLMSettings:
        named = self._settings()
        if self.dry_run is not None:
            from ragbench.errors import ConfigError

            raise ConfigError(
                "a stage of the run asks a language model, which a dry run does not. Run without "
                "judged metrics first: what the stages gave is kept for the dry run"
            )
        return named


def _if_named(settings: Callable[[], LLMSettings]) -> LLMSettings | None:
    """What needs a model that nobody has named says so itself."""
    from ragbench.errors import NoModelError

    with suppress(NoModelError):
        return settings()
    return None


@contextmanager
def models_in_use(choice: ModelChoice, metrics: Sequence[Metric]) -> Generator[ModelsInUse]:
    """Gives the models for the length of a block; none is opened before it is asked."""
    from ragbench.core.metric import Need
    from ragbench.llm.session import LLMSession, open_models

    needs = {need for metric in metrics for need in metric.definition.needs}
    budget = choice.budget()
    named = cache(choice.llm.settings)
    panel = choice.llm.panel(choice.panel)
    judge = _if_named(named) if needs & {Need.LLM, Need.EMBEDDINGS} else None
    vectors = partial(choice.llm.embeddings, judge)
    embeddings = _if_named(vectors) if Need.EMBEDDINGS in needs else None

    def opening() -> AbstractAsyncContextManager[ModelClients]:
        others = panel if Need.LLM in needs else ()
        # A stage may ask one where no metric does.
        return open_models(_if_named(named), embeddings, panel=others, budget=budget)

    with ExitStack() as stack:
        session = stack.enter_context(LLMSession(opening))
        counter = None
        if choice.dry_run:
            from ragbench.stages.dry_run import DryRun

            counter = stack.enter_context(DryRun(judge, embeddings, panel))
        judging = None
        if any(metric.is_judged for metric in metrics):
            from ragbench.stages.judge import Judging

            judging = Judging(
                session=session,
                chat=judge,
                embeddings=embeddings,
                panel=panel,
                repeats=choice.repeats,
                preflight=not choice.no_preflight,
                rehearsal=counter,
            )
        yield ModelsInUse(choice, session, judging, counter, budget, named)


def with_canaries(
    report: Report,
    models: ModelsInUse,
    folder: Path,
    count: int,
    seed: int,
    stopped: Callable[[], bool],
) -> Report:
    """Puts canaries to a run's judge; see `ragbench.stages.canaries`."""
    from ragbench.stages.canaries import judge_canaries, plant
    from ragbench.verbs.report import open_traces, report_of

    judging = models.judging
    if judging is None:
        return report
    planted = plant((case.trace for case in open_traces(folder)), count, seed=seed)
    if models.dry_run is not None:
        models.dry_run.count(judging, report.metrics, [canary.trace for canary in planted])
        return report
    if len(planted) < count:
        console.say(f"canaries: the run's contexts give {len(planted):,} of {count:,}")
    run = report.manifest["fingerprints"]
    judge_canaries(planted, report.metrics, judging, folder, run=run, stopped=stopped)
    return report_of(folder)
