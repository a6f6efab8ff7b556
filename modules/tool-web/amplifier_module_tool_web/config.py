"""The config keys of the module."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from amplifier_kit.config import Config, Count, PathText, Texts, expects

__all__ = ["WebConfig"]


def _listed(value: Any) -> Any:
    """Return one host in a list: it may stand without one."""
    return [value] if isinstance(value, str) else value


_Hosts = Annotated[
    Texts,
    BeforeValidator(_listed),
    AfterValidator(lambda hosts: tuple(host.strip().lower() for host in hosts)),
    expects("a list of host names"),
]
_Seconds = Annotated[float, Field(gt=0, lt=86400), expects("a number of seconds above 0, less than a day")]


class WebConfig(Config):
    """What a bundle may set."""

    timeout: _Seconds = Field(10.0, description="Seconds for one fetch, redirects included, or for one search.")
    default_limit: Count = Field(204_800, description="Bytes of text that a call returns when it does not say.")
    allowed_domains: _Hosts = Field((), description="Hosts that may be fetched, and no others; empty for all.")
    blocked_domains: _Hosts = Field((), description="Hosts that are never fetched.")
    extract_text: bool = Field(True, description="Turn HTML pages into readable Markdown.")
    max_results: Count = Field(5, description="Results of one search.")
    search_engine: Literal["auto", "brave", "tavily", "duckduckgo", "none"] = Field(
        "auto", description="Who is asked by `web_search`: auto for the first whose key is set, else duckduckgo."
    )
    private_hosts: _Hosts = Field((), description="Hosts of private networks that may be fetched all the same.")
    max_redirects: Annotated[int, Field(ge=0)] = Field(5, description="Redirects that are followed.")
    max_bytes: Count = Field(10_485_760, description="Bytes that are read of one answer.")
    max_save_bytes: Count = Field(104_857_600, description="Bytes of one answer that is saved to a file.")
    working_dir: PathText | None = Field(
        None, description="Where relative paths of saved files begin; null for the session's working directory."
    )
