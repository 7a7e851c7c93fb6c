"""Document 002, interface V2: each scenario with a system as a user writes one."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pytest

import ragbench
from ragbench import (
    GenerationResult,
    RAGConfig,
    RAGInterface,
    RetrievalResult,
    evaluate,
    open_traces,
)
from ragbench.errors import InterfaceError
from ragbench.prepare import prepare, to_dataset
from tests.cli.runs import ROOT

TEXTS = ["Leave is 27 days.", "The desk opens at 8."]


class Old(RAGInterface):
    """Both methods of the old interface, as code written against it has them."""

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return TEXTS[:top_k]

    def generate(self, query: str, contexts: list[str]) -> str:
        return f"{contexts[0]} ({query})"


class NewRetrieval(RAGInterface):
    """Retrieval migrated, generation as it was."""

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        return RetrievalResult(
            TEXTS[:top_k],
            context_ids=["leave", "desk"][:top_k],
            scores=[0.9, 0.2][:top_k],
            context_metadata=[{"source": "hr.md"}, {"source": "it.md"}][:top_k],
            metadata={"took": 0.1, "time": "2024-06-01"},
        )

    def generate(self, query: str, contexts: list[str]) -> str:
        return f"{contexts[0]} ({query})"


class NewGeneration(RAGInterface):
    """Generation migrated, retrieval as it was."""

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return TEXTS[:top_k]

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        return GenerationResult(
            "27 days.",
            multi_responses=["27 days.", "28 days."],
            confidence=0.8,
            metadata={"tokens": 12, "seconds": 0.4},
        )


class New(NewRetrieval):
    """All migrated."""

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        return NewGeneration().generate_with_metadata(query, contexts)


CASE = {"id": "c1", "query": "How much leave?", "reference": "27 days"}


def sample(rag: RAGInterface, folder: Path) -> Any:
    """The case's sample for RAGAS, after an evaluation of the system."""
    evaluate([CASE], rag, out=folder / "run", metrics="exact_match")
    (sample,) = prepare(open_traces(folder / "run"))
    return sample


# --- retrieval and generation return more


@pytest.mark.parametrize("rag", [NewRetrieval(), New()], ids=lambda rag: type(rag).__name__)
def test_a_retrieval_returns_ids_scores_and_metadata(rag: RAGInterface) -> None:
    """1-1, 1-2, 1-3."""
    result = rag.retrieve_with_metadata("How much leave?")

    assert result.contexts == TEXTS
    assert result.context_ids == ["leave", "desk"]
    assert result.scores == [0.9, 0.2]
    assert result.metadata == {"took": 0.1, "time": "2024-06-01"}
    assert result.context_metadata == [{"source": "hr.md"}, {"source": "it.md"}]


@pytest.mark.parametrize("rag", [NewGeneration(), New()], ids=lambda rag: type(rag).__name__)
def test_a_generation_returns_candidates_confidence_and_metadata(rag: RAGInterface) -> None:
    """2-1, 2-2, 2-3."""
    result = rag.generate_with_metadata("How much leave?", TEXTS)

    assert result.response == "27 days."
    assert result.multi_responses == ["27 days.", "28 days."]
    assert result.confidence == 0.8
    assert result.metadata == {"tokens": 12, "seconds": 0.4}


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan")])
def test_a_confidence_outside_of_0_to_1_is_refused(confidence: float) -> None:
    """2-2."""
    with pytest.raises(InterfaceError, match="confidence"):
        GenerationResult("27 days.", confidence=confidence)


# --- old and new code work together


def test_old_code_works_as_it_is(tmp_path: Path) -> None:
    """3-1: each old method, with a configuration and without, and an evaluation."""
    for rag in (Old(), Old(RAGConfig(top_k=1))):
        assert rag.retrieve("q", 1) == TEXTS[:1]
        assert rag.generate("q", TEXTS) == "Leave is 27 days. (q)"
        assert rag.batch_retrieve(["q", "r"]) == [TEXTS, TEXTS]
        answers = rag.batch_generate(["q", "r"], [TEXTS, TEXTS[1:]])
        assert answers == ["Leave is 27 days. (q)", "The desk opens at 8. (r)"]

    assert sample(Old(), tmp_path).retrieved_contexts == TEXTS


