"""The facts of Every Eval Ever 0.3.0 as JSON schemas: which members an object has, which of them it needs, and their types.

Reduced to what an export writes; the project's own validator is run where it is installed (`make test-external`).
"""

from __future__ import annotations

from typing import Any

TEXT, WHOLE, NUMBER, BOOLEAN = (
    {"type": "string"},
    {"type": "integer", "minimum": 0},
    {"type": "number"},
    {"type": "boolean"},
)
TEXTS = {"type": "array", "items": TEXT}
DETAILS = {"type": "object", "additionalProperties": TEXT}


def fields(required: str, *, closed: bool = False, **members: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": required.split(),
        **({"additionalProperties": False} if closed else {}),
    }


def listed(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


BOUND = {"oneOf": [NUMBER, {"enum": ["Infinity", "-Infinity"]}]}
MODEL = fields(
    "name id additional_details",
    name=TEXT,
    id=TEXT,
    developer=TEXT,
    additional_details={
        "type": "object",
        "required": ["deployment_type", "model_availability"],
        "properties": {
            "deployment_type": {"enum": ["self_deployed", "externally_managed", "unknown"]},
            "model_availability": {"enum": ["open_weights", "closed_weights", "unknown"]},
        },
        "additionalProperties": TEXT,
    },
)
RESULT = fields(
    "evaluation_name source_data metric_config score_details",
    evaluation_result_id=TEXT,
    evaluation_name=TEXT,
    source_data=fields(
        "dataset_name source_type", dataset_name=TEXT, source_type={"const": "other"}, additional_details=DETAILS
    ),
    metric_config=fields(
        "lower_is_better score_type min_score max_score",
        lower_is_better=BOOLEAN,
        score_type={"const": "continuous"},
        min_score=BOUND,
        max_score=BOUND,
    ),
    score_details=fields(
        "score",
        score=NUMBER,
        details=DETAILS,
        uncertainty=fields(
            "",
            num_samples=WHOLE,
            confidence_interval=fields("lower upper", lower=NUMBER, upper=NUMBER, confidence_level=NUMBER, method=TEXT),
        ),
    ),
    generation_config=fields(
        "",
        generation_args=fields("", closed=True, temperature=NUMBER, top_p=NUMBER, max_tokens=WHOLE),
        additional_details=DETAILS,
    ),
)
PLACE = "^data/[^/]+/[^/]+/[^/]+/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}_samples\\.jsonl$"
AGGREGATE = fields(
    "schema_version evaluation_id retrieved_timestamp source_metadata model_info eval_library evaluation_results",
    closed=True,
    schema_version={"const": "0.3.0"},
    evaluation_id=TEXT,
    evaluation_timestamp=TEXT,
    retrieved_timestamp=TEXT,
    source_metadata=fields(
        "source_type source_organization_name evaluator_relationship",
        source_name=TEXT,
        source_type={"const": "evaluation_run"},
        source_organization_name=TEXT,
        evaluator_relationship={"enum": ["first_party", "third_party", "collaborative", "other"]},
    ),
    eval_library=fields("name version", name=TEXT, version=TEXT),
    model_info=MODEL,
    evaluation_results=listed(RESULT),
    detailed_evaluation_results=fields(
        "format file_path",
        format={"const": "jsonl"},
        file_path={"type": "string", "pattern": PLACE},
        hash_algorithm={"const": "sha256"},
        checksum=TEXT,
        total_rows=WHOLE,
    ),
)
INSTANCE = fields(
    "schema_version evaluation_id model_id evaluation_name sample_id interaction_type input answer_attribution evaluation",
    closed=True,
    schema_version={"const": "0.3.0"},
    evaluation_id=TEXT,
    evaluation_result_id=TEXT,
    model_id=TEXT,
    evaluation_name=TEXT,
    sample_id=TEXT,
    sample_hash=TEXT,
    interaction_type={"enum": ["single_turn", "agentic"]},
    input=fields("raw reference", raw=TEXT, reference=TEXTS, choices=TEXTS),
    output=fields("raw", raw=TEXTS, reasoning_trace=TEXTS),
    messages=listed(fields("turn_idx role", turn_idx=WHOLE, role=TEXT, content=TEXT, tool_call_id=TEXTS)),
    answer_attribution=listed(
        fields(
            "turn_idx source extracted_value extraction_method is_terminal",
            turn_idx=WHOLE,
            source=TEXT,
            extracted_value=TEXT,
            extraction_method=TEXT,
            is_terminal=BOOLEAN,
        )
    ),
    evaluation=fields("score is_correct", score=NUMBER, is_correct=BOOLEAN, num_turns=WHOLE, tool_calls_count=WHOLE),
    token_usage=fields(
        "input_tokens output_tokens total_tokens", input_tokens=WHOLE, output_tokens=WHOLE, total_tokens=WHOLE
    ),
    performance=fields("", latency_ms=NUMBER),
    error=TEXT,
    metadata=DETAILS,
)
INSTANCE["allOf"] = [
    {
        "if": {"properties": {"interaction_type": {"const": kind}}},
        "then": {"required": [needed], "not": {"required": [other]}},
    }
    for kind, needed, other in (("single_turn", "output", "messages"), ("agentic", "messages", "output"))
]
