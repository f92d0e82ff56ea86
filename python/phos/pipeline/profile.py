"""Measures what each layer costs on this rank, for the planner."""

from __future__ import annotations

import copy
import json
import os
import statistics
import time
from typing import Any, Callable

import torch
from torch import nn

from .batches import Batches
from .errors import ModelError
from .layer import Layer, Settings, Values, as_values, floating
from .model import Model

# Where a process that shall only measure writes the profile.
PROFILE = "PHOS_PIPELINE_PROFILE"
# How often each layer is timed; the first time, with what it loads and compiles, does not count.
_ROUNDS = 4


def measure(model: Model, batches: Batches, loss: Callable[[Any, Any], torch.Tensor]) -> str:
    """Returns the profile in the planner's format."""
    inputs, target = to_device(batches.load(0, 0), model.settings.device)
    values = as_values(inputs, "the data")
    layers = []
    for number in range(len(model.modules)):
        last = number == len(model.modules) - 1
        layer = _copy(model, number)
        before = [each.clone() for each in layer.module.buffers()]
        cost, outputs = _costs(layer, values, of_outputs(loss, target, model.settings) if last else None)
        if any(not torch.equal(old, new) for old, new in zip(before, layer.module.buffers())):
            raise ModelError(f"layer {number} changes a buffer when it computes, so the order of microbatches matters")
        layers.append({"name": f"{number} {type(layer.module).__name__}", **cost})
        values = outputs
    return json.dumps({"layers": layers})


def measure_only(model: Model, batches: Batches, loss: Callable[[Any, Any], torch.Tensor]) -> None:
    """Measures instead of training, if `pos_cli plan profile` has started this process."""
    path = os.environ.get(PROFILE)
    if path is None:
        return
    text = measure(model, batches, loss)
    with open(path, "w") as file:
        file.write(text)
    raise SystemExit(0)


def _copy(model: Model, number: int) -> Layer:
    """Returns a copy of a layer that may be changed."""
    module: nn.Module = copy.deepcopy(model.modules[number]).to(model.settings.device).train()
    return Layer(number, module, model.settings)


def of_outputs(
    function: Callable[[Any, Any], torch.Tensor], target: Any, settings: Settings,
) -> Callable[[Values], torch.Tensor]:
    """Returns a function of the last layer's outputs: the loss, or what else is computed of them."""
    def of(outputs: Values) -> torch.Tensor:
        with settings.autocast():
            return function(outputs[0] if len(outputs) == 1 else outputs, target)
    return of


def to_device(value: Any, device: torch.device) -> Any:
    """Moves what a batch has of tensors."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, (list, tuple)):
        return type(value)(to_device(each, device) for each in value)
    return value


def _costs(
    layer: Layer, inputs: Values, loss: Callable[[Values], torch.Tensor] | None,
) -> tuple[dict[str, Any], Values]:
    """Times a layer, and makes a step with it, so that its optimizer has what it will have."""
    forward, backward = [], []
    for _ in range(_ROUNDS):
        began = _now(layer)
        outputs = layer.forward(0, 0, inputs)
        middle = _now(layer)
        gradients = floating(outputs)
        if loss is not None:
            gradients = loss_gradients(outputs, loss)[1]
        _, total = layer.backward(0, 0, tuple(torch.ones_like(each) for each in gradients))
        end = _now(layer)
        forward.append(middle - began)
        backward.append(end - middle)
    layer.apply(total)
    return {
        "forward_ms": f"{max(1e-6, statistics.median(forward[1:]) * 1e3):.6f}",
        "backward_ms": f"{statistics.median(backward[1:]) * 1e3:.6f}",
        "state_bytes": layer.bytes(), "activation_bytes": _kept(layer, inputs),
    }, outputs


def loss_gradients(
    outputs: Values, loss: Callable[[Values], torch.Tensor], scale: float = 1.0,
) -> tuple[torch.Tensor, Values]:
    """Returns the loss of the last layer's outputs, and the gradients of the scaled loss."""
    leaves = tuple(each.detach().requires_grad_(each.is_floating_point()) for each in outputs)
    value = loss(leaves)
    if value.numel() != 1 or not value.requires_grad:
        raise ModelError("the loss is one number, computed from the outputs of the last layer")
    (value if scale == 1.0 else value * scale).backward()
    gradients = tuple(torch.zeros_like(each) if each.grad is None else each.grad for each in floating(leaves))
    return value.detach(), gradients


def _kept(layer: Layer, inputs: Values) -> int:
    """Returns how many bytes a microbatch keeps from its forward to its backward pass."""
    seen = {}
    own = {_storage(each).data_ptr() for each in layer.module.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = _storage(tensor)
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        layer.forward(0, 0, inputs)
    layer.drop()
    if layer.settings.recompute:
        return sum(each.numel() * each.element_size() for each in inputs)
    return sum(seen.values())


def _storage(tensor: torch.Tensor) -> Any:
    """Returns the memory of a tensor; older versions of PyTorch know only one with a type."""
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def _now(layer: Layer) -> float:
    if layer.settings.device.type == "cuda":
        torch.cuda.synchronize(layer.settings.device)
    return time.perf_counter()
