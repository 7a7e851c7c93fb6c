"""Teaches the reader: ``python -m benchmarks.train_validator.train_reader DATA_DIR --extra DIR
--output DIR``.

All twelve layers of the reader of ``--model`` learn the labels of the pairs of ``reader_pairs.py``
and where the answers stand, in two rounds of two runs each; beside them what the reader of before
had said of articles, which it knew well. A round leads to the mean of its runs' ends, and goes
`SHARE` of the way there. What the last one comes to is the reader; the upper six layers of its end
are the second tower. ``early_exit.py`` then fits the early end. Needs torch, onnx, onnxruntime and
tokenizers, which ragbench itself never does. On an H100 the runs of a round took five and three
minutes side by side; a graphics card adds up in any order, so that weights come out alike, not the
same to the byte.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.train_validator.asked_elsewhere import Pair
from benchmarks.train_validator.early_exit import without_early_exit
from benchmarks.train_validator.logistic_fit import Matrix
from benchmarks.train_validator.reader_graft import graft
from benchmarks.train_validator.reader_model import Tensors, forward, read_weights
from benchmarks.train_validator.reader_pairs import GROUPS, all_pairs
from benchmarks.train_validator.second_tower import with_second_tower
from ragbench.validators.local import shipped_reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Steps from the reader of before, at a rate that falls to nothing."""

    seed: int
    rate: float
    steps: int
    near_misses: float
    """So many times pairs of groups of near misses count."""


ROUNDS = (
    (
        Run(seed=1, rate=2e-4, steps=5096, near_misses=0.7),
        Run(seed=2, rate=3.5e-4, steps=5893, near_misses=1.0),
    ),
    (
        Run(seed=3, rate=2e-4, steps=2561, near_misses=0.8),
        Run(seed=4, rate=2.5e-4, steps=2389, near_misses=1.0),
    ),
)
"""The steps are those that 240, 280, 140 and 140 seconds had room for."""
SHARE = 0.5
"""Half of the way keeps the most of what was known (Wortsman et al. 2022, "Robust fine-tuning of
zero-shot models"), and a second round has most of what the whole way would have learned."""
SHIFT, WEIGHT = 1.0, 2.0
"""What the second tower's logit + 1 lacks to 0 is taken twice from the first one's."""
SHARED, HEADS = 6, ("pool", "cls", "span")
LONGEST, QUESTION = 256, 60
"""Tokens of a pair, and of its question."""
TOKENS, STRETCH = 12_000, 6_000
"""Of a step; pairs that are sorted by length together."""
WARM, DECAY, DROPOUT, LEAST = 100, 0.01, 0.1, 0.01
TOLD = 3.0
"""A near miss of pages or talks that the reader is so sure of counts as an answer that nobody had
marked."""
HELD_LOGIT = -3.0
"""Texts that say nothing shall not be told to be better than this by the reader of before."""
PLACE, NOWHERE = 0.15, 0.03
"""What the answer's place counts, and that there is none."""


def main() -> None:
    given = _arguments()
    torch = import_module("torch")
    before = {
        name: one.to(given.device) for name, one in read_weights(given.model / "model.onnx").items()
    }
    lessons = Lessons(all_pairs(given.data, given.extra), given.model, given.device)
    end = reader = before
    for runs in ROUNDS:
        said = lessons.logits(reader)
        ends = [Trainer(one, reader, lessons, said).run() for one in runs]
        end = {name: torch.stack([one[name] for one in ends]).mean(0) for name in ends[0]}
        moved = {name: reader[name] + SHARE * (one - reader[name]) for name, one in end.items()}
        reader = reader | moved
    changed = {name: reader[name].cpu() for name in end}
    write(changed, {name: one.cpu() for name, one in (reader | end).items()}, given)


def write(reader: Tensors, end: Tensors, given: argparse.Namespace) -> None:
    """The reader with its second tower, and without an early end."""
    path = given.output / "model.onnx"
    given.output.mkdir(parents=True, exist_ok=True)
    without_early_exit(given.model / "model.onnx", path)
    graft(path, reader, path)
    above = {name: one for name, one in end.items() if _is_above(name)}
    with_second_tower(path, above, SHARED, path, shift=SHIFT, weight=WEIGHT)
    shutil.copy(given.model / "tokenizer.json", given.output)
    print(path)


