import json
import re
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from ragbench import (
    BaselineRAG,
    Document,
    RAGConfig,
    RAGInterface,
    as_rag,
    build_operator,
    build_reranker,
)
from ragbench.ledger.identity import described
from ragbench.masking import is_secret, mask_text, mask_url
from ragbench.rag.load import describe_rag
from ragbench.search.pipeline.documents import make_chunker


class Colour(Enum):
    RED = "red"


@dataclass
class Store:
    url: str
    password: str = "hush"
    path: Path = Path("index")


@dataclass
class Settings(RAGConfig):
    api_key: str = "hush"
    store: Store = field(default_factory=lambda: Store("https://bob:hush@db/x?token=hush"))


class Given(RAGInterface, families=("retrieval",)):
    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return []


def test_secrets_are_masked_wherever_they_stand() -> None:
    headers = {"Authorization": "Bearer hush", "Accept": "text/plain"}
    arguments: dict[str, Any] = {
        "openai_api_key": "hush",
        "headers": headers,
        "value": "Bearer hush",
        "token": None,
        "dsn": "postgresql://bob:hush@db/x",
        "max_tokens": 100,
    }
    found = describe_rag(Given(Settings()), "https://bob:hush@host/rag", arguments)
    text = json.dumps(found)
    assert "hush" not in text and "bob" not in text
    assert found["spec"] == "https://***@host/rag"
    assert found["arguments"]["max_tokens"] == 100
    assert found["arguments"]["token"] is None
    assert found["arguments"]["headers"]["Accept"] == "text/plain"
    assert found["config"]["store"]["url"] == "https://***@db/x?token=***"


def test_nothing_of_the_machine_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments: dict[str, Any] = {
        "inside": str(tmp_path / "data" / "index"),
        "path": Path("data/x"),
        "outside": "/srv/data/v1/index",
        "other": "/srv/data/v2/index",
        "object": object(),
        "function": json.dumps,
        "set": {"b", "a"},
        "tuple": (1, 2.5, float("nan"), b"x", Colour.RED),
    }
    found = describe_rag(Given(), "module:Given", arguments)["arguments"]
    assert found["inside"] == "data/index"
    assert found["path"] == "data/x"
    assert found["outside"].startswith("index#")
    assert found["outside"] != found["other"]
    assert found["object"] == {"class": "builtins:object"}
    assert found["function"]["function"] == "json:dumps"
    assert found["set"] == ["a", "b"]
    assert found["tuple"][:3] == [1, 2.5, "nan"]
    assert found["tuple"][4] == "red"
    text = json.dumps(found)
    for machine in (str(tmp_path), "/srv", "0x"):
        assert machine not in text


def test_what_the_system_says_of_its_stages_is_in_it() -> None:
    class Saying(Given):
        def stage_identity(self, stage: str) -> object:
            return {"index": "v2", "api_key": "hush"} if stage == "retrieve" else None

    found = describe_rag(Saying(), "m:Saying")
    assert found["stages"] == {"retrieve": {"index": "v2", "api_key": "***"}}


def test_an_adapter_is_described_by_what_it_adapts() -> None:
    rag = as_rag(retrieve=Given(RAGConfig(top_k=2)), generate=str.join, top_k=3)
    found = describe_rag(rag, "module:rag")
    assert found["class"] == "ragbench:adapted"
    assert found["top_k"] == 3
    assert found["adapts"][0]["class"].endswith(":Given")
    assert found["adapts"][0]["config"]["top_k"] == 2


# --- whatever is described does not depend on where ragbench's own classes lie


def retrieve(query: str, top_k: int = 3) -> list[str]:
    return [query][:top_k]


DOCUMENTS = [Document(id="d", text="The tower was built in 1901.")]
EXTRACTIVE = {"action": "compress", "type": "extractive", "budget": 50}
THINGS: dict[str, Any] = {
    "rerank": lambda: described(build_operator({"action": "rerank", "type": "lexical"})),
    "extractive": lambda: described(build_operator(EXTRACTIVE)),
    "rrf": lambda: described(build_reranker({"name": "rrf", "rerankers": ["lexical", "ppr"]})),
    "chunker": lambda: described(make_chunker("sentences")),
    "baseline": lambda: describe_rag(BaselineRAG(DOCUMENTS), "baseline"),
    "adapted": lambda: describe_rag(as_rag(retrieve), "retrieve"),
    "document": lambda: described(DOCUMENTS[0]),
}


@pytest.mark.parametrize("name", THINGS)
def test_no_module_of_ragbench_is_named(name: str) -> None:
    text = json.dumps(THINGS[name](), default=str)
    assert re.search(r"ragbench[.:][a-z_]+[.:]", text.replace("ragbench:adapted", "")) is None
    assert '"ragbench:' in text


def test_a_type_is_its_name() -> None:
    found = described(build_operator({"action": "filter", "type": "top_k", "k": 3}))
    assert found == {"class": "ragbench:TopK", "name": "filter.top_k", "k": 3}


SECRET = (
    "api_key apiKey OPENAI_API_KEY X-Api-Key token hf_token Authorization password db.password "
    "Cookie Set-Cookie client_secret accessKey pwd pw sig X-Amz-Signature AccountKey DOC_SIGNING"
)
OTHER = (
    "max_tokens tokenizer top_k key sort_key keyword author secretary index monkey api_key_file "
    "TOKEN_PATH pass_rate private_notes"
)


def test_names_of_secrets() -> None:
    assert [name for name in SECRET.split() if not is_secret(name)] == []
    assert [name for name in OTHER.split() if is_secret(name)] == []


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("http://host/path?q=1#x", "http://host/path?q=1#x"),
        ("http://user@host", "http://***@host"),
        ("http://user:p%40ss@host:80/x", "http://***@host:80/x"),
        ("http://h/x?access_token=a&b=c", "http://h/x?access_token=***&b=c"),
        ("http://[bad", "***"),
    ],
)
def test_urls(url: str, masked: str) -> None:
    assert mask_url(url) == masked


def test_texts() -> None:
    text = "GET http://bob:pw@host/x failed (Authorization: Bearer abcd.efgh), key xyzxyz"
    masked = "GET http://***@host/x failed (Authorization: Bearer ***), key ***"
    assert mask_text(text, ["xyz", "xyzxyz"]) == masked


@pytest.mark.parametrize(
    "prose",
    [
        "Invalid token: unexpected end",
        "eos_token=50256, max_tokens=4096",
        "token_f1: 0.53211",
        "got an unexpected token=None",
        "the secret: never give up",
        "?code=404",
        "sort_key=name",
        "-----BEGIN CERTIFICATE-----\nMIIE",
        "api_key_env=MY_KEY",
    ],
)
def test_what_is_no_credential_stays(prose: str) -> None:
    assert mask_text(prose) == prose


def test_a_long_text_of_half_shapes_takes_no_time() -> None:
    for piece in ("cookie=", "token:", "password='", "-----BEGIN PRIVATE KEY-----", 'secret="\\'):
        assert mask_text(piece * 30_000)  # were it quadratic, this would take minutes
