"""The question to an approval provider and its answer."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

__all__ = ["ApprovalRequest", "ApprovalResponse"]


def _check_timeout(seconds: float) -> float:
    # Written so that NaN fails too.
    if not seconds > 0:
        raise ValueError("Timeout must be positive or None (infinite wait)")
    return seconds


class ApprovalRequest(BaseModel):
    """Ask whether a tool may do something; `timeout` None waits for ever."""

    model_config = ConfigDict(defer_build=True)

    tool_name: str
    action: str
    details: dict[str, Any] = Field(default_factory=dict)
    risk_level: str
    timeout: Annotated[float, AfterValidator(_check_timeout)] | None = None


class ApprovalResponse(BaseModel):
    """Answer an `ApprovalRequest`; `remember` asks not to be asked this again."""

    model_config = ConfigDict(defer_build=True)

    approved: bool
    reason: str | None = None
    remember: bool = False
