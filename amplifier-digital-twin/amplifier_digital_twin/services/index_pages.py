"""Pages of a package index: read from what indexes send (JSON or HTML), written for what installers ask for."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from html.parser import HTMLParser
from operator import attrgetter
from typing import Any, Final
from urllib.parse import unquote, urljoin

JSON: Final = "application/vnd.pypi.simple.v1+json"
HTML: Final = "application/vnd.pypi.simple.v1+html"
TEXT: Final = "text/html"
#: What an index is asked for: JSON, because it says more; HTML where that is all there is.
ACCEPTED: Final = f"{JSON}, {HTML};q=0.2, {TEXT};q=0.1"

_WHOLE: Final = ("https://", "http://")
_SEPARATORS: Final = re.compile(r"[-_.]+")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", re.IGNORECASE)
#: A link with all its values in double quotes, and what must not be on a page beside such links to read it like that.
_ANCHOR: Final = re.compile(r'<a((?:\s+[a-z][a-z0-9-]*="[^"]*")+)\s*>')
_ATTRIBUTE: Final = re.compile(r'([a-z][a-z0-9-]*)="([^"]*)"')
_ODD: Final = re.compile(r"'|<a[^a-z]|<base|<script|<style|<!-|<!\[|<\?|<!(?!doctype)", re.IGNORECASE)
#: What most indexes write into a link: a whole address without anything to decode, its hash, and little else.
_USUAL: Final = re.compile(
    r' href="(https?://[^"#?%&\s]*/([^"/#?%&\s]+))#sha256=([0-9a-f]{64})"'
    r'(?: data-requires-python="([^"]*)")?(?: data-upload-time="[^"]*")?'
)
_HASH: Final = re.compile(r"(sha256|sha512|sha384|sha224|sha1|md5)=([0-9a-fA-F]+)")


@dataclass(frozen=True)
class IndexFile:
    """One file of a project, as an index describes it."""

    filename: str
    url: str
    hashes: dict[str, str] = field(default_factory=dict)
    requires_python: str | None = None
    #: Withdrawn: the reason, which may be empty; None when it is not.
    yanked: str | None = None
    #: Whether its metadata can be had beside it, and what they hash to where that is known.
    has_metadata: bool = False
    metadata_hashes: dict[str, str] = field(default_factory=dict)
    size: int | None = None
    upload_time: str | None = None

    @property
    def is_wheel(self) -> bool:
        """Tell whether it is a wheel: its metadata are in it."""
        return self.filename.endswith(".whl")


#: Where a file can be had.
Address = Callable[[IndexFile], str]


class PageError(Exception):
    """What an index sent is no page of one."""


def normalized(name: str) -> str:
    """Return the one spelling of a project's name."""
    return _SEPARATORS.sub("-", name).lower()


def is_name(text: str) -> bool:
    """Tell whether a text can be the name of a project."""
    return _NAME.fullmatch(text) is not None


