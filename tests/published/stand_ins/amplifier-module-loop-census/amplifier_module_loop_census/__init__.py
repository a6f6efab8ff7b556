"""The plain loop of the published guides: one request after the other, tools through `tool:pre` and `tool:post`."""

import json
from typing import Any

from amplifier_core import ChatRequest, HookRegistry, Message, ToolSpec

__amplifier_module_type__ = "orchestrator"


class CensusLoop:
    def __init__(self, config: dict[str, Any]) -> None:
        self.max_iterations = config.get("max_iterations", 10)

    async def execute(
        self,
        prompt: str,
        context: Any,
        providers: dict[str, Any],
        tools: dict[str, Any],
        hooks: HookRegistry,
        coordinator: Any = None,
        **kwargs: Any,
    ) -> str:
        await hooks.emit("prompt:submit", {"prompt": prompt})
        await context.add_message({"role": "user", "content": prompt})
        provider = min(providers.values(), key=lambda one: getattr(one, "priority", 100))
        specs = [
            ToolSpec(name=tool.name, description=tool.description, parameters=tool.input_schema)
            for tool in tools.values()
        ]
        text = ""
        for _ in range(self.max_iterations):
            await hooks.emit("provider:request", {"provider": provider.name})
            messages = [Message(**message) for message in await context.get_messages_for_request(provider=provider)]
            response = await provider.complete(ChatRequest(messages=messages, tools=specs or None))
            calls = provider.parse_tool_calls(response)
            text = "".join(block.text for block in response.content if getattr(block, "type", "") == "text")
            if not calls:
                break
            await context.add_message(
                {
                    "role": "assistant",
                    "content": text,
                    "tool_calls": [{"id": call.id, "tool": call.name, "arguments": call.arguments} for call in calls],
                }
            )
            for call in calls:
                await context.add_message(await self._call(call, tools, hooks, coordinator))
        await context.add_message({"role": "assistant", "content": text})
        await hooks.emit("prompt:complete", {"response_preview": text[:200], "length": len(text)})
        return text

    async def _call(self, call: Any, tools: dict[str, Any], hooks: HookRegistry, coordinator: Any) -> dict[str, Any]:
        pre = await hooks.emit(
            "tool:pre", {"tool_name": call.name, "tool_input": call.arguments, "tool_call_id": call.id}
        )
        if coordinator is not None:
            pre = await coordinator.process_hook_result(pre, "tool:pre", call.name)
        if pre.action == "deny":
            content = f"Denied: {pre.reason}"
        else:
            result = await tools[call.name].execute(call.arguments)
            await hooks.emit(
                "tool:post", {"tool_name": call.name, "tool_input": call.arguments, "result": result.model_dump()}
            )
            content = result.get_serialized_output()
        return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": json.dumps(content)}


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    await coordinator.mount("orchestrator", CensusLoop(config or {}))
