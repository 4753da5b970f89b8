"""Stands in for `vllm`, which needs a GPU: takes the words of `vllm serve` and does what the model's name says.

It shows what our side does (starting, waiting, naming, ending), and nothing about vLLM itself. It ends by itself after
two minutes. It writes its words, its GPUs and its processes to $STAND_IN_SAYS.

Models: `dies` writes a line and ends with status 3; `hangs` never answers; `stubborn` ignores SIGTERM, as does a child
of it in a session of its own; `misnamed` serves another name; any other answers.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

words = sys.argv[1:]
model = words[1]
values = dict(itertools.pairwise(words))
threading.Timer(120, os._exit, [9]).start()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        name = "another/model" if model == "misnamed" else values["--served-model-name"]
        key = os.environ.get("VLLM_API_KEY")
        if self.path != "/health" and key and self.headers.get("Authorization") != f"Bearer {key}":
            return self.reply({"error": "no key"}, 401)
        return self.reply({"data": [{"id": name}]} if self.path == "/v1/models" else {})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "model" not in asked:
            return self.reply({"error": {"message": "no model"}}, 400)
        message = {"role": "assistant", "content": "green"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1}
        return self.reply({"id": "1", "model": asked["model"], "choices": [choice], "usage": usage})

    def reply(self, body, status=200):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


child = None
if model == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
said = {"words": words, "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"), "pids": [os.getpid()]}
if child is not None:
    said["pids"].append(child.pid)
Path(os.environ["STAND_IN_SAYS"]).write_text(json.dumps(said))
print("loading", model, flush=True)
if model == "dies":
    print("ValueError: no supported config", file=sys.stderr, flush=True)
    os._exit(3)
if model == "hangs":
    time.sleep(3600)
ThreadingHTTPServer((values["--host"], int(values["--port"])), Handler).serve_forever()
