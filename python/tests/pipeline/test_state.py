"""A layer's state as bytes, and what cannot be trained."""

import unittest

import torch
from torch import nn

from phos.pipeline import state
from phos.pipeline.batches import Batches
from phos.pipeline.errors import ModelError
from phos.pipeline.layer import Layer, Settings
from phos.pipeline.model import Model


def settings():
    return Settings(torch.device("cpu"), 0, None, False, lambda p: torch.optim.AdamW(p), None)


class StateTest(unittest.TestCase):
    def test_round_trip(self):
        value = {
            "a": torch.randn(3, 4), 5: [torch.tensor(True), torch.arange(7, dtype=torch.int16), None, 0.1],
            "b": (torch.zeros(0), torch.ones((), dtype=torch.bfloat16), "text", 1 << 70),
        }
        description, content = state.pack(value)
        self.assertEqual(state.size(value), content.numel())
        again = state.unpack(description, content)
        self.assertEqual(list(again), list(value))
        self.assertTrue(torch.equal(again["a"], value["a"]))
        self.assertTrue(torch.equal(again[5][1], value[5][1]) and again[5][1].dtype == torch.int16)
        self.assertEqual(again[5][2:] + list(again["b"][2:]), [None, 0.1, "text", 1 << 70])
        self.assertEqual(again["b"][1].dtype, torch.bfloat16)

    def test_checksum(self):
        """Equal bytes have equal ones wherever they are; a bit, a word's place or a length makes another."""
        draw = torch.Generator().manual_seed(2)
        for size in (0, 1, 7, 8, 9, 64, 1001):
            content = torch.randint(256, (size,), dtype=torch.uint8, generator=draw)
            elsewhere = torch.cat([torch.zeros(3, dtype=torch.uint8), content])[3:]
            self.assertEqual(state.checksum(content), state.checksum(elsewhere))
            seen = {state.checksum(content), state.checksum(torch.cat([content, torch.zeros(1, dtype=torch.uint8)]))}
            for bit in range(8 * size):
                other = content.clone()
                other[bit // 8] ^= 1 << bit % 8
                seen.add(state.checksum(other))
            if size >= 16:
                seen.add(state.checksum(torch.cat([content[8:16], content[:8], content[16:]])))
            self.assertEqual(len(seen), 2 + 8 * size + (size >= 16))

    def test_refused(self):
        for value in (object(), {"f": print}, torch.zeros(2, dtype=torch.complex64)):
            self.assertFalse(state.can_pack(value))
        with self.assertRaises(ValueError):
            state.unpack({"tensor": "float32", "shape": [1]}, torch.zeros(5, dtype=torch.uint8))

    def test_layer_moves(self):
        """A layer that was moved goes on with the same steps."""
        made = []
        for _ in range(2):
            torch.manual_seed(2)
            made.append(Layer(0, nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), settings()))
        one, two = made
        for step in range(4):
            if step == 2:
                two.load(state.unpack(*state.pack(one.state())), one.version)
            for layer in made[: 1 if step < 2 else 2]:
                layer.apply(torch.linspace(-1, 1, layer.size))
        for ours, theirs in zip(one.module.parameters(), two.module.parameters()):
            self.assertTrue(torch.equal(ours, theirs))
        self.assertEqual((one.version, two.version), (4, 4))


class ModelTest(unittest.TestCase):
    def test_running_statistics(self):
        with self.assertRaisesRegex(ModelError, r"layer 1\.1 is a BatchNorm1d with running statistics"):
            Model([nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))], settings())

    def test_shared(self):
        first, last = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        last.weight = first.weight
        model = Model([first, nn.Linear(3, 3), last], settings())
        self.assertIsNot(last.weight, first.weight)
        self.assertTrue(torch.equal(last.weight, first.weight))
        self.assertEqual([(each.layer, each.begin, each.end) for each in model.shared[0]], [(0, 0, 15), (2, 0, 15)])

    def test_shared_modules(self):
        """Layers that share a module, not only its parameter, get one each."""
        class Head(nn.Module):
            def __init__(self, embedding):
                super().__init__()
                self.embedding = embedding

            def forward(self, x):
                return x @ self.embedding.weight.t()

        first, block = nn.Embedding(5, 3), nn.Linear(3, 3)
        model = Model([first, block, block, Head(first)], settings())
        used = [each for module in model.modules for each in module.modules()]
        self.assertEqual(len(used), len(set(used)))
        self.assertEqual([[place.layer for place in places] for places in model.shared], [[0, 3], [1, 2], [1, 2]])
        model.hold([0, 1])
        model.release([0, 1])
        self.assertFalse(any(each.is_meta for each in model.modules[0].parameters()))

    def test_released_layers_take_no_memory(self):
        model = Model([nn.Linear(4, 4), nn.Linear(4, 4)], settings())
        model.hold([0, 1])
        model.release([1])
        self.assertTrue(all(each.is_meta for each in model.modules[0].parameters()))
        (layer,) = model.hold([0])
        self.assertFalse(any(each.is_meta for each in layer.module.parameters()))


class BatchesTest(unittest.TestCase):
    def test_each_sample_once(self):
        for shuffle in (False, True):
            batches = Batches(range(26), 3, 6, 1, shuffle, None)
            orders = []
            for epoch in range(3):
                steps = range(epoch * batches.steps, (epoch + 1) * batches.steps)
                numbers = [(step, number) for step in steps for number in range(batches.count)]
                used = [index for step, number in numbers for index in batches.indices(step, number)]
                self.assertEqual(len(used), 24)
                self.assertEqual(len(set(used)), 24)
                orders.append(used)
            self.assertEqual(orders[0] != orders[1], shuffle)

    def test_refused(self):
        for sizes in ((3, 7), (0, 4), (2, 30)):
            with self.assertRaises(ModelError):
                Batches(range(26), *sizes, 1, False, None)
