"""Make modules ready to be loaded from where their sources say, by the names that published apps import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from amplifier_foundation.exceptions import BundleError
from amplifier_foundation.paths import Home
from amplifier_foundation.sources.activation import ModuleActivationError as FoldersUnusableError

__all__ = ["ModuleActivationError", "ModuleActivator"]


class ModuleActivationError(BundleError, FoldersUnusableError):
    """Modules cannot be made ready; every one that failed is named, with its reason."""

    code: ClassVar[str] = FoldersUnusableError.code


class ModuleActivator:
    """Fetch modules and install what they need, beside the program's own packages and never in place of them."""

    def __init__(self, cache_dir: Path | None = None, install_deps: bool = True, base_path: Path | None = None) -> None:
        """Keep sources in `cache_dir`, else in the user's; relative ones start at `base_path`, else the current folder.

        Without `install_deps` nothing is installed.
        """
        self._home = Home.find() if cache_dir is None else Home(Path(cache_dir).parent, Path(cache_dir))
        self._install = install_deps
        self._base = Path(base_path) if base_path is not None else Path.cwd()
        #: Import paths of the bundles' own packages that were activated.
        self.package_paths: list[Path] = []

    async def activate(
        self, module_name: str, source_uri: str, progress_callback: Callable[[str, str], object] | None = None
    ) -> Path:
        """Return the folder to load a module from; raises ModuleActivationError."""
        found = await self.activate_all([{"module": module_name, "source": source_uri}], progress_callback, strict=True)
        return found[module_name]

    async def activate_all(
        self,
        modules: Iterable[Mapping[str, Any]],
        progress_callback: Callable[[str, str], object] | None = None,
        *,
        strict: bool = False,
        packages: Sequence[Path] = (),
    ) -> dict[str, Path]:
        """Return the folders of modules, entries with `module` and `source`, all fetched at once.

        `packages` are folders of bundles that are Python packages themselves. What fails is logged and left out; when
        `strict`, ModuleActivationError names all of it.
        """
        from amplifier_foundation.plan.composed import Composed
        from amplifier_foundation.plan.prepare import Options, activate
        from amplifier_foundation.trust.check import PACKAGES, ModuleUse

        wanted = {(str(one["module"]), str(one["source"])) for one in modules if one.get("source")}
        uses = [ModuleUse("tools", name, source, "user", "user", True, source) for name, source in sorted(wanted)]
        uses += [ModuleUse(PACKAGES, root.name, str(root), "user", "user", True, str(root)) for root in packages]

        def report(text: str) -> None:
            action, _, detail = text.partition(" ")
            if progress_callback is not None:
                progress_callback(action, detail)

        for use in uses:
            report(f"activating {use.module}")
        composed = Composed("modules", "modules", "", "", {}, modules=tuple(uses))
        options = Options(self._home, self._base, allow_missing=not strict, on_progress=report)
        try:
            prepared = await activate(composed, options, install=self._install)
        except FoldersUnusableError as error:
            raise ModuleActivationError(error.failures) from error
        for warning in prepared.warnings:
            import logging

            logging.getLogger(__name__).warning("%s", warning)
        self.package_paths += prepared.package_paths
        return dict(prepared.modules)

    async def activate_bundle_package(
        self, bundle_path: Path, progress_callback: Callable[[str, str], object] | None = None
    ) -> list[Path]:
        """Return the import paths of a bundle that is a Python package itself; raises ModuleActivationError."""
        before = len(self.package_paths)
        await self.activate_all((), progress_callback, strict=True, packages=[Path(bundle_path)])
        return self.package_paths[before:]
