"""The config keys of the module."""

import os
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from amplifier_kit.config import Config, Count, Seconds, expects
from amplifier_kit.guard.sandbox.config import SandboxConfig

__all__ = ["McpConfig", "Retry", "Visibility"]

_TRUE: Final = ("1", "true", "yes", "on")


def _is_verbose() -> bool:
    return os.environ.get("AMPLIFIER_MCP_VERBOSE", "").lower() in _TRUE


class Retry(Config):
    """How often a server is tried, and when it is left alone."""

    attempts: Count = Field(3, description="Times that a server is tried in a row.")
    initial_delay: Seconds = Field(1.0, description="Seconds before the second attempt.")
    max_delay: Seconds = Field(60.0, description="Longest time between two attempts.")
    failures: Count = Field(5, description="Failed calls after which a server is left alone.")
    cooldown: Seconds = Field(60.0, description="Seconds that it is left alone.")


class Visibility(Config):
    """What the model learns of the servers at each request."""

    enabled: bool = Field(True, description="Whether the model is shown which servers there are.")
    inject_role: Literal["user", "system"] = Field("user", description="Role of that list.")
    max_servers_visible: Count = Field(50, description="Servers that are named.")
    ephemeral: bool = Field(True, description="Whether the list is left out of the history.")
    priority: int = Field(20, description="When the handler runs; lower is earlier.")


class McpConfig(Config):
    """What a bundle may set."""

    servers: Annotated[dict[str, Any], expects("a mapping of servers")] = Field(
        default_factory=dict, repr=False, description="Servers by name, over those of the `mcp.json` files."
    )
    verbose_servers: bool = Field(
        default_factory=_is_verbose, description="Show what servers print; also `AMPLIFIER_MCP_VERBOSE`."
    )
    server_log_dir: Annotated[str, Field(pattern=r"^[^\x00]*$"), expects("a path")] = Field(
        "", description="Where servers' output is kept; empty for the usual place."
    )
    max_content_size: Count = Field(50_000, description="Characters of one result that the model gets.")
    max_message_bytes: Count = Field(8 << 20, description="Bytes of one message of a server.")
    max_tools: Count = Field(128, description="Tools, resources and prompts of one server.")
    autostart: bool = Field(True, description="Start servers with the session, not only when they are needed.")
    startup_wait: Annotated[float, Field(ge=0, allow_inf_nan=False), expects("a number of seconds")] = Field(
        5.0, description="Seconds that a single prompt waits for servers whose tools are not known yet; 0 to not wait."
    )
    connect_timeout: Seconds = Field(30.0, description="Seconds to connect.")
    call_timeout: Seconds = Field(60.0, description="Seconds for one call.")
    visibility: Visibility = Field(default_factory=Visibility.model_construct)
    retry: Retry = Field(default_factory=Retry.model_construct)
    sandbox: SandboxConfig | None = Field(None, description="The sandbox of servers, when it is not the session's.")
