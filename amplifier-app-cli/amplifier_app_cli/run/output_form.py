"""The form that the answer of a run must have: a JSON schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.errors import FoundationError

if TYPE_CHECKING:
    from amplifier_foundation.prompt.access import PromptAccess

#: What loops ask for the form of answers.
_CAPABILITY: Final = "session.response_format"
#: More bytes are no schema that a model is given.
_LARGEST: Final = 1 << 20


class OutputSchemaError(FoundationError):
    """A file that was given as a schema is none."""

    code = "output_schema"


class OutputForm:
    """What an answer must look like."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema

    @classmethod
    def from_file(cls, path: Path, access: PromptAccess) -> OutputForm:
        """Read a JSON schema, which goes to the model.

        Raises OutputSchemaError for a file that holds none, and ReadDeniedError for one that rules deny.
        """
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError

        from amplifier_foundation.prompt.access import TYPED, ReadDeniedError

        try:
            schema = json.loads(access.read_bytes(path.absolute(), TYPED, _LARGEST).decode("utf-8-sig"))
        except ReadDeniedError:
            raise
        except FoundationError as error:
            raise OutputSchemaError(f"{path}: {error}") from error
        except ValueError as error:
            raise OutputSchemaError(f"{path}: no JSON: {error}") from error
        if not isinstance(schema, dict):
            raise OutputSchemaError(f"{path}: a schema is a JSON object, this is a {type(schema).__name__}")
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise OutputSchemaError(f"{path}: no JSON schema: at {error.json_path}: {error.message}") from error
        return cls(schema)

    def register(self, coordinator: Any) -> None:
        """Let the loop of a session ask for it."""
        from amplifier_core.message_models import ResponseFormatJsonSchema

        coordinator.register_capability(_CAPABILITY, ResponseFormatJsonSchema(json_schema=self._schema))

    def fault(self, answer: str) -> str | None:
        """Return what is wrong with an answer, with the place in it; None when it fits.

        Providers check it as well, and ask again. Those of others may not know of forms.
        """
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import best_match

        try:
            value = json.loads(answer)
        except ValueError as error:
            return f"it is no JSON: {error}"
        worst = best_match(Draft202012Validator(self._schema).iter_errors(value))
        return None if worst is None else f"at {worst.json_path}: {worst.message}"
