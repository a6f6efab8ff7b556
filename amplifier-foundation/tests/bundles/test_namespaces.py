"""`namespace:path`, nested bundles and their roots."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.bundles.bundle import BundleCycleError, BundleError, IncludeError
from amplifier_foundation.bundles.shipped import SHIPPED_NAMESPACE

_GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")


@pytest.fixture(autouse=True)
def without_settings_of_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what whoever runs the tests has set: that commits are signed, hooks that refuse them, other protocols."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def _repository(place: Any, name: str, files: dict[str, str]) -> str:
    """Make a git repository of these files and return its address."""
    for path, text in files.items():
        place.write(f"{name}/{path}", text)
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*_GIT, *arguments], cwd=place.folder / name, check=True, stdin=subprocess.DEVNULL)
    return f"git+file://{place.folder / name}@main"


@pytest.mark.parametrize("ending", ["", ".yaml", ".yml", ".md", "/bundle.yaml", "/bundle.md"])
async def test_own_namespace_with_every_file_name(place: Any, ending: str) -> None:
    """`name:path` in a bundle means its own folder; the suffix, or the bundle of a folder, may be left out."""
    place.write("project/bundle.md", "---\nbundle: {name: mine}\nincludes: [{bundle: 'mine:behaviors/x'}]\n---\nHi.")
    if ending:
        place.write(f"project/behaviors/x{ending}", "---\nsession: {found: yes}\n" + "---\n" * ending.endswith(".md"))
        assert (await place.loader().load(".")).session == {"found": True}
    else:
        with pytest.raises(IncludeError, match=r"bundle\.md:3: the include 'mine:behaviors/x'.*no bundle at"):
            await place.loader().load(".")


async def test_as_given_comes_before_suffixes(place: Any) -> None:
    """A path that is a file as it is written is taken as it is."""
    place.write("project/bundle.md", "---\nbundle: {name: mine}\nincludes: ['mine:x.yaml']\n---\n")
    place.write("project/x.yaml", "session: {found: as given}\n")
    place.write("project/x.yaml.yaml", "session: {found: wrong}\n")
    assert (await place.loader().load(".")).session == {"found": "as given"}


async def test_nested_bundle_knows_the_namespace_of_its_root(place: Any) -> None:
    """The root's name is the root's folder and the nested bundle's own name its own, also when it is loaded alone."""
    root = place.write("project/bundle.md", "---\nbundle: {name: root}\n---\n")
    place.write("project/behaviors/x.yaml", "bundle: {name: x}\nincludes: ['root:shared/y', 'x:z']\n")
    place.write("project/shared/y.yaml", "session: {y: 1}\n")
    place.write("project/behaviors/z.yaml", "session: {z: 1}\n")
    bundle = await place.loader().load("./behaviors/x.yaml")
    assert bundle.session == {"y": 1, "z": 1}
    assert bundle.namespaces["root"] == root.parent
    assert bundle.namespaces["x"] == root.parent / "behaviors"
    assert bundle.name == "x"


async def test_nested_root_bundle_in_a_folder(place: Any) -> None:
    """A folder with a bundle of its own below another bundle is nested, and the nearest root counts."""
    place.write("project/bundle.yaml", "bundle: {name: outer}\n")
    place.write("project/sub/bundle.md", "---\nbundle: {name: inner}\nincludes: ['outer:x']\n---\n")
    place.write("project/sub/behaviors/b.yaml", "includes: ['inner:y']\n")
    place.write("project/x.yaml", "session: {x: 1}\n")
    place.write("project/sub/y.yaml", "session: {y: 1}\n")
    assert (await place.loader().load("./sub")).session == {"x": 1}
    assert (await place.loader().load("./sub/behaviors/b")).session == {"y": 1}


async def test_namespace_root_moves_the_namespace(place: Any) -> None:
    """`namespace_root` says where the namespace of a bundle lies."""
    place.write("project/b/bundle.md", "---\nbundle: {name: mine, namespace_root: ../files}\ncontext: {a: a.md}\n---\n")
    place.write("project/files/a.md", "text")
    bundle = await place.loader().load("./b")
    assert bundle.namespaces["mine"] == place.project / "files"
    assert bundle.context == {"mine:a": place.project / "files" / "a.md"}
    assert bundle.warnings == ()


async def test_namespace_of_another_include(place: Any) -> None:
    """An include may use the namespace that a later one brings, at any depth."""
    place.write("project/a.yaml", "includes: ['lib:behaviors/x', ./middle.yaml]\n")
    place.write("project/middle.yaml", "includes: [../lib]\n")
    place.write("lib/bundle.md", "---\nbundle: {name: lib}\nsession: {lib: 1}\n---\n")
    place.write("lib/behaviors/x.yaml", "session: {x: 1}\n")
    bundle = await place.loader().load("./a.yaml")
    assert bundle.session == {"x": 1, "lib": 1}
    assert [layer.bundle for layer in bundle.layers] == ["x", "lib", "middle", "a"]


async def test_namespace_of_a_known_bundle_is_loaded_without_its_includes(place: Any) -> None:
    """A namespace that no include brings is asked of the registry; only the file that is meant takes part."""
    place.write("project/a.yaml", "includes: ['lib:x', 'lib:y']\n")
    place.write("home/bundles/lib/bundle.md", "---\nbundle: {name: lib}\nincludes: [gone]\nsession: {no: 1}\n---\n")
    place.write("home/bundles/lib/x.yaml", "session: {x: 1}\n")
    place.write("home/bundles/lib/y.yaml", "session: {y: 1}\n")
    bundle = await place.loader().load("./a.yaml")
    assert bundle.session == {"x": 1, "y": 1}
    assert bundle.namespaces["lib"] == place.home.bundles / "lib"


