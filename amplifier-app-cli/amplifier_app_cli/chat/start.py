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
from amplifier_app_cli.ui.layout import columns, folded, one_line
from amplifier_app_cli.ui.notices import sandbox_text
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.say import complain, say

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_app_cli.chat.conversation import Conversation
    from amplifier_app_cli.chat.screen import Screen
    from amplifier_app_cli.session_request import SessionRequest
    from amplifier_foundation.approvals.pending_calls import PendingCall
    from amplifier_foundation.paths import Home
    from amplifier_foundation.sessions.origin import ChildFacts


#: Shows thinking, tools and tokens, which a chat shows anyway.
_STREAMING_UI: Final = "hook:hooks-streaming-ui"
#: What only a chat has commands for.
_BEHAVIORS: Final = ("amplifier:behaviors/modes",)
#: The notice of the sandbox has the priority 950.
_BEFORE_NOTICES: Final = 940
#: What the line about the provider says when no real model answers.
_NO_MODEL: Final = "amplifier init"
#: How `trust_line()` begins when files of a trusted project have changed.
_CHANGED: Final = "no longer trusted"


async def chat(
    app: App, request: SessionRequest, *, first_prompt: str | None = None, recap: Recap | None = None
) -> int:
    """Chat with a session until the user leaves, and return the exit code.

    `recap` says how much of a resumed session is shown. The exit code is 0 after Ctrl-D, exit or the end of input,
    130 after Ctrl-C twice at the prompt, 143 after SIGTERM, else that of the failure.
    """
    recap, request = recap or Recap(), request._replace(behaviors=_BEHAVIORS)
    while True:
        view = _ChatView(app)
        code = await _chat_once(app, request, view, first_prompt, recap)
        if view.next_session is None:
            return code
        request, first_prompt, recap = request._replace(resume=view.next_session, bundle=None), None, Recap()


async def _chat_once(app: App, request: SessionRequest, view: _ChatView, first_prompt: str | None, recap: Recap) -> int:
    """Chat with one session until the user leaves it, and return the exit code."""
    session = SessionApp(app, request, view)
    session.signals.restore_terminal = TerminalModes().restore
    session.signals.limit = 2  # a turn is stopped by the conversation; these are signals before and after it
    try:
        async with session:
            code = await view.talk(session, first_prompt, recap)
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
        say(f"resume it with: amplifier resume {session.runtime.session_id[:8]}")
    return code


class _ChatView:
    """The view of a chat; the conversation exists once the session is prepared."""

    conversation: Conversation
    #: The session that the user switches to.
    next_session: str | None = None

    def __init__(self, app: App) -> None:
        self._app = app
        #: What the status line says of the sandbox and of the project, and the notices that say the same.
        self._sandbox = self._trusted = ""
        self._in_status: set[str] = set()

    async def talk(self, session: SessionApp, first_prompt: str | None, recap: Recap) -> int:
        """Greet, show the past of a resumed session, and talk until the user leaves; return the exit code."""
        self._greet(session)
        await self._recap(session, recap)
        with session.signals.handled_by(self.conversation.on_signal):
            code = await self.conversation.run(first_prompt, self._pending(session))
            self.next_session = self.conversation.next_session
            return code

    # -- what the session calls --

    async def start(self, session: SessionApp) -> None:
        """Make the conversation, and let the user answer approval requests if there is one."""
        from amplifier_app_cli.chat.conversation import Conversation

        self.conversation = Conversation(session, self._screen(session))
        self.conversation.about = lambda: self._about(session)
        session.coordinator.hooks.register(
            "sandbox:status", self._on_sandbox, priority=_BEFORE_NOTICES, name="app-chat"
        )
        if not self._app.no_input and self.conversation.screen.is_interactive:
            session.connect_approvals(self.conversation, via="chat")

    def notice(self, text: str) -> None:
        if not self._app.is_quiet and text not in self._in_status:
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
        if _NO_MODEL in session.parts.provider_line:
            screen.show(folded(plain(session.parts.provider_line), screen.width - 1))
        screen.show(screen.ink("dim", banner(session, screen.width - 1)))
        if not screen.has_live_part:
            more = "a line that ends in \\ continues on the next"
            screen.show(folded(" · ".join([*self._about(session), more, "/help", "Ctrl-D leaves."]), screen.width - 1))
        prepared = session.parts.prepared
        trust = trust_line(prepared.home, prepared.project, is_trusted_now=session.request.trust)
        if trust.startswith(_CHANGED):
            screen.show(screen.ink("bad", folded(plain(f"trust: {trust}"), screen.width - 1)))

    def _about(self, session: SessionApp) -> list[str]:
        """Return what the session may do, in a few words each."""
        mode = f"permissions: {session.permission_mode}"
        return [part for part in (mode, self._sandbox, self._trust(session)) if part]

    def _trust(self, session: SessionApp) -> str:
        if not self._trusted:
            prepared = session.parts.prepared
            trust = trust_line(prepared.home, prepared.project, is_trusted_now=session.request.trust)
            self._trusted = "project trusted" if trust.startswith("trusted") else "project not trusted"
        return self._trusted

    def _on_sandbox(self, event: str, data: dict[str, Any]) -> None:
        """Keep what the status line says of the sandbox; only one that is missing needs a line of its own."""
        is_on = data.get("status") == "active"
        self._sandbox = "sandbox on" if is_on else "NO SANDBOX"
        if is_on:
            self._in_status.add(sandbox_text(data))

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


def banner(session: SessionApp, width: int) -> str:
    """Return the line that says what one talks with: program, bundle, model, project and session."""
    from amplifier_app_cli.chat.commands.model import answering_model

    composed = session.parts.prepared.composed
    parts = [
        f"amplifier {__version__}",
        f"{composed.name} {composed.version}".rstrip(),
        answering_model(session.coordinator),
        _short_path(session.parts.prepared.project),
    ]
    own = f"session {session.runtime.session_id[:8]}"
    if session.parts.saved is not None:
        parts.insert(1, f"{own} (resumed)")
    else:
        parts.append(own)
    while len(parts) > 1 and columns(" · ".join(parts)) > width:
        parts.pop()
    return one_line(plain(" · ".join(parts)), width)


def _short_path(path: Path) -> str:
    """Return a path as a shell shows it, with `~` for the user's folder."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)


def trust_line(home: Home, project: Path, *, is_trusted_now: bool) -> str:
    """Return, as text, whether the modules that the project's files name may run."""
    from amplifier_foundation.trust.store import TrustStore

    if is_trusted_now:
        return "trusted for this run"
    trust = TrustStore(home).state(project)
    if trust.problem:
        return f"not trusted: {trust.problem}"
    if trust.state == "changed":
        return f"{_CHANGED}: {', '.join(trust.changed[:3])} changed; `amplifier trust` trusts it again"
    return (
        "trusted" if trust.trusted else "not trusted: its modules and hooks do not run; `amplifier trust` changes that"
    )
