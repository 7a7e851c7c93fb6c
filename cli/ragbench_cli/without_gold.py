"""What a run without any gold can still tell: said at its end, with the commands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragbench.core.report import Report
    from ragbench_cli.console import Invocation

_WIDTH = 12


def without_gold(
    report: Report, folder: Path, invocation: Invocation, *, is_asked: bool
) -> Iterator[str]:
    """Lines that say what can be measured, where no case has anything to compare with."""
    if _is_told(report):
        return
    again = partial(invocation.with_options, without=("--fresh",))  # the answers are there
    yield (
        "Nothing to compare with: no case has a reference answer, relevant contexts or a label "
        "'answerable'."
    )
    yield "What can be measured without, on the same answers:"
    if report.validation is None:
        yield _line("evidence", again("--validate", "lexical"))
        yield _line("", "whether the retrieved chunks hold an answer; no key ('local': better)")
    yield _line("support", again("-m", "support", "--llm-model", "MODEL", "--dry-run"))
    yield _line("", "whether the chunks support the answer, by a judge; first what it costs")
    if is_asked:
        yield _line("latency", "the table of times; -m retrieval_latency,generation_latency")
    if not any(summary.measured for summary in report.summaries):
        yield _line("agreement", "candidate_agreement, where a system returns multi_responses")
    yield _line("changes", f"ragbench compare {_quoted(folder)} OTHER_RUN")
    yield _line("", "which questions got other chunks or another answer")
    yield _line("gold", "'reference' or 'reference_context_ids' for some of the questions")
    yield "Exit code 0: the calls succeeded. A gate has nothing to hold in such a run."


def _is_told(report: Report) -> bool:
    """Whether a figure rests on gold, or on a judge."""
    from ragbench.core.metric import Need

    free = {
        *(Need.QUERY, Need.RETRIEVED_CONTEXTS, Need.RETRIEVED_CONTEXT_IDS, Need.SCORES),
        *(Need.CONTEXT_METADATA, Need.RESPONSE, Need.MULTI_RESPONSES, Need.CONFIDENCE),
        *(Need.RETRIEVAL_LATENCY, Need.GENERATION_LATENCY, Need.TOKENS),
    }
    wanted = [one for one in report.summaries if not one.metric.definition.needs <= free]
    return not wanted or any(one.measured for one in wanted)


def _line(name: str, text: str) -> str:
    return f"  {name:<{_WIDTH}}{text}".rstrip()


def _quoted(folder: Path) -> str:
    import shlex

    return shlex.quote(str(folder))
