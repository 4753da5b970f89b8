"""Starts VLMEvalKit's run.py, which lies beside the package that is linked here, with drawn tables and a tiny model allowed.

The kit fetches a table anew whose MD5 is not the one that it knows, and its Qwen2.5-VL runs on CUDA alone: the MD5 of the
tables in LMUData are entered, and the class is told to take the CPU.
"""

from __future__ import annotations

import functools
import hashlib
import os
import runpy
import sys
from pathlib import Path

KIT = Path(__file__).parent.joinpath("vlmeval").resolve().parent
sys.path.insert(0, str(KIT))

import transformers  # type: ignore[import-untyped,unused-ignore]  # noqa: E402
import vlmeval.dataset  # type: ignore[import-not-found]  # noqa: E402
import vlmeval.vlm.qwen2_vl.model as qwen  # type: ignore[import-not-found]  # noqa: E402
from vlmeval.config import supported_VLM  # type: ignore[import-not-found]  # noqa: E402

for table in Path(os.environ["LMUData"]).glob("*.tsv"):  # noqa: SIM112 - the kit's own name
    for kind in vars(vlmeval.dataset).values():
        if isinstance(kind, type) and table.stem in getattr(kind, "DATASET_MD5", {}):
            kind.DATASET_MD5[table.stem] = hashlib.md5(table.read_bytes()).hexdigest()

load = transformers.Qwen2_5_VLForConditionalGeneration.from_pretrained
transformers.Qwen2_5_VLForConditionalGeneration.from_pretrained = lambda path, **_: load(
    path, attn_implementation="eager"
)
transformers.BatchFeature.to = lambda self, *_: self
qwen.get_gpu_memory = lambda: [1]
supported_VLM["tiny-qwen2.5-vl"] = functools.partial(
    qwen.Qwen2VLChat,
    model_path=os.environ.get("SNELLEN_TEST_TINY", ""),
    max_new_tokens=2,
    min_pixels=3136,
    max_pixels=12544,
    use_custom_prompt=False,  # whose form for clips lacks an argument that the kit passes
)

sys.argv[0] = str(KIT / "run.py")
runpy.run_path(sys.argv[0], run_name="__main__")