def parse_page(content: bytes, content_type: str, url: str) -> list[IndexFile]:
    """Return the files of a page that came from `url`; raise PageError when it is none."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in (JSON, "application/json"):
        return _from_json(content, url)
    if kind in (HTML, TEXT, ""):
        return parse_links(content.decode("utf-8", "replace"), url)
    raise PageError(f"it sent {kind!r}, which is no page of a package index")


def parse_links(text: str, url: str) -> list[IndexFile]:
    """Return the files that an HTML page links to."""
    pieces = _ANCHOR.split(text)
    if not _ODD.search("".join(pieces[::2])):
        # As every index writes them; a page may have fifteen thousand links, which take a real parser a second.
        return [file for anchor in pieces[1::2] if (file := _plain_link(anchor, url)) is not None]
    reader = _Links(url)
    reader.feed(text)
    reader.close()
    return reader.files


def _plain_link(attributes: str, url: str) -> IndexFile | None:
    if usual := _USUAL.fullmatch(attributes):
        address, filename, sha256, needed = usual.groups()
        return IndexFile(filename, address, {"sha256": sha256}, _unescaped(needed) if needed else None)
    given: dict[str, str | None] = {
        name: unescape(value) if "&" in value else value for name, value in _ATTRIBUTE.findall(attributes)
    }
    target = given.get("href")
    return None if target is None else _link(_joined(url, target.strip()), given)


@functools.lru_cache(maxsize=1024)
def _unescaped(text: str) -> str:
    return unescape(text)


def _joined(base: str, target: str) -> str:
    # Nearly all addresses are whole, and there are thousands of them.
    return target if target.startswith(_WHOLE) else urljoin(base, target)


def _from_json(content: bytes, url: str) -> list[IndexFile]:
    try:
        page = json.loads(content)
        version = str(page["meta"]["api-version"])
        files = [_file(item, url) for item in page["files"]]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PageError(f"its JSON is no page of a package index: {error!r}") from error
    if version.partition(".")[0] != "1":
        raise PageError(f"it speaks version {version} of the index interface; only version 1 is known")
    return files


def _file(item: dict[str, Any], url: str) -> IndexFile:
    metadata = item.get("core-metadata", item.get("dist-info-metadata", False))
    yanked = item.get("yanked", False)
    return IndexFile(
        filename=str(item["filename"]),
        url=_joined(url, str(item["url"])),
        hashes={str(name): str(value).lower() for name, value in item["hashes"].items()},
        requires_python=item.get("requires-python") or None,
        yanked=None if yanked is False else (yanked if isinstance(yanked, str) else ""),
        has_metadata=bool(metadata),
        metadata_hashes=dict(metadata) if isinstance(metadata, dict) else {},
        size=item.get("size") if isinstance(item.get("size"), int) else None,
        upload_time=item.get("upload-time"),
    )


class _Links(HTMLParser):
    """Collects the links of a page."""

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self._base = url
        self.files: list[IndexFile] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        target = given.get("href")
        if target is None:
            return
        if tag == "base":
            self._base = urljoin(self._base, target)
        elif tag == "a" and (found := _link(_joined(self._base, target.strip()), given)):
            self.files.append(found)


def _filename(url: str) -> str:
    """Return the last part of an address, decoded; empty when there is none."""
    path = url.partition("?")[0].partition("://")[2].partition("/")[2]
    name = path.rpartition("/")[2]
    return unquote(name) if "%" in name else name


def _link(target: str, given: dict[str, str | None]) -> IndexFile | None:
    url, _, fragment = target.partition("#")
    filename = _filename(url)
    if not filename:
        return None
    found = _HASH.search(fragment)
    metadata = given.get("data-core-metadata", given.get("data-dist-info-metadata"))
    has_metadata = metadata is not None or "data-core-metadata" in given
    hashed = _HASH.fullmatch(metadata or "")
    return IndexFile(
        filename=filename,
        url=url,
        hashes={found[1]: found[2].lower()} if found else {},
        requires_python=given.get("data-requires-python") or None,
        yanked=(given["data-yanked"] or "") if "data-yanked" in given else None,
        has_metadata=has_metadata,
        metadata_hashes={hashed[1]: hashed[2].lower()} if hashed else {},
    )


def wants_json(accept: str) -> bool:
    """Tell whether a client likes JSON at least as much as HTML; one that says nothing gets HTML."""
    liked: dict[str, float] = {}
    for item in accept.split(","):
        kind, *parameters = (part.strip() for part in item.split(";"))
        weight = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        try:
            liked[kind.lower()] = float(weight)
        except ValueError:
            liked[kind.lower()] = 0.0
    as_json = liked.get(JSON, liked.get("application/vnd.pypi.simple.latest+json", 0.0))
    return as_json > 0 and as_json >= max(liked.get(HTML, 0.0), liked.get(TEXT, 0.0))


def render_json(
    name: str, files: Sequence[IndexFile], address: Address = attrgetter("url"), *, is_extracting: bool = False
) -> bytes:
    """Return the page of a project as JSON, each file at the address that a function says.

    With `is_extracting`, metadata are offered for every wheel: whoever serves them takes them out of it.
    """
    items = [_item(file, address(file), is_extracting) for file in files]
    return dumped({"meta": {"api-version": "1.0"}, "name": name, "files": items})


def dumped(value: Any) -> bytes:
    """Return a value as JSON, fast: a page may have fifteen thousand files."""
    import orjson

    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()  # half a character somewhere, which is no text for others


def _item(file: IndexFile, url: str, is_extracting: bool) -> dict[str, Any]:
    item: dict[str, Any] = {"filename": file.filename, "url": url, "hashes": file.hashes}
    if file.requires_python:
        item["requires-python"] = file.requires_python
    if file.yanked is not None:
        item["yanked"] = file.yanked or True
    if file.has_metadata or (is_extracting and file.is_wheel):
        # Not under its old name too: pip before 23.2 takes that for a text, and fails (PEP 714).
        item["core-metadata"] = file.metadata_hashes or True
    if file.size is not None:
        item["size"] = file.size
    if file.upload_time:
        item["upload-time"] = file.upload_time
    return item


def render_html(
    name: str, files: Sequence[IndexFile], address: Address = attrgetter("url"), *, is_extracting: bool = False
) -> bytes:
    """Return the page of a project as HTML, each file at the address that a function says; more as with JSON."""
    lines = [f"<!DOCTYPE html><html><head><title>{escape(name)}</title></head><body>"]
    for file in files:
        given = {"href": address(file) + _fragment(file.hashes)}
        if file.requires_python:
            given["data-requires-python"] = file.requires_python
        if file.yanked is not None:
            given["data-yanked"] = file.yanked
        if file.has_metadata or (is_extracting and file.is_wheel):
            known = _fragment(file.metadata_hashes).removeprefix("#") or "true"
            given |= {"data-core-metadata": known, "data-dist-info-metadata": known}
        shown = " ".join(f'{key}="{escape(value)}"' for key, value in given.items())
        lines.append(f"<a {shown}>{escape(file.filename)}</a><br>")
    return "\n".join([*lines, "</body></html>", ""]).encode()


def render_names(names: Sequence[str], *, is_json: bool) -> bytes:
    """Return the list of projects."""
    if is_json:
        return json.dumps({"meta": {"api-version": "1.0"}, "projects": [{"name": name} for name in names]}).encode()
    links = "\n".join(f'<a href="/simple/{escape(name)}/">{escape(name)}</a><br>' for name in names)
    return f"<!DOCTYPE html><html><body>\n{links}\n</body></html>\n".encode()


def _fragment(hashes: dict[str, str]) -> str:
    algorithm = "sha256" if "sha256" in hashes else next(iter(hashes), "")
    return f"#{algorithm}={hashes[algorithm]}" if algorithm else ""
