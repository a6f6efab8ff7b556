"""What prompts, instruction files, bundles, agents and skills bring into a prompt is decided by the rules."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

SECRET = "marker-of-the-secret"
DENY = 'rules:\n  - {path: "**/.env", verdict: deny, reason: secrets stay here}\n'

BUNDLE = """\
bundle: {{name: desk}}
session:
  orchestrator: {{module: loop-basic}}
  context: {{module: context-simple}}
providers:
  - {{module: provider-mock, config: {{scenario: run.yaml, raw: true}}}}
hooks:
  - {{module: hooks-logging}}
{more}"""


class Desk:
    """A project and a home, and what the model was sent by the runs in them."""

    def __init__(self, project: Path, home: Path, amplifier: Callable[..., subprocess.CompletedProcess[str]]) -> None:
        self.project, self.home, self._amplifier = project, home, amplifier
        self.config = home / ".amplifier"
        self.bundle(turns="turns: [{text: Sure.}]")

    def put(self, path: str | Path, text: str = SECRET) -> Path:
        file = self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def bundle(self, more: str = "", turns: str = "", folder: Path | None = None, body: str = "") -> Path:
        """Write the bundle and its scenario, in the project or elsewhere."""
        place = folder or self.project
        if turns:
            self.put(place / "run.yaml", turns)
        text = BUNDLE.format(more=more)
        return self.put(place / "bundle.md", f"---\n{text}---\n{body}\n")

    def rules(self, text: str = DENY) -> None:
        self.put(self.config / "policy.yaml", text)

    def run(
        self, prompt: str | None, *arguments: str, stdin: str | None = None, bundle: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        given = () if prompt is None else (prompt,)
        named = str(bundle or self.project / "bundle.md")
        result = self._amplifier("run", *given, "--bundle", named, *arguments, stdin=stdin)
        assert result.returncode == 0, result.stderr
        return result

    @property
    def events(self) -> list[dict[str, object]]:
        logs = self.config.glob("projects/*/sessions/*/events.jsonl")
        return [json.loads(line) for log in logs for line in log.read_text(encoding="utf-8").splitlines()]

    @property
    def sent(self) -> str:
        """Return everything that was sent to the model."""
        blobs = "".join(
            file.read_text(encoding="utf-8", errors="replace")
            for file in self.config.glob("projects/*/sessions/*/blobs/*")
        )
        requests = [record for record in self.events if record["event"] == "llm:request"]
        assert requests
        return json.dumps(requests) + blobs

    @property
    def refused(self) -> dict[str, str]:
        """Return the reasons in the log for what was not read, by name."""
        found: dict[str, str] = {}
        for record in self.events:
            if record["event"] == "mentions:resolved":
                for one in record["data"]["failed"]:  # type: ignore[index]
                    found[one["mention"]] = one["reason"]
        return found


@pytest.fixture
def desk(
    project: Path, environment: dict[str, str], amplifier: Callable[..., subprocess.CompletedProcess[str]]
) -> Desk:
    """Return a project with a bundle that has nothing in it."""
    return Desk(project, Path(environment["HOME"]), amplifier)


# -- a rule that denies is absolute --


def test_a_deny_rule_holds_for_a_typed_mention(desk: Desk) -> None:
    """The user's own deny rule wins over the user's own mention, and a line names the rule with file and line."""
    desk.put(".env")
    desk.rules()
    result = desk.run("explain @.env")
    assert SECRET not in desk.sent
    [line] = [line for line in result.stderr.splitlines() if "@.env" in line]
    assert "secrets stay here" in line
    assert f"{desk.config}/policy.yaml:2" in line


def test_a_deny_rule_holds_for_instruction_files(desk: Desk) -> None:
    """AGENTS.md brings no file that a rule denies, whether by name or by a link, and that is told."""
    desk.put(".env")
    desk.put("AGENTS.md", "Read @.env and @linked.md")
    (desk.project / "linked.md").symlink_to(".env")
    desk.rules()
    result = desk.run("hello")
    assert SECRET not in desk.sent
    assert {name for name, reason in desk.refused.items() if "secrets stay here" in reason} == {"@.env", "@linked.md"}
    assert "not given to the model: @.env" in result.stderr


def test_a_deny_rule_holds_for_an_instruction_file_itself(desk: Desk) -> None:
    """CLAUDE.md that is a link to a denied file is not read."""
    desk.put(".env")
    (desk.project / "CLAUDE.md").symlink_to(".env")
    desk.rules()
    desk.run("hello")
    assert SECRET not in desk.sent


def test_a_deny_rule_holds_for_a_bundle(desk: Desk) -> None:
    """Neither the instruction nor the context files of a bundle bring what a rule denies."""
    desk.put(".env")
    desk.put("context/.env", f"{SECRET} of the context")
    desk.bundle("context: {include: [context/.env]}\n", body="You are here. @.env")
    desk.rules()
    desk.run("hello")
    assert "You are here." in desk.sent
    assert SECRET not in desk.sent


DELEGATING = """
turns:
  - tool_calls: [{name: delegate, arguments: {agent: helper, instruction: "look at @.env @given.md"}}]
  - text: Done.
