"""Layers that are copied ahead: only what is whole, of this plan, and of the right version counts."""

import threading
import unittest

import torch
from phos.pipeline import leader, recovery, state
from phos.pipeline.ahead import Ahead
from phos.pipeline.layer import Settings
from phos.pipeline.model import Model
from phos.pipeline.scale import Scale
from torch import nn


class Mesh:
    """A rank whose messages go nowhere, or to the handlers of another one."""

    def __init__(self, rank):
        self.rank, self.handlers, self.lost = rank, {}, {}
        self.leader, self.generation, self.joining, self.left = 0, 7, False, set()
        self.others = {}

    def alive(self):
        return sorted({self.rank, *self.others})

    def has_left(self, rank, generation):
        return True

    def post(self, rank, kind, meta=None, body=None):
        self.others[rank].handlers[kind](self.rank, meta, body)


def model(layers, scale=None):
    torch.manual_seed(4)
    settings = Settings(
        torch.device("cpu"), 0, None, False, lambda p: torch.optim.AdamW(p, lr=1e-2), None, scale or Scale(4.0, on=True),
    )
    made = Model([nn.Linear(3, 3) for _ in range(2)], settings)
    made.hold(layers)
    return made


class AheadTest(unittest.TestCase):
    def setUp(self):
        self.source, self.target = Mesh(0), Mesh(1)
        self.source.others, self.target.others = {1: self.target}, {0: self.source}
        self.of, self.to = model([0, 1]), model([])
        self.sends, self.gets = (Ahead(*each, self.make_step) for each in ((self.source, self.of), (self.target, self.to)))
        self.totals = {number: torch.randn(self.of.held[number].size) for number in (0, 1)}

    def make_step(self, layer, total, end):
        layer.apply(total / layer.settings.scale.value)

    def forecast(self, number=1, generation=7):
        """Lets both hear of a plan by which layer 1 goes from rank 0 to rank 1, and waits for the thread."""
        size = self.of.held[1].bytes()
        half = size // 2
        meta = {"id": [generation, number], "sizes": [1, size],
                "stripes": [[1, 0, 1, 0, half], [1, 0, 1, half, size - half]]}
        self.gets._on_plan(0, meta, None)
        self.sends._on_plan(0, meta, None)
        for each in threading.enumerate():
            if each.name == "send ahead":
                each.join()

    def ends(self):
        """Ends the step on the source."""
        with self.sends.still:
            self.sends.step_ends(self.totals, {"overflows": False})
            for number, total in self.totals.items():
                self.make_step(self.of.held[number], total, {})

    def same(self):
        mine, theirs = (state.pack(each.held[1].state())[1] for each in (self.of, self.to))
        self.assertTrue(torch.equal(mine, theirs))

    def test_whole_step(self):
        self.forecast()
        self.ends()
        self.to.settings.scale.load([8.0, 3])
        self.gets.take()
        self.assertEqual(self.gets.taken, {1: 1})
        self.assertEqual(self.to.settings.scale.state(), [8.0, 3])  # that of another step does not come back
        self.to.settings.scale.load(self.of.settings.scale.state())
        self.same()

    def test_step_in_the_middle(self):
        self.forecast()
        self.gets.take()
        self.assertEqual(self.gets.taken, {1: 0})

    def test_never_over_what_is_here(self):
        """A forecast that came late may be complete long after."""
        self.forecast()
        self.ends()
        self.to.hold([1])
        self.to.held[1].version = 9
        self.gets.take()
        self.assertEqual((self.gets.taken, self.to.held[1].version), ({}, 9))

    def test_other_generation(self):
        self.forecast(generation=6)
        self.ends()
        self.gets.take()
        self.assertEqual(self.gets.taken, {})

    def test_forgotten_when_settled(self):
        self.forecast()
        self.gets.settle()
        self.ends()
        self.gets.take()
        self.assertEqual(self.gets.taken, {})

    def test_newest_forecast(self):
        self.forecast(1)
        self.forecast(2)
        self.ends()
        self.gets.take()
        self.assertEqual(self.gets.taken, {1: 1})

    def test_lost_target(self):
        self.source.others = {}
        self.forecast()
        self.ends()
        self.gets.take()
        self.assertEqual(self.gets.taken, {})

    def test_reported(self):
        report = recovery.Report(4, held=[0], ahead={1: 4, 2: 5, 3: 3})
        again = recovery.Report.decode(report.encode())
        self.assertEqual(leader._held(again, 5), [0, 2])  # a rank one step behind will make it with layer 0 only


if __name__ == "__main__":
    unittest.main()
