"""What a server offers: tools, resources and prompts, with names that models can call, and a cache of them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from amplifier_kit.guard.private_files import make_private, masked, replace_file
from amplifier_module_tool_mcp.server_entry import ServerSpec

Kind = Literal["tool", "resource", "template", "prompt"]

#: What models' providers accept as the name of a tool.
_LONGEST_NAME: Final = 64
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
#: In the template of an address: `{name}`, `{+path}`, `{?query}` and so on.
_VARIABLE: Final = re.compile(r"\{[^{}]*\}")
_LONGEST_DESCRIPTION: Final = 4000
_LARGEST_SCHEMA: Final = 64 * 1024
_DEEPEST_SCHEMA: Final = 64
#: Pages of a list: one that never ends cannot hold up the session.
_MOST_PAGES: Final = 100
_MIDDLE: Final[Mapping[str, str]] = {"tool": "", "resource": "resource_", "template": "resource_", "prompt": "prompt_"}


@dataclass(frozen=True)
class Offer:
    """One thing that a server offers."""

    kind: Kind
    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    uri: str = ""

    @classmethod
    def from_data(cls, data: Any) -> Offer:
        """Read it back; raises ValueError for anything else."""
        if (
            not isinstance(data, dict)
            or data.get("kind") not in _MIDDLE
            or not isinstance(data.get("schema"), dict)
            or not all(isinstance(data.get(key), str) for key in ("name", "description", "uri"))
        ):
            raise ValueError("an entry is not a tool, prompt or resource")
        return cls(data["kind"], data["name"], data["description"], data["schema"], data["uri"])


@dataclass(frozen=True)
class Catalogue:
    """All that a server offers; `left_out` counts what was too much."""

    offers: tuple[Offer, ...] = ()
    left_out: int = 0

    def count(self, *kinds: Kind) -> int:
        """Return how many offers there are of some kinds."""
        return sum(offer.kind in kinds for offer in self.offers)

    def named(self, server: str, servers: Iterable[str] = ()) -> dict[str, Offer]:
        """Return the offers by the names they are mounted under; no two of them have the same.

        `servers` are all of the session: a name that would also fit another one's is not used, whether or not that one
        offers something of this name, so that it never depends on who was there first.
        """
        others = [_safe(other) for other in servers if _is_before(other, server)]
        named: dict[str, Offer] = {}
        for offer in self.offers:
            name = mounted_name(server, offer)
            if any(name.startswith(f"mcp_{other}_") for other in others):
                name = _told_apart(server, offer)
            if name in named:
                name = mounted_name(server, offer, is_marked=True)
            named.setdefault(name, offer)
        return named


def mounted_name(server: str, offer: Offer, *, is_marked: bool = False) -> str:
    """Return the name of an offer as a tool: `mcp_<server>_<tool>`, with a mark where it would not be its own."""
    whole = f"mcp_{server}_{_MIDDLE[offer.kind]}{offer.name}"
    safe = _safe(whole)
    if len(safe) <= _LONGEST_NAME and not is_marked:
        return safe
    return f"{safe[: _LONGEST_NAME - 9]}_{_mark(offer, whole)}"


def _told_apart(server: str, offer: Offer) -> str:
    """Return a name with the mark right behind the server, so that rules for another one's tools do not fit it."""
    whole = f"mcp_{server}_{_MIDDLE[offer.kind]}{offer.name}"
    return f"mcp_{_safe(server)}_{_mark(offer, whole)}_{_safe(offer.name)}"[:_LONGEST_NAME]


def _is_before(other: str, server: str) -> bool:
    """Return whether names that fit two servers belong to the other one: the longer name wins, then the first."""
    mine, theirs = _safe(server), _safe(other)
    return theirs.startswith(f"{mine}_") or (theirs == mine and other < server)


def _safe(text: str) -> str:
    return _UNSAFE.sub("_", text)


def _mark(offer: Offer, whole: str) -> str:
    import hashlib

    return hashlib.sha256(f"{offer.kind}:{whole}".encode("utf-8", "surrogatepass")).hexdigest()[:8]


async def fetch_catalogue(client: Any, spec: ServerSpec, most: int) -> Catalogue:
    """Ask a server for all it offers; raises what the SDK raises."""
    abilities = client.server_capabilities
    offers: list[Offer] = []
    # Some servers offer tools and do not say so.
    if abilities.tools is not None or (abilities.resources is None and abilities.prompts is None):
        offers += [
            Offer("tool", tool.name, _description(tool), _schema(tool.input_schema))
            for tool in await _pages(client.list_tools, "tools", most)
            if is_wanted(tool.name, spec)
        ]
    if abilities.resources is not None:
        for resource in await _pages(client.list_resources, "resources", most):
            offers.append(Offer("resource", resource.name, _description(resource), _URI, str(resource.uri)))
        for template in await _pages(client.list_resource_templates, "resource_templates", most):
            needed = {**_URI, "required": ["uri"]}
            offers.append(Offer("template", template.name, _description(template), needed, template.uri_template))
    if abilities.prompts is not None:
        for prompt in await _pages(client.list_prompts, "prompts", most):
            offers.append(Offer("prompt", prompt.name, _description(prompt), _arguments(prompt.arguments or ())))
    return Catalogue(tuple(offers[:most]), max(0, len(offers) - most))


