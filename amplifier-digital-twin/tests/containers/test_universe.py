"""The life of a universe: launched, used, kept, reset, updated, checked, destroyed."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_testing.universe import Universe, twin_program


def test_commands_run_as_the_profiles_user(basic: Universe) -> None:
    """The user has a name, a home and a path; root must be asked for; other users do not exist."""
    assert basic.exec("id -un; pwd; echo $HOME").stdout.split() == ["user", "/home/user", "/home/user"]
    assert basic.exec("id -un", user="root").stdout == "root\n"
    assert basic.exec(["printf", "%s", "a b"]).stdout == "a b"
    with pytest.raises(Exception, match="user_unknown"):
        basic.exec("true", user="somebody")


def test_a_command_that_times_out_is_ended_inside(basic: Universe) -> None:
    """Nothing of a command that took too long stays."""
    answer = twin_program("exec", basic.id, "--timeout=1", "--", "sleep 4321")
    assert answer["timed_out"]
    assert basic.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 432[1]'").stdout == "0\n"


def test_processes_that_end_are_reaped(basic: Universe) -> None:
    """Orphans do not pile up as zombies."""
    basic.exec("for i in 1 2 3 4 5; do (sleep 0.1 &) ; done; sleep 0.5")
    assert basic.exec("cat /proc/[0-9]*/stat | grep -c ' Z '").stdout == "0\n"


def test_files_go_in_and_out(basic: Universe, tmp_path: Path) -> None:
    """What is pushed belongs to the user; what is pulled is the same; links are left out."""
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "a").write_text("content", encoding="utf-8")
    assert basic.push(tmp_path / "sent", "~/deep/there") == "/home/user/deep/there"
    assert basic.exec("stat -c %U deep/there/a; ln -s /etc/passwd deep/there/link").stdout == "user\n"
    answer = twin_program("file-pull", basic.id, "~/deep", str(tmp_path / "got"))
    assert answer["files"] == [str(tmp_path / "got" / "there" / "a")]
    assert "link" in answer["left_out"][0]["reason"]


def test_snapshots_bring_files_back(basic: Universe) -> None:
    """`reset` takes the files back to a snapshot or to the start; what ran inside has ended."""
    basic.exec("mkdir -p .cache/x work/.cache; touch .cache/x/y work/.cache/kept work/CACHEDIR.TAG")
    basic.exec("echo one > state; nohup sleep 4322 > /dev/null 2>&1 &")
    assert twin_program("snapshot", basic.id, "one")["snapshot"] == "one"
    basic.exec("echo two > state; touch more")
    twin_program("reset", basic.id, "one")
    assert basic.exec("cat state; ls; cat /proc/[0-9]*/cmdline | grep -ac 'sleep.432[2]'").stdout.split() == [
        *("one", "state", "work", "0"),
    ]
    # What can be fetched again is left out of a snapshot, and nothing else.
    assert basic.exec("ls -d .cache work/.cache/kept").stdout == "work/.cache/kept\n"
    twin_program("reset", basic.id)
    assert basic.exec("ls ~").stdout == ""
    assert basic.exec("git ls-remote -q https://github.com/owner/tree").exit_code == 0
    with pytest.raises(Exception, match="snapshot_missing"):
        twin_program("reset", basic.id, "two")


def test_ports_readiness_and_mocks(universe: Callable[..., Universe], profile: Callable[..., Path]) -> None:
    """A mock runs before the universe is ready, signs of readiness see it, and the host reaches it on loopback."""
    twin = universe(
        profile(
            """
mocks: [{name: web, run: python3 -m http.server --bind 127.0.0.1 8410, port: 8410}]
readiness:
  - {name: web, http: "http://localhost:8410/"}
  - {name: port, tcp: 8410}
  - {name: command, command: test -d ~}
