"""Bundles with includes."""

from typing import Any

import pytest

from amplifier_foundation.bundles import BundleError
from amplifier_foundation.bundles.bundle import BundleCycleError, BundleNotFoundError, IncludeError
from amplifier_foundation.bundles.loader import locate
from amplifier_foundation.sources.fetched import SourceError


async def test_composition_is_first_include_to_last_then_the_file_itself(place: Any) -> None:
    """Each next include lies over the one before, and the including file over all of them."""
    place.write("project/a.yaml", "includes: [./b.yaml, {bundle: ./c.yaml}]\nsession: {x: a}\n")
    place.write("project/b.yaml", "session: {x: b, y: b, z: b}\nhooks: [{module: hooks-b}]\n")
    place.write("project/c.yaml", "session: {x: c, y: c}\nhooks: [{module: hooks-c}, {module: hooks-b}]\n")
    bundle = await place.loader().load("./a.yaml")
    assert bundle.session == {"x": "a", "y": "c", "z": "b"}
    assert [hook["module"] for hook in bundle.hooks] == ["hooks-b", "hooks-c"]
    assert [layer.bundle for layer in bundle.layers] == ["b", "c", "a"]
    assert (bundle.name, bundle.file, bundle.base_path) == ("a", place.project / "a.yaml", place.project)


async def test_relative_include_is_resolved_against_the_declaring_file(place: Any, monkeypatch: Any) -> None:
    """LESSON: the folder the program runs in never decides what a relative include means."""
    place.write("project/deep/behaviors/x.yaml", "includes: [./y.yaml, ../z]\n")
    place.write("project/deep/behaviors/y.yaml", "session: {y: right}\n")
    place.write("project/deep/z.yaml", "session: {z: right}\n")
    place.write("elsewhere/y.yaml", "session: {y: wrong}\n")
    place.write("z.yaml", "session: {z: wrong}\n")
    place.write("project/y.yaml", "session: {y: wrong}\n")
    monkeypatch.chdir(place.folder / "elsewhere")
    bundle = await place.loader().load(str(place.project / "deep" / "behaviors" / "x.yaml"))
    assert bundle.session == {"y": "right", "z": "right"}


async def test_unresolved_include_is_fatal(place: Any) -> None:
    """LESSON: an include that is not there never yields an empty bundle; all are named with file and line."""
    place.write("project/a.yaml", "bundle: {name: a}\nincludes:\n  - ./gone.yaml\n  - bundle: ./b.yaml\n")
    place.write("project/b.yaml", "includes:\n\n\n  - nobody-knows\n")
    with pytest.raises(IncludeError) as caught:
        await place.loader().load("./a.yaml")
    assert caught.value.code == "bundle_include"
    assert f"{place.project}/a.yaml:3: the include './gone.yaml' cannot be used" in str(caught.value)
    assert f"{place.project}/b.yaml:4: the include 'nobody-knows' cannot be used" in str(caught.value)
    assert "there is no bundle named 'nobody-knows'" in str(caught.value)


async def test_a_slip_in_the_name_of_a_file_is_answered_with_what_is_there(place: Any) -> None:
    """A missing path, by namespace or relative, names the nearest file or folder beside it, spelled as it was asked."""
    place.write("project/a.yaml", "includes:\n  - amplifier:behaviors/loging\n  - ./lib/lmap.yaml\n  - ./lib/shelv\n")
    place.write("project/lib/lamp.yaml", "session: {x: 1}\n")
    place.write("project/lib/shelf/bundle.yaml", "session: {x: 1}\n")
    with pytest.raises(IncludeError) as caught:
        await place.loader().load("./a.yaml")
    said = [line.partition("did you mean ")[2] for line in str(caught.value).splitlines()]
    assert said == ["'logging'?", "'lamp.yaml'?", "'shelf'?"]


async def test_missing_includes_can_be_allowed(place: Any) -> None:
    """With `allow_missing` what is missing, or goes in circles, is left out and told."""
    place.write("project/a.yaml", "includes: [./gone.yaml, nowhere:x, ./b.yaml]\nsession: {a: 1}\n")
    place.write("project/b.yaml", "includes: [./a.yaml]\nsession: {b: 1}\ntools: [{module: t, source: ./none}]\n")
    bundle = await place.loader(allow_missing=True).load("./a.yaml")
    assert bundle.session == {"b": 1, "a": 1}
    told = "\n".join(bundle.warnings)
    for part in ("'./gone.yaml' cannot be used", "'nowhere:x' needs the namespace", "include each other", "'./none'"):
        assert part in told


