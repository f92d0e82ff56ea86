"""How a step ends: all ranks have the sums of their layers, and agree on its loss and its norm."""

from __future__ import annotations

import math
from typing import Any

import torch

from .mesh import Mesh
from .model import Shared
from .scale import Scale


def agree(
    mesh: Mesh, step: int, count: int, squares: list[tuple[int, float]], losses: dict[int, float],
    leaving: bool, computing: float, scale: Scale,
) -> dict[str, Any]:
    """Returns what ends the step, when all ranks have their sums.

    Args:
        mesh: the connections of this rank.
        step: the number of the step.
        count: how many microbatches it has.
        squares: the square of the norm of each layer's sum, of this rank's layers.
        losses: those of microbatches that this rank knows.
        leaving: this rank was asked to end.
        computing: for how many seconds it has computed.
        scale: of the loss.
    """
    leader = mesh.leader
    report = {
        "squares": squares, "losses": [*losses.items()], "leaving": leaving, "computing": computing,
        # A rank without layers may not know it.
        "scale": scale.state() if squares else None,
    }
    mesh.send(leader, f"sums/{step}", report)
    if leader == mesh.rank:
        commit = _sum_up(mesh, step, count, scale)
        for rank in mesh.members:
            mesh.send(rank, f"commit/{step}", commit)
    commit, _ = mesh.receive(leader, f"commit/{step}")
    return commit


def _sum_up(mesh: Mesh, step: int, count: int, scale: Scale) -> dict[str, Any]:
    """Returns what the reports of all ranks make."""
    known: dict[int, float] = {}
    losses: dict[int, float] = {}
    computing, changes = [], bool(mesh.newcomers())
    for rank in mesh.members:
        said, _ = mesh.receive(rank, f"sums/{step}")
        known.update(said["squares"])
        losses.update(said["losses"])
        computing.append([rank, said["computing"]])
        changes = changes or said["leaving"]
        if said["scale"] is not None:
            scale.load(said["scale"])
    norm = math.sqrt(math.fsum(known.values())) / count / scale.value
    return {
        "loss": math.fsum(losses.values()) / count, "norm": norm, "computing": computing,
        # What all do with the step, and the scale of the next one.
        "overflows": scale.overflows(norm), "scale": scale.after(norm),
        # Between two steps ranks come and go.
        "changes": changes,
    }


def square(layer: int, total: torch.Tensor, shared: list[list[Shared]]) -> float:
    """Returns the square of the norm of a layer's gradient, without parameters of layers before."""
    own = total.double()
    for places in shared:
        for place in places[1:]:
            if place.layer == layer:
                own[place.begin:place.end] = 0
    return float(own.square().sum())
