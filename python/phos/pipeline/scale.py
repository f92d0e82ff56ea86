"""By what the loss is multiplied, so that small gradients do not become 0 in half precision."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

# The first scale with float16, and after how many steps without an overflow it is doubled.
_FIRST, _STEPS = 65536.0, 2000

# A scale, and how many steps it has gone well.
State = tuple[float, int]


@dataclass
class Scale:
    """The scale of a training, the same on all ranks.

    It is a power of two, so that it changes no bit of a gradient that it does not save. If gradients
    overflow, the step changes nothing but the scale, which is halved.
    """

    value: float = 1.0
    good: int = 0
    # The loss is not scaled otherwise.
    on: bool = False

    @staticmethod
    def of(first: float | None, precision: torch.dtype | None) -> Scale:
        """Returns the scale that a training begins with: what was asked for, or what its precision needs."""
        if first is None and precision == torch.float16:
            first = _FIRST
        if first is None:
            return Scale()
        if not (0 < first < math.inf and math.frexp(first)[0] == 0.5):
            raise ValueError(f"loss_scale is {first}: a power of two is wanted, such as 65536")
        return Scale(first, on=True)

    def overflows(self, norm: float) -> bool:
        """Reports whether a step with such a gradient is left out."""
        return self.on and not math.isfinite(norm)

    def after(self, norm: float) -> State:
        """Returns the scale for the step after one with such a gradient."""
        if not self.on:
            return self.value, 0
        if self.overflows(norm):
            return max(self.value / 2, 1.0), 0
        if self.good + 1 == _STEPS:
            return self.value * 2, 0
        return self.value, self.good + 1

    def state(self) -> list[float]:
        """Returns what another rank needs to go on."""
        return [self.value, self.good]

    def load(self, state: State | list[float]) -> None:
        """Takes over what after or state has returned."""
        self.value, self.good = float(state[0]), int(state[1])
