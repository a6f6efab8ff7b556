"""The config keys of the module. When in doubt, more is masked rather than less."""

import logging
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, Strict

from amplifier_kit.config import Config, expects, salvage_config
from amplifier_kit.guard.redaction.redactor import DEFAULT_RULES

__all__ = ["RedactionConfig"]

logger = logging.getLogger("amplifier_module_hooks_redaction")


def _check_known(rules: tuple[str, ...]) -> tuple[str, ...]:
    if unknown := [rule for rule in rules if rule not in DEFAULT_RULES]:
        raise ValueError(f"unknown rules {unknown}; known are {list(DEFAULT_RULES)}")
    return rules


#: A single string is accepted as a list of one.
_Texts = Annotated[
    tuple[str, ...],
    Strict(False),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    expects("a list of strings"),
]


class RedactionConfig(Config):
    """The config keys of the module."""

    rules: Annotated[_Texts, AfterValidator(_check_known)] = Field(
        DEFAULT_RULES, description="Which kinds of secrets are masked; live secrets always are."
    )
    # Not shown in messages: a value in the wrong shape may be a secret.
    allowlist: _Texts = Field((), repr=False, description="Fields that are masked for live secrets only.")
    live_values: _Texts = Field((), repr=False, description="Secrets besides those of the environment and the plan.")
    priority: Any = Field(10, description="No effect: events are not changed here.")
    skip_events: Any = Field(("tool:pre", "tool:post"), description="No effect: events are not changed here.")

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """Read a config; wrong values are reported and take their defaults. Never raises."""
        settings, problems = salvage_config(cls, config)
        for problem in problems:
            logger.warning(
                "hooks-redaction: %s (%s)", problem.text, "ignored" if problem.is_unknown else "default used"
            )
        return settings