def test_the_old_retrieve_takes_the_contexts_of_the_new_one() -> None:
    """3-2, as a class that wrote the old one."""
    new = NewRetrieval()
    old = Old()

    for top_k in (None, 1, 2):
        assert new.retrieve("q", top_k) == old.retrieve("q", top_k)


def test_the_new_retrieve_wraps_the_result_of_the_old_one() -> None:
    """3-3."""
    result = Old().retrieve_with_metadata("q", 1)

    assert isinstance(result, RetrievalResult)
    assert result.contexts == TEXTS[:1]
    assert result.context_ids is None
    assert result.scores is None
    assert result.metadata is None


def test_retrieval_alone_is_migrated(tmp_path: Path) -> None:
    """4-1."""
    ragas_sample = sample(NewRetrieval(), tmp_path)

    assert ragas_sample.retrieved_context_ids == ["leave", "desk"]
    assert ragas_sample.response == "Leave is 27 days. (How much leave?)"


def test_generation_alone_is_migrated(tmp_path: Path) -> None:
    """4-2."""
    ragas_sample = sample(NewGeneration(), tmp_path)

    assert ragas_sample.multi_responses == ["27 days.", "28 days."]
    assert ragas_sample.retrieved_contexts == TEXTS


def test_all_is_migrated_and_everything_arrives(tmp_path: Path) -> None:
    """4-3: the run keeps ids, scores, confidence and metadata."""
    evaluate([CASE], New(), out=tmp_path / "run", metrics="exact_match")

    (case,) = open_traces(tmp_path / "run")
    retrieval = case.trace.retrieval.value
    generation = case.trace.generation.value
    assert retrieval is not None
    assert generation is not None
    assert retrieval.scores is not None
    assert list(retrieval.scores) == [0.9, 0.2]
    assert retrieval.metadata == {"took": 0.1, "time": "2024-06-01"}
    assert generation.confidence == 0.8
    assert generation.metadata == {"tokens": 12, "seconds": 0.4}


# --- results


def test_a_retrieval_result_needs_contexts_alone() -> None:
    """5-1."""
    bare = RetrievalResult(TEXTS)
    assert bare.context_ids is None
    assert bare.scores is None
    assert bare.metadata is None

    full = RetrievalResult(TEXTS, context_ids=["a", "b"], scores=[0.2, 0.1])
    assert [chunk.id for chunk in full.to_chunks()] == ["a", "b"]
    assert RetrievalResult.from_mapping(full.to_dict()) == full

    with pytest.raises(TypeError):
        RetrievalResult()  # type: ignore[call-arg]
    with pytest.raises(InterfaceError, match="scores"):
        RetrievalResult(TEXTS, scores=[0.2])


def test_a_generation_result_needs_a_response_alone() -> None:
    """5-2."""
    bare = GenerationResult("27 days.")
    assert bare.multi_responses is None
    assert bare.confidence is None
    assert bare.metadata is None

    full = GenerationResult("27 days.", multi_responses=["27 days."], confidence=1.0)
    assert GenerationResult.from_mapping(full.to_dict()) == full

    with pytest.raises(TypeError):
        GenerationResult()  # type: ignore[call-arg]


def test_metadata_takes_any_keys_and_values() -> None:
    """5-3."""
    metadata: dict[str, Any] = {
        "键": [1, {"a": None}],
        "": object(),
        "x" * 1000: float("inf"),
    }

    assert RetrievalResult([], metadata=metadata).metadata is metadata
    assert GenerationResult("", metadata=metadata).metadata is metadata


# --- prepare


def test_ids_and_candidates_reach_the_samples(tmp_path: Path) -> None:
    """6-1 and 6-2 without ragas."""
    ragas_sample = sample(New(), tmp_path)

    assert ragas_sample.retrieved_context_ids == ["leave", "desk"]
    assert ragas_sample.multi_responses == ["27 days.", "28 days."]


@pytest.mark.extra("ragas")
def test_ids_and_candidates_reach_ragas(tmp_path: Path) -> None:
    """6-1 and 6-2 with ragas' own samples."""
    single: Any
    (single,) = to_dataset([sample(New(), tmp_path)])

    assert type(single).__name__ == "SingleTurnSample"
    assert single.retrieved_context_ids == ["leave", "desk"]
    assert single.multi_responses == ["27 days.", "28 days."]


