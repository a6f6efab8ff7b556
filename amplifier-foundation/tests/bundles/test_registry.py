"""Names of bundles."""

import json
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.bundles.registry import BundleRegistry
from amplifier_foundation.paths import Home


def _registry_file(place: Any, bundles: dict[str, Any], **more: Any) -> Path:
    file: Path = place.write("home/registry.json", json.dumps({"version": 1, "bundles": bundles, **more}))
    return file


def test_order_of_discovery(place: Any) -> None:
    """The project's bundles come first, then the user's, the settings', the registry's and the product's."""
    found = place.registry().find("default")
    assert (found.origin, found.named_by) == ("product", "product")
    _registry_file(place, {"default": {"uri": "file:///registry"}})
    found = place.registry().find("default")
    assert (found.origin, found.named_by, found.reference) == ("registry", "user", "file:///registry")
    assert place.registry({"default": "/settings"}).find("default").reference == "/settings"
    place.write("home/bundles/default.md", "")
    found = place.registry({"default": "/settings"}).find("default")
    assert (found.origin, found.named_by, found.reference) == ("user", "user", f"{place.home.bundles}/default.md")
    place.write("project/.amplifier/bundles/default/bundle.yaml", "")
    found = place.registry({"default": "/settings"}).find("default")
    assert (found.origin, found.named_by) == ("project", "project")


def test_order_in_a_folder(place: Any) -> None:
    """In a folder the bundle of a subfolder comes before a file, Markdown before YAML in the former only."""
    for ending in (".md", ".yaml", "/bundle.yaml", "/bundle.md"):
        file = place.write(f"home/bundles/x{ending}", "")
        assert place.registry().find("x").reference == str(file)
    assert place.registry().find("x/bundle") is not None
    assert place.registry().find("X") is None


def test_nested_names(place: Any) -> None:
    """`name/sub/path` is looked for below the folders of bundles."""
    file = place.write("home/bundles/lib/behaviors/x.yaml", "")
    assert place.registry().find("lib/behaviors/x").reference == str(file)


def test_names_are_exact(place: Any) -> None:
    """LESSON: a part of a name finds nothing."""
    registry = place.registry({"team-extra": "/x"})
    assert registry.find("team") is None
    assert registry.find("team-extra").reference == "/x"
    assert registry.find("defaul") is None


def test_published_bundles_are_known_by_name(place: Any) -> None:
    """A well-known name means the published repository, unless anybody else has that name; the list leaves them out."""
    registry = place.registry()
    recipes = registry.find("recipes")
    assert (recipes.origin, recipes.named_by) == ("published", "product")
    assert recipes.reference.endswith("/amplifier-bundle-recipes@main")
    assert registry.find("anchors-amp-dev").reference.endswith(
        "/amplifier-foundation@main#subdirectory=bundles/anchors-amp-dev/bundle.md"
    )
    assert all(known.origin != "published" for known in registry.list())
    assert place.registry({"recipes": "/mine"}).find("recipes").reference == "/mine"


def test_word_of_a_projects_settings(place: Any) -> None:
    """A name that the project's settings add is the project's word."""
    registry = place.registry({"a": "/a", "b": "/b"}, added_by={"b": "project"})
    assert [registry.find(name).named_by for name in "ab"] == ["user", "project"]


def test_list_has_each_name_once(place: Any) -> None:
    """The list has every name with what it stands for, the first in the order of discovery."""
    place.write("project/.amplifier/bundles/mine.yaml", "")
    place.write("home/bundles/mine.md", "")
    place.write("home/bundles/notes.txt", "")
    place.write("home/bundles/.hidden.yaml", "")
    place.write("home/bundles/yours/bundle.md", "")
    listed = {known.name: known.origin for known in place.registry({"added": "/x", "mine": "/y"}).list()}
    assert listed == {
        "added": "settings",
        "default": "product",
        "anchors": "product",
        "demo": "product",
        "foundation": "product",
        "minimal": "product",
        "mine": "project",
        "parallax": "product",
        "yours": "user",
    }


def test_project_that_is_the_home_directory(tmp_path: Path) -> None:
    """In the home directory itself `.amplifier/bundles` is the user's, not a project's."""
    home = Home(tmp_path / ".amplifier")
    home.bundles.mkdir(parents=True)
    (home.bundles / "x.yaml").write_text("")
    found = BundleRegistry(home, tmp_path).find("x")
    assert found is not None
    assert found.named_by == "user"


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"bundles": []}', b"\xff\xfe", b"[" * 100_000])
def test_unreadable_registry_is_told_and_not_fatal(place: Any, content: bytes) -> None:
    """A registry that cannot be understood is a warning, once, and stays as it is."""
    place.home.path.mkdir()
    place.home.registry.write_bytes(content)
    registry = place.registry()
    assert registry.find("nobody") is None
    assert registry.find("default") is not None
    assert len(registry.warnings) == 1
    assert str(place.home.registry) in registry.warnings[0]
    assert place.home.registry.read_bytes() == content
