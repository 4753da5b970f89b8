"""A transformers model in memory: evaluated as its checkpoint is, and left exactly as it was."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

import snellen
from snellen.errors import FingerprintError, UsageError
from snellen.models.local.in_memory import weights_digest
from snellen.types import Generation

SHORT = Generation(max_tokens=4)


@pytest.fixture
def model(folder):
    return AutoModelForImageTextToText.from_pretrained(folder)


@pytest.fixture
def processor(folder):
    return AutoProcessor.from_pretrained(folder)


def replies(run: snellen.Run) -> dict[str, str]:
    return {row["sample_id"]: row["text"] for row in run.records().to_pylist()}


def test_a_model_in_memory_answers_as_its_checkpoint_does(folder, model, processor, tmp_path):
    loaded = snellen.evaluate(
        "chart/digits", model, processor=processor, limit=12, out=tmp_path / "memory", generation=SHORT
    )
    # The checkpoint's file says that it samples; a model in memory has no file, and decodes greedily.
    saved = snellen.evaluate(
        "chart/digits", f"local:{folder}", limit=12, out=tmp_path / "saved", generation=SHORT, sampling="none"
    )
    assert loaded.meta.totals.ok == 12 and loaded.meta.state == "complete"
    assert replies(loaded) == replies(saved) and len(set(replies(saved).values())) > 1
    assert loaded.meta.spec.model == "memory:LlavaForConditionalGeneration"
    assert loaded.metric("accuracy").n == 12


def test_modes_random_states_padding_and_gradients_are_as_before(model, processor, tmp_path):
    model.train()
    frozen = model.get_input_embeddings().eval()  # as of a part that is not trained
    modes = {name: module.training for name, module in model.named_modules()}
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    processor.tokenizer.padding_side, processor.tokenizer.pad_token = "right", None
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    snellen.evaluate(
        "chart/digits",
        model,
        processor=processor,
        limit=6,
        out=tmp_path / "run",
        generation=Generation(max_tokens=3, temperature=1.0),
    )
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert not frozen.training and model.training
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1] and random.getstate() == before[2]
    assert (processor.tokenizer.padding_side, processor.tokenizer.pad_token) == ("right", None)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert torch.is_grad_enabled()
    inputs = processor.tokenizer(["a"], return_tensors="pt")
    model(**inputs, labels=inputs["input_ids"]).loss.backward()  # nothing of the evaluation is in the way


def test_a_failed_evaluation_leaves_the_model_in_training_mode(model, processor, tmp_path):
    model.train()
    with pytest.raises(UsageError, match="limit"):
        snellen.evaluate("chart/digits", model, processor=processor, limit=0, out=tmp_path / "run")
    assert model.training


def test_the_run_is_resumed_with_the_same_weights_and_refused_with_others(model, processor, tmp_path):
    first = snellen.evaluate("chart/digits", model, processor=processor, limit=3, out=tmp_path, generation=SHORT)
    again = snellen.evaluate("chart/digits", model, processor=processor, limit=5, out=tmp_path, generation=SHORT)
    assert first.meta.fingerprint == again.meta.fingerprint and again.meta.totals.ok == 5
    with torch.no_grad():
        next(model.parameters()).view(-1)[7] += 1e-3
    with pytest.raises(FingerprintError, match=r"model\.weights"):
        snellen.evaluate("chart/digits", model, processor=processor, limit=5, out=tmp_path, generation=SHORT)


def test_the_digest_tells_any_changed_or_moved_weight_and_no_wrapper(model):
    digest = weights_digest(model)
    assert weights_digest(copy.deepcopy(model)) == digest
    weights = [parameter for parameter in model.parameters() if parameter.numel() > 8]
    for parameter in weights[::7]:
        with torch.no_grad():
            flat = parameter.view(-1)
            flat[3], flat[5] = flat[5].clone(), flat[3].clone()  # the same values in another order
            if flat[3] != flat[5]:
                assert weights_digest(model) != digest
            flat[3], flat[5] = flat[5].clone(), flat[3].clone()
        assert weights_digest(model) == digest
    assert weights_digest(model.to(torch.bfloat16)) != digest


def test_a_wrapped_model_is_the_model_inside(model, processor, tmp_path):
    run = snellen.evaluate(
        "chart/digits", torch.nn.DataParallel(model), processor=processor, limit=2, out=tmp_path, generation=SHORT
    )
    assert run.meta.spec.model == "memory:LlavaForConditionalGeneration" and run.meta.totals.ok == 2


def test_a_processor_that_cannot_be_used_is_refused_before_a_folder_is_made(model, processor, tmp_path):
    bare = copy.deepcopy(processor)
    bare.chat_template = bare.tokenizer.chat_template = None
    faults = {
        "processor was expected": None,
        "PreTrainedTokenizerFast|TokenizersBackend|image processor": processor.tokenizer,
        "has no tokenizer|apply_chat_template": processor.image_processor,
        "no chat template": bare,
        "str; a processor of transformers": "tiny",
    }
    for message, wrong in faults.items():
        with pytest.raises(UsageError, match=message) as refused:
            snellen.evaluate("chart/digits", model, processor=wrong, limit=2, out=tmp_path / "run")
        assert refused.value.hint
    assert not (tmp_path / "run").exists()


def test_what_is_no_generating_model_in_memory_is_refused(model, processor, tmp_path):
    with pytest.raises(UsageError, match="Linear cannot generate"):
        snellen.evaluate("chart/digits", torch.nn.Linear(2, 2), processor=processor, out=tmp_path / "run")
    with pytest.raises(UsageError, match="not in memory"):
        snellen.evaluate("chart/digits", copy.deepcopy(model).to("meta"), processor=processor, out=tmp_path / "run")
    with pytest.raises(UsageError, match="model is 'embedded'"):
        snellen.evaluate("chart/digits", "embedded", processor=processor, out=tmp_path / "run")
    for setting in (
        {"dtype": "bfloat16"},
        {"device": "cpu"},
        {"base_url": "http://localhost/v1"},
        {"nproc": 2},
        {"adapter": "x"},
    ):
        with pytest.raises(UsageError):
            snellen.evaluate("chart/digits", model, processor=processor, out=tmp_path / "run", **setting)
    assert not (tmp_path / "run").exists()
