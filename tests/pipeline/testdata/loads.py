"""Loads what a training has saved into a model of transformers that was not split, and compares it
with what one process has trained. usage: loads.py MODEL SAVED REFERENCE
"""

import sys

import models
import torch

(layer,), _, _ = models.make(sys.argv[1] + "-whole", 1)
saved, reference = (torch.load(path) for path in sys.argv[2:4])
layer.model.load_state_dict(saved)  # no name is missing, and none is unknown
for name, tensor in layer.model.state_dict().items():
    assert torch.allclose(tensor, reference[f"0.model.{name}"], rtol=1e-3, atol=1e-5), name
