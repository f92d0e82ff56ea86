"""Checkpoints in directories: files of different runs are not mixed, and damage is noticed."""

import concurrent.futures
import pathlib
import shutil
import tempfile
import threading
import unittest

import torch

from phos.pipeline import state
from phos.pipeline.checkpoint import Checkpoints
from phos.pipeline.directory import Directory
from phos.pipeline.errors import TrainingError

COMMON = {"layers": 2, "samples": 9}


class DirectoryTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        self.directory = Directory(self.root, 0)

    def write(self, run, step, layers, directory=None):
        for layer in layers:
            (directory or self.directory).write(run, step, layer, {"w": torch.full((3,), float(step + layer))})

    def test_read(self):
        self.write("a", 4, [0, 1])
        self.assertEqual(self.directory.steps(), {}, "there is no list yet")
        self.directory.finish("a", 4, COMMON)
        self.assertEqual(self.directory.steps(), {4: ("a", [0, 1])})
        self.assertEqual(state.unpack(*self.directory.read(4, 1))["w"].tolist(), [5.0] * 3)
        self.assertEqual(self.directory.training(4)["samples"], 9)

    def test_runs_are_not_mixed(self):
        self.write("old", 4, [0, 1])
        self.directory.finish("old", 4, COMMON)
        self.write("new", 4, [0])
        self.assertEqual(self.directory.steps(), {4: ("old", [1])})
        self.directory.finish("new", 4, COMMON)
        self.assertEqual(self.directory.steps(), {4: ("new", [0])})

    def test_ranks_prune_at_once(self):
        written = threading.Barrier(4, timeout=60)

        def work(rank):
            own = Directory(self.root, rank)
            for step in range(300):
                self.write("a", step, [0, 1], own)
                written.wait()
                own.finish("a", step, COMMON)
                own.prune("a", step, 1)

        with concurrent.futures.ThreadPoolExecutor(4) as ranks:
            for done in [ranks.submit(work, rank) for rank in range(4)]:
                done.result()

    def test_written_once(self):
        self.write("a", 4, [0])
        before = (self.root / "step-00000004" / "layer-0000").stat().st_ino
        self.write("a", 4, [0], Directory(self.root, 1))
        self.assertEqual((self.root / "step-00000004" / "layer-0000").stat().st_ino, before)

    def test_damage(self):
        self.write("a", 4, [0, 1])
        self.directory.finish("a", 4, COMMON)
        path = self.root / "step-00000004" / "layer-0000"
        content = bytearray(path.read_bytes())
        for at in (len(content) - 1, len(content) - 12, content.index(b'"digest": "') + 12):
            changed = bytearray(content)
            changed[at] ^= 1
            path.write_bytes(changed)
            with self.assertRaisesRegex(TrainingError, "layer-0000 is damaged"):
                self.directory.read(4, 0)
        path.write_bytes(content[:-1])
        with self.assertRaisesRegex(TrainingError, "damaged"):
            self.directory.read(4, 0)
        (self.root / "step-00000004" / "layer-0001").rename(path)
        with self.assertRaisesRegex(TrainingError, "damaged"):
            self.directory.read(4, 0)

    def test_prune(self):
        for step in (2, 4, 6):
            self.write("a", step, [0])
            self.directory.finish("a", step, COMMON)
        (self.root / "notes.txt").write_text("mine")
        self.directory.prune("a", 6, 2)
        names = sorted(each.name for each in self.root.iterdir())
        self.assertEqual(names, ["notes.txt", "step-00000004", "step-00000006"])

    def test_prune_later_ones_of_other_runs(self):
        """What an older run has left of later steps does not displace what this one has written."""
        for run, step in (("old", 10), ("old", 13), ("old", 15), ("new", 12)):
            self.write(run, step, [0])
            self.directory.finish(run, step, COMMON)
        self.directory.prune("new", 12, 2)
        self.assertEqual(sorted(self.directory.steps()), [10, 12])

    def test_choose(self):
        checkpoints = Checkpoints(None, None, None)
        checkpoints.model = type("Model", (), {"modules": [None] * 3})
        for found, want in (
            ({0: [], 1: []}, None),
            ({0: [(2, "a", [0, 1, 2])], 1: [(2, "a", [0]), (4, "a", [0, 1])]}, 2),
            ({0: [(2, "a", [0, 1, 2]), (4, "a", [2])], 1: [(4, "a", [0, 1])]}, 4),
            ({0: [(2, "a", [0, 1, 2]), (4, "b", [2])], 1: [(4, "a", [0, 1])]}, 2),
        ):
            chosen = checkpoints.choose(found)
            self.assertEqual(chosen and chosen["step"], want, found)
