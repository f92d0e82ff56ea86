"""Checkpoints of a training in a directory: the state of all layers after a step.

Each layer is a file of its own, so that any number of ranks can go on with it. The directory may be
the same on all machines, or each machine's own: a layer is written where it is not yet. A step's
list is written last. List and layers name the run that wrote
them, so that files of different runs are not mixed.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch

from . import state
from .errors import TrainingError
from .mesh import memory

_VERSION = 1
_LIST = "checkpoint.json"


class Directory:
    """Where a rank keeps checkpoints."""

    def __init__(self, path: str | os.PathLike[str], rank: int) -> None:
        self.path, self.rank = Path(path), rank

    def _step(self, step: int) -> Path:
        return self.path / f"step-{step:08d}"

    def _layer(self, step: int, layer: int) -> Path:
        return self._step(step) / f"layer-{layer:04d}"

    def write(self, run: str, step: int, layer: int, value: Any) -> None:
        """Writes the state of a layer, unless this run has written it."""
        path = self._layer(step, layer)
        if _run(path) == run:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        description, content = state.pack(value)
        head = json.dumps({
            "version": _VERSION, "run": run, "layer": layer, "step": step, "digest": state.digest(content),
            "state": description,
        })
        self._replace(path, head.encode() + b"\n", content)

    def finish(self, run: str, step: int, training: dict[str, Any]) -> None:
        """Writes that the layers of a step are there, with what the training must have in common."""
        self._step(step).mkdir(parents=True, exist_ok=True)
        text = json.dumps({"version": _VERSION, "run": run, "step": step, **training}).encode() + b"\n"
        self._replace(self._step(step) / _LIST, text, torch.empty(0, dtype=torch.uint8))

    def steps(self) -> dict[int, tuple[str, list[int]]]:
        """Returns run and layers of each step, by step. Other machines may have other layers."""
        found = {}
        for path in [self.path / name for name in _names(self.path) if name.startswith("step-")]:
            run = _run(path / _LIST)
            if run and path.name[5:].isdigit():
                names = [name[6:] for name in _names(path) if name.startswith("layer-") and _run(path / name) == run]
                found[int(path.name[5:])] = run, sorted(int(name) for name in names if name.isdigit())
        return found

    def training(self, step: int) -> dict[str, Any]:
        """Returns what was given to finish."""
        path = self._step(step) / _LIST
        listed: dict[str, Any] = json.loads(path.read_text())
        if listed["version"] != _VERSION:
            raise TrainingError(f"{path} was written by another version of phos")
        return listed

    def read(self, step: int, layer: int) -> tuple[Any, torch.Tensor]:
        """Returns the description and the bytes of a layer's state."""
        path = self._layer(step, layer)
        with open(path, "rb") as file:
            head = json.loads(file.readline())
            raw = bytearray(file.read())
        content = torch.frombuffer(raw, dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)
        digest = state.digest(content)
        if (head["version"], head["layer"], head["step"], head["digest"]) != (_VERSION, layer, step, digest):
            raise TrainingError(f"{path} is damaged, or was written by another version of phos")
        return head["state"], content

    def _replace(self, path: Path, head: bytes, content: torch.Tensor) -> None:
        """Writes a file as a whole or not at all. Several ranks may do so at once."""
        part = path.with_name(f"{path.name}.{self.rank}.part")
        with open(part, "wb") as file:
            file.write(head)
            file.write(memory(content))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)

    def prune(self, run: str, step: int, keep: int) -> None:
        """Removes all but the newest checkpoints until a step, and what other runs have written of later ones."""
        steps = self.steps()
        later = [each for each, (other, _) in steps.items() if each > step and other != run]
        for step in [*later, *sorted(steps.keys() - set(later))[:-keep]]:
            (self._step(step) / _LIST).unlink(missing_ok=True)
            shutil.rmtree(self._step(step), ignore_errors=True)


def _names(path: Path) -> list[str]:
    """Returns what is in a directory; nothing, if another rank has removed it at the same time."""
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []


def _run(path: Path) -> str:
    """Returns which run has written a file; empty if there is none."""
    try:
        with open(path, "rb") as file:
            return str(json.loads(file.readline())["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
