"""Enforce the active mode: decide about tool calls, and give the model the guidance of the mode."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from amplifier_core.models import HookResult
from amplifier_kit.awaitable import maybe_await, plain_result
from amplifier_kit.guard.authorization import kernel_has_policies
from amplifier_kit.guard.files.configured_file import ConfiguredFile, denied_to_model
from amplifier_kit.modes import CHANGED, OVERLAY, Mode, active_mode
from amplifier_kit.reminders import fitting_reminder, without_tags
from amplifier_module_hooks_mode.discovery import ModeDiscovery

__all__ = ["BLOCKED", "INJECTED", "LIVE", "OWN_EVENTS", "ModeHooks"]

logger = logging.getLogger(__name__)

BLOCKED: Final = "mode:tool_blocked"
WARNED: Final = "mode:tool_warned"
INJECTED: Final = "mode:context_injected"
COMPLETED: Final = "mode:transition_completed"
FAILED: Final = "mode:activation_failed"
OWN_EVENTS: Final = (BLOCKED, WARNED, INJECTED, COMPLETED, FAILED)

#: The capability by which a child session follows the modes of its ancestors: `() -> Sequence[Mode]`.
LIVE: Final = "session.modes"
#: The state of a session in which hooks-approval reads the tools that must be confirmed.
_CONFIRMED: Final = "require_approval_tools"
_MENTION: Final = re.compile(r"@[\w.-]+:\S+")
_LARGEST: Final = 200_000


class UnknownModeError(LookupError):
    """The active mode is not found any more."""


class ModeHooks:
    """Enforce the active mode of one session, and those of its ancestors: an agent may do no more than its caller."""

    def __init__(
        self,
        coordinator: Any,
        discovery: ModeDiscovery,
        infrastructure: tuple[str, ...],
        above: Callable[[], Sequence[Mode]] | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._discovery = discovery
        self._infrastructure = frozenset(infrastructure)
        self._above = above
        self._warned: set[tuple[str, str]] = set()
        self._required: set[str] = set()

    def reset_warnings(self) -> None:
        """Warn about each tool again."""
        self._warned.clear()

    def modes(self) -> list[Mode]:
        """Return the modes that hold here, those of ancestors first; raises UnknownModeError."""
        modes = list(self._above()) if self._above is not None else []
        name = active_mode(self._coordinator)
        if name is None:
            return modes
        mode = self._discovery.find(name)
        if mode is None:
            raise UnknownModeError(f"the mode {name!r} is not found any more: /mode off leaves it")
        return modes if mode in modes else [*modes, mode]

    # -- tool calls --

    async def on_tool_pre(self, event: str, data: Any) -> HookResult | None:
        """Deny what the mode does not let run; any failure denies."""
        try:
            return await self._decide(data)
        except Exception as error:
            logger.error("hooks-mode: a call could not be decided: %r", error, exc_info=error)
            return HookResult(action="deny", reason=f"the mode could not be applied: {error or type(error).__name__}")

    async def _decide(self, data: Any) -> HookResult | None:
        modes = self.modes()
        if not kernel_has_policies():
            self._require_approval(modes)
        tool = str(data.get("tool_name") or "") if isinstance(data, Mapping) else ""
        for mode in modes:
            denied = await self._decide_in(mode, tool)
            if denied is not None:
                return denied
        return None

    async def _decide_in(self, mode: Mode, tool: str) -> HookResult | None:
        if tool in self._infrastructure or tool in mode.safe_tools:
            return None
        if tool in mode.block_tools:
            reason = f"Mode '{mode.name}': '{tool}' is blocked. {mode.description}".rstrip()
            return await self._deny(mode, tool, reason, "block_list")
        if tool in mode.confirm_tools:
            return None  # the session asks the user
        if tool in mode.warn_tools:
            return await self._warn(mode, tool)
        if mode.default_action == "allow":
            return None
        reason = f"Mode '{mode.name}': '{tool}' is not in the allowed list. Use /mode off to exit {mode.name} mode."
        return await self._deny(mode, tool, reason, "default_action")

    async def _deny(self, mode: Mode, tool: str, reason: str, why: str) -> HookResult:
        await self._coordinator.hooks.emit(BLOCKED, {"tool_name": tool, "mode": mode.name, "reason": why})
        return HookResult(action="deny", reason=reason)

    async def _warn(self, mode: Mode, tool: str) -> HookResult | None:
        """Deny the first call of a tool in a mode, and let the next ones run."""
        is_first = (mode.name, tool) not in self._warned
        self._warned.add((mode.name, tool))
        outcome = "denied" if is_first else "allowed"
        await self._coordinator.hooks.emit(WARNED, {"tool_name": tool, "mode": mode.name, "outcome": outcome})
        if not is_first:
            return None
        text = f"'{tool}' requires confirmation. Call again if this is appropriate for {mode.name} mode."
        return HookResult(action="deny", reason=f"Mode '{mode.name}': {text}")

    def policy(self, action: str, details: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return "ask" for a tool that a mode wants the user to confirm; the kernel's signature of a policy."""
        tool = details.get("tool_name")
        for mode in self.modes():
            if tool in self._to_confirm(mode):
                return "ask", f"Mode '{mode.name}' wants {tool} to be confirmed"
        return None

    def _to_confirm(self, mode: Mode) -> set[str]:
        return {*mode.confirm_tools} - {*mode.safe_tools, *mode.block_tools} - self._infrastructure

    def _require_approval(self, modes: Sequence[Mode]) -> None:
        """Name the tools to confirm where hooks-approval reads them, on a kernel without policies."""
        wanted = {tool for mode in modes for tool in self._to_confirm(mode)}
        known = self._coordinator.session_state.get(_CONFIRMED) or ()
        if not isinstance(known, list | tuple | set | frozenset):
            return  # what is no list of names asks for every tool already
        others = set(known) - self._required
        if wanted or self._required:
            self._coordinator.session_state[_CONFIRMED] = others | wanted
            self._required = wanted - others

    # -- guidance --

    async def on_provider_request(self, event: str, data: Any) -> HookResult | None:
        """Add the guidance of the modes to this request only."""
        try:
            modes = self.modes()
        except UnknownModeError as error:
            logger.warning("hooks-mode: %s", error)
            return None
        if not modes:
            return None
        text = "\n\n".join(map(self._guidance, modes))
        limit = getattr(self._coordinator, "injection_size_limit", None)
        name = modes[-1].name
        reminder = fitting_reminder(text, f"mode-{name}", limit)
        if reminder is None:
            return None
        digest = hashlib.sha256(reminder.encode("utf-8", "backslashreplace")).hexdigest()
        facts = {"mode": name, "context_length": len(reminder), "content_hash": digest}
        await self._coordinator.hooks.emit(INJECTED, facts)
        return HookResult(
            action="inject_context", context_injection=reminder, context_injection_role="system", ephemeral=True
        )

    def _guidance(self, mode: Mode) -> str:
        body = "\n".join(line for line in map(self._line, mode.context.splitlines()) if line is not None)
        return f"MODE ACTIVE: {mode.name}\n\n{without_tags(body)}".rstrip()

    def _line(self, line: str) -> str | None:
        """Return a line; the content of the file for one that only mentions it, None if that cannot be read."""
        mention = line.strip()
        if not _MENTION.fullmatch(mention):
            return line
        resolver = self._coordinator.get_capability("mention_resolver")
        try:
            path = plain_result(resolver.resolve(mention)) if resolver is not None else None
            if path is None:
                raise FileNotFoundError(f"{mention} leads to no file")
            content = ConfiguredFile(Path(path), denied=denied_to_model(self._coordinator)).read(_LARGEST)
            return content.decode("utf-8", "replace").strip()
        except (OSError, TypeError) as error:
            logger.warning("hooks-mode: %s is left out of the guidance: %s", mention, error)
            return None

    # -- what a mode contributes --

    async def on_transition(self, event: str, data: Any) -> None:
        """Remove what the mode before contributes, and add what the next one does, where the app can do so."""
        before = data.get("from_mode") if event == CHANGED else data.get("previous_mode")
        after = data.get("to_mode") if event == CHANGED else data.get("mode")
        if before:
            await self._change_overlay("revoke", str(before))
        if after:
            await self._change_overlay("apply", str(after))
        facts = {"mode": after or before, "phase": event.partition(":")[2]}
        await self._coordinator.hooks.emit(COMPLETED, facts)

    async def _change_overlay(self, act: str, name: str) -> None:
        mode = self._discovery.find(name)
        if mode is None or not mode.contributes:
            return
        overlay = self._coordinator.session_state.get(OVERLAY)
        scope = f"mode:{mode.name}"
        try:
            if overlay is None:
                raise LookupError("this session cannot add agents, context and skills for a while")
            done = await maybe_await(
                overlay.apply(scope, dict(mode.contributes)) if act == "apply" else overlay.revoke(scope)
            )
            if getattr(done, "success", True) is False:
                raise RuntimeError(str(getattr(done, "error", None) or f"{act} failed"))
        except Exception as error:
            logger.warning("hooks-mode: what the mode '%s' contributes: %s", mode.name, error)
            await self._coordinator.hooks.emit(FAILED, {"mode": mode.name, "error": str(error)})