agents:
  helper: [{text: I am the helper.}]
"""
AGENT = """\
tools:
  - {{module: tool-delegate}}
agents:
  helper:
    description: helps
    instruction: "{instruction}"
    context: {{include: [{context}]}}
"""
SPAWN = '  - {action: session.spawn, verdict: allow}\n  - {action: "tool.*", verdict: allow}\n'


def test_a_deny_rule_holds_for_an_agent(desk: Desk) -> None:
    """Neither the instruction nor the context files of an agent bring what a rule denies."""
    desk.put(".env")
    desk.put("sub/.env")
    desk.bundle(AGENT.format(instruction="You help. @.env", context="sub/.env"), turns=DELEGATING)
    desk.rules(DENY + SPAWN)
    desk.run("hello")
    assert "You help." in desk.sent
    assert SECRET not in desk.sent


def test_a_deny_rule_holds_for_the_file_of_an_agent(desk: Desk) -> None:
    """The file that an agent is defined in is decided on by where it lies: a link to a denied file is none."""
    desk.put(".env", f"---\nmeta: {{name: helper, description: helps}}\n---\n{SECRET}\n")
    (desk.project / "agents").mkdir()
    (desk.project / "agents" / "helper.md").symlink_to("../.env")
    desk.bundle("tools: [{module: tool-delegate}]\nagents: {include: [helper]}\n", turns=DELEGATING)
    desk.rules(DENY + SPAWN)
    desk.run("hello")
    assert SECRET not in desk.sent


SKILL = f"---\nname: {{name}}\ndescription: d\n{{more}}---\n{SECRET} {{name}}\n"


def test_a_deny_rule_holds_for_skills(desk: Desk) -> None:
    """A skill whose file a rule denies is neither loaded by itself nor by the model; others are."""
    desk.put(".agents/skills/one/SKILL.md", SKILL.format(name="one", more="auto-load: true\n"))
    desk.put(".agents/skills/two/SKILL.md", SKILL.format(name="two", more=""))
    desk.put(".agents/skills/three/SKILL.md", SKILL.format(name="three", more=""))
    calls = "".join(
        f"  - tool_calls: [{{name: load_skill, arguments: {{skill_name: {name}}}}}]\n" for name in ("two", "three")
    )
    desk.bundle("tools: [{module: tool-skills}]\n", turns=f"turns:\n{calls}  - text: Done.\n")
    desk.rules('rules:\n  - {path: "**/one/**", verdict: deny}\n  - {path: "**/two/SKILL.md", verdict: deny}\n')
    desk.run("hello")
    assert f"{SECRET} one" not in desk.sent
    assert f"{SECRET} two" not in desk.sent
    assert f"{SECRET} three" in desk.sent


def test_a_deny_rule_holds_for_images(desk: Desk) -> None:
    """An image that a rule denies is not sent although the user named it."""
    data = zlib.compress(b"\0\0")
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 1, 1, 8, 0, 0, 0, 0)
    (desk.project / "x.png").write_bytes(head + data)
    desk.rules('rules:\n  - {path: "**/*.png", verdict: deny, reason: no pictures}\n')
    result = desk._amplifier("run", "look", "--image", "x.png", "--bundle", "bundle.md")
    assert result.returncode != 0
    assert "no pictures" in result.stderr


def test_an_ask_rule_is_answered_by_typing(desk: Desk) -> None:
    """What a rule asks about is read when the user typed its name, and left out, with a reason, otherwise."""
    desk.put("draft.md", f"{SECRET} typed")
    desk.put("plan.md", f"{SECRET} mentioned")
    desk.put("AGENTS.md", "Read @plan.md")
    desk.rules(
        'rules:\n  - {path: "draft.md", action: filesystem.read, verdict: ask}\n'
        '  - {path: "plan.md", action: filesystem.read, verdict: ask}\n'
    )
    desk.run("explain @draft.md")
    assert f"{SECRET} typed" in desk.sent
    assert f"{SECRET} mentioned" not in desk.sent
    assert "policy.yaml:3" in desk.refused["@plan.md"]


# -- outside of the project --


@pytest.mark.parametrize("mention", ["@~/notes.md", "@user:notes.md", "@{home}/notes.md"])
def test_a_typed_mention_leads_anywhere(desk: Desk, mention: str) -> None:
    """What the user types in the prompt argument is read wherever it lies."""
    desk.put(desk.home / "notes.md")
    desk.put(desk.config / "notes.md")
    desk.run(f"explain {mention.format(home=desk.home)}")
    assert SECRET in desk.sent


@pytest.mark.parametrize(
    "mention", ["@~/notes.md", "@user:notes.md", "@{home}/notes.md", "@~/.ssh/id_rsa", "@linked.md", "@folder/notes.md"]
)
@pytest.mark.parametrize("name", ["AGENTS.md", "CLAUDE.md", "bundle", "agent", "skill"])
def test_files_of_a_project_lead_nowhere_else(desk: Desk, name: str, mention: str) -> None:
    """Instruction files, bundles, agents and skills of a project bring nothing from outside of it, trusted or not."""
    for place in (desk.home, desk.config, desk.home / ".ssh"):
        desk.put(place / "notes.md")
        desk.put(place / "id_rsa")
    (desk.project / "linked.md").symlink_to(desk.home / "notes.md")
    (desk.project / "folder").symlink_to(desk.home)
    text = f"Mind this: {mention.format(home=desk.home)}"
    if name == "bundle":
        desk.bundle(body=text)
    elif name == "agent":
        desk.bundle(AGENT.format(instruction=text, context="given.md"), turns=DELEGATING)
        desk.rules("rules:\n" + SPAWN)
    elif name == "skill":
        desk.put(".agents/skills/one/SKILL.md", f"---\nname: one\ndescription: d\nauto-load: true\n---\n{text}\n")
        desk.bundle("tools: [{module: tool-skills}]\n")
    else:
        desk.put(name, text)
    desk.run("hello", "--trust")
    assert "Mind this" in desk.sent
    assert SECRET not in desk.sent


def test_a_rule_may_allow_what_lies_outside(desk: Desk) -> None:
    """A rule that allows a folder lets a trusted project's instruction file mention it; an untrusted one's not."""
    desk.put(desk.home / "notes.md")
    desk.put("AGENTS.md", "Read @~/notes.md")
    desk.rules('rules:\n  - {path: "~/notes.md", action: filesystem.read, verdict: allow}\n')
    desk.run("hello")
    assert SECRET not in desk.sent
    assert "not trusted" in desk.refused["@~/notes.md"]
    desk.run("hello", "--trust")
    assert SECRET in desk.sent


@pytest.mark.parametrize("mention", ["@linked.md", "@folder/notes.md"])
def test_a_link_is_not_what_the_user_typed(desk: Desk, mention: str) -> None:
    """A link of the project that leads out is refused although its name was typed; its target may be typed itself."""
    desk.put(desk.home / "notes.md")
    (desk.project / "linked.md").symlink_to(desk.home / "notes.md")
    (desk.project / "folder").symlink_to(desk.home)
    result = desk.run(f"explain {mention}")
    assert SECRET not in desk.sent
    assert f"leads to {desk.home}/notes.md" in result.stderr
    desk.run("explain @~/notes.md")
    assert SECRET in desk.sent


def test_the_users_own_instructions_read_below_their_home(desk: Desk) -> None:
    """AGENTS.md of the home brings what lies beside it, but neither keys nor the records of sessions nor more."""
    desk.put(desk.config / "style.md", "style of the user")
    desk.put(desk.config / "keys.env", f"KEY={SECRET}")
    desk.put(desk.config / "projects" / "other" / "sessions" / "x" / "transcript.jsonl")
    desk.put(desk.home / "elsewhere.md")
    desk.put(
        desk.config / "AGENTS.md",
        "@user:style.md @user:keys.env @user:projects/other/sessions/x/transcript.jsonl @~/elsewhere.md",
    )
    desk.run("hello")
    assert "style of the user" in desk.sent
    assert SECRET not in desk.sent


def test_a_project_file_does_not_borrow_the_users_word(desk: Desk) -> None:
    """A project file that the user's own instructions mention reads nothing of the user's home."""
    desk.put(desk.config / "private.md")
    desk.put("style.md", "style of the project @user:private.md")
    desk.put(desk.config / "AGENTS.md", "@style.md")
    desk.run("hello")
    assert "style of the project" in desk.sent
    assert SECRET not in desk.sent


def test_a_bundle_reads_below_its_own_root(desk: Desk, tmp_path: Path) -> None:
    """A bundle elsewhere brings files below its root, the project's instruction files bring none of it."""
    root = tmp_path / "bundles" / "desk"
    desk.put(root / "docs" / "guide.md", "guide of the bundle")
    desk.put(root.parent / "other.md")
    bundle = desk.bundle(
        folder=root, turns="turns: [{text: Sure.}]", body=f"@desk:docs/guide.md @{root.parent}/other.md"
    )
    desk.run("hello", bundle=bundle)
    assert "guide of the bundle" in desk.sent
    assert SECRET not in desk.sent
    desk.put(root / ".env")
    desk.put("AGENTS.md", "@desk:.env")
    desk.run("hello", bundle=bundle)
    assert SECRET not in desk.sent


