"""Show the tools and child sessions at work, and how each of them ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from amplifier_app_cli.chat.screen import Screen
from amplifier_app_cli.chat.tool_output import FOLDED, FOLDED_FAILURE, KeptOutputs, ToolOutput, output_of
from amplifier_app_cli.children.endings import Ending
from amplifier_app_cli.children.live import LiveChild, LiveTree
from amplifier_app_cli.ui.approval.preview import diff_tone
from amplifier_app_cli.ui.layout import (
    columns,
    duration,
    few_lines,
    fit_label,
    one_line,
    shortened,
    single_line,
    summarize_input,
)
from amplifier_app_cli.ui.plain import plain, visible
from amplifier_app_cli.ui.spending import price_text
from amplifier_kit.named_tuple import NamedTuple

_PRIORITY = 950
_MOST_TOOLS = 5


class RunningTool(NamedTuple):
    """One call that runs."""

    name: str
    about: str
    tool_input: Any
    since: float
    call_id: str | None = None
    #: What a command has printed last.
    last_line: str = ""


#: The lines of a change that are shown below its call, and how to see the rest of an output.
_MOST_CHANGED: Final = 12
EXPAND: Final = "Ctrl-O shows all"
_EXPAND_LINES: Final = "/output shows all"
_CORNER: Final = "  └ "


def _no_changes(name: str, tool_input: Any) -> list[str]:
    return []


class ToolProgress:
    """Follow the tool calls of one session, and show how each of them ended, with a few lines of its output."""

    def __init__(
        self,
        screen: Screen,
        scrub: Callable[[Any], Any],
        changes: Callable[[str, Any], list[str]] = _no_changes,
    ) -> None:
        """Show calls on `screen`, without secrets: `scrub` takes them out of any value.

        `changes` returns the diff that a call of a tool amounts to, if it changes a file.
        """
        self._screen = screen
        self._scrub = scrub
        self._changes = changes
        #: Lines of an output that are shown at once.
        self.most_lines = FOLDED
        #: The outputs, to be shown in full.
        self.outputs = KeptOutputs()
        #: The changes that calls make, by the id of the call, unless the user has seen them in a question.
        self._unseen: dict[str, list[str]] = {}
        #: The calls that the user was asked about.
        self._asked: set[str] = set()
        #: The calls that run, by the id of their span.
        self.running: dict[str, RunningTool] = {}
        #: The calls that were running when the question was put that is open now.
        self._held: frozenset[str] | None = None
        #: From when to when a person was waited for, and which calls were running then.
        self._waits: list[tuple[float, float, frozenset[str]]] = []

    def connect(self, hooks: Any) -> None:
        """Listen to a session."""
        hooks.register("tool:pre", self._on_pre, priority=_PRIORITY, name="app-tools")
        hooks.register("tool:post", self._on_post, priority=_PRIORITY, name="app-tools")
        hooks.register("tool:error", self._on_error, priority=_PRIORITY, name="app-tools")
        hooks.register("tool:progress", self._on_progress, priority=_PRIORITY, name="app-tools")
        hooks.register("approval:required", self._on_question, priority=_PRIORITY, name="app-tools")
        hooks.register("approval:granted", self._on_grant, priority=_PRIORITY, name="app-tools")

    @property
    def live(self) -> str:
        """Return a line for each call that runs."""
        now = time.monotonic()
        lines = []
        for key, tool in list(self.running.items())[:_MOST_TOOLS]:
            lines.append(self._line("…", tool, self._time_of(key, tool, now)))
            if tool.last_line:
                lines.append(shortened(f"{_CORNER}{tool.last_line}", self._screen.width - 1))
        if len(self.running) > _MOST_TOOLS:
            lines.append(f"… and {len(self.running) - _MOST_TOOLS} more")
        return self._screen.ink("dim", "\n".join(lines))

    def clear(self) -> None:
        """Forget the running calls at the end of a turn."""
        self.running.clear()
        self._waits.clear()
        self._unseen.clear()
        self._asked.clear()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait for the person in a block; a call that runs alone then does not take that time itself."""
        began, held = time.monotonic(), frozenset(self.running)
        self._held = held
        try:
            yield
        finally:
            self._held = None
            self._waits.append((began, time.monotonic(), held))

    def _time_of(self, key: str, tool: RunningTool, now: float) -> str:
        """Return how long a call has taken, or that a person holds it up."""
        if self._held == frozenset((key,)):
            return "waiting for you"
        return duration(now - tool.since - self._waited(key, tool.since, now))

    def _waited(self, key: str, start: float, end: float) -> float:
        """Return how long a call waited for the user; unknown for parallel calls."""
        return sum(max(min(over, end) - max(began, start), 0.0) for began, over, held in self._waits if held <= {key})

    def _on_pre(self, event: str, data: dict[str, Any]) -> None:
        name, tool_input = str(data.get("tool_name")), self._scrub(data.get("tool_input"))
        tool = RunningTool(
            name, summarize_input(tool_input, 200), data.get("tool_input"), time.monotonic(), data.get("tool_call_id")
        )
        self.running[_key(data)] = tool
        if not self._screen.has_live_part:
            self._screen.show(self._line("…", tool, ""))
        self._screen.refresh()

    def _on_progress(self, event: str, data: dict[str, Any]) -> None:
        """Note the last line that a running command has printed."""
        line = plain(str(self._scrub(data.get("last_line") or ""))).strip()
        for key, tool in self.running.items():
            if tool.call_id == data.get("tool_call_id") and line:
                self.running[key] = tool._replace(last_line=line)

    def _on_question(self, event: str, data: dict[str, Any]) -> None:
        details = data.get("details")
        if isinstance(details, dict):
            self._asked.add(str(details.get("tool_call_id")))

    def _on_grant(self, event: str, data: dict[str, Any]) -> None:
        """Note the change that a call is about to make: the file is read, so not before the rules have allowed that."""
        details = data.get("details")
        identity = str(details.get("tool_call_id")) if isinstance(details, dict) else ""
        if not isinstance(details, dict) or identity in self._asked:
            return
        if changes := self._changes(str(details.get("tool_name")), details.get("tool_input")):
            self._unseen[identity] = str(self._scrub("\n".join(changes))).split("\n")

    def _on_post(self, event: str, data: dict[str, Any]) -> None:
        result = data.get("result")
        result = result if isinstance(result, dict) else {"output": result}
        failed = result.get("success") is False
        self._done(data, _message(result.get("error")) if failed else "", result, failed=failed)

    def _on_error(self, event: str, data: dict[str, Any]) -> None:
        status, message = str(data.get("status") or "error"), _message(data.get("error"))
        if status == "denied":  # by the user: the answer is the reason
            message = message.removeprefix("not approved: ").removeprefix("Deny").removeprefix(": ")
        self._done(data, f"{status}: {message}" if message else status, {}, failed=True)

    def _done(self, data: dict[str, Any], message: str, result: dict[str, Any], *, failed: bool) -> None:
        name, now = str(data.get("tool_name")), time.monotonic()
        tool = self.running.pop(_key(data), None) or RunningTool(name, "", None, now)
        took = float(data.get("duration_ms") or 0) / 1000
        if "waited_ms" not in data:  # a loop that counts the waiting for a person, too
            took -= self._waited(_key(data), now - took, now)
        mark, ink = "✘" if failed else "✔", self._screen.ink
        line = self._line(mark, tool, duration(max(took, 0.0)))
        output = output_of(line, self._scrub(result))
        self.outputs.add(output)
        head = ink("bad", line) if failed else ink("good", mark) + line.removeprefix(mark)
        reason = few_lines(str(self._scrub(message)), self._room) if message else []
        changed = self._unseen.pop(str(data.get("tool_call_id")), [])
        body = [ink("bad", part) for part in reason]
        if changed and not failed:
            body += self._changed(changed)
        else:
            body += [ink("dim", part) for part in self._folded(output, failed=failed)]
        self._screen.show(
            "\n".join([head, *(f"{'    ' if at else ink('dim', _CORNER)}{part}" for at, part in enumerate(body))])
        )

    @property
    def _room(self) -> int:
        """Return the columns of an output, behind its indent."""
        return max(self._screen.width - 1 - len(_CORNER), 1)

    def _folded(self, output: ToolOutput, *, failed: bool) -> list[str]:
        key = EXPAND if self._screen.has_live_part else _EXPAND_LINES
        return output.folded(self._room, max(self.most_lines, FOLDED_FAILURE if failed else 0), key)

    def _changed(self, lines: Sequence[str]) -> list[str]:
        """Return the first lines of a diff, without its two headings."""
        diff = [visible(line) for line in lines[2 if lines[0].startswith("--- ") else 0 :]]
        more = [f"… {len(diff) - _MOST_CHANGED} more lines of the change"] if len(diff) > _MOST_CHANGED + 1 else []
        shown = diff[:_MOST_CHANGED] if more else diff
        ink = self._screen.ink
        coloured = [ink(diff_tone(line) or "dim", shortened(line.expandtabs(4), self._room)) for line in shown]
        return [*coloured, *(ink("dim", line) for line in more)]

    def _line(self, mark: str, tool: RunningTool, time_taken: str) -> str:
        """Return mark, name, what the call is about, and its time, which is not what is cut."""
        end = f" ({time_taken})" if time_taken else ""
        room = self._screen.width - 1 - len(end)
        return one_line(f"{mark} {tool.name} {tool.about}", room) + end


