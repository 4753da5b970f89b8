"""The facts of ATIF 1.8 as a JSON schema: which members an object has, which of them it needs, and nothing else."""

from __future__ import annotations

from typing import Any

TEXT, WHOLE, NUMBER, OBJECT = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "object"}


def closed(required: str, **members: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": required.split(),
        "additionalProperties": False,
    }


def listed(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


SOURCE = closed(
    "media_type path", media_type={"enum": ["image/jpeg", "image/png", "image/gif", "image/webp"]}, path=TEXT
)
PART = closed("type", type={"enum": ["text", "image", "audio"]}, text=TEXT, source=SOURCE)
CONTENT = {"anyOf": [TEXT, listed(PART)]}
CALL = closed(
    "tool_call_id function_name arguments", tool_call_id=TEXT, function_name=TEXT, arguments=OBJECT, extra=OBJECT
)
RESULT = closed("", source_call_id=TEXT, content=CONTENT, subagent_trajectory_ref=listed(OBJECT), extra=OBJECT)
METRICS = closed(
    "",
    prompt_tokens=WHOLE,
    completion_tokens=WHOLE,
    cached_tokens=WHOLE,
    cost_usd=NUMBER,
    prompt_token_ids=listed(WHOLE),
    completion_token_ids=listed(WHOLE),
    logprobs=listed(NUMBER),
    extra=OBJECT,
)
STEP = closed(
    "step_id source message",
    step_id={"type": "integer", "minimum": 1},
    timestamp=TEXT,
    source={"enum": ["system", "user", "agent"]},
    model_name=TEXT,
    reasoning_effort={"type": ["string", "number"]},
    message=CONTENT,
    reasoning_content=TEXT,
    tool_calls=listed(CALL),
    observation=closed("results", results=listed(RESULT)),
    metrics=METRICS,
    is_copied_context={"type": "boolean"},
    llm_call_count={"type": "integer", "minimum": 0},
    extra=OBJECT,
)
TRAJECTORY = closed(
    "agent steps",
    schema_version={"const": "ATIF-v1.8"},
    session_id=TEXT,
    trajectory_id=TEXT,
    agent=closed(
        "name version", name=TEXT, version=TEXT, model_name=TEXT, tool_definitions=listed(OBJECT), extra=OBJECT
    ),
    steps=listed(STEP, minItems=1),
    notes=TEXT,
    final_metrics=closed(
        "",
        total_prompt_tokens=WHOLE,
        total_completion_tokens=WHOLE,
        total_cached_tokens=WHOLE,
        total_cost_usd=NUMBER,
        total_steps={"type": "integer", "minimum": 0},
        extra=OBJECT,
    ),
    continued_trajectory_ref=TEXT,
    extra=OBJECT,
    subagent_trajectories=listed(OBJECT),
)
