"""Sampling of local models: the tokens of transformers' own `generate` under the same random numbers, and the checkpoint's settings."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_families
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from tiny_families import FAMILIES
from tiny_vlm import ask, picture, question, texts

from snellen.errors import BadRequestError, PreflightError, UsageError
from snellen.media import open_image
from snellen.models.base import ModelOptions
from snellen.models.local.chat_template import content_digest, converse
from snellen.models.local.generate import _Draw
from snellen.models.local.own_sampling import read_own
from snellen.models.local.replies import row_seed
from snellen.models.registry import open_model
from snellen.models.serve.protocol import prompt_of, read_request
from snellen.types import Generation, Image, MediaSettings, Prompt, Text

TOKENS = 12
SEED = 7
PROMPTS = (
    Prompt((picture(1), Text("What is this?"))),
    Prompt((Text("First"), picture(2, 61), Text("and second"), picture(3, 130), Text("differ in what?"))),
    Prompt((picture(4, 130), Text("Is this a very, very long question about one picture?"))),
)
SETTINGS = (
    {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.05},
    {"temperature": 1.3, "min_p": 0.1},
    {"temperature": 1.0, "top_k": 5, "top_p": 0.95, "min_p": 0.02, "repetition_penalty": 1.3},
    {"temperature": 0.0, "repetition_penalty": 1.5},
)
NAMES = ("Qwen2.5-VL", "Qwen3-VL", "InternVL", "SmolVLM", "LLaVA-OneVision")


@pytest.fixture(scope="module", params=NAMES)
def checkpoint(request, tmp_path_factory):
    torch.set_num_threads(1)
    family = next(each for each in FAMILIES if each.name == request.param)
    return tiny_families.build(family, tmp_path_factory.mktemp("sampled") / family.name)


def asked(folder: Path, prompts: Any, **options: Any) -> list[str]:
    """Return the replies of the local model to prompts that are asked all at once."""

    async def run() -> list[str]:
        model = open_model(f"local:{folder}", ModelOptions(seed=SEED, **options))
        await model.preflight()
        try:
            return texts(await ask(model, prompts))
        finally:
            await model.close()

    return asyncio.run(run())


@cache
def own_parts(folder: Path) -> tuple[Any, Any]:
    """Return processor and model as transformers itself opens them."""
    model: Any = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    return transformers.AutoProcessor.from_pretrained(folder), model.eval()


def own_replies(folder: Path, settings: dict[str, Any], monkeypatch: Any, processor_of: Any = None) -> list[str]:
    """Return the texts of transformers' own `generate`, which draws by our random numbers of each prompt.

    `processor_of`: makes a further processor of scores from the number of tokens of a prompt.
    """
    processor, model = own_parts(folder)
    off = {"top_k": 0, "top_p": 1.0, "min_p": None} if settings["temperature"] else {}
    replies = []
    for prompt in PROMPTS:
        content = [
            {"type": "image", "image": open_image(part, MediaSettings())}
            if isinstance(part, Image)
            else {"type": "text", "text": part.text}
            for part in prompt.parts
        ]
        inputs = processor.apply_chat_template(
            [{"role": "user", "content": content}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
        digest = content_digest(prompt, converse(prompt, MediaSettings(), lambda video: ()))
        chance = np.random.default_rng(row_seed(SEED, digest))

        def draw(shares: torch.Tensor, num_samples: int, chance: Any = chance) -> torch.Tensor:
            summed = shares[0].float().cumsum(0)
            return (summed <= torch.tensor(chance.random(), dtype=torch.float32) * summed[-1]).sum().reshape(1, 1)

        monkeypatch.setattr(torch, "multinomial", draw)
        sampled = (
            {**off, **settings} if settings["temperature"] else {"repetition_penalty": settings["repetition_penalty"]}
        )
        width = inputs["input_ids"].shape[1]
        output = model.generate(
            **inputs,
            **sampled,
            do_sample=settings["temperature"] > 0,
            max_new_tokens=TOKENS,
            logits_processor=transformers.LogitsProcessorList([processor_of(width)] if processor_of else []),
        )
        replies.append(processor.tokenizer.decode(output[0, width:], skip_special_tokens=True))
    monkeypatch.undo()
    return replies


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: "-".join(settings))
def test_sampled_tokens_are_those_of_transformers_under_the_same_random_numbers(checkpoint, settings, monkeypatch):
    """By itself, and in a batch whose rows are padded: a reply does not depend on its neighbours."""
    expected = own_replies(checkpoint, settings, monkeypatch)
    generation = Generation(max_tokens=TOKENS, **settings)
    assert asked(checkpoint, PROMPTS, batch_size=3, generation=generation) == expected
    assert asked(checkpoint, PROMPTS[:1], batch_size=1, generation=generation) == expected[:1]
    assert len(set(expected)) == len(PROMPTS)


class CountedTokens(transformers.LogitsProcessor):
    """Presence and frequency penalties as OpenAI's guide writes them, token by token."""

    def __init__(self, presence: float, frequency: float, width: int) -> None:
        self.presence, self.frequency, self.width = presence, frequency, width

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        scores = scores.clone()
        for token, count in Counter(input_ids[0, self.width :].tolist()).items():
            scores[0, token] -= count * self.frequency + self.presence
        return scores


