"""TensorBoard: event files in a folder per run, written without torch or TensorFlow."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from snellen.runs.trackers.content import TrackedRun
from snellen.text import slug


def check(name: str) -> None:
    """Import the writer; raise UsageError if the folder cannot be made."""
    from tensorboard.summary.writer import event_file_writer  # noqa: F401

    Path(name).expanduser().mkdir(parents=True, exist_ok=True)


def log(name: str, run: TrackedRun) -> str:
    """Write the metrics as scalars and the settings as a text; return the run's folder in DIR."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    folder = Path(name).expanduser() / (slug(run.name, 120) or "run")
    step = run.step or 0
    scalars = [Summary.Value(tag=key, simple_value=value) for key, value in run.values.items()]
    writer = EventFileWriter(str(folder))
    try:
        writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=scalars)))
        text = Summary(value=[_text("settings", json.dumps(run.settings, indent=2, sort_keys=True))])
        writer.add_event(Event(wall_time=time.time(), step=step, summary=text))
    finally:
        writer.close()
    return str(folder)


def _text(tag: str, text: str) -> Any:
    """Return a text as TensorBoard's text plug-in shows it, in a code block of Markdown."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

    block = "\n".join(f"    {line}" for line in text.splitlines())
    tensor = TensorProto(
        dtype="DT_STRING",
        string_val=[block.encode()],
        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
    )
    plugin = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    return Summary.Value(tag=f"{tag}/text_summary", metadata=plugin, tensor=tensor)
