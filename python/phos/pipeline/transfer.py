"""Copies layers to the ranks that a plan gives them: in stripes, from all that have them."""

from __future__ import annotations

import zlib
from typing import Any, Sequence

import torch

from . import state
from .errors import TrainingError
from .mesh import Mesh, memory
from .model import Model
from .plan import Plan, Stripe


# A description, and a stripe's bytes.
Message = tuple[Any, "torch.Tensor | None"]


def wanted(plan: Plan, held: dict[int, list[int]]) -> list[Stripe]:
    """Returns what must be copied: targets that have a layer already need no copy."""
    return [stripe for stripe in plan.stripes if stripe.layer not in held[stripe.target]]


def send(mesh: Mesh, model: Model, stripes: list[Stripe], sizes: list[int]) -> None:
    """Sends what others want of this rank."""
    packed: dict[int, tuple[Any, torch.Tensor, str]] = {}
    for stripe in stripes:
        if stripe.source != mesh.rank:
            continue
        if stripe.layer not in packed:
            description, content = state.pack(model.held[stripe.layer].state())
            packed[stripe.layer] = description, content, state.checksum(content)
        mesh.send(stripe.target, _tag(stripe), *part_of(stripe, *packed[stripe.layer], sizes))


def part_of(
    stripe: Stripe, description: Any, content: torch.Tensor, digest: str, sizes: Sequence[int],
) -> tuple[dict[str, Any], torch.Tensor]:
    """Returns the message that a stripe of a layer's state is sent in."""
    part = content[place_of(stripe, content.numel(), sizes)]
    return {"state": description, "bytes": content.numel(), "digest": digest, "sum": zlib.crc32(memory(part))}, part


def receive(mesh: Mesh, model: Model, stripes: list[Stripe], sizes: list[int], step: int) -> int:
    """Takes over the layers that this rank is to have, and returns how many bytes came."""
    mine: dict[int, list[Stripe]] = {}
    for stripe in stripes:
        if stripe.target == mesh.rank:
            mine.setdefault(stripe.layer, []).append(stripe)
    received = 0
    for layer, parts in mine.items():
        messages = [mesh.receive(stripe.source, _tag(stripe)) for stripe in parts]
        content, description = assemble(parts, messages, sizes)
        model.hold([layer])  # not before it is complete
        model.held[layer].load(state.unpack(description, content), step)
        received += content.numel()
    return received


def assemble(stripes: list[Stripe], messages: list[Message], sizes: Sequence[int]) -> tuple[torch.Tensor, Any]:
    """Returns the state of a layer, of which all sources must have the same bytes."""
    first, _ = messages[0]
    content = torch.empty(first["bytes"], dtype=torch.uint8)
    for stripe, (meta, body) in zip(stripes, messages):
        if meta["digest"] != first["digest"]:
            raise TrainingError(
                f"layer {stripe.layer} differs between the ranks {stripes[0].source} and {stripe.source}"
            )
        if body is None:
            continue
        if zlib.crc32(memory(body)) != meta["sum"]:
            raise TrainingError(f"a part of layer {stripe.layer} from rank {stripe.source} has arrived damaged")
        content[place_of(stripe, content.numel(), sizes)] = body
    if state.checksum(content) != first["digest"]:
        raise TrainingError(f"layer {stripes[0].layer} has arrived damaged")
    return content, first["state"]


def place_of(stripe: Stripe, size: int, sizes: Sequence[int]) -> slice:
    """Returns where a stripe is in a layer's state, or gradients, of another size than the measured one."""
    measured = max(sizes[stripe.layer], 1)
    return slice(stripe.offset * size // measured, (stripe.offset + stripe.bytes) * size // measured)


def _tag(stripe: Stripe) -> str:
    return f"layer/{stripe.layer}/{stripe.offset}"
