"""A run in a real Phoenix, where its program is on the PATH: it brings 130 packages.

By hand: ``pipx install arize-phoenix``, then ``pytest -m nightly`` of this file.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.contract.tracker_contract import StoredCase, TracingContract

pytestmark = [
    pytest.mark.extra("http"),
    pytest.mark.nightly,
    pytest.mark.skipif(shutil.which("phoenix") is None, reason="needs phoenix"),
]

_SECONDS = 120
"""How long the server may take to begin: it makes its tables."""


class PhoenixServer:
    """The server, asked by its own interface."""

    name = "phoenix"

    def __init__(self, address: str) -> None:
        import httpx

        self.client = httpx.Client(base_url=address)

    def _data(self, path: str, **parameters: str) -> Any:
        return self.client.get(path, params=parameters).raise_for_status().json()["data"]

    def begun(self) -> bool:
        import httpx

        try:
            return self.client.get("/healthz").is_success
        except httpx.TransportError:
            return False

    def run_ids(self) -> set[str]:
        ids: set[str] = set()
        for dataset in self._data("/v1/datasets"):
            for experiment in self._data(f"/v1/datasets/{dataset['id']}/experiments"):
                ids.add(experiment["id"])
        return ids

    def figures(self, run_id: str) -> Mapping[str, float]:
        figures: dict[str, float] = {}
        for name, value in self._data(f"/v1/experiments/{run_id}")["metadata"].items():
            if isinstance(value, float | int):
                figures[name] = value
        return figures

    def figure_name(self, figure: str) -> str:
        return figure

    def stored_cases(self, run_id: str) -> Mapping[str, StoredCase]:
        dataset_id = self._data(f"/v1/experiments/{run_id}")["dataset_id"]
        case_ids: dict[str, str] = {}
        for example in self._data(f"/v1/datasets/{dataset_id}/examples")["examples"]:
            case_ids[example["node_id"]] = example["metadata"]["case_id"]
        stored: dict[str, StoredCase] = {}
        for case_run in self.client.get(f"/v1/experiments/{run_id}/json").json():
            case_id = case_ids[case_run["example_id"]]
            annotations = case_run["annotations"]
            stored[case_id] = StoredCase(
                answer=case_run["output"]["answer"],
                scores={annotation["name"]: annotation["score"] for annotation in annotations},
                unmeasured=case_run["output"]["not_measured"],
            )
        return stored

    def add_trace(self) -> str:
        trace_id = uuid.uuid4().hex
        span = {
            "name": "ask",
            "context": {"trace_id": trace_id, "span_id": trace_id[:16]},
            "span_kind": "CHAIN",
            "start_time": "2026-01-01T00:00:00Z",
            "end_time": "2026-01-01T00:00:01Z",
            "status_code": "OK",
        }
        response = self.client.post("/v1/projects/default/spans", json={"data": [span]})
        response.raise_for_status()
        # Spans are stored in the background.
        deadline = time.monotonic() + _SECONDS
        while trace_id not in self._trace_ids():
            assert time.monotonic() < deadline, "the trace is not stored"
            time.sleep(0.1)
        return trace_id

    def _trace_ids(self) -> set[str]:
        return {trace["trace_id"] for trace in self._data("/v1/projects/default/traces")}

    def trace_scores(self, trace_id: str) -> Mapping[str, float]:
        path = "/v1/projects/default/trace_annotations"
        scores: dict[str, float] = {}
        for annotation in self._data(path, trace_ids=trace_id):
            assert annotation["name"] not in scores
            if annotation["result"]["score"] is not None:
                scores[annotation["name"]] = annotation["result"]["score"]
        return scores


def _free_port() -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return str(listening.getsockname()[1])


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PhoenixServer]:
    """A server of its own, whose data is gone with the tests."""
    folder: Path = tmp_path_factory.mktemp("phoenix")
    port = _free_port()
    settings = {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": port,
        "PHOENIX_GRPC_PORT": _free_port(),
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    address = f"http://127.0.0.1:{port}"
    with (
        (folder / "log.txt").open("w") as log,
        subprocess.Popen(
            ["phoenix", "serve"], env={**os.environ, **settings}, stdout=log, stderr=log
        ) as process,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PHOENIX_COLLECTOR_ENDPOINT", address)
        server = PhoenixServer(address)
        deadline = time.monotonic() + _SECONDS
        while not server.begun():
            assert time.monotonic() < deadline, (folder / "log.txt").read_text()
            time.sleep(0.2)
        yield server
        server.client.close()
        process.terminate()


class TestPhoenixItself(TracingContract):
    """The contract of trackers that have traces."""
