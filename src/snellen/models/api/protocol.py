"""Protocols of the services: address, headers, bodies, replies and errors of one model, without a connection.

`open_protocol` ties a service's row to the writer and reader of its protocol. `ApiModel` sends what it writes; batches
put the same bodies into files and read the rows that come back with the same reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from msgspec import structs

from snellen.errors import AuthError, BadRequestError, ModelError, UsageError
from snellen.models.api.endpoint import Endpoint
from snellen.models.api.errors import from_status
from snellen.models.api.prices import Price, find_price, provider_of
from snellen.models.api.reply import place_of_text
from snellen.models.api.request import Body, BodyWriter
from snellen.models.api.services import Service, changed_fields, find_key, service
from snellen.models.base import ModelOptions
from snellen.models.image_tokens import ImageLimit
from snellen.types import NOWHERE, Prompt, Response

if TYPE_CHECKING:
    from snellen.models.api.cloud import Credentials

LOW_DETAIL_SIDE = 512
"""Pixels of the longest side that OpenAI keeps with `--detail low`."""
REQUEST_ID_HEADERS = ("x-request-id", "request-id", "apim-request-id", "x-goog-request-id", "x-amzn-requestid")


class _ProtocolForms(NamedTuple):
    """The writer and the reader of one protocol."""

    writer: Callable[[str, ModelOptions, Service], BodyWriter]
    read: Callable[..., Response]


_FORMS: Mapping[str, tuple[str, str]] = {
    "chat": ("request:BodyWriter", "response:read_reply"),
    "responses": ("openai_responses:ResponsesWriter", "openai_responses:read_response"),
    "messages": ("anthropic_messages:MessagesWriter", "anthropic_messages:read_message"),
    "gemini": ("gemini_content:GeminiWriter", "gemini_content:read_generated"),
    "converse": ("bedrock_converse:ConverseWriter", "bedrock_converse:read_converse"),
}
"""Places of the writer and the reader of each protocol in this package. A run imports those of its own service."""


def _forms(protocol: str) -> _ProtocolForms:
    return _ProtocolForms(*(_member(place) for place in _FORMS[protocol]))


def _member(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"snellen.models.api.{module}"), name)


class ServiceProtocol:
    """Forms of one model's requests and replies at one service.

    Attributes:
        kind: of the model: `anthropic`.
        model: as the service calls it.
        row: the service's data.
        endpoint: address with the version, without the path.
        writer: of request bodies.

    Raises:
        UsageError: the address cannot be used, or an option is set that the service does not have.
    """

    def __init__(self, kind: str, model: str, options: ModelOptions) -> None:
        self.kind = kind
        self.model = model
        self.name = service_name(kind, model, options)
        self.row = service(self.name)
        self._key_env = options.key_env
        self._place: dict[str, str] = {}
        if self.row.cloud:
            from snellen.models.api.cloud import find_place

            self._place = find_place(self.row, options.base_url, signed=self.key() is None)
        self.endpoint: Endpoint = self.row.endpoint(options.base_url, model, self._place)
        forms = _forms(self.row.protocol)
        self.writer = forms.writer(model, options, self.row)
        self._read = forms.read
        self.writer.limit = _image_limit(kind, str(self.endpoint), model, options.detail)

    async def write(self, prompt: Prompt) -> Body:
        """Return the body of one question. Raises InputError."""
        return await self.writer.write(prompt)

    def read_reply(
        self, data: bytes, latency_s: float, price: Price | None = None, trace: Any = None, request_id: str = ""
    ) -> Response:
        """Return the answer in a reply of HTTP status 2xx, or in the reply of a batch's row.

        Args:
            data: the reply's JSON.
            latency_s: seconds that it took; 0 for a batch.
            price: of the model's tokens.
            trace: kept in the response.
            request_id: the provider's, where a header or a batch's row names it.

        Raises:
            RefusalError: the model or the service declined; its `response` holds tokens and request id.
            ModelError: there is no answer.
        """
        response = self._read(data, latency_s, price, trace, request_id)
        if response.text[:1].isalnum():
            return response
        from snellen.scoring.replies.reply import silence  # readers of replies are no part of a start

        if silence(response.text) == NOWHERE:
            response = structs.replace(response, empty=place_of_text(self.row.protocol, data))
        return response

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
        """Return the error of a reply whose HTTP status is not 2xx, in the service's own words."""
        error = from_status(status, headers, body)
        if self.kind != "api" and isinstance(error, AuthError | BadRequestError) and error.hint:
            error.hint = self._hint(error, status)
        if error.status == "refused":
            error.response = Response("", finish_reason="refused", request_id=request_id(headers))
        return error

    def _hint(self, error: ModelError, status: int) -> str:
        if status == 404:
            return f"Check the model's name: {self.row.title} may call it otherwise."
        if status in (400, 401, 403):
            return f"Check the {self.key_words} and what it may use."
        return error.hint

    def url(self, path: str | None = None) -> str:
        """Return the address of a path of the service's row, by default that of a question. `{model}` is filled in."""
        if path is None:
            path = self.row.stream_path if self.writer.stream and self.row.stream_path else self.row.path
        safe = "" if self.row.protocol == "converse" else "/"  # the whole name of a profile is one segment there
        return self.endpoint.url(path.format(model=quote(self.model, safe=safe), **self._place))

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of every request, the key among them and nowhere else."""
        headers = self.row.key_headers(key)
        if self.kind == "api" and key is not None and "api-version=" in self.endpoint.query:
            headers["api-key"] = key  # Azure's name for it
        return headers

    @property
    def key_names(self) -> tuple[str, ...]:
        """Names of the variables that may hold the key: the user's, else the service's."""
        return (self._key_env,) if self._key_env else self.row.key_variables

    @property
    def key_words(self) -> str:
        """Name for messages: the variables of the key, or the cloud's credentials."""
        names = " or ".join(self.key_names)
        if not self.row.cloud:
            return f"key ({names})"
        return f"credentials of {'AWS' if self.row.cloud == 'aws' else 'Google Cloud'}{f' or {names}' if names else ''}"

    def key(self) -> str | None:
        """Return the key, registered for redaction; None where there is none. Raises PreflightError, UsageError."""
        return find_key(self._key_env, self.row.key_variables) if self.key_names else None

    def credentials(self, key: str | None) -> Credentials | None:
        """Return the cloud's credentials for requests without a key; None elsewhere. Raises MissingExtraError."""
        if key is not None or not self.row.cloud:
            return None
        from snellen.models.api.cloud import open_credentials

        return open_credentials(self.row, self._place)

    def identity(self) -> dict[str, Any]:
        """Return what of the service can change an answer, beside model, address and settings; empty for `api`."""
        changed = changed_fields(self.name)
        facts: dict[str, Any] = {}
        if self.writer.effort is not None:
            facts["effort"] = self.writer.effort
        if self.writer.detail != "auto":
            facts["detail"] = self.writer.detail
        if self.kind != "api":
            facts |= {"protocol": self.row.protocol, "headers": dict(self.row.headers)}
        return facts | ({"service": changed} if changed else {})


