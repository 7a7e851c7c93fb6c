"""Teaches the reader near misses: ``python -m benchmarks.train_validator.train_near_misses
DATA_DIR --extra DIR --output FILE``.

Starts from the reader that comes along. Examples are drawn as ``near_miss_examples.py`` says; on
ordinary pairs and on passages of other topics what the reader said before is kept where it was
right (distillation), so that it learns to tell near misses without forgetting the rest. The state
stands beside the output every 50 steps; the same command goes on from it. ``--share`` is that of
what was learned in the weights that are written. On a machine that others use, several runs of one
thread each, with seeds of their own, get further than one of several threads: `mean_of_runs.py`
makes one reader of them. Needs torch, onnx, onnxruntime and tokenizers.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

from benchmarks.train_validator.near_miss_examples import Mixed, mixed
from benchmarks.train_validator.reader_model import to_onnx
from benchmarks.train_validator.reader_sources import Example, all_sources
from benchmarks.train_validator.train_reader import Trainer, as_typed
from ragbench.text.onnx_model import find_onnx_files, load_pair_reader
from ragbench.validators.local import shipped_reader

STRETCH = 24
"""Batches whose examples are sorted by length together."""
CHARACTERS = 750
"""Of a text: shorter ones train faster."""
CUT = 1200
"""Characters that are read for the logit that is to be kept: the model takes 512 tokens."""


def main() -> None:
    given = _arguments()
    trainer = Trainer(given)
    state = given.output.with_suffix(".pt")
    if state.exists():
        trainer.load(state)
        print(f"goes on from step {trainer.steps}")
    # After an interruption other examples are drawn than before it.
    draw = random.Random(f"{given.seed}:{trainer.steps}")
    sources, unanswerable = all_sources(given.data, given.extra)
    examples = mixed(sources, unanswerable, draw, per_kind=given.per_kind)
    teacher = load_pair_reader(*_files(given.model), 1)
    seen: Counter[str] = Counter()
    while not trainer.finished:
        for batch in _stretch(list(itertools.islice(examples, STRETCH * given.batch)), given, draw):
            told = teacher.read(
                [(one.example.query, one.example.text[:CUT]) for one in batch if one.keep]
            )
            logits = iter(reading.logit for reading in told)
            aims = [_aim(one, next(logits)) if one.keep else None for one in batch]
            trainer.step([one.example for one in batch], aims, [one.topic for one in batch])
            seen.update(one.kind for one in batch)
            if trainer.progress >= 1:
                break
    trainer.save(state)
    to_onnx(trainer.blended(), given.output)
    print(f"{trainer.steps} steps, {given.output}, {dict(seen)}")


def _aim(one: Mixed, logit: float) -> float | None:
    """What was said before, unless it was wrong."""
    return logit if (logit > 0) == (one.example.label > 0) else None


def _files(model: Path) -> tuple[Path, Path]:
    found = find_onnx_files(str(model))
    return found.model, found.tokenizer


def _stretch(
    examples: list[Mixed], given: argparse.Namespace, draw: random.Random
) -> list[list[Mixed]]:
    """Batches of texts of like length, in any order."""
    short = [replace(one, example=as_typed(_cut(one.example), draw)) for one in examples]
    short.sort(key=lambda one: len(one.example.text))
    size = given.batch
    batches = [short[at : at + size] for at in range(0, len(short), size)]
    draw.shuffle(batches)
    return batches


def _cut(example: Example) -> Example:
    """A long text without its end; a passage whose answer might go stays whole."""
    anywhere = example.label > 0 and example.end < 0
    if len(example.text) <= CHARACTERS or example.end > CHARACTERS or anywhere:
        return example
    return replace(example, text=example.text[:CHARACTERS])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, default=shipped_reader().model.parent)
    parser.add_argument("--output", type=Path, required=True, help="the ONNX file to write")
    parser.add_argument("--extra", type=Path, help="folder of the sets of reader_sources.py")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--steps", type=int, help="instead of minutes")
    parser.add_argument("--rate", type=float, default=4.5e-5)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--frozen", type=int, default=4, help="layers from below that stay")
    parser.add_argument("--dropout", type=float, default=0.05)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--per-kind", type=int, default=2500, help="examples made of each kind")
    parser.add_argument("--seed", type=int, default=11)
    return parser.parse_args()


if __name__ == "__main__":
    main()
