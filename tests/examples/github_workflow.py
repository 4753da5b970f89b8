"""A job of GitHub Actions, run here: the `run` steps by bash and in order, local composite actions too.

Actions of other repositories are not run: `Job.skipped` names them.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

TEMPLATE = re.compile(r"\$\{\{(.*?)\}\}", re.S)
CONTEXT = re.compile(r"\b(github|inputs|steps)\.([\w.-]+)")
STATUS = re.compile(r"\b(success|cancelled|always|failure)\(\)")
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
"""As GitHub calls a step whose shell is bash."""


@dataclass
class Job:
    """The state of a job: where it runs, what its expressions may name, and what has been done."""

    folder: Path
    variables: dict[str, str]
    github: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    steps: dict[str, str] = field(default_factory=dict)
    """Outputs of earlier steps, as `ID.outputs.NAME`."""
    failed: bool = False
    skipped: list[str] = field(default_factory=list)
    done: list[subprocess.CompletedProcess[str]] = field(default_factory=list)

    def run(self, steps: list[dict[str, Any]]) -> Job:
        """Run steps in order. After one that failed, those alone whose condition asks for a status."""
        for step in steps:
            condition = TEMPLATE.sub(r"\1", str(step.get("if", "success()")))
            if not STATUS.search(condition):
                condition = f"success() && ({condition})"
            if self.value(condition):
                self._step(step)
        return self

    def value(self, expression: str) -> Any:
        """Return what an expression is: contexts, comparisons, `!`, `&&` and `||`, which mean the same in Python."""
        states = {"success": not self.failed, "failure": self.failed, "cancelled": False, "always": True}
        text = CONTEXT.sub(lambda m: repr(getattr(self, m[1]).get(m[2], "")), expression)
        text = STATUS.sub(lambda m: str(states[m[1]]), text)
        text = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or "))
        return eval(text.strip(), {"__builtins__": {}})

    def text(self, template: object) -> str:
        """Return a setting with its expressions resolved."""
        return TEMPLATE.sub(lambda m: str(self.value(m[1])), str(template))

    def _step(self, step: dict[str, Any]) -> None:
        uses = str(step.get("uses", ""))
        if uses.startswith("./"):
            action = yaml.safe_load((self.folder / uses / "action.yml").read_text(encoding="utf-8"))
            given = {name: self.text(value) for name, value in step.get("with", {}).items()}
            unknown, inputs = given.keys() - action["inputs"].keys(), defaults(action) | given
            assert not unknown, f"{uses} has no input {unknown}"
            inner = Job(self.folder, self.variables, self.github, inputs, skipped=self.skipped, done=self.done)
            self.failed = inner.run(action["runs"]["steps"]).failed
        elif uses:
            self.skipped.append(uses.partition("@")[0])
        else:
            variables = {name: self.text(value) for name, value in step.get("env", {}).items()}
            self.done.append(
                subprocess.run(
                    [*BASH, self.text(step["run"])],
                    cwd=self.folder,
                    env={**self.variables, **variables},
                    capture_output=True,
                    text=True,
                    timeout=600,
                )
            )
            self.failed = self.done[-1].returncode != 0


def defaults(action: dict[str, Any]) -> dict[str, str]:
    """Return the inputs of an action that a caller need not give."""
    return {name: str(entry.get("default", "")) for name, entry in action["inputs"].items()}
