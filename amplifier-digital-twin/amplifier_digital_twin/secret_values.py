"""The secrets of a universe: known to its commands by name, and kept out of everything that outlives them."""

from __future__ import annotations

from collections.abc import Mapping

from amplifier_digital_twin.engines.engine import Command, Engine
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.log import SHORTEST_SECRET
from amplifier_digital_twin.profile.model import Profile

#: Reads the values from standard input, because arguments of processes can be seen.
_SEARCH = "exec grep -rlsF -f - -- /home /tmp /root /etc /opt /srv /usr/local /var"


def secret_values(profile: Profile, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the profile's secrets from an environment; raise TwinError when a required one is missing."""
    found = {secret.env: environ[secret.env] for secret in profile.secrets if environ.get(secret.env)}
    missing = [secret.env for secret in profile.secrets if not secret.optional and secret.env not in found]
    if missing:
        raise TwinError(
            "secret_missing",
            f"{profile.path}: the profile needs {', '.join(missing)}, missing in the environment",
            f"export {missing[0]}=...",
        )
    return found


def files_with_secrets(engine: Engine, container: str, uid: int, values: Mapping[str, str]) -> list[str]:
    """Return the files inside that hold a secret; raise TwinError when that cannot be found out."""
    lines = {max(value.splitlines(), key=len, default="") for value in values.values()}
    needles = sorted(line for line in lines if len(line) >= SHORTEST_SECRET)
    if not needles:
        return []
    data = "\n".join([*needles, ""]).encode("utf-8", "surrogateescape")
    done = engine.run(container, Command(["/bin/sh", "-c", _SEARCH], uid, "/", {}, timeout=120, stdin=data))
    names = done.stdout.decode("utf-8", "backslashreplace").splitlines()
    if done.is_timed_out or (done.exit_code not in (0, 1, 2) and not names):
        raise TwinError("secret_in_files", "whether files hold a secret cannot be found out", "see `logs`")
    return names
