"""A run cannot be lost."""

import json
import subprocess
import sys
from pathlib import Path

KILLS = 200


def test_a_run_killed_at_any_moment_ends_with_every_sample_once(tmp_path):
    script = Path(__file__).with_name("kills.py")
    done = subprocess.run(
        [sys.executable, str(script), str(KILLS), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcome = json.loads(done.stdout.splitlines()[-1])
    print(outcome)
    assert outcome["kills"] >= KILLS
    assert outcome["cuts"] > 20
    assert outcome["runs"] > 10
