"""Start a chat with the session that a request asks for."""

from __future__ import annotations

import sys
from typing import Any

import click

from amplifier_app_cli.app import App
from amplifier_app_cli.failures import described
from amplifier_app_cli.run.request import RunRequest, make_parts
from amplifier_app_cli.ui.say import complain


async def talk(app: App, request: RunRequest, **more: Any) -> int:
    """Talk until the person leaves, and return the exit code; raises UsageError when nobody is there to talk to."""
    if not app.can_ask or not sys.stdout.isatty():
        raise click.UsageError("a chat needs a terminal: for one prompt there is `amplifier run PROMPT`")
    from amplifier_app_cli.chat import chat

    try:
        parts = await make_parts(app, request)
    except Exception as error:
        failure = described(error)
        if failure is None:
            raise
        return complain(failure.exit_code, failure.message)
    return await chat(
        app,
        request.options(app),
        resume=parts.saved,
        prepared=parts.prepared,
        provider_line=parts.provider_line,
        budget=request.budget,
        **more,
    )
