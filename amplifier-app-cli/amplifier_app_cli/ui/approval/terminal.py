"""Ask the person at the terminal for approval, one question at a time; anything but a clear yes denies."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_app_cli.ui.approval.edit import (
    EditorError,
    InputProblem,
    edit_text,
    escape_modelines,
    find_editor,
    format_input,
    input_diff,
    read,
)
from amplifier_app_cli.ui.approval.preview import Change, OwnKeys, change_asked_for, change_of, diff_tone, preview
from amplifier_app_cli.ui.approval.question import (
    ALLOW_ALWAYS,
    DENY,
    SCOPES,
    WORDS_FOR_HELP,
    Asked,
    Choices,
    Line,
    Pages,
    Question,
    UserTerminal,
    can_be_spared,
    chosen,
    consent,
    denied_by_now,
    edited_answer,
    explanation,
    is_for_good,
    keys,
    later,
    lets_nothing_run,
    menu,
    refusal,
)
from amplifier_app_cli.ui.colour import Tone
from amplifier_app_cli.ui.layout import wrap_text
from amplifier_app_cli.ui.menu import Menu
from amplifier_app_cli.ui.plain import on_one_line, plain, visible
from amplifier_core.approval import ApprovalHandler
from amplifier_foundation.approvals.answered_by import UNNAMED_PERSON, AnsweredBy, person_at
from amplifier_foundation.approvals.open_calls import ChildCalls, OpenCalls

if TYPE_CHECKING:
    from amplifier_core import ApprovalRequest, ApprovalResponse
    from amplifier_foundation.approvals.pending_calls import PendingCall, PendingQuestion, RecordedAnswers
    from amplifier_foundation.sessions.permissions import SessionPermissions
    from amplifier_kit.guard.policy.rules import Rule

#: Invalid answers before the question counts as denied.
_PATIENCE: Final = 3
#: Rows below a page, for the question and its answer.
_BELOW: Final = 3
_NEXT_PAGE: Final = ("", "space", "more")
#: Characters of an input from which on it is laid out in a thread.
_LARGE: Final = 50_000
#: Characters up to which a text is wrapped between words.
_LONG_TEXT: Final = 10_000
#: Before hooks that mask secrets: a rule is about the input as it will run.
_FIRST: Final = -1000
_HOW_LONG: Final = {"session": "for this session", "local": "for this project", "user": "for all your projects"}
#: The capability that loops ask after a denial, for the input that the person wants instead.
EDITED_INPUT: Final = "approval.edited_input"
#: Emitted when the user allows something permanently.
REMEMBERED: Final = "policy:remembered"


class TerminalApproval(ApprovalHandler):
    """The approval system of a session with a person at the terminal.

    `connect()` it to every session whose requests it answers: a hook that asks does not name the call it is about.
    """

    def __init__(
        self,
        person: UserTerminal,
        project: Path,
        scrub: Callable[[Any], Any] = lambda value: value,
        environ: Mapping[str, str] = os.environ,
        permissions: SessionPermissions | None = None,
        *,
        can_escalate: bool = False,
        children: ChildCalls | None = None,
        answered_by: AnsweredBy = UNNAMED_PERSON,
        own_values: OwnKeys | None = None,
    ) -> None:
        """Ask `person` about a session in `project`; text that `scrub` would mask is not written to disk.

        The person sees exactly what would run, except for the values of the keys in `own_values`: text that looks like
        a secret may be a command.

        `environ` names the editor for changing inputs. What is allowed permanently becomes a rule of `permissions`;
        without them nothing is remembered. With `can_escalate` the person may leave a decision to the next approver.
        `children` tracks the calls of child sessions. `answered_by` is the person, for the log.
        """
        self.answered_by = answered_by
        self._children = children
        self._can_escalate = can_escalate
        self._permissions = permissions
        self._environ = environ
        self._person = person
        self._project = project.resolve()
        self._scrub = scrub
        self._own_values = own_values or OwnKeys({})
        self._lock = asyncio.Lock()
        self._coordinators: list[Any] = []
        self._choices = Choices()
        self._calls = OpenCalls()
        self._answers: RecordedAnswers | None = None
        #: The inputs that the person wants instead, by call id.
        self._edits: dict[str, dict[str, Any]] = {}

    def connect(self, coordinator: Any) -> None:
        """Listen to a session."""
        self._coordinators.append(coordinator)
        self._calls.connect(coordinator)
        coordinator.hooks.register("tool:pre", self._on_call, priority=_FIRST, name="app-approval")
        coordinator.register_capability(EDITED_INPUT, self.edited_input)
        coordinator.register_contributor("observability.events", "app-approval", lambda: [REMEMBERED])

    def expect(self, calls: Iterable[PendingCall]) -> None:
        """Use the recorded answers of these calls."""
        from amplifier_foundation.approvals.pending_calls import RecordedAnswers

        self._answers = self._answers or RecordedAnswers()
        self._answers.expect(calls)

    def edited_input(self, tool_call_id: str) -> dict[str, Any] | None:
        """Return the input that the person wants for a call instead, once; None if they did not change it."""
        return self._edits.pop(tool_call_id, None)

    async def decide(self, request: ApprovalRequest) -> ApprovalResponse:
        """Return the person's answer; raise ApprovalTimeoutError after `request.timeout` seconds without one."""
        from amplifier_core import ApprovalResponse
        from amplifier_core.approval import ApprovalTimeoutError, is_consent

        asked, options = self._about(request), request.options or []
        async with self._lock:
            if (recorded := self._recorded_answer(asked, request)) is not None:
                answer = consent(options) if recorded.answer == "allow" else DENY
                by = person_at("approval", recorded.by, recorded.at)
                return ApprovalResponse(approved=is_consent(answer), answer=answer, answered_by=by)
            if (rule := self._allowing_rule(asked)) is not None:
                self._person.show(self._person.ink("dim", "allowed by the rule of an earlier answer"))
                return ApprovalResponse(approved=True, answer=ALLOW_ALWAYS, answered_by=rule)
            question = Question(
                request.prompt or "",
                options,
                asked,
                self._suggest(asked),
                is_editable=self._is_editable(request, asked),
                can_wait=self._can_escalate and self._can_be_written(asked),
            )
            # In its own task: a deadline that cancelled this one would look like a cancellation of the session.
            answering = asyncio.ensure_future(self._answer(question))
            try:
                done, _ = await asyncio.wait({answering}, timeout=request.timeout)
            finally:
                # Also when the deadline of the session is the first to pass, or the session is stopped.
                if not answering.done():
                    self._say("bad", "not answered, so not allowed")
                answering.cancel()
            if done:
                answer, by = answering.result(), self.answered_by
                if is_consent(answer) and (rule := denied_by_now(asked, self._permissions)) is not None:
                    answer, by = f"{DENY}: a rule denies it by now", rule
                return ApprovalResponse(approved=is_consent(answer), answer=answer, answered_by=by)
            await asyncio.wait({answering})
            raise ApprovalTimeoutError(f"no answer within {request.timeout:g} s")

    # -- what a request is about --

    def _on_call(self, event: str, data: dict[str, Any]) -> None:
        # Another call may have the id of one that was stopped after an edit.
        self._edits.pop(str(data.get("tool_call_id")), None)

    def _about(self, request: ApprovalRequest) -> Asked | None:
        """Return what a request is about; None for a hook's request outside of tool calls."""
        asker = self._asker(request)
        if request.origin == "policy":
            action, details = request.action, request.details
            if asker:
                return Asked(action, details, asker=asker)
            verdict = self._permissions.judge(action, details).verdict if self._permissions is not None else ""
            return Asked(action, details, verdict, sources=request.sources or ())
        call = self._calls.latest(request) if not asker else self._children.call(request) if self._children else None
        if call is None and not asker and not request.details.get("tool_name"):
            return None
        return Asked("", call or (request.details if request.origin == "module" else {}), asker=asker)

    def _asker(self, request: ApprovalRequest) -> str:
        """Return the agent that asks; empty for the session itself."""
        own = [coordinator.session_id for coordinator in self._coordinators]
        if request.session_id is None or request.session_id in own:
            return ""
        return self._children.asker(request) if self._children is not None else "an agent"

    def _recorded_answer(self, asked: Asked | None, request: ApprovalRequest) -> PendingQuestion | None:
        if self._answers is None or asked is None or not isinstance(asked.details.get("tool_call_id"), str):
            return None
        if asked.asker:  # calls of children never become pending
            return None
        from amplifier_foundation.approvals.pending_calls import question_of

        return self._answers.take(asked.details, question_of(request))

    def _allowing_rule(self, asked: Asked | None) -> AnsweredBy | None:
        """Return the rule that allows this since an earlier question was answered with "always", if any."""
        if asked is None or asked.verdict != "ask" or self._permissions is None:
            return None
        if not can_be_spared(asked, self._coordinators):
            return None
        judged = self._permissions.judge(asked.action, asked.details)
        return judged.answered_by if judged.verdict == "allow" else None

    def _suggest(self, asked: Asked | None) -> tuple[Rule, ...]:
        # A hook may ask again whatever rules allow: nothing is remembered for it.
        if asked is None or not asked.action or self._permissions is None:
            return ()
        if not can_be_spared(asked, self._coordinators):
            return ()
        rules = self._permissions.suggest(asked.action, asked.details)
        # A rule is stored as it is shown: one that holds a secret is not offered.
        return rules if all(self._has_no_secret(str(rule)) for rule in rules) else ()

    def _has_no_secret(self, text: str) -> bool:
        return str(self._scrub(text)) == text

    async def _remember(self, question: Question, typed: str) -> bool:
        """Store the rules that were shown; return False, after showing why, if that fails."""
        from amplifier_foundation.errors import FoundationError

        assert self._permissions is not None
        scope = SCOPES[typed.partition(" ")[2].strip().lower()]
        try:
            kept = self._permissions.remember(question.rules, scope, self.answered_by.get("user", ""))
        except (FoundationError, OSError) as error:
            self._say("bad", plain(str(self._scrub(f"not remembered: {error}"))))
            return False
        for each in kept:
            data = {"rule": str(each.rule), "rule_id": each.id, "scope": each.scope, "file": str(each.file)}
            await self._coordinators[-1].hooks.emit(REMEMBERED, {**data, "answered_by": dict(self.answered_by)})
            ends = f"until `amplifier policy remove {each.id}`"
            self._say("dim", f"allowed {_HOW_LONG[each.scope]}, {ends}")
        return True

    # -- the question --

    async def _answer(self, question: Question) -> str:
        if not self._person.can_answer:
            return refusal(question.options)
        if (early := await self._put(question)) is not None:
            return early
        label = self._label(question)
        patience = _PATIENCE
        while patience:
            typed = await self._person.ask(label, options=menu(question))
            word = typed.strip().lower() if typed is not None else ""
            if word in ("v", "view") and question.is_long:
                if (early := await self._put(question)) is not None:
                    return early
                continue
            if word in WORDS_FOR_HELP and chosen(question.options, word) is None:
                self._explain(explanation(question))
                continue
            if word in ("e", "edit") and question.is_editable:
                if await self._edit(question):
                    return edited_answer(question)
                continue
            if question.rules and is_for_good(word):
                if await self._remember(question, word):
                    return ALLOW_ALWAYS
                continue
            answer = self._parse(question, typed)
            if answer is not None:
                return answer
            self._person.show(f"not an answer; expected {keys(question)}")
            patience -= 1
        return DENY

    def _parse(self, question: Question, typed: str | None) -> str | None:
        """Return the answer that was typed, None if it is not one; the end of input denies."""
        if typed is None:
            return refusal(question.options)
        given = typed.strip()
        word, _, reason = given.partition(" ")
        word = word.lower().rstrip(",:")
        if word in ("n", "no"):
            # The model reads the reason; only a policy's question passes it on.
            return f"{DENY}: {reason.strip()}" if reason.strip() and question.is_policys else refusal(question.options)
        if given.lower() in ("y", "yes"):
            return consent(question.options)
        if word in ("l", "later") and question.can_wait:
            return later(reason.strip())
        if not question.is_plain:
            return chosen(question.options, given)
        return None

    # -- editing the input --

    def _is_editable(self, request: ApprovalRequest, asked: Asked | None) -> bool:
        """Return whether the person may change the input: the call has not run, and its input holds no secret.

        A secret would be written to a file for the editor, or lost where it is masked.
        """
        if asked is None or {"e", "edit"} & {option.strip().lower() for option in request.options or ()}:
            return False
        return bool(asked.action or self._calls.is_in_hooks(request)) and self._can_be_written(asked)

    def _can_be_written(self, asked: Asked | None) -> bool:
        """Return whether this is about a call of the session itself whose input can be stored as it is."""
        if asked is None or asked.asker:
            return False
        call, given = asked.details.get("tool_call_id"), asked.details.get("tool_input")
        if not isinstance(call, str) or not isinstance(given, dict):
            return False
        try:
            text = format_input(given)
            return self._has_no_secret(text) and read(text) == given
        except (TypeError, ValueError, RecursionError):  # a hook has put in something that is not JSON
            return False

    async def _edit(self, question: Question) -> bool:
        """Let the person change the input; return False if they did not, so that the question is asked again."""
        assert question.asked is not None
        details, show = question.asked.details, self._person.show
        before: dict[str, Any] = details["tool_input"]
        try:
            question.draft = await self._edit_text(before, question.draft)
            after = read(question.draft) if question.draft.strip() else before
        except (EditorError, InputProblem) as problem:
            self._say("bad", plain(str(self._scrub(f"not changed: {problem}"))))
            return False
        question.draft = None
        if after == before:
            show("nothing was changed")
            return False
        lines = self._safe("\n".join(input_diff(before, after))).split("\n")
        ink = self._person.ink
        show("\n".join(ink(tone, line) if (tone := diff_tone(line)) else line for line in lines))
        self._edits[details["tool_call_id"]] = after
        return True

    async def _edit_text(self, before: dict[str, Any], draft: str | None) -> str:
        """Return the input as the person edited it, in their editor or on one line; empty for no change."""
        person, editor = self._person, find_editor(self._environ)
        if editor is not None and person.can_lend:
            return await edit_text(draft or escape_modelines(format_input(before)), editor, person, self._environ)
        line = draft or format_input(before, on_one_line=True)
        person.show(self._safe(f"the input is {line}"))
        return await person.ask(person.ink("bold", "new input, as JSON (nothing: as it is): "), line) or ""

    # -- layout --

    def _shown(self, question: Question) -> list[Line]:
        """Return everything to show of a question, with invisible characters written out."""
        # A policy's question quotes the text of rules, which must not be able to imitate lines of ours.
        prompt = on_one_line(self._safe(question.prompt)) if question.is_policys else self._safe(question.prompt)
        lines = [Line(text, "bold") for text in self._laid_out(prompt)]
        asked = question.asked
        if asked is not None:
            if asked.asker:
                lines += map(Line, self._laid_out(visible(f"asked by {asked.asker}")))
            if tool := asked.details.get("tool_name"):
                lines.append(Line(on_one_line(f"tool: {tool}")))
            lines += [Line(on_one_line(self._safe(text))) for text in self._surroundings(asked.details)]
            about = asked.details.get("tool_input", asked.details)
            if shown := "\n".join(preview(about, self._folder(asked.details), self._change(asked))):
                lines += [Line(text, diff_tone(text)) for text in self._safe(shown).split("\n")]
        if self._person.has_menus:
            return lines
        if not question.is_plain:
            lines += [Line(visible(f"  {number}. {option}")) for number, option in enumerate(question.options, 1)]
        explained = self._choices.explain(question)
        return lines + [Line(text, "dim") for line in explained for text in wrap_text(line, self._person.width)]

    def _folder(self, details: Mapping[str, Any]) -> Path:
        """Return the folder that paths of a call are relative to."""
        folder = details.get("working_dir")
        return Path(folder) if isinstance(folder, str) else self._project

    def _change(self, asked: Asked) -> Change | None:
        """Return the change that a call of a file tool makes, for a diff; None for all other calls."""
        name = asked.details.get("tool_name")
        if asked.asker:
            return change_asked_for(asked.action, name)
        tools = ((coordinator.get("tools") or {}).get(name) for coordinator in self._coordinators)
        found = [change_of(tool) for tool in tools if tool is not None]
        return found[0] if found and len(set(found)) == 1 else None

    def _surroundings(self, details: Mapping[str, Any]) -> Iterator[str]:
        """Yield what else a request is about: a folder other than the project, and details that the tool added."""
        if "tool_input" not in details:
            return
        folder = details.get("working_dir")
        if isinstance(folder, str) and os.path.realpath(folder) != str(self._project):
            yield f"in: {folder}"
        from amplifier_foundation.approvals.pending_calls import extra_details

        if more := extra_details(dict(details)):
            yield f"about: {more}"

    def _safe(self, text: str) -> str:
        """Return a text for the person to decide on: complete, with own keys by name and hidden characters visible."""
        return visible(self._own_values.named(text))

    def _laid_out(self, text: str) -> list[str]:
        """Return the lines of a text, wrapped between words unless it is very long."""
        return wrap_text(text, self._person.width - 1) if len(text) < _LONG_TEXT else text.split("\n")

    async def _put(self, question: Question) -> str | None:
        """Show a question page by page; return an answer that was given before the last page, else None.

        Only a denial or an escalation counts before everything was shown.
        """
        if not question.lines:
            # A very large input takes a while, and the terminal must not freeze.
            is_large = question.asked is not None and len(repr(question.asked.details)) > _LARGE
            question.lines = await asyncio.to_thread(self._shown, question) if is_large else self._shown(question)
        person, pages, patience = self._person, Pages(question.lines), _PATIENCE
        options = Menu(menu(question)).lines(person.width, person.height, person.ink) if person.has_menus else ()
        below = _BELOW + len(options)
        while True:
            person.show(pages.take(person.width, person.height - below, person.ink))
            if pages.is_over:
                return None
            question.is_long = True
            while True:
                typed = await person.ask(person.ink("bold", f"{pages.share}% shown [Enter = next page, n = deny] "))
                if typed is not None and typed.strip().lower() in _NEXT_PAGE:
                    break
                answer = self._parse(question, typed)
                if answer is not None and lets_nothing_run(answer):
                    return answer
                if not (patience := patience - 1):
                    return DENY
                person.show("not all of it was shown yet: Enter shows the next page, n denies")

    def _say(self, tone: Tone, text: str) -> None:
        """Show a text, wrapped between words."""
        self._person.show(self._person.ink(tone, "\n".join(wrap_text(text, self._person.width - 1))))

    def _explain(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._person.show(self._person.ink("dim", "\n".join(wrap_text(line, self._person.width))))

    def _label(self, question: Question) -> str:
        return self._person.ink("bold", f"Allow? [{keys(question)}] ")
