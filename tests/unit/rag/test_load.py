"""RAGs by name: what a name may lead to, how it is built, and what is reported where it fails."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from traceback import extract_tb
from typing import Any

import pytest

from ragbench import RAGInterface, load_rag
from ragbench.errors import ConfigError, RagbenchWarning

Write = Callable[[str, str], Path]
Load = Callable[..., Any]
RAG = """
    from dataclasses import dataclass
    from typing import Optional
    from ragbench import RAGConfig, RAGInterface
    from ragbench.rag.adapt import as_rag

    class MyRAG(RAGInterface):
        def retrieve(self, query, top_k=None):
            return [f"{query} {self.config.top_k}"]
        def generate(self, query, contexts):
            return contexts[0]

    class Keywords(MyRAG):
        def __init__(self, index, *, model="small", config=None):
            super().__init__(config)
            self.index, self.model = index, model

    @dataclass
    class Settings(RAGConfig):
        model: str = "small"

    class Typed(MyRAG):
        def __init__(self, config: Optional[Settings] = None):
            super().__init__(config or Settings())

    class Needing(MyRAG):
        def __init__(self, config: "Settings"):
            self.config = config

    class Foreign:
        def __init__(self, model: str):
            self.model = model

    class TakesForeign(MyRAG):
        def __init__(self, config: Foreign):
            self.foreign = config

    class Anything(MyRAG):
        def __init__(self, **options):
            self.options = options

    class Broken(MyRAG):
        def __init__(self):
            raise OSError("no index at http://bob:s3cret@host")

    class Space:
        instance = MyRAG(RAGConfig(top_k=2))

        @classmethod
        def build(cls, top_k=7):
            return MyRAG(RAGConfig(top_k=top_k))

    instance = MyRAG(RAGConfig(top_k=4))
    adapted = as_rag(retrieve=lambda query: ["x"])
    number = 3

    def factory(index="docs"):
        return Keywords(index)

    def strict_factory(index) -> MyRAG:
        return Keywords(index)

    def of_two(question, context):
        return question

    def makes_nothing():
        return None

    def answer(query, model="small"):
        return {"answer": model, "contexts": [query]}

    def chat(query, history):
        return {"answer": str(len(history)), "contexts": [query]}

    async def later():
        return MyRAG()
"""


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Writes modules, and takes them and the search path away again."""
    path_before = list(sys.path)
    modules_before = set(sys.modules)

    def build(name: str, text: str) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
        return tmp_path

    yield build
    sys.path[:] = path_before
    for name in set(sys.modules) - modules_before:
        del sys.modules[name]


@pytest.fixture
def load(write: Write) -> Load:
    """Loads a RAG by the name of an attribute of the module above."""
    root = write("loaded_rags.py", RAG)

    def build(attribute: str, **arguments: Any) -> Any:
        return load_rag(f"loaded_rags:{attribute}", arguments, search_path=root)

    return build


@pytest.mark.parametrize(
    ("attribute", "arguments", "contexts"),
    [
        ("MyRAG", {}, ["q 5"]),
        ("MyRAG", {"top_k": 3}, ["q 3"]),
        ("MyRAG", {"config": {"top_k": 3}}, ["q 3"]),
        ("instance", {}, ["q 4"]),
        ("Space.instance", {}, ["q 2"]),
        ("Space.build", {}, ["q 7"]),
        ("Space.build", {"top_k": 1}, ["q 1"]),
        ("factory", {}, ["q 5"]),
        ("Keywords", {"index": "i", "top_k": 9}, ["q 9"]),
        ("adapted", {}, ["x"]),
        ("answer", {}, ["q"]),
        ("chat", {}, ["q"]),
    ],
)
def test_classes_factories_instances_and_functions(
    load: Load, attribute: str, arguments: dict[str, Any], contexts: list[str]
) -> None:
    rag = load(attribute, **arguments)

    assert isinstance(rag, RAGInterface)
    assert rag.retrieve("q") == contexts


def test_arguments_are_keywords_where_the_signature_takes_them(load: Load) -> None:
    keywords = load("Keywords", index="i", model="large", top_k=2, extra=1)
    anything = load("Anything", top_k=2, x=1)
    made_by_factory = load("factory", index="i")
    function = load("answer", model="large")

    assert keywords.index == "i"
    assert keywords.model == "large"
    assert keywords.config.top_k == 2
    assert keywords.config.settings == {"extra": 1}
    assert anything.options == {"top_k": 2, "x": 1}
    assert made_by_factory.index == "i"
    assert function.generate("q", ["q"]) == "large"


def test_the_rest_goes_into_the_annotated_configuration(load: Load) -> None:
    assert load("Typed", model="large", top_k=1).config.model == "large"
    assert load("Typed").config.model == "small"
    assert load("Needing", model="large").config.model == "large"
    assert load("Needing").config.model == "small"
    assert load("TakesForeign", model="large").foreign.model == "large"


