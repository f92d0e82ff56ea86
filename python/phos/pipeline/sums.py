"""Sums of gradients that depend neither on the ranks that add nor on the order.

The microbatches of an iteration have the numbers 0 to count - 1. Their gradients are added as a
binary tree over the numbers: the sum of 0 and 1, of 2 and 3, then of these two, and so on. A node of
the tree is known by its level and its place there: (0, 5) is microbatch 5, (2, 1) the sum of 4 to 7.
Where the right half of a node has no microbatches, the node is its left half. Each addition has the
same two operands on any rank, so the root has the same bits on any number of machines.
"""

from __future__ import annotations

from typing import Iterable

import torch

# Of a tree: level and place.
Node = tuple[int, int]


def numbers(node: Node, count: int) -> range:
    """Returns the microbatches of a node."""
    level, place = node
    return range(place << level, min((place + 1) << level, count))


class Tree:
    """The sums of one tensor over those microbatches that were added."""

    def __init__(self, count: int) -> None:
        self.count = count
        # No node here lies in another one, and no two are the halves of one.
        self.parts: dict[Node, torch.Tensor] = {}
        # Microbatches that another rank has added.
        self.skip: set[int] = set()

    def add(self, node: Node, tensor: torch.Tensor) -> None:
        """Adds a node's sum, which belongs to the tree from now on."""
        level, place = node
        while (1 << level) < self.count:
            sibling = place ^ 1
            if sibling << level < self.count:
                other = self.parts.pop((level, sibling), None)
                if other is None:
                    break
                left, right = (tensor, other) if place < sibling else (other, tensor)
                tensor = left.add_(right)
            level, place = level + 1, place >> 1
        self.parts[level, place] = tensor

    def covered(self) -> set[int]:
        """Returns the microbatches that were added."""
        return {number for node in self.parts for number in numbers(node, self.count)}

    def keep(self, nodes: Iterable[Node]) -> None:
        """Forgets all other parts."""
        self.parts = {node: self.parts[node] for node in nodes}

    def root(self) -> Node:
        """Returns the node of all microbatches."""
        return max(self.count - 1, 0).bit_length(), 0

    def total(self) -> torch.Tensor:
        """Returns the sum of all microbatches."""
        (tensor,) = self.parts.values()
        if len(self.covered()) < self.count:
            raise ValueError(f"{sorted(self.covered())} were added, of {self.count}")
        return tensor

