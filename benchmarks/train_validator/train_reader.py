"""Trains a reader: ``python -m benchmarks.train_validator.train_reader DATA_DIR --help``.

A cross-encoder learns to tell answering passages from near misses and to point at the answer.
Positive: the gold paragraph, and a few sentences of it. Negative: the nearest paragraphs of its
article and of other ones, the gold paragraph without the sentence of the answer, questions that
people wrote to have no answer; after the first epoch the negatives that the model itself ranks
highest. What is written is the mean of the weights before and after. Data, from DATA_DIR:
squad2_dev_half without the held-out articles; see reader_sources.py.

The rate falls over the time that is given, so that a run always ends annealed: the same data and
seed give the same result only with ``--steps``. Needs torch, onnx, onnxruntime and tokenizers.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.train_validator.reader_model import Tensors, forward, read_weights, to_onnx
from benchmarks.train_validator.reader_sources import Example, Source, all_sources

LONGEST = 288
"""Tokens of a pair; what is longer is cut, and loses its span if that is behind the cut."""
WARM = 60
"""Steps until the full rate."""
KEEP = 0.15
"""What a logit that moves away from its aim costs, beside the loss of the label."""
TOPIC = 0.3
"""What the topic counts beside the answer."""


def main() -> None:
    given = _arguments()
    draw = random.Random(given.seed)
    sources, unanswerable = all_sources(given.data, given.extra)
    trainer = Trainer(given)
    mined: dict[int, str] = {}
    while True:
        for batch in batches(_epoch(sources, unanswerable, mined, draw), given.batch, draw):
            trainer.step(batch)
            if trainer.finished:
                break
        if trainer.finished:
            break
        mined = _mine(sources, trainer, draw)
    to_onnx(trainer.blended(), given.output)
    print(f"{trainer.steps} steps, {given.output}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, required=True, help="folder of the cross-encoder")
    parser.add_argument("--output", type=Path, required=True, help="the ONNX file to write")
    parser.add_argument("--extra", type=Path, help="folder of the sets of reader_sources.py")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--steps", type=int, help="instead of minutes")
    parser.add_argument("--rate", type=float, default=8e-5)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--frozen", type=int, default=4, help="layers from below that stay")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--share",
        type=float,
        default=0.5,
        help="of what was learned in the weights that are written",
    )
    parser.add_argument("--seed", type=int, default=11)
    return parser.parse_args()


class Trainer:
    """Takes steps until the time or the number of steps is over."""

    def __init__(self, given: argparse.Namespace) -> None:
        os.environ.setdefault("OMP_NUM_THREADS", str(given.threads))
        self._torch = import_module("torch")
        self._torch.set_num_threads(given.threads)
        self._torch.manual_seed(given.seed)
        tokenizers = import_module("tokenizers")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(given.model / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.weights = read_weights(given.model / "model.onnx", given.seed)
        self._before = {name: value.clone() for name, value in self.weights.items()}
        self._given = given
        self._start = time.monotonic()
        self._earlier = 0.0
        self.steps = 0
        fixed = {"word", "position", "token_type", "norm.weight", "norm.bias"}
        for name, value in self.weights.items():
            below = name[0].isdigit() and int(name.split(".")[0]) < given.frozen
            value.requires_grad_(name not in fixed and not below)
        self._trained = [value for value in self.weights.values() if value.requires_grad]
        self._optimiser = self._torch.optim.AdamW(self._trained, lr=given.rate)

    @property
    def progress(self) -> float:
        """The share of the training that is over."""
        if self._given.steps:
            return float(self.steps / self._given.steps)
        return float(self._seconds / (60 * self._given.minutes))

    @property
    def _seconds(self) -> float:
        """Of training, those before an interruption included."""
        return self._earlier + time.monotonic() - self._start

    @property
    def finished(self) -> bool:
        return self.progress >= 1

    def blended(self) -> Tensors:
        """The mean of the weights before and after, but for heads that were not there.

        Wortsman et al. 2022, "Robust fine-tuning of zero-shot models": what both know stays.
        Before, the model tells what is spoken of; after, what is answered.
        """
        share = self._given.share
        return {
            name: value.detach()
            if name.startswith(("span", "topic"))
            else share * value.detach() + (1 - share) * self._before[name]
            for name, value in self.weights.items()
        }

    def save(self, path: Path) -> None:
        """A state that `load` goes on from; the file is whole or as it was."""
        state = {
            "weights": self.weights,
            "before": self._before,
            "optimiser": self._optimiser.state_dict(),
            "steps": self.steps,
            "seconds": self._seconds,
        }
        part = path.with_suffix(".part")
        self._torch.save(state, part)
        part.replace(path)

    def load(self, path: Path) -> None:
        """Goes on where `save` was called."""
        state = self._torch.load(path)
        with self._torch.no_grad():
            for name, value in state["weights"].items():
                self.weights[name].copy_(value)
        self._before = state["before"]
        self._optimiser.load_state_dict(state["optimiser"])
        self.steps, self._earlier = state["steps"], state["seconds"]

    def _rounded(self) -> Tensors:
        """The weights in bfloat16; what flows back to these reaches the exact ones.

        All sums in bfloat16 take a third of the processor time of autocast, which casts each value
        again for each product.
        """
        return {name: one.to(self._torch.bfloat16) for name, one in self.weights.items()}

    def step(
        self,
        batch: Sequence[Example],
        aims: Sequence[float | None] | None = None,
        topics: Sequence[float | None] | None = None,
    ) -> None:
        """One step of AdamW on the loss of a batch: answerable or not, where, and on topic or not.

        Args:
            batch: examples.
            aims: for each the logit that is to be kept beside its label (distillation: Hinton et
                al. 2015), or None.
            topics: for each 1 where the text speaks of what is asked, 0 where it does not, or None.
        """
        torch, functional = self._torch, import_module("torch.nn.functional")
        ids, mask, kinds, starts, ends = self._encoded(batch)
        labels = torch.tensor([one.label for one in batch])
        warm = min(1.0, (self.steps + 1) / WARM)
        for group in self._optimiser.param_groups:
            group["lr"] = self._given.rate * warm * max(0.02, 1 - self.progress)
        logits, spans, topic = forward(
            self._rounded(),
            ids,
            mask,
            kinds,
            frozen=self._given.frozen,
            dropout=self._given.dropout,
        )
        readable = (kinds == 1) & (mask == 1)
        readable[:, 0] = True
        spans = spans.float().masked_fill(~readable[..., None], -1e4)
        loss = functional.binary_cross_entropy_with_logits(logits.float()[:, 0], labels)
        for chosen, share in ((starts >= 0, 0.25), (labels == 0, 0.05)):
            if chosen.any():  # without an answer the first token is the place
                for column, places in ((0, starts), (1, ends)):
                    target = places[chosen].clamp(min=0)
                    loss = loss + share * functional.cross_entropy(
                        spans[chosen][..., column], target
                    )
        kept = [at for at, aim in enumerate(aims or ()) if aim is not None]
        if kept:
            aimed = torch.tensor([aim for aim in aims or () if aim is not None])
            gap = functional.smooth_l1_loss(logits.float()[kept, 0], aimed, reduction="sum")
            loss = loss + KEEP * gap / len(batch)
        told = [at for at, one in enumerate(topics or ()) if one is not None]
        if told:
            aimed = torch.tensor([one for one in topics or () if one is not None])
            missed = functional.binary_cross_entropy_with_logits(
                topic.float()[told, 0], aimed, reduction="sum"
            )
            loss = loss + TOPIC * missed / len(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._trained, 1.0)
        self._optimiser.step()
        self._optimiser.zero_grad()
        self.steps += 1
        if self.steps % 10 == 0:
            print(f"step {self.steps} {self.progress:.0%} loss {loss.item():.3f}", flush=True)
        if self.steps % 50 == 0:
            self.save(self._given.output.with_suffix(".pt"))

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Logits of pairs."""
        found: list[float] = []
        rounded = self._rounded()
        for at in range(0, len(pairs), 16):
            batch = [Example(query, text, 0.0) for query, text in pairs[at : at + 16]]
            ids, mask, kinds, _, _ = self._encoded(batch)
            with self._torch.no_grad():
                logits, _, _ = forward(rounded, ids, mask, kinds)
            found += logits.float()[:, 0].tolist()
        return found

    def _encoded(self, batch: Sequence[Example]) -> tuple[Any, ...]:
        return encoded_batch(self._tokenizer, batch)