async def test_unknown_namespace_is_named(place: Any) -> None:
    """A namespace nobody brings is an error with file, line and the nearest known one."""
    place.write("project/a.yaml", "bundle: {name: a}\nincludes:\n  - amplifer:behaviors/logging\n")
    with pytest.raises(IncludeError, match=r"a\.yaml:3: .*'amplifer'.*did you mean 'amplifier'\?"):
        await place.loader().load("./a.yaml")


async def test_namespace_does_not_lead_out(place: Any) -> None:
    """A link below a namespace that leads out of the source is refused."""
    place.write("secret.yaml", "session: {x: 1}\n")
    place.write("project/bundle.md", "---\nbundle: {name: mine}\nincludes: ['mine:x']\n---\n")
    (place.project / "x.yaml").symlink_to(place.folder / "secret.yaml")
    with pytest.raises(BundleError, match=r"secret\.yaml|lies outside of"):
        await place.loader().load(".")


async def test_the_namespace_of_the_product_cannot_be_taken(place: Any) -> None:
    """`amplifier` means the shipped files everywhere, and a bundle of that name is told that it does not."""
    place.write("project/bundle.md", "---\nbundle: {name: amplifier}\nincludes: ['amplifier:behaviors/logging']\n---\n")
    place.write("project/behaviors/logging.yaml", "session: {wrong: 1}\n")
    bundle = await place.loader().load(".")
    assert bundle.session == {}
    assert [hook["module"] for hook in bundle.hooks] == ["hooks-redaction", "hooks-logging"]
    assert bundle.namespaces["amplifier"] == SHIPPED_NAMESPACE[1]
    assert "two bundles claim the namespace 'amplifier'" in "\n".join(bundle.warnings)


async def test_first_claim_of_a_namespace_wins_and_the_other_is_told(place: Any) -> None:
    """Two bundles of one name keep their own files apart; for others the first one has the name."""
    place.write("project/a.yaml", "includes: [./one, ./two, 'same:z']\n")
    for name in ("one", "two"):
        place.write(f"project/{name}/bundle.md", "---\nbundle: {name: same}\nincludes: ['same:y']\n---\n")
        place.write(f"project/{name}/y.yaml", f"session: {{{name}: 1}}\n")
        place.write(f"project/{name}/z.yaml", f"session: {{z: {name}}}\n")
    bundle = await place.loader().load("./a.yaml")
    assert bundle.session == {"one": 1, "two": 1, "z": "one"}
    assert "two bundles claim the namespace 'same'" in bundle.warnings[0]
    assert "two/bundle.md:2" in bundle.warnings[0]


async def test_git_bundle_with_parts_of_its_own(place: Any) -> None:
    """A fetched bundle includes its own files by namespace and path; they have addresses, and one source is locked."""
    uri = _repository(
        place,
        "repo",
        {
            "bundle.md": "---\nbundle: {name: lib, sub_bundles: []}\nincludes: ['lib:behaviors/x', ./y.yaml]\n---\nHi.",
            "behaviors/x.yaml": "session: {x: 1}\ntools: [{module: t, source: ./modules/t}]\n",
            "y.yaml": "session: {y: 1}\n",
            "modules/t/pyproject.toml": "",
        },
    )
    place.write("project/a.yaml", f"includes: ['{uri}', 'lib:behaviors/x']\n")
    bundle = await place.loader().load("./a.yaml")
    assert bundle.session == {"x": 1, "y": 1}
    assert bundle.instruction == "Hi."
    assert list(bundle.sources) == [uri]
    assert {(layer.bundle, layer.owner, layer.uri) for layer in bundle.layers[:3]} == {
        ("x", "fetched", f"{uri}#subdirectory=behaviors/x.yaml"),
        ("y", "fetched", f"{uri}#subdirectory=y.yaml"),
        ("lib", "fetched", uri),
    }
    assert Path(bundle.tools[0]["source"]).is_relative_to(place.home.cache)
    assert any("sub_bundles" in warning for warning in bundle.warnings)


async def test_part_of_a_source_may_include_its_own_root(place: Any) -> None:
    """A nested bundle asked for with `#subdirectory=` includes the root that includes it: it is taken once."""
    uri = _repository(
        place,
        "repo",
        {
            "bundle.md": "---\nbundle: {name: lib}\nincludes: ['lib:behaviors/x']\nsession: {root: 1}\n---\n",
            "behaviors/x.yaml": f"includes: ['git+file://{place.folder}/repo@main']\nsession: {{x: 1}}\n",
        },
    )
    bundle = await place.loader().load(f"{uri}#subdirectory=behaviors/x.yaml")
    assert bundle.session == {"root": 1, "x": 1}
    assert any("is being composed already, and is not repeated" in warning for warning in bundle.warnings)
    with pytest.raises(BundleCycleError):
        await place.loader().load(uri)


async def test_fetched_bundle_does_not_lead_out(place: Any) -> None:
    """A relative include or context of a fetched bundle stays in its source."""
    place.write("outside.yaml", "session: {}\n")
    up = "../" * 30 + str(place.folder)[1:]
    uri = _repository(place, "repo", {"bundle.yaml": f"includes: ['{up}/outside.yaml']\n"})
    with pytest.raises(BundleError, match="lies outside of"):
        await place.loader().load(uri)
    uri = _repository(place, "other", {"bundle.yaml": f"context: {{key: '{up}/outside.yaml'}}\n"})
    with pytest.raises(BundleError, match=r"bundle\.yaml:1: the context file .* lies outside of"):
        await place.loader().load(uri)
