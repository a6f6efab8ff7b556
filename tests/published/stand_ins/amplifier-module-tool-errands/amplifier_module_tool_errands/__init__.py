"""A tool that uses what apps register, imports the published foundation, and announces an event."""

from typing import Any, ClassVar

from amplifier_core import ToolResult
from amplifier_foundation import ProviderPreference

__amplifier_module_type__ = "tool"


class ErrandTool:
    name = "errand"
    description = "Send an agent on an errand."
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"agent": {"type": "string"}, "errand": {"type": "string"}},
    }

    def __init__(self, coordinator: Any, config: dict[str, Any]) -> None:
        self.coordinator = coordinator
        self.config = config

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        spawn = self.coordinator.get_capability("session.spawn")
        if spawn is None:
            return ToolResult(success=False, error={"message": "no session.spawn"})
        result = await spawn(
            agent_name=input["agent"],
            instruction=input["errand"],
            parent_session=self.coordinator.session,
            agent_configs=self.coordinator.config.get("agents", {}),
            sub_session_id=None,
            orchestrator_config=None,
            provider_preferences=[ProviderPreference("mock", "m*")],
            session_metadata={"sent_by": "errand"},
        )
        return ToolResult(success=True, output=result["output"])


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    events = coordinator.get_capability("observability.events") or []
    coordinator.register_capability("observability.events", [*events, "errand:sent"])
    coordinator.mount_points["tools"]["errand"] = ErrandTool(coordinator, config or {})
