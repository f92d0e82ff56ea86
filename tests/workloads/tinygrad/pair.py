"""Runs a training twice, on the device under test and on tinygrad's CPU backend, and compares the
results."""

import json
import os
import subprocess
import sys


def on_cpu(argv):
    """The losses of the same script on the CPU backend, in a process without phos."""
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    environment["DEV"] = "CPU"
    run = subprocess.run([sys.executable, argv[0], "--losses"], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)


def watch(step, loss):
    """Prints the progress of the training on a terminal."""
    if "--watch" in sys.argv and step % 20 == 0:
        print(f"step {step:3d}  loss {loss:.4f}", flush=True)


def run(name, train, tolerance, falls_to):
    """train() returns one loss per step. They must agree with the CPU's, and end below falls_to
    times the first."""
    if "--losses" in sys.argv:
        print(json.dumps(train()))
        return
    losses = train()
    expected = on_cpu(sys.argv)  # one after the other: both at once take longer
    assert len(losses) == len(expected)
    worst = max(abs(a - b) / (0.1 + abs(b)) for a, b in zip(losses, expected))
    print(f"{name}: {len(losses)} steps, loss {losses[0]:.4f} -> {losses[-1]:.4f}, CPU {expected[-1]:.4f}, "
          f"largest difference {worst:.2e}")
    assert losses[-1] < falls_to * losses[0], "the loss does not fall"
    assert worst < tolerance, "the losses differ from the CPU's"
    print(f"ok {name}")
