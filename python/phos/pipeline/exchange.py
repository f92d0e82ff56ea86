"""Adds the gradients of all pipelines, layer by layer.

Each holder of a layer adds one stripe of it: all that have parts of the sum send that stripe of
them, and the holder sends the result to the other holders.
"""

from __future__ import annotations

import torch

from .layer import Layer
from .mesh import Mesh
from .model import Shared
from .plan import Plan
from .state import as_bytes
from .sums import Tree


class Exchange:
    """The exchange of one iteration, as one rank takes part in it."""

    def __init__(
        self, mesh: Mesh, plan: Plan, layers: dict[int, Layer], sums: dict[int, Tree], losses: dict[int, float],
        elsewhere: dict[int, set[int]],
    ) -> None:
        self.mesh, self.plan, self.layers, self.sums, self.losses = mesh, plan, layers, sums, losses
        # Ranks that have parts of a layer's sum and do not hold the layer any more.
        self.elsewhere = elsewhere

    def run(self) -> dict[int, torch.Tensor]:
        """Returns the whole sum of each layer that this rank holds. All losses are known then."""
        for layer in self._mine():
            self._send_parts(layer)
        stripes = {layer: self._add(layer) for layer in sorted(self.layers)}
        for layer, stripe in stripes.items():
            for holder in self._others(layer):
                self.mesh.send(holder, f"sum/{layer}", None, as_bytes(stripe))
        return {layer: self._assemble(layer, stripe) for layer, stripe in stripes.items()}

    def _mine(self) -> list[int]:
        kept = [layer for layer, ranks in self.elsewhere.items() if self.mesh.rank in ranks]
        return sorted({*self.layers, *kept})

    def _others(self, layer: int) -> list[int]:
        return [rank for rank in self.plan.holders(layer) if rank != self.mesh.rank]

    def _stripe(self, layer: int, holder: int, size: int) -> slice:
        """Returns what a holder adds of a layer."""
        holders = self.plan.holders(layer)
        place = holders.index(holder)
        return slice(size * place // len(holders), size * (place + 1) // len(holders))

    def _send_parts(self, layer: int) -> None:
        """Sends the other holders of a layer the parts of their stripes."""
        parts = self.sums[layer].parts
        losses = list(self.losses.items()) if layer == self.plan.layers - 1 else None
        for holder in self._others(layer):
            slices = [part[self._stripe(layer, holder, part.numel())] for part in parts.values()]
            body = as_bytes(torch.cat(slices)) if slices else None
            self.mesh.send(holder, f"parts/{layer}", {"nodes": list(parts), "losses": losses}, body)

    def _add(self, layer: int) -> torch.Tensor:
        """Returns the sum of this rank's stripe of a layer."""
        own = self.layers[layer]
        stripe = self._stripe(layer, self.mesh.rank, own.size)
        total = Tree(self.sums[layer].count)
        for node, part in self.sums[layer].parts.items():
            total.add(node, part[stripe].clone())
        for rank in sorted({*self._others(layer), *self.elsewhere.get(layer, ())} - {self.mesh.rank}):
            meta, body = self.mesh.receive(rank, f"parts/{layer}")
            self.losses.update(meta["losses"] or [])
            if not meta["nodes"]:
                continue
            content = body if body is not None else torch.empty(0, dtype=torch.uint8)
            parts = content.view(own.kind).to(own.settings.device)
            parts = parts.reshape(len(meta["nodes"]), stripe.stop - stripe.start)
            for node, part in zip(meta["nodes"], parts):
                total.add((node[0], node[1]), part.clone())
        return total.total()

    def _assemble(self, layer: int, stripe: torch.Tensor) -> torch.Tensor:
        """Returns the whole sum of a layer: this rank's stripe, and those of the other holders."""
        own = self.layers[layer]
        total = torch.empty(own.size, dtype=own.kind, device=own.settings.device)
        total[self._stripe(layer, self.mesh.rank, own.size)] = stripe
        for holder in self._others(layer):
            _, body = self.mesh.receive(holder, f"sum/{layer}")
            if body is not None:
                total[self._stripe(layer, holder, own.size)] = body.view(own.kind).to(total.device)
        return total

    def share(self, shared: list[list[Shared]], totals: dict[int, torch.Tensor], pipeline: int) -> None:
        """Adds the gradients of parameters that several layers use, in the order of the layers."""
        for number, places in enumerate(shared):
            mine = [place for place in places if place.layer in totals]
            for place in mine:
                totals[place.layer] = totals[place.layer].clone()  # the sum of this layer alone is kept, too
            ranks = {place.layer: self._holder(place.layer, pipeline) for place in places}
            own = {place.layer: totals[place.layer][place.begin:place.end].clone() for place in mine}
            for place in mine:
                for rank in {*ranks.values()} - {self.mesh.rank}:
                    self.mesh.send(rank, f"shared/{number}/{place.layer}", None, as_bytes(own[place.layer]))
            if not mine:
                continue
            kind = own[mine[0].layer]
            result = torch.zeros_like(kind)
            for place in places:
                if place.layer not in own:
                    _, body = self.mesh.receive(ranks[place.layer], f"shared/{number}/{place.layer}")
                    assert body is not None
                    own[place.layer] = body.view(kind.dtype).to(kind.device)
                result += own[place.layer]
            for place in mine:
                totals[place.layer][place.begin:place.end] = result

    def _holder(self, layer: int, pipeline: int) -> int:
        for stage in self.plan.pipelines[pipeline].stages:
            if stage.first <= layer < stage.end:
                return stage.rank
        raise LookupError(layer)
