"""Which machines have all copies of a layer."""

import unittest

from phos.pipeline.plan import Pipeline, Plan, Stage


class MachinesTest(unittest.TestCase):
    def plan(self, *pipelines):
        """Makes a plan of pipelines, each a list of ranks and the layers up to which they go."""
        made, layers = [], 0
        for stages in pipelines:
            first, all_stages = 0, []
            for rank, end in stages:
                all_stages.append(Stage(rank, first, end))
                first = layers = end
            made.append(Pipeline(tuple(all_stages), 4))
        return Plan("", "", tuple(range(8)), layers, (0,) * layers, 8, 1.0, 1, tuple(made), (), (), ())

    def test_machine_has_all_copies(self):
        plan = self.plan([(0, 2), (1, 4)], [(2, 3), (3, 4)])
        machines = {0: "a", 1: "b", 2: "a", 3: "c"}
        # Layers 0 and 1 are on ranks 0 and 2, layer 2 on ranks 1 and 2, layer 3 on ranks 1 and 3.
        self.assertEqual(plan.on_too_few(machines, 1), {("a",): [0, 1]})
        self.assertEqual(plan.on_too_few(machines, 0), {})

    def test_each_copy_on_another(self):
        plan = self.plan([(0, 2), (1, 4)], [(2, 3), (3, 4)])
        self.assertEqual(plan.on_too_few({0: "a", 1: "a", 2: "b", 3: "b"}, 1), {})

    def test_one_machine(self):
        plan = self.plan([(0, 4)], [(1, 4)])
        self.assertEqual(plan.on_too_few({0: "a", 1: "a"}, 1), {})
