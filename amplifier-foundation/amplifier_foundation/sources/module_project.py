"""Read how a module's folder describes itself as a Python project: its name, its needs, whether it must be built."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.errors import FoundationError

#: The version of a project that works its version out when it is built.
UNKNOWN_VERSION: Final = "0+unknown"
#: Backends that put Python files into a wheel as they are: such a module runs from its folder.
_COPYING_BACKENDS: Final = re.compile(r"(hatchling|setuptools|flit|flit_core|poetry|pdm|uv_build)(\.|:|$)")
_OTHER_TRANSPORTS: Final = frozenset({"rust", "wasm", "grpc", "native"})
_BUILDS_EXTENSIONS: Final = re.compile(rb"\b(ext_modules|Extension|cffi_modules|rust_extensions|cythonize)\b")


class ModuleProjectError(FoundationError):
    """A module's pyproject.toml, requirements.txt or amplifier.toml cannot be understood; the text starts with it."""

    code = "module_project"


@dataclass(frozen=True)
class ModuleProject:
    """What the files of a module's folder say about it."""

    root: Path
    #: The distribution's name; None for a folder that is not a distribution.
    name: str | None = None
    version: str = UNKNOWN_VERSION
    dependencies: tuple[str, ...] = ()
    #: Further dependencies by the name of the extra that asks for them.
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    entry_points: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: Whether the code only exists once it was built.
    is_built: bool = False
    #: The content of the files that say all this.
    facts: tuple[bytes, ...] = ()


def read_module_project(folder: Path) -> ModuleProject:
    """Return the project in `folder`; one without any project file needs nothing. Raises ModuleProjectError."""
    manifest, requirements = folder / "pyproject.toml", folder / "requirements.txt"
    if manifest.is_file():
        return _from_pyproject(folder, manifest)
    if (folder / "setup.py").is_file() or (folder / "setup.cfg").is_file():
        return ModuleProject(folder, is_built=True)
    if requirements.is_file():
        lines = read_requirements(requirements)
        return ModuleProject(folder, dependencies=lines, facts=("\n".join(lines).encode("utf-8"),))
    return ModuleProject(folder)


def other_transport(folder: Path) -> str | None:
    """Return the transport of a module that is not Python code and needs no installation, None for Python.

    Raises ModuleProjectError for an amplifier.toml that cannot be understood.
    """
    manifest = folder / "amplifier.toml"
    if not manifest.is_file():
        return None
    module = _toml(manifest).get("module")
    transport = module.get("transport") if isinstance(module, dict) else None
    return transport if isinstance(transport, str) and transport in _OTHER_TRANSPORTS else None


def code_folder(folder: Path) -> Path:
    """Return the folder that holds a module's packages: itself, else its `src` or `lib`."""
    for candidate in (folder, folder / "src", folder / "lib"):
        if (candidate / "__init__.py").is_file() or any(candidate.glob("amplifier_module_*/__init__.py")):
            return candidate
    return folder


def package_folders(folder: Path) -> list[Path]:
    """Return the folders of a bundle's own package that belong on the path: `src` and `lib`, else the folder itself."""
    inner = [folder / name for name in ("src", "lib") if (folder / name).is_dir()]
    return inner or [folder]


def read_requirements(path: Path) -> tuple[str, ...]:
    """Return the requirements in a file, those of files it refers to with `-r` included. Raises ModuleProjectError."""
    return tuple(_requirement_lines(path, ()))


