"""Questions that the sections of pages answer, and texts of pages that say nothing.

Questions are the headings that are questions, and headings of instructions and lists worded as
one ("Add a user" below which steps stand: "How do I add a user?"). Pages whose checksum falls into
one of eleven parts are kept out of what is learned, to look at.
"""

from __future__ import annotations

import random
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.train_validator.same_page_documents import Block, Document, Section
from ragbench.validators.slots import is_yes_or_no

COOKING = "LukeSmithxyz+based.cooking"
_VERBS = frozenset(
    re.findall(
        r"\w+",
        """activate add adjust allow analyze apply approve archive arrange assign attach authorize
    automate back block book build buy calculate cancel change check choose clear close combine
    configure connect control convert copy correct create customize cut deactivate decide define
    delete deploy design disable disconnect discover display distribute document download edit email
    enable end enroll enter exclude export extend file filter find finish fix format generate get
    give grant group handle hide identify implement import include increase insert inspect install
    invite issue join keep leave limit link list lock log make manage map mark match measure merge
    migrate modify monitor move open order organize pay perform pick plan post prepare prevent
    preview print process protect provide publish purchase quarantine receive record recover reduce
    refresh register reject release remove rename renew reopen repair replace report request require
    rerun reset resolve restart restore restrict retire retrieve return reverse review revoke route
    run save schedule search secure select sell send set share show sign split specify start stop
    submit subscribe switch synchronize sync take test track train transfer translate troubleshoot
    turn uninstall undo unlink unlock update upgrade upload use validate verify view wipe withdraw
    work write""",
    )
)


def _gerunds() -> dict[str, str]:
    return {
        one: verb
        for verb in sorted(_VERBS)
        for one in (
            f"{verb}ing",
            f"{verb.removesuffix('e')}ing",
            f"{verb}{verb[-1]}ing",
        )
    }


