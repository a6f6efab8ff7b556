"""Run a chat: take input, run turns and commands, let the person steer, stop and answer meanwhile, and end well."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from amplifier_app_cli import exits
from amplifier_app_cli.chat.answer import AnswerView
from amplifier_app_cli.chat.child_view import ChildView
from amplifier_app_cli.chat.ink import Ink
from amplifier_app_cli.chat.interrupts import TurnStop
from amplifier_app_cli.chat.layout import duration, one_line
from amplifier_app_cli.chat.progress import ToolProgress
from amplifier_app_cli.chat.screen import Screen
from amplifier_app_cli.chat.steering import Steering, told
from amplifier_app_cli.chat.usage import UsageMeter
from amplifier_app_cli.children.live import LiveTree
from amplifier_app_cli.ui.folding import folded
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.spending import usage_line
from amplifier_foundation.prompt.user_input import UserInput

if TYPE_CHECKING:
    from amplifier_app_cli.chat.commands import Commands
    from amplifier_app_cli.chat.session_approvals import SessionApprovals
    from amplifier_foundation.approvals.pending_calls import PendingCall
    from amplifier_foundation.sessions import SessionRuntime

_WORDS_TO_LEAVE: Final = ("exit", "quit", "/exit", "/quit")
#: Seconds between two drawings of how long something takes.
_TICK: Final = 0.5


class Conversation:
    """One chat with one session, from the first prompt to the last."""

    def __init__(
        self,
        runtime: SessionRuntime,
        screen: Screen,
        *,
        known_usage: Any = None,
        show_thinking: bool = True,
        is_trusted_now: bool = False,
        children: LiveTree | None = None,
    ) -> None:
        """Talk on `screen`; `known_usage` is what earlier turns used, as the session's metadata have it.

        `children` is told what the sessions do that this one starts.
        """
        coordinator = runtime.session.coordinator
        self.runtime = runtime
        self.coordinator = coordinator
        self.screen = screen
        self.answer = AnswerView(screen, show_thinking=show_thinking)
        self.progress = ToolProgress(screen, self.scrub)
        self.usage = UsageMeter(runtime.account, known_usage)
        self.children = children or LiveTree()
        self.children.scrub = self.scrub
        runtime.account.listeners.append(self.children.count)
        self.child_view = ChildView(screen, self.children)
        self.steering = Steering(coordinator)
        self.commands: Commands | None = None
        #: None when no user can be asked.
        self.approvals: SessionApprovals | None = None
        #: What goes before the next prompt, as a skill does.
        self.preface = ""
        #: What `/config` has taken out of the session, by category and name.
        self.switched_off: dict[str, dict[str, Any]] = {}
        #: Whether the project is trusted for this run alone.
        self.is_trusted_now = is_trusted_now
        #: What a command is run by, to know what of it was typed.
        self.given = UserInput("")
        self._inputs: asyncio.Queue[UserInput | None] = asyncio.Queue()
        self._stop: TurnStop | None = None
        self._command: asyncio.Task[None] | None = None
        self._started = 0.0
        self._question: asyncio.Future[str | None] | None = None
        self._label = ""
        self._exit_code: int | None = None
        self._wants_to_leave = False
        self._has_no_input = False
        screen.set_live(self._live, self._shown_label)

    def scrub(self, value: Any) -> Any:
        """Return a value without the secrets that are known."""
        return self.runtime.redactor.scrub(value).value

    @property
    def loop(self) -> str:
        """Return the module that runs the turns."""
        spec = self.runtime.session.config["session"]["orchestrator"]
        return str(spec.get("module") if isinstance(spec, dict) else spec)

    def connect(self) -> None:
        """Listen to the session."""
        hooks = self.coordinator.hooks
        self.answer.connect(hooks)
        self.progress.connect(hooks)
        self.children.connect(hooks)
        self.steering.connect()

    # -- the run of things --

    async def run(self, first_prompt: str | None = None, waited: Sequence[PendingCall] = ()) -> int:
        """Take input until the person leaves; return the exit code. Calls that waited are asked about first."""
        if first_prompt:
            self._inputs.put_nowait(UserInput.of_typed(first_prompt))
        listening = asyncio.create_task(self.screen.run(self))
        listening.add_done_callback(lambda task: self._on_deaf(task))
        try:
            if waited:
                await self.turn(UserInput(""), waited)
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
        """Return the next input, None when there is none any more."""
        if self._has_no_input and self._inputs.empty():
            return None
        self.screen.refresh()
        return await self._inputs.get()

    async def _handle(self, given: UserInput, *, is_known: bool = False) -> None:
        """Do what an input says; one that `is_known` was typed, and echoed, during the last turn."""
        text = given.text
        stripped = text.strip()
        if not stripped:
            return
        if is_known:
            self.screen.show(self.screen.ink("dim", one_line(f"now asked: {text}", self.screen.width - 1)))
        else:
            self._echo(text)
        if stripped in _WORDS_TO_LEAVE:
            self.leave()
        elif self._is_command(stripped) and self.commands is not None:
            self.given = given
            self._command = asyncio.create_task(self.commands.run(stripped))
            await asyncio.wait({self._command})
            self._command = None
        else:
            await self.turn(given)

    async def turn(self, given: UserInput, waited: Sequence[PendingCall] = ()) -> None:
        """Run one turn and show it, calls that waited before it; whatever happens, the chat goes on."""
        prompt, self.preface = UserInput.of_data(self.preface) + given, ""
        self.usage.start_turn()
        self.steering.start_turn()
        self._started = time.monotonic()
        if self.approvals is not None:
            waited = waited or self.approvals.start_turn(self.show)
        running = asyncio.create_task(self.runtime.execute(prompt, waited))
        self._stop = TurnStop(self.coordinator.cancellation, running)
        ticking = asyncio.create_task(self._tick())
        answer, failure = "", ""
        try:
            await asyncio.wait({running})
            if running.cancelled():
                failure = "stopped"
            elif (error := running.exception()) is not None and not self._is_used_up(error):
                failure = _described(error)
            elif self.runtime.budget.exhausted is not None:
                failure = self._budget_told()
            elif self.approvals is not None and self.approvals.must_stop:
                failure = self._pending_approvals(self.approvals)
            else:
                answer = str(running.result() or "")
        finally:
            ticking.cancel()
            stop, self._stop = self._stop, None
            self._refuse_question()
        self._close_turn(answer, failure, was_stopped=stop.over())

    def _is_used_up(self, error: BaseException) -> bool:
        """Tell whether an error says what the budget says."""
        return self.runtime.budget.exhausted is not None and getattr(error, "code", None) == "budget_exhausted"

    def _pending_approvals(self, approvals: SessionApprovals) -> str:
        """Return what the person left to somebody else, and how it is answered."""
        session = self.runtime.session_id[:8]
        how = f"; `amplifier approval allow {session}` or `deny` answers, and your next prompt here takes it up"
        return f"left to somebody else: {approvals.describe()}{how if approvals.pending else ''}"

    def _budget_told(self) -> str:
        """Return that a limit was reached, and how to go on."""
        again = f"amplifier resume {self.runtime.session_id[:8]}"
        return f"{self.runtime.budget.exhausted}; leave, and go on with `{again}`: each run counts anew"

    def _close_turn(self, answer: str, failure: str, *, was_stopped: bool) -> None:
        ink = self.screen.ink
        self.progress.clear()
        self.children.clear(was_stopped=was_stopped)
        if was_stopped or failure:
            self.answer.close()
        else:
            self.answer.finish(answer)
        if was_stopped:
            self.screen.show(ink("bad", "stopped"))
        elif failure:
            told_so = folded(plain(f"amplifier: {self.scrub(failure)}"), self.screen.width - 1)
            self.screen.show(ink("bad", told_so))
        if lost := self.steering.end_turn(is_well=not was_stopped and not failure):
            self.screen.show(told(lost, self.screen.width - 1))
        if (used := self.usage.turn).answers:
            took = duration(time.monotonic() - self._started)
            self.screen.show(ink("dim", one_line(f"{usage_line(used)} · {took}", self.screen.width - 1)))
        if self.screen.has_live_part:
            self.screen.show("")  # so that one turn can be told from the next

    async def _tick(self) -> None:
        while True:
            self.screen.refresh()
            await asyncio.sleep(_TICK)

    # -- what the person does --

    @property
    def is_busy(self) -> bool:
        """Tell whether a turn or a command runs, or a question waits."""
        return any(part is not None for part in (self._stop, self._question, self._command))

    @property
    def is_working(self) -> bool:
        """Tell whether a turn runs."""
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
        """Stop what runs; with nothing to stop, ask whether to leave, and leave the second time."""
        self._refuse_question()
        if self._stop is not None:
            self.screen.show(self.screen.ink("dim", self._stop.press()))
        elif self._command is not None:
            self._command.cancel()
            self.screen.show("stopped")
        elif self._wants_to_leave:
            self.leave(exits.INTERRUPTED)
        else:
            self._wants_to_leave = True
            self.screen.show("press Ctrl-C again to leave, or Ctrl-D")

    def on_end(self, *, is_final: bool) -> None:
        """Leave; a turn that runs is finished first when the input has ended for good, else nothing happens."""
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

    def _on_deaf(self, listening: asyncio.Task[None]) -> None:
        """End the chat when input broke down: there is nobody to talk with."""
        if not listening.cancelled() and (error := listening.exception()) is not None:
            self.screen.show(plain(f"amplifier: the terminal cannot be read: {type(error).__name__}: {error}"))
            self.leave(exits.FAILURE)

    def _during_turn(self, given: UserInput) -> None:
        text = given.text
        stripped = text.strip()
        ink = self.screen.ink
        self._echo(text)
        if stripped in _WORDS_TO_LEAVE:
            self.screen.show(ink("dim", "a turn runs: Ctrl-C stops it"))
        elif self._is_command(stripped):
            if self.commands is not None:
                self.commands.run_during_turn(stripped)
        else:
            self.screen.show(ink("dim", one_line(self.steering.take(given), self.screen.width - 1)))

    def _is_command(self, text: str) -> bool:
        """Tell a command from a prompt that begins with a path."""
        word = text.split(maxsplit=1)[0]
        return word.startswith("/") and "/" not in word[1:] and len(word) > 1

    def _echo(self, text: str) -> None:
        """Leave what was said on the screen, above the answer."""
        if self.screen.has_live_part:
            lines = plain(text.strip("\n")).split("\n")
            self.screen.show(
                "\n".join([f"{self.screen.ink('bold', '>')} {lines[0]}", *(f"  {line}" for line in lines[1:])])
            )

    # -- being asked --

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
        """Return how many rows there are above the input and what stands there while a turn runs."""
        live = self._live() if self.screen.has_live_part else ""
        return self.screen.height - (live.count("\n") + 1 if live else 0)

    def show(self, text: str) -> None:
        """Show lines."""
        self.answer.close()
        self.screen.show(text)

    @property
    def can_lend(self) -> bool:
        """Tell whether another program may have the terminal for a while."""
        return self.screen.can_lend

    def lent(self) -> AbstractAsyncContextManager[None]:
        """Leave the terminal to another program for the length of a block."""
        return self.screen.lent()

    async def ask(self, label: str, draft: str = "") -> str | None:
        """Return the next input, which may begin as `draft`, as the answer to a question; None when there is none."""
        # A turn that is being stopped asks nothing any more: Ctrl-C in an editor is a no as well.
        if self._has_no_input or self._exit_code is not None or self.coordinator.cancellation.is_cancelled:
            return None
        self._question = asyncio.get_running_loop().create_future()
        self._label = label
        self.screen.hide_input(draft)
        try:
            if self.screen.is_broken:
                return None
            with self.progress.waiting():
                answer = await self._question
            if answer:  # the input line is gone with it: what was answered stays to be read
                self.show(self.screen.ink("dim", one_line(plain(f"→ {self.scrub(answer)}"), self.screen.width - 1)))
            return answer
        finally:
            self._question = None
            self.screen.restore_input()

    def _refuse_question(self) -> None:
        if self._question is not None and not self._question.done():
            self._question.set_result(None)

    # -- what stands around the input --

    def _live(self) -> str:
        if self._stop is None:
            return ""
        parts = [self.answer.live, self.progress.live, self.child_view.live, self._status()]
        return "\n".join(part for part in parts if part)

    def _status(self) -> str:
        """Return how long the turn has taken, and what waits."""
        token = self.coordinator.cancellation
        state = f"{'stopping' if token.is_cancelled else 'working'} {int(time.monotonic() - self._started)} s"
        if self._question is not None and not self._question.done():
            state = "waiting for you"
        hint = "" if token.is_immediate else "Ctrl-C again stops at once" if token.is_cancelled else "Ctrl-C stops"
        parts = [part for part in (state, self.steering.badge(), hint) if part]
        return self.screen.ink("dim", one_line(" · ".join(parts), self.screen.width - 1))

    def _shown_label(self) -> str:
        if self._question is not None:
            return "" if self._question.done() else self._label
        if not self.screen.has_live_part and self._stop is not None:
            return ""
        pinned = self.coordinator.session_state.get("pinned_provider")
        return self.screen.ink("bold", f"[{plain(str(pinned))}]> " if pinned else "> ")


def _described(error: BaseException) -> str:
    """Return a failure in words."""
    from amplifier_app_cli.failures import described

    known = described(error, anything=True) if isinstance(error, Exception) else None
    return known.message if known is not None else f"{type(error).__name__}: {error}"