async def test_malformed_include_is_fatal_even_when_missing_ones_are_not(place: Any) -> None:
    """A file that is there but wrong is an error in any case, told with its place and that of the include."""
    place.write("project/a.yaml", "includes: [./b.yaml]\n")
    place.write("project/b.yaml", "session: {}\ntools: {a: [\n")
    with pytest.raises(BundleError) as caught:
        await place.loader(allow_missing=True).load("./a.yaml")
    assert f"{place.project}/a.yaml:1: the include './b.yaml' cannot be used: {place.project}/b.yaml:3:" in str(
        caught.value
    )


async def test_bad_keys_of_an_include_name_its_file_and_line(place: Any) -> None:
    """An unknown key anywhere in the files is an error at that line."""
    place.write("project/a.yaml", "includes: [./b.yaml]\n")
    place.write("project/b.yaml", "session: {}\nproviderz: []\n")
    with pytest.raises(BundleError, match=r"b\.yaml:2: unknown key 'providerz': did you mean 'providers'\?"):
        await place.loader().load("./a.yaml")


async def test_cycle_prints_the_chain(place: Any) -> None:
    """A cycle is an error that names file and line of every include on the way round."""
    place.write("project/start.yaml", "includes: [./a.yaml]\n")
    place.write("project/a.yaml", "includes:\n  - ./b.yaml\n")
    place.write("project/b.yaml", "includes:\n  - ./ok.yaml\n  - bundle: ./a.yaml\n")
    place.write("project/ok.yaml", "session: {}\n")
    with pytest.raises(BundleCycleError) as caught:
        await place.loader().load("./start.yaml")
    assert caught.value.code == "bundle_cycle"
    assert str(caught.value).splitlines() == [
        f"{place.project}/b.yaml:3: bundles include each other without end:",
        f"  {place.project}/a.yaml:2 includes './b.yaml'",
        f"  {place.project}/b.yaml:3 includes './a.yaml'",
        "remove one of these includes",
    ]


async def test_file_that_includes_itself_through_a_link_is_a_cycle(place: Any) -> None:
    """Two names of one file do not hide a cycle."""
    file = place.write("project/a.yaml", "includes: [./alias.yaml]\n")
    (place.project / "alias.yaml").symlink_to(file)
    with pytest.raises(BundleCycleError):
        await place.loader().load("./a.yaml")


async def test_shared_include_takes_part_each_time(place: Any) -> None:
    """In a diamond the shared file is composed with each of those that include it; it is parsed once."""
    place.write("project/top.yaml", "includes: [./left.yaml, ./right.yaml]\n")
    place.write("project/left.yaml", "includes: [./base.yaml]\nsession: {x: left, only: left}\n")
    place.write("project/right.yaml", "includes: [./base.yaml]\nsession: {y: right}\n")
    place.write("project/base.yaml", "session: {x: base, y: base}\ntools: [{module: t, config: {list: [1]}}]\n")
    bundle = await place.loader().load("./top.yaml")
    assert bundle.session == {"x": "base", "y": "right", "only": "left"}
    assert bundle.tools == [{"module": "t", "config": {"list": [1]}}]
    assert [layer.bundle for layer in bundle.layers] == ["base", "left", "base", "right", "top"]
    assert bundle.layers[0] is bundle.layers[2]


async def test_many_diamonds_stay_small(place: Any) -> None:
    """Thirty levels of sharing, a thousand million ways down, end at once and name each file at most twice."""
    for level in range(30):
        below = f"includes: [./l{level + 1}.yaml, ./r{level + 1}.yaml]\n" if level < 29 else ""
        for side in "lr":
            place.write(f"project/{side}{level}.yaml", f"{below}session: {{{side}: {level}}}\n")
    bundle = await place.loader().load("./l0.yaml")
    assert bundle.session == {"l": 0, "r": 1}
    assert len(bundle.layers) <= 120


async def test_includes_nested_too_deep_are_told(place: Any) -> None:
    """A chain without end in sight is refused with its place, not by running out of stack."""
    for level in range(150):
        place.write(f"project/f{level}.yaml", f"includes: [./f{level + 1}.yaml]\n")
    place.write("project/f150.yaml", "")
    with pytest.raises(IncludeError, match=r"f100\.yaml:1: includes are nested more than 100 files deep"):
        await place.loader().load("./f0.yaml")