def test_instructions_of_the_repository_above_stay(
    desk: Desk, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """AGENTS.md at the root of the repository that the project lies in is read with what it mentions beside it."""
    root = desk.project.parent
    # A repository that the home folder lies in would be no project.
    environment |= {"HOME": str(tmp_path_factory.mktemp("home")), "AMPLIFIER_HOME": str(desk.config)}
    (root / ".git").mkdir()
    desk.put(root / "AGENTS.md", "rules of the repository @shared.md")
    desk.put(root / "shared.md", "shared by all packages")
    desk.run("hello")
    assert "rules of the repository" in desk.sent
    assert "shared by all packages" in desk.sent


# -- text that nobody typed --


def test_piped_text_brings_no_files(desk: Desk) -> None:
    """Mentions in standard input are text, those of files that are there with a note, whatever they name."""
    desk.put("notes.md")
    desk.put(desk.home / ".ssh" / "id_rsa")
    result = desk.run(None, stdin="see @notes.md and @~/.ssh/id_rsa and @nobody")
    assert SECRET not in desk.sent
    [line] = [line for line in result.stderr.splitlines() if "@notes.md" in line]
    assert "typed" in line
    assert "@nobody" not in line
    desk.run("-", stdin="@notes.md")
    assert SECRET not in desk.sent


def test_standard_input_is_no_part_of_a_prompt_argument(desk: Desk) -> None:
    """With a prompt argument, its mentions count and nothing of standard input does."""
    desk.put("notes.md", "notes of the project")
    desk.put("mail.md")
    desk.run("summarise @notes.md", stdin="@mail.md")
    assert "notes of the project" in desk.sent
    assert SECRET not in desk.sent


def test_what_a_model_writes_brings_no_files(desk: Desk) -> None:
    """The task that a model writes for an agent is text: its mentions are not followed."""
    desk.put(".env")
    desk.put("given.md")
    desk.put("tone.md", "Be kind.")
    desk.bundle(AGENT.format(instruction="You help.", context="tone.md"), turns=DELEGATING)
    desk.rules("rules:\n" + SPAWN)
    desk.run("hello")
    assert "You help." in desk.sent
    assert SECRET not in desk.sent


def test_nothing_blocks(desk: Desk) -> None:
    """Pipes, sockets and devices in place of instruction files are refused at once."""
    os.mkfifo(desk.project / "AGENTS.md")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(desk.project / "s.md"))
        (desk.project / "zero.md").symlink_to("/dev/zero")
        desk.run("@s.md @zero.md @/dev/zero @/proc/self/environ hello")
    assert set(desk.refused) >= {"@s.md", "@zero.md", "@/dev/zero", "@/proc/self/environ"}


