"""Help pages, handbooks, recipes and lists of questions from public repositories, as documents.

Each repository is a git clone (bare or not) in EXTRA/repositories, named OWNER+NAME, and is read at
the commit of the table below: no work tree is needed. Markdown is cut at its headings and at lines
that are one question in bold; of YAML the lists of questions and answers are read. Code and tables
are left out. Pages of the same repository that are news, licences, tests or translations are not
read.
"""

from __future__ import annotations

import html
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Repository:
    """Where texts come from."""

    folder: str
    """OWNER+NAME."""
    commit: str
    licence: str


PAGES = (
    Repository(
        "MicrosoftDocs+dynamics365smb-docs", "41aa5854d6fd0c6eacf01d5dc91327a04ab9eae9", "CC BY 4.0"
    ),
    Repository("MicrosoftDocs+WSL", "8842def77a852af26318b9ebec78063a94b068ed", "CC BY 4.0"),
    Repository(
        "MicrosoftDocs+OfficeDocs-SharePoint",
        "7c40f91e5ec777bea5e1a222015884fdc8b3a2bb",
        "CC BY 4.0",
    ),
    Repository("MicrosoftDocs+IntuneDocs", "58f4af24e9b4136ada3356e24c5a22c63ca25164", "CC BY 4.0"),
    Repository(
        "MicrosoftDocs+OfficeDocs-Exchange", "52e8b70f9b7aa92a24a4cb16b70229c1b45d583a", "CC BY 4.0"
    ),
    Repository("MicrosoftDocs+ATADocs", "18c689f3f979272efd59343d179360524dcb330b", "CC BY 4.0"),
    Repository("jitsi+handbook", "39ea55309eff25a339b4c31fa5367f25842c0f5a", "Apache-2.0"),
    Repository("GSA+digitalgov.gov", "4979583206d90ff1707b097454a9b169ca9e95e4", "CC0"),
    # A work of the US government; the repository itself carries no licence file.
    Repository(
        "GSA+smartpay-website", "071c37732d7588499c5e8156e048c58c2040cb73", "public domain (US)"
    ),
    Repository("18F+handbook", "1e4955634d0369f17e5bbc0ebbf8f62e2a3dfe4b", "CC0"),
    Repository("18F+identity-site", "0b71fd7d780cee28fa01dcc6b810cb038c2be6e5", "CC0"),
    Repository("USAJOBS+Help", "ff1364ff7479947d197f17d4f0d9d3c3ac24efa0", "CC0"),
    Repository(
        "LukeSmithxyz+based.cooking", "2d8642ec41ccc6162ec3123c15024dd3d22cc33b", "Unlicense"
    ),
    Repository("carpentries+handbook", "339744e6b0d5321e10ffadcc5161fa8fdfc8c094", "CC BY 4.0"),
    Repository("github+opensource.guide", "ebc9678e39b55ff5e5c8801d1960904692188e90", "CC BY 4.0"),
    Repository(
        "MicrosoftDocs+azure-security-docs", "1c4310bed2b90b37d9500bd26dc00a314becfa9f", "CC BY 4.0"
    ),
    Repository(
        "MicrosoftDocs+azure-management-docs",
        "d923d588901082fa2107de6b2a82d7d05cd95160",
        "CC BY 4.0",
    ),
    Repository(
        "arduino+help-center-content", "ba74efc775755dc886d8d759d4d8f78a8012b954", "CC BY-SA 4.0"
    ),
    Repository("sourcegraph+handbook", "5752928b213a3ddbc7cee4459524f404a5b96fb4", "Apache-2.0"),
    Repository("18F+guides", "debc24b34f23686194d9fe42e391859d569bd39a", "CC0"),
    Repository("uswds+uswds-site", "284e0976332d4e958ac1baf986180276dd4cbbcb", "CC0"),
)
"""All Markdown, and YAML with "faq" in its name."""
VITA = Repository("codeforamerica+vita-min", "4612fee9b1e819644783d05b994995ee702baf41", "MIT")
DIRECT = Repository("IRS-Public+direct-file", "e0d5c84451cc52b72d20d04652e306bf4af1a43c", "CC0")
_VITA_FILES = (
    "app/services/faq_database_export_en.yml",
    "app/services/state_file/faq_database_export_en.yml",
)
_DIRECT_FILES = (
    "direct-file/df-client/df-static-site/src/locales/en.yaml",
    "direct-file/df-client/df-client-app/src/locales/en.yaml",
)
_READ = re.compile(r"\.(md|mdx)$|faq.*\.ya?ml$", re.I)
_NOT_READ = re.compile(
    r"(^|/)(_?es|_?fr|_?zh|node_modules|events|news|test|license|code_of_conduct|contributing"
    r"|changelog|adr)(/|\.|$)",
    re.I,
)
_TRANSLATED = re.compile(r"_articles/[a-z]{2}(-\w+)?/")
SHORTEST_PAGE = 150
"""Characters of a Markdown file's text, below which it is no page."""
TOGETHER = 8
"""Questions that stand alone in a file of phrases, of which one page is made."""


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph ("p"), list item ("li"), step ("st") or note ("note")."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands below it; level 0 is what comes before the first one."""

    level: int
    heading: str
    blocks: tuple[Block, ...]

    @property
    def size(self) -> int:
        """Characters of its text."""
        return sum(len(one.text) for one in self.blocks)

    def has_steps(self) -> bool:
        return any(one.kind == "st" for one in self.blocks)


