"""Requests and replies of the rows of a batch, in the form of the model's ordinary calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from snellen.errors import BadRequestError, ModelError, RefusalError
from snellen.models.api.endpoint import Endpoint
from snellen.models.api.image_files import BATCH_VALID_S
from snellen.models.api.request import Body
from snellen.types import Prompt, Response

if TYPE_CHECKING:
    from snellen.models.api.model import ApiModel


class BatchRows:
    """Rows as the model writes and reads them outside of batches, at the price of a batch.

    Attributes:
        model: as the service calls it.
        row: the service's data.
        endpoint: address of the batch calls.
        host: of that address.
    """

    def __init__(self, model: ApiModel) -> None:
        self._model = model
        self.row = model.protocol.row
        self.model = model.protocol.model
        base = model.protocol.endpoint
        # Azure's older addresses name the deployment for single calls alone.
        self.endpoint = Endpoint(base.base.partition("/deployments/")[0], base.query)

    async def write(self, prompt: Prompt) -> Body:
        """Return the body; large images are uploaded. Raises ModelError."""
        body = await self._model.protocol.write(prompt)
        if body.files:
            body = await self._model.placed(body, BATCH_VALID_S)
        return body

    def read(self, reply: bytes, request: bytes, request_id: str = "") -> Response:
        """Return the answer. Raises ModelError."""
        try:
            return self._at_batch_price(self._model.read(Body((), request), reply, request_id))
        except RefusalError as error:
            if error.response is not None:
                error.response = self._at_batch_price(error.response)
            raise

    def read_error(self, status: int, reply: bytes) -> ModelError:
        """Return the error of a row whose status is not 2xx."""
        return self._model.protocol.read_error(status, {}, reply)

    def adapts(self, error: ModelError, request: bytes) -> bool:
        """Return True if the model writes later bodies differently because of this error."""
        if self._model.renews_upload(error, request):
            return True
        return isinstance(error, BadRequestError) and self._model.renamed(error, Body((), request))

    def _at_batch_price(self, response: Response) -> Response:
        """Return the response with the cost of a batch; the full one where no price of batches is known."""
        cost, saved, price = response.usage.cost, response.usage.cache_saved, self._model.price
        if cost is None or price is None or price.batch is None:
            return response
        saved = None if saved is None else saved * price.batch
        usage = structs.replace(response.usage, cost=cost * price.batch, cache_saved=saved)
        return structs.replace(response, usage=usage)
