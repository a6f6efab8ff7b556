"""The evidence of a check: a folder of what was seen, without secrets, links or surprises in size."""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from amplifier_digital_twin.engines.engine import Engine, absolute, matches, tar_script
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.files import members_of
from amplifier_digital_twin.log import MASK, SHORTEST_SECRET
from amplifier_digital_twin.profile.model import User
from amplifier_kit.guard.private_files import masked, replace_unmasked

if TYPE_CHECKING:
    from amplifier_digital_twin.checks.run import Outcome

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

    def add_bytes(self, name: str, content: bytes) -> None:
        """Write a file; of one that is too large, its end. Raises TwinError for a name that leads elsewhere."""
        content = self.mask(content)
        if len(content) > MAX_FILE:
            # Masked first: a value that the cut goes through would no longer be found.
            content = b"[the beginning is left out]\n" + content[-MAX_FILE:]
        self._write(self._place(name), content)

    def add_text(self, name: str, text: str) -> None:
        """Write a text."""
        self.add_bytes(name, text.encode("utf-8", "replace"))

    def add_json(self, name: str, value: Any) -> None:
        """Write JSON; what JSON has not is written as text."""
        import json

        # Texts first: JSON in a text is escaped twice, and a value in it would no longer be found.
        self.add_text(name, json.dumps(self.masked(value), indent=2, ensure_ascii=False, default=str) + "\n")

    def add_picture(self, name: str, content: bytes) -> None:
        """Write a picture as it is."""
        self._write(self._place(name), content)

    def add_file(self, name: str, source: Path) -> bool:
        """Copy a file of the host, such as a log; tell whether there was one."""
        try:
            with source.open("rb") as file:
                # A little more than is kept, so that what the cut goes through is masked before it.
                file.seek(max(0, os.fstat(file.fileno()).st_size - 2 * MAX_FILE))
                content = file.read(2 * MAX_FILE)
        except FileNotFoundError:
            return False
        self.add_bytes(name, content)
        return True

    def collect(self, engine: Engine, container: str, user: User, artifacts: Sequence[str]) -> None:
        """Copy files out of a universe into `artifacts/`; what was left out, and why, is in `artifacts.json`.

        Never raises for what the universe does: it may be gone, or hostile.
        """
        kept: list[dict[str, Any]] = []
        left_out: list[dict[str, str]] = []
        budget = MAX_ARTIFACTS
        for pattern in artifacts:
            wanted = absolute(pattern, user.home)
            with tempfile.TemporaryFile() as archive:
                try:
                    engine.copy_out(container, tar_script([pattern], user.home), user.uid, archive, budget * 2)
                    archive.seek(0)
                    for path, member, content in members_of(archive):
                        if member.isdir() or not matches(wanted, path):
                            continue
                        reason = _objection(member, budget, len(kept))
                        if not reason and content is not None:
                            budget -= member.size
                            reason = self._keep(path, content.read(), kept)
                        if reason and len(left_out) < MAX_FILES:
                            left_out.append({"path": _printable(path), "reason": reason})
                except (TwinError, OSError) as error:
                    left_out.append({"path": pattern, "reason": str(error)})
        self.add_json("artifacts.json", {"files": kept, "left_out": left_out})

    def _keep(self, path: str, content: bytes, kept: list[dict[str, Any]]) -> str:
        """Write one artifact; return why it could not be kept."""
        masked = self.mask(content)
        name = os.fsdecode(self.mask(os.fsencode(path.lstrip("/"))))
        try:
            self._write(self._place("artifacts/" + name), masked)
        except (TwinError, OSError) as error:
            return str(error)
        digest = hashlib.sha256(masked).hexdigest()
        record = {"path": _printable(name), "bytes": len(content), "sha256": digest, "masked": masked != content}
        kept.append(record)
        return ""

    def write_verdict(self, outcomes: Sequence[Outcome], **about: Any) -> dict[str, Any]:
        """Write `verdict.json`, the last thing to be written, and return what is in it."""
        is_passed = bool(outcomes) and all(outcome.is_ok for outcome in outcomes)
        record: dict[str, Any] = self.masked(
            {
                "verdict": "pass" if is_passed else "fail",
                "reason": _summary(outcomes),
                **about,
                "checks": [outcome.record() for outcome in outcomes],
            }
        )
        self.add_json("verdict.json", record)
        return record

    def _place(self, name: str) -> Path:
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\0" in name:
            raise TwinError("evidence_unsafe", f"{_printable(name)!r} leads out of the evidence", "leave it out")
        return self.folder.joinpath(*parts)

    def _write(self, path: Path, content: bytes) -> None:
        """Write a file in one step; no link is ever made in the folder, so none can be followed."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_unmasked(path, content)  # masked by the callers; pictures are as they are


def _needles(secrets: Iterable[str]) -> list[bytes]:
    """Return every way in which the values may be written, longest first."""
    import base64
    import json
    from urllib.parse import quote

    found: set[bytes] = set()
    for value in secrets:
        if len(value) >= SHORTEST_SECRET:
            raw = value.encode("utf-8", "surrogateescape")
            found.add(raw)
            found.add(base64.b64encode(raw))
            found.add(quote(raw, safe="").encode("ascii"))
            found |= {json.dumps(value, ensure_ascii=ascii)[1:-1].encode("utf-8", "replace") for ascii in (True, False)}
    return sorted(found, key=len, reverse=True)


def _objection(member: tarfile.TarInfo, left: int, files: int) -> str:
    """Return why an entry is not kept; empty when it is."""
    if member.issym() or member.islnk():
        return f"it is a link to {_printable(member.linkname)!r}"
    if not member.isreg():
        return "it is not a plain file"
    if files >= MAX_FILES:
        return f"there are more than {MAX_FILES} files"
    return f"all artifacts together are larger than {MAX_ARTIFACTS:,} bytes" if member.size > left else ""


def _printable(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")[:1000]


def _summary(outcomes: Sequence[Outcome]) -> str:
    failed = [f"{outcome.name}: {outcome.reason}" for outcome in outcomes if not outcome.is_ok]
    if failed:
        return "; ".join(failed)
    return "" if outcomes else "the profile has no checks: nothing was proved"
