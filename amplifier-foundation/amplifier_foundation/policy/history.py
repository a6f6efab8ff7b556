"""Read from logs what sessions did and who allowed it; replay that against rules, and suggest rules from it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Literal

from amplifier_foundation.policy.permissions import Judgement, Permissions
from amplifier_kit.guard.policy.rules import Rule
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_kit.log.reader import LogLine

#: What happened: it ran without asking, it was asked, rules denied it, or it ran without any judgement.
Then = Literal["allowed", "asked", "denied", "unjudged"]

_REQUIRED: Final = "approval:required"
_GRANTED: Final = "approval:granted"
_DENIED: Final = "approval:denied"
_BEFORE: Final = "tool:pre"
_AFTER: Final = "tool:post"
_EVENTS: Final = frozenset({_REQUIRED, _GRANTED, _DENIED, _BEFORE, _AFTER})
_MASKED: Final = "[REDACTED"
#: Answers that no person gave.
_OF_NOBODY: Final = ("nobody", "timeout", "failure")


class PastAction(NamedTuple):
    """One action of a session, as it would be judged, and its outcome then."""

    action: str
    details: Mapping[str, Any]
    then: Then
    #: Whether it was granted in the end; None when the log ends before an answer.
    is_granted: bool | None
    reason: str
    #: Who decided, as the event says: a policy, `approval_system`, `kernel`, `hooks`; empty when it was not decided.
    source: str
    project: Path
    session: str
    at: str | None
    #: What kind of answer it was, as the event says in `answered_by`; empty when it does not.
    kind: str = ""

    @property
    def is_masked(self) -> bool:
        """Whether the log masks a secret: then it is not exactly what ran."""
        return _MASKED in _text(self.details)

    @property
    def is_unanswered(self) -> bool:
        """Whether an approval was requested that no person answered, or not in time."""
        is_nobodys = self.is_granted is None or self.source == "kernel" or self.kind in _OF_NOBODY
        return self.then == "asked" and is_nobodys

    @property
    def shown(self) -> str:
        """What it was, in a few words: the command, the path, the address, else the tool."""
        given = self.details.get("tool_input")
        for place in (self.details, given if isinstance(given, Mapping) else {}):
            for key in ("command", "path", "file_path", "url", "host", "pattern"):
                if isinstance(place.get(key), str):
                    return str(place[key])
        return str(self.details.get("tool_name") or self.action)


@dataclass
class Past:
    """The actions of some sessions, and the parts of their logs that could not be read."""

    actions: list[PastAction] = field(default_factory=list)
    sessions: int = 0
    problems: list[str] = field(default_factory=list)


def read_past(sessions: Iterable[tuple[Path, Path]]) -> Past:
    """Read what sessions have done, given their folders and projects; `problems` says what cannot be read."""
    past = Past()
    for folder, project in sessions:
        read_session(past, folder, project)
    return past


def read_session(past: Past, folder: Path, project: Path) -> None:
    """Add what one session did, by its log; what cannot be read goes into the problems."""
    from amplifier_kit.log.reader import read_log

    reading = _Reading(folder.name, project)
    torn: list[Any] = []
    try:
        for line in read_log(folder, torn.append):
            if line.event in _EVENTS:
                reading.take(line)
    except OSError as error:
        past.problems.append(f"{folder}: the log cannot be read: {error.strerror or error}")
    past.sessions += 1
    past.actions += reading.finished()
    damaged = len(torn) + reading.unreadable
    if damaged:
        past.problems.append(f"{folder}: {damaged} lines of the log cannot be read, so that their actions are missing")


class _Reading:
    """One pass over a session's log."""

    def __init__(self, session: str, project: Path) -> None:
        self._session = session
        self._project = project
        self._found: list[PastAction] = []
        self._waiting: list[tuple[str, PastAction]] = []
        self._inputs: dict[str, Any] = {}
        self._judged: set[str] = set()
        self.unreadable = 0

    def take(self, line: LogLine) -> None:
        """Process one line."""
        try:
            data = line.resolved()
        except LookupError:
            self.unreadable += 1
            return
        if data.get("origin") == "hook":
            return  # a hook's own question: rules do not judge it
        if line.event == _BEFORE:
            self._inputs[str(data.get("tool_name"))] = data.get("tool_input")
        elif line.event == _AFTER:
            self._ran(data, line.ts)
        elif line.event == _REQUIRED:
            asked = self._action(data, line.ts, "asked", None)
            self._waiting.append((_key(data, asked), asked))
        else:
            self._decided(data, line)

    def finished(self) -> Iterable[PastAction]:
        """Return all that was found; questions without an answer are the last."""
        return [*self._found, *(asked for _, asked in self._waiting)]

    def _decided(self, data: Mapping[str, Any], line: LogLine) -> None:
        is_granted = line.event == _GRANTED
        done = self._action(data, line.ts, "allowed" if is_granted else "denied", is_granted)
        key = _key(data, done)
        index = next((index for index, (other, _) in enumerate(self._waiting) if other == key), None)
        if index is not None:
            asked = self._waiting.pop(index)[1]
            done = done._replace(action=done.action if "action" in data else asked.action, then="asked")
        self._judged.add(_call(done.details))
        self._found.append(done)

    def _ran(self, data: Mapping[str, Any], at: str | None) -> None:
        """Record a call that ran, unless it was judged."""
        name = data.get("tool_name")
        details = {"tool_name": name, "tool_input": data.get("tool_input", self._inputs.get(str(name)))}
        if data.get("tool_call_id"):
            details["tool_call_id"] = data["tool_call_id"]
        if isinstance(name, str) and _call(details) not in self._judged:
            self._found.append(
                PastAction(f"tool.{name}", details, "unjudged", True, "", "", self._project, self._session, at)
            )

    def _action(self, data: Mapping[str, Any], at: str | None, then: Then, is_granted: bool | None) -> PastAction:
        """Return what an event is about; published ones name the tool alone, and the call was just before."""
        details = data.get("details")
        action = data.get("action")
        if not isinstance(details, Mapping):
            name = str(data.get("tool_name") or "")
            details = {"tool_name": name, "tool_input": self._inputs.get(name)}
        if not isinstance(action, str) or "." not in action or " " in action:
            action = f"tool.{details.get('tool_name') or 'unknown'}"
        reason, source = str(data.get("reason") or ""), str(data.get("source") or "")
        by = data.get("answered_by")
        kind = str(by.get("kind") or "") if isinstance(by, Mapping) else ""
        return PastAction(action, details, then, is_granted, reason, source, self._project, self._session, at, kind)


