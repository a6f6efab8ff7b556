"""What the tool answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_skills.tool import FORK_NOTE


@pytest.fixture
def folder(project: Path) -> Path:
    """Return the project's folder for skills."""
    return project / ".amplifier/skills"


async def test_loading_gives_the_text_and_where_it_is_from(
    start: Any, skill: Any, folder: Path, coordinator: MockCoordinator
) -> None:
    """The result has the published keys, and an event says what was loaded."""
    file = skill(folder, "one", "# How\n\nDo it.", version="1.0")
    result = await (await start()).execute({"skill_name": "one"})
    assert result.success
    assert result.output == {
        "content": "# How\n\nDo it.",
        "skill_name": "one",
        "skill_directory": str(file.parent),
        "loaded_from": str(folder),
    }
    assert coordinator.get_capability("heard") == [
        (
            "skills:discovered",
            {
                "skill_count": 1,
                "skill_names": ["one"],
                "sources": coordinator.get_capability("skills_discovery").sources,
            },
        ),
        ("skill:loaded", {"skill_name": "one", "source": str(folder), "content_length": 13, "version": "1.0"}),
    ]


async def test_other_files_are_listed_not_read(start: Any, skill: Any, folder: Path, tmp_path: Path) -> None:
    """The model is told which files belong to a skill; links and skills below are not among them."""
    base = skill(folder, "one").parent
    for name in ("scripts/run.sh", "references/größe.md", "__pycache__/x.pyc"):
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text("hunter2", encoding="utf-8")
    (base / "link").symlink_to(tmp_path)
    (base / "link.md").symlink_to(tmp_path / "x")
    skill(base, "below")
    output = (await (await start()).execute({"skill_name": "one"})).output
    assert output["files"] == ["references/größe.md", "scripts/run.sh"]
    assert "hunter2" not in str(output)


async def test_many_files_are_counted(start: Any, skill: Any, folder: Path) -> None:
    """More than a hundred are not named, and the note says how many."""
    base = skill(folder, "one").parent
    for number in range(120):
        (base / f"{number:03}.txt").touch()
    output = (await (await start()).execute({"skill_name": "one"})).output
    assert len(output["files"]) == 100
    assert output["note"] == "There are 20 more files than are listed."


async def test_a_text_over_the_limit_is_cut_and_says_so(start: Any, skill: Any, folder: Path) -> None:
    """The result says that it is cut, how much there is, and where the rest is."""
    file = skill(folder, "huge", "line\n" * 1000)
    output = (await (await start({"max_skill_bytes": 500})).execute({"skill_name": "huge"})).output
    assert output["truncated"] is True
    assert output["total_bytes"] == file.stat().st_size
    assert len(output["content"]) < 500
    assert str(file) in output["note"]


async def test_list_and_search_show_names_and_descriptions(start: Any, skill: Any, folder: Path) -> None:
    """Texts are not shown; every word of a search must be there, in any case."""
    skill(folder, "notes", "SECRET", description="Write release notes.")
    skill(folder, "tests", "SECRET", description="Write tests first.")
    tool = await start()
    listed = (await tool.execute({"list": True})).output
    notes = {"name": "notes", "description": "Write release notes."}
    assert listed["skills"] == [notes, {"name": "tests", "description": "Write tests first."}]
    assert listed["message"] == "**notes**: Write release notes.\n**tests**: Write tests first."
    assert listed["count"] == 2
    found = (await tool.execute({"search": "RELEASE write"})).output
    assert found["matches"] == [notes]
    assert (await tool.execute({"search": "cook"})).output["matches"] == []
    assert "SECRET" not in str((listed, found))


async def test_list_says_what_is_wrong(start: Any, skill: Any, folder: Path) -> None:
    """Problems are in the result beside the skills that are fine."""
    skill(folder, "fine")
    skill(folder, "bad", description="")
    output = (await (await start()).execute({"list": True})).output
    assert [one["name"] for one in output["skills"]] == ["fine"]
    [problem] = output["problems"]
    assert problem.startswith(f"{folder / 'bad/SKILL.md'}:3: ")


