"""Run one prompt in one session and print what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from amplifier_app_cli import exits
from amplifier_app_cli.app import App
from amplifier_app_cli.collector import collect_what_is_new
from amplifier_app_cli.failures import described
from amplifier_app_cli.run.absent_servers import AbsentServers
from amplifier_app_cli.run.details import file_details, timing_details
from amplifier_app_cli.run.display import RunDisplay
from amplifier_app_cli.run.outcome import Facts, Outcome
from amplifier_app_cli.run.printers import Printer, printer_for
from amplifier_app_cli.run.request import Parts, RunRequest, make_parts, with_files
from amplifier_app_cli.run.tally import Tally
from amplifier_app_cli.signals import Signals
from amplifier_app_cli.ui.lost_mentions import LostMentions
from amplifier_app_cli.ui.sandbox_line import SandboxLine
from amplifier_app_cli.ui.say import complain, say
from amplifier_foundation.approvals.open_calls import ChildCalls
from amplifier_foundation.errors import FoundationError

if TYPE_CHECKING:
    from amplifier_app_cli.chat.question import Person
    from amplifier_app_cli.chat.session_approvals import SessionApprovals
    from amplifier_app_cli.run.output_form import OutputForm
    from amplifier_foundation.approvals.pending_calls import PendingCall
    from amplifier_foundation.children import ChildFacts
    from amplifier_foundation.prompt.user_input import UserInput
    from amplifier_foundation.sessions import SessionRuntime


class NothingToDoError(FoundationError):
    """There is no prompt, and no call whose answer would let the session go on."""

    code = "no_prompt"

    def __init__(self, session_id: str, *, has_waiting: bool) -> None:
        answer = f"answer what waits with `amplifier approval list {session_id}`" if has_waiting else "no call waits"
        super().__init__(f"there is no prompt: give one as an argument or pipe it in ({answer})")


async def run_once(app: App, request: RunRequest, prompt: UserInput, output_format: str, out: TextIO) -> int:
    """Run the prompt, print the result to `out`, and return the exit code; whatever happens, the session is closed."""
    tally = Tally()
    printer = printer_for(output_format, out, tally)
    run = _Run(app, request, printer, tally)
    with Signals() as signals:
        try:
            outcome = await run.to_end(prompt, signals)
        except BaseException as error:
            # A fault of ours, or a module that ends the process: whoever reads the records hears of it all the same.
            printer.finish(Outcome.failed("failed", f"{type(error).__name__}: {error}", exits.FAILURE))
            raise
        if signals.exit_code is not None:
            outcome = outcome._replace(exit_code=signals.exit_code)
    printer.finish(outcome)
    if outcome.error is not None and outcome.status != "cancelled":
        complain(outcome.exit_code, outcome.error)
    if len(outcome.spent) > 1:
        from amplifier_app_cli.ui.spending import spending_lines

        for line in spending_lines(outcome.spent):
            app.inform(line)
    run.say_goodbye()
    if printer.failure is not None and outcome.exit_code == exits.OK:
        return complain(exits.FAILURE, f"the answer could not be printed: {printer.failure}")
    return outcome.exit_code


class _Run:
    """The way of one prompt through one session."""

    def __init__(self, app: App, request: RunRequest, printer: Printer, tally: Tally) -> None:
        self._app, self._request, self._printer, self._tally = app, request, printer, tally
        self._runtime: SessionRuntime | None = None
        self._approvals: SessionApprovals | None = None
        self._prepared_after: int | None = None
        self._child_calls = ChildCalls()
        self._absent_servers = AbsentServers()

    async def to_end(self, prompt: UserInput, signals: Signals) -> Outcome:
        """Return how it ended; raises only what is nobody's fault but ours."""
        try:
            parts = await make_parts(self._app, self._request)
            runtime = self._runtime = self._bring(parts)
            parts = await asyncio.to_thread(with_files, parts, self._request, runtime.prompt.access)
        except asyncio.CancelledError:
            return Outcome.stopped(signals.exit_code)
        except Exception as error:
            failure = described(error)
            if failure is None:
                raise
            return Outcome.failed(*failure)
        self._prepared_after = self._tally.milliseconds
        self._say_what_runs(parts, runtime)
        signals.token = runtime.session.coordinator.cancellation
        signals.end_logs = runtime.end_logs
        return await self._converse(runtime, prompt, parts, signals)

    def say_goodbye(self) -> None:
        """Say which servers were missing, where the log is, and for whom wants to know, what took how long."""
        for note in self._absent_servers.notes():
            self._app.inform(note)
        if self._app.is_verbose:
            for line in timing_details(self._prepared_after, self._tally):
                self._app.inform(line)
        if self._runtime is not None and self._runtime.was_opened:
            self._app.inform(f"log: {self._runtime.log_path}")

    def _bring(self, parts: Parts) -> SessionRuntime:
        from amplifier_foundation.sessions import SessionRuntime

        return SessionRuntime(
            parts.prepared,
            saved=parts.saved,
            allow_missing_modules=self._request.allow_missing_modules,
            budget=self._request.budget,
            trust=self._request.trust,
            on_child_event=self._on_child,
        )

    def _on_child(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        """Count and show what the sessions do that this one starts."""
        self._child_calls.record(facts, event, data)
        self._tally.take_child(facts, event, data)
        self._printer.child(facts, event, data)

    def _say_what_runs(self, parts: Parts, runtime: SessionRuntime) -> None:
        for note in (*parts.notes, *runtime.warnings):
            say(f"note: {note}")  # a difference is never silent, whatever is quiet
        if self._app.is_verbose:
            for line in file_details(self._app, parts.prepared):
                self._app.inform(line)
        self._app.inform(parts.provider_line)

    async def _converse(self, runtime: SessionRuntime, prompt: UserInput, parts: Parts, signals: Signals) -> Outcome:
        coordinator = runtime.session.coordinator
        self._tally.connect(coordinator.hooks, runtime.account)
        SandboxLine(self._tell_aside).connect(coordinator.hooks)
        LostMentions(self._tell_aside).connect(coordinator.hooks)
        self._absent_servers.connect(coordinator.hooks)
        coordinator.display_system = RunDisplay(self._app.inform, lambda value: runtime.redactor.scrub(value).value)
        prepared = runtime.prepared
        facts = Facts(
            runtime.session_id, prepared.composed.name, runtime.provider, runtime.model, str(prepared.project)
        )
        self._printer.start(facts, coordinator.hooks, lambda value: runtime.redactor.scrub(value).value)
        try:
            ready = self._connect_approvals(runtime, prompt, signals)
            async with runtime:
                collect_what_is_new()
                if parts.images:
                    from amplifier_app_cli.run.images import put_into_prompt

                    await put_into_prompt(coordinator.get("context"), parts.images)
                if parts.form is not None:
                    parts.form.register(coordinator)
                answer = str(await runtime.execute(prompt, ready))
                self._absent_servers.look(coordinator)
                signals.closing = True
                outcome = _checked(self._ending(runtime, answer, signals.exit_code), parts.form)
                if outcome.response is not None:
                    self._printer.answer(outcome.response)
        except asyncio.CancelledError:
            return Outcome.stopped(signals.exit_code)
        except Exception as error:
            if signals.exit_code is not None:
                return Outcome.stopped(signals.exit_code)
            if runtime.budget.exhausted is not None and getattr(error, "code", None) == "budget_exhausted":
                return _used_up(runtime, runtime.budget.exhausted)
            failure = described(error, anything=True)
            assert failure is not None
            return Outcome.failed(*failure)
        return outcome

    def _tell_aside(self, text: str) -> None:
        """Say something while an answer may be on its way, on a line of its own."""
        if not self._app.is_quiet:
            self._printer.pause()
            self._app.inform(text)

    def _connect_approvals(
        self, runtime: SessionRuntime, prompt: UserInput, signals: Signals
    ) -> tuple[PendingCall, ...]:
        """Let somebody answer requests; return the pending calls that run now. Raises NothingToDoError."""
        from amplifier_app_cli.chat.session_approvals import SessionApprovals

        pending = runtime.pending_calls.list() if self._request.resume is not None else ()
        person: Person | None = None
        ready = tuple(call for call in pending if call.answer is not None)
        if self._app.can_ask:
            from amplifier_app_cli.run.person import TerminalPerson

            person = terminal = TerminalPerson(self._app.environ, self._printer.pause)
            signals.on_stop = terminal.refuse
            ready = pending
        self._approvals = SessionApprovals(runtime, self._child_calls, person, self._app.environ, via="run")
        self._approvals.expect(ready)
        if not prompt.text and not ready:
            raise NothingToDoError(runtime.session_id, has_waiting=bool(pending))
        return ready

    def _ending(self, runtime: SessionRuntime, answer: str, stopped: int | None) -> Outcome:
        """Return how a turn ended that came to its end."""
        tally = self._tally
        if stopped is not None or tally.status == "cancelled":
            return Outcome.stopped(stopped, answer)
        if self._approvals is not None and self._approvals.must_stop:
            return _needs_approval(runtime, self._approvals, has_person=self._app.can_ask)
        if tally.reason == "denied":
            return _refused(runtime, answer, is_first=not tally.answers)
        return Outcome(tally.status or "success", exits.OK, response=answer)


def _checked(outcome: Outcome, form: OutputForm | None) -> Outcome:
    """Return the end of a run, a failure when the answer does not have the form that was asked for."""
    fault = form.fault(outcome.response) if form is not None and outcome.response is not None else None
    if fault is None or outcome.exit_code != exits.OK:
        return outcome
    message = f"the answer does not fit the schema: {fault}"
    return outcome._replace(status="error", exit_code=exits.FAILURE, error=message, error_type="output_invalid")


def _needs_approval(runtime: SessionRuntime, approvals: SessionApprovals, *, has_person: bool) -> Outcome:
    """Return the end of a run that needs a person to go on."""
    calls = [
        {
            "id": call.id,
            "tool": call.tool_name,
            "input": runtime.redactor.scrub(call.tool_input).value,
            "question": call.questions[-1].prompt,
        }
        for call in approvals.pending
    ]
    how = (
        f"; answer with `amplifier approval allow {runtime.session_id}` or `deny`, then go on with "
        f"`amplifier run --resume {runtime.session_id}`"
        if calls
        else f"; go on at a terminal with `amplifier resume {runtime.session_id}`"
    )
    return Outcome(
        "approval_needed",
        exits.APPROVAL_NEEDED,
        error=f"{'left to somebody else' if has_person else 'nobody is here to answer'}: {approvals.describe()}{how}",
        error_type="approval_needed",
        approvals=tuple(calls),
    )


def _refused(runtime: SessionRuntime, answer: str, *, is_first: bool) -> Outcome:
    """Return the end of a turn that was not allowed to go on: by the budget, or by a hook."""
    if runtime.budget.exhausted is not None:
        return _used_up(runtime, runtime.budget.exhausted)
    if is_first:
        return Outcome("denied", exits.PROMPT_DENIED, error=answer, error_type="prompt_denied")
    return Outcome("denied", exits.FAILURE, error=answer, error_type="denied")


def _used_up(runtime: SessionRuntime, reason: str) -> Outcome:
    """Return the end of a run that may not use any more, with who used how much."""
    return Outcome(
        "budget_exhausted",
        exits.BUDGET_EXHAUSTED,
        error=f"{reason}; go on with `amplifier run --resume {runtime.session_id}`",
        error_type="budget_exhausted",
        spent=tuple(runtime.account.rows()),
    )