def _call(details: Mapping[str, Any]) -> str:
    """Return what makes it the same call."""
    return _text(details.get("tool_call_id") or [details.get("tool_name"), details.get("tool_input")])


def _key(data: Mapping[str, Any], done: PastAction) -> str:
    """Return what makes it the same request: its id; modules and older logs have only what it is about."""
    return str(data.get("approval_id") or _text(done.details))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)


def counted(actions: Iterable[PastAction]) -> Iterator[tuple[PastAction, int]]:
    """Yield actions that differ in what they would do, each with how often it happened."""
    seen: dict[str, tuple[PastAction, int]] = {}
    for each in actions:
        details = {key: value for key, value in each.details.items() if key != "tool_call_id"}
        key = _text([each.action, details, str(each.project), each.then, each.is_granted, each.is_unanswered])
        first, count = seen.get(key, (each, 0))
        seen[key] = (first, count + 1)
    yield from seen.values()


# Backtest: what rules would have asked or denied

#: How a past action compares with the current rules.
STRICTER: Final = "stricter"
MILDER: Final = "milder"
SAME: Final = "same"
_ORDER: Final = {"unjudged": 0, "allowed": 0, "asked": 1, "denied": 2}
_NOW: Final = {"allow": 0, "ask": 1, "deny": 2}


class Replayed(NamedTuple):
    """One past action, how often it happened, and the verdict of the rules."""

    past: PastAction
    times: int
    now: Judgement

    @property
    def change(self) -> str:
        """Whether the rules are stricter or milder than what happened."""
        then, now = _ORDER[self.past.then], _NOW[self.now.verdict]
        return SAME if then == now else STRICTER if now > then else MILDER


class Backtest(NamedTuple):
    """What rules would have done."""

    replayed: tuple[Replayed, ...]
    #: How often each pair of then and now occurred.
    counts: dict[tuple[str, str], int]

    @property
    def total(self) -> int:
        """How many actions there were."""
        return sum(self.counts.values())

    def how_many(self, then: str | None = None, now: str | None = None) -> int:
        """Return how many actions had this outcome then and would have that one now."""
        return sum(count for (was, is_), count in self.counts.items() if then in (None, was) and now in (None, is_))

    def examples(self, change: str, most: int | None = None) -> tuple[Replayed, ...]:
        """Return what would be stricter, milder or the same, the most frequent first."""
        found = sorted((each for each in self.replayed if each.change == change), key=lambda each: -each.times)
        return tuple(found[:most])


def backtest(actions: Iterable[PastAction], permissions_of: Callable[[Path], Permissions]) -> Backtest:
    """Judge past actions by rules; `permissions_of` gives those of a project, and is called once for each.

    Paths are looked at as they are today: a link that was created since is followed to its current target.
    """
    known: dict[Path, Permissions] = {}
    replayed = []
    counts: Counter[tuple[str, str]] = Counter()
    for past, count in counted(actions):
        if past.project not in known:
            known[past.project] = permissions_of(past.project)
        now = known[past.project].judge(past.action, past.details)
        replayed.append(Replayed(past, count, now))
        counts[past.then, now.verdict] += count
    return Backtest(tuple(replayed), dict(counts))


# Suggestions: the few narrow rules that would have avoided the most questions

#: This many files of one folder, granted one by one, make a rule for the folder.
_FILES_OF_FOLDER: Final = 3
#: A rule that would have avoided fewer questions is not worth suggesting.
LEAST: Final = 2


