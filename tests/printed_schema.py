"""What a command prints with --json is compared with `snellen schema`: by `require_schema`, or while a test runs."""

from __future__ import annotations

import builtins
import json
from typing import Any

import jsonschema
import pytest

from snellen.cli import console
from snellen.cli.schema import schema_of

DRAFT = jsonschema.Draft202012Validator


def require_schema(command: str, text: str) -> None:
    """Fail if a printed object is not what the schema of the command says."""
    faults = DRAFT(schema_of(command)).iter_errors(json.loads(text))
    named = [(list(fault.absolute_path), fault.message[:300]) for fault in faults]
    assert not named, (command, named[:5])


def compare_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare each object that a command of this process prints with its schema, until the patch is undone."""
    from typer._click.globals import get_current_context

    def compared(*words: Any, **more: Any) -> None:
        builtins.print(*words, **more)
        if not more and str(words[0]).startswith("{") and (context := get_current_context(silent=True)) is not None:
            require_schema(context.command_path.partition(" ")[2], words[0])

    monkeypatch.setattr(console, "print", compared, raising=False)
