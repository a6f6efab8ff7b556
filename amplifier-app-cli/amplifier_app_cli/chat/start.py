"""Start a chat: prepare the session, find out what the terminal can do, talk, and close everything."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amplifier_app_cli import exits
from amplifier_app_cli.chat.chat_signals import ChatSignals
from amplifier_app_cli.chat.look_back import LookBack
from amplifier_app_cli.children.live import LiveTree
from amplifier_app_cli.collector import collect_what_is_new
from amplifier_app_cli.ui.say import complain, say
from amplifier_foundation.approvals.open_calls import ChildCalls

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_app_cli.chat.conversation import Conversation
    from amplifier_app_cli.chat.screen import Screen
    from amplifier_app_cli.chat.session_approvals import SessionApprovals
    from amplifier_foundation.approvals.pending_calls import PendingCall
    from amplifier_foundation.children import ChildFacts
    from amplifier_foundation.plan.prepare import Options
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions import SavedSession, SessionRuntime


async def chat(
    app: App,
    options: Options,
    *,
    resume: SavedSession | None = None,
    prepared: Prepared | None = None,
    provider_line: str | None = None,
    first_prompt: str | None = None,
    show_thinking: bool = True,
    look_back: LookBack | None = None,
    budget: Mapping[str, Any] | None = None,
) -> int:
    """Talk with a session until the person leaves, and return the exit code.

    With `prepared` nothing is prepared here; `provider_line` says which provider answers and why. Of a session that
    goes on, as much is shown as `look_back` says. Limits of `budget` count more than those of the bundle. 0 after
    Ctrl-D, exit or the end of input; 130 after Ctrl-C twice at the prompt; 143 after SIGTERM; else the code of what
    went wrong. Whatever happens, the session is closed.
    """
    with ChatSignals() as signals:
        try:
            parts = prepared or await _prepare(options, resume)
            told = (*(resume.notes if resume else ()), *parts.warnings)
            talk = _Talk(app, options, parts, resume, provider_line, show_thinking, told)
            talk.look_back, talk.budget = look_back or talk.look_back, budget
            return await talk.run(signals, first_prompt)
        except asyncio.CancelledError:
            if signals.exit_code is None:
                raise
            return signals.exit_code
        except Exception as error:
            return _failed(error)


async def _prepare(options: Options, resume: SavedSession | None) -> Prepared:
    from amplifier_foundation.plan.prepare import prepare, prepare_saved

    return await prepare(options) if resume is None else await prepare_saved(resume, options)


class _Talk:
    """Everything that one chat consists of."""

    def __init__(
        self,
        app: App,
        options: Options,
        prepared: Prepared,
        saved: SavedSession | None,
        provider_line: str | None,
        show_thinking: bool,
        told: tuple[str, ...],
    ) -> None:
        self._app, self._options, self._prepared, self._saved = app, options, prepared, saved
        self._provider_line, self._told = provider_line, told
        self._show_thinking = show_thinking
        self.look_back = LookBack()
        self.budget: Mapping[str, Any] | None = None
        #: What the sessions do that this one starts.
        self._children = LiveTree()
        self._child_calls = ChildCalls()
        #: Who answers questions; None when nobody is there.
        self._approvals: SessionApprovals | None = None

    async def run(self, signals: ChatSignals, first_prompt: str | None) -> int:
        """Open the session, talk, close it."""
        from amplifier_app_cli.chat.conversation import Conversation

        runtime = self._runtime()
        signals.end_logs = runtime.end_logs
        screen = self._screen(runtime)
        known = self._saved.metadata.get("usage") if self._saved is not None else None
        conversation = Conversation(
            runtime,
            screen,
            known_usage=known,
            show_thinking=self._show_thinking,
            is_trusted_now=self._options.trust,
            children=self._children,
        )
        self._connect(conversation, runtime)
        async with runtime:
            collect_what_is_new()
            self._greet(runtime, screen)
            await self._look_back(screen, signals)
            with signals.heard_by(conversation.on_signal):
                code = await conversation.run(first_prompt, self._waited(runtime, screen))
        if not self._app.is_quiet:
            say(f"session: {runtime.session_id}; amplifier resume {runtime.session_id[:8]}")
        return code

    def _runtime(self) -> SessionRuntime:
        from amplifier_foundation.sessions import SessionRuntime

        return SessionRuntime(
            self._prepared,
            saved=self._saved,
            environ=self._options.environ,
            allow_missing_modules=self._options.allow_missing,
            budget=self.budget,
            trust=self._options.trust,
            on_child_event=self._on_child,
        )

    def _on_child(self, facts: ChildFacts, event: str, data: dict[str, Any]) -> None:
        self._child_calls.record(facts, event, data)
        self._children.take(facts, event, data)

    def _connect(self, conversation: Conversation, runtime: SessionRuntime) -> None:
        from amplifier_app_cli.chat.commands import Commands
        from amplifier_app_cli.chat.display import TerminalDisplay
        from amplifier_app_cli.ui.folding import folded
        from amplifier_app_cli.ui.lost_mentions import LostMentions
        from amplifier_app_cli.ui.plain import plain
        from amplifier_app_cli.ui.sandbox_line import SandboxLine

        def tell(text: str) -> None:
            conversation.show(conversation.ink("dim", folded(plain(text), conversation.width - 1)))

        coordinator = runtime.session.coordinator
        conversation.connect()
        conversation.commands = Commands(conversation)
        if not self._app.is_quiet:
            SandboxLine(tell).connect(coordinator.hooks)
            LostMentions(tell).connect(coordinator.hooks)
        coordinator.display_system = TerminalDisplay(conversation.screen, conversation.scrub)
        if self._app.no_input or not conversation.screen.is_interactive:
            return  # nobody may be asked, or nobody is there: the kernel denies what would be asked
        from amplifier_app_cli.chat.session_approvals import SessionApprovals

        conversation.approvals = self._approvals = SessionApprovals(
            runtime, self._child_calls, conversation, self._app.environ, via="chat"
        )

    def _screen(self, runtime: SessionRuntime) -> Screen:
        """Return a screen that does what the terminal can."""
        environ = self._app.environ
        can_draw = sys.stdin.isatty() and sys.stdout.isatty() and environ.get("TERM", "") not in ("", "dumb")
        if not can_draw:
            from amplifier_app_cli.chat.line_screen import LineScreen

            return LineScreen()
        from amplifier_app_cli.chat.commands import Commands
        from amplifier_app_cli.chat.completion import ChatCompleter
        from amplifier_app_cli.chat.history import ProjectHistory
        from amplifier_app_cli.chat.ink import Ink
        from amplifier_app_cli.chat.project_files import ProjectFiles
        from amplifier_app_cli.chat.prompt_screen import PromptScreen

        prepared = self._prepared
        history = ProjectHistory(
            prepared.home.project(prepared.project) / "repl_history",
            lambda text: str(runtime.redactor.scrub(text).value),
        )
        completer = ChatCompleter(Commands.listed, ProjectFiles(prepared.project))
        return PromptScreen(Ink.for_terminal(environ, is_terminal=True), history, completer)

    def _waited(self, runtime: SessionRuntime, screen: Screen) -> tuple[PendingCall, ...]:
        """Return the pending calls, which are asked about now; show a note if they cannot be read."""
        from amplifier_app_cli.ui.plain import plain
        from amplifier_foundation.errors import FoundationError

        if self._saved is None or self._app.no_input or not screen.is_interactive:
            return ()
        try:
            waited = runtime.pending_calls.list()
        except FoundationError as error:
            screen.show(plain(f"note: {error}"))
            return ()
        if self._approvals is not None:
            self._approvals.expect(waited)
        open_ones = sum(call.answer is None for call in waited)
        if open_ones:
            screen.show(f"{open_ones} call{'s wait' if open_ones > 1 else ' waits'} for your answer:")
        return waited

    def _greet(self, runtime: SessionRuntime, screen: Screen) -> None:
        from amplifier_app_cli.chat.banner import banner
        from amplifier_app_cli.ui.folding import folded
        from amplifier_app_cli.ui.plain import plain

        if not self._app.is_quiet:
            for line in dict.fromkeys((*self._told, *runtime.warnings)):
                screen.show(folded(plain(f"note: {line}"), screen.width - 1))
            screen.show(
                banner(
                    runtime,
                    screen.ink,
                    screen.width,
                    provider_line=self._provider_line,
                    is_trusted_now=self._options.trust,
                    is_resumed=self._saved is not None,
                    is_drawn=screen.has_live_part,
                )
            )

    async def _look_back(self, screen: Screen, signals: ChatSignals) -> None:
        """Show what was said before; Ctrl-C brings the rest of it at once."""
        if self._saved is None:
            return
        hurry = asyncio.Event()

        def on_signal(number: int) -> None:
            if number == signal.SIGINT and not hurry.is_set():
                hurry.set()
            else:
                signals.end(number)

        with signals.heard_by(on_signal):
            await self.look_back.show(self._saved.messages, screen, hurry)


def _failed(error: Exception) -> int:
    """Say why there is no chat and return the exit code that stands for it."""
    from amplifier_app_cli.failures import described

    known = described(error, anything=True)
    return complain(known.exit_code, known.message) if known is not None else complain(exits.FAILURE, str(error))
