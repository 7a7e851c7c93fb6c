"""How good the validators are: ``python -m benchmarks.validation_quality DATA_DIR``.

For each validator, data set and protocol by name (see validation_pools.py): is the answer present
(precision and recall at the threshold that comes with the weights, recall at 98 % precision), which
chunks are relevant, does the evidence hold the labelled span, how well are probabilities
calibrated, and how does the rating go with the quality of an extractive answer. Intervals are exact
(95 %); that of the recall at 98 % precision is a bootstrap over questions.

Weights and thresholds come from squad2_dev_half, whose row (its four held-out articles) is no test
therefore; no other set has a question or an article of it.
``--cache FILE`` keeps what the reader says: a second run takes seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.reliability_diagram import reliability_diagram
from benchmarks.score_cache import ScoreCache
from benchmarks.validation_figures import Judged, figures
from benchmarks.validation_pools import (
    PROTOCOLS,
    Collection,
    Pool,
    build_pools,
    clapnq,
    covidqa,
    pellorin,
    policyqa,
    squad_half,
    xquad,
    xquad_zh,
)
from ragbench.errors import LLMError
from ragbench.llm.session import Chat, chat_of
from ragbench.llm.settings import resolve
from ragbench.validators.lexical import LexicalValidator
from ragbench.validators.llm import LlmValidator
from ragbench.validators.local import LocalValidator
from ragbench.validators.validator import CascadeValidator, Validator

DATA: dict[str, tuple[Callable[[Path], Collection], tuple[str, ...]]] = {
    "xquad_en": (xquad, PROTOCOLS[:2]),
    "clapnq": (clapnq, PROTOCOLS[1:]),
    "covidqa": (covidqa, PROTOCOLS[:2]),
    "policyqa": (policyqa, PROTOCOLS[:2]),
    "pellorin": (lambda _: pellorin(), PROTOCOLS[1:]),
    "squad2": (lambda folder: squad_half(folder, held_out=True), PROTOCOLS),
    "xquad_zh": (xquad_zh, PROTOCOLS[:2]),
}
"""Thresholds come from squad2: its row is no test."""


def main() -> None:
    given = _arguments()
    if given.cache is not None:
        ScoreCache(given.cache, only_known=given.cached_only).install()
    rows: list[dict[str, object]] = []
    for name, pools, protocols in _pools(given):
        judged = {key: _judge(one, pools) for key, one in _validators(given).items()}
        for key, protocol in product(judged, protocols):
            chosen = [one for one in judged[key] if one.pool.protocol == protocol]
            if chosen:
                row = {"validator": key, "data": name, "protocol": protocol}
                rows.append(row | figures(chosen))
                print(json.dumps(rows[-1]), flush=True)
    print(_table(rows))
    if given.diagrams is not None:
        _draw(rows, given.diagrams)


def _pools(given: argparse.Namespace) -> Iterator[tuple[str, list[Pool], tuple[str, ...]]]:
    for name, (read, protocols) in DATA.items():
        if not given.only or name in given.only:
            pools = build_pools(read(given.data), protocols, limit=given.limit, seed=23)
            yield name, pools, protocols


def _draw(rows: Sequence[dict[str, object]], folder: Path) -> None:
    """One diagram a data set and protocol."""
    for name, protocol in dict.fromkeys((row["data"], row["protocol"]) for row in rows):
        series: dict[str, Any] = {
            str(row["validator"]): row["reliability"]
            for row in rows
            if (row["data"], row["protocol"]) == (name, protocol)
        }
        path = folder / f"reliability-{name}-{protocol}.svg"
        path.write_text(reliability_diagram(series), "utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--validators", nargs="+", default=["lexical", "local", "cascade"])
    parser.add_argument("--reader", help="a folder, instead of the reader that comes along")
    parser.add_argument("--present", type=float, help="threshold, instead of the measured one")
    parser.add_argument("--llm-url", help="of an OpenAI-compatible endpoint, for --validators llm")
    parser.add_argument("--llm-model", default="model")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--only", nargs="+", help="data sets")
    parser.add_argument("--cached-only", action="store_true")
    parser.add_argument("--diagrams", type=Path, help="folder to write reliability diagrams to")
    parser.add_argument("--limit", type=int, default=150)
    return parser.parse_args()


def _validators(given: argparse.Namespace) -> dict[str, Validator]:
    lexical = LexicalValidator(present=given.present)
    local = LocalValidator(reader=given.reader, present=given.present)
    makers: dict[str, Callable[[], Validator]] = {
        "lexical": lambda: lexical,
        "local": lambda: local,
        "cascade": lambda: CascadeValidator(first=lexical, second=local),
        "llm": lambda: LlmValidator(chat=_chat(given)),
    }
    return {name: makers[name]() for name in given.validators}


def _chat(given: argparse.Namespace) -> Chat:
    settings = {"base_url": given.llm_url, "model": given.llm_model, "timeout": 600}
    return chat_of(resolve(settings, {}))


def _judge(validator: Validator, pools: Sequence[Pool]) -> list[Judged]:
    judged: list[Judged] = []
    for pool in pools:
        start = time.perf_counter()
        try:
            verdict = validator.validate(pool.question.text, pool.chunks)
        except (LookupError, LLMError):  # not in the cache; no usable answer
            continue
        judged.append(Judged(pool, verdict, time.perf_counter() - start))
    return judged


def _table(rows: Sequence[dict[str, object]]) -> str:
    keys = (
        "validator", "data", "protocol", "pools", "precision", "recall", "recall_at_98",
        "chunk_f1", "ece", "adjudicated_pools", "adjudicated_precision", "adjudicated_recall",
        "adjudicated_recall_at_98", "adjudicated_chunk_f1", "adjudicated_ece",
        "balanced_accuracy", "accuracy", "base_rate", "evidence_holds_span",
        "quotes_that_touch_it", "evidence_words",
        "escalated", "rating_answer_f1_per_query", "rating_present_per_query",
        "rating_answer_f1_per_system", "p95_seconds",
    )  # fmt: skip
    lines = [" | ".join(keys), " | ".join("---" for _ in keys)]
    lines += [" | ".join(_cell(row[key]) for key in keys) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def _cell(value: object) -> str:
    if isinstance(value, list):
        return f"{value[0]:.2f} [{value[1]:.2f}, {value[2]:.2f}]"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
