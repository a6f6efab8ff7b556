"""The tools that models call, one for each thing that a server offers, and the results made of a server's answers."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final

from amplifier_core import ToolResult
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_tool_mcp.catalogue import Offer, is_of_form
from amplifier_module_tool_mcp.connection import Connection
from amplifier_module_tool_mcp.faults import ServerFault
from amplifier_module_tool_mcp.server_entry import Mask

_MOST_IMAGES: Final = 20
_LARGEST_IMAGE: Final = 5 << 20


class Answer:
    """Collect the parts of one answer."""

    def __init__(self, limit: int, mask: Mask) -> None:
        self._limit = limit
        self._mask = mask
        self._texts: list[str] = []
        self._images: list[dict[str, Any]] = []

    def add(self, blocks: Iterable[Any]) -> None:
        """Add blocks of any kind of the protocol."""
        for block in blocks:
            self._texts.extend(self._parts(block))

    def add_text(self, text: str) -> None:
        """Add a text of our own."""
        self._texts.append(text)

    @property
    def text(self) -> str:
        """Return all texts."""
        return "\n".join(self._texts)

    @property
    def is_empty(self) -> bool:
        """Return whether the answer is empty."""
        return not self._texts and not self._images

    def result(self, server: str, name: str, *, is_error: bool = False) -> ToolResult:
        """Return the result; one that is an error says so by the server's own words."""
        whole = _clean(self._mask.answer(self.text))
        is_cut = len(whole) > self._limit
        text = whole
        if is_cut:
            text = f"{whole[: self._limit]}\n[... {len(whole) - self._limit:,} characters are left out here ...]"
        output = {
            "content": text,
            "mcp_server": server,
            "mcp_tool": name,
            "content_size_chars": len(whole),
            "content_truncated": is_cut,
        }
        error = {"message": text or "the tool failed and did not say why", "code": "mcp_tool_error"}
        return ToolResult(
            success=not is_error,
            output=output,
            error=error if is_error else None,
            content=list(self._images) or None,
        )

    def _parts(self, block: Any) -> Iterator[str]:
        kind = getattr(block, "type", None)
        if kind == "text":
            yield block.text
        elif kind == "image":
            yield from self._image(block.data, block.mime_type)
        elif kind == "audio":
            yield f"[audio of type {block.mime_type}, {len(block.data) * 3 // 4:,} bytes: left out]"
        elif kind == "resource_link":
            yield f"[resource {block.name}: {block.uri}]"
        elif kind == "resource":
            yield from self.resource(block.resource)
        else:
            yield f"[a block of type {kind!r}: left out]"

    def resource(self, contents: Any) -> Iterator[str]:
        """Yield the texts of a resource; an image is added as such."""
        text = getattr(contents, "text", None)
        kind = getattr(contents, "mime_type", None) or "unknown type"
        if text is not None:
            yield text
        elif kind.startswith("image/"):
            yield from self._image(contents.blob, kind)
        else:
            yield f"[{contents.uri}: {len(contents.blob) * 3 // 4:,} bytes of {kind}: left out]"

    def _image(self, data: str, kind: str) -> Iterator[str]:
        problem = self._problem(data, kind)
        if problem:
            yield f"[image left out: {problem}]"
        else:
            source = {"type": "base64", "media_type": kind, "data": data}
            self._images.append({"type": "image", "source": source})

    def _problem(self, data: str, kind: str) -> str:
        if len(self._images) >= _MOST_IMAGES:
            return f"more than {_MOST_IMAGES} images"
        if len(data) * 3 // 4 > _LARGEST_IMAGE:
            return f"more than {_LARGEST_IMAGE:,} bytes"
        try:
            is_sound = base64.b64encode(base64.b64decode(data, validate=True)).decode("ascii") == data
        except (binascii.Error, ValueError):
            is_sound = False
        return "" if is_sound and data and kind.startswith("image/") else f"invalid image data of type {kind!r}"


def structured_text(value: Any) -> str:
    """Return structured content as text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _clean(text: str) -> str:
    """Return text that can be stored and sent: half a surrogate pair cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


#: Faults that may have come after the server had begun to do what was asked.
_UNCERTAIN: Final = frozenset({"timeout", "crashed", "disconnected", "flood", "malformed", "http_error"})
#: What the results say of each fault; others are `mcp_unavailable`.
_CODES: Final = {"timeout": "mcp_timeout", "circuit_open": "mcp_circuit_open", "protocol_error": "mcp_protocol_error"}


class View(NamedTuple):
    """How a server's answers are shown: up to a limit, without secrets, with a note if the sandbox blocked a call."""

    limit: int
    mask: Callable[[], Mask]
    #: Returns a note if the sandbox blocked something, according to the answer of a failed tool.
    blocked_note: Callable[[str], Awaitable[str]]


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
        """Call the server; every failure is a result."""
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
        if result.is_error and (note := await self._view.blocked_note(answer.text)):
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
