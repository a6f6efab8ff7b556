"""What an action would do, as far as it can be known before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_kit.policy.segment import Segment


class Facts(NamedTuple):
    """The parts of an action that rules are held against.

    `commands` is None when the action runs none. `paths` are real paths (links followed); `spelled` are the same as
    they were written, which only denying and asking rules see. `reads` and `writes` are files that the action touches
    besides: redirects of a shell line, a download's file. With a `problem`, nothing allows the action.
    """

    action: str
    tool: str = ""
    commands: tuple[Segment, ...] | None = None
    paths: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    problem: str = ""
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    spelled: tuple[Path, ...] = ()


def facts(action: str, details: Mapping[str, Any], project: Path) -> Facts:
    """Return what an action would do; never raises: what cannot be understood is the `problem`.

    `details["command" | "path" | "host"]` win over what `details["tool_input"]` says under the names tools use.
    """
    raise NotImplementedError
