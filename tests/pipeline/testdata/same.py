"""Compares two state dicts, bit by bit. usage: same.py ONE OTHER"""

import sys

import torch

one, other = (torch.load(path) for path in sys.argv[1:3])
assert list(one) == list(other), (list(one), list(other))
for name, tensor in one.items():
    assert tensor.dtype == other[name].dtype and torch.equal(tensor, other[name]), name
assert one
