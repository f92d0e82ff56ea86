"""Connections between ranks: messages, losses, generations."""

import logging
import socket
import threading
import unittest

import torch

from phos.pipeline.errors import EvictedError, Interrupted, TrainingError
from phos.pipeline.mesh import Mesh, greeted, hello


class MeshTest(unittest.TestCase):
    def setUp(self):
        logging.getLogger("phos.pipeline").setLevel(logging.ERROR)

    def meshes(self, count, patience=30):
        """Connects ranks in this process."""
        meshes = [Mesh(rank, patience) for rank in range(count)]
        for rank in range(count):
            for other in range(rank):
                one, two = socket.socketpair()
                meshes[rank]._peers[other], meshes[other]._peers[rank] = _peer(one), _peer(two)
        for mesh in meshes:
            mesh.start()
            self.addCleanup(mesh.close)
        return meshes

    def together(self, meshes):
        """Begins a generation on all."""
        members = meshes[0].begin()
        for mesh in meshes[1:]:
            self.assertEqual(mesh.follow(), (0, members))

    def test_messages(self):
        meshes = self.meshes(3)
        self.together(meshes)
        body = torch.arange(1 << 20, dtype=torch.uint8)
        meshes[2].send(1, "b", [1, "two"], body)
        meshes[2].send(1, "a")
        self.assertEqual(meshes[1].receive(2, "a"), (None, None))
        meta, got = meshes[1].receive(2, "b")
        self.assertEqual(meta, [1, "two"])
        self.assertTrue(torch.equal(got, body))
        meshes[0].send(0, "self", 3)
        self.assertEqual(meshes[0].receive(0, "self"), (3, None))

    def test_loss(self):
        meshes = self.meshes(3)
        self.together(meshes)
        meshes[0].close()
        for mesh in meshes[1:]:
            with self.assertRaises(Interrupted):
                mesh.receive(0, "never")
        self.assertEqual(meshes[1].begin(), [1, 2])
        meshes[2].report_lost(1)
        self.assertEqual(meshes[2].follow(), (1, [1, 2]))
        meshes[1].send(2, "next", 7)
        self.assertEqual(meshes[2].receive(1, "next"), (7, None))

    def test_old_messages_are_dropped(self):
        meshes = self.meshes(2)
        self.together(meshes)
        meshes[0].send(1, "x", "old")
        meshes[0].send(1, "y")
        meshes[1].receive(0, "y")
        self.together(meshes)
        meshes[0].send(1, "x", "new")
        self.assertEqual(meshes[1].receive(0, "x"), ("new", None))

    def test_what_has_arrived_counts(self):
        meshes = self.meshes(2)
        self.together(meshes)
        meshes[0].send(1, "last", 1)
        meshes[0].close()
        with self.assertRaises(Interrupted):
            meshes[1].receive(0, "never")
        self.assertEqual(meshes[1].receive(0, "last"), (1, None))

    def test_one_broken_connection(self):
        """A rank that only one other rank has lost is evicted, and is told so."""
        meshes = self.meshes(4)
        self.together(meshes)
        meshes[3].lose(2, "a broken cable")
        with self.assertRaises(Interrupted):
            meshes[3].check()
        meshes[3].report_lost(0)
        with self.assertRaises(Interrupted):
            meshes[0].receive(1, "never")
        self.assertEqual(meshes[0].begin(), [0, 1, 3])
        for rank in (1, 3):
            self.assertEqual(meshes[rank].follow(), (0, [0, 1, 3]))
            meshes[rank].check()
        with self.assertRaisesRegex(EvictedError, "rank 2 was lost by the others"):
            while True:
                try:
                    meshes[2].receive(0, "never")
                except Interrupted:
                    meshes[2].begin()

    def test_silence(self):
        meshes = self.meshes(2, patience=1)
        self.together(meshes)
        meshes[0]._closed = True  # its beat ends
        with self.assertRaises(Interrupted):
            meshes[1].receive(0, "never")
        self.assertEqual(meshes[1].silent, {0})

    def test_finish(self):
        meshes = self.meshes(3)
        self.together(meshes)
        waiting = threading.Thread(target=meshes[0].await_finished)
        waiting.start()
        meshes[1].finish()
        self.assertTrue(waiting.is_alive())
        meshes[2].finish()
        waiting.join(10)
        self.assertFalse(waiting.is_alive())

    def test_garbage(self):
        """A rank that sends what is no message is lost, and nothing else happens."""
        for garbage in (b"\xff" * 64, b"\0\0\0\2\0\0\0\0\0\0\0\0[]", b"\0\0\0\1\0\0\0\0\0\0\0\0x"):
            meshes = self.meshes(2)
            meshes[0]._peers[1].connection.sendall(garbage)
            with self.assertRaises(Interrupted):
                meshes[1].receive(0, "never")

    def test_strangers(self):
        for said in (b"GET / HTTP/1.1\n", b'{"rank": 1, "token": "other"}\n', b"{}\n", b"x" * 5000, b""):
            ours, theirs = socket.socketpair()
            with ours, theirs:
                theirs.sendall(said)
                theirs.shutdown(socket.SHUT_WR)
                with self.assertRaises(TrainingError):
                    greeted(ours, "token")
        ours, theirs = socket.socketpair()
        with ours, theirs:
            hello(theirs, 5, "token")
            self.assertEqual(greeted(ours, "token"), 5)


def _peer(connection):
    from phos.pipeline.mesh import _Peer
    return _Peer(connection)
