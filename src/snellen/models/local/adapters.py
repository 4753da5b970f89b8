"""LoRA adapters (PEFT): a folder beside a checkpoint, and the adapters that lie over one loaded model.

Weights are read from safetensors alone, as those of checkpoints. peft is imported where an adapter is loaded.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.errors import DataError, PreflightError
from snellen.models.local.checkpoint import ADAPTER_CONFIG, read_config
from snellen.text import shorten

ADAPTER_WEIGHTS = "adapter_model.safetensors"
INITIALISATIONS = (None, True, False, "gaussian", "orthogonal", "eva", "mica")
"""Values of `init_lora_weights` under which PEFT leaves the weights of the base as they are (vLLM 0.33.0, `PEFTHelper`)."""
PLAIN = re.compile(r"(?:[\w.^$-]|\\\.)+")
"""Names, and patterns without groups and repetition: PEFT matches them in linear time."""
PATTERNS = ("layers_pattern", "modules_to_save", "rank_pattern", "alpha_pattern")
"""Settings whose texts, or keys, PEFT matches as regular expressions against each module's name."""
MODULES = ("target_modules", "exclude_modules")
"""Settings that are a list of names or one regular expression, which is matched here, since `re` has no limit of time."""
LONGEST_PATTERN = 10_000
REFUSED = ("layer_replication", "megatron_config", "alora_invocation_tokens")
"""Settings that change the layers of the base, import a module by its name, or need arguments of their own."""


class Adapter(Struct, frozen=True):
    """A LoRA adapter in a folder. `digest` is `sha256:` over its configuration and weights; `config` is adapter_config.json."""

    folder: Path
    digest: str
    config: Mapping[str, Any]

    @property
    def base(self) -> str:
        """The checkpoint that it was trained on, by the name that it had there; empty where it is not said."""
        return str(self.config.get("base_model_name_or_path") or "")


def find_adapter(name: str) -> Adapter:
    """Return the adapter in a folder, checked as far as that needs no model.

    Raises:
        PreflightError: no such folder, no adapter of PEFT or another kind than LoRA, no safetensors weights, a setting that
            has no usable value, or one by which the base would not be itself without the adapter.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise PreflightError(
            f"there is no adapter folder {name}.",
            f"Give a folder with {ADAPTER_CONFIG}. Fetch one of the hub first: hf download OWNER/NAME --local-dir DIR",
        )
    if not (folder / ADAPTER_CONFIG).is_file() and (folder / "config.json").is_file():
        raise PreflightError(
            f"{name} is a whole model, not an adapter.", f"Write --model local:{name}, without --adapter."
        )
    config = read_config(folder, name, ADAPTER_CONFIG)
    if (kind := config.get("peft_type")) != "LORA":
        raise PreflightError(
            f"{name}: peft_type is {kind!r} in {ADAPTER_CONFIG}; 'LORA' was expected.",
            "Merge an adapter of another kind into its base, and evaluate the merged model: merge_and_unload().",
        )
    if fault := _fault(config):
        raise PreflightError(
            f"{name}: {ADAPTER_CONFIG} has {fault[0]} {_shown(config[fault[0]])}; {fault[1]} expected.",
            "Correct the file, or save the adapter again by save_pretrained of PEFT.",
        )
    if not (folder / ADAPTER_WEIGHTS).is_file():
        pickled = (
            " adapter_model.bin is a pickle and is never opened." if (folder / "adapter_model.bin").exists() else ""
        )
        raise PreflightError(
            f"{name}: there is no {ADAPTER_WEIGHTS}.{pickled}",
            "Save it by save_pretrained of PEFT, which writes safetensors.",
        )
    unlike = [setting for setting in REFUSED if config.get(setting)]
    unlike += ["bias"] if config.get("bias", "none") != "none" else []
    unlike += [] if config.get("init_lora_weights") in INITIALISATIONS else ["init_lora_weights"]
    if unlike:
        raise PreflightError(
            f"{name}: {unlike[0]} is {config[unlike[0]]!r}, by which more than the adapter's own weights would change."[
                :300
            ],
            "Merge the adapter into its base, and evaluate the merged model: merge_and_unload().",
        )
    total = hashlib.sha256()
    for file in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        with (folder / file).open("rb") as opened:
            total.update(f"{file}\0{hashlib.file_digest(opened, 'sha256').hexdigest()}\n".encode())
    return Adapter(folder, f"sha256:{total.hexdigest()}", config)


def _fault(config: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the first setting that has no usable value, and what was expected; None without one."""

    def texts(name: str) -> list[Any]:
        value = config.get(name) or ()
        return [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple | dict) else [None]

    def values(name: str) -> list[Any]:
        value = config.get(name)
        return list(value.values()) if isinstance(value, dict) else [] if value is None else [None]

    checks: list[tuple[str, str, bool]] = [
        ("r", "a whole number from 1 was", _is_rank(config.get("r", 1))),
        ("lora_alpha", "a finite number above 0 was", _is_scale(config.get("lora_alpha", 1))),
        ("rank_pattern", "whole numbers from 1 were", all(map(_is_rank, values("rank_pattern")))),
        ("alpha_pattern", "finite numbers above 0 were", all(map(_is_scale, values("alpha_pattern")))),
        *((name, "names of modules were", all(isinstance(each, str) for each in texts(name))) for name in MODULES),
        *((name, "plain names were", all(map(_is_plain, texts(name)))) for name in PATTERNS),
    ]
    return next(((name, expected) for name, expected, holds in checks if not holds), None)


