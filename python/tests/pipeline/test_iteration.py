"""The order in which stages compute, played without computing."""

import unittest

from phos.pipeline.iteration import order


class OrderTest(unittest.TestCase):
    def play(self, stages, count):
        """Lets each stage do what it can, and returns the most that each has kept."""
        plans = [order(position, stages, list(range(count))) for position in range(stages)]
        done, most = set(), [0] * stages
        while any(plans):
            before = len(done)
            for position, plan in enumerate(plans):
                while plan:
                    what, number = plan[0]
                    needs = {
                        "forward": [("forward", position - 1, number)] if position else [],
                        "backward": [("forward", position, number)] +
                                    ([("backward", position + 1, number)] if position + 1 < stages else []),
                    }[what]
                    if not done.issuperset(needs):
                        break
                    done.add((what, position, number))
                    plan.pop(0)
                    kept = sum(1 for each in range(count) if ("forward", position, each) in done
                               and ("backward", position, each) not in done)
                    most[position] = max(most[position], kept)
            self.assertGreater(len(done), before, "no stage can go on")
        self.assertEqual(len(done), 2 * stages * count)
        return most

    def test_all_sizes(self):
        for stages in range(1, 7):
            for count in range(0, 12):
                for position, kept in enumerate(self.play(stages, count)):
                    self.assertLessEqual(kept, stages - position)

    def test_backward_in_order(self):
        for position in range(4):
            numbers = [number for what, number in order(position, 4, [3, 5, 8, 9, 11]) if what == "backward"]
            self.assertEqual(numbers, [3, 5, 8, 9, 11])
