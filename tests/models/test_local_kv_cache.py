"""Static caches and compiled decoding: the answers of the dynamic cache, few graphs, and errors that name a way out."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_vlm import ask, dictated, picture, question, texts

from snellen.errors import BadRequestError, ModelError, PreflightError, UsageError
from snellen.models import embedded
from snellen.models.base import ModelOptions
from snellen.models.local import in_memory, kv_cache
from snellen.models.registry import open_model
from snellen.types import Generation, Prompt, Text

Open = Callable[..., Any]


@pytest_asyncio.fixture
async def opened(folder):
    models: list[Any] = []

    async def open_and_load(spec="", **options):
        model = open_model(spec or f"local:{folder}", ModelOptions(**options))
        models.append(model)
        await model.preflight()
        return model

    yield open_and_load
    for model in models:
        await model.close()


@pytest.fixture
def captured(monkeypatch):
    """Numbers of the graphs that torch.compile captures; they run as they are, because C++ takes half a minute."""
    graphs: list[int] = []

    def backend(graph, inputs, **_):
        graphs.append(len(graphs))
        return graph.forward

    torch._dynamo.reset()
    monkeypatch.setattr(kv_cache, "BACKEND", backend)
    monkeypatch.setattr(kv_cache, "missing_compiler", lambda device, environment: None)
    return graphs


def watch_caches(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Any]]:
    """Rows and the static cache (None: dynamic) of every batch that reaches the weights."""
    batches = []
    real = model._loaded.model.generate

    def generate(**inputs: Any) -> Any:
        batches.append((inputs["input_ids"].shape[0], inputs.get("past_key_values")))
        return real(**inputs)

    monkeypatch.setattr(model._loaded.model, "generate", generate)
    return batches


PROMPTS = [question(i, pictures=i % 3) for i in range(24)] + [
    Prompt((picture(i), Text("long " * (20 + 15 * i)))) for i in range(4)
]
SETTINGS = {
    "greedy": Generation(max_tokens=12),
    "stop": Generation(max_tokens=40, stop=("e", "a")),
    "sampled": Generation(temperature=1.5, top_p=0.95, max_tokens=10, seed=3),
}


@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("settings", SETTINGS)
async def test_a_static_cache_gives_the_answers_of_the_dynamic_one(opened, monkeypatch, batch_size, settings):
    options = {"generation": SETTINGS[settings], "batch_size": batch_size}
    dynamic, static = await opened(**options), await opened(**options, kv_cache="static")
    batches = watch_caches(static, monkeypatch)
    expected = texts(await ask(dynamic, PROMPTS))
    assert texts(await ask(static, PROMPTS)) == expected
    assert len(set(expected)) > 10, "the answers must differ, or equality shows nothing"
    assert all(type(cache).__name__ == "StaticCache" for _, cache in batches)
    assert {cache.get_max_length() for _, cache in batches} == {256, 512}, "lengths are rounded up"


@pytest.mark.parametrize("settings", SETTINGS)
async def test_compiled_decoding_gives_the_answers_of_the_dynamic_cache(opened, captured, monkeypatch, settings):
    options = {"generation": SETTINGS[settings], "batch_size": 8}
    expected = texts(await ask(await opened(**options), PROMPTS))
    compiled = await opened(**options, compile=True)
    batches = watch_caches(compiled, monkeypatch)
    assert texts(await ask(compiled, PROMPTS)) == expected
    assert texts(await ask(compiled, PROMPTS[:5])) == expected[:5], "filled with copies to 8 rows"
    assert captured, "nothing was compiled"
    assert {rows for rows, cache in batches if cache is not None} == {8}


@pytest.mark.parametrize("kind", ["static", "compiled"])
async def test_the_embedded_model_answers_alike_with_every_cache(opened, captured, kind):
    prompts = [Prompt((picture(i, 64), Text("What is this?" * (1 + i % 3)))) for i in range(12)]
    expected = texts(await ask(await opened("embedded", batch_size=4), prompts))
    options: dict[str, Any] = {"kv_cache": "static"} if kind == "static" else {"compile": True}
    for batch_size in (1, 4):
        other = await opened("embedded", batch_size=batch_size, **options)
        assert texts(await ask(other, prompts)) == expected
    assert bool(captured) == (kind == "compiled")


async def test_a_compiled_model_makes_one_graph_for_all_widths_of_one_cache_length(opened, captured, monkeypatch):
    model = await opened(batch_size=4, compile=True)
    batches = watch_caches(model, monkeypatch)
    await ask(model, [question(i, pictures=0) for i in range(4)])
    graphs = len(captured)
    for length in (1, 5, 9, 30):
        await ask(model, [Prompt((Text("long " * length),)) for _ in range(4)])
    assert len(captured) == graphs > 0
    assert len({id(cache) for _, cache in batches}) == 1, "CUDA graphs hold the addresses of the cache"
    await ask(model, [Prompt((Text("long " * 80),)) for _ in range(4)])
    await ask(model, [question(i, pictures=0) for i in range(4)])
    assert [cache.get_max_length() for _, cache in batches] == [256] * 5 + [512] * 2, "a longer cache stays"


async def test_a_batch_of_at_most_half_the_size_is_not_compiled(opened, captured, monkeypatch):
    model = await opened(batch_size=4, compile=True)
    batches = watch_caches(model, monkeypatch)
    for count in (1, 2, 3):
        await ask(model, [question(i) for i in range(count)])
    assert [(rows, cache is not None) for rows, cache in batches] == [(1, False), (2, False), (4, True)]


async def test_sampling_in_a_filled_batch_draws_for_each_prompt_by_its_own_seed(opened, captured):
    options = {"generation": SETTINGS["sampled"], "batch_size": 4}
    prompts = [question(i) for i in range(3)]
    assert texts(await ask(await opened(**options, compile=True), prompts)) == texts(
        await ask(await opened(**options), prompts)
    )


async def test_memory_that_runs_out_frees_the_static_cache_and_halves_the_batch(opened, captured, monkeypatch):
    model = await opened(batch_size=8, compile=True)
    prompts = [question(i) for i in range(8)]
    expected = texts(await ask(model, prompts))
    real = model._loaded.model.generate
    lengths = []

    def generate(**inputs):
        lengths.append(inputs["input_ids"].shape[0])
        if lengths[-1] > 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return real(**inputs)

    monkeypatch.setattr(model._loaded.model, "generate", generate)
    released = []
    monkeypatch.setattr(model._static, "release", lambda: released.append(True))
    assert texts(await ask(model, prompts)) == expected
    assert released
    assert max(lengths[1:]) == 4


async def test_a_compilation_that_fails_is_named_with_its_way_out_and_tried_once(opened, captured, monkeypatch):
    tries = []

    def broken(graph, inputs, **_):
        tries.append(1)
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(kv_cache, "BACKEND", broken)
    model = await opened(batch_size=4, compile=True)
    replies = await ask(model, [question(i) for i in range(4)])
    assert all(isinstance(reply, ModelError) for reply in replies)
    assert "torch.compile failed" in str(replies[0])
    assert "Omit --compile" in str(replies[0])
    assert len(tries) == 1, "smaller batches would fail in the same way"


async def test_settings_that_change_the_cache_are_a_bad_request_with_a_static_one(opened):
    model = await opened(kv_cache="static")
    with pytest.raises(BadRequestError, match=r"num_beams(.|\n)*--kv-cache dynamic"):
        await model.answer(question(1, generation=Generation(extra={"num_beams": 2})))
    reply = await model.answer(question(1, generation=dictated("cat")))
    assert reply.text == "cat"


@pytest.mark.parametrize("kind", ["auto", "static"])
async def test_the_cache_that_a_checkpoint_names_is_set_aside(opened, monkeypatch, kind):
    model = await opened(kv_cache=kind)
    expected = (await model.answer(question(1))).text
    own = model._loaded.model.generation_config
    monkeypatch.setattr(own, "cache_implementation", "static")
    made = []
    real = model._loaded.model._prepare_static_cache
    monkeypatch.setattr(model._loaded.model, "_prepare_static_cache", lambda **a: made.append(1) or real(**a))
    assert (await model.answer(question(1))).text == expected
    assert not made
    assert own.cache_implementation == "static", "a model in memory is given back as it was"


async def test_attention_is_torchs_scaled_dot_product_in_both_towers(opened):
    for spec in ("", f"local:{embedded.path()}"):
        config = (await opened(spec))._loaded.model.config
        parts = (config, config.text_config, config.vision_config)
        assert [part._attn_implementation for part in parts] == ["sdpa"] * 3


@pytest.mark.parametrize("options", [{"kv_cache": "static"}, {"compile": True}])
async def test_a_class_without_a_static_cache_is_refused_before_the_first_sample(
    opened, captured, monkeypatch, options
):
    from transformers import LlavaForConditionalGeneration

    monkeypatch.setattr(LlavaForConditionalGeneration, "_can_compile_fullgraph", False)
    with pytest.raises(PreflightError, match=r"LlavaForConditionalGeneration(.|\n)*--kv-cache dynamic"):
        await opened(**options)


async def test_without_a_compiler_the_error_says_what_to_install(opened, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(PreflightError, match=r"g\+\+ is not on the PATH(.|\n)*apt-get install g\+\+"):
        await opened(compile=True)


def test_the_compiler_is_the_one_that_the_environment_names(tmp_path):
    program = tmp_path / "my-cc"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = {"PATH": str(tmp_path)}
    assert kv_cache.missing_compiler("cpu", {**path, "CXX": "my-cc"}) is None
    assert kv_cache.missing_compiler("cuda", {**path, "CC": "my-cc"}) is None
    assert kv_cache.missing_compiler("cpu", {**path, "CC": "my-cc"}) is not None
    assert kv_cache.missing_compiler("cuda", path) == "gcc or clang"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"hf_quantizer": SimpleNamespace(is_compileable=False)}, "does not compile this model"),
        ({"hf_device_map": {"a": "cpu", "b": 0}}, "does not compile this model"),
        ({"device": torch.device("mps")}, "not for mps"),
    ],
)
def test_models_that_transformers_does_not_compile_are_refused(changed, expected):
    config = SimpleNamespace(model_type="llava")
    model = SimpleNamespace(**{"config": config, "device": torch.device("cpu"), **changed})
    with pytest.raises(PreflightError, match=expected):
        kv_cache.require_compiler(model, "m")


@given(st.integers(1, 1 << 20), st.none() | st.integers(1, 1 << 20))
def test_a_cache_holds_prompt_and_answer_and_is_at_most_twice_as_long(tokens, longest):
    length = kv_cache.cache_length(tokens, longest)
    assert tokens <= length <= max(kv_cache.SHORTEST, 2 * tokens - 1)
    assert length in (tokens, longest) or length.bit_count() == 1


@given(st.integers(1, 1 << 17))
def test_there_are_at_most_ten_lengths_up_to_a_context_of_131072(context):
    lengths = {kv_cache.cache_length(tokens, context) for tokens in range(1, context + 1, max(1, context // 300))}
    assert len(lengths) <= 10


@pytest.mark.parametrize("spec", ["api:m", "openai:m", "replay:x.jsonl", "agent:openclaw", "tools:m", "vllm:m"])
@pytest.mark.parametrize(("option", "flag"), [({"kv_cache": "static"}, "--kv-cache"), ({"compile": True}, "--compile")])
def test_models_elsewhere_refuse_the_options(spec, option, flag):
    with pytest.raises(UsageError, match=flag):
        open_model(spec, ModelOptions(base_url="http://127.0.0.1:1/v1", **option))


@pytest.mark.parametrize(
    ("options", "words"),
    [({"kv_cache": "paged"}, "paged"), ({"compile": True, "kv_cache": "dynamic"}, "--compile needs a static cache")],
)
def test_settings_that_contradict_are_refused(options, words):
    with pytest.raises(UsageError, match=words):
        open_model("embedded", ModelOptions(**options))


def test_a_model_in_memory_is_not_compiled(folder):
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model, processor = (kind.from_pretrained(folder) for kind in (AutoModelForImageTextToText, AutoProcessor))
    with pytest.raises(UsageError, match="compile"), in_memory.lent(model, processor, ModelOptions(compile=True)):
        pass


def test_the_fingerprint_names_cache_and_compilation_only_where_they_are_not_the_usual_ones():
    def identity(**options):
        return dict(embedded.open_model("", ModelOptions(**options)).identity())

    usual = identity()
    assert usual == identity(kv_cache="dynamic")
    assert not {"kv_cache", "compile"} & usual.keys(), "runs of earlier versions can be resumed"
    assert identity(kv_cache="static") == {**usual, "kv_cache": "static"}
    assert identity(compile=True) == {**usual, "kv_cache": "static", "compile": True}
