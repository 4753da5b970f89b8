"""vLLM and SGLang inside the process, by stand-ins with the names and arguments of the real packages' interface.

No engine can run without an accelerator, so these tests show what is sent to one and how its answers are read. The
stand-ins accept the arguments of vLLM 0.33.0 and SGLang 0.5.23 that Snellen uses, and no others.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tiny_adapters import IN_LANGUAGE_MODEL, write_adapter
from tiny_vlm import picture

from snellen.errors import BadRequestError, InputError, MissingExtraError, ModelError, PreflightError, UsageError
from snellen.models.base import ModelOptions
from snellen.models.local.adapters import find_adapter
from snellen.models.registry import open_model
from snellen.sources.blobs import BytesBlob
from snellen.types import Generation, Image, MediaSettings, Prompt, Response, Text, Turn

VLLM = {
    "vllm/__init__.py": """
import json
CALLS = []
class SamplingParams:
    def __init__(self, *, max_tokens=16, temperature=1.0, top_p=1.0, stop=None, seed=None, top_k=0, **more):
        if unknown := more.keys() - {"structured_outputs", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"}:
            raise TypeError(f"unexpected {unknown}")
        if top_k < 0:
            raise ValueError(f"top_k must be 0 or more, got {top_k}")
        self.values = dict(max_tokens=max_tokens, temperature=temperature, top_p=top_p, stop=stop, seed=seed, top_k=top_k, **more)
""",
    "vllm/sampling_params.py": """
from dataclasses import dataclass
@dataclass
class StructuredOutputsParams:
    json: str | dict | None = None
""",
    "vllm/engine/__init__.py": "",
    "vllm/engine/arg_utils.py": """
from dataclasses import dataclass
@dataclass
class AsyncEngineArgs:
    model: str
    dtype: str = "auto"
    seed: int = 0
    disable_log_stats: bool = False
    max_model_len: int | None = None
    enable_lora: bool = False
    max_lora_rank: int = 16
""",
    "vllm/lora/__init__.py": "",
    "vllm/lora/request.py": """
import msgspec
class LoRARequest(msgspec.Struct, array_like=True):
    lora_name: str
    lora_int_id: int
    lora_path: str = ""
""",
    "vllm/v1/__init__.py": "",
    "vllm/v1/engine/__init__.py": "",
    "vllm/v1/engine/async_llm.py": """
import asyncio
from types import SimpleNamespace
import vllm
class AsyncLLM:
    @classmethod
    def from_engine_args(cls, engine_args):
        if engine_args.max_model_len == 1:
            raise RuntimeError("not enough memory for the KV cache")
        engine = cls()
        engine.arguments, engine.running, engine.most, engine.stopped = engine_args, 0, 0, False
        vllm.CALLS.append(engine)
        return engine
    async def generate(self, prompt, sampling_params, request_id, *, lora_request=None):
        self.running += 1
        self.most = max(self.most, self.running)
        vllm.CALLS.append((prompt, sampling_params.values, request_id, lora_request))
        try:
            for part in ("The", "The answer"):
                await asyncio.sleep(0.01)
                yield self.output(part, None)
            finish = "length" if sampling_params.values["max_tokens"] == 2 else "stop"
            yield self.output("The answer is B.", "abort" if "abort" in prompt["prompt"] else finish)
        finally:
            self.running -= 1
    def output(self, text, finish):
        answer = SimpleNamespace(text=text, token_ids=tuple(range(len(text.split()))), finish_reason=finish)
        return SimpleNamespace(outputs=[answer], prompt_token_ids=[1] * 30, num_cached_tokens=8)
    def shutdown(self, timeout=None):
        self.stopped = True
""",
}
SGLANG = {
    "sglang/__init__.py": """
CALLS = []
class Engine:
    def __init__(self, model_path, dtype="auto", random_seed=None, tp_size=1, lora_paths=None, lora_strict_loading=False):
        self.arguments, self.stopped = dict(locals()), False
        CALLS.append(self)
    async def async_generate(self, prompt=None, sampling_params=None, input_ids=None, image_data=None, lora_path=None):
        CALLS.append((prompt, sampling_params, image_data, lora_path))
        kind = "length" if sampling_params["max_new_tokens"] == 2 else "abort" if "abort" in prompt else "stop"
        finish = {"type": kind, "message": "the request was too long"}
        facts = {"prompt_tokens": 30, "completion_tokens": 4, "cached_tokens": 8, "finish_reason": finish}
        return {"text": "The answer is B.", "meta_info": facts}
    def shutdown(self):
        self.stopped = True
""",
}
OWN_LIMIT = 8
"""New tokens at most, by the checkpoint's own generation_config.json."""
PACKAGES = {"vllm": VLLM, "sglang": SGLANG}


@contextmanager
def installed(kind: str, folder: Path) -> Iterator[str]:
    """Put a stand-in for the package on the path, and take it away afterwards."""
    for name, source in PACKAGES[kind].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source)
    sys.path.insert(0, str(folder))
    try:
        yield kind
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
            del sys.modules[name]


