"""Which files go into a prompt, by the rules and by whose text asks for them."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.prompt.access import PLAN, PROJECT, TYPED, USER, Origin, ReadDeniedError, text_hash
from amplifier_foundation.prompt.instructions import find_instructions
from amplifier_foundation.prompt.mention_resolver import MentionError, MentionResolver
from amplifier_foundation.prompt.text_files import UnusableFileError


def put(path: Path, text: str = "text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def rules(places: Any, *lines: str) -> Path:
    return put(places.home.path / "policy.yaml", "rules:\n" + "".join(f"  - {line}\n" for line in lines))


def may(places: Any, path: Path, origin: Origin) -> bool:
    try:
        return bool(places.access.read(path, origin).file.text)
    except ReadDeniedError:
        return False


def origins(places: Any) -> list[Origin]:
    return [TYPED, USER, PLAN, PROJECT, Origin("bundle", places.bundle)]


def test_deny_is_absolute(places: Any) -> None:
    """No origin gets what a rule denies, by its name or by a link; the reason names the rule with file and line."""
    file = put(places.project / ".env")
    (places.project / "link.md").symlink_to(".env")
    policy = rules(places, '{path: "**/.env", verdict: deny, reason: secrets}')
    for origin in origins(places):
        for path in (file, places.project / "link.md"):
            with pytest.raises(ReadDeniedError, match="secrets") as caught:
                places.access.read(path, origin)
            assert f"{policy}:2" in str(caught.value)
            assert caught.value.decided_by["where"] == f"{policy}:2"


def test_a_rule_about_a_links_name_holds(places: Any) -> None:
    """A rule that denies the name denies what it leads to under that name."""
    put(places.project / "plain.md")
    (places.project / "secret.md").symlink_to("plain.md")
    rules(places, '{path: "secret.*", verdict: deny}')
    assert not may(places, places.project / "secret.md", TYPED)
    assert may(places, places.project / "plain.md", TYPED)


def test_a_rule_that_keeps_the_file_tool_out_keeps_prompts_out(places: Any) -> None:
    """What the tool that reads files must not give to the model, a mention does not give to it either."""
    file = put(places.project / "a.md")
    rules(places, "{tool: read_file, path: a.md, verdict: deny}")
    assert not any(may(places, file, origin) for origin in origins(places))


def test_only_typing_answers_what_a_rule_asks(places: Any) -> None:
    """Nobody is asked: a file that a rule asks about is read when it was typed, and left out otherwise."""
    file = put(places.project / "a.md")
    rules(places, "{path: a.md, verdict: ask}")
    assert [origin for origin in origins(places) if may(places, file, origin)] == [TYPED]


def test_rules_that_cannot_be_loaded_deny(places: Any) -> None:
    """A fault in the rules opens nothing."""

    def broken() -> Any:
        raise OSError("broken")

    access = places.access_of(rules=broken)
    with pytest.raises(ReadDeniedError, match="rules cannot be loaded: OSError: broken"):
        access.read(put(places.project / "a.md"), TYPED)


def test_each_origin_has_its_places(places: Any) -> None:
    """What lies in the project is for all, elsewhere for who owns the place, and everything for who types it."""
    files = {
        "project": put(places.project / "a.md"),
        "home": put(places.home.path / "a.md"),
        "bundle": put(places.bundle / "docs" / "a.md"),
        "content": put(places.bundle / "context" / "a.md"),
        "user": put(places.user_home / "a.md"),
        "outside": put(places.outside / "a.md"),
    }
    found = {
        origin.kind: {name for name, path in files.items() if may(places, path, origin)} for origin in origins(places)
    }
    assert found == {
        "typed": set(files),
        "user": {"project", "home", "content"},
        "plan": {"project", "content"},
        "project": {"project"},
        "bundle": {"project", "bundle", "content"},
    }


def test_the_repository_is_the_project(places: Any) -> None:
    """Files of the repository around a project are its own, unless a rule denies them."""
    (places.project / ".git").mkdir()
    file = put(places.project / "shared.md")
    inner = places.project / "packages" / "one"
    inner.mkdir(parents=True)
    (inner / "link.md").symlink_to("../../shared.md")
    access = places.access_of(MentionResolver({}, inner, places.home))
    for path in (file, inner / "link.md"):
        assert access.read(path, PROJECT).file.text == "text"
    rules(places, f'{{path: "{file}", verdict: deny}}')
    with pytest.raises(ReadDeniedError):
        access.read(file, PROJECT)


@pytest.mark.parametrize("where", ["home", "above"])
def test_a_repository_as_wide_as_the_home_folder_is_no_project(places: Any, where: str) -> None:
    """Who keeps the home folder in git has not made one project of all that is unpacked below it."""
    root = places.user_home if where == "home" else places.user_home.parent
    (root / ".git").mkdir()
    file = put(places.user_home / "private.md")
    put(root / "AGENTS.md")
    unpacked = places.user_home / "Downloads" / "archive"
    unpacked.mkdir(parents=True)
    access = places.access_of(MentionResolver({}, unpacked, places.home))
    with pytest.raises(ReadDeniedError, match="outside of the project"):
        access.read(file, PROJECT)
    assert find_instructions(unpacked, places.home) == []


def test_trust_lets_rules_count_for_a_project(places: Any) -> None:
    """What a rule allows outside of the project is for the files of a trusted project, not of another one."""
    file = put(places.outside / "a.md")
    rules(places, f'{{action: filesystem.read, path: "{places.outside}/**", verdict: allow}}')
    assert may(places, file, PLAN)
    assert not may(places, file, PROJECT)
    assert places.access_of(is_trusted=lambda: True).read(file, PROJECT).file.text == "text"


@pytest.mark.parametrize(
    "mention", ["@link.md", "@folder/secret.md", "@ns:link.md", "@project:link.md", "{alias}/link.md"]
)
def test_a_link_that_leads_out_is_refused(places: Any, mention: str) -> None:
    """What a link leads to is not what was named, so not even a typed mention follows it out, by any way to it."""
    target = put(places.outside / "secret.md")
    for folder in (places.project, places.bundle, places.project / ".amplifier"):
        folder.mkdir(exist_ok=True)
        (folder / "link.md").symlink_to(target)
    (places.project / "folder").symlink_to(places.outside)
    alias = places.user_home / "alias"
    alias.symlink_to(places.project)
    path = places.resolver.locate(mention.format(alias=f"@{alias}")).path
    for origin in origins(places):
        with pytest.raises(ReadDeniedError, match=f"leads to {target}, which is outside"):
            places.access.read(path, origin)
    rules(places, f'{{action: filesystem.read, path: "{target}", verdict: allow}}')
    assert may(places, path, TYPED)


def test_a_user_may_link_what_is_theirs(places: Any) -> None:
    """A link outside of project and bundles that the user names leads where it leads."""
    target = put(places.outside / "a.md")
    (places.user_home / "link.md").symlink_to(target)
    assert may(places, places.user_home / "link.md", TYPED)
    assert not may(places, places.user_home / "link.md", USER)


@pytest.mark.parametrize("target", ["missing.md", "link.md"])
def test_a_link_that_leads_nowhere_is_refused(places: Any, target: str) -> None:
    """A broken link and one to itself give a reason."""
    (places.project / "link.md").symlink_to(places.project / target)
    with pytest.raises(MentionError, match="link that leads nowhere"):
        places.access.read(places.project / "link.md", TYPED)


def test_keys_never_go_into_a_prompt(places: Any) -> None:
    """The file of keys is refused to everyone, by any way there, and no rule opens it."""
    keys = put(places.home.keys)
    (places.project / "keys-link").symlink_to(keys)
    os.link(keys, places.project / "keys-copy")
    rules(places, "{action: filesystem.read, verdict: allow}")
    for path in (keys, places.project / "keys-link", places.project / "keys-copy"):
        for origin in origins(places):
            with pytest.raises(ReadDeniedError, match="holds the keys"):
                places.access.read(path, origin)


def test_only_the_user_mentions_credentials_and_records(places: Any) -> None:
    """Keys in the home directory and what other sessions said are read when typed, and by nothing else."""
    files = [
        put(places.user_home / ".ssh" / "id_ed25519"),
        put(places.home.path / "projects" / "other" / "sessions" / "x" / "transcript.jsonl"),
    ]
    around = Origin("bundle", places.user_home)
    for file in files:
        assert [origin for origin in [*origins(places), around] if may(places, file, origin)] == [TYPED]


def test_a_root_that_is_the_whole_disk_opens_nothing(places: Any) -> None:
    """A bundle at the root of the disk may read no more for it."""
    assert not may(places, put(places.outside / "a.md"), Origin("bundle", Path("/")))


def test_texts_are_known_by_where_they_stand(places: Any) -> None:
    """An instruction has the origin of its file; one of unknown origin has that of the plan."""
    file = put(places.bundle / "agents" / "one.md")
    inner = put(places.project / ".amplifier" / "agents" / "two.md")
    own = put(places.home.path / "agents" / "three.md")
    known = {text_hash(text): str(path) for text, path in (("one", file), ("two", inner), ("three", own))}
    access = places.access_of(texts=known)
    found = [access.origin_of_text(text) for text in ("one", "two", "three", "four")]
    assert found == [Origin("bundle", places.bundle), PROJECT, USER, PLAN]


def test_nothing_is_trusted_with_more_for_being_mentioned(places: Any) -> None:
    """A file has the origin of its place, but never more than the text that has brought it."""
    in_home, in_bundle = places.home.path / "a.md", places.bundle / "a.md"
    bundle = Origin("bundle", places.bundle)
    found = {
        (origin.kind, real.parent.name): places.access.nested(origin, real)
        for origin in (TYPED, USER, PROJECT, bundle)
        for real in (in_home, in_bundle, places.project / "a.md")
    }
    assert found == {
        ("typed", ".amplifier"): USER, ("typed", "bundle"): bundle, ("typed", places.project.name): PROJECT,
        ("user", ".amplifier"): USER, ("user", "bundle"): bundle, ("user", places.project.name): PROJECT,
        ("project", ".amplifier"): PROJECT, ("project", "bundle"): PROJECT, ("project", places.project.name): PROJECT,
        ("bundle", ".amplifier"): PLAN, ("bundle", "bundle"): bundle, ("bundle", places.project.name): PROJECT,
    }  # fmt: skip


def test_a_folder_does_not_name_what_rules_hide(places: Any) -> None:
    """The listing of a folder leaves out what a rule denies."""
    put(places.project / "docs" / ".env")
    put(places.project / "docs" / "a.md")
    rules(places, '{path: "**/.env", verdict: deny}')
    assert places.access.read(places.project / "docs", TYPED).file.text == "FILE a.md"


@pytest.mark.parametrize("swap", ["file", "folder"])
def test_a_link_that_changes_meanwhile_gains_nothing(places: Any, swap: str) -> None:
    """What was decided on is what is read, however often a link is made to lead elsewhere in between."""
    secret = put(places.outside / "docs" / "a.md", "secret")
    put(places.project / "real" / "a.md", "public")
    name = places.project / ("docs/a.md" if swap == "file" else "docs")
    inside = places.project / "real" / ("a.md" if swap == "file" else "")
    outside = secret if swap == "file" else secret.parent
    name.parent.mkdir(exist_ok=True)
    stop = threading.Event()

    def change() -> None:
        spare = places.project / "spare"
        while not stop.is_set():
            for target in (outside, inside):
                spare.symlink_to(target)
                os.replace(spare, name)

    name.symlink_to(inside)
    thread = threading.Thread(target=change)
    thread.start()
    seen: set[str] = set()
    try:
        for _ in range(300):
            for origin in (PROJECT, TYPED):
                try:
                    seen.add(places.access.read(places.project / "docs" / "a.md", origin).file.text)
                except (ReadDeniedError, MentionError, UnusableFileError):
                    seen.add("refused")
    finally:
        stop.set()
        thread.join()
    assert "secret" not in seen
    assert seen == {"public", "refused"}


def special_files(folder: Path) -> dict[str, Callable[[], Path]]:
    def pipe() -> Path:
        os.mkfifo(folder / "pipe.md")
        return folder / "pipe.md"

    return {"pipe": pipe, "device": lambda: Path("/dev/zero"), "process": lambda: Path("/proc/self/environ")}


@pytest.mark.parametrize("kind", ["pipe", "device", "process"])
def test_only_files_are_read(places: Any, kind: str) -> None:
    """Pipes, devices and views into the system are refused without waiting, also when typed."""
    path = special_files(places.project)[kind]()
    with pytest.raises((UnusableFileError, ReadDeniedError)):
        places.access.read(path, TYPED)
    with pytest.raises((UnusableFileError, ReadDeniedError)):
        places.access.read_bytes(path, TYPED, 10)
