"""Copies of unfinished sums on other ranks: what a rank has added of a step counts though it is lost.

While a rank computes, it sends the sums that it has so far to ranks that have the same layers, each
time after a while that is many times as long as the sending takes. When the rank is lost, these add
what they were sent to their own sums.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import torch

from .layer import Layer
from .mesh import Mesh
from .plan import Plan
from .state import as_bytes
from .sums import Node, Tree, numbers

# Between two backups it takes at least so many seconds, and so many times as long as the last one.
LEAST, PACE = 1.0, 20.0


class Backups:
    """The backups that one rank sends and keeps."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._lock = threading.Lock()
        # What other ranks have sent, by rank and layer; the step, and the losses that they know.
        self._kept: dict[int, dict[int, dict[Node, torch.Tensor]]] = {}
        self._steps: dict[int, int] = {}
        self._losses: dict[int, dict[int, float]] = {}
        # What was sent in this iteration, and to which rank each layer goes.
        self._sent: set[tuple[int, Node]] = set()
        self._targets: dict[int, int] = {}
        self._step = self._number = 0
        # When the last one was sent, by number, to ranks that do not have it yet.
        self._waiting: dict[int, float] = {}
        self._next = 0.0
        mesh.handlers.update(backup=self._keep, backed=self._done)

    # Sending

    def begin(self, plan: Plan, machines: dict[int, str], step: int, layers: list[Layer]) -> None:
        """Prepares for an iteration, or for what is missing of one."""
        targets = {layer.number: self._target(plan, machines, layer.number) for layer in layers}
        self._targets = {layer: rank for layer, rank in targets.items() if rank is not None}
        with self._lock:
            self._sent, self._step, self._waiting = set(), step, {}
            self._next = max(self._next, time.monotonic() + LEAST)

    def _target(self, plan: Plan, machines: dict[int, str], layer: int) -> int | None:
        """Returns another rank that has a layer: on another machine, if there is one.

        The ranks of one machine choose different ones, as far as there are so many.
        """
        holders, here = plan.holders(layer), machines[self.mesh.rank]
        own = [rank for rank in holders if machines[rank] == here]
        others = [rank for rank in holders if machines[rank] != here]
        if others:
            return others[own.index(self.mesh.rank) % len(others)]
        return own[(own.index(self.mesh.rank) + 1) % len(own)] if len(own) > 1 else None

    def offer(self, sums: dict[int, Tree], losses: dict[int, float]) -> None:
        """Sends what has been added since the last backup, if it is time for one."""
        with self._lock:
            if self._waiting or time.monotonic() < self._next:
                return
        began = time.monotonic()
        for target in sorted({*self._targets.values()}):
            parts = [
                (layer, node) for layer, rank in self._targets.items() if rank == target
                for node in sums[layer].parts if (layer, node) not in self._sent
            ]
            if parts:
                self._send(target, parts, sums, losses, began)

    def _send(
        self, target: int, parts: list[tuple[int, Node]], sums: dict[int, Tree], losses: dict[int, float], began: float,
    ) -> None:
        self._sent.update(parts)
        bodies = [as_bytes(sums[layer].parts[node].to("cpu", copy=True)) for layer, node in parts]
        self._number += 1
        with self._lock:
            self._waiting[self._number] = began
        described = [[layer, *node, body.numel()] for (layer, node), body in zip(parts, bodies)]
        meta = {"step": self._step, "number": self._number, "parts": described, "losses": [*losses.items()]}
        self.mesh.post(target, "backup", meta, torch.cat(bodies))

    def _done(self, rank: int, meta: Any, body: torch.Tensor | None) -> None:
        """Takes note that a rank has a backup."""
        now = time.monotonic()
        with self._lock:
            began = self._waiting.pop(meta["number"], None)
            if began is not None:
                self._next = now + max(LEAST, PACE * (now - began))

    # Keeping

    def _keep(self, rank: int, meta: Any, body: torch.Tensor | None) -> None:
        """Keeps what another rank has sent, instead of the parts that are in it."""
        at = 0
        with self._lock:
            if self._steps.get(rank) != meta["step"]:
                self._steps[rank], self._kept[rank] = meta["step"], {}
            self._losses[rank] = dict(meta["losses"])
            for layer, level, place, size in meta["parts"]:
                kept, node = self._kept[rank].setdefault(layer, {}), (level, place)
                for other in [each for each in kept if _inside(each, node)]:
                    del kept[other]
                kept[node] = torch.empty(0, dtype=torch.uint8) if body is None else body[at:at + size].clone()
                at += size
        self.mesh.post(rank, "backed", {"number": meta["number"]})

    def restore(
        self, step: int, layers: dict[int, Layer], sums: dict[int, Tree], losses: dict[int, float],
    ) -> None:
        """Adds what lost ranks had sent of a step to the sums of this rank."""
        with self._lock:
            lost = [rank for rank, of in sorted(self._steps.items()) if rank in self.mesh.lost and of == step]
            found = [self._pop(rank) for rank in lost]
        for kept, known in found:
            for number, loss in known.items():
                losses.setdefault(number, loss)
            for layer, parts in kept.items():
                if layer in layers and layer in sums:
                    _add(layers[layer], sums[layer], parts)

    def forget(self, step: int) -> None:
        """Forgets what is of steps before."""
        with self._lock:
            for rank in [rank for rank, of in self._steps.items() if of < step]:
                self._pop(rank)

    def _pop(self, rank: int) -> tuple[dict[int, dict[Node, torch.Tensor]], dict[int, float]]:
        """Returns what a rank has sent, and forgets it."""
        del self._steps[rank]
        return self._kept.pop(rank), self._losses.pop(rank)


def _inside(node: Node, other: Node) -> bool:
    """Reports whether a node of a tree is in another one, or is that one."""
    up = other[0] - node[0]
    return up >= 0 and node[1] >> up == other[1]


def _add(layer: Layer, tree: Tree, parts: dict[Node, torch.Tensor]) -> None:
    """Adds parts to a tree that has none of their microbatches."""
    for node, content in parts.items():
        if tree.covered().isdisjoint(numbers(node, tree.count)):
            tree.add(node, content.view(layer.kind).to(layer.settings.device))
