"""Models and data for the tests of training: each returns layers, data and loss."""

import os
import sys

import torch
from torch import nn
from torch.nn import functional


class Tokens(nn.Module):
    """Embeds tokens and their positions."""

    def __init__(self, words, length, width):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)

    def forward(self, tokens):
        return self.words(tokens) + self.places(torch.arange(tokens.shape[1]))


class Block(nn.Module):
    """A block of a transformer that looks back only."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.before, self.middle = nn.LayerNorm(width), nn.LayerNorm(width)
        self.looks, self.joins = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            each.view(batch, length, self.heads, -1).transpose(1, 2)
            for each in self.looks(self.before(x)).split(width, dim=2)
        )
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        seen = scores.masked_fill(later, -torch.inf).softmax(dim=3) @ v
        x = x + self.dropout(self.joins(seen.transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.down(functional.gelu(self.up(self.middle(x)))))


class Head(nn.Module):
    """Predicts the next token."""

    def __init__(self, words, width):
        super().__init__()
        self.norm, self.words = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x):
        return self.words(self.norm(x))


def next_token(output, target):
    return functional.cross_entropy(output.flatten(0, 1), target.flatten())


def gpt(samples, width=48, blocks=6, words=64, length=24, dropout=0.0, tied=False):
    layers = [Tokens(words, length, width), *(Block(width, 4, dropout) for _ in range(blocks)), Head(words, width)]
    if tied:
        layers[-1].words.weight = layers[0].words.weight
    generator = torch.Generator().manual_seed(7)
    text = torch.randint(words, (samples, length + 1), generator=generator)
    return layers, [(each[:-1], each[1:]) for each in text], next_token


class Pair(nn.Module):
    """Hands on two tensors: a convolution of what came, and what came in the beginning."""

    def __init__(self, channels):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(4, channels)

    def forward(self, x, first):
        return torch.relu(self.norm(self.convolution(x))) + first, first


class Begin(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.convolution = nn.Conv2d(3, channels, 3, padding=1)

    def forward(self, x):
        x = self.convolution(x)
        return x, x


class End(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.classes = nn.Linear(channels, classes)

    def forward(self, x, first):
        return self.classes((x - first).mean(dim=(2, 3)))


def conv(samples, channels=16, blocks=5):
    layers = [Begin(channels), *(Pair(channels) for _ in range(blocks)), End(channels, 10)]
    generator = torch.Generator().manual_seed(8)
    images = torch.randn(samples, 3, 12, 12, generator=generator)
    classes = torch.randint(10, (samples,), generator=generator)
    return layers, list(zip(images, classes)), functional.cross_entropy


def small(samples, width=32, blocks=4):
    """Little enough for the software GPU."""
    blocks = [nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(blocks)]
    generator = torch.Generator().manual_seed(9)
    points = torch.randn(samples, 8, generator=generator)
    classes = torch.randint(5, (samples,), generator=generator)
    return [nn.Linear(8, width), *blocks, nn.Linear(width, 5)], list(zip(points, classes)), functional.cross_entropy


class Whole(nn.Module):
    """A model of transformers as one layer."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens, use_cache=False).logits


def hugging_face(kind, samples, words=64, length=24, split=True):
    """A language model of transformers, in layers or whole."""
    sys.path.append(os.environ["TRANSFORMERS"])
    import phos.pipeline  # reference.py runs without it
    from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

    config = {
        "gpt2": lambda: GPT2Config(
            n_layer=5, n_embd=48, n_head=4, n_positions=length, vocab_size=words, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        ),
        "llama": lambda: LlamaConfig(
            num_hidden_layers=5, hidden_size=48, intermediate_size=96, num_attention_heads=4, vocab_size=words,
        ),
    }[kind]()
    model = AutoModelForCausalLM.from_config(config).train()
    _, data, loss = gpt(samples, blocks=0, words=words, length=length)
    return phos.pipeline.split(model, data[0][0][None]) if split else [Whole(model)], data, loss


def make(name, samples):
    torch.manual_seed(11)
    torch.set_num_threads(1)
    return {
        "gpt": lambda: gpt(samples), "tied": lambda: gpt(samples, tied=True),
        "dropout": lambda: gpt(samples, dropout=0.1), "conv": lambda: conv(samples),
        "small": lambda: small(samples),
        "hf-gpt2": lambda: hugging_face("gpt2", samples), "hf-llama": lambda: hugging_face("llama", samples),
        "hf-gpt2-whole": lambda: hugging_face("gpt2", samples, split=False),
        "hf-llama-whole": lambda: hugging_face("llama", samples, split=False),
    }[name]()


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=3e-3)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)
