"""Files that belong to a prompt: images, and the JSON schema that the answer must match."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_app_cli import exits
from amplifier_foundation.errors import FoundationError
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_app_cli.session_app import Outcome
    from amplifier_app_cli.session_request import SessionRequest
    from amplifier_foundation.prompt.access import PromptAccess

#: Image types that models accept, by their first bytes.
_IMAGE_TYPES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)
#: The largest image that providers accept.
_LARGEST_IMAGE: Final = 20 * 1024 * 1024
#: No model is given a larger schema.
_LARGEST_SCHEMA: Final = 1 << 20
#: Where loops look for the format of answers.
_RESPONSE_FORMAT: Final = "session.response_format"


class ImageError(FoundationError):
    """A file given as an image is not one, or is too large."""

    code = "image_invalid"


class OutputSchemaError(FoundationError):
    """A file given as a schema is not one."""

    code = "output_schema"


class Attachments(FrozenStruct):
    """The contents of the files that a request names."""

    #: Content blocks.
    images: tuple[dict[str, Any], ...] = ()
    schema: OutputSchema | None = None

    @classmethod
    def read(cls, request: SessionRequest, access: PromptAccess) -> Attachments:
        """Read the files under the rules of the session. Raises ImageError, OutputSchemaError and ReadDeniedError."""
        images = tuple(_image(path, access) for path in request.images)
        name = request.output_schema
        return cls(images, OutputSchema.read(Path(name), access) if name is not None else None)

    def check(self, outcome: Outcome) -> Outcome:
        """Return the outcome; a failure if its answer does not match the schema."""
        if self.schema is None or outcome.response is None or outcome.exit_code != exits.OK:
            return outcome
        if (problem := self.schema.problem(outcome.response)) is None:
            return outcome
        message = f"the answer does not match the schema: {problem}"
        return outcome._replace(status="error", exit_code=exits.FAILURE, error=message, error_type="output_invalid")


def _image(path: Path, access: PromptAccess) -> dict[str, Any]:
    """Return the content block of an image file."""
    from amplifier_foundation.prompt.access import TYPED, ReadDeniedError

    try:
        content = access.read_bytes(path.absolute(), TYPED, _LARGEST_IMAGE + 1)
    except ReadDeniedError:
        raise
    except FoundationError as error:
        raise ImageError(f"{path}: {error}") from error
    kind = next((kind for start, kind in _IMAGE_TYPES if content.startswith(start)), None)
    if kind is None or (kind == "image/webp" and content[8:12] != b"WEBP"):
        raise ImageError(f"{path}: unsupported image: give a PNG, JPEG, GIF or WebP file")
    if len(content) > _LARGEST_IMAGE:
        raise ImageError(f"{path}: the image is too large: at most {_LARGEST_IMAGE:,} bytes")
    data = base64.b64encode(content).decode("ascii")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


class OutputSchema:
    """The JSON schema that an answer must match."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema

    @classmethod
    def read(cls, path: Path, access: PromptAccess) -> OutputSchema:
        """Read a schema from a file. Raises OutputSchemaError and ReadDeniedError."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError

        from amplifier_foundation.prompt.access import TYPED, ReadDeniedError

        try:
            schema = json.loads(access.read_bytes(path.absolute(), TYPED, _LARGEST_SCHEMA).decode("utf-8-sig"))
        except ReadDeniedError:
            raise
        except FoundationError as error:
            raise OutputSchemaError(f"{path}: {error}") from error
        except ValueError as error:
            raise OutputSchemaError(f"{path}: invalid JSON: {error}") from error
        if not isinstance(schema, dict):
            raise OutputSchemaError(f"{path}: a schema is a JSON object, this is a {type(schema).__name__}")
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise OutputSchemaError(f"{path}: invalid JSON schema: at {error.json_path}: {error.message}") from error
        return cls(schema)

    def register(self, coordinator: Any) -> None:
        """Let the loop of a session request answers of this format."""
        from amplifier_core.message_models import ResponseFormatJsonSchema

        coordinator.register_capability(_RESPONSE_FORMAT, ResponseFormatJsonSchema(json_schema=self._schema))

    def problem(self, answer: str) -> str | None:
        """Return what is wrong with an answer and where, None if it matches.

        Our providers check it too, and ask the model again; other providers may ignore the format.
        """
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import best_match

        try:
            value = json.loads(answer)
        except ValueError as error:
            return f"invalid JSON: {error}"
        worst = best_match(Draft202012Validator(self._schema).iter_errors(value))
        return None if worst is None else f"at {worst.json_path}: {worst.message}"