_OF_GERUND = _gerunds()
_LIST_HEADING = re.compile(
    r"^(prerequisites?|requirements?|before you (?:begin|start)|limitations?"
    r"|known (?:issues|limitations)|supported \w+(?: \w+)?|benefits|permissions?(?: required)?"
    r"|system requirements|eligibility(?: requirements)?|features|considerations|what you need"
    r"|required \w+)$",
    re.I,
)
_NEEDED = re.compile("prereq|requirement|before|what you|eligib", re.I)
LINKS = re.compile(
    r"^\s*(see|refer to|read|click here|learn more|for (?:more|further|details|information)"
    r"|check out|go to|visit|more information)\b",
    re.I,
)
VAGUE = re.compile(
    r"\b(this (?:article|topic|page|section|guide|document|chapter|table|list|tutorial|policy"
    r"|handbook)|(?:the )?following (?:table|section|sections|list|topics?|articles?|steps"
    r"|information|options|examples?|links)|(?:see|refer to) (?:the|also|below|our)"
    r"|for more information|learn (?:how|about|more)|in this|as described"
    r"|described (?:above|below|in)|applies to|listed below|is subject to change|last updated"
    r"|related (?:information|articles|links)|next steps|contents|overview|thank you|questions\?"
    r"|contact us|feedback|your (?:feedback|browser)|check out|find out|read more|find more"
    r"|take a look)\b",
    re.I,
)
_PRODUCT = re.compile(
    r"\s*[|–-]\s*(microsoft|business central|exchange|intune|sharepoint).*$", re.I
)
COMMON = frozenset(
    re.findall(
        r"\w+",
        """what which when where does have that this with from your about should would could will
    into they them there their made make used using more than been also only""",
    )
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A question with the section that answers it."""

    query: str
    kind: str
    """"yn" (yes or no), "how", "list" or "wh"."""
    document: Document
    at: int

    @property
    def section(self) -> Section:
        return self.document.sections[self.at]

    @property
    def asked(self) -> bool:
        """Whether people asked it so."""
        return self.section.heading.endswith("?")

    @property
    def children(self) -> set[int]:
        """Sections below its heading."""
        found: set[int] = set()
        for at in range(self.at + 1, len(self.document.sections)):
            if self.document.sections[at].level <= self.section.level:
                break
            found.add(at)
        return found

    @property
    def parent(self) -> int | None:
        above = range(self.at - 1, -1, -1)
        sections = self.document.sections
        return next((at for at in above if sections[at].level < self.section.level), None)

    def is_like(self, heading: str) -> bool:
        """Whether a section of that heading may answer it, too."""
        own = words(self.section.heading)
        shared = words(heading) & own - COMMON
        return bool(heading) and len(shared) >= max(2, 0.6 * len(own - COMMON))


@dataclass(frozen=True, slots=True)
class Pages:
    """What the pages give: questions by source, and texts that say nothing."""

    candidates: dict[str, list[Candidate]]
    says_nothing: tuple[tuple[str, str], ...]
    """Sources and texts; some stand more than once."""
    vague: tuple[str, ...]
    """Of these at most 500 of a source, none twice."""


def is_held(document: Document) -> bool:
    """Whether a page is kept out, to look at."""
    return zlib.crc32(f"{document.source}/{document.path}".encode()) % 11 == 0


def read_pages(documents: Sequence[Document], draw: random.Random) -> Pages:
    """All questions and texts that say nothing."""
    says_nothing = tuple(
        (one.source, text)
        for one in documents
        for text in list(_texts_that_say_nothing(one, draw))
        if not is_held(one)
    )
    by_source: dict[str, list[str]] = defaultdict(list)
    for source, text in says_nothing:
        by_source[source].append(text)
    vague: list[str] = []
    for texts in by_source.values():
        unique = list(dict.fromkeys(texts))
        draw.shuffle(unique)
        vague += unique[:500]
    draw.shuffle(vague)
    count = Counter(
        heading for one in documents for heading in {part.heading for part in one.sections}
    )
    candidates: dict[str, list[Candidate]] = defaultdict(list)
    for one in documents:
        for found in _candidates(one, count, draw):
            candidates[one.source].append(found)
    return Pages(dict(candidates), says_nothing, tuple(vague))


def _texts_that_say_nothing(document: Document, draw: random.Random) -> Iterator[str]:
    if document.summary:
        yield document.summary
    for section in document.sections:
        for block in section.blocks:
            if 12 < len(block.text) < 220 and _says_nothing(block):
                yield block.text
        heading = section.heading
        if len(heading) > 6 and not heading.endswith("?") and draw.random() < 0.3:
            yield heading


def _says_nothing(block: Block) -> bool:
    vague = block.kind in ("p", "note") and VAGUE.search(block.text)
    lead_in = block.kind == "p" and block.text.endswith(":") and len(block.text) < 120
    return bool(vague) or lead_in or bool(LINKS.match(block.text))


# --- questions


def _candidates(
    document: Document, count: Counter[str], draw: random.Random
) -> Iterator[Candidate]:
    title, sections = document.title, document.sections
    introduced = sections[0].size
    for at, section in enumerate(sections):
        first = next((one.text for one in section.blocks if one.kind != "note"), "")
        links_only = LINKS.match(first) and section.size < 160
        if section.size < 45 or not section.heading or links_only:
            continue
        found = _question(document, section, count[section.heading], draw)
        if found:
            yield Candidate(*found, document, at)
    action = _action(title)
    instructs = re.match("how to|to ", title, re.I) and introduced > 120
    if len(sections) <= 3 and action and instructs:
        yield Candidate(_how(action, draw), "how", document, 0)
    elif title.endswith("?") and introduced > 45 and count[title] < 2:
        yield Candidate(title, kind_of(title), document, 0)


def _question(
    document: Document, section: Section, count: int, draw: random.Random
) -> tuple[str, str] | None:
    heading, kinds = section.heading, Counter(one.kind for one in section.blocks)
    if heading.endswith("?") and count <= 2 and 3 <= len(heading.split()) <= 26:
        typed = draw.random() < 0.12
        return (lowered(heading).rstrip("?") if typed else heading), kind_of(heading)
    if document.source == COOKING and document.title:
        return _of_recipe(heading, lowered(document.title), draw)
    action = _action(heading)
    if action and kinds["st"] >= 2 and count <= 6:
        return _how(action, draw), "how"
    topic = _PRODUCT.sub("", document.title).strip()
    listed = _LIST_HEADING.match(heading) and kinds["li"] + kinds["st"] >= 2
    if not listed or not document.title or len(topic.split()) > 10:
        return None
    asked = _of_list(heading, topic, draw)
    return (asked, "list") if asked else None


_COOKED = (
    "How do I make {}?", "How do you make {}?", "how to make {}", "How is {} made?",
    "How can I cook {}?", "What are the steps to make {}?",
)  # fmt: skip
_INGREDIENTS = (
    "What are the ingredients of {}?", "Which ingredients do I need for {}?",
    "What do I need to make {}?", "What goes into {}?", "ingredients for {}",
    "List the ingredients of {}.",
)  # fmt: skip
_WHAT_IS_NEEDED = (
    "What do I need to {}?", "What are the requirements to {}?",
    "Which prerequisites are there to {}?", "What do I need before I {}?",
)  # fmt: skip
_WHAT_THERE_IS = (
    "What are the {} of {}?", "Which {} does {} have?", "List the {} of {}.",
    "What {} are there for {}?",
)  # fmt: skip


def _of_recipe(heading: str, dish: str, draw: random.Random) -> tuple[str, str] | None:
    if re.match(r"directions|method|instructions", heading, re.I):
        return draw.choice(_COOKED).format(dish), "how"
    if re.match(r"ingredients", heading, re.I):
        return draw.choice(_INGREDIENTS).format(dish), "list"
    return None


def _of_list(heading: str, topic: str, draw: random.Random) -> str | None:
    action = _action(topic)
    if action and _NEEDED.match(heading):
        return draw.choice(_WHAT_IS_NEEDED).format(action)
    if action:
        told = re.match("limit|known|consid", heading, re.I)
        return f"What are the {lowered(heading)} when I {action}?" if told else None
    if re.match("before|what you", heading, re.I):
        return f"What do I need for {lowered(topic)}?"
    return draw.choice(_WHAT_THERE_IS).format(lowered(heading), lowered(topic))


def kind_of(question: str) -> str:
    """Which kind of answer it wants."""
    if is_yes_or_no(question):
        return "yn"
    if re.match(r"\W*how (?:many|much|long|often|old|far)\b", question, re.I):
        return "wh"
    if re.match(r"\W*how\b", question, re.I):
        return "how"
    listed = r"\W*(which|what (?:are|do|kinds?|types?|\w+s)|list|name)\b"
    return "list" if re.match(listed, question, re.I) else "wh"


def lowered(text: str) -> str:
    named = text[:2].isupper() or re.match(r"[A-Z][a-z]*[A-Z]", text)
    return text if named else text[:1].lower() + text[1:]


def _action(heading: str) -> str | None:
    """What a heading tells to do: "Adding users" is "add users"."""
    begins = (
        r"^(?:step \d+\s*[:.-]+\s*|task \d+\s*[:.-]+\s*|option \d+\s*[:.-]+\s*|to |how to "
        r"|steps to )"
    )
    found = re.sub(begins, "", heading.strip(), flags=re.I).strip().rstrip(":.").split()
    if not 2 <= len(found) <= 14:
        return None
    first = found[0].lower()
    verb = _OF_GERUND.get(first, first if first in _VERBS else None)
    return " ".join([verb, *found[1:]]) if verb else None


_HOW = (
    (0.45, "How do I {}?"), (0.6, "How can I {}?"), (0.7, "How do you {}?"), (0.8, "how to {}"),
    (0.87, "How should I {}?"), (0.94, "What do I have to do to {}?"),
    (1.0, "What are the steps to {}?"),
)  # fmt: skip


def _how(action: str, draw: random.Random) -> str:
    if draw.random() < 0.8:
        action = re.sub(r"\byour\b", "my", action)
    place = draw.random()
    wording = next(one for up_to, one in _HOW if place < up_to)
    if wording == "How do you {}?":
        action = re.sub(r"\bmy\b", "your", action)
    return wording.format(action)


def words(text: str) -> set[str]:
    """Those of four letters and more."""
    return set(re.findall(r"[a-z]{4,}", text.lower()))
