"""The tools that models call: one for each thing that a server offers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from amplifier_core import ToolResult
from amplifier_module_tool_mcp._answers import Answer, structured_text
from amplifier_module_tool_mcp._catalogue import Offer, is_of_form
from amplifier_module_tool_mcp._connection import Connection
from amplifier_module_tool_mcp._faults import ServerFault
from amplifier_module_tool_mcp._variables import Mask

#: Faults that may have come after the server had begun to do what was asked.
_UNCERTAIN: Final = frozenset({"timeout", "crashed", "disconnected", "flood", "malformed", "http_error"})
#: What the results say of each fault; others are `mcp_unavailable`.
_CODES: Final = {"timeout": "mcp_timeout", "circuit_open": "mcp_circuit_open", "protocol_error": "mcp_protocol_error"}


class View(NamedTuple):
    """What of a server's answers is shown, and how: up to so many characters, secrets hidden, the sandbox named."""

    limit: int
    mask: Callable[[], Mask]
    #: Says that the sandbox stopped something, going by what a tool said that failed.
    stopped: Callable[[str], Awaitable[str]]


class McpTool:
    """Stand for one tool, resource or prompt of a server."""

    #: What rules are written about, together with the name of the tool.
    action = "mcp.call"
    #: Calls keep to the deadline of their server, so that the result tells what happened.
    deadline = None

    def __init__(self, name: str, offer: Offer, connection: Connection, view: View) -> None:
        self.name = name
        self.offer = offer
        self._connection = connection
        self._view = view

    @property
    def description(self) -> str:
        """Return what a model needs to know; the words are the server's."""
        server = self._connection.spec.name
        said = self.offer.description
        if self.offer.kind == "tool":
            return said or f"The tool {self.offer.name} of the MCP server {server}."
        if self.offer.kind == "prompt":
            return f"Return the prompt {self.offer.name} of the MCP server {server}. {said}".strip()
        where = "address, of the form " if self.offer.kind == "template" else "default address "
        return (
            f"Read the resource {self.offer.name} of the MCP server {server} ({where}{self.offer.uri}). {said}".strip()
        )

    @property
    def input_schema(self) -> dict[str, Any]:
        """Return the schema of the input."""
        return dict(self.offer.schema)

    def get_metadata(self) -> dict[str, Any]:
        """Return hints for approval decisions."""
        return {"requires_approval": True, "mcp_server": self._connection.spec.name, "mcp_tool": self.offer.name}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Ask the server; whatever goes wrong is a result."""
        ask = {"tool": self._called, "prompt": self._prompted}.get(self.offer.kind, self._read)
        try:
            return await self._connection.use(lambda client: ask(client, input))
        except ServerFault as fault:
            return self._failure(fault)

    async def _called(self, client: Any, input: dict[str, Any]) -> ToolResult:
        result = await client.call_tool(self.offer.name, input)
        answer = self._answer()
        answer.add(result.content)
        if answer.is_empty and result.structured_content is not None:
            answer.add_text(structured_text(result.structured_content))
        if result.is_error and (note := await self._view.stopped(answer.text)):
            answer.add_text(note)
        return answer.result(self._connection.spec.name, self.offer.name, is_error=bool(result.is_error))

    async def _read(self, client: Any, input: dict[str, Any]) -> ToolResult:
        uri = input.get("uri") or (self.offer.uri if self.offer.kind == "resource" else "")
        if not isinstance(uri, str) or not uri:
            raise ServerFault("protocol_error", "`uri` must be the address of a resource")
        if self.offer.kind == "resource" and uri != self.offer.uri:
            raise ServerFault("protocol_error", f"this tool reads {self.offer.uri} alone")
        if self.offer.kind == "template" and not is_of_form(uri, self.offer.uri):
            raise ServerFault("protocol_error", f"this tool reads addresses of the form {self.offer.uri} alone")
        result = await client.read_resource(uri)
        answer = self._answer()
        for contents in result.contents:
            for text in answer.resource(contents):
                answer.add_text(text)
        return answer.result(self._connection.spec.name, self.offer.name)

    async def _prompted(self, client: Any, input: dict[str, Any]) -> ToolResult:
        arguments = {key: value if isinstance(value, str) else structured_text(value) for key, value in input.items()}
        result = await client.get_prompt(self.offer.name, arguments)
        answer = self._answer()
        for message in result.messages:
            answer.add_text(f"{message.role}:")
            answer.add([message.content])
        return answer.result(self._connection.spec.name, self.offer.name)

    def _answer(self) -> Answer:
        return Answer(self._view.limit, self._view.mask())

    def _failure(self, fault: ServerFault) -> ToolResult:
        server = self._connection.spec.name
        reason = self._view.mask().diagnostic(fault.reason)
        message = f"MCP server {server!r}: {reason}"
        if fault.code in _UNCERTAIN:
            message += "; the call may or may not have taken effect"
        code = _CODES.get(fault.code, "mcp_unavailable")
        error = {"message": message, "code": code, "mcp_server": server, "mcp_fault": fault.code}
        return ToolResult(success=False, output=message, error=error)
