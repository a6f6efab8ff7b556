"""The files that a text mentions, and the files that these mention."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.prompt.access import TYPED
from amplifier_foundation.prompt.context_files import MAX_FILES
from amplifier_foundation.prompt.mention_files import MentionDeduplicator, load_mentions


def shown(found: Any) -> list[str]:
    return [block.file.text for block in found.blocks]


def test_mentions_are_followed_breadth_first(places: Any, write: Any) -> None:
    """What the text mentions comes first, then what those files mention, each in order."""
    write("a.md", "A @c.md")
    write("b.md", "B @a.md @d.md")
    write("c.md", "C")
    write("d.md", "D")
    found = load_mentions("See @a.md and @b.md.", places.access)
    assert shown(found) == ["A @c.md", "B @a.md @d.md", "C", "D"]
    assert found.failed == {}
    assert [resolution.mention for resolution in found.resolutions] == ["@a.md", "@b.md", "@c.md", "@d.md"]


def test_files_that_mention_each_other_end(places: Any, write: Any) -> None:
    """A circle is gone round once."""
    write("a.md", "A @b.md @a.md")
    write("b.md", "B @a.md")
    assert shown(load_mentions("@a.md", places.access)) == ["A @b.md @a.md", "B @a.md"]


def test_depth_is_bounded_and_said(places: Any, write: Any) -> None:
    """Files three deep are shown; what they mention is not, with the reason."""
    for number in range(1, 5):
        write(f"{number}.md", f"@{number + 1}.md")
    found = load_mentions("@1.md", places.access)
    assert shown(found) == ["@2.md", "@3.md", "@4.md"]
    assert found.failed == {"@4.md": "not followed: more than 3 files deep"}


def test_a_file_that_is_shown_is_no_failure_further_down(places: Any, write: Any) -> None:
    """A mention at the greatest depth of a file that is there anyway is not reported."""
    write("a.md", "A @sub/b.md")
    write("sub/b.md", "B @a.md")
    found = load_mentions("@a.md", places.access, 1)
    assert found.failed == {"@sub/b.md": "not followed: more than 1 files deep"}
    assert load_mentions("@a.md", places.access, 2).failed == {}


def test_the_same_content_is_credited_to_all_its_paths(places: Any, write: Any) -> None:
    """Copies are shown once; the count of what was saved is told."""
    first, second = write("a.md", "same"), write("b.md", "same")
    found = load_mentions("@a.md @b.md", places.access)
    assert found.blocks.render() == (f'<context_file paths="@a.md → {first}, @b.md → {second}">\nsame\n</context_file>')
    assert found.deduplicated_count == 1


def test_only_so_many_files_are_shown(places: Any, write: Any) -> None:
    """The files beyond the bound are left out, and both the text and the failures say so."""
    names = [f"f{number}.md" for number in range(MAX_FILES + 3)]
    for name in names:
        write(name, name)
    found = load_mentions(" ".join(f"@{name}" for name in [*names, "./f0.md"]), places.access)
    assert len(found.blocks) == MAX_FILES
    assert next(iter(found.blocks)).credits[1].startswith("@./f0.md → ")  # what is in may still be named again
    assert list(found.failed) == [f"@{name}" for name in names[MAX_FILES:]]
    assert found.blocks.render().endswith(f"[3 more left out: a prompt takes {MAX_FILES} files]")


def test_only_so_many_mentions_are_followed(places: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of nothing but mentions does not keep the disk busy."""
    monkeypatch.setattr("amplifier_foundation.prompt.mention_files.MAX_MENTIONS", 2)
    found = load_mentions("@a @b @c @d", places.access)
    assert list(found.failed) == ["@a", "@b", "@c"]
    assert found.failed["@c"] == "not followed, nor what comes after it: over 2 mentions"


def test_what_cannot_be_shown_has_a_reason(places: Any, write: Any) -> None:
    """Missing, binary and foreign files are left out; the others are shown all the same."""
    write("bad.md", "a\0b")
    write("good.md", "good")
    found = load_mentions("@bad.md @none.md @good.md @/etc/passwd", places.access)
    assert shown(found) == ["good"]
    assert found.failed == {
        "@bad.md": f"{places.project}/bad.md: a binary file, not text",
        "@none.md": f"there is no such file: {places.project}/none.md",
        "@/etc/passwd": (
            "/etc/passwd is outside of the project and of the folders that the text that mentions it may read: "
            "type its path in a "
            "prompt, or allow it by a rule"
        ),
    }


def test_only_the_text_itself_is_the_users_word(places: Any) -> None:
    """A file that the user named cannot go on to name files elsewhere, neither absolutely nor beside itself."""
    secret = places.outside / "secret.md"
    secret.write_text("secret", encoding="utf-8")
    note = places.outside / "note.md"
    note.write_text(f"note @{secret} @secret.md", encoding="utf-8")
    found = load_mentions(f"@{note}", places.access, origin=TYPED)
    assert [block.file.path for block in found.blocks] == [note]
    assert list(found.failed) == [f"@{secret}", "@secret.md"]


def test_a_folder_is_a_listing(places: Any, write: Any) -> None:
    """A mentioned folder shows what is in it; the names there are not followed."""
    write("docs/@a.md", "A")
    write("a.md", "A")
    assert shown(load_mentions("@docs/", places.access)) == ["FILE @a.md"]


def test_the_deduplicator_remembers_contents_and_paths() -> None:
    """A content is new once, whatever it is called."""
    known = MentionDeduplicator()
    assert known.add_file(Path("/a"), "text")
    assert not known.add_file(Path("/b"), "text")
    assert not known.add_file(Path("/b"), "text")
    sha256 = hashlib.sha256(b"text").hexdigest()
    assert known.get_known_hashes() == {sha256}
    assert known.get_paths(sha256) == [Path("/a"), Path("/b")]
