"""Keep what servers offered last time, so that their tools are there before they are."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from pathlib import Path
from typing import Final

from amplifier_kit.guard.private_files import make_private, masked, replace_file
from amplifier_module_tool_mcp._catalogue import Catalogue, Offer, is_wanted
from amplifier_module_tool_mcp._spec import ServerSpec

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
        """Return what a server offered last time; None when nothing is known, or what is there cannot be used."""
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
            "offers": [offer.as_data() for offer in catalogue.offers],
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
