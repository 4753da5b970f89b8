"""Export of a run as trajectories in ATIF 1.8 (Agent Trajectory Interchange Format): one JSON file a sample.

Agents and `tools:` have a trace of every turn and tool call; for other models a trajectory is the question and the reply.
Images lie in images/ by their SHA-256, and are named by path. Gold answers, scores and keys are not written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from snellen import __version__
from snellen.engine.journal import record_name
from snellen.errors import SnellenError
from snellen.formats.writers import Exported
from snellen.media import other_pixels
from snellen.media.decode import read_header
from snellen.models import trace
from snellen.models.trace import Step
from snellen.redaction import redact_bytes
from snellen.runs.run import Run
from snellen.sources.journal_lines import bounded_lines
from snellen.text import slug
from snellen.types import Image, Record, Sample, Text, Video

VERSION = "ATIF-v1.8"
MEDIA_TYPES = {"jpeg": "jpg", "png": "png", "gif": "gif", "webp": "webp"}
"""Image formats that ATIF knows, with their file endings."""
_NAME_LENGTH = 100


class TrajectoryFolder:
    """Writes the trajectories of one run into a folder, and each image once."""

    def __init__(self, run: Run, folder: Path) -> None:
        self._run = run
        self._folder = folder
        self._traces = TraceIndex(run.folder.traces)
        self._agent = agent(run)
        self._encode = msgspec.json.Encoder(enc_hook=str, order="deterministic").encode
        self.files: list[Path] = []
        self.images: dict[str, Path] = {}
        self.omitted = 0

    def add(self, sample: Sample, record: Record) -> None:
        """Write the trajectory of one record."""
        content = self.trajectory(sample, record)
        path = self._folder / f"{_file_stem(sample.id, record.repeat)}.json"
        path.write_bytes(redact_bytes(msgspec.json.format(self._encode(content), indent=1)) + b"\n")
        self.files.append(path)

    def trajectory(self, sample: Sample, record: Record) -> dict[str, Any]:
        """Return the trajectory as JSON."""
        steps = self._traces.steps(sample.id, record.repeat)
        question = self._question(sample, steps)
        answers = list(self._answering(steps) if steps else _reply(record))
        if answers and answers[-1]["source"] == "agent":
            last, response = answers[-1], record.response
            last["timestamp"] = _time(record.finished_at)
            if response is not None and response.reasoning:
                last["reasoning_content"] = response.reasoning
        numbered = [{"step_id": number, **step} for number, step in enumerate([*question, *answers], 1)]
        numbered[0]["timestamp"] = _time(record.started_at)
        details: dict[str, Any] = {
            "benchmark": self._run.benchmark.name,
            "sample_id": sample.id,
            "repeat": record.repeat,
            "status": record.status,
            "finish_reason": None if record.response is None else record.response.finish_reason,
            "error": None if record.error is None else msgspec.to_builtins(record.error),
        }
        fingerprint = self._run.meta.fingerprint
        return {
            "schema_version": VERSION,
            "session_id": fingerprint,
            "trajectory_id": f"{fingerprint}/{record_name(sample.id, record.repeat)}",
            "agent": self._agent,
            "steps": numbered,
            "final_metrics": _final_metrics(numbered, record),
            "extra": {name: value for name, value in details.items() if value not in (None, "")},
        }

    def _question(self, sample: Sample, steps: Sequence[Step]) -> list[dict[str, Any]]:
        """Return what stands before the first reply: a system prompt, and the question with its images."""
        opening = [step for step in steps if step.turn == 0 and step.role == "user"]
        text = "\n\n".join(step.text for step in opening if step.text)
        content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        videos = 0
        for part in sample.prompt.parts:
            if isinstance(part, Text):
                content += [] if text else [{"type": "text", "text": part.text}]
            elif isinstance(part, Image):
                content += self._image(part)
            elif isinstance(part, Video):
                videos += not part.frames
                content += [image for frame in part.frames for image in self._image(frame)]
        user: dict[str, Any] = {"source": "user", "message": _message(content)}
        seen = [digest for step in opening for digest in step.images]
        extra: dict[str, Any] = {"images_sha256": seen} if seen else {}
        if videos:
            self.omitted += videos
            extra["videos_omitted"] = videos
        if extra:
            user["extra"] = extra
        system = [{"source": "system", "message": sample.prompt.system}] if sample.prompt.system else []
        return [*system, user]

    def _answering(self, steps: Sequence[Step]) -> Iterator[dict[str, Any]]:
        """Yield the agent's turns, each with its tool calls and their results, and what was handed over in between."""
        turn: dict[str, Any] | None = None
        calls = 0
        for step in steps:
            if step.role == "user":
                if step.turn > 0:
                    yield from [] if turn is None else [turn]
                    turn = None
                    yield self._handed_over(step)
            elif step.role == "assistant":
                yield from [] if turn is None else [turn]
                turn = _agent_step(step)
            else:
                turn = turn if turn is not None else {"source": "agent", "message": ""}
                calls += 1
                self._add_call(turn, step, f"call_{calls}")
        yield from [] if turn is None else [turn]

    def _handed_over(self, step: Step) -> dict[str, Any]:
        content = [{"type": "text", "text": step.text}] if step.text else []
        content += [part for digest in step.images for part in self._known_image(digest)]
        result: dict[str, Any] = {"source": "user", "message": _message(content)}
        return {**result, "extra": {"images_sha256": list(step.images)}} if step.images else result

    def _add_call(self, turn: dict[str, Any], step: Step, name: str) -> None:
        call: dict[str, Any] = {"tool_call_id": name, "function_name": step.tool or "unknown", "arguments": {}}
        if isinstance(step.arguments, Mapping):
            call["arguments"] = dict(step.arguments)
        elif step.arguments is not None:
            call["extra"] = {"unparsed_arguments": step.arguments}
        images = [part for digest in step.images for part in self._known_image(digest)]
        text = [{"type": "text", "text": step.result}] if step.result else []
        result: dict[str, Any] = {"source_call_id": name, "content": [*text, *images] if images else step.result}
        facts = {"error": step.error, "seconds": step.seconds, "images_sha256": list(step.images)}
        if extra := {fact: value for fact, value in facts.items() if value}:
            result["extra"] = extra
        turn.setdefault("tool_calls", []).append(call)
        turn.setdefault("observation", {"results": []})["results"].append(result)

    def _image(self, image: Image) -> list[dict[str, Any]]:
        """Return the part that names an image, and write its file; nothing if it cannot be read or has another format."""
        try:
            data = image.blob.read()
        except (SnellenError, OSError):
            self.omitted += 1
            return []
        header = read_header(data)
        if header is None or header.format not in MEDIA_TYPES:
            self.omitted += 1
            return []
        digest = hashlib.sha256(data).hexdigest()
        path = self._folder / "images" / f"{digest}.{MEDIA_TYPES[header.format]}"
        if digest not in self.images:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            self.images[digest] = path
        return _image_part(path)

    def _known_image(self, digest: str) -> list[dict[str, Any]]:
        return _image_part(self.images[digest]) if digest in self.images else []


