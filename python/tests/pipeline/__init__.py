"""Tests of phos.pipeline. They need PyTorch: elsewhere there is nothing to run."""

import unittest

try:
    import torch  # noqa: F401
except ImportError:
    raise unittest.SkipTest("there is no PyTorch") from None