def _key(data: dict[str, Any]) -> str:
    return str(data.get("span_id") or data.get("tool_call_id"))


def _message(error: Any) -> str:
    if isinstance(error, dict):
        return str(error.get("msg") or error.get("message") or error)
    return str(error or "")


#: Children that are shown at a time.
_MOST_CHILDREN = 10
#: Terminals narrower than this have thin branches.
_NARROW = 60
#: Columns of a name that identify it.
_NAME = 16


class ChildView:
    """Follow a tree on a screen. One that cannot draw gets a line for each thing that a child begins."""

    def __init__(self, screen: Screen, tree: LiveTree, outputs: KeptOutputs | None = None) -> None:
        """Show `tree` on `screen`; `outputs` keeps the calls of each child, to be shown in full."""
        self._screen = screen
        self._tree = tree
        self._outputs = outputs if outputs is not None else KeptOutputs()
        tree.watchers.append(self)

    @property
    def live(self) -> str:
        """Return a line for each child that runs, as a tree."""
        children = self._tree.running()
        if not children:
            return ""
        now = time.monotonic()
        lines = [
            self._line(branch, child.name, child.doing, [*_price(child), duration(now - child.since)])
            for branch, child in self._branches(children[:_MOST_CHILDREN])
        ]
        if len(children) > _MOST_CHILDREN:
            lines.append(one_line(f"… and {len(children) - _MOST_CHILDREN} more", self._screen.width - 1))
        return self._screen.ink("dim", "\n".join(lines))

    def on_start(self, child: LiveChild) -> None:
        """Show that a child runs."""
        self._show_step(child, "started")

    def on_change(self, child: LiveChild, event: str) -> None:
        """Show what a child does now."""
        if event == "tool:pre":
            self._show_step(child, child.doing)
        self._screen.refresh()

    def on_end(self, child: LiveChild) -> None:
        """Show how a child ended, what it took, and why it did not end well."""
        ending = child.ending
        mark = "✔" if ending.is_complete else "✘"
        indent = self._indent(child)
        end = [*_price(child), duration(time.monotonic() - child.since)]
        # Keep enough of the name; how it ended matters more than what it used.
        needed = min(columns(child.name), _NAME) + 2 + len(ending.word)
        while end and len(indent) + needed + sum(len(part) + 3 for part in end) > self._screen.width - 3:
            end.pop()
        line = self._line(f"{indent}{mark} ", child.name, ending.word, end)
        shown = (
            indent + self._screen.ink("good" if ending.is_complete else "bad", mark) + line[len(indent) + len(mark) :]
        )
        for reason in self._reason(child, ending, self._screen.width - 3 - len(indent)):
            shown += f"\n{indent}  {reason}"
        for call in self._calls(line, child, indent):
            shown += f"\n{call}"
        self._screen.show(shown)
        self._screen.refresh()

    def on_rejection(self, asker: LiveChild, agent: str, ending: Ending) -> None:
        """Show which agent a child could not spawn, and why; for the session itself the line of its call shows that."""
        indent = self._indent(asker, 1)
        line = self._line(f"{indent}✘ ", agent, "refused", [])
        shown = indent + self._screen.ink("bad", "✘") + line[len(indent) + 1 :]
        for reason in few_lines(str(self._tree.scrub(ending.reason)), self._screen.width - 3 - len(indent)):
            shown += f"\n{indent}  {reason}"
        self._screen.show(shown)

    def _calls(self, line: str, child: LiveChild, indent: str) -> list[str]:
        """Return the calls of a child that ended, folded; a screen without a live part has shown each of them."""
        if not self._screen.has_live_part or not child.ended_calls:
            return []
        output = ToolOutput(line, tuple(single_line(call) for call in child.ended_calls))
        self._outputs.add(output)
        room = self._screen.width - 1 - len(indent) - len(_CORNER)
        folded = output.folded(max(room, 1), FOLDED, EXPAND)
        rows = [f"{indent}{'    ' if at else _CORNER}{call}" for at, call in enumerate(folded)]
        return [self._screen.ink("dim", row) for row in rows]

    def _reason(self, child: LiveChild, ending: Ending, width: int) -> list[str]:
        """Return why it failed; nothing for a stop, whose reason the user knows.

        Nor of a child of the session itself whose call has failed with it: the line of the call has the same.
        """
        is_of_call = child.facts.depth == 1 and child.facts.tool_call_id is not None
        is_shown_by_call = is_of_call and ending.word != "incomplete"
        if not ending.reason or ending.word in ("completed", "cancelled") or is_shown_by_call:
            return []
        return few_lines(str(self._tree.scrub(ending.reason)), width)

    def _show_step(self, child: LiveChild, what: str) -> None:
        """Show what a child begins, on a screen without a live part."""
        if not self._screen.has_live_part:
            self._screen.show(self._line(f"{self._indent(child)}… ", child.name, what, []))

    def _indent(self, child: LiveChild, below: int = 0) -> str:
        step = 1 if self._screen.width < _NARROW else 2
        return " " * min(step * (child.facts.depth + below), self._screen.width // 3)

    def _branches(self, children: Sequence[LiveChild]) -> list[tuple[str, LiveChild]]:
        """Return each child with the branches that lead to it; what is too deep for the terminal begins later."""
        is_narrow = self._screen.width < _NARROW
        more, last, past, nothing = ("├", "└", "│", " ") if is_narrow else ("├─ ", "└─ ", "│  ", "   ")
        shown = {child.facts.session_id for child in children}
        parents = [child.facts.parent_id if child.facts.parent_id in shown else None for child in children]
        stems: dict[str | None, str] = {None: ""}
        found: list[tuple[str, LiveChild]] = []
        for number, child in enumerate(children):
            parent = parents[number]
            is_last = parent not in parents[number + 1 :]
            branch = stems[parent] + (last if is_last else more)
            stems[child.facts.session_id] = stems[parent] + (nothing if is_last else past)
            found.append((branch[-max(self._screen.width // 3, 1) :], child))
        return found

    def _line(self, start: str, name: str, what: str, end: Sequence[str]) -> str:
        """Return a line that fits; its end is kept as far as there is room."""
        room = self._screen.width - 1 - len(start)
        tail = "".join(f" · {part}" for part in end if part)
        if len(tail) > room // 2:  # a very narrow terminal: what it does counts more than what it takes
            tail = ""
        return start + fit_label(name, what, room - len(tail)) + tail


def _price(child: LiveChild) -> list[str]:
    return [price_text(child.usage)] if child.usage.answers else []
