"""LangChain's real objects, and look-alikes with the same methods."""

# langchain_core is typed loosely.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

from ragbench import RetrievalResult, as_rag, evaluate
from ragbench.errors import InterfaceError

pytestmark = pytest.mark.extra("dev", package="langchain-core")


class Fixed(BaseRetriever):
    """Returns the documents "q 0", "q 1" and "q 2" to the query q; their number is a setting."""

    k: int = 3

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        documents: list[Document] = []
        for page in range(self.k):
            text = f"{query} {page}"
            document = Document(id=f"{query}{page}", page_content=text, metadata={"page": page})
            documents.append(document)
        return documents


MODEL = FakeListChatModel(responses=["hi"])
PROMPT = ChatPromptTemplate.from_template("{context} {question}")
rag_of: Any = as_rag


def test_a_retriever_is_cut_and_never_pretends_to_more() -> None:
    rag = rag_of(Fixed())

    result = rag.retrieve_with_metadata("q")

    assert rag.families == {"retrieval"}
    assert result.contexts == ["q 0", "q 1", "q 2"]
    assert result == RetrievalResult(
        result.contexts,
        context_ids=["q0", "q1", "q2"],
        context_metadata=[{"page": 0}, {"page": 1}, {"page": 2}],
    )
    assert rag.retrieve("q", top_k=1) == ["q 0"]
    with pytest.raises(InterfaceError, match="built to return 3 contexts and cannot be asked for"):
        rag.batch_retrieve(["q"], top_k=4)


def test_top_k_reaches_a_vector_store() -> None:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_texts(["a", "b", "c"], ids=["1", "2", "3"])
    best_alone = rag_of(store.as_retriever(search_kwargs={"k": 1}))
    best_two = rag_of(store.as_retriever(), top_k=2)

    by_default = best_alone.retrieve_with_metadata("b")
    all_three = best_alone.retrieve_with_metadata("b", top_k=3)
    (two_contexts,) = best_two.batch_retrieve(["a"])

    assert by_default.context_ids == ["2"]
    assert sorted(all_three.context_ids) == ["1", "2", "3"]
    assert len(two_contexts) == 2


def test_a_chain_that_shows_its_contexts_is_run_once() -> None:
    runs: list[str] = []

    def count(query: str) -> str:
        runs.append(query)
        return query

    chain = (
        RunnableLambda(count)
        | RunnableParallel({"context": Fixed(), "question": RunnablePassthrough()})
        | RunnablePassthrough.assign(answer=PROMPT | MODEL | StrOutputParser())
    )
    rag = rag_of(chain)

    of_a, of_b = rag.batch_retrieve_with_metadata(["a", "b"])
    answers = rag.batch_generate(["a", "b"], [list(of_a.contexts), list(of_b.contexts)])

    assert of_a.context_ids == ["a0", "a1", "a2"]
    assert of_b.context_ids == ["b0", "b1", "b2"]
    assert answers == ["hi", "hi"]
    assert sorted(runs) == ["a", "b"]


def test_a_chain_that_says_it_gives_a_string_only_generates() -> None:
    inputs = {"context": Fixed(), "question": RunnablePassthrough()}
    chain = inputs | PROMPT | MODEL | StrOutputParser()
    rag = rag_of(chain)
    named_as_generator = rag_of(generate=chain)

    assert rag.families == {"generation"}
    assert rag.generate("q", ["ignored"]) == "hi"
    assert named_as_generator.generate("q", []) == "hi"


def test_a_chain_of_unknown_keys_gets_the_query_under_every_usual_name() -> None:
    chain = RunnablePassthrough.assign(context=lambda inputs: Fixed().invoke(inputs["question"]))
    answering_with_its_inputs = chain.assign(answer=str)
    rag = rag_of(answering_with_its_inputs)

    retrieval = rag.retrieve_with_metadata("q")
    answer = rag.generate("q", ["q 0"])

    assert retrieval.context_ids == ["q0", "q1", "q2"]
    assert "'input': 'q', 'user_input': 'q', 'chat_history': []" in answer


def test_one_failing_query_of_a_chain_fails_alone() -> None:
    def answer(query: str) -> dict[str, Any]:
        if query == "bad":
            raise ValueError("boom")
        return {"answer": query, "context": [query]}

    rag = rag_of(RunnableLambda(answer))

    with pytest.raises(InterfaceError, match=r"1 of 2 queries failed.*ValueError: boom") as raised:
        rag.batch_retrieve_with_metadata(["good", "bad"])

    good, bad = raised.value.outcomes  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    assert good.contexts == ["good"]
    assert isinstance(bad, ValueError)

    with pytest.raises(ValueError, match="boom"):
        rag.batch_retrieve_with_metadata(["bad"])


def test_a_model_s_message_keeps_its_usage() -> None:
    class Message:
        content = [{"type": "text", "text": "hel"}, "lo"]  # noqa: RUF012
        response_metadata = {"model": "m"}  # noqa: RUF012
        usage_metadata = {"input_tokens": 3}  # noqa: RUF012

    rag = rag_of(generate=lambda query, contexts: Message())

    answer = rag.generate_with_metadata("q", [])

    assert answer.response == "hello"
    assert answer.metadata == {"model": "m", "usage": {"input_tokens": 3}}


def test_a_chain_that_takes_more_than_the_query_is_refused() -> None:
    with pytest.raises(InterfaceError, match="takes context, question, and only the query is kn"):
        as_rag(PROMPT | MODEL)

    prompt_of_language = ChatPromptTemplate.from_template("{language}")
    with pytest.raises(InterfaceError, match="takes language: to generate, it must take"):
        as_rag(generate=prompt_of_language | MODEL)


def test_of_a_batch_each_question_is_asked_once_whatever_comes_back(tmp_path: Path) -> None:
    calls: list[str] = []

    def answer(query: str) -> str | None:
        calls.append(query)
        return None if query == "q3" else "yes"

    queries = [f"q{number}" for number in range(8)]
    questions = [{"query": query} for query in queries]

    report = evaluate(questions, RunnableLambda(answer), out=tmp_path, metrics="answer_rate")

    assert sorted(calls) == queries
    assert [stage.failed for stage in report.stages] == [1, 1]


def test_a_retriever_in_disguise_is_distinguished_when_it_answers() -> None:
    chain = Fixed() | RunnableLambda(lambda documents: documents[:1])  # pyright: ignore[reportIndexIssue]

    with pytest.raises(InterfaceError, match=r"a list \(a retriever is .* as_rag\(retrieve="):
        rag_of(chain).retrieve("q")
    assert rag_of(retrieve=chain).retrieve("q") == ["q 0"]


def test_an_older_chain_gets_a_mapping_and_gives_one() -> None:
    class OldChain:
        input_keys = ["question", "chat_history"]  # noqa: RUF012

        def invoke(self, value: dict[str, Any]) -> dict[str, Any]:
            assert value == {"question": "q", "chat_history": []}
            return {"result": "a", "source_documents": [Document(page_content="c")]}

    rag = rag_of(OldChain())

    assert rag.retrieve("q") == ["c"]
    assert rag.generate("q", ["c"]) == "a"
