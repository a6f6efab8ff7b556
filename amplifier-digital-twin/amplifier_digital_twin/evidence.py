"""The evidence of a check: a folder of what was seen, without secrets, links or surprises in size."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.files import Place
from amplifier_digital_twin.log import Secrets
from amplifier_kit.guard.private_files import replace_unmasked

if TYPE_CHECKING:
    from amplifier_digital_twin.checks import Outcome

#: How much one file keeps (its end: that is where the reason of a failure stands), and all artifacts together.
MAX_FILE: Final = 16 * 1024 * 1024
MAX_ARTIFACTS: Final = 128 * 1024 * 1024
MAX_FILES: Final = 10_000


class Evidence:
    """A folder that is written once; the values of `secrets` get into none of its files, nor into their names."""

    def __init__(self, folder: Path, secrets: Secrets | None = None) -> None:
        self.folder = folder
        self.secrets = secrets or Secrets()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def add_bytes(self, name: str, content: bytes, *, is_masked: bool = True) -> None:
        """Write a file; of one that is too large, its end. Raises TwinError for a name that leads elsewhere.

        `is_masked`: no for pictures, in which a secret cannot be replaced, and a changed byte would spoil them.
        """
        content = self.secrets.mask(content) if is_masked else content
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
        text = json.dumps(self.secrets.masked(value), indent=2, ensure_ascii=False, default=str) + "\n"
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
        clean = self.secrets.mask(content)
        name = os.fsdecode(self.secrets.mask(os.fsencode(path.lstrip("/"))))
        self.add_bytes(f"artifacts/{name}", clean, is_masked=False)
        digest = hashlib.sha256(clean).hexdigest()
        return {"path": _printable(name), "bytes": len(content), "sha256": digest, "masked": clean != content}

    def write_verdict(self, outcomes: Sequence[Outcome], **about: Any) -> dict[str, Any]:
        """Write `verdict.json`, the last thing to be written, and return what is in it."""
        failed = [f"{outcome.name}: {outcome.reason}" for outcome in outcomes if not outcome.is_ok]
        reason = "; ".join(failed) if outcomes else "the profile has no checks: nothing was proved"
        record: dict[str, Any] = self.secrets.masked(
            {
                "verdict": "fail" if reason else "pass",
                "reason": reason,
                **about,
                "checks": [outcome.record() for outcome in outcomes],
            }
        )
        self.add_json("verdict.json", record)
        return record


def _printable(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")[:1000]