_URI: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "The address to read"}},
}


async def _pages(ask: Any, key: str, most: int) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await ask(cursor=cursor)
        found += getattr(page, key)
        cursor = page.next_cursor
        if cursor is None or len(found) > most:
            break
    return found


def is_wanted(name: str, spec: ServerSpec) -> bool:
    """Return whether the config of a server selects one of its tools."""
    from fnmatch import fnmatchcase

    if spec.tools and not any(fnmatchcase(name, pattern) for pattern in spec.tools):
        return False
    return not any(fnmatchcase(name, pattern) for pattern in spec.exclude_tools)


def is_of_form(uri: str, template: str) -> bool:
    """Return whether an address has the fixed parts of a template, in their order, with anything in between.

    Servers differ in what they take for a variable, so that these are not looked into.
    """
    first, *others = _VARIABLE.split(template)
    if not others:
        return uri == first
    if not uri.startswith(first):
        return False
    at = len(first)
    for part in others[:-1]:
        at = uri.find(part, at) + len(part)
        if at < len(part):
            return False
    return len(uri) - at >= len(others[-1]) and uri.endswith(others[-1])


def _description(offered: Any) -> str:
    text = str(offered.description or offered.title or "").strip()
    return text if len(text) <= _LONGEST_DESCRIPTION else f"{text[: _LONGEST_DESCRIPTION - 1]}…"


def _schema(schema: Any) -> dict[str, Any]:
    """Return a schema that providers accept; one that is too large or too deep is replaced by one for anything."""
    if not isinstance(schema, dict) or _is_deep(schema) or len(json.dumps(schema)) > _LARGEST_SCHEMA:
        return {"type": "object"}
    return {**schema, "type": "object"}


def _is_deep(value: Any) -> bool:
    """Return whether a value is nested too deeply."""
    level = [value]
    for _ in range(_DEEPEST_SCHEMA):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def _arguments(arguments: Iterable[Any]) -> dict[str, Any]:
    known = list(arguments)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {each.name: {"type": "string", "description": each.description or ""} for each in known},
    }
    needed = [each.name for each in known if each.required]
    return {**schema, "required": needed} if needed else schema


logger = logging.getLogger(__name__)

_VERSION: Final = 1
_LARGEST: Final = 8 << 20
_HASH: Final = re.compile(r"[0-9a-f]{64}\.json")
#: Beyond this number, the files that have not been used for longest are deleted.
_MOST_FILES: Final = 200


class CatalogueCache:
    """A folder with one file per server and config; variables are not put in, so that it holds none of their values."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, spec: ServerSpec) -> Catalogue | None:
        """Return what a server offered last time; None without a usable file."""
        path = self._path(spec)
        try:
            if path.stat().st_size > _LARGEST:
                raise ValueError("it is too large")
            data = json.loads(path.read_bytes())
            if not isinstance(data, dict) or data.get("version") != _VERSION:
                return None
            offers = [Offer.from_data(each) for each in data["offers"]]
            # The config may leave out more than it did when the list was kept.
            return Catalogue(tuple(one for one in offers if one.kind != "tool" or is_wanted(one.name, spec)))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            logger.warning("tool-mcp: the list of tools in %s is not used: %s", path, error)
            return None

    async def save(self, spec: ServerSpec, catalogue: Catalogue) -> None:
        """Keep what a server offers, in a thread; that it cannot be kept is only logged."""
        data = {
            "version": _VERSION,
            "server": spec.name,
            "offers": [asdict(offer) for offer in catalogue.offers],
        }
        try:
            await asyncio.to_thread(self._write, self._path(spec), json.dumps(data))
        except (OSError, ValueError) as error:
            logger.warning("tool-mcp: the list of tools of %r cannot be kept: %s", spec.name, error)

    def _path(self, spec: ServerSpec) -> Path:
        return self._folder / f"{spec.fingerprint}.json"

    def _write(self, path: Path, text: str) -> None:
        data = masked(text.encode("utf-8", "surrogatepass"))
        if len(data) > _LARGEST:
            raise ValueError("it is too large")
        if path.exists() and path.read_bytes() == data:
            os.utime(path)
            return
        make_private(self._folder)
        replace_file(path, data)
        self._make_room()

    def _make_room(self) -> None:
        kept = [path for path in self._folder.iterdir() if _HASH.fullmatch(path.name)]
        if len(kept) > _MOST_FILES:
            for path in sorted(kept, key=lambda path: path.stat().st_mtime)[: len(kept) - _MOST_FILES]:
                path.unlink(missing_ok=True)