def _image_limit(kind: str, address: str, model: str, detail: str) -> ImageLimit | None:
    """Return the size up to which the service does not scale images down; None where it is not known, or there is none."""
    provider = provider_of(kind, address)
    row = service(provider or kind)
    if row.unscaled_side is None or (detail == "original" and row.original):
        return None
    model_price = find_price(provider, model)
    side = min(row.unscaled_side, LOW_DETAIL_SIDE) if detail == "low" else row.unscaled_side
    return ImageLimit(None if model_price is None else model_price.price.image_rule(detail), side)


def service_name(kind: str, model: str, options: ModelOptions) -> str:
    """Return the row of services.toml for a kind of model. Raises UsageError for --responses elsewhere."""
    if kind == "vertex" and model.startswith("claude") and not options.responses:
        return "vertex-anthropic"
    if not options.responses:
        return kind
    if kind != "openai":
        raise UsageError(f"--responses is for openai:MODEL, not for {kind}:.", "Omit --responses.")
    return "openai-responses"


def request_id(headers: Mapping[str, str]) -> str:
    """Return the provider's id of a request from the reply's headers; "" where there is none."""
    for name in REQUEST_ID_HEADERS:
        if value := headers.get(name):
            return value[:200]
    return ""


def open_protocol(kind: str, model: str, options: ModelOptions) -> ServiceProtocol:
    """Return the forms of one model.

    Args:
        kind: api, openai, anthropic, gemini, openrouter, azure, bedrock or vertex.
        model: as the service calls it, without the kind.
        options: the model's settings.

    Raises:
        UsageError: as `ServiceProtocol`.
    """
    return ServiceProtocol(kind, model, options)
