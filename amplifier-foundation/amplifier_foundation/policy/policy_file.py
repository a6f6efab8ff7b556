"""Read rules from policy files, from bundles and from the defaults; add rules to a file and remove them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from amplifier_foundation.documents import Document, Unreadable, parse_document
from amplifier_foundation.errors import DocumentError, FoundationError, did_you_mean
from amplifier_kit.guard.policy.rule_parser import Problem, parse_rules
from amplifier_kit.guard.policy.rules import Rule
from amplifier_kit.guard.private_files import read_regular
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_foundation.bundles.bundle import Layer
    from amplifier_foundation.yaml_edit import Draft
    from amplifier_kit.guard.policy.rules import Example

Scope = Literal["session", "user", "project", "local", "bundle", "remembered", "run", "mode", "default"]

_KEYS: Final = ("rules",)
#: Where tool-bash keeps what is too long for a result, in the folder of the session.
_OUTPUT: Final = "command-output"
#: Where the sessions of a project are recorded, below the folder that contains them.
_RECORDS: Final = ("", "/*", *(f"/*/{name}" for name in ("events.jsonl", "transcript.jsonl", "metadata.json")))
#: Folders of a bundle that hold what its sessions read.
_CONTENT: Final = ("context", "skills", "agents", "behaviors")
_APPROVAL: Final = "hooks-approval"
#: Larger files cannot be rules that a person has reviewed.
_LARGEST: Final = 4 << 20


class PolicyFileError(FoundationError):
    """A policy file cannot be read, changed or written; it is as it was before."""

    code = "policy_file"


class PolicySource(NamedTuple):
    """Rules of one origin, and what is wrong with them."""

    scope: Scope
    #: Where they come from, for a person: a path or a name.
    origin: str
    rules: tuple[Rule, ...] = ()
    problems: tuple[Problem, ...] = ()
    #: Whether its rules may allow; those of an untrusted project may only deny and ask.
    may_allow: bool = True
    #: The substitutes for entries that cannot be read: they make verdicts stricter and never milder.
    floors: tuple[Rule, ...] = ()


def read_policy_file(path: Path, scope: Scope, *, may_allow: bool = True) -> PolicySource | None:
    """Return the rules of a policy file, None when the file is missing; never raises, and never fails open.

    A file that cannot be read as a whole asks for everything: whatever it would have denied or asked for is unknown.
    """
    try:
        content = _content(path)
        if content is None:
            return None
        document = parse_document(path, content, each_of="rules")
    except DocumentError as error:
        floor = Rule("ask", reason="a policy file cannot be read", where=str(path))
        where, message = _split_location(error, path)
        problem = Problem(where, f"{message}; until it is repaired, everything is asked")
        return PolicySource(scope, str(path), (), (problem,), may_allow, (floor,))
    return source_of(document, scope, may_allow=may_allow)


def _split_location(error: DocumentError, path: Path) -> tuple[str, str]:
    """Return where a file is wrong, with its line when the error names one, and what is wrong there."""
    line, _, message = str(error).removeprefix(str(path)).partition(": ")
    is_place = str(error).startswith(f"{path}:") and (not line or line[1:].isdigit())
    return (f"{path}{line}", message) if is_place else (str(path), str(error))


def source_of(document: Document, scope: Scope, *, may_allow: bool = True) -> PolicySource:
    """Return the rules of a policy file that is read already; never raises."""
    given = document.data.get("rules")
    rules, floors, problems = _separated(
        given, lambda index, key: _place(document, index, key), lambda line: f"{document.path}:{line}"
    )
    for key, value in document.data.items():
        if key in _KEYS:
            continue
        where, fate = document.where(key), "it is ignored"
        if isinstance(value, list | dict):  # rules under a misspelled name, perhaps
            fate = "until it is repaired, everything is asked"
            floors.append(Rule("ask", reason=f"{key!r} in a policy file is not understood", where=where))
        problems.append(Problem(where, f"the key {key!r} is not known ({did_you_mean(key, list(_KEYS))}); {fate}"))
    return PolicySource(scope, str(document.path), tuple(rules), tuple(problems), may_allow, tuple(floors))


def rules_of_bundle(plan: Mapping[str, Any], origin: str, *, may_allow: bool = True) -> PolicySource | None:
    """Return the rules in a bundle's config of hooks-approval, None without any.

    Entries of the published format count as what they mean here. What hooks-approval asks for by its other settings
    is its own business.
    """
    rules: list[Rule] = []
    floors: list[Rule] = []
    problems: list[Problem] = []
    hooks = plan.get("hooks")
    for entry in hooks if isinstance(hooks, list) else ():
        config = entry.get("config") if isinstance(entry, Mapping) and entry.get("module") == _APPROVAL else None
        given = config.get("rules") if isinstance(config, Mapping) else None
        if given is None:
            continue
        meant: Any = given
        numbers: list[int] = []
        if isinstance(given, list):
            pairs = [(number, rule) for number, one in enumerate(given, start=1) for rule in translate_published(one)]
            numbers, meant = [number for number, _ in pairs], [rule for _, rule in pairs]
        found = _separated(meant, lambda index, key, numbers=numbers: _in_bundle(origin, index, numbers))  # type: ignore[misc]
        for all_of_them, some in zip((rules, floors, problems), found, strict=True):
            all_of_them.extend(some)  # type: ignore[attr-defined]
    if not rules and not floors and not problems:
        return None
    return PolicySource("bundle", origin, tuple(rules), tuple(problems), may_allow, tuple(floors))


def may_bundle_allow(layers: Iterable[Layer], *, is_trusted: bool) -> bool:
    """Return whether a plan's rules may allow: not if a file of an untrusted project may have contributed to them.

    `layers` are the files that the plan was made of; if they are unknown, only a trusted project's plan may allow.
    """
    known = tuple(layers)
    if is_trusted:
        return True
    return bool(known) and not any(
        "project" in (layer.owner, layer.named_by) and mentions_approval(layer.document.data) for layer in known
    )


def default_rules() -> PolicySource:
    """Return the rules that ship with the product; they are checked by a test, so a problem in them is a bug."""
    path = Path(__file__).with_name("defaults.yaml")
    source = read_policy_file(path, "default")
    if source is None:  # a broken installation: nothing is allowed then
        problem = Problem(str(path), "the default rules are missing, so nothing is allowed: reinstall the program")
        return PolicySource("default", "defaults", (), (problem,))
    return source._replace(origin="defaults")


def with_readable(
    defaults: PolicySource, session: Path | None, bundles: Iterable[Path], folders: Iterable[Path] = ()
) -> PolicySource:
    """Return the default rules with some more: a session may read what its own commands printed.

    It may also read what its bundles bring for it, below their roots `bundles`: texts, skills, agents, behaviors. It
    may read the records of the project's sessions, its own and earlier ones, when the user allows it. `folders` that
    the user added are read and written as the project is.
    """
    from amplifier_kit.guard.policy.paths import escaped

    places = {session / _OUTPUT: "reading what a command printed"} if session is not None else {}
    places |= {root / name: "reading what the bundle brings" for root in bundles for name in _CONTENT}
    rules = [
        Rule("allow", action="filesystem.read", path=f"{escaped(str(place.resolve()))}/**", reason=reason)
        for place, reason in places.items()
    ]
    for folder in folders:
        place = f"{escaped(str(folder.resolve()))}/**"
        rules.append(Rule("allow", action="filesystem.read", path=place, reason="reading inside an added folder"))
        rules.append(Rule("ask", action="filesystem.write", path=place, reason="writing inside an added folder"))
    if session is not None:
        records = escaped(str(session.parent.resolve()))
        rules += [
            Rule(
                "ask",
                action="filesystem.read",
                path=f"{records}{record}",
                reason="reading the record of a session",
                is_exact=True,
            )
            for record in _RECORDS
        ]
    return defaults._replace(rules=(*defaults.rules, *rules))


def _content(path: Path) -> bytes | None:
    """Return the text of a file, None when it is missing; raises DocumentError. Never waits for a pipe."""
    import os

    try:
        return read_regular(path, _LARGEST)
    except (FileNotFoundError, NotADirectoryError) as error:
        if os.path.islink(path):
            raise DocumentError(f"{path}: a link that leads nowhere") from error
        return None
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror or error}") from error


def _separated(
    data: object, where: Callable[[int, str | None], str], at_line: Callable[[int], str] = str
) -> tuple[list[Rule], list[Rule], list[Problem]]:
    """Return the rules that are as their author wrote them, the substitutes for the others, and the problems."""
    if not isinstance(data, list):
        floors, problems = parse_rules(data, where)
        return [], floors, problems
    rules: list[Rule] = []
    stand_ins: list[Rule] = []
    wrong: list[Problem] = []
    for index, entry in enumerate(data):
        if isinstance(entry, Unreadable):
            floor = Rule("ask", reason="a rule that should be here cannot be read", where=at_line(entry.line))
            stand_ins.append(floor)
            wrong.append(Problem(floor.where, f"{entry.message}; until it is repaired, `{floor}` takes its place"))
            continue
        found, problems = parse_rules([entry], lambda _, key, index=index: where(index, key))  # type: ignore[misc]
        (stand_ins if problems else rules).extend(found)
        wrong += problems
    return rules, stand_ins, wrong


def _place(document: Document, index: int, key: str | None) -> str:
    return document.where("rules", index, *([key] if key is not None else []))


def _in_bundle(origin: str, index: int, numbers: list[int]) -> str:
    number = numbers[index] if index < len(numbers) else 1
    return f"{origin}: hooks-approval, rule {number}"


def mentions_approval(value: Any) -> bool:
    """Return whether something in a plan or a bundle names the module whose config may hold rules."""
    from amplifier_foundation.bundles.plan_modules import mentions

    return mentions(value, _APPROVAL)


# Rules of hooks-approval in the published format

_PUBLISHED_VERDICTS: Final = {
    "auto_approve": "allow",
    "approve": "allow",
    "allow": "allow",
    "auto_deny": "deny",
    "deny": "deny",
    "block": "deny",
    "require_approval": "ask",
    "prompt": "ask",
    "ask": "ask",
}
_PUBLISHED_KEYS: Final = ("action", "tool", "tool_name", "pattern", "reason", "description")


def translate_published(entry: Any) -> list[Any]:
    """Return the rules that an entry of hooks-approval in the published format means; any other entry as it is.

    A pattern is matched with command lines, or with paths for a tool that runs none. One that allows does so for
    the tool `bash` and for what runs commands, not for any tool that happens to have an input of that name.
    """
    if not isinstance(entry, Mapping) or "verdict" in entry or not _is_published(entry):
        return [entry]
    action = entry.get("action")
    rule: dict[Any, Any] = {"verdict": _PUBLISHED_VERDICTS.get(action, action) if isinstance(action, str) else action}
    reason = entry.get("reason", entry.get("description"))
    if isinstance(reason, str) and reason.strip():
        rule["reason"] = reason
    # What the format does not have stays, so that the reader complains about it.
    rule |= {key: value for key, value in entry.items() if key not in _PUBLISHED_KEYS}
    tool = entry.get("tool", entry.get("tool_name"))
    if tool is not None:
        rule["tool"] = tool
    if "pattern" not in entry:
        return [rule]
    if tool is not None and tool != "bash":
        return [{**rule, "path": path} for path in _published_paths(entry["pattern"], rule["verdict"])]
    rule["command"] = entry["pattern"]
    if rule["verdict"] != "allow":
        return [rule]
    return [{**rule, "tool": "bash"}, {**rule, "action": "process.exec"}]


def _published_paths(pattern: Any, verdict: Any) -> list[Any]:
    """Return the paths of a published pattern, whose `*` knows no folders: one that restricts means any depth."""
    is_text = isinstance(pattern, str) and bool(pattern.strip())
    if verdict == "allow" or not is_text or pattern.startswith(("/", "~", "**", "..")):
        return [pattern]
    return [pattern, f"**/{pattern}", *([f"**/{pattern}/**"] if pattern.endswith("*") else [])]


def _is_published(entry: Mapping[Any, Any]) -> bool:
    action = entry.get("action")
    return "pattern" in entry or (isinstance(action, str) and action in _PUBLISHED_VERDICTS)


# Editing: comments and order stay, and concurrent writers lose nothing


def rule_entry(rule: Rule) -> dict[str, Any]:
    """Return a rule as it is written to a file."""
    names = ("action", "tool", "command", "path", "host", "verdict", "reason")
    entry: dict[str, Any] = {name: getattr(rule, name) for name in names if getattr(rule, name)}
    for name in ("match", "not_match"):
        examples: tuple[Example, ...] = getattr(rule, name)
        if examples:
            entry[name] = [{key: text for key, text in each._asdict().items() if text is not None} for each in examples]
    return entry


def append_rules(path: Path, entries: list[dict[str, Any]]) -> bool:
    """Append entries to a file's rules, except those that it has already; return whether it changed.

    A missing file is created for its owner alone. Raises PolicyFileError, also for an entry with a secret.
    """
    from amplifier_foundation.yaml_edit import edit_file
    from amplifier_kit.guard.redaction.redactor import process_redactor

    if any(process_redactor().scrub(entry).value != entry for entry in entries):
        raise PolicyFileError(f"{path}: a rule that holds a secret is not kept: use a pattern that leaves it out")
    with edit_file(path, PolicyFileError) as draft:
        text = draft.text
        for entry in entries:
            rules = _rules_of(draft)
            if entry not in rules:
                draft.set(("rules", len(rules)), entry)
    return draft.text != text


def remove_rule(path: Path, is_meant: Callable[[Any], bool]) -> bool:
    """Remove the first entry that is meant; return whether there was one. Raises PolicyFileError."""
    from amplifier_foundation.yaml_edit import edit_file

    with edit_file(path, PolicyFileError) as draft:
        index = next((index for index, entry in enumerate(_rules_of(draft)) if is_meant(entry)), None)
        if index is not None:
            draft.unset(("rules", index))
    return index is not None


def _rules_of(draft: Draft) -> list[Any]:
    rules = draft.data.get("rules")
    if rules is not None and not isinstance(rules, list):
        raise PolicyFileError(f"{draft.document.where('rules')}: `rules` must be a list: repair the file first")
    return rules or []
