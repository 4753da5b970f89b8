#!/usr/bin/python3
"""A stand-in for OpenCode: asks the model of its configuration once, with a key, and writes the database that is read.

A question with <look> in it makes it say what its configuration holds, and whether it can be changed. One with <link>,
<pipe>, <folder> or <socket> makes it put that in the place of its database.
"""

import json
import os
import socket
import sqlite3
import sys
import urllib.request
from pathlib import Path

if "--version" in sys.argv:
    print("9.8.7")
    raise SystemExit

path = Path(os.environ["XDG_CONFIG_HOME"], "opencode", "opencode.json")
config = json.loads(path.read_text())
name = config["model"]
provider, _, model = name.partition("/")
options = config["provider"][provider]["options"]
key = os.environ[options["apiKey"].removeprefix("{env:").removesuffix("}")]
question = sys.stdin.read()
said = ""
if "<look>" in question:
    try:
        with path.open("a") as file:
            file.write(" ")
        changed = "changed"
    except OSError as error:
        changed = f"not changed: {error.strerror}"
    try:
        path.replace(path.with_name("moved.json"))
        changed += ", moved"
    except OSError:
        changed += ", not moved"
    beside = [entry.name for entry in Path(sys.argv[0]).parent.iterdir()]
    said = json.dumps({"changed": changed, "config": config, "beside": beside})
print("message=stream providerID=", file=sys.stderr, flush=True)
body = {"model": model, "messages": [{"role": "user", "content": question}], "stream": False}
request = urllib.request.Request(
    options["baseURL"] + "/chat/completions",
    json.dumps(body).encode(),
    {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
)
with urllib.request.urlopen(request, timeout=600) as reply:
    raw = reply.read().decode()
if raw.startswith("data:"):
    chunks = [json.loads(line[5:]) for line in raw.splitlines() if line.startswith("data:") and "[DONE]" not in line]
    text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])
else:
    text = json.loads(raw)["choices"][0]["message"]["content"]
folder = Path(os.environ["XDG_DATA_HOME"], "opencode")
folder.mkdir(parents=True, exist_ok=True)
if "<link>" in question:
    (folder / "opencode.db").symlink_to("/etc/passwd")
    raise SystemExit
if "<pipe>" in question:
    os.mkfifo(folder / "opencode.db")
    raise SystemExit
if "<folder>" in question:
    (folder / "opencode.db").mkdir()
    raise SystemExit
if "<socket>" in question:
    os.chdir(folder)
    socket.socket(socket.AF_UNIX).bind("opencode.db")
    raise SystemExit
base = sqlite3.connect(folder / "opencode.db")
base.execute("CREATE TABLE session (id, parent_id)")
base.execute("CREATE TABLE message (id, session_id, time_created, data)")
base.execute("CREATE TABLE part (id, message_id, time_created, data)")
base.execute("INSERT INTO session VALUES ('s', NULL)")
tokens = {"input": 5, "output": 3}
for number, (role, parts) in enumerate(
    [
        ("user", [{"type": "text", "text": question}]),
        ("assistant", [{"type": "text", "text": said or text}, {"type": "step-finish", "reason": "stop"}]),
    ]
):
    base.execute(
        "INSERT INTO message VALUES (?, 's', ?, ?)", (str(number), number, json.dumps({"role": role, "tokens": tokens}))
    )
    for at, part in enumerate(parts):
        base.execute(
            "INSERT INTO part VALUES (?, ?, ?, ?)", (f"{number}{at}", str(number), number * 10 + at, json.dumps(part))
        )
base.commit()
base.close()
