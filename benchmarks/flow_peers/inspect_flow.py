"""A run of Inspect at its defaults; run by `benchmarks/flow.py` with the Python of Inspect."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import exact, model_graded_qa
from inspect_ai.solver import Generate, Solver, TaskState, solver


@solver
def stub(seconds: float) -> Solver:
    """A system that answers after a while."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        await asyncio.sleep(seconds)
        state.output = ModelOutput.from_content("stub", f"answer {state.input_text}")
        return state

    return solve


def main(options: dict[str, Any]) -> None:
    """Prints the seconds of a run."""
    samples: list[Sample] = []
    for number in range(options["cases"]):
        samples.append(Sample(input=f"q{number}", target=f"answer q{number}"))
    scorer: Any = exact()
    if options["judge"]:
        model = get_model("openai-api/stub/m", base_url=options["judge"], api_key="none")
        scorer = model_graded_qa(model=model)
    task = Task(dataset=samples, solver=stub(options["seconds"]), scorer=scorer)
    began = time.perf_counter()
    (log,) = eval(task, model="mockllm/model", display="none", log_dir=options["folder"])
    if log.status != "success":
        raise SystemExit(f"the run ended as {log.status}: {log.error}")
    print(time.perf_counter() - began)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