async def test_info_tells_everything_but_the_text(start: Any, skill: Any, folder: Path) -> None:
    """What the front matter says is there, what is not done is listed, and the text is not."""
    keys = {"version": "2", "license": "MIT", "allowed_tools": "Bash(git add *), Read", "context": "fork"}
    file = skill(folder, "one", "SECRET", **keys, agent="explorer", hooks="{a: b}", metadata="{author: me}")
    output = (await (await start()).execute({"info": "one"})).output
    assert output == {
        "name": "one",
        "description": "About one.",
        "version": "2",
        "license": "MIT",
        "path": str(file),
        "source": str(folder),
        "allowed_tools": ["Bash(git add *)", "Read"],
        "context": "fork",
        "metadata": {"author": "me"},
        "ignored": ["hooks", "agent"],
    }


async def test_what_yaml_knows_and_json_does_not_is_told_as_text(start: Any, skill: Any, folder: Path) -> None:
    """Dates, bytes, sets and infinities of a front matter come out as plain data, so that every loop can send them."""
    metadata = (
        "{made: 2026-01-31, at: 2026-01-31 10:00:00, raw: !!binary aGk=, tags: !!set {a}, most: .inf, 1: {2: .nan}}"
    )
    skill(folder, "dated", version="2026-01-31", metadata=metadata)
    tool = await start()
    told = await tool.execute({"info": "dated"})
    assert json.loads(told.get_serialized_output()) == told.output
    assert told.output["version"] == "2026-01-31"
    assert told.output["metadata"] == {
        "made": "2026-01-31",
        "at": "2026-01-31 10:00:00",
        "raw": "hi",
        "tags": ["a"],
        "most": "inf",
        "1": {"2": "nan"},
    }


async def test_a_skill_for_a_child_session_says_that_there_is_none(start: Any, skill: Any, folder: Path) -> None:
    """`context: fork` gives the text and says that it is not run elsewhere."""
    skill(folder, "one", "Text.", context="fork")
    output = (await (await start()).execute({"skill_name": "one"})).output
    assert output["content"] == "Text."
    assert output["note"] == FORK_NOTE


async def test_allowed_tools_are_shown_and_grant_nothing(
    start: Any, skill: Any, folder: Path, coordinator: MockCoordinator
) -> None:
    """The list is information: no policy hears of it."""
    skill(folder, "one", allowed_tools="[bash, write_file]")
    output = (await (await start()).execute({"skill_name": "one"})).output
    assert output["allowed_tools"] == ["bash", "write_file"]
    assert not (await coordinator.authorize("process.exec", {"tool_name": "bash", "tool_input": {}})).granted


@pytest.mark.parametrize("value", ["true", "yes", "'true'", "1", "sometimes"])
async def test_the_model_cannot_have_what_is_the_users(start: Any, skill: Any, folder: Path, value: str) -> None:
    """disable-model-invocation hides a skill from the model everywhere, whatever is not clearly a no."""
    skill(folder, "deploy", disable_model_invocation=value)
    tool = await start()
    for key in ("skill_name", "info"):
        result = await tool.execute({key: "deploy"})
        assert result.error["code"] == "not_for_model"
    assert (await tool.execute({"list": True})).output["skills"] == []
    assert (await tool.execute({"search": "deploy"})).output["matches"] == []


async def test_the_user_is_offered_what_is_theirs(
    start: Any, skill: Any, folder: Path, coordinator: MockCoordinator
) -> None:
    """The capability lists what a user may call, and finds and loads the rest too."""
    skill(folder, "deploy", "Text.", disable_model_invocation="true")
    skill(folder, "background", user_invocable="false")
    await start()
    discovery = coordinator.get_capability("skills_discovery")
    assert discovery.list_skills() == [("deploy", "About deploy.")]
    assert set(discovery.skills) == {"background", "deploy"}
    assert (await discovery.load(discovery.find("deploy"))).content == "Text."