@pytest.mark.parametrize(("presence", "frequency"), [(1.5, 0.0), (0.0, 0.7), (-1.0, 2.0)])
def test_presence_and_frequency_penalties_count_the_tokens_of_the_reply_alone(
    checkpoint, monkeypatch, presence, frequency
):
    greedy = {"temperature": 0.0, "repetition_penalty": 1.0}
    expected = own_replies(checkpoint, greedy, monkeypatch, partial(CountedTokens, presence, frequency))
    generation = Generation(max_tokens=TOKENS, temperature=0.0, presence_penalty=presence, frequency_penalty=frequency)
    assert asked(checkpoint, PROMPTS, batch_size=3, generation=generation) == expected
    assert expected != own_replies(checkpoint, greedy, monkeypatch)


QUESTIONS = [question(number, number % 3) for number in range(6)]


def test_the_checkpoint_s_own_settings_are_those_that_it_states_and_what_the_user_sets_counts_first(folder):
    own = {"temperature": 0.7, "top_p": 0.8}
    sampled = asked(folder, QUESTIONS, sampling="checkpoint")
    assert sampled == asked(folder, QUESTIONS, generation=Generation(**own)) != asked(folder, QUESTIONS)
    cold = asked(folder, QUESTIONS, sampling="checkpoint", generation=Generation(temperature=0.0))
    assert cold == asked(folder, QUESTIONS)
    model = open_model(f"local:{folder}", ModelOptions(sampling="auto"))
    assert model.identity()["sampling"] == own
    plain = open_model(f"local:{folder}", ModelOptions()).identity()
    assert set(plain) == {"kind", "digest", "dtype", "stop_after_first_json"}, "earlier runs keep their fingerprint"


def test_a_benchmark_s_temperature_counts_before_the_checkpoint_s_unless_that_was_asked_for(folder):
    declared = [Prompt(each.parts, generation=Generation(temperature=0.0)) for each in QUESTIONS]
    assert asked(folder, declared, sampling="auto") == asked(folder, QUESTIONS)
    assert asked(folder, declared, sampling="checkpoint") == asked(folder, QUESTIONS, sampling="auto")


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (None, {}),
        ({"temperature": 0.7}, {}),
        ({"do_sample": False, "temperature": 0.7}, {}),
        ({"do_sample": True}, {"temperature": 1.0}),
        (
            {"do_sample": True, "temperature": 0.6, "top_k": 20, "repetition_penalty": 1.05, "max_new_tokens": 9},
            {"temperature": 0.6, "top_k": 20, "repetition_penalty": 1.05},
        ),
        ({"do_sample": True, "top_k": 0, "top_p": 0.9, "min_p": None}, {"temperature": 1.0, "top_p": 0.9}),
    ],
)
def test_a_checkpoint_samples_where_its_file_says_so(tmp_path, stated, expected):
    if stated is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(stated))
    assert read_own(tmp_path, "m") == expected