def encoded_batch(tokenizer: Any, batch: Sequence[Example]) -> tuple[Any, ...]:
    """Token ids, mask, kinds; first and last token of each answer, -1 where there is none."""
    torch = import_module("torch")
    encoded = [tokenizer.encode(one.query, one.text) for one in batch]
    width = min(LONGEST, max(len(one.ids) for one in encoded))
    rows = torch.zeros(3, len(batch), width, dtype=torch.long)
    places: list[tuple[int, int]] = []
    for at, (one, example) in enumerate(zip(encoded, batch, strict=True)):
        size = min(width, len(one.ids))
        for row, values in zip(rows, (one.ids, one.attention_mask, one.type_ids), strict=True):
            row[at, :size] = torch.tensor(values[:size])
        places.append(_tokens_of(one, example, size))
    starts, ends = torch.tensor(places).T
    return rows[0], rows[1], rows[2], starts, ends


def _tokens_of(encoded: Any, example: Example, size: int) -> tuple[int, int]:
    if example.start < 0:
        return -1, -1
    inside = [
        at
        for at in range(size)
        if encoded.type_ids[at] == 1
        and encoded.offsets[at][0] < example.end
        and encoded.offsets[at][1] > example.start
    ]
    return (inside[0], inside[-1]) if inside else (-1, -1)


