"""The system prompt, as contexts ask for it before every request."""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_foundation.prompt.mention_resolver import MentionResolver
from amplifier_foundation.prompt.system_prompt import SystemPrompt
from amplifier_foundation.prompt.user_input import UserInput
from amplifier_kit.engine.context.base import BaseContext
from amplifier_kit.engine.context.token_budget import ContextConfig


class Told:
    """Keeps the payloads that were reported."""

    def __init__(self) -> None:
        self.payloads: list[dict[str, Any]] = []

    async def __call__(self, payload: dict[str, Any]) -> None:
        self.payloads.append(payload)


def block(credit: str, text: str) -> str:
    return f'<context_file paths="{credit}">\n{text}\n</context_file>'


async def test_the_parts_stand_in_their_order(places: Any, write: Any) -> None:
    """Instruction, context of the bundle, mentions of the instruction, AGENTS.md, and what these files mention."""
    conduct = places.bundle / "conduct.md"
    conduct.write_text("Be kind. See @deep.md", encoding="utf-8")
    deep, guide, agents = write("deep.md", "Deep."), write("guide.md", "Guide."), write("AGENTS.md", "Use tabs.\n")
    own = places.home.path / "AGENTS.md"
    own.write_text("I like brevity.", encoding="utf-8")
    prompt = SystemPrompt("You are careful. @guide.md", {"ns:conduct": conduct}, places.access)
    assert await prompt() == "\n\n".join(
        [
            "You are careful. @guide.md",
            "---",
            block(f"@ns:conduct → {conduct}", "Be kind. See @deep.md"),
            block(f"@guide.md → {guide}", "Guide."),
            block(str(agents), "Use tabs."),
            block(str(own), "I like brevity."),
            block(f"@deep.md → {deep}", "Deep."),
        ]
    )


async def test_without_files_the_prompt_is_the_instruction(places: Any, write: Any) -> None:
    """Nothing is added to an instruction that needs nothing; files without an instruction have no separator."""
    assert await SystemPrompt("Be brief.", {}, places.access)() == "Be brief."
    assert await SystemPrompt("", {}, places.access)() == ""
    agents = write("AGENTS.md", "rules")
    assert await SystemPrompt("", {}, places.access)() == block(str(agents), "rules")


async def test_the_prompt_is_the_same_to_the_last_byte_until_something_of_it_changes(places: Any, write: Any) -> None:
    """Calls in a row give the same bytes; touched files and new ones that are no part of it change nothing."""
    agents = write("AGENTS.md", "rules @docs/ @a.md")
    for name in ("docs/x.md", "docs/y.md", "a.md", "unrelated.md"):
        write(name, name)
    prompt = SystemPrompt("Read @a.md", {"ns:x": places.project / "docs" / "y.md"}, places.access)
    first = await prompt()
    assert (await prompt()).encode() == first.encode()
    write("unrelated.md", "changed")
    write("new.md", "new")
    os.utime(agents)
    os.utime(places.project / "docs" / "x.md")
    assert (await prompt()).encode() == first.encode()
    again = SystemPrompt("Read @a.md", {"ns:x": places.project / "docs" / "y.md"}, places.access)
    assert (await again()).encode() == first.encode()


async def test_a_change_shows_at_the_next_call(places: Any, write: Any) -> None:
    """Files that are edited, even to the same length, made, replaced, linked anew or deleted show at once."""
    prompt = SystemPrompt("", {}, places.access)
    assert await prompt() == ""
    agents = write("AGENTS.md", "rule 1")
    assert "rule 1" in await prompt()
    write("AGENTS.md", "rule 2")
    assert "rule 2" in await prompt()
    other = write("other", "rule 3")
    os.replace(other, agents)
    assert "rule 3" in await prompt()
    agents.unlink()
    agents.symlink_to(write("linked.md", "rule 4 @later.md"))
    assert "rule 4" in await prompt()
    write("later.md", "rule 5")
    assert "rule 5" in await prompt()
    agents.unlink()
    assert await prompt() == ""


async def test_new_contents_and_failures_are_told_once(places: Any, write: Any) -> None:
    """The event has every file with where it was found; nothing is told while nothing is new."""
    told = Told()
    agents = write("AGENTS.md", "rules @copy.md @missing.md")
    copy = write("copy.md", "copy")
    prompt = SystemPrompt("@copy.md", {"ns:c": places.bundle / "none.md"}, places.access, told)
    await prompt()
    await prompt()
    [payload] = told.payloads
    assert payload == {
        "source": "system_prompt",
        "resolutions": [
            resolution("@copy.md", copy, "path", "copy", True),
            resolution(str(agents), agents, "instructions", "rules @copy.md @missing.md", True),
        ],
        "failed": [
            {"mention": "ns:c", "reason": f"{places.bundle}/none.md cannot be found, or is a link that leads nowhere"},
            {"mention": "@missing.md", "reason": f"there is no such file: {places.project}/missing.md"},
        ],
        "deduplicated_count": 0,
        "turn": 0,
    }
    write("copy.md", "new copy")
    await prompt()
    assert [item["is_new"] for item in told.payloads[1]["resolutions"]] == [True, False]


