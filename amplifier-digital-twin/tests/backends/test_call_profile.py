"""The filter that engines put on the calls of their containers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.backends.call_profile import REFUSED, read_stricter, stricter
from amplifier_digital_twin.backends.docker import Docker
from amplifier_digital_twin.backends.podman import Podman
from amplifier_digital_twin.backends.twin import Run
from amplifier_digital_twin.profile.model import User

_PROFILE: dict[str, Any] = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}],
    "syscalls": [
        {"names": ["read", "keyctl", "socketcall"], "action": "SCMP_ACT_ALLOW", "args": []},
        {"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": None},
        {"names": ["bpf"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]}},
    ],
}
#: Tries keys and a socket of the hypervisor, and prints the error's number, or that there was none.
_TRY = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
numbers = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}[os.uname().machine]
keys = ((numbers[0], b"user", b"name", b"value", 5, -4), (numbers[1], b"user", b"n", None, -3), (numbers[2], 0, -4, 1))
for words in keys:
    words = [ctypes.c_long(w) if isinstance(w, int) else w for w in words]
    print("done" if libc.syscall(*words) >= 0 else "refused" if ctypes.get_errno() in (1, 38) else ctypes.get_errno())
for family in (40, socket.AF_INET, socket.AF_UNIX):
    try:
        socket.socket(family, socket.SOCK_STREAM).close(); print("done")
    except OSError as error:
        print("refused")
"""


def test_calls_are_taken_from_the_engines_own_profile() -> None:
    """What is refused is allowed by no rule any more, sockets are told apart by family, and the default is refusal."""
    made = stricter(_PROFILE)
    allowed = [rule for rule in made["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW"]
    assert not {name for rule in allowed for name in rule["names"]} & set(REFUSED)
    assert [rule["names"] for rule in allowed if not rule.get("args")] == [["read"]]
    families = [rule["args"][0]["value"] for rule in allowed if rule["names"] == ["socket", "socketpair"]]
    assert families == [1, 2, 10, 16]
    assert made["defaultAction"] == "SCMP_ACT_ERRNO"
    assert made["archMap"] == [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []}]
    assert _PROFILE["syscalls"][0]["names"] == ["read", "keyctl", "socketcall"]


@pytest.mark.parametrize("content", [None, b"{", b"[]", b'{"syscalls": 1, "archMap": []}', b'{"syscalls": [{}]}'])
def test_profile_that_cannot_be_used_has_a_reason(tmp_path: Path, content: bytes | None) -> None:
    """Podman then says that it has no filter, and strict universes are not made there."""
    path = tmp_path / "seccomp.json"
    if content is not None:
        path.write_bytes(content)
    made, reason = read_stricter(str(path))
    assert made is None
    assert str(path) in reason
    security = {"seccompEnabled": True, "seccompProfilePath": str(path)}
    assert Podman()._filter({"security": security}) == f"no: {reason}"


def test_engines_say_whether_they_filter(tmp_path: Path) -> None:
    """Without a filter of the engine's own, the feature is missing, with the reason."""
    path = tmp_path / "seccomp.json"
    path.write_text(json.dumps(_PROFILE), encoding="utf-8")
    assert Podman()._filter({"security": {"seccompEnabled": True, "seccompProfilePath": str(path)}}) == "yes"
    for security in ({}, {"seccompEnabled": False, "seccompProfilePath": str(path)}, {"seccompEnabled": True}):
        assert Podman()._filter({"security": security}).startswith("no: podman ")
    info = {"ServerVersion": "1", "SecurityOptions": ["name=seccomp,profile=builtin"]}
    assert Docker()._judge(info).features.get("seccomp", "yes") == "yes"


async def test_keys_and_the_hypervisors_sockets_are_refused(place: Any) -> None:
    """In a twin of any backend that says it filters calls, nobody reaches keys of the host or leaves by a socket."""
    probe = await place.backend.probe()
    if probe.features.get("seccomp") != "yes":
        pytest.skip(
            f"{place.backend.name}: {probe.features.get('seccomp', 'it does not say whether it filters calls')}"
        )
    if place.base.image != "host":
        pytest.skip("this base has no Python")
    twin = await place.create()
    for user in (User(), User("root", 0)):
        done = await twin.run(Run(["/usr/bin/python3", "-c", _TRY], {"PATH": "/usr/bin:/bin"}, user))
        assert done.stdout.split() == [b"refused"] * 4 + [b"done"] * 2, done
