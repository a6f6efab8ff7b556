"""The config keys of the module."""

from typing import Annotated, Final, Literal, get_args

from pydantic import Field

from amplifier_kit.config import Config, Count, PathText, Seconds, Texts, expects
from amplifier_kit.guard.sandbox.config import SandboxConfig

__all__ = ["PROFILES", "BashConfig", "Profile"]

Profile = Literal["strict", "standard", "permissive", "unrestricted"]
PROFILES: Final = get_args(Profile)

_Overrides = Annotated[
    dict[Literal["allow", "block"], Texts | None],
    expects("a mapping with the keys allow and block, each a list of texts"),
]


class BashConfig(Config):
    """What a bundle may set."""

    working_dir: PathText = Field(".", description="Where commands run; relative to the session's working directory.")
    timeout: Seconds = Field(30, description="Seconds that a command may take when the call does not say.")
    require_approval: bool = Field(True, description="Whether commands need approval.")
    safety_profile: Profile = Field("strict", description="Which commands are refused without asking.")
    allowed_commands: Texts = Field((), description="Patterns of commands that run; all others are refused.")
    denied_commands: Texts = Field((), description="Patterns of commands that are refused.")
    safety_overrides: _Overrides | None = Field(
        None, description="Patterns that the profile would refuse and that run (`allow`), or the reverse (`block`)."
    )
    max_output_bytes: Count = Field(100_000, description="Bytes of output that the model gets.")
    max_concurrent: Count | None = Field(None, description="Commands that may run at once; null for no limit.")
    pass_env: Texts = Field((), description="Variables named like secrets that commands get all the same.")
    sandbox: SandboxConfig | None = Field(None, description="The sandbox, when it is not the session's.")

    def overrides(self, kind: Literal["allow", "block"]) -> tuple[str, ...]:
        """Return the patterns of `safety_overrides` that `allow` or `block`."""
        return (self.safety_overrides or {}).get(kind) or ()