@pytest.fixture(params=["vllm", "sglang"])
def kind(request, tmp_path):
    with installed(request.param, tmp_path / "packages") as name:
        yield name


def calls(kind: str) -> list[Any]:
    """Return the stand-in's engine and the requests that it got."""
    return sys.modules[kind].CALLS


def sampling(kind: str, number: int = 1) -> dict[str, Any]:
    """Return the sampling settings of a request under vLLM's names."""
    values = dict(calls(kind)[number][1])
    if kind == "sglang":
        values["max_tokens"] = values.pop("max_new_tokens")
        values["seed"] = values.pop("sampling_seed", None)
        values.setdefault("stop", None)
    return values


def images(kind: str, number: int = 1) -> list[Any]:
    """Return the images of a request."""
    call = calls(kind)[number]
    return (call[0].get("multi_modal_data") or {}).get("image", []) if kind == "vllm" else call[2] or []


def text(kind: str, number: int = 1) -> str:
    """Return the text of a request."""
    call = calls(kind)[number]
    return call[0]["prompt"] if kind == "vllm" else call[0]


async def ask(kind: str, folder: Path, *prompts: Prompt, **options: Any) -> list[Response]:
    """Open a model, ask it everything at once and close it."""
    model = open_model(f"{kind}:{folder}", ModelOptions(**options))
    try:
        await model.preflight()
        return await asyncio.gather(*(model.answer(prompt) for prompt in prompts))
    finally:
        await model.close()


def question(words: str = "Which bird?", **settings: Any) -> Prompt:
    return Prompt((picture(1), Text(words)), **settings)


async def test_a_prompt_reaches_the_engine_with_its_images_and_the_reply_comes_back(kind, folder):
    (reply,) = await ask(kind, folder, question(system="Be brief."), media=MediaSettings(max_long_side=8))
    assert reply.text == "The answer is B." and reply.finish_reason == "stop"
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens) == (30, 4, 8)
    assert reply.model == f"{kind}:{folder}"
    assert text(kind) == "<s><|system|>Be brief.<|user|><image>Which bird?<|assistant|>"
    (image,) = images(kind)
    assert max(image.size) == 8 and image.mode == "RGB"
    assert reply.trace["request"]["pictures"][0]["width"] == image.width
    assert calls(kind)[0].stopped


async def test_answers_are_greedy_unless_something_else_is_requested(kind, folder):
    await ask(kind, folder, question())
    assert (sampling(kind)["temperature"], sampling(kind)["seed"], sampling(kind)["stop"]) == (0.0, None, None)
    assert sampling(kind)["max_tokens"] == OWN_LIMIT


async def test_a_schema_reaches_the_engine_in_its_own_form_and_only_where_there_is_one(kind, folder):
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    await ask(kind, folder, question("one?", generation=Generation(reply_schema=schema)), question("two?"))
    with_schema, without = (sampling(kind, number) for number in sorted((1, 2), key=lambda at: text(kind, at)))
    sent = with_schema["structured_outputs"].json if kind == "vllm" else json.loads(with_schema["json_schema"])
    assert sent == schema and not {"structured_outputs", "json_schema"} & without.keys()


async def test_sampling_settings_and_a_seed_of_the_question_reach_the_engine(kind, folder):
    settings = Generation(max_tokens=2, temperature=0.7, top_p=0.9, stop=("\n",), extra={"top_k": 5})
    first, second = question("one?"), question("two?")
    replies = await ask(kind, folder, first, second, first, generation=settings, seed=3)
    assert [reply.finish_reason for reply in replies] == ["length"] * 3
    by_text: dict[str, set[int]] = {}
    for number in (1, 2, 3):
        values = sampling(kind, number)
        assert (values["max_tokens"], values["temperature"], values["top_p"]) == (2, 0.7, 0.9)
        assert values["stop"] == ["\n"] and values["top_k"] == 5
        assert 0 <= values["seed"] < 2**31
        by_text.setdefault(text(kind, number), set()).add(values["seed"])
    assert [len(seeds) for seeds in by_text.values()] == [1, 1]
    assert len(set.union(*by_text.values())) == 2


