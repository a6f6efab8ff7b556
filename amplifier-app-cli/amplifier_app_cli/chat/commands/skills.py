"""`/skills` and `/skill`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.ui.layout import table
from amplifier_app_cli.ui.plain import plain
from amplifier_foundation.bundles.shipped import shipped_skills
from amplifier_foundation.documents import parse_document
from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_foundation.prompt.access import Origin
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation
    from amplifier_foundation.prompt.access import PromptAccess

_FILE = "SKILL.md"
_LARGEST = 200_000


class Skill(NamedTuple):
    """One skill on disk."""

    name: str
    description: str
    file: Path
    body: str
    #: `project`, `user` or `shipped`.
    origin: str


async def show(chat: Conversation, words: str) -> None:
    """List the skills with where they come from."""
    found = _all(chat)
    if not found:
        chat.screen.show("there are no skills: put them into .agents/skills/NAME/SKILL.md")
        return
    rows = [(skill.name, skill.origin, skill.description) for skill in found.values()]
    chat.screen.show(table(("SKILL", "FROM", "DESCRIPTION"), rows, chat.width - 1, whole={"SKILL"}))


async def use(chat: Conversation, words: str) -> None:
    """Give the model a skill, with the prompt behind its name or with the next one."""
    name, _, prompt = words.strip().partition(" ")
    skill = find(chat, name)
    if skill is None:
        known = list(_all(chat))
        hint = did_you_mean(name, known) if known else "none are known"
        chat.screen.show(plain(f"there is no skill {name!r}: {hint}" if name else "which skill? /skill NAME"))
        return
    chat.preface = f'<skill name="{skill.name}" folder="{skill.file.parent}">\n{skill.body}\n</skill>\n\n'
    if prompt.strip():
        await chat.turn(chat.given.ending(prompt.strip()))
    else:
        chat.screen.show(plain(f"the skill {skill.name} goes with your next prompt"))


def find(chat: Conversation, name: str) -> Skill | None:
    """Return the skill of that name."""
    return _all(chat).get(name) if name else None


def _all(chat: Conversation) -> dict[str, Skill]:
    """Return all skills by name: the project's before the user's, those before the shipped ones."""
    prepared = chat.runtime.prepared
    project, home = prepared.project, prepared.home.path
    folders = [(project / name / "skills", "project") for name in (".amplifier", ".agents", ".claude")]
    folders += [(home / "skills", "user"), (Path("~/.agents/skills").expanduser(), "user")]
    found: dict[str, Skill] = {}
    access = chat.runtime.prompt.access
    for folder, origin in [*folders, (shipped_skills(), "shipped")]:
        for skill in _in(folder, origin, access):
            found.setdefault(skill.name, skill)
    return found


def _in(folder: Path, origin: str, access: PromptAccess) -> list[Skill]:
    skills: list[Skill] = []
    try:
        files = sorted(folder.glob(f"*/{_FILE}"))
    except OSError:
        return []
    for file in files:
        try:
            # The user's own folders may hold links to where they keep a skill; those of a project may not lead out.
            root = folder if origin == "project" else file.resolve().parent
            content = access.read_bytes(file, Origin("bundle", root.resolve()), _LARGEST + 1)
            if len(content) <= _LARGEST:
                document = parse_document(file, content)
                skills.append(_skill(file, document.data, document.body or "", origin))
        except (FoundationError, OSError, UnicodeError):
            continue  # skip unreadable and denied files
    return skills


def _skill(file: Path, data: dict[str, Any], body: str, origin: str) -> Skill:
    name = str(data.get("name") or file.parent.name)
    return Skill(name, str(data.get("description") or ""), file, body.strip(), origin)
