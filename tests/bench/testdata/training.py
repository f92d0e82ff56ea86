"""A rank of a training whose speed is measured.
usage: training.py phos|plain WIDTH BLOCKS TOKENS STEPS MICROBATCH BATCH OUT [NAME=VALUE...]

"plain" is a pipeline of two stages as PyTorch's users write it: gloo, one forward, one backward.
Prints the seconds of each step. Last stages write which microbatches they have computed to OUT.RANK.
"""

import sys
import time

import torch
from torch import distributed, nn
from torch.utils.data import default_collate


class Block(nn.Module):
    """As much computation as state."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


def make(width, blocks, tokens, samples):
    torch.manual_seed(5)
    layers = [nn.Linear(16, width), *(Block(width) for _ in range(blocks)), nn.Linear(width, 1)]
    inputs = torch.randn(samples, tokens, 16)
    return layers, [(each, each.sum(dim=1, keepdim=True)) for each in inputs]


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4)


def train_phos(layers, data, steps, microbatch, batch, out, **given):
    import phos.pipeline as pp
    from phos.pipeline.iteration import Iteration

    forward, file = Iteration._forward, None

    def counted(iteration, number, losses):
        forward(iteration, number, losses)
        if iteration.after is None:  # the last stage
            print(iteration.step, number, file=file, flush=True)

    Iteration._forward = counted
    job = pp.Training(
        layers, nn.functional.mse_loss, optimizer, data, microbatch=microbatch, batch=batch, steps=steps, shuffle=False,
        faults=int(given.get("faults", 0)), memory=int(given.get("memory", 0)),
    )
    with open(f"{out}.{job.rank}", "w") as file:
        for step in job:
            print(step.seconds, flush=True)


class Plain:
    """A stage of two."""

    def __init__(self, layers, data, microbatch, batch, width):
        self.rank, self.data, self.microbatch, self.batch = distributed.get_rank(), data, microbatch, batch
        middle = len(layers) // 2
        self.layers = nn.ModuleList(layers[:middle] if self.rank == 0 else layers[middle:])
        self.shape = (microbatch, data[0][0].shape[0], width)
        self.kept = {}

    def forward(self, step, number):
        begin = step * self.batch + number * self.microbatch
        x, target = default_collate([self.data[i % len(self.data)] for i in range(begin, begin + self.microbatch)])
        if self.rank == 1:
            x = torch.empty(self.shape)
            distributed.recv(x, 0)
            came = x.requires_grad_()
        for layer in self.layers:
            x = layer(x)
        if self.rank == 0:
            self.kept[number] = x
            return distributed.isend(x.detach(), 1)
        self.kept[number] = came, nn.functional.mse_loss(x, target)
        return None

    def backward(self, number):
        if self.rank == 0:
            gradient = torch.empty(self.shape)
            distributed.recv(gradient, 1)
            self.kept.pop(number).backward(gradient)
            return None
        came, loss = self.kept.pop(number)
        loss.backward()
        return distributed.isend(came.grad, 0)

    def step(self, step):
        count, sent = self.batch // self.microbatch, []
        ahead = 1 - self.rank
        for number in range(count + ahead):
            if number < count:
                sent.append(self.forward(step, number))
            if number >= ahead:
                sent.append(self.backward(number - ahead))
        for each in sent:
            if each is not None:
                each.wait()
        for parameter in self.layers.parameters():
            parameter.grad /= count


def train_plain(layers, data, steps, microbatch, batch, out, width):
    distributed.init_process_group("gloo")
    plain = Plain(layers, data, microbatch, batch, width)
    own = optimizer(plain.layers.parameters())
    for step in range(steps):
        began = time.perf_counter()
        plain.step(step)
        own.step()
        own.zero_grad(set_to_none=True)
        print(time.perf_counter() - began, flush=True)


def main(how, width, blocks, tokens, steps, microbatch, batch, out, *options):
    torch.set_num_threads(1)
    width, steps, microbatch, batch = int(width), int(steps), int(microbatch), int(batch)
    layers, data = make(width, int(blocks), int(tokens), min(4 * batch, batch * steps))
    if how == "plain":
        train_plain(layers, data, steps, microbatch, batch, out, width)
    else:
        train_phos(layers, data, steps, microbatch, batch, out, **dict(each.split("=") for each in options))


if __name__ == "__main__":
    main(*sys.argv[1:])
