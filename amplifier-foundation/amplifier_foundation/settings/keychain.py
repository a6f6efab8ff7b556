"""Ask the keyring of the system, which may not be there, and which may hang where nobody can unlock it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from amplifier_foundation.settings.errors import KeysError

T = TypeVar("T")

#: How long the keyring may take, in seconds.
TIMEOUT: Final = 2.0


class Keychain:
    """The entries of one home in the keyring of the system. The library for it is loaded when it is first asked."""

    def __init__(self, home: Path, timeout: float = TIMEOUT) -> None:
        self._service = f"amplifier:{home}"
        self._timeout = timeout

    def get(self, names: list[str]) -> dict[str, str]:
        """Return the values of those names that the keyring holds; raises KeysError when it cannot be asked."""

        def ask() -> dict[str, str]:
            import keyring

            found = {name: keyring.get_password(self._service, name) for name in names}
            return {name: value for name, value in found.items() if value is not None}

        return self._bounded(ask)

    def set(self, name: str, value: str) -> None:
        """Keep a value; raises KeysError when the keyring cannot be asked or does not hold it afterwards."""

        def ask() -> bool:
            import keyring

            keyring.set_password(self._service, name, value)
            return keyring.get_password(self._service, name) == value

        if not self._bounded(ask, value):
            raise KeysError(f"the keyring took {name} but does not hold it (is a null backend chosen?): use the file")

    def remove(self, name: str) -> None:
        """Forget a value; one that is not there is fine. Raises KeysError when the keyring cannot be asked."""

        def ask() -> None:
            import keyring

            if keyring.get_password(self._service, name) is not None:
                keyring.delete_password(self._service, name)

        self._bounded(ask)

    def _bounded(self, ask: Callable[[], T], secret: str | None = None) -> T:
        """Return what the keyring says, asked in a thread of its own that is left behind when it hangs."""
        import threading

        answers: list[T] = []
        faults: list[str] = []

        def run() -> None:
            try:
                answers.append(ask())
            except ImportError:
                faults.append("the library for it is not installed: install amplifier with the extra `keyring`")
            except Exception as error:  # whatever a backend raises
                faults.append(f"{type(error).__name__}: {_without_secrets(error, secret)}")

        thread = threading.Thread(target=run, name="amplifier-keyring", daemon=True)
        thread.start()
        thread.join(self._timeout)
        if answers:
            return answers[0]
        fault = faults[0] if faults else f"no answer within {self._timeout:g} s"
        raise KeysError(f"the keyring of this system cannot be used ({fault}): keep the key in the file instead")


def _without_secrets(error: Exception, secret: str | None) -> str:
    """Return the first line of what a backend says, in which anything may stand."""
    from amplifier_kit.guard.redaction import Redactor

    text = str(error).partition("\n")[0]
    if secret:
        text = text.replace(secret, "…")  # however short it is
    return str(Redactor().scrub(text).value)
