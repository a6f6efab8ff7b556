"""Forty secrets in forty places, generated from a seed, so that none of them is in any source file."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from amplifier_kit.guard.redaction.formats import token_formats
from amplifier_testing.tokens import example_token

ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True)
class Plant:
    """One secret: what it is, where it is planted, and what may be found of it in a file."""

    what: str
    where: str
    secret: str

    @property
    def traces(self) -> list[bytes]:
        """Return the secret as files may hold it; of one with several lines, each of them."""
        lines = [line for line in self.secret.splitlines() if len(line) > 15 and not line.startswith("-----")]
        forms: list[str] = []
        for text in lines or [self.secret]:
            forms += (text, json.dumps(text)[1:-1], quote(text, safe=""), base64.b64encode(text.encode()).decode()[:-4])
        return [form.encode() for form in dict.fromkeys(forms)]


@dataclass
class Garden:
    """All plants, and what carries them into a session."""

    plants: list[Plant] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)
    #: Config of the tool, and of the provider.
    tool_config: dict[str, Any] = field(default_factory=dict)
    provider_config: dict[str, Any] = field(default_factory=dict)
    prompts: list[str] = field(default_factory=list)
    tool_inputs: list[dict[str, Any]] = field(default_factory=list)
    tool_outputs: list[Any] = field(default_factory=list)
    tool_error: str = ""
    provider_error: str = ""
    thinking: str = ""
    answer: str = ""

    def at(self, where: str) -> list[Plant]:
        """Return the plants of one place."""
        return [plant for plant in self.plants if plant.where == where]


def plant(seed: int) -> Garden:
    """Return a garden of forty secrets."""
    chance = random.Random(seed)
    garden = Garden()

    def token(length: int = 32) -> str:
        return "".join(chance.choices(ALPHABET, k=length - 2)) + "7q"

    def add(what: str, where: str, secret: str) -> str:
        garden.plants.append(Plant(what, where, secret))
        return secret

    def pem() -> str:
        body = "\n".join(token(64) for _ in range(4))
        return f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"

    _environment(garden, add, token, pem)
    _config(garden, add, token)
    _prompts(garden, add, token)
    _tool_inputs(garden, add, token)
    _tool_outputs(garden, add, token, pem)
    garden.tool_outputs[0] += _files(chance, add, token)
    garden.tool_error = f"401 from https://svc:{add('password in a URL', 'error', token(20))}@api.example.com/v1"
    garden.provider_error = f"bad request: Authorization: Bearer {add('bearer token', 'error', token(40))} was refused"
    garden.thinking = f"The token is xoxb-{add('Slack token', 'answer', '1234567890-' + token(24))}, I must not say it."
    garden.answer = f'Done. I stored api_key = "{add("key in code", "answer", token(28))}" for you.'
    assert len(garden.plants) == 40
    return garden


Add = Callable[[str, str, str], str]
Token = Callable[..., str]


def _environment(garden: Garden, add: Add, token: Token, pem: Callable[[], str]) -> None:
    account = {
        "type": "service_account",
        "project_id": "garden",
        "private_key": add("JSON credentials", "env", token()),
    }
    garden.environ = {
        "GARDEN_API_KEY": add("API key", "env", f"key-{token()}"),
        "GARDEN_PASSWORD": add("password with signs", "env", f'p&ss "{token(12)}" /+='),
        "GARDEN_TOKEN": add("token", "env", token(20)),
        "GARDEN_DATABASE_URL": f"postgres://app:{add('password in a URL', 'env', token(16))}@db/app",
        "GARDEN_SIGNING_KEY": add("key file", "env", pem()),
        "GARDEN_CREDENTIALS": json.dumps(account),
    }


def _config(garden: Garden, add: Add, token: Token) -> None:
    garden.provider_config = {"api_key": add("API key", "config", token())}
    garden.tool_config = {
        "headers": {"Authorization": f"Bearer {add('header', 'config', token(36))}"},
        "url": f"https://user:{add('password in a URL', 'config', token(14))}@svc.example.com",
        "credentials": {"user": "gardener", "password": add("password", "config", f"rose-{token(10)}")},
    }


def _prompts(garden: Garden, add: Add, token: Token) -> None:
    jwt = f"eyJ{token(20)}.eyJ{token(30)}.{token(43)}"
    openai, github = add("OpenAI key", "prompt", token(40)), add("GitHub token", "prompt", token(36))
    amazon, password = add("AWS key id", "prompt", token(16).upper()), add("password", "prompt", token(12))
    garden.prompts = [
        f"My key is sk-proj-{openai}, and ghp_{github}.",
        f"Use AKIA{amazon}; the password is {password}",
        f"Call it with {add('web token', 'prompt', jwt)} and GARDEN_SECRET={add('assignment', 'prompt', token(18))}",
    ]


def _tool_inputs(garden: Garden, add: Add, token: Token) -> None:
    url = f"https://api.example.com/v1?access_token={add('query of a URL', 'tool input', token(24))}&page=2"
    header = f"curl -H 'X-Api-Key: {add('header', 'tool input', token(24))}' https://example.com"
    garden.tool_inputs = [
        {"password": add("field of that name", "tool input", f"tulip {token(8)}"), "user": "gardener"},
        {"command": f"{header} -u gardener:{add('login', 'tool input', token(14))}"},
        {"command": f"deploy --token {add('flag', 'tool input', token(22))} --verbose", "url": url},
        {"variables": [{"name": "DB_PASSWORD", "value": add("pair", "tool input", f"lily-{token(9)}")}]},
    ]


def _tool_outputs(garden: Garden, add: Add, token: Token, pem: Callable[[], str]) -> None:
    filler = "The garden is quiet today, and nothing happens at all.\n" * 200
    garden.tool_outputs = [
        f"# .env\nSTRIPE=sk_live_{add('Stripe key', 'tool output', token(24))}\nDEBUG=1\n",
        {"stdout": add("key file", "tool output", pem()), "code": 0},
        json.dumps({"db": {"password": add("JSON in a text", "tool output", f"iris {token(9)}")}}),
        _echo(garden),
        f"{filler}connection: Server=db;Password={add('in a large output', 'tool output', token(15))};\n{filler}",
    ]


def _files(chance: random.Random, add: Add, token: Token) -> str:
    """Return what a command prints of config files, of keys in parts, and of tokens of two services of the table."""

    def word() -> str:
        return "".join(chance.choices(string.ascii_lowercase, k=9))

    def body() -> str:
        return "\n".join(token(64) for _ in range(3))

    where = "tool output"
    forms = chance.sample([form for form in token_formats() if not form.keep and not form.before], 2)
    tokens = [example_token(form, form.marks.split()[0], chance) for form in forms]
    return f"""
machine example.com login gardener password {add(".netrc", where, word())}
db.example.com:5432:garden:gardener:{add(".pgpass", where, word())}
<password>{add("element", where, word())}</password>
Server=db;User Id=gardener;Password={add("connection string", where, word())};Encrypt=True
mysql -u gardener -p{add("short option", where, word())} garden
password: {add("several words", where, f"{word()} {word()} {word()} {word()}")}
{add("key without its first line", where, body())}
-----END RSA PRIVATE KEY-----
PuTTY-User-Key-File-3: ssh-rsa
Private-Lines: 3
{add("PuTTY key", where, body())}
found {add("token of a service", where, tokens[0])} and {add("token of a service", where, tokens[1])} here
"""


def _echo(garden: Garden) -> str:
    """Return what a careless command prints: the environment and the config, without names, plain and encoded."""
    config = garden.tool_config
    known = [*garden.environ.values(), config["headers"]["Authorization"], config["credentials"]["password"]]
    known += [config["url"], garden.provider_config["api_key"]]
    encoded = [base64.b64encode(f"user:{value}".encode()).decode() for value in known]
    return "\n".join([*known, *encoded, *(quote(value, safe="") for value in known)])
