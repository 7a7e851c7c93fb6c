"""Gives the reader a second tower: ``python -m benchmarks.train_validator.train_second_tower
DATA_DIR --extra DIR --output FILE``.

The reader that comes along stays as it is. Above its lowest layers a copy of the upper ones learns
one thing only: whether a passage that is on the topic answers *this* question. Examples are drawn
as ``near_miss_examples.py`` says, and near misses that people wrote where they are at hand
(``written_near_misses.py``). What the lowest layers say of an example is kept while there is room,
so that a step costs the upper layers alone. The state stands beside the output every 50 steps; the
same command goes on from it. What is written is the running mean of the weights, as the output
``answers`` of the reader's ONNX file (``second_tower.py``); ``settle_second_tower.py`` brings it
onto the scale of the other tower. Needs torch, onnx, onnxruntime and tokenizers.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.train_validator.near_miss_examples import Mixed, mixed
from benchmarks.train_validator.reader_model import Tensors, read_weights, trunk, upper
from benchmarks.train_validator.reader_sources import Example, all_sources
from benchmarks.train_validator.second_tower import with_second_tower
from benchmarks.train_validator.train_reader import as_typed, encoded_batch
from benchmarks.train_validator.written_near_misses import written_near_misses
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.tokens import tokenise
from ragbench.validators.local import shipped_reader

MIX: Mapping[str, float] = {"ordinary": 0.50, "negative": 0.24, "positive": 0.16, "stranger": 0.10}
"""Off topic the first tower decides, so that few strangers do."""
MIX_WITH_WRITTEN: Mapping[str, float] = {
    "ordinary": 0.32, "written": 0.24, "twin": 0.14, "negative": 0.15, "positive": 0.10,
    "stranger": 0.05,
}  # fmt: skip
"""Where near misses that people wrote are at hand: rules write others than people do."""
STRETCH = 24
"""Batches whose examples are sorted by length together."""
CHARACTERS, FEW = 400, 160
"""Of most texts, and of some: shorter ones train faster."""
SHORT = 0.2
"""Share of the texts that are cut to few characters."""
WHOLE = 0.12
"""Share of the longer texts that stay whole."""
WARM = 50
"""Steps until the full rate."""
MEAN_OVER = 10
"""Tens of steps over which the running mean of the weights reaches."""
SPAN, NO_SPAN = 0.25, 0.05
"""What the answer's place counts beside the answer, and "nowhere"."""


def main() -> None:
    given = _arguments()
    tower = TowerTrainer(given)
    state = given.output.with_suffix(".pt")
    if state.exists():
        tower.load(state)
        print(f"goes on from step {tower.steps}", flush=True)
    # After an interruption other examples are drawn than before it.
    draw = random.Random(f"{given.seed}:{tower.steps}")
    sources, unanswerable = all_sources(given.data, given.extra)
    written = None if given.extra is None else written_near_misses(given.data, given.extra)
    examples = mixed(
        sources,
        unanswerable,
        draw,
        per_kind=given.per_kind,
        mix=MIX_WITH_WRITTEN if written and written.answered else MIX,
        written=written,
    )
    seen: Counter[str] = Counter()
    while tower.progress < 1:
        for batch in _stretch(list(itertools.islice(examples, STRETCH * given.batch)), given, draw):
            tower.step([one.example for one in batch])
            seen.update(one.kind for one in batch)
            if tower.progress >= 1:
                break
    tower.save(state)
    with_second_tower(given.model / "model.onnx", tower.mean, given.shared, given.output)
    print(f"{tower.steps} steps, {given.output}, {dict(seen)}")