access: {ports: [{container: 8410, label: web}]}
"""
        )
    )
    assert [item["ready"] for item in twin.launched["readiness"]] == [True, True, True]
    with urllib.request.urlopen(twin.launched["ports"][0]["url"], timeout=20) as answer:
        assert b"Directory listing" in answer.read()
    assert twin_program("check-readiness", twin.id)["ready"] is True


def test_an_update_serves_what_changed(
    universe: Callable[..., Universe], profile: Callable[..., Path], tmp_path: Path
) -> None:
    """After `update` the working tree is served as it is then, without a commit."""
    more = "provision: {commands: [git clone -q https://github.com/owner/tree]}\n"
    twin = universe(
        profile(more + "update: {commands: [cd tree && git fetch -q && git reset -q --hard origin/HEAD]}\n")
    )
    assert twin.exec("cat tree/file").stdout == "content\n"
    (tmp_path / "tree" / "file").write_text("changed\n", encoding="utf-8")
    assert twin_program("update", twin.id)["updated"] is True
    assert twin.exec("cat tree/file").stdout == "changed\n"


def test_a_second_launch_starts_from_what_was_provisioned(
    universe: Callable[..., Universe], profile: Callable[..., Path], tmp_path: Path
) -> None:
    """The result of provisioning is kept until something that it depends on changes."""
    path = profile("provision: {commands: [date +%N > made]}\n")
    first, second = universe(path), universe(path)
    assert (first.launched["warm"], second.launched["warm"]) == (False, True)
    assert first.exec("cat made").stdout == second.exec("cat made").stdout
    (tmp_path / "tree" / "file").write_text("changed\n", encoding="utf-8")
    assert universe(path).launched["warm"] is False


def test_a_check_has_a_verdict_and_evidence(profile: Callable[..., Path], tmp_path: Path, universes_work: None) -> None:
    """Checks pass or fail one by one; evidence has output and artifacts; the universe is gone afterwards."""
    path = profile(
        """
checks:
  - name: passes
    run: "echo well; echo '{\\"event\\": \\"a\\"}' > log.jsonl"
    expect: {stdout: well, jsonl: {glob: "~/*.jsonl", has: [a]}}
  - {name: fails, run: echo ill, expect: {stdout: well}}
  - {name: refused, run: "! git ls-remote https://github.com/owner/other", expect: {refused: [github.com]}}
  - {name: file, expect: {files: [{path: ~/log.jsonl, contains: event}, {path: ~/nothing, exists: false}]}}
artifacts: [~/log.jsonl]
"""
    )
    answer = twin_program("check", str(path), "--evidence", str(tmp_path / "evidence"))
    assert answer["verdict"] == "fail"
    assert {check["name"]: check["ok"] for check in answer["checks"]} == {
        "passes": True,
        "fails": False,
        "refused": True,
        "file": True,
    }
    evidence = tmp_path / "evidence"
    assert json.loads((evidence / "verdict.json").read_bytes())["verdict"] == "fail"
    assert (evidence / "checks" / "passes.out").read_text(encoding="utf-8") == "well\n"
    assert (evidence / "artifacts" / "home" / "user" / "log.jsonl").exists()
    assert twin_program("list")["universes"] == []


def test_a_failed_launch_leaves_nothing_unless_it_is_kept(profile: Callable[..., Path], universes_work: None) -> None:
    """A command that fails in provisioning destroys the universe; `--keep` leaves it to look around in."""
    path = profile("provision: {commands: [echo why >&2; exit 7]}\n")
    with pytest.raises(Exception, match=r"(?s)provision_failed.*exit code 7.*why"):
        twin_program("launch", str(path))
    assert twin_program("list")["universes"] == []
    with pytest.raises(Exception, match="provision_failed"):
        twin_program("launch", str(path), "--name=kept", "--keep")
    assert twin_program("exec", "kept", "--", "echo here")["stdout"] == "here\n"
    twin_program("destroy", "kept")


def test_names_are_taken_once_and_logs_tell_what_happened(
    basic: Universe, universe: Callable[..., Universe], profile: Callable[..., Path]
) -> None:
    """`status` and `logs` describe a running universe, requests to its services included."""
    basic.exec("git ls-remote https://github.com/owner/other")
    assert twin_program("status", basic.id)["phase"] == "ready"
    entries = twin_program("logs", basic.id, "--source=gateway")["entries"]
    assert [entry["allowed"] for entry in entries if "owner/other" in entry["what"]] == [False]
    assert any(entry["event"] == "command" for entry in twin_program("logs", basic.id)["entries"])
