"""Universes as a whole: what is asked for is there, and what cannot be is said."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.backends.twin import Run, TwinSpec
from amplifier_digital_twin.embedded import disk_gauge
from amplifier_digital_twin.embedded import probe as probe_module
from amplifier_digital_twin.embedded.backend import EmbeddedBackend
from amplifier_digital_twin.embedded.bubblewrap import find_bubblewrap
from amplifier_digital_twin.embedded.disk_gauge import measure
from amplifier_digital_twin.embedded.probe import probe_embedded
from amplifier_digital_twin.embedded.twin import EmbeddedTwin
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base, Limits, User


def test_the_user_is_the_profiles(keeper: Any) -> None:
    """Name, number, home and shell are those asked for, whoever runs the keeper."""
    user = ["somebody", 4321]
    keeper.order("create", user=user)
    text = "id -un; id -u; id -g; stat -c %U ~somebody; hostname; touch ~somebody/x && echo fine"
    assert keeper.shell(text, **{"as": user}) == "somebody\n4321\n4321\nsomebody\ntwin\nfine\n"


def test_files_of_the_start_are_there(keeper: Any) -> None:
    """They have their content and permissions; those in the home are the user's."""
    files = {"/etc/some where/ä": ["ünï\n", 0o640], "/home/user/.config/deep/file": ["mine\n", 0o600]}
    keeper.order("create", files=files)
    assert keeper.shell("cat ~/.config/deep/file; stat -c %U:%a ~/.config ~/.config/deep/file") == (
        "mine\nuser:755\nuser:600\n"
    )
    if keeper.has_root:
        look = "cat '/etc/some where/ä'; stat -c %U:%a '/etc/some where/ä'"
        assert keeper.shell(look, **{"as": ["root", 0]}) == "ünï\nroot:640\n"


def test_a_file_that_would_be_covered_is_refused(keeper: Any) -> None:
    """What is made anew at every start, or is the host's, takes no file; nothing is made then."""
    for path in ("/tmp/x", "/proc/x", "/dev", "/run/secrets", "/usr/bin/x"):
        with pytest.raises(keeper.refusal, match="no file can be put") as caught:
            keeper.order("create", files={path: ["", 0o644]})
        assert caught.value.code == "path_invalid"
    assert not (keeper.folder / "universes").exists()


def test_root_is_whole_enough_to_install(keeper: Any) -> None:
    """Where there is a root, he may give files away and become others, and nothing more."""
    if not keeper.has_root:
        with pytest.raises(keeper.refusal, match="cannot exist") as caught:
            keeper.order("create", user=["root", 0])
        assert caught.value.code == "user_unavailable"
        return
    keeper.order("create")
    text = "touch /opt/x; chown 1000:5 /opt/x; stat -c %u:%g /opt/x; setpriv --reuid 1000 --clear-groups id -u"
    assert keeper.shell(text, **{"as": ["root", 0]}) == "1000:5\n1000\n"


def test_a_required_feature_that_is_missing_is_an_error(keeper: Any) -> None:
    """No weaker substitute is taken for what the profile requires, and the reason is given."""
    keeper.order("forbid_overlays")
    with pytest.raises(keeper.refusal, match="overlay: not in this test") as caught:
        keeper.order("create", require=["userns", "overlay"])
    assert caught.value.code == "feature_missing"
    with pytest.raises(keeper.refusal, match="wings"):
        keeper.order("create", require=["wings"])


def test_what_is_weaker_is_noted(keeper: Any) -> None:
    """Copied layers, the host's network and limits of single processes are said in words."""
    keeper.order("forbid_overlays")
    notes = " ".join(keeper.order("create", network="host")["notes"])
    assert "layers are copied: not in this test" in notes
    assert "the network is the host's" in notes
    assert ("no control group" in notes) == (keeper.order("probe")[2]["cgroups"] != "yes")


def test_the_hosts_network_is_there_when_asked_for(keeper: Any) -> None:
    """With the network `host`, and only then, a service of the host's loopback can be reached."""
    keeper.order("create", network="host")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
        text = f'import socket; socket.create_connection(("127.0.0.1", {port}), 5); print("reached")'
        assert keeper.python(text) == "reached\n"