def _is_above(name: str) -> bool:
    part = name.split(".")[0]
    return part in HEADS or (part.isdigit() and int(part) >= SHARED)


class Lessons:
    """Pairs as tokens, on the device that learns."""

    def __init__(self, pairs: dict[str, list[Pair]], model: Path, device: str) -> None:
        self._torch = import_module("torch")
        self._device = device
        tokenizer = import_module("tokenizers").Tokenizer.from_file(str(model / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        together = [(name, one) for name, group in pairs.items() for one in group]
        self.groups = [GROUPS[name] for name, _ in together]
        self.labels = np.array([one.label for _, one in together], np.float32)
        self.weights = np.array([one.weight for _, one in together], np.float32)
        queries, texts = (
            tokenizer.encode_batch(list(side), add_special_tokens=False)
            for side in zip(*((one.query, one.text) for _, one in together), strict=True)
        )
        self._queries = [one.ids[:QUESTION] for one in queries]
        self._texts = [
            one.ids[: LONGEST - 3 - len(query)]
            for one, query in zip(texts, self._queries, strict=True)
        ]
        self.places = np.array(
            [_place(one.answer, text) for (_, one), text in zip(together, texts, strict=True)]
        )
        self.sizes = np.array(
            [len(a) + len(b) + 3 for a, b in zip(self._queries, self._texts, strict=True)]
        )

    def batch(self, chosen: Sequence[int]) -> tuple[Any, Any, Any, Any]:
        """Ids, kinds and mask of pairs, and where their answers are: 0, 0 where they have none."""
        shape = len(chosen), -(-int(self.sizes[chosen].max()) // 8) * 8
        ids, kinds, mask = np.zeros((3, *shape), np.int64)
        places = np.zeros((len(chosen), 2), np.int64)
        for row, at in enumerate(chosen):
            query, text = self._queries[at], self._texts[at]
            start, size = len(query) + 2, int(self.sizes[at])
            ids[row, :size] = [101, *query, 102, *text, 102]
            kinds[row, start:size] = mask[row, :size] = 1
            if 0 <= self.places[at][1] < len(text):
                places[row] = start + self.places[at]
        ids, kinds, mask, places = map(self.on_device, (ids, kinds, mask, places))
        return ids, kinds, mask, places

    def on_device(self, values: Any) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(values)).to(self._device)

    def logits(self, weights: Tensors) -> Matrix:
        """What a reader says of all pairs."""
        found: Matrix = np.zeros(len(self.labels))
        rounded = _rounded(weights)
        order = np.argsort(self.sizes)
        for chosen in _by_tokens(order, self.sizes):
            ids, kinds, mask, _ = self.batch(chosen)
            with self._torch.no_grad():
                found[chosen] = forward(rounded, ids, mask, kinds)[0][:, 0].float().cpu().numpy()
        return found


def _place(answer: Any, encoded: Any) -> tuple[int, int]:
    """The first and last token of an answer; -1, -1 where none is marked."""
    if answer is None:
        return -1, -1
    inside = [
        at
        for at, (start, end) in enumerate(encoded.offsets)
        if start < answer.end and answer.start < end
    ]
    return (inside[0], inside[-1]) if inside else (-1, -1)


def _by_tokens(order: Any, sizes: Any) -> Iterator[Any]:
    """Pairs of like length, as many as `TOKENS` have room for, and at least 16."""
    at = 0
    while at < len(order):
        longest = int(sizes[order[min(len(order) - 1, at + 64)]])
        count = max(16, TOKENS // longest)
        yield order[at : at + count]
        at += count


def _rounded(weights: Tensors) -> Tensors:
    """In bfloat16; what flows back to these reaches the exact ones."""
    bfloat16 = import_module("torch").bfloat16
    return {name: one.to(bfloat16) for name, one in weights.items()}


class Trainer:
    """Takes the steps of a run."""

    def __init__(self, run: Run, before: Tensors, lessons: Lessons, said: Matrix) -> None:
        self._torch = import_module("torch")
        self._torch.manual_seed(run.seed)
        self._draw = np.random.default_rng(run.seed)
        self._run, self._lessons = run, lessons
        learned = {
            name: one.clone().requires_grad_(True)
            for name, one in before.items()
            if name[0].isdigit() or name.split(".")[0] in HEADS
        }
        self._fixed = _rounded({k: one for k, one in before.items() if k not in learned})
        self._learned = learned
        flat = [one for one in learned.values() if one.ndim == 1]
        wide = [one for one in learned.values() if one.ndim > 1]
        self._optimiser = self._torch.optim.AdamW(
            [{"params": wide, "weight_decay": DECAY}, {"params": flat, "weight_decay": 0.0}],
            lr=run.rate,
        )
        self._weigh(lessons, said)

    def _weigh(self, lessons: Lessons, said: Matrix) -> None:
        """Which pairs are learned, and what of each counts how much."""
        groups, answers = lessons.groups, lessons.labels == 1
        is_sure = np.array([one.sure for one in groups])
        self._used = np.where(answers | is_sure | (said <= TOLD))[0]
        near = self._run.near_misses
        counts = np.array([one.count * (near if one.near_miss else 1.0) for one in groups])
        self._counts = lessons.weights * counts
        self._counts *= np.where(answers, [one.answers for one in groups], 1.0)
        self._label = np.array([one.label for one in groups])
        agrees = (said > 0) == answers
        self._kept = np.array([one.kept for one in groups])
        self._kept *= agrees | np.array([one.always_kept for one in groups])
        nothing = np.array([one is GROUPS["nothing"] for one in groups])
        self._aims = np.where(nothing, np.minimum(said, HELD_LOGIT), said)

    def run(self) -> Tensors:
        """The weights at the end."""
        batches = self._batches()
        for step in range(self._run.steps):
            left = 1 - step / self._run.steps
            for group in self._optimiser.param_groups:
                group["lr"] = self._run.rate * min(1.0, (step + 1) / WARM) * max(LEAST, left)
            loss = self._loss(next(batches))
            loss.backward()
            self._torch.nn.utils.clip_grad_norm_(list(self._learned.values()), 1.0)
            self._optimiser.step()
            self._optimiser.zero_grad(set_to_none=True)
            if step % 200 == 0:
                print(f"run {self._run.seed}, step {step}, loss {loss.item():.3f}", flush=True)
        return {name: one.detach() for name, one in self._learned.items()}

    def _batches(self) -> Iterator[Any]:
        sizes = self._lessons.sizes
        while True:
            order = self._draw.permutation(self._used)
            for at in range(0, len(order), STRETCH):
                stretch = order[at : at + STRETCH]
                batches = list(_by_tokens(stretch[np.argsort(sizes[stretch])], sizes))
                for one in self._draw.permutation(len(batches)):
                    yield batches[one]

    def _loss(self, chosen: Any) -> Any:
        """The label, the logit of the reader before, and the place of the answer."""
        torch, functional = self._torch, import_module("torch.nn.functional")
        ids, kinds, mask, places = self._lessons.batch(chosen)
        weights = _rounded(self._learned) | self._fixed
        logits, spans = forward(weights, ids, mask, kinds, dropout=DROPOUT)
        logits, spans = logits[:, 0].float(), spans.float()
        of = self._lessons
        chosen_of = (of.labels, self._counts, self._label, self._kept, self._aims)
        labels, counts, label, kept, aims = (
            of.on_device(values[chosen].astype(np.float32)) for values in chosen_of
        )
        told = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        moved = functional.smooth_l1_loss(logits, aims, reduction="none")
        loss = (counts * (label * told + kept * moved)).mean()
        readable = (kinds == 1) & (mask == 1)
        readable[:, 0] = True
        shares = spans.masked_fill(~readable[..., None], -1e4).log_softmax(1)
        rows = torch.arange(len(chosen), device=ids.device)
        missed = -sum(shares[rows, places[:, end], end] for end in (0, 1))
        marked = places[:, 0] > 0
        worth = torch.where(marked, PLACE, NOWHERE * (labels == 0).float())
        return loss + (worth * missed).mean()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--extra", type=Path, required=True, help="as reader_pairs.py says")
    parser.add_argument("--model", type=Path, default=shipped_reader().model.parent)
    parser.add_argument("--output", type=Path, required=True, help="the folder to write")
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


if __name__ == "__main__":
    main()
