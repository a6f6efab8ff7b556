"""The providers this program knows by name: their modules, the keys they need, and where local servers listen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from amplifier_kit.struct import FrozenStruct

#: The scripted model, a placeholder until a real provider is configured.
MOCK: Final = "provider-mock"
_PREFIX: Final = "provider-"

#: Whether a module can be loaded by its id alone.
Installed = Callable[[str], bool]


class KnownProvider(FrozenStruct):
    """One provider: what it is called, its module, and what has to be set for it."""

    id: str
    module: str
    title: str
    #: Variables for its credentials: one complete group is enough.
    keys: tuple[tuple[str, ...], ...] = ()
    #: The key of its configuration that holds the address of its server.
    address_key: str = "base_url"
    #: The variable with its address if it has no default address; empty otherwise.
    address_variable: str = ""

    @property
    def variables(self) -> tuple[str, ...]:
        """Return all variables of this provider, the usual ones first."""
        return tuple(dict.fromkeys(name for group in self.keys for name in group))

    def found(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the variables of the first complete group; empty if there is none."""
        for group in self.keys:
            if all(environ.get(name, "").strip() for name in group):
                return group
        return ()

    def missing(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the unset variables of the group with the fewest; empty if a group is complete or none is needed."""
        if not self.keys or self.found(environ):
            return ()
        unset = [tuple(name for name in group if not environ.get(name, "").strip()) for group in self.keys]
        return min(unset, key=len)


class LocalServer(FrozenStruct):
    """A program that serves models on this machine, and the provider that speaks with it."""

    title: str
    port: int
    provider: str
    #: Empty when it is the provider's default.
    base_url: str = ""


#: In the order in which keys are looked for.
KNOWN: Final = (
    KnownProvider("anthropic", "provider-anthropic", "Anthropic", (("ANTHROPIC_API_KEY",),)),
    KnownProvider("openai", "provider-openai", "OpenAI", (("OPENAI_API_KEY",),)),
    KnownProvider(
        "azure-openai",
        "provider-azure-openai",
        "Azure OpenAI",
        (("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"),),
    ),
    KnownProvider("gemini", "provider-gemini", "Google Gemini", (("GEMINI_API_KEY",), ("GOOGLE_API_KEY",))),
    KnownProvider("ollama", "provider-ollama", "Ollama, on this machine", address_key="host"),
    KnownProvider(
        "chat-completions",
        "provider-chat-completions",
        "Any server with the chat completions interface",
        address_variable="CHAT_COMPLETIONS_BASE_URL",
    ),
    KnownProvider("vllm", "provider-vllm", "vLLM", address_variable="VLLM_BASE_URL"),
    KnownProvider("local", "provider-local", "A small model inside the program"),
    KnownProvider("mock", MOCK, "A scripted model: no network, no key"),
)

#: In the order in which they are looked for.
SERVERS: Final = (
    LocalServer("Ollama", 11434, "ollama"),
    LocalServer("LM Studio", 1234, "chat-completions", "http://127.0.0.1:1234/v1"),
    LocalServer("llama.cpp", 8080, "chat-completions", "http://127.0.0.1:8080/v1"),
    LocalServer("vLLM", 8000, "vllm", "http://127.0.0.1:8000/v1"),
)


def known_provider(name: str) -> KnownProvider | None:
    """Return the provider of that id or module, None for an unknown one."""
    return next((known for known in KNOWN if name in (known.id, known.module)), None)


def require_provider(name: str) -> KnownProvider:
    """Return the provider of that id or module; raises UnknownProviderError with a hint for an unknown one."""
    known = known_provider(name)
    if known is None:
        raise unknown_provider(name)
    return known


def unknown_provider(name: str, hint: str = "") -> Exception:
    """Return the error about a provider that the program does not know."""
    from amplifier_app_cli.providers.choice import UnknownProviderError
    from amplifier_foundation.errors import did_you_mean

    near = did_you_mean(name, [known.id for known in KNOWN])
    end = "" if near.endswith("?") else "."
    return UnknownProviderError(f"unknown provider {name!r}: {near}" + (f"{end} {hint}" if hint else ""))


def short_name(module: str) -> str:
    """Return the short name of a provider module."""
    return module.removeprefix(_PREFIX)


def is_installed(module: str) -> bool:
    """Return whether a module came with this program or was installed beside it."""
    from importlib.util import find_spec

    # Nearly every module is in the package of that name; reading all entry points takes far longer than looking there.
    package = None if "." in module else find_spec(f"amplifier_module_{module.replace('-', '_')}")
    if package is not None and package.origin is not None:
        return True
    from importlib.metadata import entry_points

    return bool(entry_points(group="amplifier.modules", name=module))


def installed_local_model() -> str | None:
    """Return the name of the model inside the program that would answer, None when none is installed."""
    from amplifier_kit.local_model import CODER, SMALL_MODEL, find_local_model

    found = find_local_model()
    if not found.is_complete:
        return None
    return CODER.name if found.coder is not None else SMALL_MODEL


def how_to_get(module: str) -> str:
    """Return an error text for a missing module, with what to do."""
    if known_provider(module) is not None:
        return (
            f"{module} is not installed: it is a part of the program, so install that again, "
            f"or name a source of your own (`amplifier settings set sources.modules.{module} URI`)"
        )
    return f"{module} is not installed: name a source for it (`amplifier settings set sources.modules.{module} URI`)"


def all_key_names() -> tuple[str, ...]:
    """Return the variables of all known providers."""
    return tuple(dict.fromkeys(name for known in KNOWN for name in known.variables))
