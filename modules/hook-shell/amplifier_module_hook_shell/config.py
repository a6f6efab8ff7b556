"""The config keys of the module."""

from typing import Annotated, Any, Literal

from pydantic import Field

from amplifier_kit.config import Config, Count, Seconds, Texts, expects
from amplifier_kit.guard.sandbox.config import SandboxConfig

__all__ = ["HookOptions", "Policy", "ShellHooksConfig"]

Policy = Literal["allow", "deny"]
_Hooks = Annotated[dict[str, Any], expects("a mapping from events to lists")]


class HookOptions(Config):
    """What a single hook says of its time and its faults, in any file; other keys of a hook are read elsewhere."""

    timeout: Seconds | None = None
    on_timeout: Policy | None = None
    on_error: Policy | None = None


class ShellHooksConfig(Config):
    """What a bundle may set."""

    hooks: _Hooks = Field(default_factory=dict, description="Hooks, as under `hooks` in a hooks file.")
    files: Texts = Field((), description="More hooks files; relative ones are relative to the working directory.")
    claude_settings: bool = Field(
        True, description="Whether `.claude/settings.json` and `.claude/settings.local.json` of the project are read."
    )
    timeout: Seconds = Field(30.0, description="Seconds that a hook may take when it does not say itself.")
    on_timeout: Policy | None = Field(
        None, description="The verdict when a hook is not done in time; null: deny where something waits for it."
    )
    on_error: Policy | None = Field(
        None, description="The verdict when a hook cannot be run, is killed, or gives an answer that makes no sense."
    )
    priority: Annotated[int, Field(ge=-1_000_000), expects("a whole number")] = Field(
        20, description="When the handlers run; lower is earlier."
    )
    pass_env: Texts = Field((), description="Variables named like secrets that hooks get all the same.")
    max_output: Count = Field(65_536, description="Bytes of each stream of a hook that are read.")
    working_dir: str | None = Field(None, description="The project, when it is not the session's working directory.")
    sandbox: SandboxConfig | None = Field(
        None, description="The sandbox of hooks that the project brings, when it is not the session's."
    )
