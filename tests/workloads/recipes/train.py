"""train: 100 steps on the GPU, of which the last 50 are made after a SIGHUP. Prints the state after
each step."""
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gpu

go = []
signal.signal(signal.SIGHUP, lambda *_: go.append(True))
vector = gpu.Vector()
for step in range(100):
    while step == 50 and not go:
        signal.sigtimedwait([signal.SIGCHLD], 0.01)
    vector.step()
    print("step", vector.check(), flush=True)