def write_trajectories(
    answers: Iterator[tuple[Sample, Record]], folder: Path, model: str, stamp: str, *, run: Run
) -> Exported:
    """Trajectories in ATIF 1.8: one JSON file per sample with turns, tool calls and images, without gold answers."""
    written = TrajectoryFolder(run, folder)
    for sample, record in answers:
        written.add(sample, record)
    notes = []
    if written.omitted:
        notes.append(
            f"{written.omitted:,} images or videos are not included: unreadable, or of a format that ATIF lacks"
        )
    media = run.meta.spec.options.media
    if other_pixels(media):
        notes.append("images are included as the data has them; the model got them as the run's image settings say")
    if run.benchmark.restricted:
        notes.append(
            f"the files include questions and images of {run.benchmark.name}, whose licence restricts passing them on"
        )
    return Exported((*written.files, *written.images.values()), tuple(notes))


class TraceIndex:
    """The traces of a run by sample and repeat: the place of each last attempt, so that memory holds no trace."""

    def __init__(self, folder: Path) -> None:
        self._places: dict[tuple[str, int], tuple[Path, int]] = {}
        for path in sorted(folder.glob("*.jsonl")):
            with path.open("rb") as file:
                start = 0
                for line in bounded_lines(file, path):
                    try:
                        head = msgspec.json.decode(line, type=_TraceHead)
                    except (ValueError, RecursionError):  # a torn last line
                        continue
                    finally:
                        place, start = start, start + len(line)
                    self._places[head.sample_id, head.repeat] = (path, place)

    def steps(self, sample_id: str, repeat: int) -> list[Step]:
        """Return the steps of a sample; none if its model keeps no steps."""
        if (sample_id, repeat) not in self._places:
            return []
        path, start = self._places[sample_id, repeat]
        with path.open("rb") as file:
            file.seek(start)
            try:
                return trace.read(msgspec.json.decode(file.readline(), type=_TraceLine).trace)
            except (ValueError, RecursionError):  # an API's exchange, or another shape
                return []


