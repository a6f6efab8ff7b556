"""Run one prompt in one session, and print the result."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TextIO

from amplifier_app_cli import exits
from amplifier_app_cli.app import App
from amplifier_app_cli.run.printers import Printer, printer_for
from amplifier_app_cli.session_app import Outcome, SessionApp
from amplifier_app_cli.session_request import PreparedSession, SessionRequest
from amplifier_app_cli.session_stats import SessionStats
from amplifier_app_cli.ui.layout import single_line
from amplifier_app_cli.ui.notices import McpServerNotice, Retry
from amplifier_app_cli.ui.say import complain, say
from amplifier_core.plan import plan_modules
from amplifier_foundation.errors import FoundationError

if TYPE_CHECKING:
    from amplifier_app_cli.run.attachments import Attachments
    from amplifier_app_cli.ui.approval.stderr_terminal import StderrTerminal
    from amplifier_foundation.approvals.pending_calls import PendingCall
    from amplifier_foundation.prompt.user_input import UserInput
    from amplifier_foundation.sessions.origin import ChildFacts


#: After all hooks of the session.
_AFTER: Final = 950
_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


class NothingToDoError(FoundationError):
    """There is no prompt, and no answered call to run."""

    code = "no_prompt"

    def __init__(self, session_id: str, *, has_pending: bool) -> None:
        answer = f"answer the pending calls: `amplifier approval list {session_id}`"
        hint = answer if has_pending else "no pending calls"
        super().__init__(f"no prompt: give one as an argument or pipe it in ({hint})")


async def run_prompt(app: App, request: SessionRequest, prompt: UserInput, output_format: str, out: TextIO) -> int:
    """Run the prompt, print the result to `out`, and return the exit code; the session is closed whatever happens."""
    view = _PromptView(app, request, prompt, output_format, out)
    printer = view.printer
    try:
        outcome = await view.run()
    except BaseException as error:
        # A bug of ours, or a module that exits the process: the reader of the records still gets a result.
        printer.finish(Outcome.failed("failed", f"{type(error).__name__}: {error}", exits.FAILURE))
        raise
    printer.finish(outcome)
    if outcome.error is not None and outcome.status != "cancelled":
        complain(outcome.exit_code, outcome.error)
    if len(outcome.spent) > 1:
        from amplifier_app_cli.ui.spending import spending_lines

        for line in spending_lines(outcome.spent):
            app.inform(line)
    view.close()
    if printer.failure is not None and outcome.exit_code == exits.OK:
        return complain(exits.FAILURE, f"the answer could not be printed: {printer.failure}")
    return outcome.exit_code


class _PromptView:
    """The view of one prompt: the printer shows the answer, standard error everything else."""

    def __init__(self, app: App, request: SessionRequest, prompt: UserInput, output_format: str, out: TextIO) -> None:
        self._app = app
        self._prompt = prompt
        self._session = SessionApp(app, request, self)
        self.printer: Printer = printer_for(output_format, out, self._session.stats, is_quiet=app.is_quiet)
        self._mcp_servers = McpServerNotice()
        #: None if the request names no files.
        self._attachments: Attachments | None = None
        #: The pending calls that run before the prompt.
        self._pending: tuple[PendingCall, ...] = ()
        self._prepared_after: int | None = None

    async def run(self) -> Outcome:
        """Run the prompt from preparing the session to closing it, and return how it ended."""
        session = self._session
        try:
            async with session:
                files = self._attachments
                if files is not None and files.schema is not None:
                    files.schema.register(session.coordinator)
                await self._mcp_servers.wait(session.coordinator, self._app.inform)
                outcome = await session.turn(self._prompt, self._pending, files.images if files is not None else ())
                self._mcp_servers.check(session.coordinator)
                outcome = self._with_hint(outcome)
                if files is not None:
                    outcome = files.check(outcome)
                if outcome.response is not None:
                    self.printer.answer(outcome.response)
        except asyncio.CancelledError:
            outcome = Outcome.stopped(session.signals.exit_code)
        except Exception as error:
            failure = session.failure(error)
            if failure is None:
                raise
            was_stopped = session.is_ready and session.signals.exit_code is not None
            outcome = Outcome.stopped(session.signals.exit_code) if was_stopped else Outcome.failed(*failure)
        if session.signals.exit_code is not None:
            outcome = outcome._replace(exit_code=session.signals.exit_code)
        return outcome

    def close(self) -> None:
        """Show which MCP servers were missing, how to see the log, and if verbose the timings and where the log is."""
        for note in self._mcp_servers.notes():
            self._app.inform(note)
        if self._app.is_verbose:
            for line in _timings(self._prepared_after, self._session.stats):
                self._app.inform(line)
        if self._session.was_opened:
            runtime = self._session.runtime
            command = f"amplifier logs {_short_id(runtime.session_id)}"
            self._app.inform(f"log: {runtime.log_path if self._app.is_verbose else command}")

    # -- what the session calls --

    async def start(self, session: SessionApp) -> None:
        """Read the attached files, say what runs, and connect printer and approvals. Raises NothingToDoError."""
        runtime = session.runtime
        if session.request.images or session.request.output_schema is not None:
            from amplifier_app_cli.run.attachments import Attachments

            self._attachments = await asyncio.to_thread(Attachments.read, session.request, runtime.prompt.access)
        self._prepared_after = session.stats.milliseconds
        for note in (*session.parts.notes, *runtime.warnings):
            say(f"note: {note}")  # also with --quiet: these differ from what the user expects
        if self._app.is_verbose:
            for line in _files_and_modules(session.parts):
                self._app.inform(line)
        choice = session.parts.choice
        self._app.inform(choice.line if self._app.is_verbose else choice.summary)
        session.signals.token = session.coordinator.cancellation
        self.printer.start(session)
        session.coordinator.hooks.register("provider:retry", self._on_retry, priority=_AFTER, name="app-retry")
        self._connect_approvals(session)

    def _on_retry(self, event: str, data: Mapping[str, Any]) -> None:
        """Show at once why there is no answer yet."""
        self._app.inform(single_line(str(self._session.scrub(str(Retry.of(data))))))

    def notice(self, text: str) -> None:
        self._app.inform(text)

    def message(self, text: str, level: str, source: str) -> None:
        self._app.inform(f"{level}: {text}" if level in ("warning", "error") else text)

    def child_event(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        self.printer.child(facts, event, data)

    def _connect_approvals(self, session: SessionApp) -> None:
        pending = session.runtime.pending_calls.list() if session.request.resume is not None else ()
        person: StderrTerminal | None = None
        self._pending = tuple(call for call in pending if call.answer is not None)
        if self._app.can_ask:
            from amplifier_app_cli.ui.approval.stderr_terminal import StderrTerminal

            person = StderrTerminal(self._app.environ, self.printer.pause)
            session.signals.on_stop = person.refuse
            self._pending = pending
        session.connect_approvals(person, via="run").expect(self._pending)
        if not self._prompt.text and not self._pending:
            raise NothingToDoError(session.runtime.session_id, has_pending=bool(pending))

    def _with_hint(self, outcome: Outcome) -> Outcome:
        """Return the outcome with how to resume the session, if a limit or a missing approval stopped it."""
        session_id = _short_id(self._session.runtime.session_id)
        if outcome.status == "budget_exhausted":
            return outcome._replace(error=f"{outcome.error}; resume with `amplifier run --resume {session_id}`")
        if outcome.status != "approval_needed":
            return outcome
        why = "left to another approver" if self._app.can_ask else "no user can be asked"
        how = (
            f"allow it with `amplifier approval allow {session_id}` or deny it with `amplifier approval deny "
            f"{session_id}`, then resume with `amplifier run --resume {session_id}`"
            if outcome.approvals
            else f"resume at a terminal with `amplifier resume {session_id}`"
        )
        return outcome._replace(error=f"{why}: {outcome.error}; {how}")


def _short_id(session_id: str) -> str:
    """Return what commands accept for a session: the beginning of a UUID, any other id as it is."""
    return session_id[:8] if re.fullmatch(_UUID, session_id) else session_id


def _files_and_modules(parts: PreparedSession) -> Iterator[str]:
    """Yield the settings and bundle files that were read, and every module with where it comes from."""
    prepared, documents = parts.prepared, parts.settings.documents
    for scope, document in documents:
        yield f"settings: {document.path} ({scope})"
    if not documents:
        yield "settings: none"
    composed = prepared.composed
    origin = ", as recorded with the session" if prepared.is_recorded else ""
    yield f"bundle: {' '.join(filter(None, (composed.name, composed.version)))} from {composed.uri}{origin}"
    of_settings = {document.path for _, document in documents}
    for layer in () if prepared.is_recorded else prepared.layers:
        if layer.document.path not in of_settings:
            yield f"bundle file: {layer.document.path} ({layer.owner})"
    yield f"home: {prepared.home.path}"
    for planned in plan_modules(composed.plan):
        module, entry = planned.module_id, planned.entry
        section = planned.kind if planned.section == "session" else planned.section
        folder = prepared.modules.get(module)
        place = str(folder) if folder is not None else "installed with the program"
        source = f", source {entry['source']}" if entry.get("source") else ""
        yield f"module: {section} {entry.get('id') or module} ({place}{source})"


def _timings(prepared_after: int | None, stats: SessionStats) -> Iterator[str]:
    """Yield how long each step took, in milliseconds since the command started."""
    if prepared_after is not None:
        yield f"time: prepared after {prepared_after} ms"
    if stats.first_output is not None:
        yield f"time: first output of the model after {stats.first_output} ms"
    yield f"time: done after {stats.milliseconds} ms"