def _is_rank(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_scale(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < inf


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) and PLAIN.fullmatch(value) is not None


def _shown(value: Any) -> str:
    return shorten(repr(value), 200)


def _matched(pattern: str, setting: str, modules: Sequence[str]) -> list[str]:
    """Return the modules whose whole name a regular expression matches, as PEFT does, but in limited time.

    Raises:
        PreflightError: it is no pattern, too long, or takes too long.
    """
    from snellen.scoring.bounded_patterns import SECONDS, OutOfTimeError, require_pattern, search

    try:
        if len(pattern) > LONGEST_PATTERN:
            raise OutOfTimeError
        require_pattern(pattern)
        return [name for name in modules if search(pattern, name, whole=True)]
    except (OutOfTimeError, DataError):
        raise PreflightError(
            f"{setting} is {_shown(pattern)}: this is no pattern, longer than {LONGEST_PATTERN:,} characters, or takes more than "
            f"{SECONDS:g} s to match the name of a module.",
            f'Write a list of names instead, such as ["q_proj", "v_proj"], as {setting} in {ADAPTER_CONFIG}.',
        ) from None


OF_LANGUAGE_MODEL = re.compile(
    r"base_model\.model\.(?:(?:model\.)?(?:language_model|text_model|layers|embed_tokens)|lm_head)\."
)
"""Names of an adapter's tensors that lie in the language model of the families that transformers has."""
ONLY_LOCAL = ("use_dora", "modules_to_save", "lora_bias")
"""Settings that neither vLLM 0.33.0 (`PEFTHelper`) nor SGLang 0.5.23 (`LoRAManager`) computes for a VLM."""


def require_engine(adapter: Adapter, kind: str) -> None:
    """Raise PreflightError for an adapter of which vLLM or SGLang would leave out a part, or whose weights are damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(adapter.folder / ADAPTER_WEIGHTS, "numpy") as weights:
            beyond = [name for name in weights.keys() if not OF_LANGUAGE_MODEL.match(name)]  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError) as error:
        raise PreflightError(
            f"{adapter.folder}: {ADAPTER_WEIGHTS} cannot be read: {error}", "Save it again."
        ) from error
    setting = next((name for name in ONLY_LOCAL if adapter.config.get(name)), "")
    if setting or beyond:
        found = f"sets {setting}" if setting else f"reaches beyond the language model, first {sorted(beyond)[0]!r}"
        raise PreflightError(
            f"{adapter.folder}: the adapter {found}, and {kind} computes LoRA in the language model alone.",
            "Use --model local:BASE, or evaluate the merged model: merge_and_unload().",
        )


class LoadedAdapters:
    """Adapters over one loaded model. A batch has one of them or none, and the next batch may have another."""

    def __init__(self) -> None:
        self._peft: Any = None
        self._modules: list[str] = []
        self._turn = threading.Lock()
        self._numbers = itertools.count(1)

    def add(self, model: Any, adapter: Adapter, base: str) -> str:
        """Load an adapter over the model, which computes as before outside `active`; return its name there.

        After an error the model may bear layers of the adapter, and is not to be used further.

        Args:
            model: the same in all calls.
            adapter: as `find_adapter` returns it.
            base: what the model is called in messages.

        Raises:
            PreflightError: the adapter does not fit the model.
        """
        from peft import LoraConfig, PeftModel

        name = f"adapter-{next(self._numbers)}"
        with self._turn:
            try:
                config: Any = LoraConfig.from_pretrained(str(adapter.folder))
                config.inference_mode = True
                if self._peft is None:
                    self._modules = [each for each, _ in model.named_modules()]
                for setting in MODULES:
                    pattern = getattr(config, setting, None)
                    if isinstance(pattern, str) and not PLAIN.fullmatch(pattern):
                        setattr(config, setting, set(_matched(pattern, setting, self._modules)))
                if self._peft is None:
                    self._peft = PeftModel(model, config, adapter_name=name)
                else:
                    self._peft.add_adapter(name, config)
                report = self._peft.load_adapter(str(adapter.folder), name, torch_device=str(model.device))
                lacking = [*report.unexpected_keys, *report.missing_keys]
                reason = (
                    f"{len(lacking)} of its tensors have no counterpart there, first {lacking[0]!r}" if lacking else ""
                )
            except PreflightError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a damaged or foreign adapter makes PEFT or torch raise
                reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        if reason:
            trained_on = f" It was trained on {adapter.base}." if adapter.base else ""
            raise PreflightError(
                f"{adapter.folder}: the adapter does not fit {base}: {reason}"[:600],
                f"Name the base that it was trained on: --model local:BASE.{trained_on}",
            )
        return name

    @contextmanager
    def active(self, name: str | None) -> Iterator[None]:
        """Let the model compute with one adapter, or without any; models that share it take turns."""
        with self._turn:
            if self._peft is not None:
                if name is None:
                    self._peft.base_model.disable_adapter_layers()
                else:
                    self._peft.base_model.enable_adapter_layers()
                    self._peft.set_adapter(name, inference_mode=True)
            yield

    def remove(self, name: str) -> None:
        """Free an adapter's memory."""
        with self._turn:
            others = [each for each in self._peft.peft_config if each != name]
            if others:
                self._peft.set_adapter(others[0], inference_mode=True)
            self._peft.delete_adapter(name)
            if not others:
                self._peft.base_model.unload()  # the model's layers are its own again
                self._peft = None
