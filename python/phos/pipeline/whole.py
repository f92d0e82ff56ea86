"""Writes the whole model as PyTorch does: the lowest rank gets all layers, one after the other."""

from __future__ import annotations

import os

import torch

from . import state
from .mesh import Mesh
from .model import Model
from .plan import Plan


def save(mesh: Mesh, plan: Plan, model: Model, path: str) -> None:
    """Sends the layers of this rank to the lowest rank, which writes all."""
    leader = mesh.leader
    for layer in range(plan.layers):
        if plan.holders(layer)[0] == mesh.rank:
            description, content = state.pack(model.modules[layer].state_dict())
            mesh.send(leader, f"save/{layer}", description, content)
    if leader == mesh.rank:
        tensors = {}
        for layer in range(plan.layers):
            description, content = mesh.receive(plan.holders(layer)[0], f"save/{layer}")
            tensors.update({f"{layer}.{name}": each for name, each in state.unpack(description, content).items()})
        torch.save(tensors, f"{path}.part")
        os.replace(f"{path}.part", path)
