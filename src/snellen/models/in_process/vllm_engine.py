"""vLLM inside this process, by its asynchronous engine.

Source of the interface: vLLM 0.33.0, `vllm.v1.engine.async_llm.AsyncLLM`, `vllm.sampling_params.SamplingParams`,
`vllm.lora.request.LoRARequest` and `vllm.config.lora.MaxLoRARanks`.
"""

from __future__ import annotations

import itertools
from typing import Any

from snellen.errors import ModelError
from snellen.models.in_process.model import EngineReply, EngineRequest, EngineStart

FINISH_REASONS = {"stop": "stop", "length": "length"}
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Values that vLLM takes as the largest rank of an adapter."""


class VllmEngine:
    """vLLM's engine; its workers run in processes of their own."""

    def __init__(self) -> None:
        self._engine: Any = None
        self._sampling: Any = None
        self._options: dict[str, Any] = {}
        self._numbers = itertools.count()

    def start(self, start: EngineStart) -> None:
        """Start the engine from a checkpoint's folder. Raises whatever vLLM raises."""
        from vllm import SamplingParams
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments: dict[str, Any] = {"disable_log_stats": True}
        if start.adapter is not None:
            from vllm.lora.request import LoRARequest

            config = start.adapter.config
            rank = max(config["r"], *(config.get("rank_pattern") or {}).values(), 1)
            arguments |= {"enable_lora": True, "max_lora_rank": next(step for step in (*RANKS, rank) if step >= rank)}
            self._options = {"lora_request": LoRARequest("adapter", 1, str(start.adapter.folder.absolute()))}
        arguments |= start.arguments
        settings = AsyncEngineArgs(model=start.folder, dtype=start.dtype, seed=start.seed, **arguments)
        self._sampling = SamplingParams
        self._engine = AsyncLLM.from_engine_args(settings)

    async def generate(self, request: EngineRequest) -> EngineReply:
        """Answer one prompt; a cancelled request is aborted in the engine.

        Raises:
            ModelError: the engine ended it without an answer.
        """
        chosen, form = request.settings, dict[str, Any]()
        if chosen.schema is not None:
            from vllm.sampling_params import StructuredOutputsParams

            form["structured_outputs"] = StructuredOutputsParams(json=dict(chosen.schema))
        sampling = self._sampling(
            max_tokens=chosen.max_new_tokens,
            temperature=chosen.temperature,
            top_p=chosen.top_p,
            stop=list(chosen.stop) or None,
            seed=chosen.seed,
            **form,
            **chosen.extra,
        )
        prompt: dict[str, Any] = {"prompt": request.text}
        if request.images:
            prompt["multi_modal_data"] = {"image": request.images}
        name = f"snellen-{next(self._numbers)}"
        last: Any = None
        async for output in self._engine.generate(prompt, sampling, name, **self._options):
            last = output
        if last is None or not last.outputs:
            raise ModelError("vLLM ended the request without an answer.")
        answer = last.outputs[0]
        if answer.finish_reason == "abort":
            raise ModelError("vLLM aborted the request.")
        return EngineReply(
            text=answer.text,
            input_tokens=len(last.prompt_token_ids or ()),
            output_tokens=len(answer.token_ids),
            cached_tokens=last.num_cached_tokens or 0,
            finish_reason=FINISH_REASONS.get(answer.finish_reason or "", ""),
        )

    def stop(self) -> None:
        """Stop the engine and its processes."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.shutdown()
