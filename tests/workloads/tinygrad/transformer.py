"""A small transformer that learns to reverse sequences, trained with AdamW through the JIT."""

import numpy as np
from tinygrad import Tensor, TinyJit, nn
from tinygrad.helpers import Context

import pair

STEPS, BATCH, VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 60, 16, 12, 10, 32, 2, 1


class Block:
    def __init__(self):
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def __call__(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = q.scaled_dot_product_attention(k, v).transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + self.out(mixed)
        return x + self.down(self.up(self.norm2(x)).gelu())


class Model:
    def __init__(self):
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = [Block() for _ in range(LAYERS)]
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def __call__(self, tokens):
        x = self.token(tokens) + self.place(Tensor.arange(LENGTH))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train():
    Tensor.manual_seed(5)
    model = Model()
    optimizer = nn.optim.AdamW(nn.state.get_parameters(model), lr=0.003)
    random = np.random.default_rng(11)
    tokens = random.integers(0, VOCABULARY, (STEPS, BATCH, LENGTH)).astype(np.int32)

    @TinyJit
    def step(x, y):
        optimizer.zero_grad()
        loss = model(x).reshape(-1, VOCABULARY).sparse_categorical_crossentropy(y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.realize()

    losses = []
    with Context(TRAINING=1):
        for batch in tokens:
            loss = step(Tensor(batch).realize(), Tensor(np.ascontiguousarray(batch[:, ::-1])).realize())
            losses.append(loss.item())
            pair.watch(len(losses), losses[-1])
    return losses


if __name__ == "__main__":
    pair.run("transformer", train, tolerance=0.05, falls_to=0.5)
