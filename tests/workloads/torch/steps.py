"""Makes a number of steps of a small model, then prints "stepped" and waits for the end.

usage: steps.py MODEL STEPS, where MODEL is gpt2, resnet50 or decode
"""

import signal
import sys

from models import make


def main():
    step, _ = make(sys.argv[1], 0.1)
    for _ in range(int(sys.argv[2])):
        step()
    print("stepped", flush=True)
    signal.pause()


main()
