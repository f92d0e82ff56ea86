"""A layer of the model: its computation, its gradients, its optimizer.

Each layer is computed by itself: its input is cut off from the layers before. So its gradients are
the same wherever the model is cut into stages.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Callable, ContextManager

import torch
from torch import nn

from . import state
from .batches import mix
from .errors import ModelError
from .scale import Scale

# What layers hand on: a tensor, or several.
Values = tuple[torch.Tensor, ...]


def as_values(output: Any, of: str) -> Values:
    """Returns what a layer or the data have given, as a tuple of tensors."""
    values = output if isinstance(output, (list, tuple)) else (output,)
    if not values or not all(isinstance(each, torch.Tensor) for each in values):
        raise ModelError(f"{of} gives a {type(output).__name__}: a tensor or a tuple of tensors can be handed on")
    return tuple(values)


class Settings:
    """What all layers of a training have in common."""

    def __init__(
        self, device: torch.device, seed: int, precision: torch.dtype | None, recompute: bool,
        optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
        scheduler: Callable[[torch.optim.Optimizer], Any] | None, scale: Scale | None = None,
    ) -> None:
        self.device, self.seed, self.precision, self.recompute = device, seed, precision, recompute
        self.optimizer, self.scheduler, self.scale = optimizer, scheduler, scale or Scale()

    def autocast(self) -> ContextManager[Any]:
        """Returns the context in which layers are computed."""
        if self.precision is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.precision)


class Layer:
    """A layer that this rank has."""

    def __init__(self, number: int, module: nn.Module, settings: Settings) -> None:
        self.number, self.module, self.settings = number, module, settings
        self.parameters = [each for each in module.parameters() if each.requires_grad]
        self.size = sum(each.numel() for each in self.parameters)
        wide = any(each.dtype == torch.float64 for each in self.parameters)
        # Gradients are added in this type.
        self.kind = torch.float64 if wide else torch.float32
        self.optimizer = settings.optimizer(self.parameters) if self.parameters else None
        self.scheduler = settings.scheduler(self.optimizer) if settings.scheduler and self.optimizer else None
        # By microbatch: what came in, and what went out unless it is computed again.
        self._kept: dict[int, tuple[Values, Values | None]] = {}
        # The number of steps that the parameters have made.
        self.version = 0

    # Computing

    def forward(self, step: int, microbatch: int, inputs: Values) -> Values:
        """Computes a microbatch, and keeps what its backward pass needs."""
        inputs = tuple(each.detach().requires_grad_(self._differentiates(each)) for each in inputs)
        if self.settings.recompute:
            with torch.no_grad():
                outputs = self._compute(step, microbatch, inputs)
            self._kept[microbatch] = inputs, None
        else:
            outputs = self._compute(step, microbatch, inputs)
            self._kept[microbatch] = inputs, outputs
        return tuple(each.detach() for each in outputs)

    def _compute(self, step: int, microbatch: int, inputs: Values) -> Values:
        torch.manual_seed(mix(self.settings.seed, step, microbatch, self.number))
        with self.settings.autocast():
            return as_values(self.module(*inputs), f"layer {self.number}")

    def evaluate(self, inputs: Values) -> Values:
        """Computes without a backward pass to come."""
        with self.settings.autocast():
            return as_values(self.module(*inputs), f"layer {self.number}")

    def backward(self, step: int, microbatch: int, gradients: Values) -> tuple[Values, torch.Tensor]:
        """Returns the gradients of a microbatch's inputs and of the parameters, the latter as one tensor."""
        inputs, outputs = self._kept.pop(microbatch)
        if outputs is None:
            outputs = self._compute(step, microbatch, inputs)
        pairs = [(o, g) for o, g in zip(floating(outputs), gradients) if o.requires_grad]
        torch.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        back = tuple(_gradient(each) for each in inputs if self._differentiates(each))
        return back, self.gradient()

    def _differentiates(self, value: torch.Tensor) -> bool:
        """Reports whether the layer before needs the gradient of an input."""
        return self.number > 0 and value.is_floating_point()

    def gradient(self) -> torch.Tensor:
        """Returns the gradients of all parameters as one tensor, and forgets them."""
        flat = torch.empty(self.size, dtype=self.kind, device=self.settings.device)
        at = 0
        for each in self.parameters:
            flat[at:at + each.numel()] = _gradient(each).reshape(-1)
            at += each.numel()
            each.grad = None
        return flat

    def drop(self) -> None:
        """Forgets all microbatches whose backward pass has not been computed."""
        self._kept.clear()

    def apply(self, total: torch.Tensor) -> None:
        """Makes a step with a gradient."""
        at = 0
        for each in self.parameters:
            each.grad = total[at:at + each.numel()].view_as(each).to(each.dtype)
            at += each.numel()
        if self.optimizer is not None:
            self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        for each in self.parameters:
            each.grad = None
        self.version += 1

    def leave_out(self) -> None:
        """Ends a step whose gradients overflow: nothing changes."""
        self.version += 1

    # State

    def state(self) -> dict[str, Any]:
        """Returns all that another rank needs to go on with this layer."""
        return {
            "tensors": [each.detach() for each in _tensors(self.module)],
            "optimizer": self.optimizer.state_dict() if self.optimizer is not None else None,
            "scheduler": _plain(self.scheduler.state_dict()) if self.scheduler is not None else None,
            "scale": self.settings.scale.state(),
        }

    def load(self, given: dict[str, Any], version: int) -> None:
        """Takes over what state has returned on another rank."""
        with torch.no_grad():
            for own, other in zip(_tensors(self.module), given["tensors"]):
                own.copy_(other)
        if self.optimizer is not None:
            self.optimizer.load_state_dict(given["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(given["scheduler"])
        if "scale" in given:
            self.settings.scale.load(given["scale"])
        self.version = version

    def bytes(self) -> int:
        """Returns the size of the state."""
        return state.size(self.state())


def floating(values: Values) -> Values:
    """Returns those tensors that have gradients."""
    return tuple(each for each in values if each.is_floating_point())


def _gradient(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad


def _tensors(module: nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Returns what of a scheduler's state changes: functions are the same on all ranks."""
    return {key: each for key, each in values.items() if state.can_pack(each)}
