"""PDF, HTML and Word files as documents of a corpus."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ragbench import read_documents
from ragbench.errors import DataError, MissingExtraError
from ragbench.io import converted
from ragbench.io.limits import ReadLimits
from ragbench.io.read import skipped_files
from tests.unit.io.traces import written

pypdf = pytest.importorskip("pypdf")
docx = pytest.importorskip("docx")
pytest.importorskip("trafilatura")

PAGE = """<html><head><title>Leave at Pellorin</title><script>track()</script></head><body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/jobs">Jobs</a></li></ul></nav>
<main><h1>Leave</h1><p>There are 27 days of paid leave a year, for everybody who has been here for
longer than half a year. Whoever is new has two days for each month that is over.</p>
<h2>Carrying over</h2><p>Up to five days may be taken until the end of March of the next year; after
that they are lost, unless illness was the reason.</p>
<table><tr><th>Years</th><th>Days</th></tr><tr><td>10</td><td>30</td></tr></table></main>
<footer>Imprint and cookies</footer></body></html>"""


def pdf(*pages: str, password: str | None = None) -> bytes:
    """A PDF with a line on each page."""
    kinds: Any = pypdf.generic
    name = kinds.NameObject
    font = kinds.DictionaryObject(
        {
            name("/Type"): name("/Font"),
            name("/Subtype"): name("/Type1"),
            name("/BaseFont"): name("/Helvetica"),
        }
    )
    fonts = kinds.DictionaryObject({name("/F1"): font})
    writer = pypdf.PdfWriter()
    for text in pages:
        stream = kinds.StreamObject()
        stream.set_data(f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET".encode())
        page = writer.add_blank_page(600, 800)
        page[name("/Resources")] = kinds.DictionaryObject({name("/Font"): fonts})
        page[name("/Contents")] = stream
    if password is not None:
        writer.encrypt(password, owner_password="owner", algorithm="RC4-128")
    content = io.BytesIO()
    writer.write(content)
    return content.getvalue()


def word() -> bytes:
    """A Word file with headings, a list and a table."""
    document = docx.Document()
    document.core_properties.title = "Travel"
    document.add_heading("Travel costs", 1)
    document.add_paragraph("Trains are second class.")
    document.add_paragraph("Keep the ticket", style="List Bullet")
    table = document.add_table(2, 2)
    table.cell(0, 0).text = "Country"
    table.cell(0, 1).text = "Rate|day"
    table.cell(1, 0).text = "France"
    table.cell(1, 1).text = "53"
    document.add_heading("Meals", 2)
    document.add_paragraph("Meals are paid by the day.")
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()


# --- PDF


def test_a_pdf_is_the_text_of_its_pages(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pdf", pdf("Rent is due in May.", "The rate is 53 euros."))

    (document,) = read_documents(path)

    assert document.text == "Rent is due in May.\n\nThe rate is 53 euros."
    assert document.id == "a.pdf"
    assert document.title is None


def test_a_pdf_that_was_scanned_has_no_text(tmp_path: Path) -> None:
    (document,) = read_documents(written(tmp_path / "a.pdf", pdf("")))

    assert document.text == ""


def test_a_pdf_that_only_its_owner_may_change_is_read(tmp_path: Path) -> None:
    (document,) = read_documents(written(tmp_path / "b.pdf", pdf("Rent is due.", password="")))

    assert document.text == "Rent is due."


# --- HTML


def test_of_a_page_the_main_text_is_kept_as_markdown(tmp_path: Path) -> None:
    written(tmp_path / "c.html", PAGE)

    (document,) = read_documents(tmp_path)

    assert document.id == "c.html"
    assert document.title is not None
    assert document.title.startswith("Leave")
    assert "There are 27 days of paid leave a year" in document.text
    assert "## Carrying over" in document.text
    assert "| 10 | 30 |" in document.text


@pytest.mark.parametrize("part", ["Jobs", "track()", "cookies", "<p>"])
def test_what_surrounds_the_main_text_of_a_page_is_left_out(tmp_path: Path, part: str) -> None:
    written(tmp_path / "c.html", PAGE)
    assert part in PAGE

    (document,) = read_documents(tmp_path)

    assert part not in document.text


# --- Word


def test_word_keeps_headings_lists_and_tables_in_their_order(tmp_path: Path) -> None:
    (document,) = read_documents(written(tmp_path / "a.docx", word()))

    assert document.title == "Travel"
    assert document.text == (
        "# Travel costs\n\nTrains are second class.\n\n- Keep the ticket\n\n"
        "| Country | Rate\\|day |\n|---|---|\n| France | 53 |\n\n"
        "## Meals\n\nMeals are paid by the day."
    )


# --- folders


def test_a_folder_may_hold_all_kinds_of_documents(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    written(tmp_path / "a.md", "# Leave\n\n27 days.")
    written(tmp_path / "c.html", PAGE)
    written(tmp_path / "d.exe", b"MZ")
    written(tmp_path / "sub" / "b.PDF", pdf("Rent is due."))

    documents = list(read_documents(tmp_path))

    assert [document.id for document in documents] == ["a.md", "c.html", "sub/b.PDF"]
    assert skipped_files(tmp_path) == ["d.exe"]


def test_all_files_that_are_damaged_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path / "damaged.pdf", b"%PDF-1.4 and then nothing")
    written(tmp_path / "locked.pdf", pdf("Rent is due.", password="secret"))
    written(tmp_path / "no.docx", b"PK no")
    written(tmp_path / "ok.md", "Rent.")

    with pytest.raises(DataError) as raised:
        list(read_documents(tmp_path))

    damaged, locked, no_word = raised.value.problems
    assert damaged.path == str(tmp_path / "damaged.pdf")
    assert "no PDF document that can be read" in damaged.message
    assert locked.path == str(tmp_path / "locked.pdf")
    assert "locked by a password" in locked.message
    assert no_word.path == str(tmp_path / "no.docx")
    assert "no Word document that can be read" in no_word.message
    for problem in raised.value.problems:
        assert "\n" not in problem.message
    assert caplog.messages == []  # of the packages


def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = io.BytesIO(word())
    with zipfile.ZipFile(content, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/media/zeros.bin", b"\0" * 3_000_000)
    assert len(content.getvalue()) < 100_000
    path = written(tmp_path / "a.docx", content.getvalue())
    monkeypatch.setenv("RAGBENCH_MAX_FILE", "1MB")

    with pytest.raises(DataError, match="unpacks to more than"):
        list(read_documents(path))


def test_without_the_package_a_file_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert(data: bytes, limits: ReadLimits) -> tuple[str, str | None]:
        raise MissingExtraError("pypdf", "documents")

    monkeypatch.setitem(converted.CONVERTED, ".pdf", ("pypdf_that_is_not_there", convert))
    with pytest.raises(MissingExtraError, match=r"pip install 'ragbench\[documents\]'"):
        list(read_documents(written(tmp_path / "a.pdf", pdf("Rent is due."))))
