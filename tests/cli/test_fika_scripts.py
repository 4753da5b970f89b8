"""Commands of FIKA-Bench's own documents have one of ours that does the same."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from snellen.cli import main
from snellen.cli.app import build
from snellen.cli.benchmark_options import own_options, tell_apart
from snellen.cli.suggestions import descend

pytestmark = pytest.mark.installed

DOCS = Path(__file__).parents[2] / "docs"


ROWS = re.findall(r"^\| `(\w+\.(?:py|sh).*?)` \| `snellen (.*?)` \|$", (DOCS / "fika.md").read_text("utf-8"), re.M)


@pytest.mark.parametrize(("script", "command"), ROWS, ids=[row[0].split()[0] for row in ROWS])
def test_the_commands_for_the_scripts_have_options_that_exist(script, command):
    words = shlex.split(command)
    target, path, rest = descend(get_command(build(words)), words)
    assert len(ROWS) == 8 and path and not tell_apart(rest, own_options(target)).unknown


def test_a_script_behind_snellen_is_no_command_and_its_key_is_not_shown(capsys):
    assert main(["scripts/run_api_eval.py", "--model", "m", "--api-key", "sk-another-secret"]) == 2
    said = capsys.readouterr().err
    assert "there is no command" in said and "sk-another-secret" not in said and "snellen --help fika" in said
