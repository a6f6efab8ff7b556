"""The world of a universe: what is needed, which files lead to it, and when it counts as another one."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import (
    Base,
    Mock,
    Network,
    NetworkMode,
    Profile,
    Repository,
    Rewrite,
    Secret,
    UvPolicy,
)
from amplifier_digital_twin.services.addresses import GATEWAY, GIT, INDEX
from amplifier_digital_twin.services.decisions import Decisions
from amplifier_digital_twin.services.world import World, for_building

MOCK = Mock("m", "run", 3000, ("api.example.com",))


def world(tmp_path: Path, mode: NetworkMode, **parts: Any) -> World:
    """Return the world of a profile."""
    profile = Profile("p", tmp_path / "p.yaml", network=Network(mode), **parts)
    return World(profile, tmp_path / "universe", tmp_path / "cache", Decisions(tmp_path / "decisions.jsonl"))


class Doors:
    """Sockets of this machine in place of a universe's; which addresses were asked for is noted."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.opened: list[socket.socket] = []

    async def listen(self, host: str, port: int) -> socket.socket:
        """Listen on a free port."""
        self.asked.append((host, port))
        self.opened.append(socket.create_server(("127.0.0.1", 0)))
        return self.opened[-1]

    async def connect(self, host: str, port: int, timeout: float) -> socket.socket:
        """Nobody is here."""
        raise ConnectionRefusedError

    async def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize(
    ("mode", "parts", "is_needed"),
    [
        ("none", {}, False),
        ("none", {"mocks": (MOCK,)}, True),
        ("gateway", {}, True),
        ("host", {}, False),
    ],
)
async def test_only_what_is_needed_is_made(tmp_path: Path, mode: NetworkMode, parts: Any, is_needed: bool) -> None:
    """Without a network and without anything of its own, a universe has no services and nobody leads it to any."""
    made = world(tmp_path, mode, **parts)
    await made.prepare({})
    doors = Doors()
    await made.serve(doors)
    assert bool(doors.asked) is is_needed
    assert (made.index_url is not None) is is_needed
    assert ("/etc/gitconfig" in made.files("h")) is is_needed
    await made.close()
    await made.close()


async def test_services_listen_where_the_environment_says(tmp_path: Path) -> None:
    """Gateway, mirror and index have their places; the interceptor only where a name is answered for."""
    plain, mocked = world(tmp_path, "gateway"), world(tmp_path, "gateway", mocks=(MOCK,))
    for made, more in ((plain, []), (mocked, [("127.0.0.2", 443), ("127.0.0.2", 80)])):
        await made.prepare({})
        doors = Doors()
        await made.serve(doors)
        assert doors.asked == [GATEWAY, GIT, INDEX, *more]
        await made.leave(doors)
        await made.leave(doors)
        assert doors.opened[0].fileno() == -1, "the gateway's socket is closed"
        await made.close()


@pytest.mark.parametrize(
    "parts",
    [
        {"mocks": (MOCK,)},
        {"rewrites": (Rewrite("a.example", "http://b.example"),)},
        {"repositories": (Repository(Path("/x"), "https://git.example/a/b"),)},
    ],
)
async def test_nothing_is_answered_on_the_hosts_network(tmp_path: Path, parts: Any) -> None:
    """What the profile asks for and cannot be is an error, not left out."""
    with pytest.raises(TwinError) as caught:
        await world(tmp_path, "host", **parts).prepare({})
    assert caught.value.code == "network_host"


async def test_files_of_a_universe(tmp_path: Path) -> None:
    """Names it answers are in its hosts, its authority among the certificates; uv is behind ours."""
    made = world(tmp_path, "gateway", mocks=(MOCK,), base=Base(tools=("uv",)), uv=UvPolicy(lock="relock"))
    await made.prepare({})
    files = made.files("twin")
    assert b"127.0.0.2 api.example.com\n" in files["/etc/hosts"][0]
    assert b"nameserver" not in files["/etc/resolv.conf"][0]
    assert files["/etc/ssl/certs/ca-certificates.crt"][0].count(b"BEGIN CERTIFICATE") >= 1
    assert files["/opt/twin/bin/uv"][1] == 0o755
    await made.close()
    plain = world(tmp_path, "host").files("twin")
    assert set(plain) == {"/etc/hosts"}, "the host's own name service is kept"


async def test_each_universe_has_an_authority_of_its_own(tmp_path: Path) -> None:
    """What one universe trusts is worth nothing in another."""
    found = []
    for _ in range(2):
        made = world(tmp_path, "gateway", mocks=(MOCK,))
        await made.prepare({"SSL_CERT_FILE": str(tmp_path / "none")})
        found.append(made.files("h")["/etc/ssl/certs/ca-certificates.crt"][0])
        await made.close()
    assert found[0] != found[1]


def test_twin_for_building_has_nothing_but_base_and_network(tmp_path: Path) -> None:
    """A build sees no secret, no mock and no package that is about to be made."""
    profile = Profile(
        "p", tmp_path, network=Network("gateway"), secrets=(Secret("A"),), mocks=(MOCK,), environment=(("A", "b"),)
    )
    built = for_building(profile)
    assert built == dataclasses.replace(profile, secrets=(), mocks=(), environment=())