def test_decisions_are_in_the_log(desk: Desk) -> None:
    """The event tells of every file who decided: the rule that allowed or denied it, or the person who typed it."""
    desk.put(".env")
    desk.put("a.md", "A")
    desk.put(desk.home / "b.md", "B")
    desk.rules()
    desk.run("@.env @a.md @~/b.md")
    [data] = [
        record["data"]
        for record in desk.events
        if record["event"] == "mentions:resolved" and record["data"]["source"] == "prompt"  # type: ignore[index]
    ]
    by = {one["mention"]: one["decided_by"] for one in [*data["resolutions"], *data["failed"]]}  # type: ignore[index]
    assert by["@.env"]["kind"] == "rule"
    assert by["@.env"]["where"].endswith("policy.yaml:2")
    assert by["@a.md"]["kind"] == "default"
    assert by["@~/b.md"]["kind"] == "person"


@pytest.mark.parametrize("path", ["~/.amplifier/notes.md", "{home}/notes.md", "../home/notes.md", "~/notes.md"])
def test_a_projects_bundle_names_no_context_elsewhere(desk: Desk, path: str) -> None:
    """`context` of a bundle of the project brings nothing from outside of it, whatever way it is written."""
    desk.put(desk.config / "notes.md")
    desk.put(desk.home / "notes.md")
    desk.bundle(f'context: {{include: ["{path.format(home=desk.home)}"]}}\n', body="You are here.")
    result = desk._amplifier("run", "hello", "--bundle", "bundle.md")
    assert SECRET not in "".join(str(record) for record in desk.events), result.stderr


@pytest.mark.parametrize("trust", [(), ("--trust",)])
def test_agents_of_a_project_have_what_the_project_has(desk: Desk, trust: tuple[str, ...]) -> None:
    """What a rule allows outside of the project is for its agents and its bundle only when it is trusted."""
    desk.put(desk.home / "notes.md")
    instruction = "You help. @~/notes.md"
    desk.bundle(AGENT.format(instruction=instruction, context="run.yaml"), turns=DELEGATING, body="Here. @~/notes.md")
    allow = '  - {path: "~/notes.md", action: filesystem.read, verdict: allow}\n'
    desk.rules("rules:\n" + SPAWN + allow)
    desk.run("hello", *trust)
    assert "You help." in desk.sent
    assert (SECRET in desk.sent) == bool(trust)
