"""The folder of evidence."""

from __future__ import annotations

import base64
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin import evidence as module
from amplifier_digital_twin.checks.outcome import Outcome
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.evidence import Evidence
from amplifier_digital_twin.profile.model import User


def _all(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "written",
    [
        lambda secret: secret,
        lambda secret: json.dumps({"key": secret}),
        lambda secret: json.dumps({"key": secret}, ensure_ascii=False),
        lambda secret: f"https://x.example/?key={quote(secret, safe='')}",
        lambda secret: base64.b64encode(secret.encode()).decode(),
    ],
)
def test_secrets_are_masked_however_they_are_written(
    evidence: Evidence, secret: str, written: Callable[[str], str]
) -> None:
    """The value is in no file: not plain, nor as JSON, addresses or base64 write it."""
    evidence.add_text("a.txt", f"before {written(secret)} after")
    evidence.add_json("b.json", {"x": [written(secret)]})
    for content in _all(evidence.folder).values():
        assert b"[secret]" in content
        assert b"geheim" not in content
        assert base64.b64encode(secret.encode()) not in content


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_a_value_is_found_anywhere(before: bytes, after: bytes) -> None:
    """Whatever bytes surround it, the value is gone."""
    masked = Evidence(Path(os.curdir), ["0123456789abcdef"]).mask(before + b"0123456789abcdef" + after)
    assert b"0123456789abcdef" not in masked


def test_short_values_are_left(evidence: Evidence) -> None:
    """A value of a few letters would make everything unreadable."""
    evidence.add_text("a.txt", "abc")
    assert _all(evidence.folder) == {"a.txt": b"abc"}


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "", "a\0b"])
def test_names_stay_inside(evidence: Evidence, name: str) -> None:
    """Nothing is written elsewhere."""
    with pytest.raises(TwinError) as caught:
        evidence.add_text(name, "x")
    assert caught.value.code == "evidence_unsafe"
    assert _all(evidence.folder.parent) == {}


def test_large_files_keep_their_end(evidence: Evidence, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cut is made after masking, so that no half of a secret is left."""
    monkeypatch.setattr(module, "MAX_FILE", 20)
    evidence.add_text("a.txt", "x" * 100 + secret + "the very end")
    content = _all(evidence.folder)["a.txt"]
    assert content == b"[the beginning is left out]\n" + b"[secret]the very end"


def test_files_of_the_host_are_copied(evidence: Evidence, tmp_path: Path, secret: str) -> None:
    """A log is copied without secrets; one that is not there is told."""
    (tmp_path / "log.jsonl").write_text(f"a {secret}\n", encoding="utf-8")
    assert evidence.add_file("log.jsonl", tmp_path / "log.jsonl")
    assert not evidence.add_file("other.jsonl", tmp_path / "other.jsonl")
    assert _all(evidence.folder) == {"log.jsonl": b"a [secret]\n"}


def test_only_the_owner_can_read(evidence: Evidence) -> None:
    """Evidence is nobody else's business."""
    evidence.add_text("checks/a.txt", "x")
    modes = [path.stat().st_mode & 0o077 for path in (evidence.folder, *evidence.folder.rglob("*"))]
    assert modes == [0, 0, 0]


async def test_artifacts_are_collected(evidence: Evidence, twin: Any, secret: str) -> None:
    """Files and folders are pulled out; what is missing, or a link, is told."""
    logs = twin.home / "logs" / "ünï code"
    logs.mkdir(parents=True)
    (logs / "a.jsonl").write_text(f"{secret}\n", encoding="utf-8")
    os.symlink("/etc/passwd", logs / "link")
    summary = await evidence.collect(twin, ["~/logs", "~/missing", "/home/user/none-*"], User())
    path = "home/user/logs/ünï code/a.jsonl"
    assert (evidence.folder / "artifacts" / path).read_bytes() == b"[secret]\n"
    assert [(item["path"], item["masked"]) for item in summary["files"]] == [(path, True)]
    assert summary["left_out"] == [
        {"path": "home/user/logs/ünï code/link", "reason": "it is a link to '/etc/passwd'"},
        {"path": "~/missing", "reason": "there is no '/home/user/missing' in the twin"},
    ]
    assert json.loads((evidence.folder / "artifacts.json").read_text(encoding="utf-8")) == summary


async def test_a_twin_that_is_gone_leaves_evidence(evidence: Evidence, twin: Any) -> None:
    """Collecting never fails: that there was nothing to collect is evidence, too."""
    twin.is_running = False
    summary = await evidence.collect(twin, ["~/logs"], User())
    assert summary["left_out"] == [{"path": "~/logs", "reason": "the twin does not run"}]


class _Hostile:
    """A twin whose answer to `get` is made up."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def get(self, paths: Any, user: Any, archive: Any, max_bytes: int) -> None:
        archive.write(self._content)


def _tar(*members: tuple[str, bytes | str]) -> bytes:
    """Make an archive: bytes are files, texts are links to what they say."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


async def test_hostile_archives_stay_inside(evidence: Evidence, tmp_path: Path) -> None:
    """Names that lead out, links to write through, and rubbish are left out, each with a reason."""
    archive = _tar(
        ("../out", b"x"), ("/abs", b"x"), ("link", str(tmp_path)), ("link/file", b"x"), ("a", b"x"), ("a/b", b"x")
    )
    summary = await evidence.collect(_Hostile(archive), ["~/x"], User())  # type: ignore[arg-type]
    assert [item["path"] for item in summary["left_out"]] == ["../out", "link", "a/b"]
    files = {name for name in _all(tmp_path) if not name.endswith("artifacts.json")}
    assert files == {"evidence/artifacts/a", "evidence/artifacts/abs", "evidence/artifacts/link/file"}
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))
    summary = await evidence.collect(_Hostile(b"rubbish" * 1000), ["~/x"], User())  # type: ignore[arg-type]
    assert "is no archive" in summary["left_out"][0]["reason"]


async def test_artifacts_have_a_limit(evidence: Evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither many nor large files fill the host's disk; what fits is kept."""
    monkeypatch.setattr(module, "MAX_ARTIFACTS", 10)
    monkeypatch.setattr(module, "MAX_FILES", 2)
    archive = _tar(("a", b"12345678"), ("b", b"12345678"), ("c", b"1"), ("d", b"1"))
    summary = await evidence.collect(_Hostile(archive), ["~/x"], User())  # type: ignore[arg-type]
    assert [item["path"] for item in summary["files"]] == ["a", "c"]
    assert [item["path"] for item in summary["left_out"]] == ["b", "d"]


def test_the_verdict_is_written(evidence: Evidence, secret: str) -> None:
    """It names every check, and why it failed, without secrets; it is what is returned."""
    outcomes = [Outcome("a", True, seconds=0.12345), Outcome("b", False, f"saw {secret}")]
    record = evidence.write_verdict(outcomes, profile="p")
    assert json.loads((evidence.folder / "verdict.json").read_text(encoding="utf-8")) == record
    assert (record["verdict"], record["reason"], record["profile"]) == ("fail", "b: saw [secret]", "p")
    assert [check["name"] for check in record["checks"]] == ["a", "b"]
    assert evidence.write_verdict(outcomes[:1])["verdict"] == "pass"
    assert "nothing was proved" in evidence.write_verdict([])["reason"]