@dataclass(frozen=True, slots=True)
class Document:
    """A page."""

    source: str
    path: str
    title: str
    summary: str
    sections: tuple[Section, ...]


def documents(repositories: Path) -> list[Document]:
    """All pages of the table, in its order."""
    found: list[Document] = []
    for one in PAGES:
        for path, text in files_of(repositories, one, _is_page):
            if path.lower().endswith((".yml", ".yaml")):
                found += _questions_of_yaml(one.folder, path, text)
            else:
                page = page_of_markdown(one.folder, path, text)
                if sum(section.size for section in page.sections) >= SHORTEST_PAGE:
                    found.append(page)
    for _, text in files_of(repositories, VITA, _VITA_FILES.__contains__):
        found += _vita(yaml.safe_load(text))
    for _, text in sorted(
        files_of(repositories, DIRECT, _DIRECT_FILES.__contains__),
        key=lambda one: _DIRECT_FILES.index(one[0]),
    ):
        found += _direct(yaml.safe_load(text))
    return found


def _is_page(path: str) -> bool:
    kept_out = _NOT_READ.search(path) or _TRANSLATED.search(path)
    return _READ.search(path) is not None and kept_out is None


def files_of(
    repositories: Path, repository: Repository, wanted: Callable[[str], bool]
) -> list[tuple[str, str]]:
    """Paths and texts of a commit's files, in the order of git; files that are not there are left
    out.

    Raises:
        subprocess.CalledProcessError: the clone or the commit is not there.
    """
    git = ["git", "-c", "core.quotepath=off", "-C", str(repositories / repository.folder)]
    listed = subprocess.check_output([*git, "ls-tree", "-r", repository.commit], text=True)
    entries = [line.split("\t", 1) for line in listed.split("\n") if "\t" in line]
    chosen = [(about.split()[2], path) for about, path in entries if wanted(path)]
    asked = "".join(f"{name}\n" for name, _ in chosen)
    held = subprocess.check_output([*git, "cat-file", "--batch"], input=asked.encode())
    found: list[tuple[str, str]] = []
    at = 0
    for _, path in chosen:
        end = held.index(b"\n", at)
        head = held[at:end].decode().split()
        at = end + 1
        if len(head) < 3 or head[1] != "blob":
            continue
        size = int(head[2])
        found.append((path, held[at : at + size].decode("utf-8", "replace")))
        at += size + 1
    return found


_LINK = (re.compile(r"\[([^\[\]]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)"), r"\1")
_MARKUP: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"<!--.*?-->", re.S), ""),
    (
        re.compile(
            r"\[!INCLUDE\s*\[[^\]]*\]\([^)]*(prod_short|prodshort|prod_long|d365fin)[^)]*\)\]"
        ),
        "Business Central",
    ),
    (re.compile(r"\[!INCLUDE.*?\]\([^)]*\)\]"), ""),
    (re.compile(r"!\[[^\]]*\]\([^)]*\)|:::image.*?:::|:::.*?$", re.M), ""),
    (re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{:.*?\}", re.S), ""),
    _LINK,
    _LINK,  # once more: a picture in a link
    (re.compile(r"\[([^\[\]]*)\]\[[^\[\]]*\]"), r"\1"),
    (re.compile(r"<(?:https?|mailto)[^>]*>"), ""),
    (re.compile(r"<br\s*/?>"), "\n"),
    (re.compile(r"</?[a-zA-Z][^>]*>"), ""),
    (re.compile(r"\*\*\*|\*\*|__|`|~~"), ""),
    (re.compile(r"(?<!\w)[*_]([^*_\n]+)[*_](?!\w)"), r"\1"),
)
_TYPED = str.maketrans({"\\": "", "\u00a0": " ", "\u2019": "'", "\u201c": '"', "\u201d": '"'})


