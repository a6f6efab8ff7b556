"""What a child session has from the session that started it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amplifier_foundation.children.switched import Switched

if TYPE_CHECKING:
    from amplifier_foundation.policy.session_permissions import SessionPermissions
    from amplifier_foundation.usage import SessionBudget


class ChildFacts(NamedTuple):
    """Who a child session is, as plain data."""

    session_id: str
    parent_id: str
    agent: str
    #: How many sessions are above it: 1 for the child of a root.
    depth: int
    tool_call_id: str | None = None
    parallel_group_id: str | None = None


#: Is told every event of every session below one: whose it is, its name, its payload. It must not wait.
OnChildEvent = Callable[[ChildFacts, str, dict[str, Any]], None]


@dataclass(frozen=True)
class Origin:
    """Where a child comes from: plain data but for what is shared within one process, the last three."""

    facts: ChildFacts
    #: Its own folder, beside that of its parent.
    folder: Path
    #: The folder of the session at the top of the tree, which has the blobs and the rules of the whole tree.
    root_folder: Path
    root_id: str
    #: What its metadata say beyond those of other sessions.
    metadata: dict[str, Any] = field(default_factory=dict)
    working_dir: str | None = None
    self_delegation_depth: int = 0
    #: Texts that must not be in its files, besides its own secrets.
    secrets: tuple[str, ...] = ()
    #: Plans whose rules hold for it: that of the root, and of agents down to it that bring rules of their own.
    rules: tuple[Mapping[str, Any], ...] = ()
    #: What a person has switched in the sessions above it.
    switched: Switched = field(default_factory=Switched)
    #: Capabilities of the parent that hold for the child as they are.
    capabilities: dict[str, Any] = field(default_factory=dict)
    #: What judges by `rules`, one for each; empty in a process of its own, which reads them itself.
    permissions: tuple[SessionPermissions, ...] = ()
    budget: SessionBudget | None = None
