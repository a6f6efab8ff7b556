"""How bundles are named."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.bundles.bundle import BundleError
from amplifier_foundation.bundles.references import existing_file, overridden, parse_reference


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (".", "path"),
        ("./x", "path"),
        ("../x y/ü.md", "path"),
        ("/abs", "path"),
        ("~/x", "path"),
        ("git+https://host/x@main#subdirectory=a", "uri"),
        ("file:///p", "uri"),
        ("zip+file:///p.zip", "uri"),
        ("ns:path/to.yaml", "namespaced"),
        ("my-ns.2:a", "namespaced"),
        ("name", "name"),
        ("name/sub/path", "name"),
        ("  name  ", "name"),
    ],
)
def test_kinds(text: str, kind: str) -> None:
    """The first characters of a reference say what it is."""
    assert parse_reference(text).kind == kind


@pytest.mark.parametrize(
    "text", ["", "a b", "ns:", ":x", "ns:/abs", "ns:../x", "ns:a/../b", "C:\\x", "a\\b", "a/../b", "a//"]
)
def test_nonsense_is_refused(text: str) -> None:
    """What can mean nothing, or leads out of a namespace, is refused with the forms there are."""
    with pytest.raises(BundleError, match="is not a reference"):
        parse_reference(text)


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """No text breaks the parser, and no namespaced path leads out."""
    try:
        reference = parse_reference(text)
    except BundleError:
        return
    assert ".." not in reference.path.split("/")
    assert reference.text == text.strip()


def test_folder_before_suffix(tmp_path: Path) -> None:
    """A folder with a bundle is meant as it is given; one without is passed over for the file beside it."""
    (tmp_path / "x").mkdir()
    assert existing_file(tmp_path / "x") is None
    (tmp_path / "x.md").write_text("")
    assert existing_file(tmp_path / "x") == tmp_path / "x.md"
    (tmp_path / "x.yaml").write_text("")
    assert existing_file(tmp_path / "x") == tmp_path / "x.yaml"
    (tmp_path / "x" / "bundle.yaml").write_text("")
    assert existing_file(tmp_path / "x") == tmp_path / "x" / "bundle.yaml"
    assert existing_file(tmp_path / "v1.2") is None


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("name", "/p"),
        ("git+https://h/x@main", "git+https://fork/x@dev"),
        ("git+https://h/x@main#subdirectory=a/b", "git+https://fork/x@dev#subdirectory=a/b"),
        ("git+https://h/y@main#subdirectory=a/b", "file:///p#subdirectory=a/b"),
        ("git+https://h/z@main#subdirectory=a", "zip+file:///z.zip#subdirectory=other"),
        ("git+https://h/x", None),
        ("git+https://h/x@main2", None),
        ("names", None),
        ("nam", None),
        ("", None),
    ],
)
def test_overrides_are_exact(text: str, result: str | None) -> None:
    """LESSON: a whole name or address is replaced, never a part; the fragment stays unless the other has one."""
    overrides = {
        "name": "/p",
        "git+https://h/x@main": "git+https://fork/x@dev",
        "git+https://h/y@main": "/p",
        "git+https://h/z@main": "zip+file:///z.zip#subdirectory=other",
    }
    assert overridden(text, overrides) == result
