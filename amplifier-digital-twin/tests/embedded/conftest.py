"""Universes kept by a process of their own: as the user who runs the tests, and as another one."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import amplifier_core
import amplifier_digital_twin
import amplifier_foundation
import amplifier_kit
from amplifier_digital_twin.embedded.control_groups import hierarchies, remove_groups
from amplifier_digital_twin.removal import remove_tree

OTHER = 1001
_PACKAGES = (amplifier_digital_twin, amplifier_foundation, amplifier_core, amplifier_kit)
_SCRIPT = str(Path(__file__).with_name("keeper_process.py"))


class OrderRefusedError(Exception):
    """The keeper could not do it."""

    def __init__(self, record: dict[str, str]) -> None:
        super().__init__(json.dumps(record))
        self.code = record["code"]
        self.message = record["message"]
        self.remedy = record["remedy"]


class KeeperProcess:
    """A keeper, driven from the test."""

    #: What `order` raises, for tests that cannot import it from here.
    refusal = OrderRefusedError

    def __init__(self, folder: Path, uid: int, before: Sequence[str] = ()) -> None:
        self.folder = folder
        self.uid = uid
        #: Whether root exists inside: not for a user who is not root and has no subordinate ids.
        self.has_root = uid == 0 or bool(before)
        self._before = tuple(before)
        self._token = uuid.uuid4().hex[:8]
        self._names: set[str] = set()
        self.process = subprocess.Popen(
            [*before, *_as_user(uid), _SCRIPT, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(folder),
            cwd="/",
        )

    def id_of(self, universe: str) -> str:
        """Return a universe's id: control groups belong to the whole machine, and others run these tests too."""
        self._names.add(universe)
        return f"{universe}-{self._token}"

    def order(self, do: str, universe: str = "one", **details: Any) -> Any:
        """Have something done; raise OrderRefusedError when it cannot be."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": do, "id": self.id_of(universe), **details}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the keeper has ended with {self.process.wait(10)}"
        answer = json.loads(line)
        if not answer["is_ok"]:
            raise OrderRefusedError(answer["error"])
        return answer["value"]

    def shell(self, text: str, universe: str = "one", **details: Any) -> str:
        """Return what a shell command inside writes, whatever it ends with."""
        done = self.order("run", universe, shell=text, **details)
        return str(done["out"] + done["err"])

    def python(self, text: str, universe: str = "one", **details: Any) -> str:
        """Return what a Python program inside writes, whatever it ends with."""
        return self.shell(f"exec /usr/bin/python3 -c '{text}'", universe, **details)

    def close(self) -> None:
        """End it, and with it all its universes."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        remove_groups([each.group(self.id_of(name)) for each in hierarchies() for name in list(self._names)])

    def again(self) -> KeeperProcess:
        """Start another keeper for the same universes, after this one has ended."""
        other = KeeperProcess(self.folder, self.uid, self._before)
        other._token = self._token
        return other


def _as_user(uid: int) -> list[str]:
    if uid == os.geteuid():
        return [sys.executable]
    # The interpreter of the tests may lie where others have no way to.
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "/usr/bin/python3"]


def _environment(folder: Path) -> dict[str, str]:
    paths = [str(Path(str(package.__file__)).parents[1]) for package in _PACKAGES]
    paths += [path for path in sys.path if path.endswith("site-packages")]
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOST_SECRET": "of-the-host-only",
    }


@pytest.fixture(scope="session", autouse=True)
def bubblewrap() -> str:
    """The program without which nothing here can be shown: its absence is a failure, never a reason to skip."""
    if sys.platform != "linux":
        pytest.skip("namespaces are Linux's")
    path = shutil.which("bwrap")
    if path is None:
        pytest.fail("bwrap is not installed; the embedded backend cannot do without: apt install bubblewrap")
    return path


def start_keeper(folder: Path, who: str) -> KeeperProcess:
    """Start a keeper as this user or as another one."""
    if who == "own":
        return KeeperProcess(folder, os.geteuid())
    if os.geteuid() != 0:
        pytest.skip("only root can run the tests as another user too; as this user they run")
    if reason := _why_not_another(folder.parent):
        pytest.skip(f"another user has no way to what is tested; as this user the tests run: {reason}")
    os.chown(folder, OTHER, OTHER)
    return KeeperProcess(folder, OTHER, _with_subordinate_ids(folder) if who == "subordinate" else ())


@functools.cache
def _why_not_another(place: Path) -> str:
    """Return why another user cannot start a keeper with a folder in a place, as in a clone below /root; or nothing."""
    program = "import os, runpy, sys; runpy.run_path(sys.argv[1], run_name='imported'); os.chdir(sys.argv[2])"
    command = [*_as_user(OTHER), "-c", program, _SCRIPT, str(place)]
    tried = subprocess.run(command, env=_environment(place), cwd="/", capture_output=True, text=True, check=False)
    return tried.stderr.strip().rpartition("\n")[2] if tried.returncode else ""


def _with_subordinate_ids(folder: Path) -> list[str]:
    """Return the start of a command that sees an /etc in which the other user has an account and subordinate ids."""
    if not shutil.which("newuidmap"):
        pytest.skip("newuidmap is not installed (Debian: apt install uidmap): no user can have subordinate ids")
    accounts = Path("/etc/passwd").read_text(encoding="utf-8")
    files = {"passwd": f"{accounts}other:x:{OTHER}:{OTHER}::/:/bin/sh\n", "subuid": "other:300000:65536\n"}
    files["subgid"] = files["subuid"]
    mounts = []
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        mounts.append(f"mount --bind {folder}/{name} /etc/{name} && ")
    return ["unshare", "--mount", "sh", "-c", "".join(mounts) + 'exec "$@"', "sh"]


@pytest.fixture(params=["own", "other", "subordinate"])
def keeper(request: pytest.FixtureRequest) -> Iterator[KeeperProcess]:
    """A keeper without universes, as each user."""
    # Not tmp_path: others have no way into pytest's own folder.
    with tempfile.TemporaryDirectory(prefix="twins-", ignore_cleanup_errors=True) as name:
        started = start_keeper(Path(name), request.param)
        try:
            yield started
        finally:
            started.close()
            # Python's own removal of the folder fails for trees that are deep.
            remove_tree(Path(name))


@pytest.fixture(scope="module", params=["own", "other", "subordinate"])
def kept(request: pytest.FixtureRequest) -> Iterator[KeeperProcess]:
    """A keeper with the universe `one`, which tests look at and do not change."""
    with tempfile.TemporaryDirectory(prefix="twins-", ignore_cleanup_errors=True) as name:
        started = start_keeper(Path(name), request.param)
        try:
            started.order("create")
            yield started
            started.order("destroy")
        finally:
            started.close()
