"""Apptainer itself: an image that we build, what is seen from inside it, and the agents in it.

Debian 12 has no package of it; where `apptainer` is not on PATH, all of this is skipped, each test saying so. The image is
made of a few of this system's programs and their libraries.
"""

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agents.test_real_agents import GOLD, play, scripts
from agents.test_shut_in import ASKED, HUNT
from servers.scripted import ScriptedServer
from snellen.models import trace
from snellen.models.agents import apptainer, process, sandbox
from snellen.models.agents.install import Installation
from snellen.models.agents.process import AgentCommand, TranscriptState
from snellen.models.agents.workdir import WorkdirFactory

pytestmark = pytest.mark.skipif(
    shutil.which("apptainer") is None, reason="NO apptainer HERE: its sandbox is tested with a stand-in only"
)
PROGRAMS = ("sh", "bash", "cat", "ls", "ln", "find", "tr", "xargs", "sleep", "touch", "echo", "env", "id")
# What Node and OpenCode's program are linked with, and what is opened by name at run time.
LIBRARIES = (
    *("libstdc++.so.6", "libgcc_s.so.1", "libatomic.so.1", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"),
    *("libutil.so.1", "libresolv.so.2", "libnss_files.so.2", "libnss_dns.so.2"),
)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """A SIF of a root folder with a shell and libraries, built as `snellen agents image` builds it."""
    root = tmp_path_factory.mktemp("apptainer") / "root"
    for folder in ("usr/bin", "etc", "tmp", "proc", "sys", "dev", "var/tmp", "home", "root"):
        (root / folder).mkdir(parents=True)
    for link in ("bin", "lib", "lib64"):
        (root / "usr" / link).mkdir(exist_ok=True)
        (root / link).symlink_to(f"usr/{link}")
    programs = [found for name in (*PROGRAMS, "rg") if (found := shutil.which(name))]
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    named = [found[1] for name in LIBRARIES if (found := re.search(rf"{re.escape(name)} \(.*x86-64.*=> (\S+)", cache))]
    wanted = {Path(one) for one in (*programs, *named)}
    for one in list(wanted):
        told = subprocess.run(["ldd", str(one)], capture_output=True, text=True, check=False).stdout
        wanted |= {Path(path) for path in re.findall(r"(/\S+) \(0x", told)}
    for path in wanted:
        copy = root / path.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path.resolve(), copy)
    shutil.copytree("/etc/ssl/certs", root / "etc/ssl/certs", symlinks=False, ignore_dangling_symlinks=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/resolv.conf").touch()
    (root / "etc/hosts").touch()
    out = root.parent / "image.sif"
    digest = apptainer.build(str(root), out)
    assert apptainer.check(str(out)) == digest
    return out


def test_what_lies_outside_cannot_be_read_from_inside_apptainer(image, tmp_path):
    for name in ("gold.json", "results/gold.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"answer": "the-gold-answer"}')
    rooms = WorkdirFactory(tmp_path)
    here = rooms.make(ASKED, "work", sandbox.SAMPLE, sandbox.AGENT, None)
    installation = tmp_path / "installation"
    installation.mkdir()
    (installation / "program.txt").write_text("the-program")
    workplace = f"{here.inside}/{here.workplace}"
    script = HUNT.format(gold=tmp_path / "gold.json", folder=tmp_path) + (
        f"\ncat {sandbox.AGENT}/program.txt; touch {sandbox.AGENT}/x && echo wrote-agent; "
        "for place in / /root /etc /usr; do touch $place/x && echo wrote-$place; done; "
        "[ -w /proc/sys/kernel/core_pattern ] && echo wrote-kernel; ls /sys/* && echo saw-sys; cat /proc/self/status; "
        f"echo kept > {workplace}/kept.txt; pwd; env; echo done\n"
    )
    command = AgentCommand(["/bin/sh", "-s"], {"HOME": f"{here.inside}/home"}, workplace, script.encode())
    found = Installation("opencode", "1", "", 0, 0, "", "", installation)
    shut = sandbox.wrap_command("apptainer", command, here, found, "k-123456789", str(image))
    assert "k-123456789" not in " ".join(shut.argv), "process arguments are public"
    with subprocess.Popen(["sleep", "60"], env={"OTHER_KEY": "the-other-secret"}) as other:
        idle = TranscriptState(finished=False, loops=False)
        ran = asyncio.run(process.run(shut, here.stdout, here.stderr, 60.0, lambda: True, lambda: 0, lambda: idle))
        other.kill()
    seen = here.stdout.read_text()
    assert ran.end == "exit" and seen.endswith("done\n"), here.stderr.read_text()
    assert "the-program" in seen and f"{workplace}\n" in seen and "wrote-" not in seen and "saw-sys" not in seen
    assert "Seccomp:\t2" in seen and "CapEff:\t0000000000000000" in seen
    assert "the-gold-answer" not in seen and "the-other-secret" not in seen
    assert "SNELLEN_MODEL_KEY=k-123456789" in seen, "the endpoint's key is the agent's to use"
    assert here.contents(here.work, ["kept.txt"]) == {"kept.txt": b"kept\n"}
    here.remove()
    rooms.close()


@pytest.mark.agents
def test_a_real_agent_answers_in_apptainer_and_finds_no_gold(agent, image, tmp_path):
    gold = tmp_path / "gold.json"
    gold.write_text(json.dumps({"answer": GOLD}))
    with ScriptedServer(scripts(agent, gold)) as server:
        run = play(
            agent,
            ["good", "hunt"],
            tmp_path / "run",
            server,
            timeout_s=150.0,
            concurrency=1,
            sandbox="apptainer",
            sif=str(image),
        )
        good, hunt = (
            next(one for one in run.folder.records() if one.sample_id == name) for name in ("good/1", "hunt/1")
        )
        assert good.status == "ok", good.error
        assert good.response.text == '{"answer": "kestrel"}'
        assert good.response.finish_reason == trace.STOP and server.pictures("good")
        assert hunt.status == "ok", hunt.error
        assert "hunted-in-/sample" in hunt.response.text and GOLD not in hunt.response.text
        assert GOLD not in json.dumps(server.asked)
