"""Which modes a session has, and which files are left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.modes import parse_mode

MakeSession = Callable[..., Any]


def _names(made: Any) -> list[str]:
    return [name for name, *_ in made.state["mode_discovery"].list_modes()]


async def test_the_shipped_modes(make_session: MakeSession) -> None:
    """The modes plan, explore and careful are always there, each with its shortcut and a guidance."""
    made = make_session("done")
    async with made.session:
        discovery = made.state["mode_discovery"]
        assert _names(made) == ["careful", "explore", "plan"]
        assert discovery.get_shortcuts() == {"careful": "careful", "explore": "explore", "plan": "plan"}
        assert discovery.problems == []
        assert discovery.find("plan").warn_tools == ("bash",)
        assert discovery.find("explore").warn_tools == ()
        assert discovery.find("careful").confirm_tools == ("write_file", "edit_file", "bash")
        assert all(discovery.find(name).context for name in _names(made))


async def test_the_first_of_a_name_counts(
    make_session: MakeSession, write_mode: Callable[..., Path], project: Path
) -> None:
    """The project comes before the user, the user before the shipped modes, and those before the config."""
    write_mode("---\nmode: {description: of the user}\n---\n", "plan")
    write_mode("---\nmode: {description: of the user}\n---\n", "own")
    write_mode("---\nmode: {description: of the project}\n---\n", "plan", project / ".amplifier" / "modes")
    write_mode("---\nmode: {description: of the config}\n---\n", "own", project / "more")
    write_mode("---\nmode: {description: of the config}\n---\n", "extra", project / "more")
    made = make_session("done", config={"search_paths": ["more"]}, is_trusted=True)
    async with made.session:
        found = {name: (text, source) for name, text, source, _ in made.state["mode_discovery"].list_modes()}
    assert found["plan"] == ("of the project", "project")
    assert found["own"] == ("of the user", "user")
    assert found["extra"] == ("of the config", "config")
    assert found["explore"][1] == "modes"


async def test_files_of_an_untrusted_project_are_left_out(
    make_session: MakeSession, write_mode: Callable[..., Path], project: Path
) -> None:
    """A project that is not trusted brings no mode, neither in its folder nor in one that a config names."""
    write_mode("---\nmode: {name: evil}\n---\n", "evil", project / ".amplifier" / "modes")
    write_mode("---\nmode: {name: sly}\n---\n", "sly", project / "more")
    made = make_session("done", config={"search_paths": ["more"]}, is_trusted=False)
    async with made.session:
        assert not {"evil", "sly"} & set(_names(made))
        problems = made.state["mode_discovery"].problems
    assert len(problems) == 2
    assert all("the project is not trusted" in problem for problem in problems)


async def test_a_link_of_a_project_does_not_lead_out(
    make_session: MakeSession, write_mode: Callable[..., Path], project: Path
) -> None:
    """A mode file of a project that is a link to a file elsewhere is a problem, not a mode."""
    outside = write_mode("---\nmode: {name: secret}\n---\n", "secret", project.parent / "outside")
    folder = project / ".amplifier" / "modes"
    folder.mkdir(parents=True)
    (folder / "secret.md").symlink_to(outside)
    made = make_session("done", is_trusted=True)
    async with made.session:
        assert "secret" not in _names(made)
        assert len(made.state["mode_discovery"].problems) == 1


async def test_modes_of_bundles_are_found(
    make_session: MakeSession, write_mode: Callable[..., Path], project: Path
) -> None:
    """The folder `modes` of every namespace that mentions know is searched."""
    write_mode("---\nmode: {name: theirs}\n---\n", "theirs", project.parent / "bundle" / "modes")

    class Resolver:
        namespaces = {"lib": project.parent / "bundle"}  # noqa: RUF012

        def resolve(self, mention: str) -> Path | None:
            return None

    made = make_session("done", capabilities={"mention_resolver": Resolver()})
    async with made.session:
        assert made.state["mode_discovery"].find("theirs").source == "lib"


async def test_a_wrong_file_hides_no_other(
    make_session: MakeSession, write_mode: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    """A mode that cannot be read is named with what is wrong, and a file without the section is no mode."""
    wrong = write_mode("---\nmode: {tools: {safe: all}}\n---\n", "wrong")
    write_mode("---\nname: notes\n---\n", "notes")
    write_mode("---\nmode: {name: good}\n---\n", "good")
    made = make_session("done")
    async with made.session:
        assert "good" in _names(made)
        assert not {"wrong", "notes"} & set(_names(made))
        [problem] = made.state["mode_discovery"].problems
    assert str(wrong) in problem
    assert "tools.safe" in problem


async def test_new_files_are_found_after_clearing_the_cache(
    make_session: MakeSession, write_mode: Callable[..., Path]
) -> None:
    """Folders are read once, and again when asked to."""
    made = make_session("done")
    async with made.session:
        assert "late" not in _names(made)
        write_mode("---\nmode: {name: late}\n---\n", "late")
        assert "late" not in _names(made)
        made.state["mode_discovery"].clear_cache()
        assert "late" in _names(made)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("", "review"),
        ("shortcut: Fast", "fast"),
        ("shortcut: false", None),
        ("shortcut: null", None),
        ('shortcut: ""', None),
        ("shortcut: two words", None),
        ("shortcut: 9lives", None),
    ],
)
def test_shortcuts(key: str, expected: str | None) -> None:
    """The shortcut is the name unless the file says otherwise; what cannot be typed as a command is none."""
    mode = parse_mode(Path("review.md"), f"---\nmode:\n  description: x\n  {key}\n---\n".encode(), "user")
    assert mode is not None
    assert mode.shortcut == expected


@given(st.binary(max_size=200))
def test_any_bytes_are_a_mode_or_a_problem(content: bytes) -> None:
    """Whatever a file holds, it is a mode with a name, no mode, or a ValueError."""
    try:
        mode = parse_mode(Path("x.md"), b"---\nmode:\n " + content + b"\n---\nbody", "user")
    except ValueError:
        return
    assert mode is None or (mode.name and mode.source == "user")
