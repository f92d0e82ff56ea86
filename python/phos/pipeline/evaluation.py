"""Computes a mean over other data, with all pipelines: nothing is learned, nothing is drawn."""

from __future__ import annotations

import math
from typing import Any, Callable, Sequence

import torch

from . import handoff
from .batches import Batches, collated
from .layer import Layer, as_values
from .mesh import Mesh
from .plan import Plan
from .profile import of_outputs, to_device

# A microbatch's number of samples, and what was computed of them: a mean.
Result = tuple[int, float]


class Evaluation:
    """What a rank computes of an evaluation."""

    def __init__(
        self, mesh: Mesh, plan: Plan, layers: list[Layer], batches: Batches, data: Sequence[Any],
        function: Callable[[Any, Any], torch.Tensor],
    ) -> None:
        self.mesh, self.plan, self.layers, self.batches = mesh, plan, layers, batches
        self.data, self.function = data, function

    def run(self) -> float:
        """Returns the mean of a function of outputs and targets over all samples."""
        place = self.plan.place(self.mesh.rank)
        results: list[Result] = []
        if place is not None:
            results = self._compute(*place)
        leader = self.mesh.leader
        self.mesh.send(leader, "results", results)
        if leader == self.mesh.rank:
            members = self.mesh.members
            all_results = [result for rank in members for result in self.mesh.receive(rank, "results")[0]]
            mean = math.fsum(size * value for size, value in all_results) / len(self.data)
            for rank in members:
                self.mesh.send(rank, "mean", mean)
        mean, _ = self.mesh.receive(leader, "mean")
        return float(mean)

    def _compute(self, number: int, position: int) -> list[Result]:
        """Returns what the last stage of a pipeline has computed; other stages have nothing."""
        pipeline = self.plan.pipelines[number]
        before, after = pipeline.neighbours(position)
        microbatches = list(range(-(-len(self.data) // self.batches.microbatch)))
        results = []
        for layer in self.layers:
            layer.module.eval()
        try:
            with torch.no_grad():
                for microbatch in self.plan.shares(microbatches)[number]:
                    self.mesh.check()
                    result = self._microbatch(microbatch, before, after)
                    results += [result] if result is not None else []
        finally:
            for layer in self.layers:
                layer.module.train()
        return results

    def _microbatch(self, number: int, before: int | None, after: int | None) -> Result | None:
        device = self.layers[0].settings.device
        inputs = target = None
        if before is None or after is None:
            inputs, target = to_device(self._load(number), device)
        if before is None:
            values = as_values(inputs, "the data")
        else:
            values = handoff.receive(self.mesh, before, f"evaluate/{number}", device)
        for layer in self.layers:
            values = layer.evaluate(values)
        if after is not None:
            handoff.send(self.mesh, after, f"evaluate/{number}", values)
            return None
        value = of_outputs(self.function, target, self.layers[0].settings)(values)
        return len(self._samples(number)), float(value)

    def _samples(self, number: int) -> range:
        size = self.batches.microbatch
        return range(number * size, min((number + 1) * size, len(self.data)))

    def _load(self, number: int) -> tuple[Any, Any]:
        return collated(self.batches.collate, [self.data[index] for index in self._samples(number)])