def _epoch(
    sources: Sequence[Source],
    unanswerable: Sequence[Example],
    mined: dict[int, str],
    draw: random.Random,
) -> list[Example]:
    examples = list(unanswerable)
    for at, source in enumerate(sources):
        examples.append(source.positives[0])
        examples += [one for one in source.positives[1:] if draw.random() < 0.35]
        examples += [one for one in source.without_answer if draw.random() < 0.6]
        if source.near:
            place = min(draw.randrange(len(source.near)), draw.randrange(len(source.near)))
            text = mined.get(at) or source.near[place]
            examples.append(Example(source.question.text, text, 0.0))
    draw.shuffle(examples)
    return [as_typed(one, draw) for one in examples]


def as_typed(example: Example, draw: random.Random) -> Example:
    """Some questions without their mark, as people type them into a search field."""
    typed = draw.random() < 0.3
    return replace(example, query=example.query.rstrip(" ?")) if typed else example


def _mine(sources: Sequence[Source], trainer: Trainer, draw: random.Random) -> dict[int, str]:
    """For half of the questions the negative that the model ranks highest."""
    chosen = draw.sample(range(len(sources)), len(sources) // 2)
    pairs = [(at, text) for at in chosen for text in sources[at].near]
    scores = trainer.scores([(sources[at].question.text, text) for at, text in pairs])
    best: dict[int, tuple[float, str]] = {}
    for (at, text), score in zip(pairs, scores, strict=True):
        if at not in best or score > best[at][0]:
            best[at] = (score, text)
    return {at: text for at, (_, text) in best.items()}


def batches(
    examples: Sequence[Example], size: int, draw: random.Random
) -> Iterator[Sequence[Example]]:
    """Batches of texts of like length, within stretches of 24 batches."""
    for at in range(0, len(examples), 24 * size):
        stretch = sorted(examples[at : at + 24 * size], key=lambda one: len(one.text))
        batches = [stretch[first : first + size] for first in range(0, len(stretch), size)]
        draw.shuffle(batches)
        yield from batches


if __name__ == "__main__":
    main()