async def test_faults_of_references_have_their_place(place: Any) -> None:
    """A reference that can mean nothing is an error of the line it stands on."""
    place.write("project/a.yaml", "includes:\n  - 'C:\\\\bundles'\n  - ns:../../etc\n  - a b\n")
    with pytest.raises(BundleError) as caught:
        await place.loader().load("./a.yaml")
    for line, text in ((2, "C:"), (3, "ns:../../etc"), (4, "a b")):
        assert f"a.yaml:{line}: the include " in str(caught.value)
        assert text in str(caught.value)


async def test_names_that_are_files_are_hinted_at(place: Any) -> None:
    """Outside of files a name with a suffix is a path; one without says how to write the path."""
    place.write("project/mine.yaml", "session: {a: 1}\n")
    assert (await place.loader().load("mine.yaml")).session == {"a": 1}
    with pytest.raises(BundleNotFoundError, match=r"no bundle named 'mine': for the file write \./mine"):
        await place.loader().load("mine")


@pytest.mark.parametrize("name", ["gone", "./gone", "./gone.yaml", "/nowhere/gone"])
async def test_bundle_that_is_not_there(place: Any, name: str) -> None:
    """A bundle that cannot be found is told as such."""
    with pytest.raises(BundleNotFoundError) as caught:
        await place.loader().load(name)
    assert caught.value.code == "bundle_not_found"
    assert "gone" in str(caught.value)


async def test_addresses_that_cannot_be_had(place: Any) -> None:
    """An address that fails is the source's error for the bundle itself, and an include error inside."""
    gone = f"file://{place.folder}/gone"
    with pytest.raises(SourceError, match="gone"):
        await place.loader().load(gone)
    place.write("project/a.yaml", f"includes: ['{gone}']\n")
    with pytest.raises(IncludeError, match=r"a\.yaml:1: the include 'file://.*gone"):
        await place.loader().load("./a.yaml")


def test_a_bundle_is_located_as_it_would_be_loaded(place: Any) -> None:
    """Without reading anything, the file and the address of a bundle are those that loading it would use."""
    file = place.write("project/b.yaml", "not: [read")
    git = "git+https://host/x@main"
    registry = place.registry({"name": str(file), "far": git})
    for reference in ("./b.yaml", "b.yaml", "../project/b", str(file), "name", "over"):
        assert locate(reference, registry, place.project, {"over": "./b.yaml"}) == (file, str(file))
    assert locate("far", registry, place.project) == locate(git, registry, place.project) == (None, git)
    assert locate("unknown", registry, place.project) == (None, "unknown")
    assert locate("./gone", registry, place.project) == (None, "./gone")


async def test_overrides_match_whole_names_and_addresses_only(place: Any) -> None:
    """LESSON: exact keys, never a part of an address; what was asked for of the source is kept."""
    place.write("project/a.yaml", "includes: ['git+https://host/org/foo@main#subdirectory=behaviors/x.yaml', lib]\n")
    place.write("project/b.yaml", "includes: ['git+https://host/org/foo-bar@main']\n")
    place.write("dev/behaviors/x.yaml", "session: {x: dev}\n")
    place.write("dev/bundle.md", "---\nbundle: {name: dev}\nsession: {lib: dev}\n---\n")
    dev = str(place.folder / "dev")
    loader = place.loader(overrides={"git+https://host/org/foo@main": dev, "lib": dev, "foo": "/wrong", "": "/wrong"})
    assert (await loader.load("./a.yaml")).session == {"x": "dev", "lib": "dev"}
    with pytest.raises(IncludeError, match="foo-bar"):
        await loader.load("./b.yaml")


@pytest.mark.parametrize("written", ['"./a\\0b"', "./loop", f"./{'x' * 300}"], ids=["null", "loop", "long"])
@pytest.mark.parametrize("key", ["includes: [%s]", "context: {include: [%s]}", "context: {name: %s}"])
async def test_names_that_no_file_can_have(place: Any, written: str, key: str) -> None:
    """A name that the file system cannot even look for is an error with file and line, like one that is missing."""
    place.project.joinpath("loop").symlink_to("loop")
    file = place.write("project/b.yaml", "bundle: {name: b}\n" + key % written)
    with pytest.raises(BundleError) as caught:
        await place.loader().load("./b.yaml")
    assert str(caught.value).startswith(f"{file}:2: the ")
