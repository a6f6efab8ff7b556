"""Where mentions lead, and where they may not."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_foundation.prompt.mention_resolver import MentionError, MentionResolver


def put(path: Path, text: str = "text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_each_form_leads_to_its_place(places: Any) -> None:
    """Namespaces, both homes, the project's folder and the project itself are each found by their form."""
    expected = {
        "@ns:context/rules.md": put(places.bundle / "context" / "rules.md"),
        "@user:notes.md": put(places.home.path / "notes.md"),
        "@project:notes.md": put(places.project / ".amplifier" / "notes.md"),
        "@~/notes.md": put(places.user_home / "notes.md"),
        "@docs/a.md": put(places.project / "docs" / "a.md"),
        "@docs/": places.project / "docs",
        f"@{places.project}/docs/a.md": places.project / "docs" / "a.md",
        "docs/a.md": places.project / "docs" / "a.md",
    }
    assert {mention: places.resolver.resolve(mention) for mention in expected} == expected
    types = [places.resolver.locate(mention).source_type for mention in expected]
    assert types == ["namespace", "user", "project", "home", "path", "path", "absolute", "path"]


def test_md_is_tried(places: Any) -> None:
    """A name without its `.md` finds the file; the name as written comes first."""
    file = put(places.bundle / "guide.md")
    assert places.resolver.resolve("@ns:guide") == file
    exact = put(places.bundle / "guide")
    assert places.resolver.resolve("@ns:guide") == exact


def test_the_project_comes_before_the_mentioning_file(places: Any) -> None:
    """A relative mention means the project's file, and only then one beside the file that mentions it."""
    beside = put(places.bundle / "x.md")
    assert places.resolver.locate("@x.md", beside=places.bundle).path == beside
    own = put(places.project / "x.md")
    assert places.resolver.locate("@x.md", beside=places.bundle).path == own


@pytest.mark.parametrize(
    "mention", ["@../x", "@docs/../../x", "@ns:../x", "@~/../x", "@user:../x", "@/a/../b", "@ns:.."]
)
def test_dots_that_lead_up_are_refused(places: Any, mention: str) -> None:
    """No mention leads up, whatever is there."""
    with pytest.raises(MentionError, match=r"'\.\.' is not allowed"):
        places.resolver.locate(mention)
    assert places.resolver.resolve(mention) is None


def test_a_module_is_told_of_no_file_elsewhere(places: Any) -> None:
    """Whoever asks what a name means hears of no file outside of all places, no keys and no credentials."""
    secret = put(places.outside / "secret.md")
    put(places.home.keys)
    put(places.user_home / ".ssh" / "id_ed25519")
    (places.project / "link.md").symlink_to(secret)
    (places.project / "broken.md").symlink_to("nowhere")
    for mention in (f"@{secret}", "@/etc/passwd", "@link.md", "@broken.md", "@user:keys.env", "@~/.ssh/id_ed25519"):
        assert places.resolver.resolve(mention) is None


def test_the_repository_around_the_project_belongs_to_it(places: Any) -> None:
    """A project in a folder of a repository may mention the rest of it."""
    (places.project / ".git").mkdir()
    file = put(places.project / "shared" / "x.md")
    project = places.project / "packages" / "one"
    project.mkdir(parents=True)
    resolver = MentionResolver({}, project, places.home)
    assert resolver.resolve(f"@{file}") == file


def test_a_home_that_is_the_whole_disk_opens_nothing(places: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOME=/ does not make every file mentionable."""
    file = put(places.outside / "secret.md")
    monkeypatch.setenv("HOME", "/")
    assert places.resolver.resolve(f"@{file}") is None


def test_reasons_say_what_to_do(places: Any) -> None:
    """Unknown namespaces come with the nearest known one, missing files with the place that was looked at."""
    for mention, reason in {
        "@nss:x": r"no namespace 'nss': did you mean 'ns'\?",
        "@https://example.com": "no namespace 'https': known: ns, user, project",
        "@none.md": f"no such file: {places.project}/none.md",
        "@~bob/x": "another user",
        "@": "names no file",
        "@a\0b": "names no file",
    }.items():
        with pytest.raises(MentionError, match=reason):
            places.resolver.locate(mention)


def test_a_colon_in_a_file_name_is_fine(places: Any) -> None:
    """What is no namespace may be a file."""
    assert places.resolver.resolve("@a:b.md") is None
    file = put(places.project / "a:b.md")
    assert places.resolver.resolve("@a:b.md") == file


def test_namespaces_can_be_added_but_not_taken(places: Any) -> None:
    """A new name is known from then on; the first registration of a name stays, and reserved names cannot be had."""
    file, other = put(places.outside / "x.md"), put(places.bundle / "x.md")
    places.resolver.register_namespace("more", places.outside)
    places.resolver.register_namespace("ns", places.outside)
    places.resolver.register_namespace("user", places.outside)
    assert places.resolver.resolve("@more:x.md") == file
    assert places.resolver.resolve("@ns:x.md") == other
    assert places.resolver.resolve("@user:x.md") is None


def test_no_home_is_no_crash(places: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a home directory `@~/` has a reason, and everything else works."""

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    file = put(places.project / "x.md")
    with pytest.raises(MentionError, match="HOME is not set"):
        places.resolver.locate("@~/x")
    assert places.resolver.resolve("@x.md") == file


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.sampled_from("ab:./~-@\\ é\0")))
def test_nothing_outside_is_ever_found(places: Any, mention: str) -> None:
    """Whatever is written, an untyped mention is a file inside the known places, or nothing."""
    found = places.resolver.resolve(f"@{mention}")
    inside = (places.project, places.home.path, places.user_home, places.bundle)
    assert found is None or any(found.resolve().is_relative_to(place) for place in inside)