MORE = {
    "top_k": 20,
    "min_p": 0.05,
    "repetition_penalty": 1.1,
    "presence_penalty": 1.5,
    "frequency_penalty": 0.5,
}


async def test_every_further_sampling_field_reaches_the_engine_under_its_own_name(kind, folder):
    await ask(kind, folder, question(), generation=Generation(temperature=0.7, **MORE))
    assert {name: sampling(kind)[name] for name in MORE} == MORE
    assert "chat_template_kwargs" not in sampling(kind)


async def test_the_sampling_of_the_checkpoint_reaches_the_engine_and_the_identity(kind, folder):
    await ask(kind, folder, question(), sampling="auto")
    assert (sampling(kind)["temperature"], sampling(kind)["top_p"]) == (0.7, 0.8)
    model = open_model(f"{kind}:{folder}", ModelOptions(sampling="checkpoint"))
    assert model.identity()["sampling"] == {"temperature": 0.7, "top_p": 0.8}
    assert "sampling" not in open_model(f"{kind}:{folder}", ModelOptions()).identity()


async def test_arguments_reach_a_chat_template_that_reads_them_and_are_refused_by_another(kind, folder, tmp_path):
    thinking = Generation(chat_template_kwargs={"enable_thinking": True})
    with pytest.raises(PreflightError, match="'enable_thinking', which the chat template of"):
        await ask(kind, folder, question(), generation=thinking)
    reading = shutil.copytree(folder, tmp_path / "reading")
    template = reading / "chat_template.jinja"
    template.write_text(template.read_text() + "{% if enable_thinking %}<think>{% endif %}")
    failing = shutil.copytree(reading, tmp_path / "failing")
    (failing / template.name).write_text(
        template.read_text() + "{% if enable_thinking is defined %}{{ enable_thinking + 1 }}{% endif %}"
    )
    with pytest.raises(PreflightError, match="fails on it"):
        await ask(kind, failing, question(), generation=Generation(chat_template_kwargs={"enable_thinking": "no"}))
    assert kind not in sys.modules, "nothing was started"
    await ask(kind, reading, question(), generation=thinking)
    assert text(kind).endswith("<|assistant|><think>")


async def test_arguments_of_the_engine_are_passed_on_and_stand_in_the_identity(kind, folder):
    arguments = {"max_model_len": 64} if kind == "vllm" else {"tp_size": 2}
    model = open_model(f"{kind}:{folder}", ModelOptions(engine_args=arguments, dtype="bfloat16", seed=7))
    plain = open_model(f"{kind}:{folder}", ModelOptions())
    assert model.identity()["engine_args"] == arguments and model.identity()["kind"] == kind
    assert model.identity() != plain.identity()
    assert plain.identity()["digest"].startswith("sha256:") and str(folder) not in str(plain.identity())
    await model.preflight()
    started = calls(kind)[0].arguments
    values = started if isinstance(started, dict) else vars(started)
    assert values[next(iter(arguments))] == next(iter(arguments.values()))
    assert values["dtype"] == "bfloat16" and 7 in (values.get("seed"), values.get("random_seed"))
    assert str(folder) in (values.get("model"), values.get("model_path"))
    await model.close()


async def test_an_adapter_is_loaded_by_the_engine_and_named_in_each_request(kind, folder, tmp_path):
    adapter = write_adapter(folder, tmp_path / "adapter", 1, IN_LANGUAGE_MODEL, rank_pattern={"v_proj": 12})
    model = open_model(f"{kind}:{folder}", ModelOptions(adapter=str(adapter)))
    plain = open_model(f"{kind}:{folder}", ModelOptions())
    assert model.identity() == {**plain.identity(), "adapter": find_adapter(str(adapter)).digest}
    await model.answer(question())
    started, call = calls(kind)
    if kind == "vllm":
        assert (started.arguments.enable_lora, started.arguments.max_lora_rank) == (True, 16)
        assert (call[3].lora_int_id, call[3].lora_path) == (1, str(adapter))
    else:
        assert started.arguments["lora_paths"] == {call[3]: str(adapter)} and started.arguments["lora_strict_loading"]
    await model.close()
    with pytest.raises(UsageError, match="which Snellen sets itself"):
        open_model(f"{kind}:{folder}", ModelOptions(adapter=str(adapter), engine_args={"enable_lora": False}))


