"""A server with one of everything; the first argument is `stdio`, or the port to serve HTTP on."""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("sample", version="1")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("this tool always fails")


@server.tool()
def environment() -> list[str]:
    """Name the variables, and say the token."""
    return [*sorted(os.environ), os.environ.get("SAMPLE_TOKEN", "")]


@server.tool()
def crash() -> str:
    """End the server without a word."""
    os._exit(7)


@server.tool()
async def hang() -> str:
    """Never answer."""
    await asyncio.sleep(100_000)
    return "late"


@server.tool()
def long(count: int) -> str:
    """Say a lot."""
    return "x" * count


@server.tool()
def picture() -> Image:
    """Show a pixel."""
    return Image(data=base64.b64decode(PIXEL), format="png")


@server.tool()
def leave(seconds: str) -> int:
    """Leave a process behind that has left its group."""
    return subprocess.Popen(["sleep", seconds], start_new_session=True, stdout=subprocess.DEVNULL).pid


@server.tool()
def write(path: str) -> str:
    """Write a file."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write("written")
    except OSError as error:
        raise ToolError(str(error)) from error
    return "written"


@server.tool()
async def grow(context: Context) -> str:
    """Have one more tool, and say so."""

    def grown() -> str:
        """Be new."""
        return "grown"

    server.add_tool(grown)
    server.remove_tool("fail")
    await context.notify_tools_changed()
    return "there is one more"


@server.resource("note://hello")
def hello() -> str:
    """A note."""
    return "the text of the note"


@server.resource("note://{name}/text")
def note(name: str) -> str:
    """A note by its name."""
    return f"the note {name}"


@server.prompt()
def review(code: str) -> str:
    """Ask for a review."""
    return f"Please review {code}"


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", port=int(sys.argv[1]), host="127.0.0.1")
