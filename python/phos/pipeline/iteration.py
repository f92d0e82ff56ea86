"""One iteration of a pipeline: one forward, one backward, by turns."""

from __future__ import annotations

from typing import Any, Callable

import torch

from . import state
from .batches import Batches
from .layer import Layer, Values, as_values, floating
from .mesh import Mesh
from .plan import Pipeline
from .profile import loss_gradients, to_device
from .sums import Tree


def order(position: int, stages: int, microbatches: list[int]) -> list[tuple[str, int]]:
    """Returns what a stage computes, one after the other: forward and backward passes.

    The stage begins with as many forward passes as stages follow, and keeps no more.
    """
    ahead = min(stages - position - 1, len(microbatches))
    steps = [("forward", number) for number in microbatches[:ahead]]
    for done, number in enumerate(microbatches[ahead:]):
        steps += [("forward", number), ("backward", microbatches[done])]
    return steps + [("backward", number) for number in microbatches[len(microbatches) - ahead:]]


class Iteration:
    """What a rank computes of one iteration, as one stage of a pipeline."""

    def __init__(
        self, mesh: Mesh, step: int, pipeline: Pipeline, position: int, layers: list[Layer], batches: Batches,
        loss: Callable[[Any, Any], torch.Tensor],
    ) -> None:
        self.mesh, self.step, self.layers, self.batches, self.loss = mesh, step, layers, batches, loss
        self.settings = layers[0].settings
        self.position, self.stages = position, len(pipeline.stages)
        ranks = [stage.rank for stage in pipeline.stages]
        self.before = ranks[position - 1] if position > 0 else None
        self.after = ranks[position + 1] if position + 1 < self.stages else None
        # The last layer's outputs, and the targets, from the forward to the backward pass.
        self._ends: dict[int, Values] = {}

    def run(self, microbatches: list[int], sums: dict[int, Tree], losses: dict[int, float]) -> None:
        """Computes microbatches, and adds their gradients and losses to those that lack them."""
        for what, number in order(self.position, self.stages, microbatches):
            self.mesh.check()
            if what == "forward":
                self._forward(number, losses)
            else:
                self._backward(number, sums)

    def _forward(self, number: int, losses: dict[int, float]) -> None:
        if self.before is None:
            values = as_values(self.batches.load(self.step, number)[0], "the data")
        else:
            values = self._receive(self.before, f"forward/{number}")
        values = to_device(values, self.settings.device)
        for layer in self.layers:
            values = layer.forward(self.step, number, values)
        if self.after is not None:
            self._send(self.after, f"forward/{number}", values)
            return
        target = to_device(self.batches.load(self.step, number)[1], self.settings.device)

        def loss(outputs: Values) -> torch.Tensor:
            with self.settings.autocast():
                return self.loss(outputs[0] if len(outputs) == 1 else outputs, target)

        value, self._ends[number] = loss_gradients(values, loss)
        losses.setdefault(number, value.item())

    def _backward(self, number: int, sums: dict[int, Tree]) -> None:
        if self.after is None:
            gradients = self._ends.pop(number)
        else:
            gradients = to_device(self._receive(self.after, f"backward/{number}"), self.settings.device)
        made = {}
        for layer in reversed(self.layers):
            gradients, made[layer.number] = layer.backward(self.step, number, gradients)
        if self.before is not None:
            self._send(self.before, f"backward/{number}", gradients)
        for layer, gradient in made.items():
            if number not in sums[layer].skip:
                sums[layer].add((0, number), gradient)

    def _send(self, rank: int, tag: str, values: Values) -> None:
        description, content = state.pack(list(values))
        self.mesh.send(rank, tag, description, content)

    def _receive(self, rank: int, tag: str) -> Values:
        description, content = self.mesh.receive(rank, tag)
        return tuple(state.unpack(description, torch.empty(0, dtype=torch.uint8) if content is None else content))
