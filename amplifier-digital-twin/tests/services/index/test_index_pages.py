"""What is written for installers can be read again, and what indexes send is read whatever it is."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin.services import index_pages
from amplifier_digital_twin.services.index_pages import (
    HTML,
    JSON,
    IndexFile,
    PageError,
    normalized,
    parse_page,
    render_html,
    render_json,
    wants_json,
)
from amplifier_digital_twin.services.link_folder import is_file_of

URL = "https://index.example/simple/own/"
TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF), min_size=1, max_size=20)
SUMS = st.from_regex(r"[0-9a-f]{64}", fullmatch=True).map(lambda value: {"sha256": value})
FILES = st.builds(
    IndexFile,
    filename=st.from_regex(r"[a-z0-9_]{1,9}-[0-9.+]{1,5}-py3-none-any\.whl", fullmatch=True),
    url=st.just(""),
    hashes=SUMS,
    requires_python=st.none() | TEXT.map(str.strip).filter(bool),
    yanked=st.none() | st.just("") | TEXT.map(str.strip),
    has_metadata=st.booleans(),
)


@given(st.lists(FILES, max_size=4), st.booleans())
def test_pages_survive_the_journey(files: list[IndexFile], is_json: bool) -> None:
    """A page that was written is read as what it was."""
    named = [
        dataclasses.replace(file, url=f"https://index.example/f/{file.filename.replace('+', '%2B')}") for file in files
    ]
    written = render_json("own", named) if is_json else render_html("own", named)
    assert parse_page(written, JSON if is_json else HTML, URL) == named


@given(st.binary(max_size=200), st.sampled_from([JSON, HTML, "text/html; charset=x", "", "application/zip"]))
def test_no_answer_makes_it_fail(content: bytes, kind: str) -> None:
    """Whatever a server sends is a page or a PageError."""
    try:
        read = parse_page(content, kind, URL)
    except PageError:
        return  # that is the other answer that is allowed
    assert all(isinstance(file, IndexFile) for file in read)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"meta": {"api-version": "2.0"}, "files": []}',
        b'{"meta": 1, "files": []}',
        b'{"files": [1]}',
    ],
)
def test_json_that_is_no_page(content: bytes) -> None:
    """JSON that is no page, or one of a version to come, is refused."""
    with pytest.raises(PageError):
        parse_page(content, JSON, URL)


def test_links() -> None:
    """Relative links, a base, escapes, and hashes and attributes are understood."""
    page = (
        b'<html><head><base href="/deep/"></head><body><a href="../f/own-1.0.tar.gz#md5=ABC">x</a>'
        b'<a href="own-2.0-py3-none-any.whl?x=1#sha256=ff&amp;egg=own" data-requires-python="&gt;=3.9" '
        b'data-yanked data-dist-info-metadata="sha256=00">y</a><a name="z"><a href="/">up</a>'
    )
    first, second = parse_page(page, "text/html", URL)
    assert (first.url, first.hashes) == ("https://index.example/f/own-1.0.tar.gz", {"md5": "abc"})
    assert second.url == "https://index.example/deep/own-2.0-py3-none-any.whl?x=1"
    assert (second.filename, second.requires_python, second.yanked) == ("own-2.0-py3-none-any.whl", ">=3.9", "")
    assert (second.has_metadata, second.metadata_hashes) == (True, {"sha256": "00"})


@pytest.mark.parametrize(
    ("accept", "is_json"),
    [
        ("", False),
        ("*/*", False),
        (JSON, True),
        (f"{JSON}, {HTML};q=0.2, text/html;q=0.01", True),
        (f"text/html, {JSON};q=0.5", False),
        (f"{JSON};q=0", False),
        (f"{JSON};q=x, text/html", False),
    ],
)
def test_what_a_client_likes(accept: str, is_json: bool) -> None:
    """A client gets what it likes best."""
    assert wants_json(accept) is is_json


@pytest.mark.parametrize(
    ("filename", "name", "is_its"),
    [
        ("Own_Name-1.0-py3-none-any.whl", "own-name", True),
        ("own-1.0.tar.gz", "own", True),
        ("own-name-1.0.zip", "own-name", True),
        ("own-name-1.0.zip", "own", False),
        ("own-name-1.0-py3-none-any.whl", "own-name", False),
        ("own.txt", "own", False),
        ("own-latest.tar.gz", "own", False),
    ],
)
def test_whose_file_it_is(filename: str, name: str, is_its: bool) -> None:
    """A file belongs to the project that its name says, not to one whose name begins alike."""
    assert is_file_of(filename, normalized(name)) is is_its


PIECES = st.sampled_from(
    [
        '<a href="f/own-1.0.tar.gz#sha256=ff" data-requires-python="&gt;=3.9">own-1.0.tar.gz</a><br/>',
        '<a href="https://files.example/p/own-2.0-py3-none-any.whl?x=1#md5=AB&amp;egg=own" data-yanked="">x</a>',
        '<a  rel="internal" href="https://files.example/own%2B1.zip" >x</a>',
        '<a data-core-metadata="sha256=00" href="../own-3.0-py3-none-any.whl">x</a>',
        '<a href="https://files.example">x</a><a href="/">up</a><abbr title="x">y</abbr>',
        '<a data-yanked href="own-4.0.tar.gz">x</a>',
        "<a href='own-5.0.tar.gz'>x</a>",
        '<A HREF="own-6.0.tar.gz">x</A>',
        '<a name="z">',
        '<base href="/deep/">',
        '<!-- <a href="hidden-1.0.tar.gz">x</a> -->',
        "<script>x = '<a href=\"scripted-1.0.tar.gz\">'</script>",
        '<meta name="pypi:repository-version" content="1.1">',
        "text & more\n",
    ]
)


@given(st.lists(PIECES, max_size=8).map("".join))
def test_both_ways_to_read_links_say_the_same(body: str) -> None:
    """Pages as indexes write them are read without a parser, and never otherwise than by one."""
    text = f"<!DOCTYPE html><html><head><title>Links</title></head><body>{body}</body></html>"
    reader = index_pages._Links(URL)
    reader.feed(text)
    reader.close()
    assert index_pages.parse_links(text, URL) == reader.files


@given(st.lists(FILES, max_size=4), st.booleans())
def test_metadata_of_every_wheel_can_be_offered(files: list[IndexFile], is_json: bool) -> None:
    """Whoever takes metadata out of wheels offers them for each of them, and says nothing else that is new."""
    named = [
        dataclasses.replace(file, url=f"https://index.example/f/{file.filename.replace('+', '%2B')}") for file in files
    ]
    render = render_json if is_json else render_html
    read = parse_page(render("own", named, is_extracting=True), JSON if is_json else HTML, URL)
    assert read == [dataclasses.replace(file, has_metadata=True) for file in named]


@pytest.mark.parametrize("rest", ["", ' data-requires-python="&gt;=3.9,&lt;4"', ' data-upload-time="2024-01-01"'])
@pytest.mark.parametrize(
    "address", ["https://f.example/a/own-1.0-py3-none-any.whl", "https://f.example/own-1.0.tar.gz"]
)
def test_usual_links_are_read_like_all_others(address: str, rest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short way through a page finds what the long one does."""
    page = f'<html><a href="{address}#sha256={"a" * 64}"{rest}>own</a></html>'.encode()
    short = parse_page(page, HTML, URL)
    monkeypatch.setattr(index_pages, "_USUAL", re.compile("(?!)"))
    assert short == parse_page(page, HTML, URL)
    assert len(short) == 1


def test_half_a_character_is_no_fault() -> None:
    """A name that an index writes with half a character is passed on as it wrote it."""
    file = IndexFile("own-1.0\ud800.whl", "https://index.example/own", {})
    assert parse_page(render_json("own", [file]), JSON, URL) == [file]
