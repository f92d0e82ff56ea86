"""One iteration of a pipeline: one forward, one backward, by turns."""

from __future__ import annotations

import time
from typing import Any, Callable

import torch

from . import handoff
from .backup import Backups
from .batches import Batches
from .errors import Interrupted
from .layer import Layer, Values, as_values, floating
from .mesh import Mesh
from .plan import Pipeline
from .profile import loss_gradients, of_outputs, to_device
from .sums import Tree


# "forward" or "backward", and the number of a microbatch.
Pass = tuple[str, int]


def order(position: int, stages: int, microbatches: list[int]) -> list[Pass]:
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
        loss: Callable[[Any, Any], torch.Tensor], backups: Backups,
    ) -> None:
        self.mesh, self.step, self.layers, self.batches, self.loss = mesh, step, layers, batches, loss
        self.settings, self.backups = layers[0].settings, backups
        self.position, self.stages = position, len(pipeline.stages)
        self.pipeline = pipeline
        self.before, self.after = pipeline.neighbours(position)
        # The members have changed, and it finishes what is in flight.
        self._still = False
        # The last layer's outputs, and the targets, from the forward to the backward pass.
        self._ends: dict[int, Values] = {}
        # For how many seconds it has waited for other stages.
        self._waited = 0.0

    def run(self, microbatches: list[int], sums: dict[int, Tree], losses: dict[int, float]) -> float:
        """Computes microbatches, and adds their gradients and losses to those that lack them.

        Returns how many seconds it has computed, without what it has waited for other stages.
        """
        began = time.monotonic()
        passes = order(self.position, self.stages, microbatches)
        for done, each in enumerate(passes):
            try:
                self.mesh.check()
                self._pass(each, sums, losses)
                if each[0] == "backward" and done + 1 < len(passes):
                    self.backups.offer(sums, losses)
            except Interrupted:
                self._finish(passes[done:], sums, losses)
                raise
        return time.monotonic() - began - self._waited

    def _pass(self, each: Pass, sums: dict[int, Tree], losses: dict[int, float]) -> None:
        what, number = each
        if what == "forward":
            self._forward(number, losses)
        else:
            self._backward(number, sums)

    def _finish(self, left: list[Pass], sums: dict[int, Tree], losses: dict[int, float]) -> None:
        """Finishes the microbatches in flight when the members change, if this pipeline has lost no rank.

        The first stage says which ones are in flight: all whose forward pass it has begun with.
        """
        if any(stage.rank in self.mesh.lost for stage in self.pipeline.stages):
            return
        self.mesh.stop_all()  # the first stage may wait for this one, and know of no loss
        self._still = True
        try:
            if self.before is None:
                waiting = {number for what, number in left if what == "forward"}
                flying = sorted({number for _, number in left} - waiting)
            else:
                flying, _ = self.mesh.receive_still(self.before, "flying")
            if self.after is not None:
                self.mesh.send(self.after, "flying", flying)
            for each in left:
                if each[1] in flying:
                    self._pass(each, sums, losses)
        except Interrupted:
            pass  # another rank of the pipeline goes on without them: they are computed again

    def _receive(self, rank: int, tag: str) -> Values:
        began = time.monotonic()
        values = handoff.receive(self.mesh, rank, tag, self.settings.device, self._still)
        self._waited += time.monotonic() - began
        return values

    def _forward(self, number: int, losses: dict[int, float]) -> None:
        inputs = target = None
        if self.before is None or self.after is None:
            inputs, target = to_device(self.batches.load(self.step, number), self.settings.device)
        if self.before is None:
            values = as_values(inputs, "the data")
        else:
            values = self._receive(self.before, f"forward/{number}")
        for layer in self.layers:
            values = layer.forward(self.step, number, values)
        if self.after is not None:
            handoff.send(self.mesh, self.after, f"forward/{number}", values)
            return
        value, self._ends[number] = loss_gradients(
            values, of_outputs(self.loss, target, self.settings), self.settings.scale.value
        )
        losses.setdefault(number, value.item())

    def _backward(self, number: int, sums: dict[int, Tree]) -> None:
        if self.after is None:
            gradients = self._ends.pop(number)
        else:
            gradients = self._receive(self.after, f"backward/{number}")
        made = {}
        for layer in reversed(self.layers):
            gradients, made[layer.number] = layer.backward(self.step, number, gradients)
        if self.before is not None:
            handoff.send(self.mesh, self.before, f"backward/{number}", gradients)
        for layer, gradient in made.items():
            if number not in sums[layer].skip:
                sums[layer].add((0, number), gradient)
