"""SGLang inside this process, by its offline engine.

Source of the interface: SGLang 0.5.23, `sglang.srt.entrypoints.engine.Engine`, its `async_generate` and the names of
`sglang.srt.sampling.sampling_params.SamplingParams`; of adapters `sglang.srt.arg_groups.fields.lora`.
"""

from __future__ import annotations

import json
from typing import Any

from snellen.errors import ModelError
from snellen.models.in_process.model import EngineReply, EngineRequest, EngineStart

FINISH_REASONS = {"stop": "stop", "length": "length"}


class SglangEngine:
    """SGLang's engine; scheduler and detokenizer run in processes of their own."""

    def __init__(self) -> None:
        self._engine: Any = None
        self._options: dict[str, Any] = {}

    def start(self, start: EngineStart) -> None:
        """Start the engine from a checkpoint's folder. Raises whatever SGLang raises."""
        import sglang

        arguments: dict[str, Any] = {"model_path": start.folder, "dtype": start.dtype, "random_seed": start.seed}
        if start.adapter is not None:
            folder = str(start.adapter.folder.absolute())
            arguments |= {"lora_paths": {"adapter": folder}, "lora_strict_loading": True}
            self._options = {"lora_path": "adapter"}
        self._engine = sglang.Engine(**arguments, **start.arguments)

    async def generate(self, request: EngineRequest) -> EngineReply:
        """Answer one prompt.

        Raises:
            ModelError: the engine ended it without an answer.
        """
        chosen = request.settings
        sampling: dict[str, Any] = {
            "max_new_tokens": chosen.max_new_tokens,
            "temperature": chosen.temperature,
            "top_p": chosen.top_p,
            **chosen.extra,
        }
        if chosen.stop:
            sampling["stop"] = list(chosen.stop)
        if chosen.schema is not None:
            sampling["json_schema"] = json.dumps(chosen.schema)
        if chosen.seed is not None:
            sampling["sampling_seed"] = chosen.seed
        answer = await self._engine.async_generate(
            prompt=request.text, sampling_params=sampling, image_data=request.images or None, **self._options
        )
        facts = answer.get("meta_info") or {}
        finish = facts.get("finish_reason") or {}
        kind = finish.get("type", "") if isinstance(finish, dict) else str(finish)
        if kind == "abort":
            message = finish.get("message") if isinstance(finish, dict) else None
            raise ModelError(f"SGLang aborted the request{f': {message}' if message else '.'}")
        return EngineReply(
            text=answer["text"],
            input_tokens=int(facts.get("prompt_tokens") or 0),
            output_tokens=int(facts.get("completion_tokens") or 0),
            cached_tokens=int(facts.get("cached_tokens") or 0),
            finish_reason=FINISH_REASONS.get(kind, ""),
        )

    def stop(self) -> None:
        """Stop the engine and its processes."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.shutdown()