async def test_shortcuts_are_listed(start: Any, skill: Any, folder: Path, coordinator: MockCoordinator) -> None:
    """The capability has the shortcuts of what a user may call; a malformed one makes its file invalid."""
    skill(folder, "deploy", shortcut="Ship", context="fork")
    skill(folder, "review", shortcut="false")
    skill(folder, "hidden", shortcut="hid", user_invocable="false")
    skill(folder, "broken", shortcut="'not a name'")
    await start()
    discovery = coordinator.get_capability("skills_discovery")
    expected = {"name": "deploy", "description": "About deploy.", "context": "fork"}
    assert discovery.get_shortcuts() == {"ship": expected}
    assert any("the shortcut 'not a name'" in problem for problem in discovery.problems)


@pytest.mark.parametrize(
    "name", ["../secret", "..", "a/b", "/etc/passwd", "a\\b", "a\0b", "~/x/../y", "x" * 500, "a\u202eb", "   "]
)
@pytest.mark.parametrize("key", ["skill_name", "info"])
async def test_a_path_is_no_name(start: Any, skill: Any, project: Path, key: str, name: str) -> None:
    """Whatever looks like a path is refused before anything is looked for."""
    skill(project, "secret", "hunter2")
    result = await (await start()).execute({key: name})
    assert not result.success
    assert result.error["code"] == "invalid_skill_name"
    assert "hunter2" not in result.output


async def test_an_unknown_name_gets_a_hint(start: Any, skill: Any, folder: Path) -> None:
    """A near name is proposed, and why one of that name is no skill is said."""
    skill(folder, "release-notes")
    skill(folder, "broken", description="")
    tool = await start()
    near = await tool.execute({"skill_name": "release-note"})
    assert near.error == {
        "message": "there is no skill 'release-note': did you mean release-notes?",
        "code": "unknown_skill",
    }
    assert "SKILL.md:3" in (await tool.execute({"skill_name": "broken"})).output


async def test_a_new_skill_is_found_without_a_restart(
    start: Any, skill: Any, folder: Path, coordinator: MockCoordinator
) -> None:
    """A name that is not known is looked for again, and the new set is announced once."""
    tool = await start()
    skill(folder, "late", "Text.")
    assert (await tool.execute({"skill_name": "late"})).output["content"] == "Text."
    await tool.execute({"list": True})
    counts = [
        data["skill_count"] for event, data in coordinator.get_capability("heard") if event == "skills:discovered"
    ]
    assert counts == [0, 1]


async def test_a_skill_that_vanished_is_a_failure(start: Any, skill: Any, folder: Path) -> None:
    """A file that is gone since it was found is said to be unreadable, with its place."""
    tool_file = skill(folder, "one")
    tool = await start()
    tool_file.unlink()
    result = await tool.execute({"skill_name": "one"})
    assert result.error["code"] == "unreadable_skill"
    assert str(tool_file) in result.output


@pytest.mark.parametrize("given_input", [{}, {"skill_name": 5}, {"search": ["x"]}, {"list": False}, {"skill_name": ""}])
async def test_input_without_a_question_is_refused(start: Any, given_input: dict[str, Any]) -> None:
    """The four ways to ask are named, or the key that is wrong."""
    result = await (await start()).execute(given_input)
    assert not result.success
    assert result.error["code"] == "invalid_input"


JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=10) | st.lists(st.text(max_size=3), max_size=2)


@given(st.dictionaries(st.sampled_from(["skill_name", "list", "search", "info", "x"]), JSON))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_input_raises(start: Any, given_input: dict[str, Any]) -> None:
    """Whatever a model sends, there is a result."""
    result = await (await start()).execute(given_input)
    assert result.success or set(result.error) == {"message", "code"}
