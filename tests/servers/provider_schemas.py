"""Request bodies of OpenAI, Anthropic and Gemini as strict types: an unknown field, a wrong type or a missing one is an error.

Written from the providers' documented fields, not from what Snellen sends.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Probability = Annotated[float, Meta(ge=0.0, le=1.0)]
Penalty = Annotated[float, Meta(ge=-2.0, le=2.0)]
Positive = Annotated[int, Meta(ge=1)]
Text = Annotated[str, Meta(min_length=1)]


class Strict(Struct, forbid_unknown_fields=True):
    """A type that knows all its fields."""


class ChatImageUrl(Strict):
    url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


class ChatText(Strict, tag_field="type", tag="text"):
    text: str


class ChatImage(Strict, tag_field="type", tag="image_url"):
    image_url: ChatImageUrl


class ChatSystem(Strict, tag_field="role", tag="system"):
    content: Text


class ChatUser(Strict, tag_field="role", tag="user"):
    content: str | list[ChatText | ChatImage]


class ChatAssistant(Strict, tag_field="role", tag="assistant"):
    content: str


class StreamOptions(Strict):
    include_usage: bool


class PromptCacheOptions(Strict):
    ttl: Literal["30m"]


class NamedSchema(Strict):
    name: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    schema: dict[str, Any]
    strict: bool


class ResponseFormat(Strict, tag_field="type", tag="json_schema"):
    json_schema: NamedSchema


class ChatBody(Strict):
    model: Text
    messages: Annotated[list[ChatSystem | ChatUser | ChatAssistant], Meta(min_length=1)]
    max_completion_tokens: Positive | None = None
    max_tokens: Positive | None = None
    temperature: Annotated[float, Meta(ge=0.0, le=2.0)] | None = None
    top_p: Probability | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    seed: int | None = None
    stop: Annotated[list[str], Meta(max_length=4)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: PromptCacheOptions | None = None
    response_format: ResponseFormat | None = None


class InputText(Strict, tag_field="type", tag="input_text"):
    text: str


class InputImage(Strict, tag_field="type", tag="input_image"):
    """The bytes or the address stand in `image_url`, an uploaded file in `file_id`."""

    detail: Literal["auto", "low", "high", "original"]
    image_url: Text | None = None
    file_id: Text | None = None

    def __post_init__(self) -> None:
        if (self.image_url is None) == (self.file_id is None):
            raise ValueError("one of image_url and file_id")


class InputItem(Strict):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[InputText | InputImage]


class Reasoning(Strict):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
    summary: Literal["auto", "concise", "detailed"] | None = None


class TextFormat(NamedSchema, tag_field="type", tag="json_schema"):
    pass


class TextSettings(Strict):
    format: TextFormat


class ResponsesBody(Strict):
    model: Text
    input: Annotated[list[InputItem], Meta(min_length=1)]
    max_output_tokens: Annotated[int, Meta(ge=16)] | None = None
    temperature: Annotated[float, Meta(ge=0.0, le=2.0)] | None = None
    top_p: Probability | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    include: list[Literal["message.output_text.logprobs"]] | None = None
    reasoning: Reasoning | None = None
    store: bool | None = None
    stream: bool | None = None
    text: TextSettings | None = None


class Base64Source(Strict, tag_field="type", tag="base64"):
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    data: Text


class UrlSource(Strict, tag_field="type", tag="url"):
    url: str


class FileSource(Strict, tag_field="type", tag="file"):
    file_id: Text


class Transformations(Strict):
    oversized_image: Literal["downsize", "error"]


class CacheControl(Strict, tag_field="type", tag="ephemeral"):
    ttl: Literal["5m", "1h"] | None = None


class TextBlock(Strict, tag_field="type", tag="text"):
    text: Text
    cache_control: CacheControl | None = None


class ImageBlock(Strict, tag_field="type", tag="image"):
    source: Base64Source | UrlSource | FileSource
    transformations: Transformations | None = None
    cache_control: CacheControl | None = None


class AnthropicMessage(Strict):
    role: Literal["user", "assistant"]
    content: Text | list[TextBlock | ImageBlock]


class Adaptive(Strict, tag_field="type", tag="adaptive"):
    display: Literal["summarized", "omitted"] | None = None


class Disabled(Strict, tag_field="type", tag="disabled"):
    pass


class OutputFormat(Strict, tag_field="type", tag="json_schema"):
    schema: dict[str, Any]


class OutputConfig(Strict):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class MessagesBody(Strict):
    model: Text
    max_tokens: Positive
    messages: Annotated[list[AnthropicMessage], Meta(min_length=1)]
    system: Text | list[TextBlock] | None = None
    stop_sequences: list[str] | None = None
    temperature: Probability | None = None
    top_p: Probability | None = None
    top_k: Positive | None = None
    thinking: Adaptive | Disabled | None = None
    output_config: OutputConfig | None = None
    stream: bool | None = None


class InlineData(Strict):
    mimeType: Literal["image/jpeg", "image/png", "image/gif", "image/webp", "video/mp4"]
    data: Text


class FileData(Strict):
    mimeType: Literal["image/jpeg", "image/png", "image/gif", "image/webp", "video/mp4"]
    fileUri: Text


class PartResolution(Strict):
    level: Literal[
        "MEDIA_RESOLUTION_LOW", "MEDIA_RESOLUTION_MEDIUM", "MEDIA_RESOLUTION_HIGH", "MEDIA_RESOLUTION_ULTRA_HIGH"
    ]


class VideoMetadata(Strict):
    fps: Annotated[float, Meta(gt=0.0, le=24.0)] | None = None
    startOffset: str | None = None
    endOffset: str | None = None


class GeminiPart(Strict):
    text: str | None = None
    inlineData: InlineData | None = None
    fileData: FileData | None = None
    mediaResolution: PartResolution | None = None
    videoMetadata: VideoMetadata | None = None


class GeminiContent(Strict):
    role: Literal["user", "model"]
    parts: Annotated[list[GeminiPart], Meta(min_length=1)]


class SystemText(Strict):
    text: Text


class SystemInstruction(Strict):
    parts: list[SystemText]


class ThinkingConfig(Strict):
    includeThoughts: bool | None = None
    thinkingBudget: Annotated[int, Meta(ge=-1)] | None = None
    thinkingLevel: Literal["MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"] | None = None


class GenerationConfig(Strict):
    temperature: Annotated[float, Meta(ge=0.0, le=2.0)] | None = None
    topP: Probability | None = None
    topK: Positive | None = None
    presencePenalty: float | None = None
    frequencyPenalty: float | None = None
    maxOutputTokens: Positive | None = None
    stopSequences: Annotated[list[str], Meta(max_length=5)] | None = None
    seed: int | None = None
    responseLogprobs: bool | None = None
    logprobs: int | None = None
    mediaResolution: Literal["MEDIA_RESOLUTION_LOW", "MEDIA_RESOLUTION_MEDIUM", "MEDIA_RESOLUTION_HIGH"] | None = None
    thinkingConfig: ThinkingConfig | None = None
    responseMimeType: Literal["application/json"] | None = None
    responseJsonSchema: dict[str, Any] | None = None


class GeminiBody(Strict):
    contents: Annotated[list[GeminiContent], Meta(min_length=1)]
    systemInstruction: SystemInstruction | None = None
    generationConfig: GenerationConfig | None = None


BODIES: dict[str, Any] = {
    "chat": ChatBody,
    "responses": ResponsesBody,
    "messages": MessagesBody,
    "gemini": GeminiBody,
}
