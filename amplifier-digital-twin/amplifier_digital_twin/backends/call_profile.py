"""The filter for calls that an engine puts on its containers: its own, less what leads past every namespace."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_digital_twin.embedded.call_filter import FAMILIES

#: The calls that the embedded backend refuses, by name; and the one by which programs of 32 bits make sockets.
REFUSED: Final = (
    "add_key",
    "bpf",
    "io_uring_setup",
    "keyctl",
    "perf_event_open",
    "request_key",
    "socketcall",
    "syslog",
    "userfaultfd",
)
_SOCKETS: Final = ("socket", "socketpair")
_NETLINK: Final = 16
_AUDIT: Final = 9


def stricter(profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return an engine's profile without these calls, with sockets of few families, and for one kind of program.

    Raises KeyError, TypeError, AttributeError for what is no such profile.
    """
    taken = {*REFUSED, *_SOCKETS}
    rules = [{**rule, "names": [name for name in rule["names"] if name not in taken]} for rule in profile["syscalls"]]
    rules = [rule for rule in rules if rule["names"]]
    rules.append({"names": list(REFUSED), "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM, "errno": "EPERM"})
    for family in FAMILIES:
        conditions = [_condition(0, family, "SCMP_CMP_EQ")]
        if family == _NETLINK:
            conditions.append(_condition(2, _AUDIT, "SCMP_CMP_NE"))
        rules.append({"names": list(_SOCKETS), "action": "SCMP_ACT_ALLOW", "args": conditions})
    # Calls of other machines that this one understands have other numbers.
    machines = [{**machine, "subArchitectures": []} for machine in profile["archMap"]]
    refusal = {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": errno.ENOSYS, "defaultErrno": "ENOSYS"}
    return {**profile, **refusal, "archMap": machines, "syscalls": rules}


def _condition(index: int, value: int, comparison: str) -> dict[str, Any]:
    return {"index": index, "value": value, "valueTwo": 0, "op": comparison}


def read_stricter(path: str) -> tuple[dict[str, Any] | None, str]:
    """Return the stricter form of the profile in a file, or why there is none."""
    try:
        return stricter(json.loads(Path(path).read_bytes())), ""
    except OSError as error:
        return None, f"its filter for calls cannot be read: {path}: {error.strerror or error}"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return None, f"its filter for calls is not understood: {path}: {error!r}"
