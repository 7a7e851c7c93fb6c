"""Fitted limits as a configuration, with what they rest on beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from ragbench.core.history import FittedLimit
from ragbench.safe_text import shown_line


def limits_yaml(
    limits: Sequence[FittedLimit], *, command: str, runs: int, cases: int, baseline: str
) -> str:
    """A section ``gate`` that `ragbench.gate.config.read_gate_config` reads."""
    lines = [
        f"# Written by: {shown_line(command)}",
        f"# from {runs} runs of the unchanged system on {cases:,} cases. Run it again when the",
        "# dataset has changed. max_drop is the noise of one run against their mean, rounded up;",
        "# a larger drop blocks when it is shown. With more cases or more runs it can be smaller.",
        "gate:",
        f"  baseline: {json.dumps(baseline)}",
        "  metrics:",
    ]
    for limit in limits:
        lines.append(f"    # {limit_line(limit)}")
        lines.append(f"    {_key(limit.metric)}: {{max_drop: {limit.tolerance:g}}}")
    return "\n".join(lines) + "\n"


def limit_line(limit: FittedLimit) -> str:
    """What the cases can show of a metric."""
    cases = f"{limit.cases:,} cases"
    if limit.clusters < limit.cases:
        cases += f" in {limit.clusters:,} clusters"
    if limit.noise == 0.0:
        return f"{cases}, all alike in all runs: what changes is not noise"
    parts = [f"{cases}, noise {limit.noise:.3f}"]
    if limit.seen is not None:
        parts.append(f"a true drop of {limit.seen:.3f} is shown in 4 of 5 runs")
    else:
        parts.append("too few to show any drop")
    if limit.strict is not None:
        parts.append(f"--strict passes an unchanged run in 4 of 5 from {limit.strict:g}")
    else:
        parts.append("--strict would seldom pass an unchanged run at any tolerance")
    return "; ".join(parts)


def _key(name: str) -> str:
    """A name as a key of YAML: plain where it may be, else quoted."""
    plain = re.fullmatch(r"[A-Za-z_][\w@.]*", name)
    return name if plain else json.dumps(name, ensure_ascii=False)