def plain(text: str) -> str:
    """Without Markdown's and HTML's marks."""
    for pattern, instead in _MARKUP:
        text = pattern.sub(instead, text)
    return re.sub(r"[ \t]+", " ", html.unescape(text).translate(_TYPED)).strip()


_FENCE = re.compile(r"\s*(>\s*)*(```|~~~)")
_QUOTED = re.compile(r"\s*>+\s?(.*)")
_CALLOUT = re.compile(r"\s*\[!(\w+)\]")
_RULE = re.compile(r"\s*[-|: ]+$")
_ITEM = re.compile(r"\s*(?:([-*+])|(\d+)[.)])\s+(.*)")


class _Reader:
    """Takes lines of Markdown and keeps blocks."""

    def __init__(self) -> None:
        self.found: list[Block] = []
        self._paragraph: list[str] = []
        self._note = self._code = False

    def take(self, line: str) -> None:
        if _FENCE.match(line):
            self._code = not self._code
            self.flush()
        if self._code or _FENCE.match(line):
            return
        quoted = _QUOTED.match(line)
        if quoted:
            line = quoted[1]
            if _CALLOUT.match(line):
                self.flush()
                self._note = True
                return
        elif self._note and line.strip():
            self.flush()
            self._note = False
        self._take_text(line, quoted=quoted is not None)

    def flush(self) -> None:
        """The paragraph is over."""
        self._add("note" if self._note else "p", " ".join(self._paragraph))
        self._paragraph = []

    def _take_text(self, line: str, *, quoted: bool) -> None:
        item = _ITEM.match(line)
        if not line.strip() or line.lstrip().startswith("|") or _RULE.match(line):
            self.flush()
        elif item:
            self.flush()
            self._add("li" if item[1] else "st", item[3])
        elif self._is_within_item(line) and not quoted:
            text = plain(line)
            if text:
                self.found[-1] = replace(self.found[-1], text=f"{self.found[-1].text} {text}")
        else:
            self._paragraph.append(line.strip())

    def _is_within_item(self, line: str) -> bool:
        listed = bool(self.found) and self.found[-1].kind in ("li", "st")
        return listed and not self._paragraph and line.startswith("  ")

    def _add(self, kind: str, text: str) -> None:
        text = plain(text)
        if text:
            self.found.append(Block(kind, text))


def blocks(text: str) -> tuple[Block, ...]:
    """Paragraphs, list items, steps and notes of Markdown."""
    reader = _Reader()
    for line in text.split("\n"):
        reader.take(line)
    reader.flush()
    return tuple(reader.found)


_FRONT = re.compile(r"\ufeff?\s*---\s*\n(.*?)\n---\s*\n", re.S)
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_BOLD_QUESTION = re.compile(r"\s*\*\*([^*]{8,150}\?)\*\*\s*$")
_NUMBERED = re.compile(r"^(?:Q\s*[:.]\s*|\d+(?:\.\d+)*[.)]?\s+)")
_BOLD = 7
"""The level of a question in bold."""


def page_of_markdown(source: str, path: str, text: str) -> Document:
    """A Markdown file; its title is the one that it names, else its first heading's."""
    title = summary = ""
    front = _FRONT.match(text)
    if front:
        text = text[front.end() :]
        title = _named(front[1], "title")
        summary = next(
            (x for key in ("description", "summary", "deck") if (x := _named(front[1], key))), ""
        )
    sections = tuple(_sections(text))
    for one in sections[:2]:
        if one.level == 1 and not title:
            title = one.heading
    return Document(source, path, title, summary, sections)


def _named(front: str, key: str) -> str:
    found = re.search(rf"^{key}:\s*(.+)$", front, re.M | re.I)
    return plain(found[1].strip().strip("\"'")) if found else ""


