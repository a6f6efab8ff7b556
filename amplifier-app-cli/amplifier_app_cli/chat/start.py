"""Start a chat: choose a screen for the terminal, open the session, greet, talk, and close everything."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_app_cli import __version__
from amplifier_app_cli.chat.recap import Recap
from amplifier_app_cli.chat.terminal import TerminalModes
from amplifier_app_cli.session_app import SessionApp
from amplifier_app_cli.ui.layout import folded, wrap_text
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.say import complain, say

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_app_cli.chat.conversation import Conversation
    from amplifier_app_cli.chat.screen import Screen
    from amplifier_app_cli.session_app import SessionApp
    from amplifier_app_cli.session_request import SessionRequest
    from amplifier_foundation.approvals.pending_calls import PendingCall
    from amplifier_foundation.paths import Home
    from amplifier_foundation.sessions.origin import ChildFacts


#: Shows thinking, tools and tokens, which a chat shows anyway.
_STREAMING_UI: Final = "hook:hooks-streaming-ui"


async def chat(
    app: App, request: SessionRequest, *, first_prompt: str | None = None, recap: Recap | None = None
) -> int:
    """Chat with a session until the user leaves, and return the exit code.

    `recap` says how much of a resumed session is shown. The exit code is 0 after Ctrl-D, exit or the end of input,
    130 after Ctrl-C twice at the prompt, 143 after SIGTERM, else that of the failure.
    """
    view = _ChatView(app)
    session = SessionApp(app, request, view)
    session.signals.restore_terminal = TerminalModes().restore
    session.signals.limit = 2  # a turn is stopped by the conversation; these are signals before and after it
    try:
        async with session:
            code = await view.talk(session, first_prompt, recap or Recap())
    except asyncio.CancelledError:
        if session.signals.exit_code is None:
            raise
        return session.signals.exit_code
    except Exception as error:
        failure = session.failure(error)
        if failure is None:
            raise
        return complain(failure.exit_code, failure.message)
    if not app.is_quiet:
        session_id = session.runtime.session_id
        say(f"session: {session_id}; amplifier resume {session_id[:8]}")
    return code


class _ChatView:
    """The view of a chat; the conversation exists once the session is prepared."""

    conversation: Conversation

    def __init__(self, app: App) -> None:
        self._app = app

    async def talk(self, session: SessionApp, first_prompt: str | None, recap: Recap) -> int:
        """Greet, show the past of a resumed session, and talk until the user leaves; return the exit code."""
        self._greet(session)
        await self._recap(session, recap)
        with session.signals.handled_by(self.conversation.on_signal):
            return await self.conversation.run(first_prompt, self._pending(session))

    # -- what the session calls --

    async def start(self, session: SessionApp) -> None:
        """Make the conversation, and let the user answer approval requests if there is one."""
        from amplifier_app_cli.chat.conversation import Conversation

        self.conversation = Conversation(session, self._screen(session))
        if not self._app.no_input and self.conversation.screen.is_interactive:
            session.connect_approvals(self.conversation, via="chat")

    def notice(self, text: str) -> None:
        if not self._app.is_quiet:
            conversation = self.conversation
            conversation.show(conversation.ink("dim", folded(plain(text), conversation.width - 1)))

    def message(self, text: str, level: str, source: str) -> None:
        if source != _STREAMING_UI:
            screen = self.conversation.screen
            text = f"{plain(source.removeprefix('hook:'))}: {text}"
            screen.show(screen.ink("dim" if level == "info" else "bad", text))

    def child_event(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        self.conversation.children.take(facts, event, data)

    def _screen(self, session: SessionApp) -> Screen:
        """Return a screen that does what the terminal can."""
        environ = self._app.environ
        can_draw = sys.stdin.isatty() and sys.stdout.isatty() and environ.get("TERM", "") not in ("", "dumb")
        if not can_draw:
            from amplifier_app_cli.chat.screen import LineScreen

            return LineScreen()
        from amplifier_app_cli.chat.commands import Commands
        from amplifier_app_cli.chat.prompt_input import ChatCompleter, ProjectFiles, ProjectHistory
        from amplifier_app_cli.chat.prompt_screen import PromptScreen
        from amplifier_app_cli.ui.colour import Ink

        prepared = session.parts.prepared
        history = ProjectHistory(
            prepared.home.project(prepared.project) / "repl_history", lambda text: str(session.scrub(text))
        )
        completer = ChatCompleter(Commands.listed, ProjectFiles(prepared.project))
        return PromptScreen(Ink.for_terminal(environ, is_terminal=True), history, completer)

    # -- before the first prompt --

    def _greet(self, session: SessionApp) -> None:
        if self._app.is_quiet:
            return
        screen = self.conversation.screen
        for line in dict.fromkeys((*session.parts.notes, *session.runtime.warnings)):
            screen.show(folded(plain(f"note: {line}"), screen.width - 1))
        screen.show(banner(session, screen))

    async def _recap(self, session: SessionApp, recap: Recap) -> None:
        """Show the past of a resumed session; Ctrl-C shows the rest of it at once."""
        if session.parts.saved is None:
            return
        hurry = asyncio.Event()

        def on_signal(number: int) -> None:
            if number == signal.SIGINT and not hurry.is_set():
                hurry.set()
            else:
                session.signals.stop(number)

        with session.signals.handled_by(on_signal):
            await recap.show(session.parts.saved.messages, self.conversation.screen, hurry)

    def _pending(self, session: SessionApp) -> tuple[PendingCall, ...]:
        """Return the pending calls, which are asked about now; show a note if they cannot be read."""
        from amplifier_foundation.errors import FoundationError

        if session.parts.saved is None or session.approvals is None:
            return ()
        screen = self.conversation.screen
        try:
            pending = session.runtime.pending_calls.list()
        except FoundationError as error:
            screen.show(plain(f"note: {error}"))
            return ()
        session.approvals.expect(pending)
        if unanswered := sum(call.answer is None for call in pending):
            screen.show(f"{unanswered} pending call{'s need' if unanswered > 1 else ' needs'} your answer:")
        return pending


def banner(session: SessionApp, screen: Screen) -> str:
    """Return the lines: session, bundle, provider and why, project, trust, and which keys to press."""
    prepared, composed = session.parts.prepared, session.parts.prepared.composed
    resumed = " (resumed)" if session.parts.saved is not None else ""
    more = "Ctrl-J makes a new line" if screen.has_live_part else "a line that ends in \\ continues on the next"
    trust = trust_line(prepared.home, prepared.project, is_trusted_now=session.request.trust)
    lines = [
        f"amplifier {__version__} · session {session.runtime.session_id}{resumed}",
        f"bundle: {composed.name} {composed.version}".rstrip(),
        session.parts.provider_line,
        f"project: {prepared.project}",
        f"trust: {trust}",
        f"Enter sends, {more}, /help lists the commands, Ctrl-D leaves.",
    ]
    return screen.ink(
        "dim", "\n".join(part.rstrip() for line in lines for part in wrap_text(plain(line), screen.width))
    )


def trust_line(home: Home, project: Path, *, is_trusted_now: bool) -> str:
    """Return, as text, whether the modules that the project's files name may run."""
    from amplifier_foundation.trust.store import TrustStore

    if is_trusted_now:
        return "trusted for this run"
    trust = TrustStore(home).state(project)
    if trust.problem:
        return f"not trusted: {trust.problem}"
    if trust.state == "changed":
        return f"no longer trusted: {', '.join(trust.changed[:3])} changed; `amplifier trust` trusts it again"
    return (
        "trusted" if trust.trusted else "not trusted: its modules and hooks do not run; `amplifier trust` changes that"
    )
