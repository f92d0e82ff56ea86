"""Trains in one process, without phos: what all runs on several ranks are compared with.
usage: reference.py plain|rule MODEL STEPS MICROBATCH BATCH CLIP OUT

plain is how PyTorch trains. rule is the same by the rule of docs/training.md: each layer's gradients
are computed by themselves and added as a tree.
"""

import json
import math
import sys

import torch
from torch.utils.data import default_collate

import models


def tree(numbers, of):
    """Adds as a binary tree over the numbers."""
    if len(numbers) == 1:
        return of[numbers[0]]
    half = 1 << (len(numbers) - 1).bit_length() - 1
    left, right = tree(numbers[:half], of), tree(numbers[half:], of)
    return [[one + two for one, two in zip(ours, theirs)] for ours, theirs in zip(left, right)]


def call(layer, values):
    made = layer(*values)
    return made if isinstance(made, tuple) else (made,)


def by_rule(layers, loss, batches):
    """Returns the mean gradient of each parameter, its norm and the mean loss."""
    gradients, losses = {}, []
    for number, (values, target) in enumerate(batches):
        values, kept = (values,), []
        for layer in layers:
            inputs = tuple(each.detach().requires_grad_(each.is_floating_point()) for each in values)
            values = call(layer, inputs)
            kept.append((inputs, values))
        (last,) = values
        end = last.detach().requires_grad_()
        one = loss(end, target)
        one.backward()
        losses.append(one.item())
        back, gradients[number] = (end.grad,), []
        for layer, (inputs, outputs) in zip(reversed(layers), reversed(kept)):
            torch.autograd.backward(outputs, back)
            back = tuple(each.grad for each in inputs)
            gradients[number].insert(0, [each.grad for each in layer.parameters()])
            for each in layer.parameters():
                each.grad = None
    totals, sums = tree(list(range(len(batches))), gradients), {}
    for layer, total in zip(layers, totals):
        for parameter, each in zip(layer.parameters(), total):
            sums[parameter] = sums[parameter] + each if parameter in sums else each
    squares, seen = [], set()
    for layer in layers:
        new = [each for each in layer.parameters() if each not in seen]
        seen.update(new)
        flat = torch.cat([sums[each].reshape(-1).double() for each in new]) if new else torch.zeros(1)
        squares.append(float(flat.square().sum()))
    count = len(batches)
    return sums, math.sqrt(math.fsum(squares)) / count, math.fsum(losses) / count


def plain(layers, loss, batches):
    """Returns the same, as PyTorch computes it."""
    parameters = {each: None for layer in layers for each in layer.parameters()}
    total = 0.0
    for values, target in batches:
        values = (values,)
        for layer in layers:
            values = call(layer, values)
        one = loss(*values, target)
        one.backward()
        total += one.item()
    sums = {each: each.grad for each in parameters}
    norm = float(torch.stack([each.norm() for each in sums.values()]).norm())
    return sums, norm / len(batches), total / len(batches)


def main(how, name, steps, microbatch, batch, clip, out):
    layers, data, loss = models.make(name, batch * steps)
    parameters = list({each: None for layer in layers for each in layer.parameters()})
    optimizer = models.optimizer(parameters)
    scheduler = models.scheduler(optimizer)
    with open(out + ".steps", "w") as file:
        for step in range(steps):
            begins = range(step * batch, (step + 1) * batch, microbatch)
            batches = [default_collate(data[begin:begin + microbatch]) for begin in begins]
            sums, norm, mean = {"plain": plain, "rule": by_rule}[how](layers, loss, batches)
            for each in parameters:
                each.grad = sums[each] / len(batches)
                if norm > clip:
                    each.grad *= clip / (norm + 1e-6)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
            print(json.dumps({"number": step, "loss": mean, "norm": norm}), file=file, flush=True)
    whole = {f"{i}.{key}": each for i, layer in enumerate(layers) for key, each in layer.state_dict().items()}
    torch.save(whole, out + ".pt")


if __name__ == "__main__":
    main(
        sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6]), sys.argv[7]
    )