class TowerTrainer:
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
        self._given = given
        whole = read_weights(given.model / "model.onnx", given.seed)
        self._type = self._torch.bfloat16 if given.bfloat16 else self._torch.float32
        self._below = {name: one.detach().to(self._type) for name, one in whole.items()}
        self._above: Tensors = {
            name: one for name, one in whole.items() if _is_above(name, given.shared)
        }
        for one in self._above.values():
            one.requires_grad_(True)
        self.mean: Tensors = {name: one.detach().clone() for name, one in self._above.items()}
        self._optimiser = self._torch.optim.AdamW(list(self._above.values()), lr=given.rate)
        self._kept: dict[tuple[str, str], Any] = {}
        self._tokens = 0
        self._start = time.monotonic()
        self._earlier = 0.0
        self.steps = 0
        self._losses: list[float] = []

    @property
    def progress(self) -> float:
        """The share of the training that is over."""
        if self._given.steps:
            return float(self.steps / self._given.steps)
        return float(self._seconds / (60 * self._given.minutes))

    @property
    def _seconds(self) -> float:
        return self._earlier + time.monotonic() - self._start

    def save(self, path: Path) -> None:
        """A state that `load` goes on from; the file is whole or as it was."""
        part = path.with_suffix(".part")
        self._torch.save(
            {
                "above": self._above,
                "mean": self.mean,
                "optimiser": self._optimiser.state_dict(),
                "steps": self.steps,
                "seconds": self._seconds,
            },
            part,
        )
        part.replace(path)

    def load(self, path: Path) -> None:
        """Goes on where `save` was called."""
        state = self._torch.load(path)
        with self._torch.no_grad():
            for name, value in state["above"].items():
                self._above[name].copy_(value)
        self.mean = state["mean"]
        self._optimiser.load_state_dict(state["optimiser"])
        self.steps, self._earlier = state["steps"], state["seconds"]

    def step(self, batch: Sequence[Example]) -> None:
        """One step of AdamW on the loss of a batch: answered or not, and where."""
        torch, functional = self._torch, import_module("torch.nn.functional")
        ids, mask, kinds, starts, ends = encoded_batch(self._tokenizer, batch)
        hidden = self._hidden(batch, ids, mask, kinds)
        labels = torch.tensor([one.label for one in batch])
        rate = self._given.rate * min(1.0, (self.steps + 1) / WARM) * max(0.02, 1 - self.progress)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        rounded = {name: one.to(self._type) for name, one in self._above.items()}
        logits, spans, _ = upper(
            rounded, hidden, mask, first=self._given.shared, dropout=self._given.dropout
        )
        readable = (kinds == 1) & (mask == 1)
        readable[:, 0] = True
        spans = spans.float().masked_fill(~readable[..., None], -1e4)
        loss = functional.binary_cross_entropy_with_logits(logits.float()[:, 0], labels)
        for chosen, share in ((starts >= 0, SPAN), (labels == 0, NO_SPAN)):
            if chosen.any():  # without an answer the first token is the place
                for column, places in ((0, starts), (1, ends)):
                    target = places[chosen].clamp(min=0)
                    found = functional.cross_entropy(spans[chosen][..., column], target)
                    loss = loss + share * found
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(self._above.values()), 1.0)
        self._optimiser.step()
        self._optimiser.zero_grad()
        self.steps += 1
        self._after_step(loss.item())

    def _after_step(self, loss: float) -> None:
        self._losses.append(loss)
        if self.steps % 10 == 0:
            over = min(MEAN_OVER, self.steps // 10)
            with self._torch.no_grad():
                for name, one in self.mean.items():
                    one.lerp_(self._above[name].detach(), 1 / over)
        if self.steps % 50 == 0:
            mean = sum(self._losses) / len(self._losses)
            self._losses = []
            print(f"step {self.steps} {self.progress:.1%} loss {mean:.3f}", flush=True)
            self.save(self._given.output.with_suffix(".pt"))

    def _hidden(self, batch: Sequence[Example], ids: Any, mask: Any, kinds: Any) -> Any:
        """What the shared layers say, from what was kept where it was."""
        torch = self._torch
        keys = [(one.query, one.text) for one in batch]
        missing = [at for at, key in enumerate(keys) if key not in self._kept]
        found: dict[int, Any] = {}
        if missing:
            rows = torch.tensor(missing)
            with torch.no_grad():
                fresh = trunk(
                    self._below, ids[rows], mask[rows], kinds[rows], layers=self._given.shared
                )
            for at, one in zip(missing, fresh, strict=True):
                size = int(mask[at].sum())
                found[at] = one[:size].to(torch.bfloat16)
                if self._tokens + size <= self._given.room * 1_000_000:
                    self._kept[keys[at]] = found[at]
                    self._tokens += size
        hidden = torch.zeros(*ids.shape, self._below["norm.weight"].shape[0], dtype=self._type)
        for at, key in enumerate(keys):
            one = found[at] if at in found else self._kept[key]
            hidden[at, : one.shape[0]] = one
        return hidden


def _is_above(name: str, shared: int) -> bool:
    """Whether a weight belongs to the layers or heads that are learned."""
    part = name.split(".")[0]
    return part in ("pool", "cls", "span", "topic") or (part.isdigit() and int(part) >= shared)


def _stretch(
    examples: list[Mixed], given: argparse.Namespace, draw: random.Random
) -> list[list[Mixed]]:
    """Batches of texts of like length, in any order."""
    short = [
        replace(one, example=as_typed(_cut(one.example, draw), random.Random(one.example.query)))
        for one in examples
    ]
    short.sort(key=lambda one: len(one.example.text))
    size = given.batch
    batches = [short[at : at + size] for at in range(0, len(short), size)]
    draw.shuffle(batches)
    return batches


def _cut(example: Example, draw: random.Random) -> Example:
    """The sentences around the answer; where there is none, those around the one that shares most
    words with the question, which is what a retriever finds and a reader falls for."""
    room = FEW if draw.random() < SHORT else CHARACTERS
    long = len(example.text) > room
    if not long or (example.label > 0 and example.start < 0) or draw.random() < WHOLE:
        return example
    sentences = split_sentences(example.text)
    start, end = _kept_place(example, sentences)
    first = start - draw.randint(0, max(0, room - (end - start)))
    kept = [
        one
        for one in sentences
        if (one.end > start and one.start < end) or (one.start >= first and one.end <= first + room)
    ]
    start, end = min(one.start for one in kept), max(one.end for one in kept)
    text = example.text[start:end]
    if example.start < 0:
        return replace(example, text=text[:CHARACTERS])
    return replace(example, text=text, start=example.start - start, end=example.end - start)


def _kept_place(example: Example, sentences: Sequence[Span]) -> tuple[int, int]:
    if example.start >= 0:
        return example.start, example.end
    asked = set(tokenise(example.query))
    nearest = max(sentences, key=lambda one: len(asked & set(tokenise(example.text[slice(*one)]))))
    return nearest.start, nearest.end


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, default=shipped_reader().model.parent)
    parser.add_argument("--output", type=Path, required=True, help="the ONNX file to write")
    parser.add_argument("--extra", type=Path, help="folder of the sets of reader_sources.py")
    parser.add_argument("--shared", type=int, default=6, help="layers from below that both share")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--steps", type=int, help="instead of minutes")
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument(
        "--bfloat16", action="store_true", help="faster where the processor has AMX, else slower"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--room", type=float, default=6.0, help="million tokens that are kept")
    parser.add_argument("--per-kind", type=int, default=2500, help="examples made of each kind")
    parser.add_argument("--seed", type=int, default=11)
    return parser.parse_args()


if __name__ == "__main__":
    main()
