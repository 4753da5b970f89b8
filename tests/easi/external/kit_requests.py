"""Sends the rows of drawn tables as VLMEvalKit does: its data sets write the prompts, its client of OpenAI-compatible servers the requests.

Usage: PYTHON kit_requests.py KIT URL DATA=FOLDER...     where DATA is a data set's name in the kit (`BLINK`, `VSI-Bench_32frame`),
FOLDER has its table and archives, and LMUData names an empty folder. Nothing is fetched: what the kit asks of the hub is FOLDER,
and tables may have any MD5. The last line is the settings that stand in the requests beside the messages.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

KIT, URL, *SETS = sys.argv[1:]
sys.path.insert(0, KIT)

from vlmeval import dataset  # type: ignore[import-not-found]  # noqa: E402
from vlmeval.api.gpt import OpenAIWrapper  # type: ignore[import-not-found]  # noqa: E402


def allow(folder: Path) -> None:
    """Put a folder's tables where the kit looks for them, and let its archives be the hub's answer."""
    for table in folder.glob("*.tsv"):
        shutil.copy(table, os.environ["LMUData"])  # noqa: SIM112 - the kit's own name
    for module in [module for name, module in sys.modules.items() if name.startswith("vlmeval.dataset.")]:
        for name, stand_in in (
            ("snapshot_download", lambda **_: str(folder)),
            ("get_cache_path", lambda *_, **__: None),
        ):
            if hasattr(module, name):
                setattr(module, name, stand_in)
    for kind in vars(dataset).values():
        if isinstance(kind, type) and isinstance(getattr(kind, "DATASET_MD5", None), dict):
            kind.DATASET_MD5 = dict.fromkeys(kind.DATASET_MD5)


def prompts(name: str) -> list[Any]:
    """The messages of every row, as the kit's own inference asks for them."""
    made = dataset.build_dataset(name)
    lines = [made.data.iloc[at] for at in range(len(made.data))]
    return [
        made.build_prompt(line, video_llm=False) if made.MODALITY == "VIDEO" else made.build_prompt(line)
        for line in lines
    ]


client = OpenAIWrapper("stub-vlm", key="stub-key-0001", api_base=f"{URL}/chat/completions", retry=1, wait=0)
for each in SETS:
    name, _, place = each.partition("=")
    allow(Path(place))
    for message in prompts(name):
        reply = client.generate(message, dataset=name)
        assert reply == "A", reply
print(json.dumps({"max_tokens": client.max_tokens, "temperature": client.temperature, "detail": client.img_detail}))