def test_an_id_is_used_once(keeper: Any) -> None:
    """A second universe of the same id is refused, and the first goes on unharmed."""
    keeper.order("create")
    keeper.shell("echo x > ~/file")
    with pytest.raises(keeper.refusal, match="File exists") as caught:
        keeper.order("create")
    assert caught.value.code == "place_taken"
    assert keeper.shell("cat ~/file") == "x\n"


def test_the_probe_says_what_there_is(keeper: Any) -> None:
    """The probe succeeds here, and every feature is `yes` or a reason."""
    is_available, reason, features = keeper.order("probe")
    assert is_available, reason
    assert set(features) == {"root", "cgroups", "userns", "seccomp", "overlay"}
    assert (features["root"] == "yes") == keeper.has_root
    assert features["userns"] == features["seccomp"] == features["overlay"] == "yes"
    assert all(features.values())


@pytest.fixture
async def twin(tmp_path: Path) -> AsyncIterator[EmbeddedTwin]:
    """A universe kept by this process."""
    spec = TwinSpec(
        id=f"test-{os.getpid()}-{os.urandom(3).hex()}",
        folder=tmp_path / "universe",
        cache=tmp_path / "cache",
        base=Base(),
        user=User(),
        limits=Limits(),
        network="none",
        hostname="twin",
    )
    made = await EmbeddedBackend().create(spec, lambda _: None)
    yield made
    await made.destroy()


async def test_sockets_inside_are_served_by_the_host(twin: EmbeddedTwin) -> None:
    """What the host listens to inside, also below port 1024, a command inside reaches; after a reset anew."""
    for _ in range(2):
        sockets = await twin.sockets()
        server = await sockets.listen("127.0.0.2", 80)
        try:
            text = 'import socket; socket.create_connection(("127.0.0.2", 80), 5); print("reached")'
            done = await twin.run(Run(["/usr/bin/python3", "-c", text], {}, User(), timeout=60))
            assert done.stdout == b"reached\n", done.stderr
        finally:
            server.close()
        await twin.reset()


async def test_a_universe_without_bubblewrap_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the program is missing, probe and launch name it and how to get it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    result = await probe_embedded()
    assert not result.is_available
    assert "apt install bubblewrap" in result.reason
    with pytest.raises(TwinError, match="bwrap") as caught:
        find_bubblewrap()
    assert caught.value.code == "bubblewrap_missing"


async def test_a_bubblewrap_that_is_too_old_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that cannot close user namespaces is refused."""
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho bubblewrap 0.4.1\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    result = await probe_embedded()
    assert not result.is_available
    assert "0.4.1 is too old" in result.reason


async def test_a_probe_that_breaks_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe never raises."""

    def fail() -> None:
        raise RuntimeError("broken, in this test")

    monkeypatch.setattr(probe_module, "cgroups_reason", fail)
    assert "broken, in this test" in (await probe_embedded()).reason


def test_files_are_measured_once_and_links_not_followed(tmp_path: Path) -> None:
    """A file with two names counts once, and what a link leads to not at all."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").write_bytes(b"x" * 100_000)
    alone = measure(str(tmp_path))
    (tmp_path / "a/again").hardlink_to(tmp_path / "a/file")
    (tmp_path / "link").symlink_to("/usr")
    assert alone >= 100_000
    assert measure(str(tmp_path)) - alone < 50_000


def test_deep_folders_hide_nothing_from_being_measured(tmp_path: Path) -> None:
    """Folders nested deep are looked into; deeper than anybody can look is more than any limit."""
    place = os.open(tmp_path, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d", dir_fd=place)
        deeper = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = deeper
    with open(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=place), "wb") as file:
        file.write(b"x" * 5_000_000)
    os.close(place)
    assert measure(str(tmp_path)) >= 5_000_000
    command = ["prlimit", "--nofile=64", sys.executable, "-I", "-S", str(disk_gauge.__file__), str(tmp_path)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == str(disk_gauge.BEYOND)


def test_what_vanishes_is_not_measured(tmp_path: Path) -> None:
    """A folder that is gone, or has become a link or a pipe, is nothing, and nobody waits for it."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/usr")
    for name in ("none", "pipe", "link"):
        assert measure(str(tmp_path / name)) == 0
