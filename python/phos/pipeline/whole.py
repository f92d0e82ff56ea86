"""Writes and reads the whole model as PyTorch does: the lowest rank gets all layers, one by one."""

from __future__ import annotations

import os

import torch
from torch import nn

from . import state
from .errors import ModelError
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
            for name, each in state.unpack(description, content).items():
                tensors[whole_name(layer, model.modules[layer], name)] = each
        torch.save(tensors, f"{path}.part")
        os.replace(f"{path}.part", path)


# What older models of transformers have written, and newer ones do not read: no parameters.
_BUFFERS = (".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias", ".inv_freq")


def load(model: Model, path: str) -> None:
    """Reads the parameters of all layers."""
    tensors = torch.load(path, map_location="cpu")
    used: set[str] = set()
    for number, module in enumerate(model.modules):
        names = {name: whole_name(number, module, name) for name in module.state_dict()}
        lacking = [whole for whole in names.values() if whole not in tensors]
        if lacking:
            raise ModelError(f"{path} has no {lacking[0]}")
        module.load_state_dict({name: tensors[whole] for name, whole in names.items()})
        used.update(names.values())
    unknown = [name for name in tensors if name not in used and not name.endswith(_BUFFERS)]
    if unknown:
        raise ModelError(f"{path} has {unknown[0]}, and the model has not")
    model.tie()


def whole_name(number: int, module: nn.Module, name: str) -> str:
    """Returns the name that a tensor of a layer has in the whole model.

    A layer that was cut out of a model says with which beginnings its names had others there.
    """
    beginnings: dict[str, str] = getattr(module, "whole_names", {"": f"{number}."})
    for own, whole in beginnings.items():
        if name.startswith(own):
            return whole + name[len(own):]
    return name
