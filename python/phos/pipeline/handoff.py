"""Hands values on from stage to stage."""

from __future__ import annotations

import torch

from . import state
from .layer import Values
from .mesh import Mesh


def send(mesh: Mesh, rank: int, tag: str, values: Values) -> None:
    """Sends values to another rank."""
    description, content = state.pack(list(values))
    mesh.send(rank, tag, description, content)


def receive(mesh: Mesh, rank: int, tag: str, device: torch.device, still: bool = False) -> Values:
    """Waits for the values that another rank sends; still, though the members have changed."""
    description, content = mesh.receive_still(rank, tag) if still else mesh.receive(rank, tag)
    return tuple(value.to(device) for value in state.unpack(description, content))
