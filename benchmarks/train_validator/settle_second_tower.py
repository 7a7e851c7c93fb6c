"""Writes the reader with its second tower: ``python -m
benchmarks.train_validator.settle_second_tower DATA_DIR --state STATE --output DIR``.

STATE is what `train_second_tower` left. Both towers are held against the same threshold, so that
their logits must be of one scale: to the tower's a number is added, with which so many of the
answers that the first tower passes pass the second, too, as ``--kept`` says. It is chosen on the
pools of the held-out articles of squad2_dev_half whose answer is there. With ``--weight`` and
``--shift`` the tower's logit and that number, where they are below 0 together, are so many times
taken from the first tower's logit instead: what the tower does not object to stays as it was.
Readings are kept in the file of ``--cache``. Needs torch and onnx.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

import numpy as np

from benchmarks.adjudication import adjudicated
from benchmarks.score_cache import ScoreCache
from benchmarks.train_validator.second_tower import with_second_tower
from benchmarks.validation_pools import PROTOCOLS, Pool, build_pools, squad_half
from ragbench.text.onnx_model import OnnxFiles, find_onnx_files
from ragbench.validators.calibration import logit, shipped_rarity, shipped_weights
from ragbench.validators.lexical import LEXICAL_FEATURES, ask, read_in_windows
from ragbench.validators.local import LOCAL_FEATURES, local_features, shipped_reader

Logit = Callable[[Sequence[float]], float]


def main() -> None:
    given = _arguments()
    state = import_module("torch").load(given.state)
    start = shipped_reader()
    given.output.mkdir(parents=True, exist_ok=True)
    shutil.copy(start.tokenizer, given.output / "tokenizer.json")
    model = given.output / "model.onnx"
    if given.weight is not None:
        settled = {"shift": given.shift, "weight": given.weight}
        with_second_tower(start.model, state["mean"], given.shared, model, **settled)
        print(f"{state['steps']} steps, {settled}, {model}")
        return
    with_second_tower(start.model, state["mean"], given.shared, model)
    held = squad_half(given.data, held_out=True)
    pools = build_pools(held, PROTOCOLS[:2], limit=given.limit, seed=23)
    kept = [one for one in adjudicated(pools) if one is not None and one.present]
    cache = ScoreCache(given.cache, only_known=False)
    files = find_onnx_files(str(given.output))
    lacking = [one for pool in kept for one in _lacking(pool, files, cache)]
    shift = float(np.quantile(lacking, given.kept))
    with_second_tower(start.model, state["mean"], given.shared, model, shift=shift)
    print(f"{state['steps']} steps, {len(lacking)} answers, shift {shift:.3f}, {model}")


def _lacking(pool: Pool, files: OnnxFiles, cache: ScoreCache) -> Iterator[float]:
    """Of each answer that the first tower passes: what the tower's logit lacks to pass."""
    query = pool.question.text
    words = read_in_windows(
        ask(query, shipped_rarity()),
        [chunk.text for chunk in pool.chunks],
        shipped_weights("lexical", LEXICAL_FEATURES).chunk,
    )
    gold = [at for at, chunk in enumerate(pool.chunks) if chunk.id in pool.question.gold]
    own, texts = [words[at] for at in gold], [pool.chunks[at].text for at in gold]
    readings, _ = cache.readings_of(files, query, texts, max_length=512, threads=2)
    known = shipped_weights("local", LOCAL_FEATURES)
    # The logit of a pool whose only chunk reaches the threshold, on the scale of a chunk's.
    (slope, by_size), bias = known.pool.weights, known.pool.bias
    bias += by_size * np.log(len(pool.chunks))
    needed = (logit(known.present["document-absent"]) - bias) / slope
    for held, reading in zip(own, readings, strict=True):
        row = local_features(held, reading.logit)
        if reading.answers is None or known.chunk.logit(row) < needed:
            continue
        yield _reader_logit(known.chunk.logit, row, needed) - reading.answers


def _reader_logit(chunk: Logit, row: Sequence[float], needed: float) -> float:
    """What a reader must say for a chunk with these words to reach a logit: the model is linear."""
    lexical, _ = row
    nothing, ten = chunk((lexical, 0.0)), chunk((lexical, 1.0))
    return 10 * (needed - nothing) / (ten - nothing)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="the folder to write")
    parser.add_argument("--shared", type=int, default=6, help="layers from below that both share")
    parser.add_argument("--kept", type=float, default=0.95)
    parser.add_argument("--weight", type=float, help="instead of --kept")
    parser.add_argument("--shift", type=float, default=0.0, help="with --weight")
    parser.add_argument("--limit", type=int, default=150)
    parser.add_argument("--cache", type=Path, default=Path("scores.jsonl"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