class _TraceHead(msgspec.Struct):
    sample_id: str
    repeat: int = 0


class _TraceLine(msgspec.Struct):
    trace: Any = None


def agent(run: Run) -> dict[str, Any]:
    """Return the agent of a run: that of `agent:`, or Snellen itself."""
    identity = run.meta.identity.get("model")
    known: Mapping[str, Any] = identity if isinstance(identity, Mapping) else {}
    kind, _, name = run.meta.spec.model.partition(":")
    if known.get("kind") == "agent":
        return {
            "name": str(known.get("agent")),
            "version": str(known.get("version")),
            "model_name": str(known.get("model")),
            "extra": {name: known[name] for name in ("sandbox", "network", "limits") if name in known},
        }
    versions = run.meta.environment.get("versions")
    version = versions.get("snellen") if isinstance(versions, Mapping) else None
    result: dict[str, Any] = {
        "name": "snellen",
        "version": str(version or __version__),
        "model_name": str(known.get("model") or name or kind),
        "extra": {"kind": kind},
    }
    tools = known.get("tools")
    if isinstance(tools, Mapping):
        result["extra"]["tools"] = tools.get("tools")
    return result


def _agent_step(step: Step) -> dict[str, Any]:
    result: dict[str, Any] = {"source": "agent", "message": step.text, "llm_call_count": 1}
    if step.tokens_in or step.tokens_out:
        result["metrics"] = {"prompt_tokens": step.tokens_in, "completion_tokens": step.tokens_out}
    facts = {"error": step.error, "seconds": step.seconds}
    if extra := {fact: value for fact, value in facts.items() if value}:
        result["extra"] = extra
    return result


def _reply(record: Record) -> Iterator[dict[str, Any]]:
    """Yield the one step of a model without a trace; nothing if it gave no reply."""
    response = record.response
    if response is None:
        return
    usage = response.usage
    step: dict[str, Any] = {"source": "agent", "message": response.text, "llm_call_count": 1}
    if usage.input_tokens or usage.output_tokens:
        step["metrics"] = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
        if usage.cached_tokens:
            step["metrics"]["cached_tokens"] = usage.cached_tokens
        if usage.cost is not None and not usage.lacks:
            step["metrics"]["cost_usd"] = usage.cost
    if response.model:
        step["model_name"] = response.model
    yield step


def _final_metrics(steps: Sequence[Mapping[str, Any]], record: Record) -> dict[str, Any]:
    usage = None if record.response is None else record.response.usage
    each = [step["metrics"] for step in steps if "metrics" in step]
    result: dict[str, Any] = {
        "total_prompt_tokens": sum(metrics["prompt_tokens"] for metrics in each),
        "total_completion_tokens": sum(metrics["completion_tokens"] for metrics in each),
        "total_steps": len(steps),
    }
    if usage is not None:
        result |= {"total_prompt_tokens": usage.input_tokens, "total_completion_tokens": usage.output_tokens}
        result["total_cached_tokens"] = usage.cached_tokens
        if usage.cost is not None and not usage.lacks:
            result["total_cost_usd"] = usage.cost
    return result


def _message(content: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return plain text where there is nothing but text, as ATIF prefers it."""
    if all(part["type"] == "text" for part in content):
        return "\n".join(part["text"] for part in content)
    return content


def _image_part(path: Path) -> list[dict[str, Any]]:
    ending = path.suffix.removeprefix(".")
    media_type = next(name for name, known in MEDIA_TYPES.items() if known == ending)
    source = {"media_type": f"image/{media_type}", "path": f"images/{path.name}"}
    return [{"type": "image", "source": source}]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _file_stem(sample_id: str, repeat: int) -> str:
    """Return the file name of a sample: its id where it can be one, else made safe and told apart by a digest."""
    safe = slug(sample_id, _NAME_LENGTH)
    if safe != sample_id:
        safe = f"{safe or 'sample'}-{hashlib.sha256(sample_id.encode('utf-8', 'replace')).hexdigest()[:8]}"
    return f"{safe}.{repeat}" if repeat else safe
