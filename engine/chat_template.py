"""Messages to prompt text, through the model's own Jinja template in a sandbox."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import jinja2
from jinja2 import meta, sandbox

from engine.errors import ModelError, RequestError

MAX_TEMPLATE_CHARS = 128 * 1024
MAX_PROMPT_CHARS = 8 * 1024 * 1024
_GIVEN = frozenset({"messages", "tools", "add_generation_prompt", "strftime_now"})
_TEMPLATE_FAULTS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class ChatTemplate:
    """A compiled chat template.

    The template comes from the model, never from a client. It runs in Jinja's immutable sandbox, and its output
    is cut off with an error at `MAX_PROMPT_CHARS`. It is told no date, as a prompt that changes by the day would
    never be cached.

    Attributes:
        source: as the model brings it.
        options: names a request may set, besides what every conversation has.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        if len(source) > MAX_TEMPLATE_CHARS:
            raise ModelError(f"the chat template is longer than {MAX_TEMPLATE_CHARS} characters")
        environment = sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _refuse
        environment.filters["tojson"] = _to_json
        try:
            self._template = environment.from_string(source)
            names = meta.find_undeclared_variables(environment.parse(source))
        except jinja2.TemplateError as error:
            raise ModelError(f"the chat template does not compile: {error}") from error
        self.source = source
        self._knows_tools = "tools" in names
        self.options = frozenset(names - _GIVEN - environment.globals.keys() - special_tokens.keys())
        self._special_tokens = dict(special_tokens)
        self._knows_developer = "developer" in source

    @property
    def knows_tools(self) -> bool:
        """Whether it shows tools to the model."""
        return self._knows_tools

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        options: Mapping[str, str | float] | None = None,
    ) -> str:
        """Render a conversation, ending where the assistant's answer begins.

        Args:
            messages: as `engine.protocol.messages` returns them.
            tools: what the assistant may call, as the client wrote it.
            options: values of names in `options`.

        Raises:
            RequestError: the template refuses these messages, or the text is too long.
        """
        pieces: list[str] = []
        size = 0
        try:
            for piece in self._template.generate(
                messages=[self._known_role(message) for message in messages],
                tools=list(tools) if tools else None,
                add_generation_prompt=True,
                **(options or {}),
                **self._special_tokens,
            ):
                pieces.append(piece)
                size += len(piece)
                if size > MAX_PROMPT_CHARS:
                    raise RequestError(400, "The rendered prompt is too long.", param="messages")
        except _TEMPLATE_FAULTS as error:
            message = f"The model's chat template refused the messages: {error}"
            raise RequestError(400, message, param="messages") from error
        return "".join(pieces)

    def _known_role(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        if message["role"] == "developer" and not self._knows_developer:
            return {**message, "role": "system"}
        return message


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON as the templates' authors saw it: Jinja's own filter would spell out `<`, `>`, `&` and quotes."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
