"""Open the batches of a model behind an API: the protocol of its service, at its address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snellen.errors import UsageError
from snellen.models.api.batches.anthropic import AnthropicBatches
from snellen.models.api.batches.gemini import GeminiBatches
from snellen.models.api.batches.openai import OpenAiBatches
from snellen.models.api.batches.rows import BatchRows
from snellen.models.api.batches.service import BatchService
from snellen.models.api.batches.transport import BatchTransport
from snellen.models.base import ModelOptions

if TYPE_CHECKING:
    from snellen.models.api.model import ApiModel


def open_batches(model: ApiModel, options: ModelOptions) -> BatchService:
    """Return the batch service of a model. Nothing is sent, and no key is read, until the first call.

    Raises:
        UsageError: the service has no batches, or an option excludes them.
    """
    protocol = model.protocol
    if options.offline:
        return _files(model, options)
    if not protocol.row.batch_path:
        raise UsageError(
            f"--batch sends the questions to a service that answers them later, and {protocol.row.title} has none.",
            "Omit --batch, or name a service that offers batches: openai:, anthropic:, gemini:, api:.",
        )
    if options.stream:
        raise UsageError(
            "--stream reads replies while they are written, and a batch is answered as a whole.", "Omit --stream."
        )
    rows = BatchRows(model)
    transport = BatchTransport(rows.endpoint, lambda: protocol.headers(protocol.key()), options.timeout_s)
    if protocol.row.protocol == "messages":
        return AnthropicBatches(rows, transport)
    if protocol.row.protocol == "gemini":
        return GeminiBatches(rows, transport)
    return OpenAiBatches(rows, transport)


def _files(model: ApiModel, options: ModelOptions) -> BatchService:
    """Return the files of requests and results of a model that another program runs."""
    if model.protocol.row.protocol != "chat" or options.stream:
        raise UsageError(
            "Files of requests hold chat completions, each answered as a whole.",
            "Name the model as api:NAME, and omit --stream and --responses.",
        )
    from snellen.models.api.batches.files import FileBatches

    return FileBatches(BatchRows(model), model.request_file, model.result_files, ended=model.answering_ended)
