"""The models for measurements and checkpoints of PyTorch: a training of GPT-2's size, one of a
ResNet-50, and a decoding loop, each one step at a time.

A scale below 1 makes the model smaller, for machines where it is run but not measured.
"""

import warnings

warnings.simplefilter("ignore")  # PyTorch does not know the software GPU's capability

import torch  # noqa: E402
from torch import nn  # noqa: E402


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

    return step, model


class Bottleneck(nn.Module):
    def __init__(self, inner, width, stride):
        super().__init__()
        self.stride, self.width = stride, width
        self.layers = nn.Sequential(
            nn.LazyConv2d(inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width))
        self.beside = nn.Sequential(nn.LazyConv2d(width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        beside = x if x.shape[1] == self.width and self.stride == 1 else self.beside(x)
        return nn.functional.relu(self.layers(x) + beside)


def resnet50(scale):
    """The network of 50 layers; a scale below 1 makes it thinner, and its groups shorter."""
    base, blocks = max(4, int(64 * scale)), []
    for stage, count in enumerate((3, 4, 6, 3)):
        for block in range(max(1, int(count * scale))):
            blocks.append(Bottleneck(base << stage, 4 * base << stage, 2 if block == 0 and stage > 0 else 1))
    stem = [nn.Conv2d(3, base, 7, 2, 3, bias=False), nn.BatchNorm2d(base), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LazyLinear(1000))


def train_resnet50(scale):
    side = max(32, int(224 * scale))
    model = resnet50(scale).cuda()
    images = torch.randn(max(2, int(64 * scale)), 3, side, side, device="cuda")
    classes = torch.randint(1000, (len(images),), device="cuda")
    model(images)  # lazy layers get their sizes
    for block in model:
        if isinstance(block, Bottleneck) and isinstance(block.beside[0], nn.LazyConv2d):
            del block.beside  # the block adds its input
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, model


def decode(scale):
    """One word at a time, as servers do: many small kernels, and a synchronization per word."""
    model = Transformer(scale).cuda().eval()
    words = torch.randint(model.words, (1, min(128, model.length // 2)), device="cuda")

    @torch.inference_mode()
    def step():
        nonlocal words
        chosen = model(words)[:, -1].argmax(-1, keepdim=True)
        words = torch.cat([words[:, 1:], chosen], 1)
        return chosen.item()

    return step, model


MODELS = {"gpt2": train_gpt2, "resnet50": train_resnet50, "decode": decode}


def make(kind, scale):
    """Returns the model's step, which returns a number, and the model."""
    if torch.cuda.get_device_name().startswith("phos software"):
        torch.backends.cudnn.enabled = False  # it has machine code only
    torch.manual_seed(1)
    return MODELS[kind](scale)
