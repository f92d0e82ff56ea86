"""Sums have the same bits, whatever is added first and by whichever rank."""

import random
import unittest

import torch

from phos.pipeline.sums import Tree, numbers


def recursive(level, place, count, leaves):
    """Returns a node of the tree by its definition; None if it has no microbatches."""
    if level == 0:
        return leaves[place] if place < count else None
    left, right = (recursive(level - 1, 2 * place + half, count, leaves) for half in (0, 1))
    return left if right is None else left + right


class TreeTest(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(3)

    def leaves(self, count):
        generator = torch.Generator().manual_seed(count)
        return torch.randn(count, 5, generator=generator) * 10 ** torch.randint(-6, 6, (count, 5), generator=generator)

    def shared(self, count, leaves, ranks):
        """Lets ranks add microbatches at random, and one add the parts of all."""
        trees = [Tree(count) for _ in range(ranks)]
        order = list(range(count))
        self.random.shuffle(order)
        for number in order:
            self.random.choice(trees).add((0, number), leaves[number].clone())
        parts = [part for tree in trees for part in tree.parts.items()]
        self.random.shuffle(parts)
        whole = Tree(count)
        for node, part in parts:
            whole.add(node, part)
        return whole

    def test_same_bits(self):
        for count in range(1, 40):
            leaves = self.leaves(count)
            want = recursive((count - 1).bit_length(), 0, count, leaves)
            for ranks in (1, 2, 5):
                whole = self.shared(count, leaves, ranks)
                self.assertTrue(torch.equal(whole.total(), want), (count, ranks))
                self.assertEqual(list(whole.parts), [whole.root()])

    def test_differs_from_running_sum(self):
        leaves = self.leaves(37)
        self.assertFalse(torch.equal(self.shared(37, leaves, 1).total(), leaves.cumsum(0)[-1]))

    def test_parts_of_a_range(self):
        """A range of microbatches is at most two parts for each doubling."""
        for count in (16, 37, 100):
            for begin in range(count):
                for end in range(begin + 1, count + 1):
                    tree = Tree(count)
                    for number in range(begin, end):
                        tree.add((0, number), torch.zeros(1))
                    self.assertEqual(tree.covered(), set(range(begin, end)))
                    self.assertLessEqual(len(tree.parts), 2 * (end - begin).bit_length())

    def test_incomplete(self):
        tree = Tree(3)
        tree.add((0, 1), torch.zeros(1))
        with self.assertRaisesRegex(ValueError, r"\[1\] were added, of 3"):
            tree.total()

    def test_numbers(self):
        self.assertEqual(list(numbers((2, 1), 7)), [4, 5, 6])
