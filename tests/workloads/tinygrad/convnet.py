"""A small convolutional network with batch normalisation, trained with Adam through the JIT (which makes CUDA graphs)."""

import numpy as np
from tinygrad import Tensor, TinyJit, nn
from tinygrad.helpers import Context

import pair

STEPS, BATCH, CLASSES = 100, 32, 10


class Net:
    def __init__(self):
        self.first = nn.Conv2d(1, 8, 3)
        self.norm = nn.BatchNorm(8)
        self.second = nn.Conv2d(8, 12, 3)
        self.last = nn.Linear(12 * 2 * 2, CLASSES)

    def __call__(self, x):
        x = self.norm(self.first(x)).relu().max_pool2d()
        return self.last(self.second(x).relu().max_pool2d().flatten(1))


def pictures():
    """Noisy copies of ten random 14x14 pictures, and their labels."""
    random = np.random.default_rng(7)
    patterns = random.normal(size=(CLASSES, 14, 14)).astype(np.float32)
    labels = random.integers(0, CLASSES, 2048).astype(np.int32)
    images = patterns[labels] + random.normal(scale=1.0, size=(2048, 14, 14)).astype(np.float32)
    return images[:, None], labels


def train():
    Tensor.manual_seed(3)
    net = Net()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=0.003)
    images, labels = pictures()

    @TinyJit
    def step(x, y):
        optimizer.zero_grad()
        loss = net(x).sparse_categorical_crossentropy(y)
        loss.backward()
        optimizer.step()
        return loss.realize()

    losses = []
    with Context(TRAINING=1):
        for i in range(STEPS):
            at = i * BATCH % len(labels)
            loss = step(Tensor(images[at:at + BATCH]).realize(), Tensor(labels[at:at + BATCH]).realize())
            losses.append(loss.item())
            pair.watch(len(losses), losses[-1])
    return losses


if __name__ == "__main__":
    pair.run("convnet", train, tolerance=0.05, falls_to=0.3)