@given(st.one_of(st.binary(max_size=60), st.recursive(st.none() | st.text() | st.floats(), st.lists).map(repr)))
def test_a_file_that_holds_anything_is_read_or_named(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("any")
    data = content if isinstance(content, bytes) else json.dumps({"do_sample": True, "top_k": content}).encode()
    (folder / "generation_config.json").write_bytes(data)
    try:
        assert isinstance(read_own(folder, "m"), dict)
    except PreflightError as error:
        assert "m: generation_config.json cannot be read" in error.message


def test_a_checkpoint_that_does_not_sample_is_refused_where_its_sampling_is_asked_for(folder, tmp_path):
    plain = shutil.copytree(folder, tmp_path / "plain")
    (plain / "generation_config.json").write_text('{"do_sample": false, "temperature": 0.7}')
    with pytest.raises(PreflightError, match=r"has no generation_config\.json with do_sample: true"):
        open_model(f"local:{plain}", ModelOptions(sampling="checkpoint")).identity()
    assert "sampling" not in open_model(f"local:{plain}", ModelOptions(sampling="auto")).identity()


def test_arguments_reach_the_chat_template_and_one_that_it_does_not_read_is_refused(folder, tmp_path):
    reading = shutil.copytree(folder, tmp_path / "reading")
    template = reading / "chat_template.jinja"
    template.write_text(template.read_text() + "{% if enable_thinking %}No{% endif %}")

    async def run(prompt: Prompt, **arguments: Any) -> str:
        generation = Generation(chat_template_kwargs=arguments)
        model = open_model(f"local:{reading}", ModelOptions(generation=generation))
        try:
            return str((await model.answer(prompt)).trace["request"]["prompt"])
        finally:
            await model.close()

    assert asyncio.run(run(QUESTIONS[0], enable_thinking=True)).endswith("<|assistant|>No")
    assert asyncio.run(run(QUESTIONS[0], enable_thinking=False)).endswith("<|assistant|>")
    with pytest.raises(PreflightError, match="has 'thinking', which the chat template"):
        asyncio.run(run(QUESTIONS[0], thinking=True))
    with pytest.raises(PreflightError, match="has 'tokenize'"):
        asyncio.run(run(QUESTIONS[0], tokenize=True))
    asked_by_benchmark = Prompt(QUESTIONS[0].parts, generation=Generation(chat_template_kwargs={"mode": 1}))
    with pytest.raises(BadRequestError, match="has 'mode'"):
        asyncio.run(run(asked_by_benchmark))


def test_a_reply_may_differ_where_it_is_sampled(folder):
    greedy = Prompt(QUESTIONS[0].parts, generation=Generation(temperature=0.0))
    for options, expected in ((ModelOptions(), False), (ModelOptions(generation=Generation(top_p=0.9)), True)):
        model = open_model(f"local:{folder}", options)
        assert model.may_differ(QUESTIONS[0]) is expected and not model.may_differ(greedy)


def test_an_argument_on_which_the_chat_template_fails_is_refused_before_the_run(folder, tmp_path):
    reading = shutil.copytree(folder, tmp_path / "reading")
    template = reading / "chat_template.jinja"
    template.write_text(template.read_text() + "{% if budget is defined %}{{ budget + 1 }}{% endif %}")
    for budget in ("many", [1], {}):
        model = open_model(
            f"local:{reading}", ModelOptions(generation=Generation(chat_template_kwargs={"budget": budget}))
        )
        with pytest.raises(PreflightError, match=r'--chat-template-kwargs \{"budget": .* fails on it: TypeError'):
            asyncio.run(model.preflight())
        asyncio.run(model.close())
    fitting = open_model(f"local:{reading}", ModelOptions(generation=Generation(chat_template_kwargs={"budget": 9})))
    asyncio.run(fitting.preflight())
    asyncio.run(fitting.close())


def test_a_field_that_generate_would_ignore_is_refused_among_its_further_arguments(folder):
    with pytest.raises(UsageError, match="holds 'top_k', which generate would ignore"):
        open_model(f"local:{folder}", ModelOptions(generation=Generation(extra={"top_k": 5})))


def test_a_served_model_reads_the_same_fields_from_a_request():
    fields = {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "presence_penalty": 1.5, "frequency_penalty": -0.5}
    more = {**fields, "chat_template_kwargs": {"enable_thinking": False}}
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}], **more}
    assert prompt_of(read_request(json.dumps(body).encode())).generation == Generation(**more)
    for name, value in (("top_k", 0), ("min_p", 2), ("repetition_penalty", 0), ("presence_penalty", 3)):
        with pytest.raises(BadRequestError, match=name):
            read_request(json.dumps({**body, name: value}).encode())


def test_an_agent_is_refused_what_it_cannot_pass_on():
    options = ModelOptions(
        agent_model="p/m", base_url="http://127.0.0.1:1/v1", sandbox="none", generation=Generation(top_k=3)
    )
    with pytest.raises(UsageError, match="--top-k is set, and the agent takes only"):
        open_model("agent:opencode", options)


def test_a_sampling_checkpoint_is_asked_without_a_warning_that_its_sampling_is_ignored(folder, tmp_path, caplog):
    own = shutil.copytree(folder, tmp_path / "own")
    (own / "generation_config.json").write_text(
        json.dumps({"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0.01})
    )
    transformers.logging.enable_propagation()
    asked(own, PROMPTS[:1], batch_size=1, generation=Generation(max_tokens=2))
    assert not [each for each in caplog.messages if "generation flags" in each]


def test_a_draw_that_rounds_up_to_1_is_no_token_that_was_ruled_out(monkeypatch):
    class Highest:
        def random(self):
            return 1.0 - 2.0**-53

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Highest())
    scores = torch.tensor([[0.0, 1.0, 0.5, -torch.inf, -torch.inf]])
    assert _Draw([0], "cpu")(torch.zeros((1, 1), dtype=torch.long), scores).argmax().item() == 2
