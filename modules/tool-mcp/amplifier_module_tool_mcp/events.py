"""The events of this module."""

from __future__ import annotations

from typing import Final

CONNECTED: Final = "mcp:connected"
FAILED: Final = "mcp:failed"
DISCONNECTED: Final = "mcp:disconnected"
TOOLS_CHANGED: Final = "mcp:tools_changed"
RENAMED: Final = "mcp:renamed"
IGNORED: Final = "mcp:ignored"
#: Of the sandbox, which is brought in when a server is started.
SANDBOX_STATUS: Final = "sandbox:status"
SANDBOX_BLOCKED: Final = "sandbox:blocked"
EVENTS: Final = (CONNECTED, FAILED, DISCONNECTED, TOOLS_CHANGED, RENAMED, IGNORED, SANDBOX_STATUS, SANDBOX_BLOCKED)
