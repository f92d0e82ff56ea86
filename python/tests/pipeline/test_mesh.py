"""Connections between ranks: messages, losses, generations."""

import logging
import socket
import threading
import unittest

import torch

from phos.pipeline.errors import EvictedError, Interrupted, TrainingError
from phos.pipeline.mesh import Mesh, hello
from phos.pipeline.rendezvous import Meeting


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

    def test_leader_leaves(self):
        """A leader's connection may end before the others take note that it leaves."""
        meshes = self.meshes(3)
        self.together(meshes)
        meshes[1].lose(0, "it has ended")
        for mesh in meshes[1:]:
            mesh.part([0])
            mesh.check()
            self.assertEqual((mesh.leader, mesh.members), (1, [1, 2]))

    def test_left_behind(self):
        """A rank that waits for a new generation gets one, though the leader knows of its loss already."""
        meshes = self.meshes(3)
        self.together(meshes)
        meshes[0].lose(2, "gone")
        self.assertEqual(meshes[0].begin(), [0, 1])
        self.assertEqual(meshes[1].follow(), (0, [0, 1]))
        meshes[1].report_lost(0)
        with self.assertRaises(Interrupted):
            meshes[0].receive(1, "never")

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
        """What does not say the token of the training is refused, whatever it says."""
        meeting = Meeting(0, 30)
        meeting.token = "token"
        for said in (
            b"GET / HTTP/1.1\n", b'{"rank": 1, "token": "other", "address": ["h", 1]}\n', b"{}\n", b"[]\n", b"",
            b'{"rank": "1", "token": "token", "address": ["h", 1]}\n', b"x" * (2 << 20),
        ):
            ours, theirs = socket.socketpair()
            with ours, theirs:
                threading.Thread(target=_say, args=(theirs, said)).start()
                with self.assertRaises(TrainingError):
                    meeting.accept(ours)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            hello(theirs, {"rank": 5, "token": "token", "address": ["127.0.0.1", 7]})
            self.assertEqual(meeting.accept(ours), 5)
            self.assertEqual(meeting.addresses[5], ("127.0.0.1", 7))

    def test_join(self):
        """A rank that has come is no member before it is connected to all, and its loss interrupts nothing."""
        meshes = self.meshes(2)
        self.together(meshes)
        new = Mesh(2000, 30)
        for mesh in meshes:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                new.add(mesh.rank, socket.create_connection(listener.getsockname()))
                mesh.admit(2000, listener.accept()[0])
        self.addCleanup(new.close)
        new.start()
        self.assertEqual(meshes[0].newcomers(), [])
        self.assertEqual(meshes[0].begin(), [0, 1])
        meshes[1].follow()
        new.join("here")
        while meshes[0].newcomers() != [2000]:
            threading.Event().wait(0.01)
        self.assertEqual(meshes[0].begin(), [0, 1, 2000])
        self.assertEqual(meshes[1].follow(), (0, [0, 1, 2000]))
        self.assertEqual(new.follow(), (0, [0, 1, 2000]))


def _say(connection, said):
    try:
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # it was refused before it had said all


def _peer(connection):
    from phos.pipeline.mesh import _Peer
    return _Peer(connection)
