"""What commands inside a universe find: the environment and the files that lead them to its services."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from amplifier_digital_twin.profile.model import Profile, User
from amplifier_digital_twin.services.addresses import GATEWAY, INTERCEPTED_HOST

#: Where the certificates are that programs inside trust: the host's, and the universe's own authority.
CA_BUNDLE: Final = "/etc/ssl/certs/ca-certificates.crt"
#: Where programs of the host appear.
TOOLS: Final = "/opt/twin/bin"
#: The real uv, when the shim stands in its place.
REAL_UV: Final = "uv-itself"

#: Every name under which programs look for certificates.
_CA_VARIABLES: Final = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
)
_NO_PROXY: Final = f"localhost,127.0.0.1,{INTERCEPTED_HOST},::1"


def environment(profile: Profile, user: User, secrets: Mapping[str, str], index_url: str | None) -> dict[str, str]:
    """Return the whole environment of a command of `user`; without an index there are no services to lead it to."""
    found = {
        "HOME": user.home,
        "USER": user.name,
        "LOGNAME": user.name,
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "PATH": f"{user.home}/.local/bin:{TOOLS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    }
    if index_url is not None:
        found |= _network(profile, index_url)
    return found | dict(profile.environment) | dict(secrets)


def _network(profile: Profile, index: str) -> dict[str, str]:
    proxy = f"http://{GATEWAY[0]}:{GATEWAY[1]}"
    found = dict.fromkeys(_CA_VARIABLES, CA_BUNDLE)
    # Both spellings: programs disagree on which one they read.
    for name in ("http_proxy", "https_proxy"):
        found |= {name: proxy, name.upper(): proxy}
    found |= {"no_proxy": _NO_PROXY, "NO_PROXY": _NO_PROXY}
    found |= {"PIP_INDEX_URL": index, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    found |= {"UV_DEFAULT_INDEX": index, "UV_PYTHON_DOWNLOADS": "never"}
    if not profile.uv.github_fast_path:
        # Else uv asks the hosting service which commit a branch is at, past the mirror, and installs that.
        found["UV_NO_GITHUB_FAST_PATH"] = "true"
    return found


def hosts_file(hostname: str, intercepted: Sequence[str]) -> bytes:
    """Return /etc/hosts: loopback, the universe's own name, and the names that it answers itself."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost", f"127.0.1.1 {hostname}"]
    lines += [f"{INTERCEPTED_HOST} {name}" for name in intercepted]
    return ("\n".join(lines) + "\n").encode()


def trusted_certificates(authority: bytes | None, environ: Mapping[str, str] = os.environ) -> bytes:
    """Return the host's certificates and the universe's own; without the host's, every TLS client inside fails."""
    paths = ssl.get_default_verify_paths()
    candidates = [environ.get("SSL_CERT_FILE"), paths.cafile, paths.openssl_cafile, CA_BUNDLE]
    host = b""
    for candidate in candidates:
        if candidate and Path(candidate).is_file():
            host = Path(candidate).read_bytes()
            break
    return b"\n".join(part.strip() for part in (host, authority or b"") if part.strip()) + b"\n"


def uv_shim(policy: str) -> bytes:
    """Return the program that stands in front of uv.

    `uv sync --frozen` takes addresses from the lock file and never asks the index, so what is tested would not be what
    the profile serves: it is refused, or the lock is made anew first.
    """
    refuse = (
        'echo "uv: refused: --frozen takes addresses from uv.lock and ignores the index of this universe; '
        'drop it, or set uv.lock: relock in the profile" >&2; exit 2'
    )
    # Of the same project, and without the variable, which would be obeyed by `lock` as well.
    where = '${directory:+--directory "$directory"} ${project:+--project "$project"}'
    relock = f'env -u UV_FROZEN "{TOOLS}/{REAL_UV}" {where} lock --quiet || exit $?'
    return f"""#!/bin/sh
frozen= project= directory= before=
case "${{UV_FROZEN:-}}" in ""|0|[Ff]|[Ff]alse|FALSE|[Nn]|[Nn]o|NO|[Oo]ff|OFF) ;; *) frozen=1 ;; esac
for word in "$@"; do
  case "$before" in --project) project=$word ;; --directory) directory=$word ;; esac
  case "$word" in
    --frozen) frozen=1 ;;
    --project=*) project=${{word#*=}} ;;
    --directory=*) directory=${{word#*=}} ;;
    --) break ;;
  esac
  before=$word
done
if [ -n "$frozen" ]; then {refuse if policy == "refuse" else relock}; fi
exec "{TOOLS}/{REAL_UV}" "$@"
""".encode()
