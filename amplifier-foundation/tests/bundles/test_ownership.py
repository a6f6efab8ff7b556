"""Whose files they are, and on whose word they are read."""

import os
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.bundles import BundleError
from amplifier_foundation.bundles.bundle import Bundle

_BAD = "bogus: 1\n"


def _words(bundle: Bundle) -> dict[str, tuple[str, str, bool]]:
    return {layer.bundle: (layer.owner, layer.named_by, layer.given_by_user) for layer in bundle.layers}


async def test_a_file_given_by_the_user(place: Any) -> None:
    """Only the very file the user gave is the user's word; what a project's file includes is the project's."""
    place.write("project/a.yaml", "includes: [./b.yaml, ../lib/c.yaml, 'amplifier:behaviors/logging']\n")
    place.write("project/b.yaml", "")
    place.write("lib/c.yaml", "includes: [./d.yaml]\n")
    place.write("lib/d.yaml", "")
    bundle = await place.loader().load("./a.yaml", given_by_user=True)
    assert _words(bundle) == {
        "a": ("project", "user", True),
        "b": ("project", "project", False),
        "c": ("user", "project", False),
        "d": ("user", "project", False),
        "logging": ("product", "project", False),
    }


async def test_files_of_user_and_product(place: Any) -> None:
    """What the user names outside of the project is the user's word, down to what it includes."""
    place.write("home/bundles/mine.yaml", "includes: ['amplifier:behaviors/logging', ../../elsewhere/x.yaml]\n")
    place.write("elsewhere/x.yaml", "")
    assert _words(await place.loader().load("mine")) == {
        "logging": ("product", "user", False),
        "x": ("user", "user", False),
        "mine": ("user", "user", False),
    }


async def test_default_bundle_named_by_the_product(place: Any) -> None:
    """A shipped bundle that nobody asked for is the product's word; one of the project's in its place is not."""
    assert set(_words(await place.loader().load("default", named_by="product")).values()) == {
        ("product", "product", False)
    }
    place.write("project/.amplifier/bundles/default.md", "Mine.")
    bundle = await place.loader().load("default", named_by="product")
    assert _words(bundle) == {"default": ("project", "project", False)}


async def test_bundle_that_the_projects_settings_name(place: Any) -> None:
    """What the project's settings make active, add or override is the project's word."""
    place.write("elsewhere/x.yaml", "")
    path = str(place.folder / "elsewhere" / "x.yaml")
    loader = place.loader({"added": path}, overrides={"over": path}, overridden_by={"over": "project"})
    assert _words(await loader.load(path, named_by="project"))["x"][:2] == ("user", "project")
    assert _words(await loader.load("added"))["x"][:2] == ("user", "user")
    assert _words(await loader.load("over"))["x"][:2] == ("user", "project")


async def test_a_name_the_project_gives_its_meaning_is_not_given_by_the_user(place: Any) -> None:
    """The user who names a bundle trusts a path or an own name, not a file that the project put behind the name."""
    place.write("home/bundles/mine.yaml", "")
    assert _words(await place.loader().load("mine", given_by_user=True)) == {"mine": ("user", "user", True)}
    place.write("project/.amplifier/bundles/mine.yaml", "")
    assert _words(await place.loader().load("mine", given_by_user=True)) == {"mine": ("project", "project", False)}
    path = str(place.home.bundles / "mine.yaml")
    loader = place.loader({"added": path}, overrides={"over": path}, overridden_by={"over": "project"})
    assert _words(await loader.load("added", given_by_user=True))["mine"][2]
    assert not _words(await loader.load("over", given_by_user=True))["mine"][2]


async def test_shared_file_keeps_both_words(place: Any) -> None:
    """A file that user and project both name takes part once for each, with the word of each."""
    place.write("elsewhere/top.yaml", "includes: [./shared.yaml, ../project/p.yaml]\n")
    place.write("elsewhere/shared.yaml", "")
    place.write("project/p.yaml", "includes: [../elsewhere/shared.yaml]\n")
    bundle = await place.loader().load(str(place.folder / "elsewhere" / "top.yaml"))
    words = [(layer.bundle, layer.named_by) for layer in bundle.layers]
    assert words == [("shared", "user"), ("shared", "project"), ("p", "user"), ("top", "user")]


async def test_home_inside_the_project_is_the_users(tmp_path: Path, make_place: Any) -> None:
    """The home is the user's wherever it lies, and its cache holds fetched files."""
    place = make_place(tmp_path)
    place.home = type(place.home)(place.project / "home")
    place.write("project/home/bundles/mine.yaml", "includes: [../cache/lib/x.yaml]\n")
    place.write("project/home/cache/lib/x.yaml", _BAD)
    bundle = await place.loader().load("mine")
    assert _words(bundle) == {"mine": ("user", "user", False), "x": ("fetched", "user", False)}
    assert "unknown key 'bogus'" in bundle.warnings[0]


async def test_link_into_the_project_is_the_projects(place: Any) -> None:
    """Links are followed to tell whose a file is."""
    place.write("project/x.yaml", "")
    (place.folder / "link.yaml").symlink_to(place.project / "x.yaml")
    bundle = await place.loader().load(str(place.folder / "link.yaml"))
    assert bundle.layers[0].owner == "project"


@pytest.mark.parametrize("path", ["project/x.yaml", "home/bundles/x.yaml", "elsewhere/x.yaml"])
async def test_authored_files_are_strict(place: Any, path: str) -> None:
    """Mistyped keys are errors in files of the project and the user; keys of nobody are warnings."""
    file = place.write(path, "tols: []\n")
    with pytest.raises(BundleError, match=rf"{file}:1: unknown key 'tols': did you mean 'tools'"):
        await place.loader().load(str(file))
    file = place.write(path, _BAD)
    assert f"{file}:1: unknown key 'bogus'" in (await place.loader().load(str(file))).warnings[0]


async def test_context_of_a_project_stays_in_it(place: Any) -> None:
    """A project's bundle cannot put files from elsewhere into the prompt; the user's own can."""
    place.write("secret.txt", "s3cret")
    text = f"context:\n  key: {place.folder}/secret.txt\n"
    place.write("project/b.yaml", text)
    with pytest.raises(BundleError, match=r"b\.yaml:2: the context file .* lies outside of"):
        await place.loader().load("./b.yaml")
    place.write("project/c.yaml", "context: {key: link.txt}\n")
    os.symlink(place.folder / "secret.txt", place.project / "link.txt")
    with pytest.raises(BundleError, match=r"c\.yaml:1: the context file 'link\.txt' lies outside of"):
        await place.loader().load("./c.yaml")
    place.write("elsewhere/b.yaml", text)
    bundle = await place.loader().load(str(place.folder / "elsewhere" / "b.yaml"))
    assert bundle.context == {"b:key": place.folder / "secret.txt"}
