"""The scale of the loss, against a loop that follows its rule."""

import math
import random
import unittest

import torch
from phos.pipeline.scale import Scale


class ScaleTest(unittest.TestCase):
    def test_rule(self):
        draw = random.Random(5)
        scale, value, good = Scale.of(2.0**8, None), 2.0**8, 0
        for _ in range(30_000):
            norm = draw.choice([math.inf, math.nan]) if draw.random() < 1e-3 else draw.random()
            left_out = not math.isfinite(norm)
            self.assertEqual(scale.overflows(norm), left_out)
            scale.load(scale.after(norm))
            good = 0 if left_out else good + 1
            if left_out:
                value = max(1.0, value / 2)
            if good == 2000:
                value, good = value * 2, 0
            self.assertEqual((scale.value, scale.good), (value, good))
        self.assertNotEqual(value, 2.0**8)

    def test_off(self):
        scale = Scale.of(None, torch.bfloat16)
        self.assertFalse(scale.overflows(math.inf))
        self.assertEqual((scale.value, scale.after(math.inf)), (1.0, (1.0, 0)))

    def test_half_precision(self):
        self.assertEqual(Scale.of(None, torch.float16).value, 65536)

    def test_no_power_of_two(self):
        for first in (0.0, -2.0, 3.0, math.inf, math.nan):
            with self.assertRaisesRegex(ValueError, "power of two"):
                Scale.of(first, None)


if __name__ == "__main__":
    unittest.main()
