"""Name the places that a command has no business with: secrets, and what runs outside when somebody works there."""

from __future__ import annotations

import os
from typing import Final

from amplifier_kit.control_files import has_reftable
from amplifier_kit.sandbox.placeholders import Placeholder

#: Below the home folder: what must not be read.
SECRETS: Final = (
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".netrc",
    "_netrc",
    ".kube",
    ".docker",
    ".colima",
    ".lima",
    ".orbstack",
    ".password-store",
    ".git-credentials",
    ".pypirc",
    ".npmrc",
    ".yarnrc.yml",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".terraformrc",
    ".terraform.d/credentials.tfrc.json",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/git/credentials",
    ".config/hub",
    ".config/op",
    ".config/pypoetry/auth.toml",
    ".config/rclone",
    ".config/containers/auth.json",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".amplifier",
)

#: Below the home folder: what is run, or decides what is run, when somebody logs in or opens a shell.
STARTED: Final = (
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".xprofile",
    ".xsessionrc",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".inputrc",
    ".vimrc",
    ".gitconfig",
    ".config/git",
    ".config/fish",
    ".config/autostart",
    ".config/systemd",
    ".config/environment.d",
    ".local/share/applications",
    ".local/bin",
    "bin",
)


def unwanted_in(folder: str) -> list[Placeholder]:
    """Return the files that must not be made in a project and for which nothing can stand in: they are removed after.

    Told by one, git would take its hooks from elsewhere.
    """
    git = os.path.join(folder, ".git")
    path = os.path.join(git, "commondir")
    return [Placeholder(path, root=folder)] if has_reftable(git) and not os.path.lexists(path) else []