def write_dist_info(folder: Path, project: ModuleProject) -> None:
    """Make a module that runs from its own folder known by name, version and entry points. Raises OSError."""
    if project.name is None:
        return
    from packaging.utils import canonicalize_name

    stem = f"{canonicalize_name(project.name).replace('-', '_')}-{project.version}"
    info = folder / f"{stem}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {project.name}\nVersion: {project.version}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    (info / "INSTALLER").write_text("amplifier\n", encoding="utf-8")
    if project.entry_points:
        lines = []
        for group, points in sorted(project.entry_points.items()):
            lines += [f"[{group}]", *(f"{name} = {target}" for name, target in sorted(points.items())), ""]
        (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


def _requirement_lines(path: Path, above: tuple[Path, ...]) -> list[str]:
    if path.resolve() in above:
        raise ModuleProjectError(f"{path}: this file refers to itself with '-r'")
    found: list[str] = []
    text = _text(path).replace("\\\n", " ")
    for number, line in enumerate(text.splitlines(), start=1):
        wish = re.sub(r"(^|\s)#.*$", "", line).strip()
        if not wish:
            continue
        if match := re.fullmatch(r"(?:-r|--requirement)[\s=]+(.+)", wish):
            found += _requirement_lines(path.parent / match[1].strip(), (*above, path.resolve()))
            continue
        if wish.startswith("-") or " --" in wish:
            raise ModuleProjectError(
                f"{path}:{number}: options are not supported here: {wish!r}: set them for your uv or pip"
            )
        found.append(_checked(wish, f"{path}:{number}"))
    return found


def _checked(wish: Any, where: str) -> str:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        Requirement(wish)
    except (InvalidRequirement, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise ModuleProjectError(f"{where}: {wish!r} is not a requirement: {reason}") from error
    return str(wish)


def _from_pyproject(folder: Path, manifest: Path) -> ModuleProject:
    data = _toml(manifest)
    project = data.get("project")
    facts = [manifest.read_bytes()]
    if not isinstance(project, dict):
        # Without [project] only a build can determine the metadata, unless it is not a distribution at all.
        is_built = "build-system" in data or (folder / "setup.py").is_file() or "poetry" in _table(data, "tool")
        return ModuleProject(folder, is_built=is_built, facts=tuple(facts))
    name = project.get("name")
    if not isinstance(name, str) or not name:
        raise ModuleProjectError(f"{manifest}: [project] has no 'name'")
    dynamic = project.get("dynamic", [])
    dependencies, read_from = _dependencies(folder, manifest, data)
    facts += read_from
    optional = _table(project, "optional-dependencies")
    return ModuleProject(
        folder,
        name,
        str(project.get("version", UNKNOWN_VERSION)),
        dependencies or (),
        {extra: tuple(_checked(wish, str(manifest)) for wish in wishes) for extra, wishes in optional.items()},
        _entry_points(project),
        dependencies is None or "optional-dependencies" in dynamic or _needs_build(folder, data),
        tuple(facts),
    )


def _dependencies(folder: Path, manifest: Path, data: Mapping[str, Any]) -> tuple[tuple[str, ...] | None, list[bytes]]:
    """Return the dependencies, None if only a build can determine them, and the content of other files they are in."""
    project = data["project"]
    if "dependencies" not in project.get("dynamic", []):
        return tuple(_checked(wish, str(manifest)) for wish in project.get("dependencies", [])), []
    files = _table(_table(data, "tool", "setuptools", "dynamic"), "dependencies").get("file")
    if files is None:
        return None, []
    names = [files] if isinstance(files, str) else files
    lines = [line for name in names for line in read_requirements(folder / name)]
    return tuple(lines), ["\n".join(lines).encode("utf-8")]


def _needs_build(folder: Path, data: Mapping[str, Any]) -> bool:
    """Return whether the code in the folder is not the code that runs: compiled, generated or moved when built."""
    backend = _table(data, "build-system").get("build-backend", "setuptools.build_meta")
    if not _COPYING_BACKENDS.match(str(backend)) or "backend-path" in _table(data, "build-system"):
        return True
    if any(_generates_code(_table(data, "tool"))):
        return True
    setup = folder / "setup.py"
    return setup.is_file() and _BUILDS_EXTENSIONS.search(setup.read_bytes()) is not None


def _generates_code(tool: Mapping[str, Any]) -> Iterator[bool]:
    """Yield for each setting of a build backend that makes or moves code whether it is in use."""
    setuptools, wheel = _table(tool, "setuptools"), _table(tool, "hatch", "build", "targets", "wheel")
    yield any(_table(setuptools, "package-dir"))  # the empty name says where packages are, any other moves one
    yield "ext-modules" in setuptools
    yield "force-include" in wheel or "hooks" in wheel or bool(_table(tool, "hatch", "build", "hooks"))
    yield wheel.get("sources", ["src"]) not in (["src"], {"src": ""})
    yield not {"write_to", "version_file"}.isdisjoint(_table(tool, "setuptools_scm"))
    yield bool(_table(tool, "poetry").get("build") or _table(tool, "pdm", "build").get("run-setuptools"))


def _entry_points(project: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    groups = {"console_scripts": project.get("scripts"), "gui_scripts": project.get("gui-scripts")}
    groups |= _table(project, "entry-points")
    return {
        group: {str(name): str(target) for name, target in points.items()}
        for group, points in groups.items()
        if isinstance(points, dict) and points
    }


def _table(data: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return the table below these keys, an empty one if it is missing."""
    found: Any = data
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, dict) else {}


def _toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        raise ModuleProjectError(f"{path}:{at[1] if at else 1}: malformed TOML: {error}") from error


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise ModuleProjectError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ModuleProjectError(f"{path}: not UTF-8 ({error.reason}): save the file as UTF-8") from error
