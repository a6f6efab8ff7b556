"""Evidence: without secrets, without links, limited in size; and files that are pulled out of a universe."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from amplifier_digital_twin import evidence as evidence_module
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.evidence import Evidence
from amplifier_digital_twin.files import Place
from amplifier_digital_twin.log import Log, Secrets
from amplifier_digital_twin.profile.model import PushedFile, User

from .fake_engine import HostEngine

SECRET = 'hunter2-"quoted"-value'
USER = User()


class HostileEngine(HostEngine):
    """Lets an archive come out of a universe that its own tar would never make."""

    def __init__(self, fill: Callable[[tarfile.TarFile], None]) -> None:
        super().__init__()
        self._fill = fill

    def copy_out(self, container: str, script: str, uid: int, archive: IO[bytes], limit: int) -> None:
        with tarfile.open(fileobj=archive, mode="w") as members:
            self._fill(members)


def _add(members: tarfile.TarFile, name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = kind, len(content) if kind == tarfile.REGTYPE else 0
    entry.linkname = "/etc/passwd" if kind != tarfile.REGTYPE else ""
    members.addfile(entry, io.BytesIO(content))


def test_no_form_of_a_secret_is_in_the_evidence(tmp_path: Path) -> None:
    """A value is masked as it is, in JSON, and in base64, also in names of files."""
    kept = Evidence(tmp_path / "e", Secrets([SECRET]))
    kept.add_bytes("a.out", f"{SECRET} {base64.b64encode(SECRET.encode()).decode()}".encode())
    kept.add_json("b.json", {"text": json.dumps({"inner": SECRET}), SECRET: 1})
    kept.collect(Place(HostileEngine(lambda members: _add(members, "home/user/hunter2")), "c", USER), ["~/**"])
    text = b"".join(path.read_bytes() for path in sorted(kept.folder.rglob("*")) if path.is_file())
    assert b"hunter2-" not in text
    assert base64.b64encode(SECRET.encode()) not in text
    assert b"[secret]" in text


@pytest.mark.parametrize("name", ["../out", "/etc/x", "a/../../x", ""])
def test_no_evidence_leaves_its_directory(tmp_path: Path, name: str) -> None:
    """A name that leads elsewhere is an error."""
    with pytest.raises(TwinError) as caught:
        Evidence(tmp_path / "e").add_bytes(name, b"x")
    assert caught.value.code == "evidence_unsafe"


def test_only_plain_files_are_collected(tmp_path: Path) -> None:
    """Links, devices and names with `..` stay out, and the list says why."""

    def fill(members: tarfile.TarFile) -> None:
        _add(members, "home/user/good", b"content")
        _add(members, "home/user/link", kind=tarfile.SYMTYPE)
        _add(members, "home/user/hard", kind=tarfile.LNKTYPE)
        _add(members, "home/user/pipe", kind=tarfile.FIFOTYPE)
        _add(members, "home/user/../../../escaped")
        _add(members, "etc/not-asked-for")

    kept = Evidence(tmp_path / "e")
    kept.collect(Place(HostileEngine(fill), "c", USER), ["/home/user"])
    record = json.loads((kept.folder / "artifacts.json").read_bytes())
    assert [file["path"] for file in record["files"]] == ["home/user/good"]
    assert len(record["left_out"]) == 4
    assert not (tmp_path / "escaped").exists()
    assert (kept.folder / "artifacts/home/user/good").read_bytes() == b"content"


def test_artifacts_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A universe cannot fill the disk of the host with artifacts."""
    monkeypatch.setattr(evidence_module, "MAX_ARTIFACTS", 10)
    kept = Evidence(tmp_path / "e")
    kept.collect(
        Place(HostileEngine(lambda members: _add(members, "home/user/large", b"x" * 11)), "c", USER), ["/home/user"]
    )
    assert "larger than" in json.loads((kept.folder / "artifacts.json").read_bytes())["left_out"][0]["reason"]


def test_no_check_at_all_is_a_failure(tmp_path: Path) -> None:
    """A profile without checks proves nothing."""
    record = Evidence(tmp_path / "e").write_verdict([])
    assert (record["verdict"], record["reason"]) == ("fail", "the profile has no checks: nothing was proved")


def test_files_are_copied_both_ways(tmp_path: Path) -> None:
    """A directory that goes in and comes out again is the same, and nothing else comes out."""
    source, inside, out = tmp_path / "source", tmp_path / "inside", tmp_path / "out"
    (source / "sub dir").mkdir(parents=True)
    (source / "sub dir" / "file").write_text("content", encoding="utf-8")
    engine = HostEngine()
    file = PushedFile.model_construct(src=source, dest=f"{inside}/there", recursive=True, mode=0o600)
    assert Place(engine, "c", USER).push(file) == f"{inside}/there"
    assert (inside / "there/sub dir/file").stat().st_mode & 0o777 == 0o600
    pulled = Place(engine, "c", USER).pull(f"{inside}/there", out)
    assert pulled == {"files": [f"{out}/sub dir/file"], "left_out": []}
    assert (out / "sub dir" / "file").read_text(encoding="utf-8") == "content"


def test_a_directory_is_copied_only_when_asked_for(tmp_path: Path) -> None:
    """Without `recursive`, a directory is an error."""
    with pytest.raises(TwinError) as caught:
        Place(HostEngine(), "c", USER).push(PushedFile.model_construct(src=tmp_path, dest="/x"))
    assert caught.value.code == "file_missing"


def test_a_pull_writes_through_no_link(tmp_path: Path) -> None:
    """What a universe names cannot be written outside of the destination, nor through a link that is there."""
    outside, out = tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    out.mkdir()
    (out / "user").mkdir()
    (out / "user" / "sub").symlink_to(outside)
    engine = HostileEngine(lambda members: _add(members, "home/user/sub/planted"))
    with pytest.raises(TwinError) as caught:
        Place(engine, "c", USER).pull("/home/user", out)
    assert caught.value.code == "file_unsafe"
    assert list(outside.iterdir()) == []


def test_a_pull_that_finds_nothing_is_an_error(tmp_path: Path) -> None:
    """A missing file is reported, not silently skipped."""
    with pytest.raises(TwinError) as caught:
        Place(HostEngine(), "c", USER).pull(f"{tmp_path}/nothing", tmp_path / "out")
    assert caught.value.code == "file_missing"


def test_the_log_of_a_universe_has_no_secrets(tmp_path: Path) -> None:
    """Neither events nor progress hold the value of a secret."""
    heard: list[str] = []
    log = Log(tmp_path / "log.jsonl", [SECRET], heard.append)
    log.progress(f"using {SECRET}")
    log.event("command", argv=["curl", f"key={SECRET}"], nested={SECRET: [SECRET]})
    assert "hunter2-" not in (tmp_path / "log.jsonl").read_text(encoding="utf-8")
    assert heard == ["using [secret]"]
