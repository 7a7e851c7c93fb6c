"""The server and the JSON of docs/http.md work with the client."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ragbench import GenerationResult, PartialBatchError, RetrievalResult
from ragbench.rag.http import http_rag

pytestmark = pytest.mark.extra("http")


def test_the_server_can_be_asked(document: Callable[[str], Any]) -> None:
    page = document("http.md")
    (block,) = page.blocks()
    with page.run(block)["serve"](port=0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        server.daemon_threads = True
        thread.start()
        rag: Any = http_rag(f"http://127.0.0.1:{server.server_port}")
        try:
            found = rag.retrieve_with_metadata("Do bees fly?", top_k=1)
            assert found == RetrievalResult(["Bees fly."], context_ids=["d1"], scores=[2.0])
            answer = rag.generate_with_metadata("Do bees fly?", ["Bees fly."])
            assert answer == GenerationResult("Bees fly.", confidence=0.5)
            assert rag.generate_with_metadata("Who?", []).abstained is True
            bad: Any = [["Bees fly."], 3]
            with pytest.raises(TypeError):
                rag.batch_generate_with_metadata(["q", "r"], bad)
            with pytest.raises(PartialBatchError, match="AttributeError"):
                rag.batch_retrieve(["bees", 3])
        finally:
            rag.close()
            server.shutdown()
            thread.join()


def test_the_json_shown_is_what_the_client_reads(
    document: Callable[[str], Any], server: Any, answer: Any
) -> None:
    shown = [json.loads(block) for block in document("http.md").blocks("json")]
    retrieve_request, retrieved, generate_request, generated, in_conversation, failed = shown
    server.then(answer(retrieved), answer(generated), answer(retrieved), answer(failed))
    rag: Any = http_rag(server.url)
    (found,) = rag.batch_retrieve_with_metadata(["Do bees fly?"])
    (reported,) = rag.batch_generate_with_metadata(["Do bees fly?"], [["Bees fly."]])
    assert server.requests[0].body == retrieve_request
    assert server.requests[1].body == generate_request
    rag.batch_retrieve_with_metadata(["And on Sunday?"], history=in_conversation["history"])
    assert server.requests[2].body == in_conversation
    assert found.to_dict() == retrieved["results"][0]
    assert reported.to_dict() == generated["results"][0]
    with pytest.raises(PartialBatchError, match="ValueError: too long"):
        rag.batch_retrieve_with_metadata(["q", "r"])
    rag.close()
