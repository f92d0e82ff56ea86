"""Which samples a microbatch has: each sample is used exactly once in an epoch."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
from torch.utils.data import default_collate

from .errors import ModelError


class Batches:
    """The microbatches of a dataset, by step and number."""

    def __init__(
        self, data: Sequence[Any], microbatch: int, batch: int, seed: int, shuffle: bool,
        collate: Callable[[list[Any]], Any] | None,
    ) -> None:
        if microbatch < 1 or batch < 1 or batch % microbatch:
            raise ModelError(f"a batch of {batch} samples cannot be made of microbatches of {microbatch}")
        if len(data) < batch:
            raise ModelError(f"the data have {len(data)} samples, and a batch has {batch}")
        self.data, self.microbatch, self.batch, self.seed, self.shuffle = data, microbatch, batch, seed, shuffle
        self.collate = collate or default_collate
        self.count = batch // microbatch
        # Samples beyond the last whole batch of an epoch are left out: others in each epoch, if the
        # order is random.
        self.steps = len(data) // batch
        self._order: tuple[int, list[int]] = (-1, [])

    def indices(self, step: int, number: int) -> list[int]:
        """Returns which samples of the data a microbatch has."""
        epoch, within = divmod(step, self.steps)
        begin = within * self.batch + number * self.microbatch
        return self._epoch(epoch)[begin:begin + self.microbatch]

    def _epoch(self, epoch: int) -> list[int]:
        if self._order[0] != epoch:
            order = list(range(len(self.data)))
            if self.shuffle:
                generator = torch.Generator().manual_seed(mix(self.seed, epoch))
                order = torch.randperm(len(order), generator=generator).tolist()
            self._order = epoch, order
        return self._order[1]

    def load(self, step: int, number: int) -> tuple[Any, Any]:
        """Returns inputs and targets of a microbatch."""
        return collated(self.collate, [self.data[index] for index in self.indices(step, number)])


def collated(collate: Callable[[list[Any]], Any], samples: list[Any]) -> tuple[Any, Any]:
    """Returns inputs and targets of some samples."""
    loaded = collate(samples)
    if not isinstance(loaded, (list, tuple)) or len(loaded) != 2:
        raise ModelError("a sample of the data is a pair of input and target")
    return loaded[0], loaded[1]


def mix(*numbers: int) -> int:
    """Returns a seed that depends on all of some numbers."""
    seed = 0
    for number in numbers:
        # SplitMix64
        seed = (seed ^ number) + 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        seed = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        seed = (seed ^ seed >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        seed ^= seed >> 31
    return seed >> 1
