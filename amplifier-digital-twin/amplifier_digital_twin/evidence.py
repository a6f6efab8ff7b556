"""The evidence of a check: a folder of what was seen, without secrets, links or surprises in size."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.files import Place
from amplifier_digital_twin.log import MASK, SHORTEST_SECRET
from amplifier_kit.guard.private_files import masked, replace_unmasked

if TYPE_CHECKING:
    from amplifier_digital_twin.checks import Outcome

#: How much one file keeps (its end: that is where the reason of a failure stands), and all artifacts together.
MAX_FILE: Final = 16 * 1024 * 1024
MAX_ARTIFACTS: Final = 128 * 1024 * 1024
MAX_FILES: Final = 10_000


class Evidence:
    """A folder that is written once; the values of `secrets` get into none of its files, nor into their names."""

    def __init__(self, folder: Path, secrets: Iterable[str] = ()) -> None:
        self.folder = folder
        self._needles = _needles(secrets)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def mask(self, content: bytes) -> bytes:
        """Return the content without secrets: known values, however they are written, and what looks like one."""
        for needle in self._needles:
            content = content.replace(needle, MASK.encode("utf-8"))
        return masked(content)

    def masked(self, value: Any) -> Any:
        """Return JSON without the values of secrets in its texts and keys."""
        if isinstance(value, str):
            return self.mask(value.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
        if isinstance(value, dict):
            return {self.masked(key): self.masked(item) for key, item in value.items()}
        return [self.masked(item) for item in value] if isinstance(value, list | tuple) else value

    def add_bytes(self, name: str, content: bytes, *, is_masked: bool = True) -> None:
        """Write a file; of one that is too large, its end. Raises TwinError for a name that leads elsewhere.

        `is_masked`: no for pictures, in which a secret cannot be replaced, and a changed byte would spoil them.
        """
        content = self.mask(content) if is_masked else content
        if is_masked and len(content) > MAX_FILE:
            # Masked first: a value that the cut goes through would no longer be found.
            content = b"[the beginning is left out]\n" + content[-MAX_FILE:]
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\0" in name:
            raise TwinError("evidence_unsafe", f"{_printable(name)!r} leads out of the evidence", "leave it out")
        path = self.folder.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # In one step; no link is ever made in the folder, so none can be followed.
        replace_unmasked(path, content)

    def add_json(self, name: str, value: Any) -> None:
        """Write JSON; what JSON has not is written as text."""
        # Texts first: JSON in a text is escaped twice, and a value in it would no longer be found.
        text = json.dumps(self.masked(value), indent=2, ensure_ascii=False, default=str) + "\n"
        self.add_bytes(name, text.encode("utf-8", "replace"))

    def add_file(self, name: str, source: Path) -> None:
        """Copy a file of the host, such as a log, where there is one."""
        if source.exists():
            with source.open("rb") as file:
                # A little more than is kept, so that what the cut goes through is masked before it.
                file.seek(max(0, os.fstat(file.fileno()).st_size - 2 * MAX_FILE))
                self.add_bytes(name, file.read(2 * MAX_FILE))

    def collect(self, place: Place, artifacts: Sequence[str]) -> None:
        """Copy files out of a universe into `artifacts/`; what was left out, and why, is in `artifacts.json`.

        Never raises for what the universe does: it may be gone, or hostile.
        """
        kept: list[dict[str, Any]] = []
        left_out: list[dict[str, str]] = []
        budget = MAX_ARTIFACTS
        for pattern in artifacts:
            try:
                for file in place.files(pattern, budget * 2):
                    size, path = len(file.content), _printable(file.path)
                    if file.kind == "directory":
                        continue
                    if file.kind != "file":
                        left_out.append({"path": path, "reason": "it is not a plain file"})
                    elif size > budget or len(kept) >= MAX_FILES:
                        reason = f"all artifacts together are larger than {MAX_ARTIFACTS:,} bytes or too many"
                        left_out.append({"path": path, "reason": reason})
                    else:
                        budget -= size
                        kept.append(self._keep(file.path, file.content))
            except (TwinError, OSError) as error:
                left_out.append({"path": pattern, "reason": str(error)})
        self.add_json("artifacts.json", {"files": kept, "left_out": left_out[:MAX_FILES]})

    def _keep(self, path: str, content: bytes) -> dict[str, Any]:
        """Write one artifact; return what is known of it."""
        clean = self.mask(content)
        name = os.fsdecode(self.mask(os.fsencode(path.lstrip("/"))))
        self.add_bytes(f"artifacts/{name}", clean, is_masked=False)
        digest = hashlib.sha256(clean).hexdigest()
        return {"path": _printable(name), "bytes": len(content), "sha256": digest, "masked": clean != content}

    def write_verdict(self, outcomes: Sequence[Outcome], **about: Any) -> dict[str, Any]:
        """Write `verdict.json`, the last thing to be written, and return what is in it."""
        failed = [f"{outcome.name}: {outcome.reason}" for outcome in outcomes if not outcome.is_ok]
        reason = "; ".join(failed) if outcomes else "the profile has no checks: nothing was proved"
        record: dict[str, Any] = self.masked(
            {
                "verdict": "fail" if reason else "pass",
                "reason": reason,
                **about,
                "checks": [outcome.record() for outcome in outcomes],
            }
        )
        self.add_json("verdict.json", record)
        return record


def _needles(secrets: Iterable[str]) -> list[bytes]:
    """Return every way in which the values may be written, longest first."""
    found: set[bytes] = set()
    for value in secrets:
        if len(value) >= SHORTEST_SECRET:
            raw = value.encode("utf-8", "surrogateescape")
            found |= {raw, base64.b64encode(raw), quote(raw, safe="").encode("ascii")}
            found |= {json.dumps(value, ensure_ascii=ascii)[1:-1].encode("utf-8", "replace") for ascii in (True, False)}
    return sorted(found, key=len, reverse=True)


def _printable(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")[:1000]
