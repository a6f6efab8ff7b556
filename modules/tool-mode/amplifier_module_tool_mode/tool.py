"""The tool `mode`: list the modes, show the active one, and change it when the gate allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from amplifier_core.models import ToolResult
from amplifier_kit.guard.authorization import kernel_has_policies
from amplifier_kit.modes import ACTIVATED, CHANGED, CLEARED, DISCOVERY, activate, active_mode, clear, tool_lists

DENIED: Final = "mode:transition_denied"
GATED: Final = "mode:activation_gated"
EVENTS: Final = (ACTIVATED, CHANGED, CLEARED, DENIED, GATED)

_DESCRIPTION: Final = """\
Change how this session works. A mode limits which tools may run and brings guidance for one kind of work.

- list: the modes there are.
- current: the active mode and its tools.
- set: activate the mode `name`. Do so when the user wants it, or the work clearly calls for it.
- clear: leave the mode.

A change may be denied at first; the answer says whether you may try again or the user has to make it."""


class ModeTool:
    """Change the mode of one session for its model."""

    name = "mode"
    description = _DESCRIPTION
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "operation": {"type": "string", "enum": ["set", "clear", "list", "current"]},
            "name": {"type": "string", "description": "The mode to activate; needed to set"},
        },
        "required": ["operation"],
    }

    def __init__(self, coordinator: Any, gate_policy: str) -> None:
        self._coordinator = coordinator
        self._gate_policy = gate_policy
        #: The mode that the model itself activated last: any other one is the user's.
        self._own: str | None = None
        #: Changes that were denied once, each as the mode before and the one after.
        self._tried: set[tuple[str | None, str | None]] = set()

    def on_change(self, event: str, data: Any) -> None:
        """Forget which mode the model chose: the user may have chosen the same since."""
        self._own = None

    def action_for(self, input: dict[str, Any]) -> str:
        """Return the action of a call: to leave a mode that the user chose is another one than all else."""
        is_change = input.get("operation") in ("set", "clear")
        return "tool.mode_of_user" if is_change and self._is_of_user else "tool.mode"

    @property
    def _is_of_user(self) -> bool:
        return active_mode(self._coordinator) not in (None, self._own)

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Do what `operation` says; what is wrong with the input is in the result."""
        given = input if isinstance(input, Mapping) else {}
        operations = {"set": self._set, "clear": self._clear, "list": self._list, "current": self._current}
        operation = given.get("operation")
        run = operations.get(operation) if isinstance(operation, str) else None
        if run is None:
            shown = "nothing" if operation is None else repr(operation)[:100]
            return _failure("invalid_operation", f"'operation' must be one of {', '.join(operations)}, got {shown}")
        if self._discovery is None:
            return _failure("hooks_mode_not_mounted", "this session has no modes: its bundle lacks hooks-mode")
        return await run(given.get("name"))

    @property
    def _discovery(self) -> Any:
        return self._coordinator.session_state.get(DISCOVERY)

    async def _list(self, name: Any) -> ToolResult:
        modes = [
            {"name": mode, "description": description, "source": source}
            for mode, description, source, *more in self._discovery.list_modes()
            if not more or more[0]
        ]
        return ToolResult(output={"active_mode": active_mode(self._coordinator), "modes": modes})

    async def _current(self, name: Any) -> ToolResult:
        mode = self._active()
        if mode is None:
            return ToolResult(output={"active_mode": active_mode(self._coordinator)})
        facts = {"active_mode": mode.name, "description": mode.description, **tool_lists(mode)}
        return ToolResult(output={**facts, "default_action": mode.default_action})

    async def _set(self, name: Any) -> ToolResult:
        if not isinstance(name, str) or not name.strip():
            return _failure("missing_name", "'name' is missing: say which mode to activate; `list` shows them")
        mode = self._discovery.find(name.strip())
        if mode is None:
            known = ", ".join(each[0] for each in self._discovery.list_modes())
            return _failure("mode_not_found", f"there is no mode {name!r:.100}; there are {known or 'none'}")
        active = self._active()
        allowed = getattr(active, "allowed_transitions", None)
        if active is not None and allowed is not None and mode.name not in (*allowed, active.name):
            await self._emit(DENIED, {"from_mode": active.name, "to_mode": mode.name})
            targets = ", ".join(allowed) or "no other mode"
            return _failure("transition_denied", f"the mode {active.name} may only be followed by {targets}")
        if (refusal := await self._gate(mode.name)) is not None:
            return refusal
        before = active_mode(self._coordinator)
        await activate(self._coordinator, mode)
        if before != mode.name:
            self._own = mode.name
        lists = tool_lists(mode)
        restricted = [*lists["warn_tools"], *lists["confirm_tools"], *lists["block_tools"]]
        return ToolResult(
            output={
                "status": "activated",
                "mode": mode.name,
                "description": mode.description,
                "safe_tools": lists["safe_tools"],
                "restricted_tools": restricted,
                "default_action": mode.default_action,
                "note": "The guidance of the mode comes with your next request.",
            }
        )

    async def _clear(self, name: Any) -> ToolResult:
        previous = active_mode(self._coordinator)
        if previous is None:
            return ToolResult(output={"status": "cleared", "previous_mode": None, "message": "No mode was active."})
        if getattr(self._active(), "allow_clear", True) is False:
            await self._emit(DENIED, {"from_mode": previous, "to_mode": None})
            return _failure("clear_denied", f"only the user may leave the mode {previous}: /mode off")
        if (refusal := await self._gate(None)) is not None:
            return refusal
        await clear(self._coordinator)
        message = f"The mode {previous} is off."
        return ToolResult(output={"status": "cleared", "previous_mode": previous, "message": message})

    async def _gate(self, target: str | None) -> ToolResult | None:
        """Return why a change is not made now, None when it may be made."""
        current = active_mode(self._coordinator)
        change = (current, target)
        # Who leaves a mode of the user has been allowed to do just that.
        is_allowed = self._is_of_user and kernel_has_policies()
        is_passed = self._gate_policy == "warn" and (change in self._tried or is_allowed)
        if self._gate_policy == "auto" or target == current or is_passed:
            self._tried.discard(change)
            return None
        self._tried.add(change)
        facts = {"gate_policy": self._gate_policy, "target_mode": target, "from_mode": current}
        await self._emit(GATED, facts)
        how = f"/mode {target}" if target is not None else "/mode off"
        if self._gate_policy == "warn":
            instruction = f"Tell the user why you want this, then call again. They can do it themselves with {how}."
        else:
            instruction = f"Only the user changes the mode here: ask them to type {how}."
        denied = {"denied_mode": target} if target is not None else {}
        output = {"status": "denied", **denied, "user_instruction": instruction}
        return ToolResult(success=False, output=output, error={"message": instruction, "code": "gated"})

    def _active(self) -> Any:
        name = active_mode(self._coordinator)
        return self._discovery.find(name) if name is not None else None

    async def _emit(self, event: str, facts: dict[str, Any]) -> None:
        await self._coordinator.hooks.emit(event, facts)


def _failure(code: str, message: str) -> ToolResult:
    return ToolResult(success=False, output=message, error={"message": message, "code": code})
