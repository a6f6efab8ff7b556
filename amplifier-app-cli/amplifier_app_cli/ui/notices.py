"""Notices of a session to the user: whether commands are sandboxed, what was retried, what the model did not get."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from amplifier_app_cli.ui.say import events_with_notice
from amplifier_kit.named_tuple import NamedTuple

#: Mentions named in one notice; pasted text may hold any number of words with an @.
_MOST_NAMED: Final = 3
_MCP_SERVERS: Final = "mcp.servers"


class Retry(NamedTuple):
    """What a `provider:retry` says: which retry comes, why, and in how many seconds."""

    which: str
    reason: str
    delay: float

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Retry:
        attempt, most = data.get("attempt"), data.get("max_retries")
        which = f"retry {attempt} of {most}" if isinstance(attempt, int) and isinstance(most, int) else "retry"
        reason = f"{data.get('error_type') or 'error'}: {data.get('error_message') or 'no reason given'}"
        return cls(which, reason, seconds_of(data.get("delay")))

    def __str__(self) -> str:
        return f"{self.which} {in_seconds(self.delay)}: {self.reason}"


def in_seconds(seconds: float) -> str:
    """Return when something happens, in words."""
    return f"in {max(round(seconds), 1)} s"


def seconds_of(value: Any) -> float:
    """Return a number of an event as seconds; 0 for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


class SandboxNotice:
    """Show each unusual `sandbox:status` once: off, missing, or weaker than configured. Every tool with one emits it.

    Tools find out in the background. While an approval is pending, the notice waits for the answer. `with_usual` shows
    that commands are confined as configured, too.
    """

    def __init__(self, show: Callable[[str], None], *, with_usual: bool = False) -> None:
        self._show = show
        self._with_usual = with_usual
        self._shown: set[str] = set()
        self._held: list[str] = []
        #: The open approval requests.
        self._requests: set[str] = set()

    def connect(self, hooks: Any) -> None:
        """Listen to a session; call it before the session opens, because modules emit the event then."""
        hooks.register("sandbox:status", self._on_status, priority=950, name="app-sandbox")
        events_with_notice.add("sandbox:status")
        hooks.register("approval:required", self._on_request, priority=950, name="app-sandbox")
        for event in ("approval:granted", "approval:denied", "approval:waiting"):
            hooks.register(event, self._on_answer, priority=950, name="app-sandbox")

    def _on_status(self, event: str, data: dict[str, Any]) -> None:
        if data.get("status") == "active" and not data.get("reason") and not self._with_usual:
            return
        text = sandbox_text(data)
        if text not in self._shown:
            self._shown.add(text)
            self._held.append(text)
            self._show_held()

    def _on_request(self, event: str, data: dict[str, Any]) -> None:
        self._requests.add(_request_id(data))

    def _on_answer(self, event: str, data: dict[str, Any]) -> None:
        self._requests.discard(_request_id(data))
        self._show_held()

    def _show_held(self) -> None:
        while self._held and not self._requests:
            self._show(self._held.pop(0))


def _request_id(data: dict[str, Any]) -> str:
    """Return the id of a request; those of published modules have none, but name the tool."""
    return str(data.get("approval_id") or data.get("tool_name"))


def sandbox_text(data: dict[str, Any]) -> str:
    """Return the notice of a `sandbox:status`: its summary, else a text made of its fields."""
    summary, reason = data.get("summary"), data.get("reason")
    if isinstance(summary, str) and summary:
        return summary
    if data.get("status") == "active":
        network = "the host's network" if data.get("network") else "no network"
        more = f"; {reason}" if reason else ""
        return f"sandbox: on ({data.get('backend')}): writes only to the project, {network}{more}"
    free = "commands can do whatever you can"
    if data.get("status") == "off":
        return f"sandbox: OFF: {free}"
    refused = "commands are refused" if data.get("mode") == "required" else free
    return f"sandbox: NOT AVAILABLE, {refused}: {reason}"


class MentionNotice:
    """Show which files of a prompt were not found or were denied (`mentions:resolved`).

    A denied file that instructions or bundles mention is shown once per session.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._shown: set[tuple[str, str]] = set()

    def connect(self, hooks: Any) -> None:
        """Listen to a session."""
        hooks.register("mentions:resolved", self._on_resolved, priority=950, name="app-mentions")

    def _on_resolved(self, event: str, data: dict[str, Any]) -> None:
        failed = [one for one in data.get("failed") or () if one.get("in_prompt") or self._is_new_denial(one)]
        if not failed:
            return
        named = "; ".join(f"{one.get('mention')}: {one.get('reason')}" for one in failed[:_MOST_NAMED])
        more = f"; and {len(failed) - _MOST_NAMED} more" if len(failed) > _MOST_NAMED else ""
        self._show(f"note: not given to the model: {named}{more}")

    def _is_new_denial(self, failure: dict[str, Any]) -> bool:
        key = (str(failure.get("mention")), str(failure.get("reason")))
        if "decided_by" not in failure or key in self._shown:
            return False
        self._shown.add(key)
        return True


def unasked_change_text(files: Sequence[str], project: Path) -> str:
    """Return what to tell about files that a turn changed and that others run by themselves."""
    names = [str(Path(file).relative_to(project)) if Path(file).is_relative_to(project) else file for file in files]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    shown = ", ".join(names[:_MOST_NAMED])
    return f"this turn changed {shown}{more}: a shell, an editor, git or a server runs that by itself, so look at it"


class McpServerNotice:
    """Let a single prompt have the tools of its MCP servers, and know which servers came too late."""

    def __init__(self) -> None:
        self._late: tuple[str, ...] = ()

    async def wait(self, coordinator: Any, show: Callable[[str], None]) -> None:
        """Wait for the servers whose tools are not known yet, as long as the config of `tool-mcp` says, and show it."""
        servers = _mcp_servers(coordinator)
        names = servers.unlisted() if servers is not None and servers.startup_wait > 0 else []
        if names:
            show(f"waiting up to {servers.startup_wait:g} s for MCP servers: {', '.join(names)}")
            await servers.wait(servers.startup_wait)

    def check(self, coordinator: Any) -> None:
        """Record which servers are missing now: the answer is complete, and the session still open."""
        servers = _mcp_servers(coordinator)
        if servers is not None:
            unlisted = servers.unlisted()
            starting = ("new", "connecting")
            self._late = tuple(one.name for one in servers.statuses() if one.state in starting and one.name in unlisted)

    def notes(self) -> list[str]:
        """Return a line for each late server; one that failed has been reported with the reason."""
        return [
            f"note: the MCP server {name} was still starting when the answer was complete; its tools were not used "
            '(with "required": true the session waits for it)'
            for name in self._late
        ]


def _mcp_servers(coordinator: Any) -> Any:
    """Return the servers of `tool-mcp`; None without them, as another module may register something else."""
    servers = coordinator.get_capability(_MCP_SERVERS)
    return servers if all(hasattr(servers, name) for name in ("statuses", "unlisted", "wait")) else None


def missing_mcp_servers(coordinator: Any) -> tuple[str, ...]:
    """Return the required MCP servers that the latest request was denied for."""
    servers = _mcp_servers(coordinator)
    return tuple(servers.missing) if servers is not None else ()
