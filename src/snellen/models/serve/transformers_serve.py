"""`transformers serve` as the server: the reference that our own endpoint is compared with.

It answers chat completions with images, for local folders too, and is kept by the authors of transformers. Why it is
not the default, as observed with transformers 5.23 on a LLaVA folder: docs/models-local.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from snellen.errors import MissingExtraError, UsageError
from snellen.local_server import is_loopback
from snellen.models.base import ModelOptions
from snellen.models.local.checkpoint import find, pick_device, pick_dtype, stored_dtype

PROGRAM = "import sys; from transformers.cli.transformers import main; sys.exit(main())"


def command(path: str, options: ModelOptions, host: str, port: int) -> list[str]:
    """Return the command line of `transformers serve` for a model, with the device and dtype that `local:` would take.

    Raises:
        PreflightError: the checkpoint cannot be used.
        UsageError: the host is not loopback: this server fetches addresses and reads files that requests name, and
            has no key.
        MissingExtraError: what `transformers serve` needs is not installed.
    """
    if not is_loopback(host):
        raise UsageError(
            f"--server transformers on {host}: it fetches any address and reads any image file that a request "
            "names, and it knows no key.",
            "Keep it on 127.0.0.1, or use --server snellen.",
        )
    if missing := [name for name in ("fastapi", "openai", "pydantic", "uvicorn") if find_spec(name) is None]:
        raise MissingExtraError(
            f"transformers serve needs {', '.join(missing)}.", 'Install with: pip install "transformers[serving]"'
        )
    checkpoint = find(path, options.revision)
    device = pick_device(options.device)
    dtype = pick_dtype(options.dtype, device, stored_dtype(checkpoint.config))
    return [
        *(sys.executable, "-c", PROGRAM, "serve", str(checkpoint.folder)),
        *("--host", host, "--port", str(port), "--device", device, "--dtype", dtype),
    ]


def serve(path: str, options: ModelOptions, host: str, port: int) -> NoReturn:
    """Become `transformers serve`; on Windows, run it and leave with its exit status."""
    from huggingface_hub import constants

    # Its list of models fails with HTTP 500 while there is no hub cache to list.
    Path(constants.HF_HUB_CACHE).mkdir(parents=True, exist_ok=True)
    line = command(path, options, host, port)
    if sys.platform == "win32":
        sys.exit(subprocess.run(line, check=False).returncode)  # noqa: S603 - our own interpreter
    os.execv(line[0], line)  # noqa: S606 - the same; it takes our place, so that signals reach it
