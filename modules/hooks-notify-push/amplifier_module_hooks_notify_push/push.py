"""Post a notice to a server."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, Field

from amplifier_kit.config import Config, Texts, expects
from amplifier_kit.engine.turn_notice import TurnNotice

__all__ = ["NAME", "TOPIC", "Push", "PushConfig"]

NAME: Final = "hooks-notify-push"
#: Whoever knows the topic reads the notices, so that it is a secret, and never config.
TOPIC: Final = "AMPLIFIER_NTFY_TOPIC"
_SECONDS: Final = 10.0
_LONGEST: Final = 500


def _address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:  # a password would be logged
        raise ValueError("not an address")
    return value.rstrip("/")


Address = Annotated[
    str, AfterValidator(_address), expects("an address that begins with https:// or http://, without a user")
]


class PushConfig(Config):
    """The config keys of the module."""

    server: Address = Field("https://ntfy.sh", description="The server; the topic is the variable of the environment.")
    priority: Literal["min", "low", "default", "high", "max"] = Field("default", description="How urgent it is.")
    tags: Texts = Field(("robot",), description="Tags, which are shown as symbols.")


class PushError(Exception):
    """The server did not take a notice; the message does not name the topic."""


class Push:
    """Send notices to one topic."""

    def __init__(self, settings: PushConfig, topic: str) -> None:
        self._settings = settings
        self._topic = topic

    async def send(self, notice: TurnNotice) -> None:
        """Post a notice; raises PushError."""
        await asyncio.to_thread(self._post, notice)

    def _post(self, notice: TurnNotice) -> None:
        body = notice.preview[:_LONGEST] or "The turn has ended"
        request = urllib.request.Request(
            f"{self._settings.server}/{quote(self._topic, safe='')}",
            data=body.encode("utf-8", "replace"),
            headers={
                "Title": _header(" · ".join(part for part in ("Amplifier", notice.project) if part)),
                "Priority": self._settings.priority,
                "Tags": _header(",".join(self._settings.tags)),
            },
            method="POST",
        )
        try:
            with urllib.request.build_opener(_NoRedirects).open(request, timeout=_SECONDS) as response:
                response.read(1)
        except urllib.error.HTTPError as error:
            with error:
                raise PushError(f"{self._settings.server} answered {error.code}") from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise PushError(f"{self._settings.server} cannot be reached: {reason}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the topic goes to the server of the config and to no other."""

    def redirect_request(self, *arguments: Any, **more: Any) -> None:
        return None


def _header(text: str) -> str:
    """Return a text as a header may have it: ASCII as it is, all else encoded (RFC 2047)."""
    if text.isascii():
        return text
    from base64 import b64encode

    return f"=?UTF-8?B?{b64encode(text.encode('utf-8', 'replace')).decode()}?="
