"""Who keeps whose backups."""

import unittest

import torch
from phos.pipeline.backup import Backups
from phos.pipeline.plan import Pipeline, Plan, Stage
from phos.pipeline.sums import Tree


class Mesh:
    """A rank without connections."""

    def __init__(self, rank):
        self.rank, self.handlers, self.posted, self.lost = rank, {}, [], {}

    def post(self, rank, kind, meta=None, body=None):
        self.posted.append((rank, kind, meta, body))


class Layer:
    """As much of a layer as backups need."""

    def __init__(self, number):
        self.number, self.kind = number, torch.float32
        self.settings = type("Settings", (), {"device": torch.device("cpu")})


def plan(ranks):
    """Returns a plan with a pipeline of one layer on each rank."""
    pipelines = tuple(Pipeline((Stage(rank, 0, 1),), 1) for rank in ranks)
    return Plan("", "", tuple(ranks), 1, (0,), len(pipelines), 1.0, 1, pipelines, (), (), ())


class TargetsTest(unittest.TestCase):
    def targets(self, machines):
        made = plan(sorted(machines))
        return {rank: Backups(Mesh(rank))._target(made, machines, 0) for rank in machines}

    def test_each_machine_on_others(self):
        machines = {rank: "one" if rank < 8 else "other" for rank in range(16)}
        targets = self.targets(machines)
        for rank, target in targets.items():
            self.assertNotEqual(machines[rank], machines[target])
        self.assertEqual(len(set(targets.values())), 16)  # none keeps more than one

    def test_one_machine(self):
        self.assertEqual(self.targets({0: "a", 1: "a", 2: "a"}), {0: 1, 1: 2, 2: 0})

    def test_alone(self):
        self.assertEqual(self.targets({3: "a"}), {3: None})


class KeepingTest(unittest.TestCase):
    def send(self, sums, step, losses):
        """Lets rank 1 send its sums of a step, and returns what it has sent."""
        sender = Mesh(1)
        backups = Backups(sender)
        backups.begin(plan([0, 1]), {0: "a", 1: "b"}, step, [Layer(0)])
        backups._next = 0.0
        backups.offer({0: sums}, losses)
        ((rank, kind, meta, body),) = sender.posted
        self.assertEqual((rank, kind), (0, "backup"))
        return meta, body

    def test_largest_parts(self):
        count, mesh = 8, Mesh(0)
        kept, sums, own = Backups(mesh), Tree(count), Tree(count)
        for number in range(5):
            sums.add((0, number), torch.tensor([float(number), 1.0]))
            kept._keep(1, *self.send(sums, 3, {number: 0.5}))
        self.assertEqual(sorted(kept._kept[1][0]), [(0, 4), (2, 0)])
        own.add((0, 6), torch.tensor([6.0, 1.0]))
        mesh.lost[1] = "killed"
        losses = {}
        kept.restore(3, {0: Layer(0)}, {0: own}, losses)
        self.assertEqual(own.covered(), {0, 1, 2, 3, 4, 6})
        self.assertEqual(own.parts[2, 0].tolist(), [6.0, 4.0])
        self.assertEqual((losses, kept._kept), ({4: 0.5}, {}))

    def test_other_steps(self):
        count, mesh = 4, Mesh(0)
        kept, sums = Backups(mesh), Tree(count)
        sums.add((0, 1), torch.ones(2))
        kept._keep(1, *self.send(sums, 5, {}))
        mesh.lost[1] = "killed"
        for step in (4, 6):  # one behind, and one ahead
            own = Tree(count)
            kept.restore(step, {0: Layer(0)}, {0: own}, {})
            self.assertEqual(own.covered(), set())
        kept.forget(5)
        own = Tree(count)
        kept.restore(5, {0: Layer(0)}, {0: own}, {})
        self.assertEqual(own.covered(), {1})

    def test_twice(self):
        """What this rank has computed itself is not added again."""
        count, mesh = 4, Mesh(0)
        kept, sums, own = Backups(mesh), Tree(count), Tree(count)
        for number in (0, 1):
            sums.add((0, number), torch.ones(2))
        kept._keep(1, *self.send(sums, 0, {}))
        own.add((0, 1), torch.ones(2))
        mesh.lost[1] = "killed"
        kept.restore(0, {0: Layer(0)}, {0: own}, {})
        self.assertEqual(own.covered(), {1})


if __name__ == "__main__":
    unittest.main()
