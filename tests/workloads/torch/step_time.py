"""How long a step takes: of a training of GPT-2's size, of a ResNet-50, of a decoding loop.

usage: step_time.py gpt2|resnet50|decode STEPS [SCALE]

SCALE below 1 makes the model smaller, for machines on which it is to run but not to be measured. Prints the median and the
90th percentile in milliseconds, and a sum of what was computed, so that two runs can be compared.
"""

import statistics
import sys
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.mixed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.widened = nn.Linear(width, 4 * width)
        self.narrowed = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        split = self.mixed(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrowed(nn.functional.gelu(self.widened(self.between(x))))


class Transformer(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.words = max(64, int(50257 * scale))
        self.heads = max(1, int(12 * scale))
        width, layers = 64 * self.heads, max(1, int(12 * scale))
        self.length = max(16, int(1024 * scale))
        self.word = nn.Embedding(self.words, width)
        self.place = nn.Embedding(self.length, width)
        self.blocks = nn.Sequential(*(Block(width, self.heads) for _ in range(layers)))
        self.last = nn.LayerNorm(width)

    def forward(self, words):
        place = torch.arange(words.shape[1], device=words.device)
        x = self.blocks(self.word(words) + self.place(place))
        return self.last(x) @ self.word.weight.T


def train_gpt2(scale):
    model = Transformer(scale).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    batch = max(1, int(8 * scale))
    words = torch.randint(model.words, (batch, model.length + 1), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        scores = model(words[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def train_resnet50(scale):
    from torchvision.models import resnet50

    model = resnet50(num_classes=1000).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images = torch.randn(max(2, int(64 * scale)), 3, 224, 224, device="cuda")
    classes = torch.randint(1000, (len(images),), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def decode(scale):
    """A word at a time, as servers do: many small kernels, and a question to the GPU after each word."""
    model = Transformer(scale).cuda().eval()
    words = torch.randint(model.words, (1, min(128, model.length // 2)), device="cuda")

    @torch.inference_mode()
    def step():
        nonlocal words
        chosen = model(words)[:, -1].argmax(-1, keepdim=True)
        words = torch.cat([words[:, 1:], chosen], 1)
        return chosen.item()

    return step


def main():
    kind, steps = sys.argv[1], int(sys.argv[2])
    scale = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
    torch.manual_seed(1)
    step = {"gpt2": train_gpt2, "resnet50": train_resnet50, "decode": decode}[kind](scale)
    for _ in range(max(3, steps // 5)):
        step()
    times, total = [], 0.0
    for _ in range(steps):
        start = time.perf_counter()
        total += step()
        times.append(1000 * (time.perf_counter() - start))
    times.sort()
    print(f"median_ms {statistics.median(times):.6g}")
    print(f"p90_ms {times[len(times) * 9 // 10]:.6g}")
    print(f"sum {total:.9g}")


main()
