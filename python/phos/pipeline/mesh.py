"""Connections between all ranks of a training: messages with tensors, and which ranks are lost.

A message has a tag, and its receiver waits for the tag. The first part of each tag is a generation:
what was sent in an older one is dropped. A rank is lost when its connection ends, or when nothing
has come from it for a while; then, and when another rank says that the members have changed, all
that wait are interrupted.
"""

from __future__ import annotations

import ctypes
import json
import logging
import queue
import socket
import struct
import threading
import time
from typing import Any, Callable

import torch

from .errors import EvictedError, Interrupted, TrainingError

log = logging.getLogger("phos.pipeline")

# The lengths of a message's description and of its body.
_LENGTHS = struct.Struct("!IQ")
_MOST_META = 64 << 20
_MOST_HELLO = 256 << 10
_CHUNK = 1 << 20
# How long another side may take to say what it is.
_GREETING = 10.0
# How often a rank says that it lives, and after how long without a word it is lost.
_BEAT = 1.0
PATIENCE = 15.0

# A generation's number ends with the rank that leads it, so that no two ranks begin the same one.
_RANK_BITS = 16


def memory(tensor: torch.Tensor) -> memoryview:
    """Returns the bytes of a contiguous tensor in CPU memory."""
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_ubyte * size).from_address(tensor.data_ptr())).cast("B")


