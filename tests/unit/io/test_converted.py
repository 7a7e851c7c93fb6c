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
    """A PDF of one line a page."""
    kinds: Any = pypdf.generic
    name, writer = kinds.NameObject, pypdf.PdfWriter()
    helvetica = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    font = kinds.DictionaryObject({name(key): name(value) for key, value in helvetica.items()})
    fonts = kinds.DictionaryObject({name("/F1"): font})
    for text in pages:
        page, stream = writer.add_blank_page(600, 800), kinds.StreamObject()
        stream.set_data(f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET".encode())
        page[name("/Resources")] = kinds.DictionaryObject({name("/Font"): fonts})
        page[name("/Contents")] = stream
    if password is not None:
        writer.encrypt(password, owner_password="owner", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def word() -> bytes:
    made = docx.Document()
    made.core_properties.title = "Travel"
    made.add_heading("Travel costs", 1)
    made.add_paragraph("Trains are second class.")
    made.add_paragraph("Keep the ticket", style="List Bullet")
    table = made.add_table(2, 2)
    for at, text in enumerate(("Country", "Rate|day", "France", "53")):
        table.cell(at // 2, at % 2).text = text
    made.add_heading("Meals", 2)
    made.add_paragraph("Meals are paid by the day.")
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def folder(tmp_path: Path, **files: bytes) -> Path:
    for name, data in files.items():
        written(tmp_path / name.replace("__", "."), data)
    return tmp_path


def test_a_pdf_is_the_text_of_its_pages(tmp_path: Path) -> None:
    folder(tmp_path, a__pdf=pdf("Rent is due in May.", "The rate is 53 euros."))
    [document] = read_documents(tmp_path / "a.pdf")
    assert document.text == "Rent is due in May.\n\nThe rate is 53 euros."
    assert (document.id, document.title) == ("a.pdf", None)
    folder(tmp_path, a__pdf=pdf(""), b__pdf=pdf("Rent is due.", password=""))
    # A scanned one has no text; one that only its owner may change is read.
    assert [document.text for document in read_documents(tmp_path)] == ["", "Rent is due."]


def test_of_a_page_the_main_text_is_kept_as_markdown(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    folder(tmp_path / "sub", b__PDF=pdf("Rent is due."))
    folder(tmp_path, a__md=b"# Leave\n\n27 days.", c__html=PAGE.encode(), d__exe=b"MZ")
    # A folder may hold all kinds.
    _, document, last = read_documents(tmp_path)
    assert (document.id, last.id, skipped_files(tmp_path)) == ("c.html", "sub/b.PDF", ["d.exe"])
    assert (document.title or "").startswith("Leave")
    for kept in ("There are 27 days of paid leave a year", "## Carrying over", "| 10 | 30 |"):
        assert kept in document.text
    for left_out in ("Jobs", "track()", "cookies", "<p>"):
        assert left_out not in document.text


def test_word_keeps_headings_lists_and_tables_in_their_order(tmp_path: Path) -> None:
    [document] = read_documents(folder(tmp_path, a__docx=word()))

    assert document.title == "Travel"
    assert document.text == (
        "# Travel costs\n\nTrains are second class.\n\n- Keep the ticket\n\n"
        "| Country | Rate\\|day |\n|---|---|\n| France | 53 |\n\n"
        "## Meals\n\nMeals are paid by the day."
    )


def test_all_that_are_damaged_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    locked, bad = pdf("Rent is due.", password="secret"), b"%PDF-1.4 and then nothing"
    folder(tmp_path, damaged__pdf=bad, locked__pdf=locked, no__docx=b"PK no", ok__md=b"Rent.")
    with pytest.raises(DataError) as raised:
        list(read_documents(tmp_path))

    said = {Path(str(one.path)).name: one.message for one in raised.value.problems}

    assert said.keys() == {"damaged.pdf", "locked.pdf", "no.docx"}
    assert "locked by a password" in said["locked.pdf"]
    assert "no PDF document that can be read" in said["damaged.pdf"]
    assert "no Word document that can be read" in said["no.docx"]
    assert not any("\n" in message for message in said.values())
    assert caplog.messages == []


def test_an_archive_that_unpacks_to_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = io.BytesIO(word())
    with zipfile.ZipFile(data, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/media/zeros.bin", b"\0" * 3_000_000)
    monkeypatch.setenv("RAGBENCH_MAX_FILE", "1MB")
    assert len(data.getvalue()) < 100_000
    with pytest.raises(DataError, match="unpacks to more than"):
        list(read_documents(folder(tmp_path, a__docx=data.getvalue())))


def test_without_the_package_a_file_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert(data: bytes, limits: ReadLimits) -> tuple[str, str | None]:
        raise MissingExtraError("pypdf", "documents")

    monkeypatch.setitem(converted.CONVERTED, ".pdf", ("pypdf_that_is_not_there", convert))
    with pytest.raises(MissingExtraError, match=r"pip install 'ragbench\[documents\]'"):
        list(read_documents(written(tmp_path / "a.pdf", pdf("Rent is due."))))
