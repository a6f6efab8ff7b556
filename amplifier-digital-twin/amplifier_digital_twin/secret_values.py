"""The secrets of a universe: known to its commands by name, and kept out of everything that outlives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from amplifier_digital_twin.backends.twin import Finished, Run, Twin
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Profile, User

#: Shorter values would be found in innocent files.
_SHORTEST: Final = 6
_PATIENCE: Final = 120.0
#: Searches what a snapshot holds: nothing that is mounted from elsewhere. The values come by standard input, because
#: arguments of processes can be seen.
_SEARCH: Final = """
for entry in /* /.[!.]*; do
  if [ -e "$entry" ] && [ ! -L "$entry" ] && ! grep -q " $entry " /proc/mounts; then set -- "$@" "$entry"; fi
done
exec grep -rlsF -f - -- "$@"
"""


class SecretValues:
    """The values of the secrets that a profile names."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.by_name: Final = dict(values)

    @classmethod
    def of(cls, profile: Profile, environ: Mapping[str, str]) -> SecretValues:
        """Take them from an environment; raise TwinError when one is missing that the profile needs."""
        found = {secret.env: environ[secret.env] for secret in profile.secrets if environ.get(secret.env)}
        missing = [secret.env for secret in profile.secrets if not secret.optional and secret.env not in found]
        if missing:
            raise TwinError(
                "secret_missing",
                f"{profile.path}: the profile needs {', '.join(missing)}, which the environment has not",
                f"set it in the environment: export {missing[0]}=…",
            )
        return cls(found)

    async def check_files(self, twin: Twin, user: User) -> None:
        """Raise TwinError (`secret_in_files`) when a file of a twin holds a value, or when that cannot be told."""
        lines = [max(value.splitlines(), key=len, default="") for value in self.by_name.values()]
        needles = sorted({line for line in lines if len(line) >= _SHORTEST})
        if not needles:
            return
        finished = await _search(twin, user, "\n".join(needles).encode("utf-8", "surrogateescape") + b"\n")
        if finished.exit_code == 1:
            return
        names = finished.stdout.decode("utf-8", "backslashreplace").splitlines()
        told = f"a secret is in {', '.join(names[:5])}" if names else "it cannot be told whether files hold a secret"
        raise TwinError(
            "secret_in_files",
            f"{told}: what has secrets in it is not kept",
            "let programs take secrets from their environment, or remove the files first",
        )


async def _search(twin: Twin, user: User, needles: bytes) -> Finished:
    """Search as root, who can read everything; where there is none, all files are the user's."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    argv = ["/bin/sh", "-c", _SEARCH]
    try:
        root = User("root", 0)
        return await twin.run(Run(argv, environment, root, stdin=needles, timeout=_PATIENCE))
    except TwinError as error:
        if error.code != "user_unavailable":
            raise
    return await twin.run(Run(argv, environment, user, stdin=needles, timeout=_PATIENCE))
