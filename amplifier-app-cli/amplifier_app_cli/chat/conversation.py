"""Run a chat: take input, run turns and commands, and let the user steer, stop and answer meanwhile."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from amplifier_app_cli import exits
from amplifier_app_cli.chat.answer import AnswerView
from amplifier_app_cli.chat.progress import ChildView, ToolProgress
from amplifier_app_cli.chat.screen import Screen
from amplifier_app_cli.chat.shell_line import run_shell_line, shell_line
from amplifier_app_cli.chat.status import TurnStatus, connecting_servers, joined
from amplifier_app_cli.chat.steering import Steering, unsent_lines
from amplifier_app_cli.chat.tool_output import shown_in_full
from amplifier_app_cli.children.live import LiveTree
from amplifier_app_cli.session_app import Outcome, SessionApp
from amplifier_app_cli.ui.approval.preview import change_of, preview
from amplifier_app_cli.ui.colour import Ink
from amplifier_app_cli.ui.layout import columns, counted, duration, few_lines, folded, one_line
from amplifier_app_cli.ui.menu import HINT, Menu, Option
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.spending import price_text, usage_line
from amplifier_foundation.prompt.user_input import UserInput

if TYPE_CHECKING:
    from amplifier_foundation.approvals.pending_calls import PendingCall


_EXIT_WORDS: Final = ("exit", "quit", "/exit", "/quit")
#: Seconds between two drawings of how long something takes.
_TICK: Final = 0.5
#: Rows that a menu leaves to the question above it and to the input.
_MENU_LEAVES: Final = 10


class Conversation:
    """One chat with one session, from the first prompt to the last."""

    def __init__(self, session: SessionApp, screen: Screen) -> None:
        """Talk on `screen`, with a session that is prepared and not open yet."""
        from amplifier_app_cli.chat.commands import Commands

        self.session = session
        self.runtime = session.runtime
        self.coordinator = session.coordinator
        self.scrub = session.scrub
        #: What the session used.
        self.usage = session.stats
        self.screen = screen
        hooks = self.coordinator.hooks
        self.answer = AnswerView(screen)
        self.answer.connect(hooks)
        self.progress = ToolProgress(screen, self.scrub, self._changes)
        self.progress.connect(hooks)
        self.status = TurnStatus(screen, self.scrub, self.coordinator)
        self.status.connect()
        self.children = LiveTree(self.scrub)
        self.children.connect(hooks)
        self.runtime.account.listeners.append(self.children.count)
        self.child_view = ChildView(screen, self.children, self.progress.outputs)
        self.steering = Steering(self.coordinator)
        self.steering.connect()
        self.commands = Commands(self)
        #: Text to put before the next prompt, such as a skill.
        self.preface = ""
        #: Text to put behind the next prompt, such as the output of a shell command.
        self.attached = ""
        #: What the session may do, as the status line between turns says it.
        self.about: Callable[[], list[str]] = list
        #: The session to switch to when this chat ends, if any.
        self.next_session: str | None = None
        #: What `/config` has taken out of the session, by category and name.
        self.switched_off: dict[str, dict[str, Any]] = {}
        #: The input of the running command, which knows what was typed.
        self.given = UserInput("")
        self._inputs: asyncio.Queue[UserInput | None] = asyncio.Queue()
        self._stop: TurnStop | None = None
        self._command: asyncio.Task[None] | None = None
        self._started = 0.0
        self._question: asyncio.Future[str | None] | None = None
        self._label = ""
        self._menu = Menu(())
        self._tasks: set[asyncio.Task[None]] = set()
        self._exit_code: int | None = None
        self._wants_to_leave = False
        self._has_no_input = False
        #: How many calls of the last turn were left to another approver.
        self._pending = 0
        screen.set_live(self._live, self._shown_label)

    @property
    def loop(self) -> str:
        """Return the module that runs the turns."""
        spec = self.runtime.session.config["session"]["orchestrator"]
        return str(spec.get("module") if isinstance(spec, dict) else spec)

    @property
    def is_trusted_now(self) -> bool:
        """Return whether the project is trusted for this run alone."""
        return self.session.request.trust

    # -- turns and commands --

    async def run(self, first_prompt: str | None = None, pending: Sequence[PendingCall] = ()) -> int:
        """Run the chat until the user leaves; return the exit code. Pending calls run first."""
        if first_prompt:
            self._inputs.put_nowait(UserInput.of_typed(first_prompt))
        listening = asyncio.create_task(self.screen.run(self))
        listening.add_done_callback(lambda task: self._on_input_failure(task))
        try:
            if pending:
                await self.turn(UserInput(""), pending)
            while self._exit_code is None:
                if self.steering.next_prompts:
                    await self._handle(self.steering.next_prompts.popleft(), is_known=True)
                    continue
                given = await self._next()
                if given is None:
                    break
                await self._handle(given)
        finally:
            self.screen.close()
            await asyncio.wait({listening})
        return exits.OK if self._exit_code is None else self._exit_code

    def leave(self, code: int = exits.OK) -> None:
        """End the chat: a turn that runs is stopped at once, a question is refused."""
        if self._exit_code is None:
            self._exit_code = code
        self._refuse_question()
        if self._stop is not None:
            self._stop.at_once()
        elif self._command is not None:
            self._command.cancel()
        self._inputs.put_nowait(None)

    def on_signal(self, number: int) -> None:
        """Take a signal: SIGINT is a Ctrl-C, every other one ends the chat."""
        if number == signal.SIGINT:
            self.on_interrupt()
            return
        if self._exit_code is not None and self._stop is not None:
            self._stop.at_once()
        self.leave(exits.TERMINATED if number == signal.SIGTERM else exits.HUNG_UP)

    async def _next(self) -> UserInput | None:
        """Return the next input, None at the end of input."""
        if self._has_no_input and self._inputs.empty():
            return None
        self.screen.refresh()
        return await self._inputs.get()

    async def _handle(self, given: UserInput, *, is_known: bool = False) -> None:
        """Handle an input; one that `is_known` was typed and echoed during the last turn."""
        text = given.text
        stripped = text.strip()
        if not stripped:
            return
        if is_known:
            self.screen.show(self.screen.ink("dim", one_line(f"next prompt: {text}", self.screen.width - 1)))
        else:
            self._echo(text)
        if stripped in _EXIT_WORDS:
            self.leave()
        elif self._is_command(stripped):
            self.given = given
            await self._run_command(self.commands.run(stripped))
        elif (command := shell_line(stripped)) is not None:
            await self._run_command(run_shell_line(self, command))
            if self.screen.has_live_part:
                self.screen.show("")
        else:
            await self.turn(given)

    async def _run_command(self, run: Coroutine[Any, Any, None]) -> None:
        """Run what the user started outside of a turn, until it ends or is cancelled."""
        self._started = time.monotonic()
        self._command = asyncio.create_task(run)
        ticking = asyncio.create_task(self._tick())
        try:
            await asyncio.wait({self._command})
        finally:
            ticking.cancel()
            command, self._command = self._command, None
            self._refuse_question()
            self.progress.clear()
        if not command.cancelled() and (error := command.exception()) is not None:
            self.show(self.ink("bad", plain(f"amplifier: {type(error).__name__}: {self.scrub(str(error))}")))

    async def turn(self, given: UserInput, pending: Sequence[PendingCall] = ()) -> None:
        """Run one turn and show it, after the pending calls; the chat continues whatever happens."""
        prompt = UserInput.of_data(self.preface) + given + UserInput.of_data(self.attached)
        self.preface = self.attached = ""
        self.steering.start_turn()
        self._started = time.monotonic()
        if self.session.approvals is not None:
            pending = pending or self.session.approvals.start_turn(self.show)
        running = asyncio.create_task(self.session.turn(prompt, pending))
        self._stop = TurnStop(self.coordinator.cancellation, running)
        ticking = asyncio.create_task(self._tick())
        try:
            await asyncio.wait({running})
        finally:
            ticking.cancel()
            stop, self._stop = self._stop, None
            self._refuse_question()
        outcome = Outcome.stopped(None) if running.cancelled() else running.result()
        self._close_turn(outcome, was_stopped=stop.over())

    def _changes(self, name: str, tool_input: Any) -> list[str]:
        """Return the diff that a call of a file tool of the product amounts to; empty for all other calls."""
        tool = (self.coordinator.get("tools") or {}).get(name)
        change = change_of(tool) if tool is not None else None
        return preview(tool_input, self.runtime.prepared.project, change) if change in ("write", "edit") else []

    def show_output(self, number: int | None = None) -> None:
        """Show an output of a tool in full: the one of that number, counted from the last, or the next one back."""
        kept = self.progress.outputs
        output = kept.next() if number is None else kept.at(number)
        if output is None:
            self.show(self.ink("dim", "no further output" if len(kept) else "no tool has run yet"))
            return
        title, *lines = shown_in_full(output)
        self.show("\n".join([self.ink("bold", title), *lines]))

    def _failure(self, outcome: Outcome) -> str:
        """Return why a turn has no answer, with how to continue; empty if it has one."""
        session_id = self.runtime.session_id[:8]
        if outcome.status == "cancelled":
            return "stopped"
        if outcome.status == "budget_exhausted":
            return (
                f"{outcome.error}; leave, and resume with `amplifier resume {session_id}`: each run has its own budget"
            )
        if outcome.status == "approval_needed":
            how = f"; `amplifier approval allow {session_id}` or `deny` answers, and your next prompt here continues"
            return f"left to another approver: {outcome.error}{how if outcome.approvals else ''}"
        return "" if outcome.status == "denied" else outcome.error or ""

    def _close_turn(self, outcome: Outcome, *, was_stopped: bool) -> None:
        ink, failure = self.screen.ink, self._failure(outcome)
        self._pending = len(outcome.approvals)
        self.progress.clear()
        self.status.clear()
        self.children.clear(was_stopped=was_stopped)
        if was_stopped or failure:
            self.answer.close()
        else:
            self.answer.end_turn(outcome.response or outcome.error or "")
        if was_stopped:
            self.screen.show(ink("bad", "stopped"))
        elif failure:
            text = folded(plain(f"amplifier: {self.scrub(failure)}"), self.screen.width - 1)
            self.screen.show(ink("bad", text))
        if lost := self.steering.end_turn(is_complete=not was_stopped and not failure):
            self.screen.show(unsent_lines(lost, self.screen.width - 1))
        if (used := self.usage.turn).answers:
            took = duration(time.monotonic() - self._started)
            self.screen.show(ink("dim", one_line(f"{usage_line(used)} · {took}", self.screen.width - 1)))
        if self.screen.has_live_part:
            self.screen.show("")  # separates turns

    async def _tick(self) -> None:
        while True:
            self.screen.refresh()
            await asyncio.sleep(_TICK)

    # -- input --

    @property
    def is_busy(self) -> bool:
        """Return whether a turn or a command runs, or a question is open."""
        return any(part is not None for part in (self._stop, self._question, self._command))

    @property
    def is_working(self) -> bool:
        """Return whether a turn runs."""
        return self._stop is not None

    def on_line(self, given: UserInput) -> None:
        """Take an input: an answer to a question, a word to the model at work, a command, or the next prompt."""
        text = given.text
        self._wants_to_leave = False
        if self._question is not None:
            if not self._question.done():
                self._question.set_result(text)
        elif self._stop is None or not self.screen.is_interactive:
            self._inputs.put_nowait(given)
        elif text.strip():
            self._during_turn(given)

    def on_interrupt(self) -> None:
        """Stop what runs after its step, then at once; with nothing to stop, ask whether to leave, then leave."""
        is_asked = self._question is not None
        self._refuse_question()
        if self._stop is not None:
            self.screen.show(self.screen.ink("dim", self._stop.press()))
        elif is_asked:
            return  # the command knows that there is no answer
        elif self._command is not None:
            self._stop_command()
        elif self._wants_to_leave:
            self.leave(exits.INTERRUPTED)
        else:
            self._wants_to_leave = True
            self.screen.show("press Ctrl-C again to leave, or Ctrl-D")

    def on_escape(self) -> None:
        """Stop what runs at once, a command that the model runs included; at the prompt, do nothing."""
        is_asked = self._question is not None
        self._refuse_question()
        if self._stop is not None:
            self._stop.at_once()
            self.screen.refresh()
        elif self._command is not None and not is_asked:
            self._stop_command()

    def _stop_command(self) -> None:
        if self._command is not None:
            self._command.cancel()
            self.screen.show("stopped")

    def on_expand(self) -> None:
        """Show the latest output in full; the next time, the one before."""
        self.show_output()

    def on_mode(self) -> None:
        """Change to the next permission mode; the status line shows it, and refusals are shown."""
        task = asyncio.get_running_loop().create_task(self._next_mode())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _next_mode(self) -> None:
        try:
            await self.session.next_permission_mode(via="chat")
        except Exception as error:  # a key must not end a chat
            self.show(self.ink("bad", plain(f"the permission mode is unchanged: {self.scrub(str(error))}")))
        self.screen.refresh()

    def on_move(self, step: int) -> None:
        """Select another option of the menu."""
        self._menu.move(step)
        self.screen.refresh()

    def on_choose(self) -> None:
        """Answer with the selected option of the menu."""
        if (option := self._menu.selected) is not None:
            self.on_line(UserInput.of_typed(option.answer))

    @property
    def has_menu(self) -> bool:
        """Return whether a menu is shown."""
        return bool(self._menu)

    def on_end(self, *, is_final: bool) -> None:
        """Leave; at the final end of input a running turn is finished first, else it keeps the chat open."""
        if self._question is not None:
            self._refuse_question()
        if is_final:
            self._has_no_input = True
            if self._stop is None and self._inputs.empty():
                self._inputs.put_nowait(None)
        elif self._stop is None:
            self.leave()
        elif self._question is None:
            self.screen.show(self.screen.ink("dim", "a turn runs: Ctrl-C stops it"))

    def _on_input_failure(self, listening: asyncio.Task[None]) -> None:
        """End the chat if reading input failed."""
        if not listening.cancelled() and (error := listening.exception()) is not None:
            self.screen.show(plain(f"amplifier: the terminal cannot be read: {type(error).__name__}: {error}"))
            self.leave(exits.FAILURE)

    def _during_turn(self, given: UserInput) -> None:
        text = given.text
        stripped = text.strip()
        ink = self.screen.ink
        self._echo(text)
        if stripped in _EXIT_WORDS:
            self.screen.show(ink("dim", "a turn runs: Ctrl-C stops it"))
        elif self._is_command(stripped):
            self.given = given
            self.commands.run_during_turn(stripped)
        elif shell_line(stripped) is not None:
            self.steering.next_prompts.append(given)
            self.screen.show(ink("dim", "runs when the turn has ended"))
        else:
            self.screen.show(ink("dim", one_line(self.steering.take(given), self.screen.width - 1)))

    def _is_command(self, text: str) -> bool:
        """Return whether a text is a command, not a prompt that starts with a path."""
        word = text.split(maxsplit=1)[0]
        return word.startswith("/") and "/" not in word[1:] and len(word) > 1

    def _echo(self, text: str) -> None:
        """Show the input above the answer."""
        if self.screen.has_live_part:
            lines = plain(text.strip("\n")).split("\n")
            self.screen.show(
                "\n".join([f"{self.screen.ink('bold', '>')} {lines[0]}", *(f"  {line}" for line in lines[1:])])
            )

    # -- questions --

    @property
    def ink(self) -> Ink:
        """Return how to emphasise text."""
        return self.screen.ink

    @property
    def width(self) -> int:
        """Return how many columns there are."""
        return self.screen.width

    @property
    def height(self) -> int:
        """Return how many rows there are above the input and the live part."""
        live = self._live() if self.screen.has_live_part else ""
        return self.screen.height - (live.count("\n") + 1 if live else 0)

    def show(self, text: str) -> None:
        """Show lines."""
        self.answer.close()
        self.screen.show(text)

    @property
    def can_lend(self) -> bool:
        """Return whether another program may use the terminal."""
        return self.screen.can_lend

    def lent(self) -> AbstractAsyncContextManager[None]:
        """Lend the terminal to another program for the length of a block."""
        return self.screen.lent()

    @property
    def can_answer(self) -> bool:
        """Return whether questions are answered: a turn that is being stopped asks no more of them."""
        return not (self._has_no_input or self._exit_code is not None or self.coordinator.cancellation.is_cancelled)

    @property
    def has_menus(self) -> bool:
        """Return whether options can be picked with the arrow keys."""
        return self.screen.has_live_part

    async def choose(self, title: str, options: Sequence[Option], at: int | None = None) -> str | None:
        """Let the user pick one of the options, also by a part of its name or its number; None if they do not."""
        self.show(self.ink("bold", title))
        if not self.has_menus:
            self.show("\n".join(f"  {number}. {option.name}" for number, option in enumerate(options, 1)))
        typed = await self.ask(self.ink("bold", "which one? "), options=options, at=at)
        return _picked(typed.strip(), options) if typed is not None and typed.strip() else None

    async def ask(
        self, label: str, draft: str = "", options: Sequence[Option] = (), at: int | None = None
    ) -> str | None:
        """Return the answer to a question, prefilled with `draft`; None if there is no answer.

        `options` are shown as a menu, where the screen has menus; the option `at` is selected to begin with.
        """
        if not self.can_answer:
            return None
        self._question = asyncio.get_running_loop().create_future()
        self._label = label
        self._menu = Menu(options if self.has_menus else (), at)
        self.screen.hide_input(draft)
        try:
            if self.screen.is_broken:
                return None
            with self.progress.waiting():
                answer = await self._question
            if answer:  # the input line disappears: keep the answer visible
                self.show(self.screen.ink("dim", one_line(plain(f"→ {self.scrub(answer)}"), self.screen.width - 1)))
            return answer
        finally:
            self._question, self._menu = None, Menu(())
            self.screen.restore_input()

    def _refuse_question(self) -> None:
        if self._question is not None and not self._question.done():
            self._question.set_result(None)

    # -- the live part --

    def _live(self) -> str:
        if self._stop is None and self._command is None:
            return self._idle_status()
        parts = [self.answer.live, self.progress.live, self.child_view.live]
        if self._stop is not None or self.progress.running or self._menu:
            parts.append(self._status())
        return "\n".join(part for part in (*parts, self._shown_menu()) if part)

    def _status(self) -> str:
        """Return the status line of a turn: the time, what it waits for, queued inputs, and what stops it."""
        token = self.coordinator.cancellation
        state = f"{'stopping' if token.is_cancelled else 'working'} {int(time.monotonic() - self._started)} s"
        waits = self.status.text
        if self._is_asking:
            state, waits = "waiting for you", ""
        hint = "" if token.is_immediate else "Esc stops at once" if token.is_cancelled else "Esc stops"
        queued = self.steering.badge()
        mode = self.session.permission_mode
        ends = " · ".join(
            part for part in (mode if mode != "ask" else "", queued, HINT if self._menu else "", hint) if part
        )
        width = self.screen.width - 1
        above: list[str] = []
        if columns(" · ".join((state, waits, ends))) <= width:
            state = " · ".join(part for part in (state, waits) if part)
        elif waits:  # the reason may be long: it gets lines of its own
            above = few_lines(waits, width)
        line = one_line(" · ".join(part for part in (state, ends) if part), width)
        return self.screen.ink("dim", "\n".join([*above, line]))

    def _shown_menu(self) -> str:
        if not self._is_asking:
            return ""
        rows = max(self.screen.height - _MENU_LEAVES, 3)
        return "\n".join(self._menu.lines(self.screen.width - 1, rows, self.screen.ink))

    def _idle_status(self) -> str:
        """Return the status line between turns: what the session may do, and what it has used or how to begin."""
        if self._exit_code is not None:
            return ""
        connecting = connecting_servers(self.coordinator)
        servers = f"connecting MCP servers: {', '.join(connecting)}" if connecting else ""
        ends = [f"session {price_text(self.usage.session)}"] if self.usage.turn.answers else ["/help", "Ctrl-D leaves."]
        approvals = f"{counted(self._pending, 'call')} left to `amplifier approval`" if self._pending else ""
        return self.screen.ink("dim", joined([*self.about(), servers, approvals, *ends], self.screen.width - 1))

    @property
    def _is_asking(self) -> bool:
        return self._question is not None and not self._question.done()

    def _shown_label(self) -> str:
        if self._question is not None:
            return "" if self._question.done() else self._label
        if not self.screen.has_live_part and self._stop is not None:
            return ""
        state = self.coordinator.session_state
        shown = (state.get("active_mode"), state.get("pinned_provider"))
        return self.screen.ink("bold", "".join(f"[{plain(str(name))}]" for name in shown if name) + "> ")


def _picked(typed: str, options: Sequence[Option]) -> str | None:
    """Return the option that was typed: all of it, its number, or a part that only one has."""
    names = [option.answer for option in options]
    if typed in names:
        return typed
    if typed.isdecimal() and 1 <= int(typed) <= len(names):
        return names[int(typed) - 1]
    found = [name for name in names if typed.casefold() in name.casefold()]
    return found[0] if len(found) == 1 else None


#: Seconds for a loop to stop after an immediate cancellation.
_GRACE = 3.0


class TurnStop:
    """Stop one turn, each time a little harder."""

    def __init__(self, token: Any, turn: asyncio.Task[Any]) -> None:
        """Stop `turn`, whose session has the cancellation token `token`."""
        self._token = token
        self._turn = turn
        self._timer: asyncio.TimerHandle | None = None
        self.count = 0

    def press(self) -> str:
        """Stop it and return what that means."""
        self.count += 1
        if self.count == 1:
            self._token.request_graceful()
            return "stopping after the current step; Esc or Ctrl-C again stops at once"
        self.at_once()
        return "stopping at once"

    def at_once(self) -> None:
        """Stop immediately; an unresponsive turn is cancelled after a while, or at the next call."""
        was_immediate = self._token.is_immediate
        self._token.request_immediate()
        if was_immediate:
            self._turn.cancel()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GRACE, self._turn.cancel)

    def over(self) -> bool:
        """Reset the cancellation for the next turn; return whether this one was stopped."""
        if self._timer is not None:
            self._timer.cancel()
        was_stopped: bool = self._token.is_cancelled
        self._token.reset()
        return was_stopped
