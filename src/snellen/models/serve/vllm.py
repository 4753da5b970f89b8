"""The command line of a vLLM server: installed with pip, in a Docker image, or in an Apptainer image.

Option names are those of `vllm serve` (docs.vllm.ai, "vllm serve"). A key goes by environment, never by argument.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from snellen.errors import MissingExtraError, UsageError
from snellen.redaction.arguments import held_key

KEY_VARIABLE = "VLLM_API_KEY"
PASSED_ON = ("HF_TOKEN", "HF_HUB_OFFLINE", KEY_VARIABLE)
DOCKER_PORT = 8000
_GPUS = re.compile(r"\w[\w:/-]*(,\w[\w:/-]*)*")


class VllmSettings(Struct, frozen=True, kw_only=True):
    """Settings of a vLLM server.

    Attributes:
        model: name on the hub, or path of a folder.
        name: what clients call it; empty: `model`.
        host, port: where it listens; port 0 takes a free one.
        gpus: ids by comma, as CUDA_VISIBLE_DEVICES takes them; empty: all that are visible.
        data_parallel, tensor_parallel: copies of the model, GPUs that share one copy; None: vLLM decides.
        docker: image; sif: Apptainer image; both empty: the `vllm` that pip installed.
        extra: arguments handed on as they are.
        key: what clients must send; None: no key.
        log: file that gets the server's output.
        startup_s: seconds it may take until it answers.
    """

    model: str
    name: str = ""
    host: str = "127.0.0.1"
    port: int = 8000
    gpus: str = ""
    data_parallel: int | None = None
    tensor_parallel: int | None = None
    docker: str = ""
    sif: str = ""
    extra: tuple[str, ...] = ()
    key: str | None = None
    log: Path | None = None
    startup_s: float = 1800.0

    @property
    def public(self) -> str:
        return self.name or self.model


class Launch(Struct, frozen=True):
    """A process to start. `container` is the name of its Docker container: ending the client does not end that."""

    argv: list[str]
    env: dict[str, str]
    container: str = ""


def launch(settings: VllmSettings, port: int, environment: Mapping[str, str] = os.environ) -> Launch:
    """Return the process that serves `settings` at `port`.

    Raises:
        MissingExtraError: the program that it needs is not on the PATH.
        UsageError: settings that exclude each other, no GPU ids, or an image that is not there.
    """
    if settings.docker and settings.sif:
        raise UsageError("--docker and --apptainer exclude each other")
    if settings.gpus and not _GPUS.fullmatch(settings.gpus):
        raise UsageError(f"--gpu {settings.gpus!r} is no list of GPU ids", "Example: --gpu 0,1,2")
    flags = (word.partition("=")[0].replace("_", "-") for word in settings.extra)  # vLLM takes --api_key, too
    if (flag := next((name for name in flags if name in _OURS), None)) is not None:
        raise UsageError(f"{flag} behind -- would contradict what we set", f"Say it with {_OURS[flag]}.")
    if (key := held_key(" ".join(settings.extra))) is not None:
        raise UsageError(
            f"{key} stands behind --, in arguments that anybody on the machine can read",
            "Set a variable to the key and name it with --api-key-env.",
        )
    env = dict(environment)
    if settings.key is not None:
        env[KEY_VARIABLE] = settings.key
    if settings.docker:
        name = f"snellen-vllm-{port}-{os.getpid()}"
        return Launch(_docker(settings, port, name, env), env, name)
    if settings.gpus:
        env["CUDA_VISIBLE_DEVICES"] = settings.gpus
    words = ["serve", settings.model, *_words(settings, settings.host, port)]
    if not settings.sif:
        return Launch(
            [_program("vllm", "Install it with pip, or give --docker IMAGE or --apptainer SIF."), *words], env
        )
    if not Path(settings.sif).exists():
        raise UsageError(f"--apptainer {settings.sif}: there is no such file", "Give the path of a SIF file.")
    program = _program("apptainer", "Install Apptainer, or use --docker.")
    bound = [word for folder in _folders(settings, environment) for word in ("--bind", f"{folder}:{folder}")]
    return Launch([program, "exec", "--nv", *bound, settings.sif, "vllm", *words], env)


_OURS = {
    "--host": "--host",
    "--port": "--port",
    "--served-model-name": "--name",
    "--api-key": "--api-key-env",
    "--data-parallel-size": "--data-parallel",
    "-dp": "--data-parallel",
    "--tensor-parallel-size": "--tensor-parallel",
    "-tp": "--tensor-parallel",
}


def _words(settings: VllmSettings, host: str, port: int) -> list[str]:
    words = ["--host", host, "--port", str(port), "--served-model-name", settings.public]
    if settings.data_parallel is not None:
        words += ["--data-parallel-size", str(settings.data_parallel)]
    if settings.tensor_parallel is not None:
        words += ["--tensor-parallel-size", str(settings.tensor_parallel)]
    return words + list(settings.extra)


def _docker(settings: VllmSettings, port: int, name: str, env: Mapping[str, str]) -> list[str]:
    """Return the docker command. The entry point is named, since images differ. --ipc=host: vLLM's processes share memory."""
    gpus = f'"device={settings.gpus}"' if settings.gpus else "all"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    mounts = []
    model = settings.model
    if (local := Path(model)).is_dir():
        mounts, model = ["-v", f"{local.resolve()}:/model:ro"], "/model"
    cache = env.get("HF_HOME") or str(Path(env.get("HOME", "~")).expanduser() / ".cache" / "huggingface")
    mounts += ["-v", f"{cache}:/root/.cache/huggingface"]
    keys = [word for variable in PASSED_ON if variable in env for word in ("-e", variable)]
    return [
        *(_program("docker", "Install Docker, or use --apptainer."), "run", "--rm", "--name", name),
        *("--gpus", gpus, "--ipc=host", "-p", f"{host}:{port}:{DOCKER_PORT}", *mounts, *keys),
        *("--entrypoint", "vllm", settings.docker, "serve", model),
        *_words(settings, "0.0.0.0", DOCKER_PORT),  # noqa: S104 - inside the container; -p says who reaches it
    ]


def _folders(settings: VllmSettings, environment: Mapping[str, str]) -> list[str]:
    """Return folders that an Apptainer image does not see by itself: the model's, and a hub cache outside the home."""
    folders = [str(Path(settings.model).resolve())] if Path(settings.model).is_dir() else []
    return folders + ([environment["HF_HOME"]] if environment.get("HF_HOME") else [])


def _program(name: str, hint: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise MissingExtraError(f"there is no program {name!r} on the PATH", hint)
    return path
