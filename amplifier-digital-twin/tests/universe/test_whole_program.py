"""The program with real universes, as the user who runs the tests and as another one."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROFILE = """
network: {mode: gateway}
secrets: [{env: TWIN_TEST_KEY, optional: true}]
mocks: [{name: m, run: python3 ~/echo.py 3000 MARK, port: 3000, domains: [api.example.com]}]
provision:
  files: [{src: echo.py, dest: ~/echo.py}]
  commands: ["echo provisioned > ~/mark"]
access: {ports: [{container: 3000, label: web}]}
readiness: [{name: web, tcp: 3000}]
checks:
  - {name: mock, run: curl -sS --fail https://api.example.com/x, expect: {stdout_json: {mark: MARK}}}
  - {name: files, expect: {files: [{path: ~/mark, contains: provisioned}]}}
  - {name: refused, run: "! curl -sS --fail https://unlisted.example/", expect: {refused: [unlisted.example]}}
artifacts: [~/mark]
"""


def test_universe_from_launch_to_destroy(program: Any, leftovers: Callable[[Path], list[str]]) -> None:
    """Launch, use, snapshot, reset, copy, check, warm relaunch and destroy: all of it, and nothing is left."""
    profile = program.profile(PROFILE)
    launched = program.launch(profile, "--name", "one")
    identifier = launched["id"]
    assert (launched["backend"], launched["warm"]) == ("embedded", False)
    assert program.shell("one", "id -un; cat mark; curl -sS https://api.example.com/a").startswith(
        "user\nprovisioned\n{"
    )
    assert program.run("check-readiness", "one").record["ready"] is True
    program.shell("one", "echo changed > mark")
    assert program.run("snapshot", "one", "changed").code == 0
    for arguments, content in (((), "provisioned\n"), (("changed",), "changed\n")):
        assert program.run("reset", "one", *arguments).code == 0
        assert program.shell("one", "cat mark") == content
    out = program.folder / "out"
    assert program.run("file-pull", "one", "~/mark", str(out)).code == 0
    assert [path.read_text(encoding="utf-8") for path in out.rglob("mark")] == ["changed\n"]
    assert (
        program.run("file-push", "one", str(program.folder / "echo.py"), "~/pushed/")
        .record["pushed"]
        .endswith("/pushed/echo.py")
    )
    assert program.run("update", "one").code == 0
    again = program.launch(profile)
    assert (again["warm"], again["layer"]) == (True, launched["layer"])
    assert program.shell(again["id"], "cat mark; ls") == "provisioned\necho.py\nmark\n"
    for name in (identifier, again["id"]):
        assert program.run("destroy", name).code == 0
    assert program.names() == []
    assert leftovers(program.folder) == []
    assert list(Path("/sys/fs/cgroup").glob(f"**/*{identifier}*")) == []


def test_check_is_a_verdict_with_evidence(program: Any, leftovers: Callable[[Path], list[str]]) -> None:
    """Exit code 0 with evidence of everything, 1 when a check fails; the universe is gone either way."""
    evidence = program.folder / "evidence"
    ended = program.run("check", program.profile(PROFILE), "--evidence", str(evidence))
    assert ended.code == 0, ended
    assert [check["name"] for check in ended.record["checks"]] == ["mock", "files", "refused"]
    names = {path.name for path in evidence.iterdir()}
    assert names >= {"verdict.json", "versions.json", "timings.json", "log.jsonl", "decisions.jsonl", "artifacts"}
    assert "unlisted.example" in (evidence / "decisions.jsonl").read_text(encoding="utf-8")
    failing = program.profile("checks: [{name: fails, run: 'exit 3'}]", "failing.yaml")
    ended = program.run("check", failing)
    assert (ended.code, ended.record["verdict"], ended.record["kept"]) == (1, "fail", False)
    assert program.names() == []
    assert leftovers(program.folder) == []


def test_failed_launch_leaves_evidence_and_no_universe(own_program: Any) -> None:
    """Without --keep only evidence stays; with it the universe, to look around in."""
    profile = own_program.profile("provision: {commands: ['echo broken > ~/mark; exit 5']}")
    ended = own_program.run("launch", profile)
    assert (ended.code, ended.record["error"]["code"]) == (2, "provision_failed")
    assert own_program.names() == []
    [evidence] = (own_program.home / "digital-twin" / "evidence").iterdir()
    assert json.loads((evidence / "error.json").read_bytes())["code"] == "provision_failed"
    assert own_program.run("launch", profile, "--keep").code == 2
    [identifier] = own_program.names()
    assert own_program.run("status", identifier).record["phase"] == "failed"
    assert own_program.shell(identifier, "cat mark") == "broken\n"
    assert own_program.run("destroy", identifier).code == 0
    assert own_program.names() == []


def test_kept_check_can_be_looked_at(own_program: Any) -> None:
    """`check --keep` gives the verdict and leaves the universe."""
    ended = own_program.run(
        "check", own_program.profile("checks: [{name: fails, run: 'touch mark; exit 3'}]"), "--keep"
    )
    assert (ended.code, ended.record["kept"]) == (1, True)
    assert own_program.shell(ended.record["id"], "ls") == "mark\n"


def test_secret_is_in_no_file_and_no_argument(program: Any) -> None:
    """Through program and keeper too, its value is nowhere but in the environment of keeper and commands."""
    value = "sk-0123456789abcdef-of-this-test"
    program.environ["TWIN_TEST_KEY"] = value
    identifier = program.launch(program.profile(PROFILE))["id"]
    process = program.start("exec", identifier, "--stream", "--", "echo $TWIN_TEST_KEY; sleep 600")
    assert process.stdout.readline() == f"{value}\n"
    assert not any(value.encode() in line for line in _command_lines())
    for path in program.home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert value.encode() not in path.read_bytes(), path
    process.kill()
    process.communicate(timeout=60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_in_a_check_destroys_the_universe(
    own_program: Any, wait_until: Callable[..., None], leftovers: Callable[[Path], list[str]], number: int
) -> None:
    """Ctrl-C in the middle of a check ends what runs inside and removes everything, and the code is the signal's."""
    seconds = f"9{os.getpid()}{number}"  # found again among all processes of the machine
    profile = own_program.profile(f"checks: [{{name: hangs, run: 'echo begun; exec sleep {seconds}'}}]")
    process = own_program.start("check", profile)

    def has_begun() -> bool:
        assert process.poll() is None, process.communicate()
        return f"sleep\0{seconds}\0".encode() in _command_lines()

    wait_until(has_begun)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert own_program.names() == []
    assert leftovers(own_program.folder) == []


def _command_lines() -> set[bytes]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.add(path.read_bytes())
        except OSError:
            pass  # it has ended
    return found


def test_two_universes_never_meet(own_program: Any) -> None:
    """The same ports, names and files in two universes at once are two things; neither sees the other's processes."""
    one, two = (
        own_program.launch(own_program.profile(PROFILE.replace("MARK", mark), f"{mark}.yaml"))
        for mark in ("one", "two")
    )
    assert one["ports"][0]["host"] != two["ports"][0]["host"]
    for universe, mark, other in ((one, "one", "two"), (two, "two", "one")):
        own_program.shell(universe["id"], f"echo {mark} > ~/mine; setsid sleep 98765{len(mark)} >/dev/null 2>&1 &")
        seen = own_program.shell(
            universe["id"], "curl -sS https://api.example.com/; cat /proc/*/cmdline; cat /tmp/* ~/mine"
        )
        assert f'"mark": "{mark}"' in seen
        assert other not in seen.replace(f'"{mark}"', "")
    assert own_program.shell(two["id"], "cat mine") == "two\n"
    folders = [own_program.universes / each["id"] for each in (one, two)]
    assert own_program.run("destroy", one["id"]).code == 0
    assert not folders[0].exists()
    assert own_program.shell(two["id"], "cat mine; curl -sS https://api.example.com/").startswith('two\n{"mark": "two"')


def test_two_users_at_once(two_programs: list[Any]) -> None:
    """Universes of two users of one machine live beside each other, and `prune` of one leaves the other's."""
    launched = [each.launch(each.profile(PROFILE)) for each in two_programs]
    for each, universe in zip(two_programs, launched, strict=True):
        assert each.run("prune", "--mine").record["removed"] == []
        assert each.shell(universe["id"], "cat mark") == "provisioned\n"