def _sections(text: str) -> Iterator[Section]:
    level, heading, lines, code = 0, "", list[str](), False
    for line in text.split("\n"):
        if re.match(r"\s*(```|~~~)", line):
            code = not code
        found = None if code else _HEADING.match(line)
        bold = None if found or code else _BOLD_QUESTION.match(line)
        if found or bold:
            yield _section(level, heading, lines)
            level = len(found[1]) if found else _BOLD
            heading, lines = plain(found[2] if found else bold[1] if bold else ""), []
        else:
            lines.append(line)
    yield _section(level, heading, lines)


def _section(level: int, heading: str, lines: list[str]) -> Section:
    return Section(level, _NUMBERED.sub("", heading), blocks("\n".join(lines)))


def _questions_of_yaml(source: str, path: str, text: str) -> list[Document]:
    """Microsoft's lists of questions."""
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError:
        return []
    if not isinstance(given, dict) or "sections" not in given:
        return []
    held: dict[str, Any] = given
    sections = [Section(0, "", blocks(str(held.get("summary") or "")))]
    sections += [
        Section(3, plain(str(one.get("question") or "")), blocks(str(one.get("answer") or "")))
        for part in held["sections"]
        for one in part.get("questions") or []
    ]
    summary = str((held.get("metadata") or {}).get("description") or "")
    title = plain(str(held.get("title") or ""))
    return [Document(source, path, title, plain(summary), tuple(sections))]


def _vita(given: Mapping[str, Any]) -> list[Document]:
    """The questions that a help with taxes answers; answers are HTML."""
    return [
        Document(
            "vita",
            name,
            plain(str(group.get("title") or name)),
            "",
            (
                Section(0, "", ()),
                *(
                    Section(3, plain(one["question"]), _blocks_of_html(one["answer_html"]))
                    for one in group.values()
                    if isinstance(one, dict) and one.get("question") and one.get("answer_html")
                ),
            ),
        )
        for name, group in given["question_groups"].items()
    ]


def _blocks_of_html(text: str) -> tuple[Block, ...]:
    text = re.sub(r"<li[^>]*>", "\n- ", text)
    return blocks(re.sub(r"</(p|li|ul|ol|div|h\d)>", "\n\n", text))


def _direct(given: Any) -> list[Document]:
    """Phrases of a tax office's programme: headings with bodies, together where they stand so."""
    found = list(_nested(given, ()))
    first: dict[str, Section] = {}
    for one in _asked(given):
        first.setdefault(one.heading, one)
    alone = list(first.values())
    for at in range(0, len(alone), TOGETHER):
        part = (Section(0, "", ()), *alone[at : at + TOGETHER])
        found.append(Document("direct", f"lone{at}", "", "", part))
    return found


def _nested(given: Any, path: tuple[str, ...]) -> Iterator[Document]:
    if not isinstance(given, dict):
        return
    held: dict[str, Any] = given
    sections = [Section(0, "", ())]
    for key, one in held.items():
        if isinstance(one, dict):
            part: dict[str, Any] = one
            heading = part.get("heading") or part.get("header")
            if isinstance(heading, str) and part.get("body"):
                sections.append(Section(3, plain(heading), blocks(_phrases(part["body"]))))
            yield from _nested(part, (*path, str(key)))
    if len(sections) > 2:
        title = held.get("heading")
        title = plain(title) if isinstance(title, str) else ""
        yield Document("direct", "/".join(path), title, "", tuple(sections))


def _asked(given: Any) -> Iterator[Section]:
    """Headings that are questions, wherever they stand."""
    if isinstance(given, dict):
        held: dict[str, Any] = given
        heading = held.get("header") or held.get("heading")
        if isinstance(heading, str) and held.get("body") and heading.strip().endswith("?"):
            yield Section(3, plain(heading), blocks(_phrases(held["body"])))
    for one in (
        given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
    ):
        yield from _asked(one)


_TEXTS = ("p", "ul", "ol", "li", "body", "h2", "h3", "h4")


def _phrases(given: Any) -> str:
    if isinstance(given, str):
        return f"{given}\n\n"
    if isinstance(given, list):
        return "".join(_phrases(one) for one in given)
    if not isinstance(given, dict):
        return ""
    return "".join(
        f"- {_phrases(one).strip()}\n" if key == "li" else _phrases(one)
        for key, one in given.items()
        if key in _TEXTS
    )
