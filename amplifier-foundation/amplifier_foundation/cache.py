"""Keep values by key, in memory or in files, by the names that published apps import."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from amplifier_foundation.files import replace_file

__all__ = ["CacheProviderProtocol", "DiskCache", "SimpleCache"]

logger = logging.getLogger(__name__)


@runtime_checkable
class CacheProviderProtocol(Protocol):
    """What a cache has."""

    def get(self, key: str) -> Any:
        """Return the value of a key, None if it has none."""

    def set(self, key: str, value: Any) -> None:
        """Keep a value."""

    def clear(self) -> None:
        """Forget all values."""

    def __contains__(self, key: str) -> bool: ...


class SimpleCache:
    """A cache that lives as long as the process."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        """Return the value of a key, None if it has none."""
        return self._values.get(key)

    def set(self, key: str, value: Any) -> None:
        """Keep a value."""
        self._values[key] = value

    def clear(self) -> None:
        """Forget all values."""
        self._values.clear()

    def __contains__(self, key: str) -> bool:
        return key in self._values


class DiskCache:
    """A cache of JSON values in a folder, one file for each key; secrets in them are masked.

    What cannot be read counts as missing: the folder may be deleted at any time.
    """

    def __init__(self, cache_dir: Path) -> None:
        """Use a folder, which is made with the first value."""
        self.cache_dir = Path(cache_dir)

    def get(self, key: str) -> Any:
        """Return the value of a key, None if it has none."""
        try:
            entry = json.loads(self._file(key).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.warning("the cached value of %r is ignored: %s", key, error)
            return None
        return entry.get("value") if isinstance(entry, dict) and entry.get("key") == key else None

    def set(self, key: str, value: Any) -> None:
        """Keep a value; raises TypeError for one that JSON cannot hold, and OSError."""
        content = json.dumps({"key": key, "value": value}, ensure_ascii=False).encode("utf-8", "backslashreplace")
        self.cache_dir.mkdir(parents=True, exist_ok=True)
        replace_file(self._file(key), content)

    def clear(self) -> None:
        """Delete the files of this cache; raises OSError."""
        for file in self.cache_dir.glob("*.json"):
            file.unlink(missing_ok=True)

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def _file(self, key: str) -> Path:
        return self.cache_dir / f"{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"
