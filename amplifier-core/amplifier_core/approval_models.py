"""What a person is asked for permission with, and the answer; imported when the first request is made."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

__all__ = ["ApprovalRequest", "ApprovalResponse"]


def _check_timeout(seconds: float) -> float:
    # Written so that NaN fails too.
    if not seconds > 0:
        raise ValueError("Timeout must be positive or None (infinite wait)")
    return seconds


def _is_unset(value: object) -> bool:
    return value is None


#: Fields beyond the published ones: dumped only when they are set, so that a published request dumps as published.
_Text = Annotated[str | None, Field(exclude_if=_is_unset)]


class ApprovalRequest(BaseModel):
    """Ask whether something may be done; `timeout` None waits forever.

    The first five fields are the published ones. The kernel sets the others on every request that it makes; a module
    that asks a provider by itself may leave them out.
    """

    model_config = ConfigDict(defer_build=True)

    tool_name: str
    action: str
    details: dict[str, Any] = Field(default_factory=dict)
    risk_level: str
    timeout: Annotated[float, AfterValidator(_check_timeout)] | None = None

    #: Identifies the request in events, in the log and in answers, where it is called `approval_id`.
    id: _Text = None
    #: The session and the span that ask.
    session_id: _Text = None
    span_id: _Text = None
    #: Who asks: policies, through `coordinator.authorize`; a hook, by `ask_user`; a module that asks by itself.
    origin: Annotated[Literal["policy", "hook", "module"] | None, Field(exclude_if=_is_unset)] = None
    #: The policy or hook whose reason this is, and all policies that ask.
    source: _Text = None
    sources: Annotated[tuple[str, ...] | None, Field(exclude_if=_is_unset)] = None
    reason: _Text = None
    #: What the action is done to, on one line: a command, path or host that a policy names; the event of a hook.
    subject: _Text = None
    #: The sentence to show, the answers to offer, and what silence means.
    prompt: _Text = None
    options: Annotated[list[str] | None, Field(exclude_if=_is_unset)] = None
    default: Annotated[Literal["allow", "deny"] | None, Field(exclude_if=_is_unset)] = None
    #: When the timeout passes; None when it never does.
    deadline: Annotated[datetime | None, Field(exclude_if=_is_unset)] = None


class ApprovalResponse(BaseModel):
    """Answer an `ApprovalRequest`; `remember` asks not to be asked this again.

    The first three fields are the published ones.
    """

    model_config = ConfigDict(defer_build=True)

    approved: bool
    reason: str | None = None
    remember: bool = False

    #: The id of the request that this answers.
    approval_id: _Text = None
    #: The option that was chosen, or the words of the person.
    answer: _Text = None
    #: Who decided: a `kind` such as `person` or `rule`, and what goes with it. See docs/security.md.
    answered_by: Annotated[Mapping[str, str] | None, Field(exclude_if=_is_unset)] = None

    @property
    def text(self) -> str:
        """Return the answer as text; without one, `Allow` or `Deny` and the reason."""
        if self.answer is not None:
            return self.answer
        return "Allow" if self.approved else f"Deny: {self.reason}" if self.reason else "Deny"
