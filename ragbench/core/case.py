"""Cases: the question that a RAG is asked, and what is known about its right answer.

Readers of datasets make them (`ragbench.io`), stages and metrics read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

from ragbench.core.record import Labelled, Record, field

Said: TypeAlias = Sequence[Mapping[str, str]]
"""The messages before a query, each with a role and a content."""


class Evidence(Record):
    """A verbatim span that supports the reference answer."""

    text: str
    """The span, character by character as in its source."""
    document_id: str | None = None
    """The document or chunk that contains it; None when unknown."""
    start: int | None = None
    """Offset of the span in that document's text."""
    end: int | None = None
    """Offset behind the span in that document's text."""


class Turn(Record):
    """A message of a conversation, before the question that a case asks."""

    role: str
    """``"user"``, ``"assistant"``, or the name of another speaker."""
    text: str
    contexts: tuple[str, ...] | None = None
    """The texts that were retrieved for it; None when unknown."""


class ExpectationKind(Labelled):
    """The kind of an expectation of the answer; the label begins its sentence in reports."""

    MENTIONS = "mentions", "must contain"
    """A text in whole words, without regard to case, white space and the form of Unicode."""
    SUBSTRING = "substring", "must contain exactly"
    """A text letter by letter, also inside a word."""
    SUBSTRING_ANY_CASE = "substring_any_case", "must contain in any case"
    STARTS_WITH = "starts_with", "must start with"
    PATTERN = "pattern", "must match"
    """A regular expression that matches somewhere in the answer."""
    JSON = "json", "must be JSON"
    HOLDS_JSON = "holds_json", "must contain JSON"
    SOURCE = "source", "must retrieve or cite"
    """A document, by its id or name, among the chunks that generation is given, or cited."""
    CITES = "cites", "must cite"
    """A document, by its id or name, among those that the answer cites."""


class Expectation(Record):
    """A condition that the answer to a case, or its sources, must fulfil."""

    kind: ExpectationKind
    texts: tuple[str, ...] = ()
    """Texts, patterns or names of documents, of which one suffices; empty for JSON."""
    negated: bool = False
    """Whether it is fulfilled if none of them is there."""

    @property
    def sentence(self) -> str:
        """The expectation in words for a report: ``must not contain "refund"``.

        The answer is not judged by these words, so they may change.
        """
        verb = self.kind.label
        if self.negated:
            verb = verb.replace("must", "must not", 1)
        quoted = " or ".join(f'"{text}"' for text in self.texts)
        return f"{verb} {quoted}".rstrip()


