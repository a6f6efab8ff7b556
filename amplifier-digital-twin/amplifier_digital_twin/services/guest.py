"""What must be inside the container so that pip, uv, git and HTTPS clients there use the services."""

from __future__ import annotations

import hashlib
from typing import Final

from amplifier_digital_twin.services.config import ServicesConfig
from amplifier_digital_twin.services.git import GitAddress

#: Sockets of `ServicesConfig.sockets`, and the loopback port inside that each must be reachable at.
PORTS: Final = {"index.sock": 8000, "git.sock": 9418, "proxy.sock": 8080}
#: Where the directory of the sockets is mounted.
MOUNT: Final = "/run/twin"
#: Every name under which programs look for certificates.
_CA_VARIABLES: Final = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "NODE_EXTRA_CA_CERTS"),
)


def guest_files(config: ServicesConfig) -> dict[str, str]:
    """Return the files that must be in the container: absolute path → content.

    The address of the index changes with the wheels: write them again when those have changed.
    """
    index = index_url(config)
    pip = f"[global]\nindex-url = {index}\ndisable-pip-version-check = true\n"
    uv = f'python-downloads = "never"\n\n[[index]]\nurl = "{index}"\ndefault = true\n'
    # git leads the hosts of the repositories to our server, in every spelling.
    git = []
    for host in sorted({GitAddress.parse(repository.url).host for repository in config.repositories}):
        name = host.partition(":")[0]
        spellings = [f"{scheme}{host}/" for scheme in ("https://", "http://", "https://git@", "git://")]
        spellings += [f"ssh://git@{name}/", f"ssh://git@{name}:22/", f"git@{name}:"]
        git.append(f'[url "git://127.0.0.1:{PORTS["git.sock"]}/{host}/"]')
        git += [f"\tinsteadOf = {spelling}" for spelling in spellings]
    return {"/etc/gitconfig": "\n".join([*git, ""]), "/etc/pip.conf": pip, "/etc/uv/uv.toml": uv}


def guest_environment(config: ServicesConfig) -> dict[str, str]:
    """Return the variables that every command in the container must have."""
    # Also where every host is refused: a refusal is quicker and clearer than a name that does not resolve.
    proxy = f"http://127.0.0.1:{PORTS['proxy.sock']}"
    # Both spellings: programs disagree on which one they read.
    found = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy)
    found |= dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1")
    # Else uv asks the hosting service which commit a branch is at, past our git server, and installs that one.
    found["UV_NO_GITHUB_FAST_PATH"] = "true"
    return found | (dict.fromkeys(_CA_VARIABLES, f"{MOUNT}/ca-bundle.pem") if config.needs_proxy else {})


def index_url(config: ServicesConfig) -> str:
    """Return the address of the package index inside the container.

    It changes with the wheels: uv installs a cached wheel of the same name, version and index without asking.
    """
    wheels = sorted(config.wheels.glob("*.whl")) if config.wheels is not None else []
    lines = [*sorted(config.names), *(f"{path.name} {hashlib.sha256(path.read_bytes()).digest()!r}" for path in wheels)]
    key = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    return f"http://127.0.0.1:{PORTS['index.sock']}/at/{key}/simple/"
