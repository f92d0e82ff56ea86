"""train.py STEPS SECONDS [eager]: a small network trained with Adam, through tinygrad's JIT, which
makes a graph of a step, or without it. Prints every loss exactly, and writes the final weights
to a file. Ends with status 7."""

import sys
import time

import numpy as np
from hold import hold
from tinygrad import Tensor, TinyJit, nn
from tinygrad.helpers import Context

STEPS, REST = int(sys.argv[1]), float(sys.argv[2])


class Net:
    def __init__(self):
        self.first, self.last = nn.Linear(24, 32), nn.Linear(32, 5)

    def __call__(self, x):
        return self.last(self.first(x).relu())


Tensor.manual_seed(3)
random = np.random.default_rng(7)
inputs = random.normal(size=(640, 24)).astype(np.float32)
labels = random.integers(0, 5, 640).astype(np.int32)
net = Net()
optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=0.01)


def step(x, y):
    optimizer.zero_grad()
    loss = net(x).sparse_categorical_crossentropy(y)
    loss.backward()
    optimizer.step()
    return loss.realize()


if "eager" not in sys.argv:
    step = TinyJit(step)
with Context(TRAINING=1):
    for i in range(STEPS):
        at = i * 32 % len(labels)
        loss = step(Tensor(inputs[at:at + 32]).realize(), Tensor(labels[at:at + 32]).realize())
        print("step", i, loss.item().hex(), flush=True)
        time.sleep(REST)
hold()
with open("weights", "wb") as file:
    for name, weights in sorted(nn.state.get_state_dict(net).items()):
        file.write(name.encode() + b"\n" + weights.numpy().tobytes())
print("ok train", flush=True)
sys.exit(7)