class _Peer:
    """Another rank: its connection, and what is to be sent there."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.outgoing: queue.SimpleQueue[tuple[bytes, torch.Tensor | None] | None] = queue.SimpleQueue()
        self.heard = time.monotonic()
        self.writer: threading.Thread | None = None


class Mesh:
    """The connections of one rank."""

    def __init__(self, rank: int, patience: float = PATIENCE) -> None:
        self.rank = rank
        self.patience = patience
        self._peers: dict[int, _Peer] = {}
        self._arrived: dict[tuple[int, str], tuple[Any, torch.Tensor | None]] = {}
        self._ready = threading.Condition()
        self._changed = False
        self._closed = False
        # The generation that this rank is in, and the rank that leads it.
        self.generation = 0
        self.leader = rank
        self.members: list[int] = []
        # The newest generation that another rank has begun: its number, that rank and the members.
        self._call: tuple[int, int, list[int]] | None = None
        self._evicted = ""
        # The generations that other ranks have left: nothing of these follows from them.
        self._past: dict[int, int] = {}
        # The newest generation that another rank has been in, and whether this one has finished.
        self._seen = 0
        self._over = False
        # Ranks that have come and are no members yet, and those that are connected to all.
        self._newcomers: set[int] = set()
        self._connected: set[int] = set()
        # This rank has come while others trained, and is no member yet.
        self.joining = False
        # Called when a rank has come, and where those are.
        self.on_join: Callable[[], None] = lambda: None
        self.hosts: dict[int, str] = {}
        # Ranks that have said that the training is over.
        self.finished: set[int] = set()
        # What the training says of itself, as a line of JSON.
        self.status: Callable[[], bytes] = lambda: b"{}\n"
        # What takes messages of other kinds, of any generation: the rank, description and body.
        self.handlers: dict[str, Callable[[int, Any, torch.Tensor | None], None]] = {}
        # Ranks that are lost, and why; and those of them that may live and be cut off.
        self.lost: dict[int, str] = {}
        self.silent: set[int] = set()

    # Connections

    def add(self, rank: int, connection: socket.socket) -> None:
        """Takes a connection to another rank."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(None)
        self._peers[rank] = _Peer(connection)

    def start(self) -> None:
        """Begins to send and to receive, when all connections are there."""
        for rank, peer in self._peers.items():
            peer.heard = time.monotonic()  # the last rank may have come long after the first
            self.serve(rank)
        threading.Thread(target=self._beat, daemon=True, name="beat").start()

    def serve(self, rank: int) -> None:
        """Begins to send to one rank and to receive from it."""
        peer = self._peers[rank]
        threading.Thread(target=self._read, args=(rank, peer), daemon=True, name=f"from rank {rank}").start()
        peer.writer = threading.Thread(target=self._write, args=(rank, peer), daemon=True, name=f"to rank {rank}")
        peer.writer.start()

    def admit(self, rank: int, connection: socket.socket) -> None:
        """Takes a connection to a rank that has come while the others train."""
        self.add(rank, connection)
        with self._ready:
            self._newcomers.add(rank)
        self.serve(rank)

    def join(self, host: str) -> None:
        """Tells all others that this rank is connected to all, and may become a member."""
        self._put_all({"kind": "join", "host": host})

    def lowest(self) -> int:
        """Returns the rank that leads next: the lowest that lives and is a member, or may be."""
        with self._ready:
            living = {self.rank, *self._peers} - self.lost.keys() - self._newcomers
            if self.joining and len(living) > 1:
                living.discard(self.rank)
            return min(living)

    def newcomers(self) -> list[int]:
        """Returns the ranks that may become members."""
        with self._ready:
            return sorted((self._newcomers & self._connected) - self.lost.keys())

    def waiting(self) -> list[int]:
        """Returns the ranks that have come and are no members yet."""
        with self._ready:
            return sorted(self._newcomers - self.lost.keys())

    def known(self) -> set[int]:
        """Returns all ranks that there have been."""
        with self._ready:
            return {self.rank, *self._peers}

    def alive(self) -> list[int]:
        """Returns the ranks that are not lost, with this one."""
        with self._ready:
            return sorted({self.rank, *self._peers} - self.lost.keys())

    def close(self) -> None:
        """Sends what is still to be sent, and ends all connections."""
        with self._ready:
            self._closed = True
            peers = list(self._peers.values())
        end = time.monotonic() + self.patience
        for peer in peers:
            peer.outgoing.put(None)
        for peer in peers:
            if peer.writer is not None:
                peer.writer.join(max(0.0, end - time.monotonic()))
            peer.connection.close()

    # Messages

    def send(self, rank: int, tag: str, meta: Any = None, body: torch.Tensor | None = None) -> None:
        """Sends a message of this generation. The body may not change until it has arrived."""
        self._put(rank, {"kind": "message", "tag": f"{self.generation}/{tag}", "meta": meta}, body)

    def post(self, rank: int, kind: str, meta: Any = None, body: torch.Tensor | None = None) -> None:
        """Sends a message that a handler takes, which waits for nothing."""
        self._put(rank, {"kind": kind, "meta": meta}, body)

    def receive(self, rank: int, tag: str) -> tuple[Any, torch.Tensor | None]:
        """Waits for a message of this generation; the body is a tensor of bytes."""
        key = (rank, f"{self.generation}/{tag}")
        with self._ready:
            # What has arrived counts, though its sender may have left since.
            while key not in self._arrived:
                self._check()
                self._ready.wait()
            return self._arrived.pop(key)

    def receive_still(self, rank: int, tag: str) -> tuple[Any, torch.Tensor | None]:
        """Waits as receive does, though the members have changed, for as long as the message may come."""
        key = (rank, f"{self.generation}/{tag}")
        with self._ready:
            while key not in self._arrived:
                if self._evicted or rank in self.lost or self._past.get(rank, -1) >= self.generation:
                    raise Interrupted
                self._ready.wait()
            return self._arrived.pop(key)

    def has_left(self, rank: int, generation: int) -> bool:
        """Reports whether all has come that another rank has sent in a generation."""
        with self._ready:
            return rank in self.lost or rank == self.rank or self._past.get(rank, -1) >= generation

    def leave_generation(self) -> None:
        """Tells all others that nothing of this generation follows from this rank."""
        self._put_all({"kind": "past", "generation": self.generation})

    def check(self) -> None:
        """Raises Interrupted if the members have changed."""
        with self._ready:
            self._check()

    def _check(self) -> None:
        if self._evicted:
            raise EvictedError(f"rank {self.rank} was lost by the others, which go on without it: {self._evicted}")
        if self._changed:
            raise Interrupted

    # Members

    def begin(self, admit: bool = True) -> list[int]:
        """Begins a generation that this rank leads, and returns the members: all that live.

        Ranks that have come become members if they are admitted.
        """
        with self._ready:
            counter = max(self.generation, self._seen, self._call[0] if self._call else 0) >> _RANK_BITS
            self._changed = False
            waiting = self._newcomers - self._connected if admit else self._newcomers
            members = self.members = sorted({self.rank, *self._peers} - self.lost.keys() - waiting)
            self._newcomers -= set(members)
            self._enter((counter + 1) << _RANK_BITS | self.rank)
        for rank in members:
            if rank != self.rank:
                self._put(rank, {"kind": "call", "generation": self.generation, "members": members})
        return members

    def follow(self) -> tuple[int, list[int]]:
        """Waits until another rank begins a generation, and returns that rank and the members."""
        with self._ready:
            while self._call is None or self._call[0] <= self.generation:
                self._check()
                self._ready.wait()
            generation, leader, members = self._call
            self.members = members
            self._enter(generation)
            for rank in set(members) - {self.rank, *self._peers}:
                self.lost[rank] = "it has never connected"
            # Nothing has changed but what the leader knows, unless it counts on somebody lost.
            self._changed = bool(set(members) & self.lost.keys())
            # Ranks that came after the leader had counted are no members yet.
            if self.joining:
                self._newcomers |= self._peers.keys() - set(members)  # they have come at the same time
            others = {self.rank, *self._peers} - self.lost.keys() - set(members) - self._newcomers
            self._newcomers -= set(members)
            self.joining = False
        for rank in others:
            self.lose(rank, f"rank {leader} has lost it", evict=True, known=True)
        return leader, members

    def _enter(self, generation: int) -> None:
        """Begins a generation: messages of older ones are dropped."""
        self.generation, self.leader = generation, generation & (1 << _RANK_BITS) - 1
        self._arrived = {key: kept for key, kept in self._arrived.items() if _generation(key[1]) >= generation}

    def forgive(self) -> None:
        """Forgets which ranks were silent: those that live have agreed to go on without them."""
        with self._ready:
            self.silent.clear()

    def part(self, ranks: list[int]) -> None:
        """Takes note that members leave: the end of their connections is no loss."""
        with self._ready:
            self.members = [rank for rank in self.members if rank not in ranks]
            if self.leader in ranks and self.members:
                self.leader = min(self.members)
            self.lost.update({rank: "it has left" for rank in ranks if rank != self.rank})
            # The end of such a connection may have come first.
            called = self._call is not None and self._call[0] > self.generation
            self._changed = called or bool(set(self.members) & self.lost.keys())

    def report_lost(self, leader: int) -> None:
        """Tells the leader which ranks this one has lost. What changes later interrupts again."""
        with self._ready:
            self._changed = leader in self.lost
            news = self._losses(max(self.generation, self._seen))
        self._put(leader, news)

    def stop_all(self) -> None:
        """Tells all others which ranks this one has lost, so that none waits for this one in vain."""
        with self._ready:
            news = self._losses(self.generation)
        self._put_all(news)

    def _losses(self, generation: int) -> dict[str, Any]:
        return {
            "kind": "lost", "ranks": sorted(self.lost.items()), "silent": sorted(self.silent), "generation": generation,
        }

    def finish(self) -> None:
        """Tells all others that the training is over."""
        self._over = True
        self._put_all({"kind": "finished"})

    def lose(self, rank: int, why: str, evict: bool = False, known: bool = False) -> None:
        """Ends the connection to another rank. Interrupts what waits, unless its loss is known already.

        A rank that is evicted is told so, because it may live.
        """
        with self._ready:
            if self._closed or rank in self.lost or rank not in self._peers:
                return
            self.lost[rank] = why
            if rank not in self.finished or not self._over:
                self._changed = self._changed or not known and rank not in self._newcomers
                level = logging.DEBUG if rank in self._newcomers else logging.WARNING
                log.log(level, "rank %d: rank %d is lost: %s", self.rank, rank, why)
            self._ready.notify_all()
            peer = self._peers[rank]
        if evict:
            self._put(rank, {"kind": "evicted", "why": why})
        peer.outgoing.put(None)
        if not evict:
            _end(peer.connection)

    def await_finished(self) -> None:
        """Waits until all that live have said that the training is over."""
        with self._ready:
            while not set(self.members) <= {self.rank} | self.finished | self.lost.keys():
                self._check()
                self._ready.wait()

    def _put_all(self, header: dict[str, Any]) -> None:
        """Sends a header to all others that live."""
        for rank in self.alive():
            if rank != self.rank:
                self._put(rank, header)

    def _put(self, rank: int, header: dict[str, Any], body: torch.Tensor | None = None) -> None:
        if rank == self.rank:
            self._take(rank, json.loads(json.dumps(header)), body)
            return
        peer = self._peers[rank]
        text = json.dumps(header).encode()
        size = 0 if body is None else body.numel() * body.element_size()
        peer.outgoing.put((_LENGTHS.pack(len(text), size) + text, body))

    # Threads

    def _write(self, rank: int, peer: _Peer) -> None:
        try:
            while (item := peer.outgoing.get()) is not None:
                head, body = item
                peer.connection.sendall(head)
                if body is not None:
                    peer.connection.sendall(memory(body))
            _end(peer.connection)
        except OSError as why:
            self.lose(rank, f"its connection ended: {why.strerror or why}")

    def _read(self, rank: int, peer: _Peer) -> None:
        try:
            while True:
                self._take(rank, *self._next(peer))
        except (OSError, ValueError, KeyError, TypeError) as why:
            self.lose(rank, f"its connection ended: {why}")

    def _next(self, peer: _Peer) -> tuple[dict[str, Any], torch.Tensor | None]:
        """Reads one message."""
        head = bytearray(_LENGTHS.size)
        self._fill(peer, memoryview(head))
        text, size = _LENGTHS.unpack(head)
        if text > _MOST_META:
            raise ValueError(f"a message with a description of {text} bytes")
        meta = bytearray(text)
        self._fill(peer, memoryview(meta))
        body = None
        if size:
            body = torch.empty(size, dtype=torch.uint8)
            self._fill(peer, memory(body))
        return json.loads(meta), body

    def _fill(self, peer: _Peer, into: memoryview) -> None:
        while into.nbytes:
            count = peer.connection.recv_into(into[:_CHUNK])
            if count == 0:
                raise ConnectionResetError("the process has ended")
            peer.heard = time.monotonic()
            into = into[count:]

    def _take(self, rank: int, header: dict[str, Any], body: torch.Tensor | None) -> None:
        """Does what a message asks for."""
        kind = header["kind"]
        if kind in self.handlers:
            self.handlers[kind](rank, header["meta"], body)
            return
        if kind == "lost":
            with self._ready:
                # That rank waits for a newer generation than its own, which may be one whose leader
                # is lost, and of which this rank has not heard.
                self._changed = self._changed or header["generation"] >= self.generation
                self._seen = max(self._seen, header["generation"])
                self._ready.notify_all()
            for other, why in header["ranks"]:
                if other != self.rank and other not in self.lost:
                    if other in header["silent"]:
                        self.silent.add(other)
                    self.lose(other, why, evict=True)
            return
        with self._ready:
            if kind == "message":
                if _generation(header["tag"]) >= self.generation:
                    self._arrived[rank, header["tag"]] = header["meta"], body
            elif kind == "call":
                if self._call is None or header["generation"] > self._call[0]:
                    self._call = header["generation"], rank, header["members"]
                    self._changed = True
            elif kind == "past":
                self._past[rank] = header["generation"]
            elif kind == "join":
                self._connected.add(rank)
                self.hosts[rank] = str(header["host"])
                self.on_join()
            elif kind == "finished":
                self.finished.add(rank)
            elif kind == "evicted":
                self._evicted = str(header["why"])
            self._ready.notify_all()

    def _beat(self) -> None:
        """Says that this rank lives, and notices which ones are silent."""
        last = time.monotonic()
        while not self._closed:
            time.sleep(_BEAT)
            now = time.monotonic()
            # While this process stood still, it heard nothing though others have spoken.
            still, last = max(0.0, now - last - 2 * _BEAT), now
            for rank in self.alive():
                if rank == self.rank:
                    continue
                self._put(rank, {"kind": "beat"})
                self._peers[rank].heard += still
                silent = now - self._peers[rank].heard
                if silent > self.patience:
                    self.silent.add(rank)
                    self.lose(rank, f"it was silent for {silent:.0f} s", evict=True)


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended already


def _generation(tag: str) -> int:
    return int(tag.partition("/")[0])


def hello(connection: socket.socket, said: dict[str, Any]) -> None:
    """Says something before the messages begin: one line of JSON."""
    connection.sendall(json.dumps(said).encode() + b"\n")


def greeted(connection: socket.socket) -> dict[str, Any]:
    """Returns what the other side says before the messages begin."""
    end = time.monotonic() + _GREETING
    line = bytearray()
    while not line.endswith(b"\n"):
        connection.settimeout(max(0.01, end - time.monotonic()))
        more = connection.recv(1)
        if not more or len(line) > _MOST_HELLO:
            raise TrainingError("a stranger has connected")
        line += more
    try:
        said = json.loads(line)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise TrainingError("a stranger has connected")
    return said
