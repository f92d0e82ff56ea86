"""What ranks do together for checkpoints: each writes its layers; later, any number go on with them."""

from __future__ import annotations

import logging
from typing import Any

import torch

from . import state
from .directory import Directory
from .errors import ModelError
from .mesh import Mesh
from .model import Model
from .plan import Plan

log = logging.getLogger("phos.pipeline")

# What a training that goes on must have as the one that wrote the checkpoint.
_SAME = ("samples", "batch", "microbatch", "seed")


# A step, the run that wrote it, and layers of it.
Found = tuple[int, str, list[int]]


class Checkpoints:
    """The checkpoints of a training, as one rank writes and reads them."""

    def __init__(self, mesh: Mesh, model: Model, resume: str | None) -> None:
        self.mesh, self.model = mesh, model
        # The name of this run, the same on all ranks.
        self.run = ""
        self.source = Directory(resume, mesh.rank) if resume is not None else None
        self.target: Directory | None = None
        self.every, self.keep = 0, 0

    def configure(self, path: str, every: int, keep: int) -> None:
        """Says where checkpoints are written, after how many steps, and how many are kept."""
        self.target, self.every, self.keep = Directory(path, self.mesh.rank), every, keep

    def due(self, step: int) -> bool:
        """Reports whether a checkpoint is written after a step."""
        return self.target is not None and self.every > 0 and step % self.every == 0

    # Writing

    def write_first(self, plan: Plan, step: int) -> None:
        """Writes the layers of which this rank is the first holder."""
        own = self.mesh.rank
        self._write(step, [layer for layer in plan.layers_of(own) if plan.holders(layer)[0] == own])

    def write_rest(self, plan: Plan, step: int) -> None:
        """Writes the other layers of this rank where the directory is not that of their first holders."""
        self._write(step, list(plan.layers_of(self.mesh.rank)))

    def finish(self, step: int, start: dict[str, Any]) -> None:
        """Writes that the checkpoint is complete, after all ranks have written."""
        self._finish(step, start)
        assert self.target is not None
        self.target.prune(self.run, step, self.keep)

    def rescue(self, step: int, start: dict[str, Any]) -> None:
        """Writes what this rank has when it does not go on. Others may have the rest, or write it later."""
        if self.target is None:
            return
        self._write(step, [number for number, layer in self.model.held.items() if layer.version == step])
        self._finish(step, start)
        log.warning(
            "rank %d: has written its layers after step %d to %s: start with resume when ranks are there again",
            self.mesh.rank, step, self.target.path,
        )

    def _finish(self, step: int, start: dict[str, Any]) -> None:
        assert self.target is not None
        common = {"layers": len(self.model.modules), **{name: start[name] for name in _SAME}}
        self.target.finish(self.run, step, common)

    def _write(self, step: int, layers: list[int]) -> None:
        assert self.target is not None
        for layer in layers:
            self.target.write(self.run, step, layer, self.model.held[layer].state())

    # Reading

    def found(self) -> list[Found]:
        """Returns what this rank can read."""
        if self.source is None:
            return []
        return [(step, run, layers) for step, (run, layers) in self.source.steps().items()]

    def choose(self, found: dict[int, list[Found]]) -> dict[str, Any] | None:
        """Returns the newest checkpoint that the ranks have together: its step, and which rank has what."""
        has: dict[tuple[int, str], dict[int, list[int]]] = {}
        for rank, each in found.items():
            for step, run, layers in each:
                has.setdefault((step, run), {})[rank] = layers
        whole = set(range(len(self.model.modules)))
        for (step, _), ranks in sorted(has.items(), reverse=True):
            if whole.issubset(layer for layers in ranks.values() for layer in layers):
                return {"step": step, "has": [*ranks.items()]}
        return None

    def restore(self, plan: Plan, chosen: dict[str, Any], start: dict[str, Any]) -> None:
        """Takes over this rank's layers, from its directory or from other ranks."""
        step, has = chosen["step"], dict(chosen["has"])
        if self.mesh.rank in has:
            self._check(step, start)
        for layer in range(plan.layers):
            lacking = [rank for rank in plan.holders(layer) if layer not in has.get(rank, [])]
            source = min(rank for rank, layers in has.items() if layer in layers)
            if source == self.mesh.rank:
                self._send(step, layer, lacking)
            if self.mesh.rank in lacking:
                description, content = self.mesh.receive(source, f"checkpoint/{layer}")
                self._load(layer, description, content, step)
            elif self.mesh.rank in plan.holders(layer):
                assert self.source is not None
                self._load(layer, *self.source.read(step, layer), step)
        log.warning("rank %d: goes on after step %d of a checkpoint", self.mesh.rank, step)

    def _send(self, step: int, layer: int, ranks: list[int]) -> None:
        if ranks and self.source is not None:
            description, content = self.source.read(step, layer)
            for rank in ranks:
                self.mesh.send(rank, f"checkpoint/{layer}", description, content)

    def _load(self, layer: int, description: Any, content: torch.Tensor | None, step: int) -> None:
        self.model.held[layer].load(state.unpack(description, content), step)

    def _check(self, step: int, start: dict[str, Any]) -> None:
        """Raises ModelError if a checkpoint is of another training."""
        assert self.source is not None
        written = self.source.training(step)
        for name, mine in [("layers", len(self.model.modules)), *((name, start[name]) for name in _SAME)]:
            if written[name] != mine:
                raise ModelError(
                    f"the checkpoint in {self.source.path} is of a training with {name} {written[name]}; "
                    f"this one has {mine}"
                )
