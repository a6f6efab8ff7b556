"""The smallest honest agent loop: model, tools, model, answer."""

from typing import Any

from amplifier_core import ChatRequest, ChatResponse, Message, ToolCall, ToolResult, ToolSpec
from amplifier_core.events import (
    EXECUTION_END,
    EXECUTION_START,
    ORCHESTRATOR_COMPLETE,
    PROMPT_COMPLETE,
    PROMPT_SUBMIT,
    PROVIDER_REQUEST,
    PROVIDER_RESPONSE,
    TOOL_ERROR,
    TOOL_POST,
    TOOL_PRE,
)

__amplifier_module_type__ = "orchestrator"

NAME = "loop-tiny"


class TinyLoop:
    """Call the first provider until it stops asking for tools."""

    def __init__(self, coordinator: Any, max_iterations: int) -> None:
        self._coordinator = coordinator
        self._max_iterations = max_iterations

    async def execute(self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any, **kwargs: Any) -> str:
        answer, status = "", "error"
        await hooks.emit(EXECUTION_START, {"prompt": prompt})
        try:
            answer = await self._turn(prompt, context, next(iter(providers.values())), tools)
            status = "completed"
        finally:
            await hooks.emit(EXECUTION_END, {"response": answer, "status": status})
        return answer

    async def _turn(self, prompt: str, context: Any, provider: Any, tools: Any) -> str:
        submitted = await self._emit(PROMPT_SUBMIT, {"prompt": prompt})
        if submitted.action == "deny":
            return f"Operation denied: {submitted.reason}"
        await context.add_message({"role": "user", "content": prompt})
        answer, status, iteration = "", "incomplete", 0
        for iteration in range(1, self._max_iterations + 1):
            response = await self._ask(context, provider, tools, iteration)
            calls = provider.parse_tool_calls(response)
            answer = "".join(getattr(block, "text", "") for block in response.content)
            await context.add_message(_assistant_message(answer, calls))
            if not calls:
                status = "success"
                break
            for call in calls:
                result = await self._run(call, tools)
                message = {"role": "tool", "tool_call_id": call.id, "content": result.get_serialized_output()}
                await context.add_message(message)
        await self._emit(PROMPT_COMPLETE, {"response_preview": answer[:200], "length": len(answer)})
        await self._emit(ORCHESTRATOR_COMPLETE, {"orchestrator": NAME, "turn_count": iteration, "status": status})
        return answer

    async def _ask(self, context: Any, provider: Any, tools: Any, iteration: int) -> ChatResponse:
        await self._emit(PROVIDER_REQUEST, {"provider": provider.name, "iteration": iteration})
        messages = [Message(**message) for message in await context.get_messages_for_request(provider=provider)]
        specs = [ToolSpec(name=t.name, description=t.description, parameters=t.input_schema) for t in tools.values()]
        response: ChatResponse = await provider.complete(ChatRequest(messages=messages, tools=specs))
        usage = response.usage.model_dump() if response.usage else None
        await self._emit(PROVIDER_RESPONSE, {"provider": provider.name, "usage": usage})
        return response

    async def _run(self, call: ToolCall, tools: Any) -> ToolResult:
        """Run one tool call: ask the hooks, ask for permission, then run. A refusal is a result, not an error."""
        tool = tools.get(call.name)
        if tool is None:
            return _failure(f"There is no tool {call.name!r}; there are: {', '.join(tools) or 'none'}")
        payload = {"tool_name": call.name, "tool_input": call.arguments, "tool_call_id": call.id}
        before = await self._emit(TOOL_PRE, payload)
        if before.action == "deny":
            return _failure(f"Denied by hook: {before.reason}")
        payload["tool_input"] = (before.data or payload).get("tool_input", call.arguments)
        action = getattr(tool, "action", f"tool.{call.name}")
        permission = await self._coordinator.authorize(action, {"input": payload["tool_input"]})
        if not permission.granted:
            return _failure(f"Not allowed: {permission.reason}")
        try:
            result: ToolResult = await tool.execute(payload["tool_input"])
        except Exception as error:
            details = {"type": type(error).__name__, "msg": str(error)}
            await self._emit(TOOL_ERROR, {**payload, "error": details})
            return _failure(f"{call.name} failed: {error}")
        await self._emit(TOOL_POST, {**payload, "result": result.safe_hook_presentation()})
        return result

    async def _emit(self, event: str, data: dict[str, Any]) -> Any:
        result = await self._coordinator.hooks.emit(event, data)
        return await self._coordinator.process_hook_result(result, event, NAME)


def _assistant_message(answer: str, calls: list[ToolCall]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer}
    if calls:
        message["tool_calls"] = [{"id": c.id, "tool": c.name, "arguments": c.arguments} for c in calls]
    return message


def _failure(message: str) -> ToolResult:
    return ToolResult(success=False, error={"message": message})


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    max_iterations = (config or {}).get("max_iterations", 10)
    await coordinator.mount("orchestrator", TinyLoop(coordinator, max_iterations))