def test_what_is_missing_is_none(tmp_path: Path) -> None:
    """6-3."""
    ragas_sample = sample(Old(), tmp_path)

    assert ragas_sample.retrieved_context_ids is None
    assert ragas_sample.multi_responses is None
    assert ragas_sample.retrieved_contexts == TEXTS


# --- batches


def test_a_batch_of_retrievals_returns_their_metadata() -> None:
    """7-1, by a batch method of the user's, which is called once, and by a loop."""
    calls: list[list[str]] = []

    class Batch(NewRetrieval):
        def batch_retrieve_with_metadata(
            self, queries: list[str], top_k: int | None = None
        ) -> list[RetrievalResult]:
            calls.append(queries)
            return [self.retrieve_with_metadata(query, top_k) for query in queries]

    for rag in (Batch(), NewRetrieval()):
        results = rag.batch_retrieve_with_metadata(["q", "r"])
        assert [result.context_ids for result in results] == [["leave", "desk"], ["leave", "desk"]]

    assert calls == [["q", "r"]]


def test_a_batch_of_generations_returns_their_metadata() -> None:
    """7-2, in the same two ways."""
    calls: list[list[str]] = []

    class Batch(NewGeneration):
        def batch_generate_with_metadata(
            self, queries: list[str], contexts_list: list[list[str]]
        ) -> list[GenerationResult]:
            calls.append(queries)
            pairs = zip(queries, contexts_list, strict=True)
            return [self.generate_with_metadata(query, contexts) for query, contexts in pairs]

    for rag in (Batch(), NewGeneration()):
        results = rag.batch_generate_with_metadata(["q", "r"], [TEXTS, TEXTS])
        assert [result.confidence for result in results] == [0.8, 0.8]

    assert calls == [["q", "r"]]


# --- documentation


def test_the_migration_guide_shows_code_before_and_after() -> None:
    """8-1."""
    page = (ROOT / "docs" / "migration.md").read_text("utf-8")

    assert page.count("```python") >= 2
    assert re.search("before", page, re.IGNORECASE)
    assert re.search("after", page, re.IGNORECASE)


def public_methods(cls: type) -> dict[str, Callable[..., Any]]:
    """The methods that a class defines itself, by name."""
    methods: dict[str, Callable[..., Any]] = {}
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_") and name in vars(cls):
            methods[name] = method
    return methods


@pytest.mark.parametrize("name", ["RAGInterface", "RetrievalResult", "GenerationResult"])
def test_the_reference_explains_parameters_and_returns(name: str) -> None:
    """8-3: every public method has its documentation, and each parameter is in it."""
    cls = getattr(ragbench, name)

    assert inspect.getdoc(cls)
    for method_name, method in public_methods(cls).items():
        assert inspect.getdoc(method), method_name


# --- performance and types


def seconds(work: Callable[[], object], times: int) -> float:
    """The processor time of so many calls."""
    start = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - start


def test_20_000_results_are_built_in_less_than_a_second() -> None:
    """9-1: 50 microseconds of processor time each are allowed; a handful is used."""
    ids = ["leave", "desk"]

    elapsed = seconds(lambda: RetrievalResult(TEXTS, context_ids=ids), 20_000)

    assert elapsed < 1.0


def test_nothing_is_copied_between_the_interfaces() -> None:
    """9-2."""
    contexts = list(TEXTS)

    class Both(RAGInterface):
        def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
            return contexts

        def generate(self, query: str, contexts: list[str]) -> str:
            return contexts[0]

    assert Both().retrieve_with_metadata("q").contexts is contexts
    assert RetrievalResult(contexts).contexts is contexts


class Took(TypedDict):
    seconds: float


def test_metadata_may_have_a_type_of_the_user_s() -> None:
    """10-2: the type parameter exists at run time; type checkers are asked in test_docs."""
    result: RetrievalResult[Took] = RetrievalResult[Took]([], metadata={"seconds": 0.1})

    assert result.metadata == {"seconds": 0.1}


def test_every_public_method_is_annotated_and_the_package_is_typed() -> None:
    """10-1."""
    package = Path(ragbench.__file__).parent

    assert (package / "py.typed").is_file()
    for cls in (RAGInterface, RetrievalResult, GenerationResult, RAGConfig):
        for name, method in public_methods(cls).items():
            signature = inspect.signature(method)
            _, *parameters = signature.parameters.values()  # without self
            for parameter in parameters:
                assert parameter.annotation is not parameter.empty, name
            assert signature.return_annotation is not signature.empty, name
