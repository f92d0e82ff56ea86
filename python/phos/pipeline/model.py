"""The whole model, of which a rank has some layers. Checks what cannot be trained in pipelines."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from typing import Iterable

import torch
from torch import nn

from . import state
from .errors import ModelError
from .layer import Layer, Settings


@dataclass(frozen=True)
class Shared:
    """A place of a parameter that several layers use: a slice of the layer's gradient."""

    layer: int
    begin: int
    end: int


class Model:
    """The layers of a model. Those that this rank does not have take no memory."""

    def __init__(self, modules: Iterable[nn.Module], settings: Settings) -> None:
        self.modules = list(modules)
        self.settings = settings
        if not self.modules:
            raise ModelError("there are no layers")
        for number, module in enumerate(self.modules):
            _check(number, module)
        # Each parameter that several layers use, with its places in the order of the layers.
        self.shared = self._untie()
        self.held: dict[int, Layer] = {}

    def _untie(self) -> list[list[Shared]]:
        """Gives each layer its own copy of the parameters that several use.

        All copies get the sum of their gradients, and so stay the same.
        """
        places: dict[nn.Parameter, list[Shared]] = {}
        for number, module in enumerate(self.modules):
            at = 0
            for parameter in module.parameters():
                if not parameter.requires_grad:
                    continue
                places.setdefault(parameter, []).append(Shared(number, at, at + parameter.numel()))
                at += parameter.numel()
        self._part()
        for parameter, used in places.items():
            for place in used[1:]:
                _replace(self.modules[place.layer], parameter, nn.Parameter(parameter.detach().clone()))
        return [used for used in places.values() if len(used) > 1]

    def tie(self) -> None:
        """Gives parameters that several layers use the values that they have in the first one."""
        with torch.no_grad():
            for places in self.shared:
                first = self._parameter(places[0])
                for place in places[1:]:
                    self._parameter(place).copy_(first)

    def _parameter(self, place: Shared) -> nn.Parameter:
        at = 0
        for parameter in self.modules[place.layer].parameters():
            if not parameter.requires_grad:
                continue
            if at == place.begin:
                return parameter
            at += parameter.numel()
        raise LookupError(place)

    def _part(self) -> None:
        """Gives each layer its own copy of the modules that several use."""
        seen: set[nn.Module] = set()
        for number, module in enumerate(self.modules):
            parts = set(module.modules())
            if seen & parts:
                self.modules[number] = copy.deepcopy(module)
            seen |= parts

    def hold(self, numbers: Iterable[int]) -> list[Layer]:
        """Makes layers ready on this rank, and returns those that are new here."""
        new = [number for number in numbers if number not in self.held]
        for number in new:
            module = self.modules[number]
            if any(each.is_meta for each in [*module.parameters(), *module.buffers()]):
                module.to_empty(device=self.settings.device)
            module.to(self.settings.device).train()
            self.held[number] = Layer(number, module, self.settings)
        return [self.held[number] for number in new]

    def release(self, keep: Iterable[int]) -> None:
        """Frees the memory of all layers but some."""
        for number in range(len(self.modules)):
            if number not in keep:
                self.held.pop(number, None)
                self.modules[number].to("meta")


def _check(number: int, module: nn.Module) -> None:
    """Refuses modules whose results depend on which microbatches came before."""
    for name, each in module.named_modules():
        if getattr(each, "track_running_stats", False):
            at = f"layer {number}{'.' if name else ''}{name}"
            raise ModelError(
                f"{at} is a {type(each).__name__} with running statistics, which depend on the order of microbatches: "
                "use GroupNorm, or track_running_stats=False"
            )


def _replace(module: nn.Module, old: nn.Parameter, new: nn.Parameter) -> None:
    for each in module.modules():
        for name, parameter in each.named_parameters(recurse=False):
            if parameter is old:
                setattr(each, name, new)


def digest(module: nn.Module) -> str:
    """Returns what is the same for equal parameters and buffers."""
    named = [*module.named_parameters(), *module.named_buffers()]
    parts = [
        f"{name} {each.dtype} {tuple(each.shape)} {state.digest(state.as_bytes(each.detach()))}" for name, each in named
    ]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