def resolution(mention: str, path: Path, source_type: str, text: str, is_new: bool) -> dict[str, Any]:
    return {
        "mention": mention,
        "resolved_path": str(path),
        "source_type": source_type,
        "content_hash": hashlib.sha256(text.encode()).hexdigest(),
        "is_new": is_new,
        "decided_by": {"kind": "default", "rule": 'allow filesystem.read path "**"', "scope": "default"},
    }


async def test_a_failure_that_comes_back_is_told_again(places: Any, write: Any) -> None:
    """What was mended and breaks again is news."""
    told = Told()
    prompt = SystemPrompt("@a.md", {}, places.access, on_resolved=told)
    await prompt()
    file = write("a.md", "A")
    await prompt()
    file.unlink()
    await prompt()
    assert [len(payload["failed"]) for payload in told.payloads] == [1, 0, 1]


async def test_a_name_in_a_prompt_that_leads_nowhere_is_told_each_time(places: Any, write: Any) -> None:
    """What the prompt itself names is told with every prompt; what its files name is data, and not looked for."""
    told = Told()
    write("notes.md", "see @gone.md and @never.md")
    prompt = SystemPrompt("", {}, places.access, on_resolved=told)
    for _ in range(2):
        await prompt.expand_prompt(UserInput.of_typed("read @notes.md and @never.md"))
    marked = [{one["mention"]: one.get("in_prompt", False) for one in payload["failed"]} for payload in told.payloads]
    assert marked == [{"@never.md": True}] * 2


@pytest.mark.parametrize("content", [b"caf\xe9", b"\0", None])
async def test_an_unusable_agents_md_is_told_and_not_fatal(places: Any, write: Any, content: bytes | None) -> None:
    """The rest of the prompt stands; CLAUDE.md does not stand in for a broken AGENTS.md."""
    told = Told()
    write("CLAUDE.md", "not this")
    agents = places.project / "AGENTS.md"
    if content is None:
        agents.symlink_to("nowhere")
    else:
        agents.write_bytes(content)
    assert await SystemPrompt("Be brief.", {}, places.access, on_resolved=told)() == "Be brief."
    assert [failure["mention"] for failure in told.payloads[0]["failed"]] == [str(agents)]


async def test_an_agents_md_that_leads_out_of_the_project_is_not_read(places: Any) -> None:
    """A link to a file elsewhere is refused in a project, and is the user's own business in their home."""
    told = Told()
    target = places.outside / "rules.md"
    target.write_text("elsewhere", encoding="utf-8")
    (places.project / "AGENTS.md").symlink_to(target)
    prompt = SystemPrompt("Be brief.", {}, places.access, on_resolved=told)
    assert await prompt() == "Be brief."
    assert "leads to" in told.payloads[0]["failed"][0]["reason"]
    (places.home.path / "AGENTS.md").symlink_to(target)
    assert "elsewhere" in await prompt()


async def test_context_files_outside_of_all_places_are_not_read(places: Any) -> None:
    """A bundle gets no further with `context` than with a mention, and not even an impossible name is a crash."""
    target = places.outside / "secret.md"
    target.write_text("secret", encoding="utf-8")
    (places.bundle / "link.md").symlink_to(target)
    context = {"ns:link": places.bundle / "link.md", "ns:absolute": target, "ns:nul": places.bundle / "a\0b"}
    assert await SystemPrompt("Be brief.", context, places.access)() == "Be brief."


async def test_a_prompt_gets_its_files_before_it(places: Any, write: Any) -> None:
    """The text of a prompt stays as it is, blocks come before it, and each prompt is a turn."""
    told = Told()
    file = write("a.md", "A </context_file>")
    prompt = SystemPrompt("", {}, places.access, on_resolved=told)
    assert await prompt.expand_prompt("mail bob@example.com") == "mail bob@example.com"
    expanded = await prompt.expand_prompt(UserInput.of_typed("Explain @a.md.\n"))
    assert expanded == f"{block(f'@a.md → {file}', 'A &lt;/context_file>')}\n\nExplain @a.md.\n"
    [payload] = told.payloads
    assert (payload["source"], payload["turn"]) == ("prompt", 2)