class Suggestion(NamedTuple):
    """A rule, how many questions it would have helped to avoid, and some examples of them."""

    rule: Rule
    spared: int
    examples: tuple[str, ...]


class Suggestions(NamedTuple):
    """The suggested rules, and how many questions they would have avoided together."""

    rules: tuple[Suggestion, ...]
    #: How many questions there were, and how many of them would not have come up with all of these rules.
    asked: int
    spared: int
    #: Rules that would have avoided questions but would allow a denied action; each with that action.
    refused: tuple[tuple[Rule, str], ...] = ()


class _Prompt(NamedTuple):
    past: PastAction
    times: int
    rules: tuple[Rule, ...]


def suggestions(actions: Iterable[PastAction], permissions: Permissions, *, least: int = LEAST) -> Suggestions:
    """Propose rules from what a person granted; none that would allow anything that was denied.

    Each is a rule that one answer "always" would have made, or covers several files of one folder. Actions that are
    allowed by now need none, and those that the log does not show in full get none.
    """
    seen = list(counted(actions))
    prompts = [(past, count) for past, count in seen if past.then == "asked"]
    denied = [past for past, _ in seen if past.is_granted is False and not past.is_unanswered]
    open_prompts = [
        _Prompt(past, count, permissions.suggest(past.action, past.details))
        for past, count in prompts
        if past.is_granted and not past.is_masked and not past.is_unanswered
    ]
    wanted = _folded([prompt for prompt in open_prompts if prompt.rules])
    chosen, refused = _safe(wanted, permissions, denied)
    found = _worth_it(wanted, chosen, permissions, least)
    trial = permissions.allowing([suggestion.rule for suggestion in found])
    spared = sum(
        prompt.times for prompt in wanted if trial.judge(prompt.past.action, prompt.past.details).verdict == "allow"
    )
    return Suggestions(tuple(found), sum(count for _, count in prompts), spared if found else 0, tuple(refused))


def _folded(prompts: list[_Prompt]) -> list[_Prompt]:
    """Replace the rules for several files of a folder by one for the folder; never for the project's own folder."""
    files: dict[tuple[str | None, str], set[str]] = {}
    for prompt in prompts:
        for rule in prompt.rules:
            if (folder := _folder_of(rule)) is not None:
                files.setdefault((rule.action, folder), set()).add(str(rule.path))
    wide = {key for key, paths in files.items() if len(paths) >= _FILES_OF_FOLDER}

    def widened(rule: Rule) -> Rule:
        folder = _folder_of(rule)
        if folder is None or (rule.action, folder) not in wide:
            return rule
        return Rule("allow", action=rule.action, path=f"{folder}/*")

    return [prompt._replace(rules=tuple(dict.fromkeys(map(widened, prompt.rules)))) for prompt in prompts]


def _folder_of(rule: Rule) -> str | None:
    """Return the folder of a rule's file, None when a rule for all of it would be too much."""
    if rule.path is None or rule.path.startswith(("/", "~")):
        return None
    folder = PurePosixPath(rule.path).parent
    is_plain = bool(folder.parts) and not any(part.startswith(".") for part in PurePosixPath(rule.path).parts)
    return folder.as_posix() if is_plain else None


def _safe(
    prompts: list[_Prompt], permissions: Permissions, denied: list[PastAction]
) -> tuple[set[Rule], list[tuple[Rule, str]]]:
    """Take rules, the most useful first, and leave out each with which something that was denied would be allowed."""
    uses: Counter[Rule] = Counter()
    for prompt in prompts:
        uses.update(dict.fromkeys(prompt.rules, prompt.times))
    chosen: list[Rule] = []
    refused: list[tuple[Rule, str]] = []
    for rule, _ in uses.most_common():
        trial = permissions.allowing([*chosen, rule])
        wrong = next((past for past in denied if _opens(past, permissions, trial)), None)
        if wrong is None:
            chosen.append(rule)
        else:
            refused.append((rule, wrong.shown))
    return set(chosen), refused


def _opens(past: PastAction, before: Permissions, after: Permissions) -> bool:
    is_allowed = after.judge(past.action, past.details).verdict == "allow"
    return is_allowed and before.judge(past.action, past.details).verdict != "allow"


def _worth_it(prompts: list[_Prompt], chosen: set[Rule], permissions: Permissions, least: int) -> list[Suggestion]:
    """Return the rules that avoid enough questions, best first; a question is avoided when all rules it needs exist."""
    while True:
        spared: Counter[Rule] = Counter()
        examples: dict[Rule, dict[str, None]] = {}
        for prompt in prompts:
            if chosen.issuperset(prompt.rules):
                for rule in prompt.rules:
                    spared[rule] += prompt.times
                    examples.setdefault(rule, {})[prompt.past.shown] = None
        kept = {rule for rule in chosen if spared[rule] >= least}
        if kept == chosen:
            break
        chosen = kept  # a question that needed a removed rule is no longer avoided
    best = sorted(kept, key=lambda rule: (-spared[rule], str(rule)))
    return [Suggestion(rule, spared[rule], tuple(examples[rule])[:3]) for rule in best]
