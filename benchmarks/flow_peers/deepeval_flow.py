"""A run of DeepEval at its defaults; run by `benchmarks/flow.py` with the Python of DeepEval."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from deepeval.dataset import EvaluationDataset, Golden
from deepeval.evaluate.configs import CacheConfig, DisplayConfig
from deepeval.metrics import ExactMatchMetric, GEval
from deepeval.models import OpenAIModel
from deepeval.test_case import SingleTurnParams
from deepeval.tracing import observe, update_current_trace


def main(options: dict[str, Any]) -> None:
    """Prints the seconds of a run."""
    metric: Any = ExactMatchMetric()
    if options["judge"]:
        model = OpenAIModel(model="gpt-4o", base_url=options["judge"], api_key="none")
        parameters = [SingleTurnParams.ACTUAL_OUTPUT, SingleTurnParams.EXPECTED_OUTPUT]
        metric = GEval(
            name="correctness",
            evaluation_steps=["Is it the same?"],
            evaluation_params=parameters,
            model=model,
        )

    @observe()
    async def answer(query: str) -> str:
        """A system that answers after a while."""
        await asyncio.sleep(options["seconds"])
        text = f"answer {query}"
        update_current_trace(input=query, output=text, expected_output=text)
        return text

    goldens: list[Golden] = []
    for number in range(options["cases"]):
        goldens.append(Golden(input=f"q{number}", expected_output=f"answer q{number}"))
    dataset = EvaluationDataset(goldens=goldens)
    began = time.perf_counter()
    run = dataset.evals_iterator(
        metrics=[metric],
        display_config=DisplayConfig(show_indicator=False, print_results=False),
        cache_config=CacheConfig(write_cache=False),
    )
    for golden in run:
        dataset.evaluate(asyncio.create_task(answer(golden.input)))
    print(time.perf_counter() - began)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
