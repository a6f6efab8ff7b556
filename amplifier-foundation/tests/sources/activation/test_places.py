"""Modules of every layout, in odd places, with the installers that there are."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources import environment as environment_module
from amplifier_foundation.sources import installer as installer_module
from amplifier_foundation.sources.activation import Activator, ModuleActivationError, ModuleFolder, enter
from amplifier_foundation.sources.installer import Installer, find_installer

AddWheel = Callable[..., None]
MakeModule = Callable[..., ModuleFolder]

#: A build backend that needs nothing: it puts one generated package into a wheel.
_BACKEND = textwrap.dedent(
    """
    import pathlib, zipfile

    def build_wheel(folder, config_settings=None, metadata_directory=None):
        pathlib.Path("left-behind").touch()
        name, info = "amplifier_module_tool_made-3.0-py3-none-any.whl", "amplifier_module_tool_made-3.0.dist-info"
        files = {
            "amplifier_module_tool_made/__init__.py": pathlib.Path("template.txt").read_text(encoding="utf-8"),
            f"{info}/METADATA": "Metadata-Version: 2.1\\nName: amplifier-module-tool-made\\nVersion: 3.0\\n"
            "Requires-Dist: leaf-of-tests\\nRequires-Dist: amplifier-core\\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        }
        files[f"{info}/RECORD"] = "".join(f"{file},,\\n" for file in (*files, f"{info}/RECORD"))
        with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
            for file, content in files.items():
                wheel.writestr(file, content)
        return name
    """
)


@pytest.fixture
def built(tmp_path: Path) -> ModuleFolder:
    """Return a module whose code exists only once it was built."""
    folder = tmp_path / "modules" / "tool-made"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "amplifier-module-tool-made"\ndynamic = ["version", "dependencies"]\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        encoding="utf-8",
    )
    (folder / "backend.py").write_text(_BACKEND, encoding="utf-8")
    (folder / "template.txt").write_text("MADE = 1\n", encoding="utf-8")
    return ModuleFolder("tool-made", folder)


@pytest.mark.parametrize("kind", ["uv", "pip"])
async def test_a_module_that_must_be_built_is_installed_whole(
    home: Home, environ: dict[str, str], add_wheel: AddWheel, built: ModuleFolder, kind: str, pip: Installer
) -> None:
    """Generated code is loaded from the folder it was installed in, and the module's own folder stays untouched."""
    add_wheel("leaf-of-tests", "1.0")
    add_wheel("amplifier-core", "99.0")
    before = sorted(path.name for path in built.path.iterdir())
    activator = Activator(home, environ=environ, installer=pip if kind == "pip" else None)
    activated = await activator.activate([built])
    [site] = activated.site_folders
    assert activated.paths == {"tool-made": site}
    assert (site / "amplifier_module_tool_made" / "__init__.py").read_text(encoding="utf-8") == "MADE = 1\n"
    assert (site / "leaf_of_tests").is_dir()
    assert not (site / "amplifier_core").exists()
    assert sorted(path.name for path in built.path.iterdir()) == before


async def test_an_edit_of_a_built_module_is_built_anew(
    activator: Activator, add_wheel: AddWheel, built: ModuleFolder
) -> None:
    """The code of a module that is built decides with its project file whether the last build will do."""
    add_wheel("leaf-of-tests", "1.0")
    await activator.activate([built])
    (built.path / "template.txt").write_text("MADE = 2\n", encoding="utf-8")
    activated = await activator.activate([built])
    made = activated.paths["tool-made"] / "amplifier_module_tool_made" / "__init__.py"
    assert made.read_text(encoding="utf-8") == "MADE = 2\n"


async def test_pip_installs_what_is_missing_and_leaves_the_rest(
    home: Home, environ: dict[str, str], add_wheel: AddWheel, make_module: MakeModule, pip: Installer
) -> None:
    """Without uv, pip gets to the same result: all that is missing, nothing that the program has."""
    add_wheel("leaf-of-tests", "1.0", ["root-of-tests", "amplifier-core>=1", "pyyaml"])
    add_wheel("root-of-tests", "1.0", ["twig-of-tests<2"])
    add_wheel("twig-of-tests", "1.0")
    add_wheel("twig-of-tests", "2.0")
    add_wheel("amplifier-core", "99.0")
    activated = await Activator(home, environ=environ, installer=pip).activate(
        [make_module("tool-leafy", ["leaf-of-tests"])]
    )
    [site] = activated.site_folders
    assert sorted(path.name for path in site.glob("*.dist-info")) == [
        "amplifier_module_tool_leafy-1.2.3.dist-info",
        "leaf_of_tests-1.0.dist-info",
        "root_of_tests-1.0.dist-info",
        "twig_of_tests-1.0.dist-info",
    ]


async def test_pip_takes_back_a_version_that_turns_out_wrong(
    home: Home, environ: dict[str, str], add_wheel: AddWheel, make_module: MakeModule, pip: Installer
) -> None:
    """A requirement that only shows once something is installed still counts for what is there already."""
    add_wheel("leaf-of-tests", "1.0", ["twig-of-tests<2"])
    add_wheel("twig-of-tests", "1.0")
    add_wheel("twig-of-tests", "2.0")
    activated = await Activator(home, environ=environ, installer=pip).activate(
        [make_module("tool-leafy", ["leaf-of-tests", "twig-of-tests"])]
    )
    [site] = activated.site_folders
    assert [path.name for path in site.glob("twig*.dist-info")] == ["twig_of_tests-1.0.dist-info"]


async def test_pip_conflict_with_the_environment_names_both(
    home: Home, environ: dict[str, str], add_wheel: AddWheel, make_module: MakeModule, pip: Installer
) -> None:
    """With pip, too, a dependency that the program has in another version is a failure, not a replacement."""
    add_wheel("leaf-of-tests", "1.0", ["amplifier-core>=99"])
    add_wheel("amplifier-core", "99.0")
    with pytest.raises(ModuleActivationError, match=r"needs amplifier-core>=99, but amplifier-core \S+ is there"):
        await Activator(home, environ=environ, installer=pip).activate([make_module("tool-x", ["leaf-of-tests"])])


async def test_a_uv_that_cannot_exclude_is_used_in_rounds(
    home: Home, environ: dict[str, str], add_wheel: AddWheel, make_module: MakeModule, tmp_path: Path
) -> None:
    """An older uv installs the same as a new one."""
    add_wheel("leaf-of-tests", "1.0", ["root-of-tests", "amplifier-core>=1"])
    add_wheel("root-of-tests", "1.0")
    real = find_installer(sys.executable, environ, home.cache / "uv")
    assert real.kind == "uv"
    older = tmp_path / "older-uv"
    older.write_text(
        '#!/bin/sh\ncase "$*" in *--excludes*) echo "error: unexpected argument \'--excludes\' found"; exit 2;; esac\n'
        f'exec "{real.command[0]}" "$@"\n',
        encoding="utf-8",
    )
    older.chmod(0o755)
    installer = replace(real, command=(str(older), "pip"))
    activated = await Activator(home, environ=environ, installer=installer).activate(
        [make_module("tool-leafy", ["leaf-of-tests"])]
    )
    assert sorted(path.name for path in activated.site_folders[0].glob("*of_tests")) == [
        "leaf_of_tests",
        "root_of_tests",
    ]


def test_uv_is_taken_from_the_path_and_pip_when_there_is_none(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the package, uv is looked for on the path; without any uv, the interpreter's own pip is used."""
    monkeypatch.setitem(sys.modules, "uv", None)
    (tmp_path / "uv").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "uv").chmod(0o755)
    found = find_installer("python", {"PATH": str(tmp_path)}, home.cache)
    assert (found.kind, found.command) == ("uv", (str(tmp_path / "uv"), "pip"))
    (tmp_path / "uv").unlink()
    found = find_installer("python", {"PATH": str(tmp_path)}, home.cache)
    assert (found.kind, found.command[0]) == ("pip", "python")


async def test_no_installer_at_all_says_what_to_install(
    home: Home, environ: dict[str, str], make_module: MakeModule, tmp_path: Path
) -> None:
    """An interpreter without pip, on a machine without uv, gets advice instead of a trace."""
    bare = (sys.executable, "-S", "-E", "-P", "-m", "pip")  # without site-packages there is no pip
    installer = Installer("pip", bare, sys.executable, environ, home.cache)
    with pytest.raises(ModuleActivationError, match="neither uv nor pip"):
        await Activator(home, environ=environ, installer=installer).activate([make_module("tool-x", ["leaf-of-tests"])])


async def test_credentials_of_addresses_are_not_repeated(
    home: Home, environ: dict[str, str], make_module: MakeModule, script: Callable[[str], Installer]
) -> None:
    """What an installer says about an index with a password in its address is shown without the password."""
    installer = script("print('error: https://me:hunter2@index.invalid/simple failed')\nsys.exit(1)")
    with pytest.raises(ModuleActivationError) as caught:
        await Activator(home, environ=environ, installer=installer).activate([make_module("tool-x", ["leaf-of-tests"])])
    assert "https://index.invalid/simple failed" in str(caught.value)
    assert "hunter2" not in str(caught.value)


async def test_src_layout_is_loaded_from_src(activator: Activator, make_module: MakeModule) -> None:
    """The packages of a module with a `src` folder are found there."""
    module = make_module("tool-src", layout="src")
    assert (await activator.activate([module])).paths == {"tool-src": module.path / "src"}


@pytest.mark.parametrize("transport", ["rust", "wasm", "grpc"])
async def test_modules_that_are_not_python_are_left_as_they_are(
    home: Home, environ: dict[str, str], make_module: MakeModule, transport: str
) -> None:
    """A module with another transport has nothing for us to install."""
    module = make_module("tool-other", ["nowhere-of-tests"])
    (module.path / "amplifier.toml").write_text(f'[module]\ntransport = "{transport}"\n', encoding="utf-8")
    activated = await Activator(home, environ=environ).activate([module])
    assert (activated.paths, activated.site_folders) == ({"tool-other": module.path}, [])


async def test_packages_of_bundles_can_be_imported_and_get_what_they_need(
    activator: Activator, add_wheel: AddWheel, tmp_path: Path
) -> None:
    """A bundle's own package is put on the path by its `src`, with its dependencies."""
    add_wheel("leaf-of-tests", "1.0")
    root = tmp_path / "bundle with ünicode"
    (root / "src" / "helper_of_tests").mkdir(parents=True)
    (root / "src" / "helper_of_tests" / "__init__.py").write_text("import leaf_of_tests\n", encoding="utf-8")
    (root / "pyproject.toml").write_text(
        '[project]\nname = "helper"\nversion = "1"\ndependencies = ["leaf-of-tests"]\n', encoding="utf-8"
    )
    activated = await activator.activate([], [root])
    assert activated.package_paths == [root / "src"]
    enter(activated)
    assert importlib.import_module("helper_of_tests").leaf_of_tests.VERSION == "1.0"


async def test_requirements_txt_counts_without_a_project_file(
    activator: Activator, add_wheel: AddWheel, make_module: MakeModule
) -> None:
    """A module described by requirements.txt alone gets what it lists; a BOM, CRLF and comments do not matter."""
    add_wheel("leaf-of-tests", "1.0")
    module = make_module("tool-plain")
    (module.path / "pyproject.toml").unlink()
    (module.path / "requirements.txt").write_bytes("\ufeff# needed\r\nleaf-of-tests>=1 # why\r\n".encode())
    [site] = (await activator.activate([module])).site_folders
    assert (site / "leaf_of_tests").is_dir()


async def test_a_home_that_cannot_be_written_is_enough_for_modules_that_need_nothing(
    tmp_path: Path, environ: dict[str, str], make_module: MakeModule
) -> None:
    """Only what must be installed needs a place: other modules are ready, and a warning says what is missing."""
    (tmp_path / "home").write_text("a file where the home should be", encoding="utf-8")
    activator = Activator(Home(tmp_path / "home"), environ=environ)
    activated = await activator.activate([make_module("tool-light", ["amplifier-core"])])
    assert list(activated.paths) == ["tool-light"]
    assert activated.site_folders == []
    assert "tool-light: its version is not known to Python" in activated.warnings[0]
    with pytest.raises(ModuleActivationError, match="tool-heavy: "):
        await activator.activate([make_module("tool-heavy", ["leaf-of-tests"])])


async def test_what_the_environment_lost_is_installed(
    home: Home, environ: dict[str, str], add_wheel: AddWheel, make_module: MakeModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation that relied on something of the environment is made anew when that is gone."""
    add_wheel("leaf-of-tests", "1.0", ["pyyaml"])
    add_wheel("pyyaml", "1.0")
    module = make_module("tool-leafy", ["leaf-of-tests"])
    [site] = (await Activator(home, environ=environ).activate([module])).site_folders
    assert not (site / "pyyaml").exists()
    real = importlib.metadata.distributions

    def without(**options: Any) -> list[importlib.metadata.Distribution]:
        return [
            found
            for found in real(**options)
            if found.metadata["Name"].lower() != "pyyaml" or str(home.path) in str(found.locate_file(""))
        ]

    monkeypatch.setattr(importlib.metadata, "distributions", without)
    assert environment_module.Environment(home.cache).version("pyyaml") is None
    assert (await Activator(home, environ=environ).activate([module])).site_folders == [site]
    assert (site / "pyyaml").is_dir()


def test_uv_gets_a_cache_of_its_own_where_there_is_no_home(home: Home, tmp_path: Path) -> None:
    """Without a home, or with one that is none, uv keeps its downloads in our cache instead of failing."""
    (tmp_path / "file").touch()
    for environ in ({}, {"HOME": str(tmp_path / "file")}):
        installer = Installer("uv", ("uv",), "python", environ, home.cache / "uv")
        assert installer._environ()["UV_CACHE_DIR"] == str(home.cache / "uv")
    kept = installer_module.Installer("uv", ("uv",), "python", {"HOME": str(tmp_path)}, home.cache / "uv")
    assert "UV_CACHE_DIR" not in kept._environ()
