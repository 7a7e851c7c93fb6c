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
    """Returns one document a letter; its number of results is part of it."""

    k: int = 3

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [
            Document(id=f"{query}{i}", page_content=f"{query} {i}", metadata={"page": i})
            for i in range(self.k)
        ]


MODEL = FakeListChatModel(responses=["hi"])
PROMPT = ChatPromptTemplate.from_template("{context} {question}")
rag_of: Any = as_rag


def test_a_retriever_is_cut_and_never_pretends_to_more() -> None:
    rag = rag_of(Fixed())
    assert rag.families == {"retrieval"}
    known: Any = {"context_metadata": [{"page": 0}, {"page": 1}, {"page": 2}]}
    found = RetrievalResult(["q 0", "q 1", "q 2"], context_ids=["q0", "q1", "q2"], **known)
    assert rag.retrieve_with_metadata("q") == found
    assert rag.retrieve("q", top_k=1) == ["q 0"]
    with pytest.raises(InterfaceError, match="built to return 3 contexts and cannot be asked for"):
        rag.batch_retrieve(["q"], top_k=4)


def test_top_k_reaches_a_vector_store() -> None:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_texts(["a", "b", "c"], ids=["1", "2", "3"])
    rag = rag_of(store.as_retriever(search_kwargs={"k": 1}))
    assert rag.retrieve_with_metadata("b").context_ids == ["2"]
    assert sorted(rag.retrieve_with_metadata("b", top_k=3).context_ids) == ["1", "2", "3"]
    assert len(rag_of(store.as_retriever(), top_k=2).batch_retrieve(["a"])[0]) == 2


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
    results = rag.batch_retrieve_with_metadata(["a", "b"])
    assert [result.context_ids for result in results] == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]
    answers = rag.batch_generate(["a", "b"], [list(result.contexts) for result in results])
    assert answers == ["hi", "hi"]
    assert sorted(runs) == ["a", "b"]


def test_a_chain_that_says_it_gives_a_string_only_generates() -> None:
    chain = {"context": Fixed(), "question": RunnablePassthrough()} | PROMPT | MODEL
    rag = rag_of(chain | StrOutputParser())
    assert rag.families == {"generation"}
    assert rag.generate("q", ["ignored"]) == "hi"
    assert rag_of(generate=chain | StrOutputParser()).generate("q", []) == "hi"


def test_a_chain_of_unknown_keys_gets_the_query_under_every_usual_name() -> None:
    chain = RunnablePassthrough.assign(context=lambda given: Fixed().invoke(given["question"]))
    rag = rag_of(chain.assign(answer=str))
    assert rag.retrieve_with_metadata("q").context_ids == ["q0", "q1", "q2"]
    assert "'input': 'q', 'user_input': 'q', 'chat_history': []" in rag.generate("q", ["q 0"])


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

    answer = rag_of(generate=lambda query, contexts: Message()).generate_with_metadata("q", [])
    assert answer.response == "hello"
    assert answer.metadata == {"model": "m", "usage": {"input_tokens": 3}}


def test_a_chain_that_takes_more_than_the_query_is_refused() -> None:
    with pytest.raises(InterfaceError, match="takes context, question, and only the query is kn"):
        as_rag(PROMPT | MODEL)
    with pytest.raises(InterfaceError, match="takes language: to generate, it must take"):
        as_rag(generate=ChatPromptTemplate.from_template("{language}") | MODEL)


def test_of_a_batch_each_question_is_asked_once_whatever_comes_back(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(query: str) -> str | None:
        asked.append(query)
        return None if "3" in query else "yes"

    questions = [{"query": f"q{number}"} for number in range(8)]
    report = evaluate(questions, RunnableLambda(answer), out=tmp_path, metrics="answer_rate")
    assert sorted(asked) == [f"q{number}" for number in range(8)]
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
