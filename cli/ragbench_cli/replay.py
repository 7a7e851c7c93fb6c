"""``ragbench explain --replay``: the RAG is asked again, with one change at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ragbench_cli import console
from ragbench_cli.options import amount, json_object, option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ragbench.core.chunk import Document
    from ragbench.ledger.folder import Manifest
    from ragbench.llm.session import Chat
    from ragbench.verbs.replay import Cure, Replay, ReplayedCase
    from ragbench_cli.systems import DocumentsBeside


@dataclass(frozen=True, kw_only=True, slots=True)
class Replaying:
    replay: bool = False
    """Ask the RAG again with one change of the context at a time, and show which one cures the
    case; without a case, over the worst lost ones."""
    most: Annotated[int, option(min=1)] = 20
    """How many lost cases are replayed."""
    rag: Annotated[str | None, option("RAG")] = None
    """RAG that is asked; by default the one that the run names."""
    rag_args: Annotated[str | None, option("JSON", rare=True)] = None
    """Arguments for the class or factory, as JSON."""
    pipeline: Path | None = None
    """YAML file of the RAG that is asked. See docs/pipeline.md."""
    max_cost: Annotated[str | None, option("AMOUNT", rare=True)] = None
    """Most that a pipeline's models may cost."""


def replayed(run: Path, case: str | None, asked: Replaying, *, as_json: bool) -> None:
    from ragbench.ledger.folder import RunFolder, read_manifest
    from ragbench.llm.budget import Budget
    from ragbench.stages.trial import Answering
    from ragbench.verbs.replay import plan_replay
    from ragbench_cli.systems import DocumentsBeside, chosen_system

    manifest = read_manifest(RunFolder(path=run).manifest)
    spec, arguments = _system(manifest, asked)
    beside = DocumentsBeside(manifest.dataset.source)
    with (
        console.users_code(),
        chosen_system(
            rag=spec,
            pipeline=asked.pipeline,
            arguments=arguments,
            documents=beside,
            budget=Budget(amount(asked.max_cost, "--max-cost")),
        ) as system,
    ):
        assert system.rag is not None
        documents = system.documents or partial(_documents, beside)
        plan = plan_replay(run, case=case, most=asked.most, documents=documents)
        with Answering(system.rag) as answering:  # refuses a RAG that cannot be asked so
            console.say(_price(plan, system.name, system.chats))
            done = list(plan.ask(answering))
    _print(done, as_json=as_json, is_one=case is not None)


def _system(manifest: Manifest, asked: Replaying) -> tuple[str | None, dict[str, Any]]:
    """The RAG to ask and its arguments: the one that is named, or else the run's."""
    from ragbench.errors import ConfigError

    if asked.rag is not None or asked.pipeline is not None:
        return asked.rag, json_object(asked.rag_args, "--rag-args")
    described = manifest.rag.description
    spec = str(described.get("spec") or "")
    arguments = dict(described.get("arguments") or {})
    if spec == "baseline":
        return None, arguments
    if ":" not in spec or "***" in str(described):
        raise ConfigError(
            "which RAG gave the answers does not follow from the run: name it with --rag or "
            "--pipeline"
        )
    return spec, arguments


def _documents(beside: DocumentsBeside) -> Iterable[Document]:
    from ragbench.errors import ConfigError, DataError

    try:
        yield from beside.read()
    except (ConfigError, DataError):
        return


def _price(plan: Replay, name: str, chats: Sequence[Chat]) -> str:
    from ragbench.safe_text import counted

    text = f"asking {name} {counted(plan.questions, 'time')} for {counted(len(plan.cases), 'case')}"
    if plan.tokens is not None:
        text += f", about {plan.tokens * plan.questions:,.0f} tokens"
    models = ", ".join(dict.fromkeys(chat.name for chat in chats))
    return f"{text}{f' of {models}' if models else ''}"


def _print(done: Sequence[ReplayedCase], *, as_json: bool, is_one: bool) -> None:
    import msgspec

    from ragbench.verbs.replay import cures
    from ragbench_cli.tables import draw

    if as_json:
        found = {"schema_version": 1, "cures": cures(done), "cases": done}
        console.print_json(msgspec.to_builtins(found))
        return
    draw(console.data_console(), _tries(done[0]) if is_one else _table(cures(done), done))


def _tries(case: ReplayedCase) -> Iterator[RenderableType]:
    from ragbench.safe_text import shown_line
    from ragbench_cli.tables import styled

    yield styled((shown_line(case.id), "bold"), f": {case.cause.label}")
    for one in case.tries:
        state = ("cures it", "green") if one.cures else ("does not cure it", "dim")
        yield styled(f"  {one.change}: ", state, f" (right {_number(one.right)})")
        yield styled((f"    {shown_line(one.response or one.failure or '', longest=160)}", "dim"))


def _number(right: float | None) -> str:
    return "unknown" if right is None else f"{right:.2f}"


def _table(counts: Sequence[Cure], done: Sequence[ReplayedCase]) -> Iterator[RenderableType]:
    from ragbench.safe_text import shown_line
    from ragbench_cli.tables import styled, table

    rows = [(one.change, f"{one.tried:,}", f"{one.cured:,}") for one in counts]
    yield table(("one change at a time", "cases", "cured"), rows)
    yield ""
    for case in done:
        cured = [one.change for one in case.tries if one.cures]
        yield styled(f"{shown_line(case.id, longest=40)}: ", "; ".join(cured) or "none cures it")
