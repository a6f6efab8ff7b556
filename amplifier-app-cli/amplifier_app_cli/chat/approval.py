"""Ask the person at the terminal for permission: one question at a time, and what is no clear yes is a no."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from amplifier_app_cli.chat.editor import EditorError, edited, editor_of
from amplifier_app_cli.chat.ink import Ink
from amplifier_app_cli.chat.json_input import InputProblem, difference, read, written
from amplifier_app_cli.chat.layout import wrapped
from amplifier_app_cli.chat.preview import preview
from amplifier_app_cli.chat.rule import Rule
from amplifier_app_cli.ui.plain import plain

_ALLOW: Final = "Allow"
_ALLOW_ALWAYS: Final = "Allow always"
_DENY: Final = "Deny"
#: What the kernel takes for a yes.
_CONSENT: Final = ("allow", "allow once", "allow always")
#: Answers that are none, before the question counts as refused.
_PATIENCE: Final = 3
_LINES_SHOWN: Final = 60
_CALLS_KNOWN: Final = 100
#: Before hooks that mask secrets in what they pass on: a rule is about the input as it will run.
_FIRST: Final = -1000
#: The capability that loops ask when a call was refused: the person may want another input.
EDITED_INPUT: Final = "approval.edited_input"


class Person(Protocol):
    """Whoever can be asked."""

    @property
    def ink(self) -> Ink:
        """Return how to emphasise text."""
        ...

    @property
    def width(self) -> int:
        """Return how many columns there are to show things in."""
        ...

    def show(self, text: str) -> None:
        """Show lines."""
        ...

    async def ask(self, label: str, draft: str = "") -> str | None:
        """Return the next answer, which may begin as `draft`; None when there will be none."""
        ...

    @property
    def can_lend(self) -> bool:
        """Tell whether another program may have the terminal for a while."""
        ...

    def lent(self) -> AbstractAsyncContextManager[None]:
        """Leave the terminal to another program for the length of a block."""
        ...


@dataclass(frozen=True)
class Asked:
    """What the kernel wants to know, with what the question itself does not say."""

    action: str
    details: dict[str, Any]


@dataclass
class _Question:
    prompt: str
    options: Sequence[str]
    asked: Asked | None
    rule: Rule | None
    lines: list[str] = field(default_factory=list)
    #: Whether the input that it is about may be changed.
    is_editable: bool = False
    #: The input as the person has left it, when it could not be taken.
    draft: str | None = None

    @property
    def is_plain(self) -> bool:
        """Tell whether yes and no are all the answers there are."""
        return [option.strip().lower() for option in self.options] in (["allow", "deny"], [])


class TerminalApproval:
    """Be the approval system of a session.

    The kernel asks with a sentence; what it is about is in the event before. So `connect()` it to the coordinator of
    every session whose questions it answers.
    """

    def __init__(
        self,
        person: Person,
        project: Path,
        scrub: Callable[[Any], Any] = lambda value: value,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Ask `person` about things in `project`; `scrub` takes secrets out of what is shown.

        `environ` names the editor that inputs are changed with.
        """
        self._environ = environ
        self._person = person
        self._project = project.resolve()
        self._scrub = scrub
        self._lock = asyncio.Lock()
        self._coordinators: list[Any] = []
        #: What is being asked, by span and question.
        self._asked: dict[tuple[str, str], Asked] = {}
        #: The latest calls of tools, by span.
        self._calls: dict[str, dict[str, Any]] = {}
        #: Spans whose call is heard by hooks just now: what is asked in them may be asked of another input.
        self._in_hooks: set[str] = set()
        #: What the person wants instead, by call; each is taken once.
        self._edits: dict[str, dict[str, Any]] = {}
        #: What the person has allowed for this session.
        self.rules: list[Rule] = []

    def connect(self, coordinator: Any) -> None:
        """Hear what the questions of a session are about."""
        self._coordinators.append(coordinator)
        hooks = coordinator.hooks
        hooks.register("approval:required", self._on_required, priority=_FIRST, name="app-approval")
        hooks.register("tool:pre", self._on_call, priority=_FIRST, name="app-approval")
        for event in ("approval:granted", "approval:denied"):
            hooks.register(event, self._on_decided, priority=_FIRST, name="app-approval")
        for event in ("tool:post", "tool:error"):
            hooks.register(event, self._on_closed, priority=_FIRST, name="app-approval")
        coordinator.register_capability(EDITED_INPUT, self.edited_input)

    def edited_input(self, tool_call_id: str) -> dict[str, Any] | None:
        """Return what the person wants a call to be run with instead, once; None when it was not changed."""
        return self._edits.pop(tool_call_id, None)

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Return the answer; raise ApprovalTimeoutError after `timeout` seconds without one."""
        from amplifier_core.approval import ApprovalTimeoutError

        asked = self._about(prompt)
        async with self._lock:
            if (rule := self._known(asked)) is not None:
                self._person.show(self._person.ink("dim", plain(f"allowed for this session: {rule}")))
                return _ALLOW_ALWAYS
            # What a hook asks, the hook may ask again: nothing is remembered in its place.
            if asked is not None and asked.action:
                rule = Rule.for_call(asked.action, asked.details, self._project)
            question = _Question(prompt, options, asked, rule, is_editable=self._is_editable(asked, options))
            # A task of its own: a deadline that cancels this one would look like the session being cancelled.
            answering = asyncio.ensure_future(self._answer(question))
            try:
                done, _ = await asyncio.wait({answering}, timeout=timeout if math.isfinite(timeout) else None)
            finally:
                answering.cancel()
            if done:
                return answering.result()
            await asyncio.wait({answering})
            self._person.show(self._person.ink("bad", "nobody answered in time"))
            raise ApprovalTimeoutError(f"nobody answered within {timeout:g} s")

    # -- what it is about --

    def _on_required(self, event: str, data: dict[str, Any]) -> None:
        prompt = f"Allow {data.get('action')}? {data.get('reason')}"
        details = data.get("details")
        asked = Asked(str(data.get("action")), details if isinstance(details, dict) else {})
        self._asked[str(data.get("span_id")), prompt] = asked
        self._in_hooks.discard(str(data.get("span_id")))

    def _on_call(self, event: str, data: dict[str, Any]) -> None:
        # Of a call that was stopped in between, nothing is left for another one with its id.
        self._edits.pop(str(data.get("tool_call_id")), None)
        self._in_hooks.add(str(data.get("span_id")))
        details = {key: data.get(key) for key in ("tool_name", "tool_input", "tool_call_id")}
        self._calls = {**dict(list(self._calls.items())[-_CALLS_KNOWN:]), str(data.get("span_id")): details}

    def _on_decided(self, event: str, data: dict[str, Any]) -> None:
        span = str(data.get("span_id"))
        self._in_hooks.discard(span)
        for key in [key for key in self._asked if key[0] == span]:
            del self._asked[key]

    def _on_closed(self, event: str, data: dict[str, Any]) -> None:
        self._in_hooks.discard(str(data.get("span_id")))

    def _about(self, prompt: str) -> Asked | None:
        spans = [str(coordinator.span_id) for coordinator in self._coordinators]
        asked = next((found for span in spans if (found := self._asked.get((span, prompt)))), None)
        if asked is not None:
            return asked
        # A hook asks by itself, about a call or about something else.
        return next((Asked("", self._calls[span]) for span in spans if span in self._calls), None)

    def _known(self, asked: Asked | None) -> Rule | None:
        if asked is None or not asked.action:
            return None
        return next((rule for rule in self.rules if rule.allows(asked.action, asked.details)), None)

    # -- the question --

    async def _answer(self, question: _Question) -> str:
        self._put(question)
        label = self._label(question)
        patience = _PATIENCE
        while patience:
            typed = await self._person.ask(label)
            word = typed.strip().lower() if typed is not None else ""
            if word in ("v", "view") and question.lines:
                self._person.show("\n".join(map(self._toned, question.lines)))
                continue
            if word in ("e", "edit") and question.is_editable:
                if await self._was_edited(question):
                    return _edited_answer(question)
                continue
            answer = self._understood(question, typed)
            if answer is not None:
                return answer
            self._person.show("that is no answer")
            patience -= 1
        return _DENY

    def _understood(self, question: _Question, typed: str | None) -> str | None:
        """Return what an answer means, None when it means nothing."""
        if typed is None:
            return _refusal(question.options)
        given = typed.strip()
        word, _, reason = given.partition(" ")
        word = word.lower().rstrip(",:")
        if word in ("n", "no"):
            # The model reads why; only the kernel's own question passes that on.
            return f"{_DENY}: {reason.strip()}" if reason.strip() and question.rule else _refusal(question.options)
        if given.lower() in ("y", "yes"):
            return _consent(question.options)
        if given.lower() in ("a", "always") and question.rule is not None:
            self.rules.append(question.rule)
            return _ALLOW_ALWAYS
        if not question.is_plain:
            return _chosen(question.options, given)
        return None

    # -- another input --

    def _is_editable(self, asked: Asked | None, options: Sequence[str]) -> bool:
        """Tell whether the answer may be another input: of a call that has not run, whose input holds no secret.

        A secret would be written to a file for the editor, or be lost where it is masked.
        """
        if asked is None or {"e", "edit"} & {option.strip().lower() for option in options}:
            return False
        call, given = asked.details.get("tool_call_id"), asked.details.get("tool_input")
        if not isinstance(call, str) or not isinstance(given, dict):
            return False
        if not asked.action and not any(str(one.span_id) in self._in_hooks for one in self._coordinators):
            return False
        try:
            text = written(given)
            return str(self._scrub(text)) == text and read(text) == given
        except (TypeError, ValueError, RecursionError):  # a hook has put something in that JSON has no word for
            return False

    async def _was_edited(self, question: _Question) -> bool:
        """Let the person change the input, and keep what they want; return False when it is to be asked again."""
        assert question.asked is not None
        details, show = question.asked.details, self._person.show
        before: dict[str, Any] = details["tool_input"]
        try:
            question.draft = await self._changed_text(before, question.draft)
            after = read(question.draft) if question.draft.strip() else before
        except (EditorError, InputProblem) as problem:
            show(self._person.ink("bad", plain(str(self._scrub(f"not changed: {problem}")))))
            return False
        question.draft = None
        if after == before:
            show("nothing was changed")
            return False
        lines = plain(str(self._scrub("\n".join(difference(before, after))))).split("\n")
        show("\n".join(map(self._toned, lines)))
        self._edits[details["tool_call_id"]] = after
        return True

    async def _changed_text(self, before: dict[str, Any], draft: str | None) -> str:
        """Return the JSON that the person makes of an input, in their editor or on one line; empty for no change."""
        person, editor = self._person, editor_of(self._environ)
        if editor is not None and person.can_lend:
            return await edited(draft or written(before), editor, person)
        line = draft or written(before, on_one_line=True)
        person.show(plain(f"the input is {line}"))
        return await person.ask(person.ink("bold", "new input, as JSON (nothing: as it is): "), line) or ""

    # -- what is shown --

    def _put(self, question: _Question) -> None:
        person, ink = self._person, self._person.ink
        person.show(ink("bold", "\n".join(wrapped(plain(str(self._scrub(question.prompt))), person.width - 1))))
        if question.asked is not None:
            tool = question.asked.details.get("tool_name")
            about = question.asked.details.get("tool_input", question.asked.details)
            shown = "\n".join(preview(about, self._project))
            question.lines = plain(str(self._scrub(shown))).split("\n") if shown else []
            if tool:
                person.show(plain(f"tool: {tool}"))
        hidden = len(question.lines) - _LINES_SHOWN
        lines = [*map(self._toned, question.lines[:_LINES_SHOWN])]
        if hidden > 0:
            lines.append(ink("bold", f"… {hidden} more lines: v shows all"))
        else:
            question.lines = []
        if lines:
            person.show("\n".join(lines))
        if not question.is_plain:
            person.show("\n".join(plain(f"  {number}. {option}") for number, option in enumerate(question.options, 1)))
        more = [f"a = for this session: {plain(str(question.rule))}"] if question.rule is not None else []
        more += ["e = change the input first"] if question.is_editable else []
        for line in more:
            person.show(ink("dim", "\n".join(wrapped(line, person.width))))

    def _label(self, question: _Question) -> str:
        keys = ["y", "n"]
        if question.rule is not None:
            keys.append("a")
        if question.is_editable:
            keys.append("e")
        if question.lines:
            keys.append("v")
        if not question.is_plain:
            keys.append("or a number")
        return self._person.ink("bold", f"Allow? [{'/'.join(keys)}] ")

    def _toned(self, line: str) -> str:
        ink = self._person.ink
        if line.startswith("+"):
            return ink("good", line)
        if line.startswith("-"):
            return ink("bad", line)
        return ink("note", line) if line.startswith("@@") else line


def _edited_answer(question: _Question) -> str:
    """Return the no to an input that another one is to take the place of: a loop that cannot do that runs neither."""
    if question.asked is not None and question.asked.action:
        return f"{_DENY}: the user wants another input"
    return _refusal(question.options)


def _consent(options: Sequence[str]) -> str:
    return next((option for option in options if option.strip().lower() in _CONSENT), _ALLOW)


def _refusal(options: Sequence[str]) -> str:
    return next((option for option in options if option.strip().lower().startswith("deny")), _DENY)


def _chosen(options: Sequence[str], given: str) -> str | None:
    """Return the option that a number or its own words name."""
    if given.isdecimal() and 1 <= int(given) <= len(options):
        return options[int(given) - 1]
    return next((option for option in options if option.strip().lower() == given.lower()), None)
