"""Modules of every layout, in odd places, with the installers that there are."""

from __future__ import annotations

import importlib
import importlib.metadata
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.activation import Activator, ModuleActivationError, ModuleFolder, enter
from amplifier_foundation.sources.install import Installer
from amplifier_foundation.sources.requirements import Environment

AddWheel = Callable[..., None]
MakeModule = Callable[..., ModuleFolder]
Command = tuple[str, ...]

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


async def test_a_module_that_must_be_built_is_installed_whole(
    home: Home, environ: dict[str, str], add_wheel: AddWheel, built: ModuleFolder
) -> None:
    """Generated code is loaded from the folder it was installed in, and the module's own folder stays untouched."""
    add_wheel("leaf-of-tests", "1.0")
    add_wheel("amplifier-core", "99.0")
    before = sorted(path.name for path in built.path.iterdir())
    activator = Activator(home, environ=environ)
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


async def test_credentials_of_addresses_are_not_repeated(
    home: Home, environ: dict[str, str], make_module: MakeModule, script: Callable[[str], Command]
) -> None:
    """What an installer says about an index with a password in its address is shown without the password."""
    installer = script("print('error: https://me:hunter2@index.invalid/simple failed')\nsys.exit(1)")
    with pytest.raises(ModuleActivationError) as caught:
        await Activator(home, environ=environ, command=installer).activate([make_module("tool-x", ["leaf-of-tests"])])
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
    site = (await activator.activate([module])).site_folders[-1]
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
    assert "tool-light: the version is not known to Python" in activated.warnings[0]
    with pytest.raises(ModuleActivationError, match="tool-heavy: "):
        await activator.activate([make_module("tool-heavy", ["leaf-of-tests"])])


async def test_what_the_environment_lost_is_installed(
    home: Home, environ: dict[str, str], add_wheel: AddWheel, make_module: MakeModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation that relied on something of the environment is made anew when that is gone."""
    add_wheel("leaf-of-tests", "1.0", ["pyyaml"])
    add_wheel("pyyaml", "1.0")
    module = make_module("tool-leafy", ["leaf-of-tests"])
    site = (await Activator(home, environ=environ).activate([module])).site_folders[-1]
    assert not (site / "pyyaml").exists()
    real = importlib.metadata.distributions

    def without(**options: Any) -> list[importlib.metadata.Distribution]:
        return [
            found
            for found in real(**options)
            if found.metadata["Name"].lower() != "pyyaml" or str(home.path) in str(found.locate_file(""))
        ]

    monkeypatch.setattr(importlib.metadata, "distributions", without)
    assert Environment(home.cache).version("pyyaml") is None
    assert (await Activator(home, environ=environ).activate([module])).site_folders[-1] == site
    assert (site / "pyyaml").is_dir()


def test_uv_uses_our_cache_where_the_home_cannot_be_written(home: Home, tmp_path: Path) -> None:
    """Without a home, or with a file in its place, uv keeps its downloads in our cache instead of failing."""
    (tmp_path / "file").touch()
    for environ in ({}, {"HOME": str(tmp_path / "file")}):
        assert Installer("python", environ, home.cache / "uv")._environ()["UV_CACHE_DIR"] == str(home.cache / "uv")
    assert "UV_CACHE_DIR" not in Installer("python", {"HOME": str(tmp_path)}, home.cache / "uv")._environ()


def test_the_index_of_pip_is_used_when_uv_has_none(home: Home) -> None:
    """Users who have set up pip alone get their packages from the same index; an index set for uv wins."""
    pip = {"PIP_INDEX_URL": "https://packages.invalid/simple"}
    assert Installer("python", pip, home.cache)._environ()["UV_DEFAULT_INDEX"] == "https://packages.invalid/simple"
    both = {**pip, "UV_DEFAULT_INDEX": "https://uv.invalid/simple"}
    assert Installer("python", both, home.cache)._environ()["UV_DEFAULT_INDEX"] == "https://uv.invalid/simple"