class Case(Record):
    """One question with everything that is known about its right answer.

    None always means "not known". An empty tuple means "known to be none": a case with
    ``reference_context_ids=()`` says that nothing in the corpus answers the question.
    """

    id: str
    """Unique within its dataset."""
    query: str
    """The question that the RAG is asked."""
    history: tuple[Turn, ...] = ()
    """The messages before it, the oldest first: a question such as "and on Sunday?" needs them."""
    reference: str | None = None
    """The right answer."""
    alternative_references: tuple[str, ...] = ()
    """Other answers that are as right as ``reference``."""
    reference_contexts: tuple[str, ...] | None = None
    """Texts that hold the answer."""
    reference_context_ids: tuple[str, ...] | None = None
    """Ids of the chunks or documents that hold the answer."""
    grades: Mapping[str, int] | None = None
    """Graded relevance by id, as in TREC qrels; 0 means judged and not relevant."""
    evidence: tuple[Evidence, ...] = ()
    """Verbatim spans that support the answer."""
    answerable: bool | None = None
    """Whether the corpus holds an answer."""
    expectations: tuple[Expectation, ...] = ()
    """Texts that the answer must contain, or must not, and documents that it must come from."""
    cluster: str | None = None
    """Name of what the case shares with others (document, conversation, template): cases of one
    cluster are not independent observations."""
    tags: tuple[str, ...] = ()
    """Labels by which reports form slices."""
    language: str | None = None
    """BCP 47 code of the query's language."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the record, unchanged."""

    @property
    def references(self) -> tuple[str, ...]:
        """Every right answer to the question, the main one first; empty when none is known.

        Metrics of answers compare with each, and the best match counts.
        """
        if self.reference is None:
            return tuple(self.alternative_references)  # users may build a case with a list
        return (self.reference, *self.alternative_references)

    @property
    def judgements(self) -> Mapping[str, int] | None:
        """The relevance of chunks or documents to the question, by id; None when it is not known.

        The relevances are the case's ``grades``, else 1 for each of its ``reference_context_ids``.
        """
        ids = self.reference_context_ids
        if self.grades is None and ids is not None:
            return dict.fromkeys(ids, 1)
        return self.grades

    @property
    def relevant_ids(self) -> tuple[str, ...]:
        """The ids of the chunks or documents that are judged relevant; empty when none is known.

        Relevant is a grade above 0, as in TREC qrels.
        """
        judgements = self.judgements or {}
        return tuple(id_ for id_, grade in judgements.items() if grade > 0)

    @property
    def gold_pair(self) -> tuple[int, int]:
        """Two numbers for the passages that hold the answer, -1 in place of one that is missing.

        Cases with equal numbers share a passage, and `clusters_of` makes clusters of these cases.
        A number is a digest of the passage's id, else of the span or the text. More than two
        passages are one number, of all of them together.
        Numbers take the place of texts since a run may have a million cases. Names of clusters in
        baseline files are made of these numbers: another digest would part them from new runs.
        """
        passages: Sequence[str] = self.reference_context_ids or self.relevant_ids
        if not passages and self.evidence:
            passages = [f"{span.document_id}\0{span.text}" for span in self.evidence]
        if not passages:
            passages = self.reference_contexts or ()
        if len(passages) > 1:  # in a fixed order, whatever the order in the dataset
            passages = sorted({*passages})
        if len(passages) > 2:
            passages = ["\0".join(passages)]
        numbers = [-1, -1]
        for position, passage in enumerate(passages):
            # Six bytes: `clusters_of` writes them as 12 digits, and a million passages hardly
            # collide.
            digest = blake2b(passage.encode("utf-8", "surrogatepass"), digest_size=6)
            numbers[position] = int.from_bytes(digest.digest(), "big")
        return numbers[0], numbers[1]

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages before the question in the form in which a RAG takes them.

        Only the user's and the assistant's are there: chat models know no other roles.
        """
        messages: list[dict[str, str]] = []
        for turn in self.history:
            if turn.role in ("user", "assistant"):
                messages.append({"role": turn.role, "content": turn.text})
        return messages

    @property
    def told(self) -> tuple[str, ...]:
        """Texts that may support an answer besides its chunks: the user's words and earlier chunks.

        Judges of support read them too, since an answer that repeats the user's words is not made
        up. Earlier answers are not among them: they prove nothing themselves.
        """
        texts: list[str] = []
        for turn in self.history:
            if turn.role == "user":
                texts.append(turn.text)
            # What an earlier answer was made from, and not that answer.
            elif turn.contexts is not None:
                texts += turn.contexts
        return tuple(texts)

    @property
    def conversation(self) -> str:
        """The messages before the question and then the question, a line each with its speaker.

        Without messages before it, the question alone. Judges and exports read it: a
        question such as "and on Sunday?" has no meaning alone.
        """
        if not self.history:
            return self.query
        lines = [f"{turn.role}: {turn.text}" for turn in self.history]
        lines.append(f"user: {self.query}")
        return "\n".join(lines)

    @property
    def needs_all(self) -> bool:
        """Whether the record declares that the question needs all of its gold contexts.

        A record declares it by ``needs: all``: one missing gold context is then enough for a wrong
        answer to be the fault of retrieval.
        """
        return self.metadata.get("needs") == "all"
