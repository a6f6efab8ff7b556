"""Sign in with an identity of Azure's in place of a key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from amplifier_core.llm_errors import AuthenticationError
from amplifier_kit.llm import import_in_thread
from amplifier_module_provider_azure_openai.config import AzureResource

__all__ = ["token_source"]

_SCOPE: Final = "https://cognitiveservices.azure.com/.default"


async def token_source(resource: AzureResource, keep_secret: Callable[[str], None]) -> Callable[[], Awaitable[str]]:
    """Return what gives a token for each request; `keep_secret` hears every token that is given.

    Raises ConfigurationError when azure-identity is not installed. Tokens are renewed by Azure's own library, in a
    thread; a sign-in that fails is AuthenticationError.
    """
    library = await import_in_thread("azure.identity", needs="azure-identity")
    credential: Any
    if resource.identity == "managed":
        credential = library.ManagedIdentityCredential(client_id=resource.client_id)
    else:
        credential = library.DefaultAzureCredential(managed_identity_client_id=resource.client_id)

    async def token() -> str:
        try:
            given = await asyncio.to_thread(credential.get_token, _SCOPE)
        except Exception as error:
            why = " ".join(str(error).split())
            raise AuthenticationError(f"Azure gives no token for {resource.identity} identity: {why}") from error
        text = str(given.token)
        keep_secret(text)
        return text

    return token
