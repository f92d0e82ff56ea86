"""How an iteration goes on: every microbatch counts once, and nothing is computed again in vain."""

import random
import unittest

import torch

from phos.pipeline.errors import ModelError
from phos.pipeline.recovery import Report, base, check_start, covered, resume
from phos.pipeline.sums import Tree, numbers


class ResumeTest(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(5)

    def reports(self, ranks, layers, count):
        """Makes reports of ranks that have added some microbatches, some of them twice."""
        reports = {}
        for rank in self.random.sample(range(20), ranks):
            report = Report(step=4, held=list(range(layers)))
            for layer in range(layers):
                tree = Tree(count)
                for number in self.random.sample(range(count), self.random.randint(0, count)):
                    tree.add((0, number), torch.zeros(1))
                report.parts[layer] = list(tree.parts)
            report.losses = {number: 1.0 for number in self.random.sample(range(count), self.random.randint(0, count))}
            reports[rank] = report
        return reports

    def test_random(self):
        for _ in range(400):
            layers, count = self.random.randint(1, 4), self.random.randint(1, 20)
            reports = self.reports(self.random.randint(1, 5), layers, count)
            going = resume(reports, layers, count)
            known = set().union(*(report.losses for report in reports.values()))
            for layer in range(layers):
                nodes = [node for nodes in going.keep[layer].values() for node in nodes]
                kept = [number for node in nodes for number in numbers(node, count)]
                self.assertEqual(len(kept), len(set(kept)), "a microbatch counts twice")
                for rank, nodes in going.keep[layer].items():
                    self.assertLessEqual(set(nodes), set(reports[rank].parts[layer]))
                there = {n for r in reports.values() for node in r.parts[layer] for n in numbers(node, count)}
                self.assertEqual(set(kept), there, "what a rank has is computed again")
                self.assertEqual(covered(going.keep[layer], count), there)
                known &= there
            self.assertEqual(going.missing, sorted(set(range(count)) - known))

    def test_step_ahead(self):
        """What ranks have of a step that others have made does not count."""
        behind = Report(step=4, parts={0: [(1, 0)]}, losses={0: 1.0, 1: 2.0})
        ahead = Report(step=5, commit={"loss": 1.5, "norm": 0.1})
        going = resume({1: behind, 2: ahead}, 1, 2)
        self.assertEqual((going.step, going.commit, going.missing), (5, {"loss": 1.5, "norm": 0.1}, [0, 1]))
        self.assertEqual((going.keep, going.losses), ({0: {}}, {}))

    def test_encode(self):
        for report in self.reports(5, 3, 9).values():
            report.plan = (65536, "abc")
            again = Report.decode(report.encode())
            again.plan = tuple(again.plan)
            self.assertEqual(again, report)

    def test_base(self):
        reports = {0: Report(3), 1: Report(3, plan=(7, "old")), 2: Report(3, plan=(9, "new"))}
        self.assertEqual(base(reports), "new")
        self.assertEqual(base({0: Report(0)}), "")

    def test_start(self):
        one, two = {"threads": 1, "layers": ["a", "b"]}, {"threads": 1, "layers": ["a", "c"]}
        check_start({0: one, 1: dict(one)})
        with self.assertRaisesRegex(ModelError, "layer 1 has other parameters on rank 4 than on rank 2: call torch"):
            check_start({2: one, 4: two})
        with self.assertRaisesRegex(ModelError, "threads is 2 on rank 1 and 1 on rank 0"):
            check_start({0: one, 1: {**one, "threads": 2}})
