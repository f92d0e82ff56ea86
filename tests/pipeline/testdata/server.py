"""Runs Python programs that need PyTorch, which it imports once: each is a fork of this process.

It reads a line of JSON for each program: its path and arguments, its environment, and where its
output goes. It prints a line when the process has begun, and one when it has ended.
"""

import json
import os
import runpy
import selectors
import sys

import phos.pipeline  # noqa: F401
import torch  # noqa: F401

if os.environ.get("TRANSFORMERS"):
    sys.path.append(os.environ["TRANSFORMERS"])
    from transformers import AutoModelForCausalLM, GPT2LMHeadModel, LlamaForCausalLM  # noqa: F401


def serve():
    """Forks a process for each line, and returns the line in that process."""
    waiting = selectors.DefaultSelector()
    waiting.register(sys.stdin, selectors.EVENT_READ)
    while True:
        for ready, _ in waiting.select():
            if ready.data is not None:
                waiting.unregister(ready.fd)
                os.close(ready.fd)
                tell(ended=ready.data, status=os.waitpid(ready.data, 0)[1])
                continue
            line = sys.stdin.buffer.raw.readline()
            if not line:
                os._exit(0)
            program = json.loads(line)
            pid = os.fork()
            if pid == 0:
                waiting.close()
                return program
            waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)
            tell(begun=pid)


def tell(**news):
    print(json.dumps(news), flush=True)


def become(program):
    """Makes this process what it would be if it had been started for the program."""
    os.environ.clear()
    os.environ.update(each.split("=", 1) for each in program["environment"])
    output = os.open(program["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = program["arguments"]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    become(serve())
