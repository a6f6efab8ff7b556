"""The writer of kept files: secrets are masked whoever hands them over, and everything else stays as it is."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.private_files import append, make_private, masked, open_private, replace_file, replace_unmasked
from amplifier_kit.guard.redaction.known_values import live_values_from_keys
from amplifier_kit.guard.redaction.redactor import process_redactor, remember_secrets

TOKEN = "ghp_" + "K1l2M3n4P5" * 4


def test_a_document_without_secrets_is_written_byte_for_byte(tmp_path: Path) -> None:
    """Whatever it is, text or not, JSON with any layout: what holds no secret is not touched."""
    for content in (b"", b"\xff\xfe\x00", b'{ "a":1 ,\n "b": [ ] }', "gr\u00fc\u00dfe\r\n".encode(), bytes(range(256))):
        replace_file(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == content


def test_json_stays_json(tmp_path: Path) -> None:
    """Secrets are masked inside of values; ids, times and numbers stay, and so does the layout."""
    data: dict[str, Any] = {"session_id": "token=abcdefgh12345678", "created": "2026-01-01", "n": [1, 2.5]}
    data["text"] = f"use {TOKEN} now"
    data["password"] = 12345678
    replace_file(tmp_path / "data.json", json.dumps(data, indent=2).encode() + b"\n")
    text = (tmp_path / "data.json").read_text(encoding="utf-8")
    assert json.loads(text) == {**data, "text": "use [REDACTED] now", "password": "[REDACTED]"}
    assert text.startswith('{\n  "session_id"')
    assert text.endswith("}\n")


def test_lines_of_json_are_masked_each_by_itself() -> None:
    """A line with a secret is changed, and no other one."""
    lines = [b'{"a":   1}', json.dumps({"text": TOKEN}).encode(), b'{"b":   2}', b""]
    assert masked(b"\n".join(lines)).split(b"\n") == [lines[0], b'{"text": "[REDACTED]"}', lines[2], b""]


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Files have mode 600, folders that are made 700, whatever the umask lets through."""
    make_private(tmp_path / "one" / "two")
    descriptor = open_private(tmp_path / "one" / "two" / "lines")
    assert append(descriptor, f"a {TOKEN}\n".encode()) == len(b"a [REDACTED]\n")
    os.close(descriptor)
    replace_file(tmp_path / "one" / "file", b"x", is_forced=True)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "one").rglob("*")}
    assert modes == {"two": 0o700, "lines": 0o600, "file": 0o600}
    assert (tmp_path / "one" / "two" / "lines").read_bytes() == b"a [REDACTED]\n"


def test_a_file_that_cannot_be_replaced_leaves_nothing(tmp_path: Path) -> None:
    """When the name is taken by a folder, the folder stays and nothing else is there."""
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_unmasked(tmp_path / "taken", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_what_one_part_knows_every_file_is_kept_free_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets of keys, sessions and the environment are known to the one redactor, also those that come later."""
    assert masked(b"nothing-known-7") == b"nothing-known-7"
    remember_secrets(["nothing-known-7"])
    assert masked(b"nothing-known-7") == b"[REDACTED]"
    monkeypatch.setenv("LATER_API_KEY", "comes-later-99")
    assert process_redactor().scrub_text("comes-later-99") == "[REDACTED]"


def test_values_of_a_key_store_are_secrets_whatever_their_name() -> None:
    """An address, a date or a region is none; anything else that was put there is."""
    keys = {
        "PARTNER_CODE": "lantern-orchid-4471",
        "SERVICE_API_KEY": "short-key1",
        "ENDPOINT": "https://example.com/v1",
        "API_VERSION": "2024-10-21-preview",
        "REGION": "us-east-1",
    }
    assert live_values_from_keys(keys) == ["short-key1", "lantern-orchid-4471"]