def test_an_adapter_of_which_an_engine_would_leave_out_a_part_is_refused(kind, folder, tmp_path):
    tower = write_adapter(folder, tmp_path / "tower", 1, ("fc1", "q_proj"))
    dora = write_adapter(folder, tmp_path / "dora", 1, IN_LANGUAGE_MODEL, use_dora=True)
    for adapter, match in ((tower, r"beyond the language model, first .*vision_tower"), (dora, "sets use_dora")):
        with pytest.raises(PreflightError, match=match):
            open_model(f"{kind}:{folder}", ModelOptions(adapter=str(adapter))).identity()


async def test_a_request_that_the_engine_aborts_is_an_error(kind, folder):
    with pytest.raises(ModelError, match="aborted the request"):
        await ask(kind, folder, question("abort?"))


async def test_a_text_with_a_control_token_is_refused_and_not_sent(kind, folder):
    with pytest.raises(BadRequestError, match="'<image>', a control token"):
        await ask(kind, folder, question("what does <image> mean?"))
    assert len(calls(kind)) == 1


async def test_earlier_turns_are_rendered_with_their_images_in_order(kind, folder):
    earlier = (Turn("user", (picture(2), Text("This one?"))), Turn("assistant", (Text("A robin."),)))
    await ask(kind, folder, question("And this?", history=earlier))
    assert text(kind) == "<s><|user|><image>This one?<|assistant|>A robin.<|user|><image>And this?<|assistant|>"
    assert len(images(kind)) == 2


async def test_an_image_that_cannot_be_read_fails_its_prompt_alone(kind, folder):
    model = open_model(f"{kind}:{folder}", ModelOptions())
    with pytest.raises(InputError):
        await model.answer(Prompt((Image(BytesBlob("a text file", b"no image")), Text("?"))))
    assert (await model.answer(question())).text == "The answer is B."
    await model.close()
    with pytest.raises(ModelError, match="closed"):
        await model.answer(question())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"device": "cuda:1"}, "--device cuda:1 is not for"),
        ({"stop_after_first_json": True}, "--stop-after-first-json"),
        ({"base_url": "http://127.0.0.1/v1"}, "--base-url is for models behind an endpoint"),
        ({"engine_args": {"dtype": "half"}}, "sets 'dtype', which Snellen sets itself"),
        ({"generation": Generation(logprobs=2)}, "--logprobs is not available"),
    ],
)
def test_options_that_an_engine_cannot_use_are_refused(kind, folder, options, match):
    with pytest.raises(UsageError, match=match):
        open_model(f"{kind}:{folder}", ModelOptions(**options))


async def test_an_engine_that_does_not_start_says_why(kind, folder):
    arguments = {"max_model_len": 1} if kind == "vllm" else {"no_such_argument": 1}
    model = open_model(f"{kind}:{folder}", ModelOptions(engine_args=arguments))
    with pytest.raises(PreflightError, match=f"{kind} did not start with .*: (RuntimeError|TypeError)"):
        await model.preflight()
    await model.close()


async def test_many_prompts_are_in_the_engine_at_once(folder, tmp_path):
    with installed("vllm", tmp_path):
        await ask("vllm", folder, *(question(f"number {number}?") for number in range(12)))
        assert calls("vllm")[0].most > 1
        assert len({call[2] for call in calls("vllm")[1:]}) == 12


@pytest.mark.parametrize("missing", ["vllm", "sglang"])
def test_without_the_package_the_extra_is_named(missing, folder):
    with pytest.raises(MissingExtraError) as caught:
        open_model(f"{missing}:{folder}", ModelOptions())
    assert f"[{missing}]" in caught.value.hint


def test_engine_arguments_are_refused_for_other_kinds(folder):
    with pytest.raises(UsageError, match="--engine-args is for an engine in this process"):
        open_model(f"local:{folder}", ModelOptions(engine_args={"max_model_len": 64}))
