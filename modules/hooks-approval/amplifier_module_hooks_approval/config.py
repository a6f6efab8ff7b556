"""The config keys of the module. Invalid values are reported and read in the strictest way."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr

from amplifier_kit.config import Config, PathText, Seconds, expects, salvage_config

__all__ = ["DEFAULT_RULES", "ApprovalConfig"]

#: The rules when the config has none.
DEFAULT_RULES: Final = (
    {"pattern": "ls*", "action": "auto_approve"},
    {"pattern": "pwd", "action": "auto_approve"},
    {"pattern": "echo*", "action": "auto_approve"},
)

_ACTIONS: Final = {
    **dict.fromkeys(("allow", "approve", "auto_approve", "continue"), "allow"),
    **dict.fromkeys(("deny", "block", "auto_deny"), "deny"),
}

_INSTEAD: Final = {False: "read in the strictest way", True: "ignored"}


def _action(value: Any) -> Any:
    return _ACTIONS.get(value.strip().lower(), value) if isinstance(value, str) else value


def _requirement(entry: Any) -> Any:
    return entry.get("require_approval") if isinstance(entry, Mapping) else entry


DefaultAction = Literal["allow", "deny"]
_NeedsApproval = Annotated[bool | None, BeforeValidator(_requirement), expects("true or false")]


class ApprovalConfig(Config):
    """The config keys of the module."""

    rules: Any = Field(DEFAULT_RULES, description="The rules, as they are written.")
    default_action: Annotated[DefaultAction, BeforeValidator(_action)] = Field(
        "deny", description="The verdict when the provider does not answer in time."
    )
    default_timeout: Seconds | None = Field(
        None, description="Seconds that a provider has to answer; null for as long as it takes."
    )
    audit: Any = Field(None, description="No effect: the events are the audit.")
    policy_driven_only: bool = Field(False, description="Ask by rules alone, not by names and attributes of tools.")
    tools: dict[str, _NeedsApproval] = Field(
        default_factory=dict, description="Whether a tool needs approval, by name: `{require_approval: true}`."
    )
    working_dir: PathText | None = Field(
        None, description="Where relative paths begin; null for the session's working directory."
    )

    _asks_for_all: bool = PrivateAttr(default=False)

    @property
    def asks_for_all(self) -> bool:
        """Return whether every tool needs approval, because the config does not say which."""
        return self._asks_for_all

    @classmethod
    def from_config(cls, config: Any) -> tuple[Self, list[str]]:
        """Return the config and its problems; never raises, since without this module nothing is asked."""
        is_mapping = config is None or isinstance(config, Mapping)
        settings, problems = salvage_config(cls, config if is_mapping else {"rules": []})
        texts = [f"{problem.text}; it is {_INSTEAD[problem.is_unknown]}" for problem in problems]
        if not is_mapping:
            texts.append(f"the config must be a mapping, got {type(config).__name__}: the default rules do not apply")
        unclear = [problem.keys for problem in problems if problem.keys[:1] == ("tools",)]
        required = {str(keys[1]): True for keys in unclear if len(keys) > 1}
        settings = settings.model_copy(update={"tools": {**settings.tools, **required}})
        settings._asks_for_all = any(len(keys) == 1 for keys in unclear)
        return settings, texts