@pytest.mark.parametrize(
    ("attribute", "arguments", "message"),
    [
        ("MyRag", {}, r"there is no 'MyRag'. Did you mean MyRAG\?"),
        ("Zzz", {}, r"there is no 'Zzz'. Did you mean Anything or Broken or Keywords\?"),
        ("Space.instanc", {}, r"there is no 'instanc'. Did you mean instance\?"),
        ("number", {}, r"'loaded_rags:number' is not a RAG: int cannot be evaluated as a RAG"),
        ("makes_nothing", {}, r"is not a RAG: it takes no question, and was called to make one: "),
        (
            "of_two",
            {},
            r"needs question and context. A function that is asked needs the question al",
        ),
        ("instance", {"top_k": 1}, r"is an instance and takes no arguments \(top_k\)"),
        ("factory", {"k": 1}, r"takes no k. It takes index"),
        ("answer", {"k": 1}, r"takes no k. It takes query, model"),
        ("strict_factory", {}, r"missing a required argument: 'index'. It takes index"),
        ("Keywords", {}, r"missing a required argument: 'index'. It takes index, model, config"),
        ("TakesForeign", {"size": 1}, r"building Foreign of size raised TypeError"),
        ("instance.retrieve", {}, "is a method: name the object that it belongs to"),
        ("MyRAG.retrieve", {}, "is a method of a class: name that of an object"),
        ("later", {}, "is a coroutine: a factory must be a plain function"),
    ],
)
def test_what_cannot_be_used_is_reported(
    load: Load, attribute: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(attribute, **arguments)


def test_a_constructor_that_raises_is_the_cause_and_shows_no_password(load: Load) -> None:
    with pytest.raises(ConfigError, match="raised OSError: no index at") as raised:
        load("Broken")

    assert isinstance(raised.value.__cause__, OSError)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("spec", ["module", ":attribute", "module:", "", "none.py:X"])
def test_a_malformed_name_shows_the_forms(spec: str) -> None:
    forms = r"is not of the form package\.module:attribute, path|there is no file 'none\.py' in"

    with pytest.raises(ConfigError, match=forms):
        load_rag(spec)


def test_a_missing_module_is_distinguished_from_a_failing_import(write: Write) -> None:
    root = write("good_rag.py", "import not_installed_anywhere")

    with pytest.raises(ConfigError, match=r"no module 'god_rag'.*Did you mean 'good_rag'\?"):
        load_rag("god_rag:X", search_path=root)
    with pytest.raises(ConfigError, match=r"importing 'good_rag\.sub' failed"):
        load_rag("good_rag.sub:X", search_path=root)
    with pytest.raises(ConfigError, match="importing 'good_rag' failed: ModuleNotFound") as raised:
        load_rag("good_rag:X", search_path=root)

    cause = raised.value.__cause__
    assert isinstance(cause, ModuleNotFoundError)
    assert cause.name == "not_installed_anywhere"
    files = [frame.filename for frame in extract_tb(cause.__traceback__)]
    assert str(root / "good_rag.py") in files


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "importing 'bad_rag' failed: ZeroDivisionError"),
        ("def", "importing 'bad_rag' failed: SyntaxError"),
        ("raise SystemExit(3)", "importing 'bad_rag' failed: SystemExit: 3"),
        (
            "from ragbench import RAGInterface\nclass Half(RAGInterface): pass",
            "failed: InterfaceError: class Half has no generation",
        ),
    ],
)
def test_whatever_an_import_raises_is_reported(write: Write, text: str, message: str) -> None:
    root = write("bad_rag.py", text)
    message_of_file = message.replace("'bad_rag'", "'bad_rag.py'")

    with pytest.raises(ConfigError, match=message):
        load_rag("bad_rag:X", search_path=root)
    with pytest.raises(ConfigError, match=message_of_file):
        load_rag("bad_rag.py:X", search_path=root)


def test_a_file_is_loaded_with_its_neighbours_now_and_later(write: Write) -> None:
    write("deep/neighbour_now.py", "TEXT = 'now'")
    write("deep/neighbour_later.py", "TEXT = 'later'")
    text = """
        from ragbench import RAGInterface
        from neighbour_now import TEXT

        class MyRAG(RAGInterface, families=["retrieval"]):
            def retrieve(self, query, top_k=None):
                from neighbour_later import TEXT as later
                return [TEXT, later]
        """
    root = write("deep/file_rag.py", text)

    rag: Any = load_rag("deep/file_rag.py:MyRAG", search_path=root)
    rag_of_whole_path = load_rag(f"{root}/deep/file_rag.py:MyRAG")

    assert rag.retrieve("q") == ["now", "later"]
    assert type(rag_of_whole_path) is type(rag)


def test_a_working_directory_that_loading_changes_is_put_back_with_a_warning(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
        import os, warnings
        from pathlib import Path

        warnings.filterwarnings("ignore")
        os.chdir(Path(__file__).parent / "deep")

        class MyRAG:
            def retrieve(self, query):
                return [os.getcwd()]
        """
    root = write("wanders.py", text)
    (root / "deep").mkdir(exist_ok=True)
    monkeypatch.chdir(root)

    with pytest.warns(RagbenchWarning, match=r"'wanders:MyRAG' changed the working directory to"):
        rag: Any = load_rag("wanders:MyRAG")

    assert rag.retrieve("q") == [str(root)]


@pytest.mark.extra("http")
def test_a_url_is_an_endpoint() -> None:
    rag: Any = load_rag("http://127.0.0.1:1/retrieve", {"timeout": 3.0})

    assert rag.families == {"retrieval"}
    rag.close()
