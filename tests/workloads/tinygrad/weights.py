"""Trains the network of convnet.py and writes its weights: every run prints the same lines and
writes the same weights.

usage: weights.py FILE [STEPS]
"""

import sys

from tinygrad import Tensor, TinyJit, nn
from tinygrad.helpers import Context

import convnet


def train(net, steps):
    optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=0.003)
    images, labels = convnet.pictures()

    @TinyJit
    def step(x, y):
        optimizer.zero_grad()
        loss = net(x).sparse_categorical_crossentropy(y)
        loss.backward()
        optimizer.step()
        return loss.realize()

    with Context(TRAINING=1):
        for i in range(1, steps + 1):
            at = (i - 1) * convnet.BATCH % len(labels)
            x, y = images[at:at + convnet.BATCH], labels[at:at + convnet.BATCH]
            loss = step(Tensor(x).realize(), Tensor(y).realize()).item()
            # In hexadecimal the loss shows all its bits.
            print(f"step {i:3d}  loss {loss:.4f}  {loss.hex()}", flush=True)


def main(path, steps="200"):
    Tensor.manual_seed(3)
    net = convnet.Net()
    train(net, int(steps))
    nn.state.safe_save(nn.state.get_state_dict(net), path)
    print("trained", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
