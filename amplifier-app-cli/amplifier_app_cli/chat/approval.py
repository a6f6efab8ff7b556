"""Ask the person at the terminal for permission: one question at a time, and what is no clear yes is a no."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_app_cli.chat.editor import EditorError, edited, editor_of
from amplifier_app_cli.chat.ink import Tone
from amplifier_app_cli.chat.json_input import InputProblem, difference, read, without_modelines, written
from amplifier_app_cli.chat.layout import wrapped
from amplifier_app_cli.chat.own_values import OwnValues
from amplifier_app_cli.chat.pages import Line, Pages
from amplifier_app_cli.chat.preview import Change, change_asked_for, change_of, preview
from amplifier_app_cli.chat.question import (
    ALLOW_ALWAYS,
    DENY,
    SCOPES,
    WORDS_FOR_HELP,
    Asked,
    Choices,
    Person,
    Question,
    can_be_spared,
    chosen,
    consent,
    denied_by_now,
    edited_answer,
    explanation,
    is_for_good,
    is_kernels,
    keys,
    later,
    lets_nothing_run,
    refusal,
)
from amplifier_app_cli.ui.plain import on_one_line, plain, visible
from amplifier_core.approval import ApprovalHandler
from amplifier_foundation.permissions.answered_by import KEY, SOMEBODY, AnsweredBy, person_at
from amplifier_foundation.sessions.open_calls import OpenCalls

if TYPE_CHECKING:
    from amplifier_app_cli.chat.child_questions import ChildQuestions
    from amplifier_core import ApprovalRequest, ApprovalResponse
    from amplifier_foundation.permissions.session_permissions import SessionPermissions
    from amplifier_foundation.sessions.answered_calls import RecordedAnswers
    from amplifier_foundation.sessions.waiting_calls import WaitingCall, WaitingQuestion
    from amplifier_kit.guard.policy import Rule

#: Answers that are none, before the question counts as refused.
_PATIENCE: Final = 3
#: Rows that a question and the line of its answer take below a page.
_BELOW: Final = 3
#: What shows the next page.
_NEXT_PAGE: Final = ("", "space", "more")
#: Characters of an input that are laid out in a thread.
_LARGE: Final = 50_000
#: A text that is longer is not broken between words.
_LONG_TEXT: Final = 10_000
#: Before hooks that mask secrets in what they pass on: a rule is about the input as it will run.
_FIRST: Final = -1000
_HOW_LONG: Final = {"session": "for this session", "local": "for this project", "user": "for all your projects"}
#: The capability that loops ask when a call was refused: the person may want another input.
EDITED_INPUT: Final = "approval.edited_input"
#: Said when a person lets a rule hold from now on.
REMEMBERED: Final = "policy:remembered"


class TerminalApproval(ApprovalHandler):
    """Be the approval system of a session.

    A hook that asks names no call. So `connect()` it to the coordinator of every session whose requests it answers.
    """

    def __init__(
        self,
        person: Person,
        project: Path,
        scrub: Callable[[Any], Any] = lambda value: value,
        environ: Mapping[str, str] = os.environ,
        permissions: SessionPermissions | None = None,
        *,
        can_escalate: bool = False,
        children: ChildQuestions | None = None,
        answered_by: AnsweredBy = SOMEBODY,
        own_values: OwnValues | None = None,
    ) -> None:
        """Ask `person` about things in `project`; what `scrub` would mask is not written down.

        The person is shown what would run to the letter, but for the keys that `own_values` names: what looks like a
        secret may be a command.

        `environ` names the editor that inputs are changed with. What is allowed for good becomes a rule of
        `permissions`; without them nothing is remembered. With `can_escalate` the person may leave the decision about
        a call to whoever is asked next. `children` knows what the sessions ask that this one has started.
        `answered_by` tells the log who the person is.
        """
        self.answered_by = answered_by
        self._children = children
        self._can_escalate = can_escalate
        self._permissions = permissions
        self._environ = environ
        self._person = person
        self._project = project.resolve()
        self._scrub = scrub
        self._own_values = own_values or OwnValues({})
        self._lock = asyncio.Lock()
        self._coordinators: list[Any] = []
        self._choices = Choices()
        self._calls = OpenCalls()
        #: What was answered while calls waited.
        self._answers: RecordedAnswers | None = None
        #: What the person wants instead, by call; each is taken once.
        self._edits: dict[str, dict[str, Any]] = {}

    def connect(self, coordinator: Any) -> None:
        """Hear the calls of a session."""
        self._coordinators.append(coordinator)
        self._calls.connect(coordinator)
        coordinator.hooks.register("tool:pre", self._on_call, priority=_FIRST, name="app-approval")
        coordinator.register_capability(EDITED_INPUT, self.edited_input)
        coordinator.register_contributor("observability.events", "app-approval", lambda: [REMEMBERED])

    def expect(self, calls: Iterable[WaitingCall]) -> None:
        """Do not ask again what was answered while these calls waited."""
        from amplifier_foundation.sessions.answered_calls import RecordedAnswers

        self._answers = self._answers or RecordedAnswers()
        self._answers.expect(calls)

    def edited_input(self, tool_call_id: str) -> dict[str, Any] | None:
        """Return what the person wants a call to be run with instead, once; None when it was not changed."""
        return self._edits.pop(tool_call_id, None)

    async def decide(self, request: ApprovalRequest) -> ApprovalResponse:
        """Return the answer of the person; raise ApprovalTimeoutError when none comes in time."""
        from amplifier_core import ApprovalResponse
        from amplifier_core.approval import ApprovalTimeoutError, is_consent

        asked, options = self._about(request), request.options or []
        async with self._lock:
            if (said := self._answered_before(asked, request)) is not None:
                answer = consent(options) if said.answer == "allow" else DENY
                by = person_at("approval", said.by, said.at)
                return ApprovalResponse(approved=is_consent(answer), answer=answer, answered_by=by)
            if (rule := self._allowed_by_now(asked)) is not None:
                self._person.show(self._person.ink("dim", "allowed by the rule of an earlier answer"))
                return ApprovalResponse(approved=True, answer=ALLOW_ALWAYS, answered_by=rule)
            question = Question(
                request.prompt or "",
                options,
                asked,
                self._suggested(asked),
                is_editable=self._is_editable(request, asked),
                can_wait=self._can_escalate and self._can_be_written(asked),
            )
            # A task of its own: a deadline that cancels this one would look like the session being cancelled.
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

    # -- what it is about --

    def _on_call(self, event: str, data: dict[str, Any]) -> None:
        # Of a call that was stopped in between, nothing is left for another one with its id.
        self._edits.pop(str(data.get("tool_call_id")), None)

    def _about(self, request: ApprovalRequest) -> Asked | None:
        """Return what a request is about: what a policy asks, or the call that a hook asks about; None for neither."""
        asker = self._asker(request)
        if request.origin == "policy":
            action, details = request.action, request.details
            if asker:
                return Asked(action, details, asker=asker)
            verdict = self._permissions.verdict(action, details) if self._permissions is not None else ""
            return Asked(action, details, verdict, sources=request.sources or ())
        call = self._calls.latest(request) if not asker else self._children.call(request) if self._children else None
        if call is None and not asker and not request.details.get("tool_name"):
            return None
        return Asked("", call or (request.details if request.origin == "module" else {}), asker=asker)

    def _asker(self, request: ApprovalRequest) -> str:
        """Return the agent that asks; empty when the session itself does."""
        own = [coordinator.session_id for coordinator in self._coordinators]
        if request.session_id is None or request.session_id in own:
            return ""
        return self._children.asker(request) if self._children is not None else "an agent"

    def _answered_before(self, asked: Asked | None, request: ApprovalRequest) -> WaitingQuestion | None:
        if self._answers is None or asked is None or not isinstance(asked.details.get("tool_call_id"), str):
            return None
        if asked.asker:  # calls of children do not wait
            return None
        from amplifier_foundation.sessions.answered_calls import question_of

        return self._answers.take(asked.details, question_of(request))

    def _allowed_by_now(self, asked: Asked | None) -> AnsweredBy | None:
        """Return the rule of an earlier answer that allows this: it was not there when it was asked."""
        if asked is None or asked.verdict != "ask" or self._permissions is None:
            return None
        if not can_be_spared(asked, self._coordinators):
            return None
        return self._permissions.allowing_rule(asked.action, asked.details)

    def _suggested(self, asked: Asked | None) -> tuple[Rule, ...]:
        # What a hook asks, the hook may ask again: nothing is remembered in its place.
        if asked is None or not asked.action or self._permissions is None:
            return ()
        if not can_be_spared(asked, self._coordinators):
            return ()
        rules = self._permissions.suggest(asked.action, asked.details)
        # A rule is shown and written down as it is: one that holds a secret is neither.
        return rules if all(self._is_told_whole(str(rule)) for rule in rules) else ()

    def _is_told_whole(self, text: str) -> bool:
        return str(self._scrub(text)) == text

    async def _remember(self, question: Question, typed: str) -> bool:
        """Let the rules hold that were shown; return False, after saying why, when that cannot be."""
        from amplifier_foundation.errors import FoundationError

        assert self._permissions is not None
        scope = SCOPES[typed.partition(" ")[2].strip().lower()]
        try:
            kept = self._permissions.remember(question.rules, scope, self.answered_by.get("user", ""))
        except (FoundationError, OSError) as error:
            self._say("bad", plain(str(self._scrub(f"not remembered: {error}"))))
            return False
        for each in kept:
            told = {"rule": str(each.rule), "rule_id": each.id, "scope": each.scope, "file": str(each.file)}
            await self._coordinators[-1].hooks.emit(REMEMBERED, {**told, KEY: dict(self.answered_by)})
            ends = f"until `amplifier policy revoke {each.id}`"
            self._say("dim", f"allowed {_HOW_LONG[each.scope]}, {ends}")
        return True

    # -- the question --

    async def _answer(self, question: Question) -> str:
        if (early := await self._put(question)) is not None:
            return early
        label = self._label(question)
        patience = _PATIENCE
        while patience:
            typed = await self._person.ask(label)
            word = typed.strip().lower() if typed is not None else ""
            if word in ("v", "view") and question.is_long:
                if (early := await self._put(question)) is not None:
                    return early
                continue
            if word in WORDS_FOR_HELP and chosen(question.options, word) is None:
                self._explain(explanation(question))
                continue
            if word in ("e", "edit") and question.is_editable:
                if await self._was_edited(question):
                    return edited_answer(question)
                continue
            if question.rules and is_for_good(word):
                if await self._remember(question, word):
                    return ALLOW_ALWAYS
                continue
            answer = self._understood(question, typed)
            if answer is not None:
                return answer
            self._person.show(f"that is no answer: {keys(question)}")
            patience -= 1
        return DENY

    def _understood(self, question: Question, typed: str | None) -> str | None:
        """Return what an answer means, None when it means nothing."""
        if typed is None:
            return refusal(question.options)
        given = typed.strip()
        word, _, reason = given.partition(" ")
        word = word.lower().rstrip(",:")
        if word in ("n", "no"):
            # The model reads why; only the kernel's own question passes that on.
            return f"{DENY}: {reason.strip()}" if reason.strip() and is_kernels(question) else refusal(question.options)
        if given.lower() in ("y", "yes"):
            return consent(question.options)
        if word in ("l", "later") and question.can_wait:
            return later(reason.strip())
        if not question.is_plain:
            return chosen(question.options, given)
        return None

    # -- another input --

    def _is_editable(self, request: ApprovalRequest, asked: Asked | None) -> bool:
        """Tell whether the answer may be another input: of a call that has not run, whose input holds no secret.

        A secret would be written to a file for the editor, or be lost where it is masked.
        """
        if asked is None or {"e", "edit"} & {option.strip().lower() for option in request.options or ()}:
            return False
        return bool(asked.action or self._calls.is_in_hooks(request)) and self._can_be_written(asked)

    def _can_be_written(self, asked: Asked | None) -> bool:
        """Tell whether a question is about a call of the session itself whose input can be written down as it is."""
        if asked is None or asked.asker:
            return False
        call, given = asked.details.get("tool_call_id"), asked.details.get("tool_input")
        if not isinstance(call, str) or not isinstance(given, dict):
            return False
        try:
            text = written(given)
            return self._is_told_whole(text) and read(text) == given
        except (TypeError, ValueError, RecursionError):  # a hook has put something in that JSON has no word for
            return False

    async def _was_edited(self, question: Question) -> bool:
        """Let the person change the input, and keep what they want; return False when it is to be asked again."""
        assert question.asked is not None
        details, show = question.asked.details, self._person.show
        before: dict[str, Any] = details["tool_input"]
        try:
            question.draft = await self._changed_text(before, question.draft)
            after = read(question.draft) if question.draft.strip() else before
        except (EditorError, InputProblem) as problem:
            self._say("bad", plain(str(self._scrub(f"not changed: {problem}"))))
            return False
        question.draft = None
        if after == before:
            show("nothing was changed")
            return False
        lines = self._safe("\n".join(difference(before, after))).split("\n")
        ink = self._person.ink
        show("\n".join(ink(tone, line) if (tone := _tone(line)) else line for line in lines))
        self._edits[details["tool_call_id"]] = after
        return True

    async def _changed_text(self, before: dict[str, Any], draft: str | None) -> str:
        """Return the JSON that the person makes of an input, in their editor or on one line; empty for no change."""
        person, editor = self._person, editor_of(self._environ)
        if editor is not None and person.can_lend:
            return await edited(draft or without_modelines(written(before)), editor, person, self._environ)
        line = draft or written(before, on_one_line=True)
        person.show(self._safe(f"the input is {line}"))
        return await person.ask(person.ink("bold", "new input, as JSON (nothing: as it is): "), line) or ""

    # -- what is shown --

    def _shown(self, question: Question) -> list[Line]:
        """Return everything that the person is to see of a question, made visible to the last character."""
        # The kernel's question quotes the text of rules: it must not be able to imitate lines of ours.
        prompt = on_one_line(self._safe(question.prompt)) if is_kernels(question) else self._safe(question.prompt)
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
                lines += [Line(text, _tone(text)) for text in self._safe(shown).split("\n")]
        if not question.is_plain:
            lines += [Line(visible(f"  {number}. {option}")) for number, option in enumerate(question.options, 1)]
        explained = self._choices.told(question)
        return lines + [Line(text, "dim") for line in explained for text in wrapped(line, self._person.width)]

    def _folder(self, details: Mapping[str, Any]) -> Path:
        """Return where the paths of a call begin."""
        folder = details.get("working_dir")
        return Path(folder) if isinstance(folder, str) else self._project

    def _change(self, asked: Asked) -> Change | None:
        """Return what a call does to a file that a diff can tell, None for all calls but those of file tools."""
        name = asked.details.get("tool_name")
        if asked.asker:
            return change_asked_for(asked.action, name)
        tools = ((coordinator.get("tools") or {}).get(name) for coordinator in self._coordinators)
        found = [change_of(tool) for tool in tools if tool is not None]
        return found[0] if found and len(set(found)) == 1 else None

    def _surroundings(self, details: Mapping[str, Any]) -> Iterator[str]:
        """Yield what else a call is about: another folder than the project, and what only its tool knows."""
        if "tool_input" not in details:
            return
        folder = details.get("working_dir")
        if isinstance(folder, str) and os.path.realpath(folder) != str(self._project):
            yield f"in: {folder}"
        from amplifier_foundation.sessions.answered_calls import more_details

        if more := more_details(dict(details)):
            yield f"about: {more}"

    def _safe(self, text: str) -> str:
        """Return a text to decide on: all of it, with keys of the user by name and what cannot be seen written out."""
        return visible(self._own_values.named(text))

    def _laid_out(self, text: str) -> list[str]:
        """Return a text broken between words where the terminal is too narrow for it; a very long one as it is."""
        return wrapped(text, self._person.width - 1) if len(text) < _LONG_TEXT else text.split("\n")

    async def _put(self, question: Question) -> str | None:
        """Show a question page by page; return the answer of a person who has seen enough before, else None.

        Only what lets nothing run is an answer before the last page was shown.
        """
        if not question.lines:
            # Of a very large input it takes a while, and the terminal must not stand still.
            is_large = question.asked is not None and len(repr(question.asked.details)) > _LARGE
            question.lines = await asyncio.to_thread(self._shown, question) if is_large else self._shown(question)
        person, pages, patience = self._person, Pages(question.lines), _PATIENCE
        while True:
            person.show(pages.take(person.width, person.height - _BELOW, person.ink))
            if pages.is_over:
                return None
            question.is_long = True
            while True:
                typed = await person.ask(person.ink("bold", f"{pages.share}% shown [Enter = next page, n = deny] "))
                if typed is not None and typed.strip().lower() in _NEXT_PAGE:
                    break
                answer = self._understood(question, typed)
                if answer is not None and lets_nothing_run(answer):
                    return answer
                if not (patience := patience - 1):
                    return DENY
                person.show("not all of it was shown yet: Enter shows the next page, n denies")

    def _say(self, tone: Tone, text: str) -> None:
        """Show a text, broken between words where the terminal is too narrow for it."""
        self._person.show(self._person.ink(tone, "\n".join(wrapped(text, self._person.width - 1))))

    def _explain(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._person.show(self._person.ink("dim", "\n".join(wrapped(line, self._person.width))))

    def _label(self, question: Question) -> str:
        return self._person.ink("bold", f"Allow? [{keys(question)}] ")


def _tone(line: str) -> Tone | None:
    """Return how a line of a diff looks."""
    if line.startswith("+"):
        return "good"
    if line.startswith("-"):
        return "bad"
    return "note" if line.startswith("@@") else None