async def test_only_a_user_may_name_any_file(places: Any) -> None:
    """A path is read when the user typed it; in what a model wrote, no file is mentioned, and that is told."""
    file = places.outside / "a.md"
    file.write_text("outside", encoding="utf-8")
    told = Told()
    prompt = SystemPrompt("", {}, places.access, on_resolved=told)
    typed = await prompt.expand_prompt(UserInput.of_typed(f"@{file}"))
    assert "outside</" in typed.replace("\n", "")
    assert await prompt.expand_prompt(f"@{file} @nothing") == f"@{file} @nothing"
    assert [one["mention"] for one in told.payloads[-1]["failed"]] == [f"@{file}"]


async def test_names_that_are_no_utf_8_can_be_sent(places: Any) -> None:
    """A project in a folder whose name is no text gives a prompt and reports that are."""
    told = Told()
    project = Path(os.fsdecode(os.fsencode(places.outside) + b"/w\xf6rk"))
    project.mkdir()
    (project / "AGENTS.md").write_text("rules @none.md", encoding="utf-8")
    resolver = MentionResolver({}, project, places.home)
    prompt = await SystemPrompt("", {}, places.access_of(resolver), on_resolved=told)()
    assert prompt == block(f"{places.outside}/w?rk/AGENTS.md", "rules @none.md")
    assert json.dumps(told.payloads, ensure_ascii=False).encode("utf-8")


async def test_calls_at_the_same_time_agree(places: Any, write: Any) -> None:
    """Several requests may ask at once."""
    write("AGENTS.md", "rules @a.md")
    write("a.md", "A")
    prompt = SystemPrompt("Be brief.", {}, places.access)
    texts = await asyncio.gather(*(prompt() for _ in range(8)))
    assert set(texts) == {await prompt()}


async def test_a_context_asks_at_every_request(places: Any, write: Any) -> None:
    """A context of the kit sends the prompt first, and an edited AGENTS.md with the next request."""
    prompt = SystemPrompt("Be brief.", {}, places.access)
    context = BaseContext(ContextConfig(), MockCoordinator())
    context.set_system_prompt_factory(prompt.__call__)
    await context.add_message({"role": "user", "content": "hello"})
    before = (await context.get_messages_for_request())[0]
    assert before == {"role": "system", "content": "Be brief."}
    agents = write("AGENTS.md", "Use tabs.")
    after = (await context.get_messages_for_request())[0]
    assert after["content"] == f"Be brief.\n\n---\n\n{block(str(agents), 'Use tabs.')}"


async def test_a_context_may_be_given_the_object_itself(places: Any) -> None:
    """It need not look like a coroutine function to give the same prompt."""
    context = BaseContext(ContextConfig(), MockCoordinator())
    context.set_system_prompt_factory(SystemPrompt("Be brief.", {}, places.access))
    await context.add_message({"role": "user", "content": "hello"})
    assert (await context.get_messages_for_request())[0]["content"] == "Be brief."
    context.close()


def test_a_locale_without_unicode_is_no_crash(tmp_path: Path) -> None:
    """Where file names are ASCII to the system, texts are still UTF-8, and a name it cannot have is a missing file."""
    (tmp_path / "AGENTS.md").write_bytes("Grüße, @a.md @übersicht.md".encode())
    (tmp_path / "a.md").write_bytes("→".encode())
    code = """
import asyncio, sys
from pathlib import Path
from amplifier_foundation.paths import Home
from amplifier_foundation.policy.permissions import Permissions
from amplifier_foundation.prompt.mention_resolver import MentionResolver
from amplifier_foundation.prompt.access import PromptAccess
from amplifier_foundation.prompt.system_prompt import SystemPrompt
async def told(payload):
    sys.stdout.buffer.write(repr(payload["failed"]).encode() + b"\\n")
assert sys.getfilesystemencoding() == "ascii"
home = Home(Path.cwd() / "home")
rules = [Permissions.load(home, Path.cwd())]
access = PromptAccess(MentionResolver({}, Path.cwd(), home), lambda: rules, lambda: False)
prompt = SystemPrompt("", {}, access, on_resolved=told)
sys.stdout.buffer.write(asyncio.run(prompt()).encode())
"""
    environ = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "HOME": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, check=True)
    failed, _, prompt = ran.stdout.decode("utf-8").partition("\n")
    assert "@übersicht.md" in failed
    assert "Grüße, @a.md @übersicht.md" in prompt
    assert "→\n</context_file>" in prompt
