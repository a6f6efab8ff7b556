"""What field names say."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_kit.guard.redaction.field_names import (
    PROTECTED_KEYS,
    is_id,
    is_secret_header,
    is_secret_name,
    is_time,
    is_tool_call,
    may_be_secret,
)

SECRET_NAMES = """
    api_key apikey api-key API_KEY OPENAI_API_KEY x-api-key X-Api-Key apiKey azureApiKey secret client_secret
    clientSecret webhook_secret secrets password db_password DB-PASSWORD userPassword PGPASSWORD passwd passphrase
    passcode token access_token accessToken refresh_token id_token GITHUB_TOKEN x-amz-security-token authToken
    credential credentials creds auth authorization Authorization Proxy-Authorization cookie Set-Cookie cookies
    private_key privateKey ssh_key signing_key encryption-key AWS_SECRET_ACCESS_KEY secret_key account_key
    connection_string jwt bearer github_pat db_pass smtp_pass MYSQL_PWD api_key_2 api_key_prod password1
    password_confirmation token_value sas_token session.token AMPLIFIER_NTFY_TOPIC
""".split()  # noqa: SIM905  # words are easier to read than a list of strings

ORDINARY_NAMES = """
    max_tokens input_tokens output_tokens total_tokens token_count tokens token_type tokenizer token_budget key keys
    key_name public_key primary_key keyboard author authority authored auth_type auth_url oauth2_flow secretary
    password_policy passed pass compass bypass pwd cwd path monkey key_id session_id tool_call_id description
    cookie_policy credential_type content text cost_usd bytes sha256 signature pattern pat
""".split()  # noqa: SIM905  # words are easier to read than a list of strings


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name: str) -> None:
    """A name whose last words mean a secret is a secret's, however it is spelt."""
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ORDINARY_NAMES)
def test_names_of_other_things(name: str) -> None:
    """A name that only contains or resembles such a word is not."""
    assert not is_secret_name(name)


@pytest.mark.parametrize("name", sorted(PROTECTED_KEYS))
def test_names_of_ids_and_times(name: str) -> None:
    """No id and no time is ever taken for a secret."""
    assert not is_secret_name(name)


def test_a_name_of_absurd_length_is_none() -> None:
    """A key that is a whole text is looked at as a text, not as a name."""
    assert not is_secret_name("a" * 300 + "_password")


@pytest.mark.parametrize(
    "value", [None, "", "  ", True, False, "${OPENAI_API_KEY}", {"type": "string"}, {"anyOf": []}, {"$ref": "#/x"}]
)
def test_what_no_secret_can_be(value: Any) -> None:
    """An empty value, a switch, a reference to a variable and the schema of a field are no secrets."""
    assert not may_be_secret("password", value)


@pytest.mark.parametrize("value", ["x", "$ecret", "${A}${B}", 12345678, 1.5, ["a"], {"user": "u"}, "${not a name}"])
def test_what_a_secret_can_be(value: Any) -> None:
    """Anything else may be one."""
    assert may_be_secret("password", value)


@pytest.mark.parametrize("name", ["token", "auth", "reset_token"])
def test_numbers_of_tokens_are_counts(name: str) -> None:
    """A number under a name that ends in token counts tokens."""
    assert not may_be_secret(name, 12345678)


def test_forms_of_ids() -> None:
    """An id is one word of reasonable length, or a number."""
    assert is_id("0a1b-2c")
    assert is_id(7)
    assert is_id(None)
    assert not is_id("the password is hunter2")
    assert not is_id("a\tb")
    assert not is_id("x" * 300)
    assert not is_id({"a": 1})


def test_forms_of_times() -> None:
    """A time consists of digits and the signs between them."""
    assert is_time("2026-11-15T10:00:00.123456789+00:00")
    assert is_time("2026-11-15 10:00:00Z")
    assert is_time(1763200000.5)
    assert not is_time("yesterday")
    assert not is_time(["2026"])


def test_ids_of_tool_calls() -> None:
    """`id` joins a call to its result where it stands in a call."""
    assert is_tool_call({"id": "c1", "tool": "bash", "arguments": {}})
    assert is_tool_call({"id": "c1", "type": "tool_use", "input": {}})
    assert not is_tool_call({"id": "c1", "name": "x"})


def test_headers() -> None:
    """The headers that carry credentials are known in any spelling, and nothing else is a header."""
    assert is_secret_header("Authorization")
    assert is_secret_header("set-cookie")
    assert is_secret_header("X-API-Key")
    assert not is_secret_header("token")
    assert not is_secret_header(3)
