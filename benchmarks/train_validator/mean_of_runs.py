"""Makes one reader of several runs: ``python -m benchmarks.train_validator.mean_of_runs
STATE... --output FILE``.

The mean of the weights of runs that began as the same reader, and of that reader itself where
``--share`` is less than 1 (Wortsman et al. 2022, "Model soups"). STATE is what `train_near_misses`
left beside its output.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from benchmarks.train_validator.reader_model import Tensors, to_onnx


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("states", type=Path, nargs="+")
    parser.add_argument("--output", type=Path, required=True, help="the ONNX file to write")
    parser.add_argument("--share", type=float, default=1.0, help="of the runs in the mean")
    given = parser.parse_args()
    torch = import_module("torch")
    states = [torch.load(path) for path in given.states]
    mean: Tensors = {
        name: torch.stack([state["weights"][name].detach() for state in states]).mean(0)
        for name in states[0]["weights"]
    }
    before: Tensors = states[0]["before"]
    # The topic head began as zeros: it is no part of what is known from before.
    mixed = {
        name: one
        if name.startswith("topic")
        else given.share * one + (1 - given.share) * before[name]
        for name, one in mean.items()
    }
    to_onnx(mixed, given.output)
    print([state["steps"] for state in states], given.output)


if __name__ == "__main__":
    main()
