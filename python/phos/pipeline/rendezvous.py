"""How the ranks of a training find each other: by the variables that torchrun, srun scripts and phos
launch set.

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are all that is needed. PyTorch's store at the master's
address is used only until all ranks are connected, so the training survives the loss of rank 0.
Afterwards one rank of each machine keeps a door: it listens at the master's port, or at that of its
replica in a launch of phos. Ranks that come later ask there for the addresses of all.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from .. import inside
from ..errors import PhosError
from . import mesh, status
from .errors import TrainingError

# How long ranks wait for each other at the start.
_START = timedelta(minutes=10)
# A process that is to join a training asks there: HOST:PORT, several with commas.
JOIN = "PHOS_PIPELINE_JOIN"
# Ranks that join have numbers from here on, each drawn of so many above those there have been.
_FIRST_JOINED, _DRAWN = 1 << 10, 64
# How often a rank looks whether the master's port is free on its machine.
_LOOK = 2.0
# How often one that comes asks whether it has been seen.
_SEEN = 0.02
# How many may ask at once.
_ANSWERS = 64
# How long a door may be shut when the rank that has kept it is lost.
_HANDOFF = 10.0

Address = tuple[str, int]


class Meeting:
    """What a rank knows of the others, and tells those that come."""

    def __init__(self, rank: int, patience: float) -> None:
        self.mesh = mesh.Mesh(rank, patience)
        self.rank = rank
        self.token = ""
        self.addresses: dict[int, Address] = {}
        self._lock = threading.Lock()
        # How many are answered at once.
        self._answers = threading.BoundedSemaphore(_ANSWERS)

    def listen(self, host: str, port: int, backlog: int) -> socket.socket:
        """Opens a listener whose address the others get."""
        listener = socket.create_server((host, port), backlog=backlog)
        self.addresses[self.rank] = listener.getsockname()[:2]
        return listener

    def connect(self, rank: int, address: Address) -> None:
        """Connects to another rank."""
        connection = socket.create_connection(address, timeout=_START.total_seconds())
        mesh.hello(connection, {"rank": self.rank, "token": self.token, "address": self.addresses[self.rank]})
        self.addresses[rank] = address
        self.mesh.add(rank, connection)

    def accept(self, connection: socket.socket) -> int:
        """Returns the rank that has connected, or refuses it."""
        return self._named(mesh.greeted(connection))

    def _named(self, said: dict[str, Any]) -> int:
        if said.get("token") != self.token or not isinstance(said.get("rank"), int):
            raise TrainingError("a stranger has connected")
        host, port = said["address"]
        self.addresses[said["rank"]] = (str(host), int(port))
        return int(said["rank"])

    # While the ranks train

    def welcome(self, listener: socket.socket) -> None:
        """Answers all that connect, for as long as the process lives."""
        listener.settimeout(None)
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            # Each in its own thread: one that is silent keeps no other waiting.
            if self._answers.acquire(timeout=_HANDOFF):
                threading.Thread(target=self._answer, args=(connection,), daemon=True, name="answer").start()
            else:
                connection.close()

    def _answer(self, connection: socket.socket) -> None:
        try:
            self._answer_to(mesh.greeted(connection), connection)
        except Exception:  # whatever it says, it is no rank
            connection.close()
        finally:
            self._answers.release()

    def _answer_to(self, said: dict[str, Any], connection: socket.socket) -> None:
        if said.get("status"):
            connection.sendall(self.mesh.status())
            connection.close()
            return
        if "lose" in said:
            rank, why = int(said["lose"]), str(said.get("why", "it was declared lost"))
            if rank == self.rank or rank not in self.mesh.alive():
                raise TrainingError(f"rank {rank} is not another one that lives")
            self.mesh.lose(rank, why, evict=True)
            mesh.hello(connection, {"lost": rank})
            connection.close()
            return
        if said.get("join"):
            with self._lock:
                known = {
                    "token": self.token, "addresses": list(self.addresses.items()), "lost": list(self.mesh.lost),
                    "newcomers": self.mesh.waiting(),
                }
            mesh.hello(connection, known)
            connection.close()
            return
        with self._lock:
            rank = self._named(said)
            if rank in self.mesh.known():
                raise TrainingError(f"rank {rank} is here already")
            self.mesh.admit(rank, connection)

    def keep_door(self, host: str, port: int) -> None:
        """Listens at the master's port when no other rank of this machine does."""
        while True:
            try:
                door = socket.create_server((host, port))
            except OSError:
                time.sleep(_LOOK)
                continue
            self.welcome(door)


def meet(patience: float) -> mesh.Mesh:
    """Connects all ranks, and returns the connections of this one."""
    if os.environ.get(JOIN):
        return _join(_await_door(os.environ[JOIN], _HANDOFF), os.environ[JOIN], patience)
    others = _others_of_launch()
    if others:
        try:
            known = _ask(others)
        except TrainingError:
            pass  # none of them trains: all begin together
        else:
            return _join(known, others, patience)
    rank, world = _number("RANK", 0), _number("WORLD_SIZE", 1)
    if not 0 <= rank < world < _FIRST_JOINED:
        raise TrainingError(
            f"RANK is {rank} and WORLD_SIZE {world}: a rank is from 0 to {world - 1}, below {_FIRST_JOINED}"
        )
    meeting = Meeting(rank, patience)
    master, port = os.environ.get("MASTER_ADDR", ""), _number("MASTER_PORT", 0)
    if world > 1:
        if not master or not port:
            raise TrainingError(f"WORLD_SIZE is {world}, and MASTER_ADDR and MASTER_PORT do not say where rank 0 is")
        try:
            met = _connect(meeting, rank, world, master, port)
        except (RuntimeError, OSError, ValueError):
            if not others:
                raise
            met = False  # the others have met, and one keeps a door where the store was
        if not met:
            doors = others or f"{master}:{port}"
            return _join(_await_door(doors, _START.total_seconds()), doors, patience)
    meeting.mesh.start()
    return meeting.mesh


def _await_door(doors: str, seconds: float) -> tuple[dict[str, Any], Address]:
    """Asks until a training answers."""
    end = time.monotonic() + seconds
    while True:
        try:
            return _ask(doors)
        except TrainingError:
            if time.monotonic() > end:
                raise
            time.sleep(_LOOK / 4)


def _others_of_launch() -> str:
    """Returns the doors of the other replicas of a launch, if its members have changed since its start."""
    if "PHOS_LAUNCH_ID" not in os.environ or inside.generation() <= 1:
        return ""
    own = _own_replica()
    return ",".join(f"{member.address}:{member.port}" for member in inside.members().members if member != own)


def _own_replica() -> inside.Member | None:
    """Returns the replica of this process in a launch of phos; None outside of one."""
    if "PHOS_LAUNCH_ID" not in os.environ:
        return None
    job, replica = os.environ.get("PHOS_JOB_NAME"), os.environ.get("PHOS_REPLICA")
    try:
        members = inside.members().members
    except PhosError:
        return None  # no controller is there at this time
    return next((each for each in members if (each.job, str(each.replica)) == (job, replica)), None)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise TrainingError(f"{name} is {text!r}, which is no number") from None


def _connect(meeting: Meeting, rank: int, world: int, master: str, port: int) -> bool:
    """Connects to all lower ranks, and is connected to by all higher ones.

    The first ranks of a launch that grows may begin without the last ones. Such a rank gets False.
    """
    # torchrun has a store of its own there already.
    own = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    store = _open_store(master, port, world, own)
    prefix = f"phos/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    if rank == 0:
        store.set(f"{prefix}/world", str(world))
        store.set(f"{prefix}/token", secrets.token_hex(16))
    world = int(store.get(f"{prefix}/world"))
    if rank >= world:
        return False
    meeting.token = store.get(f"{prefix}/token").decode()
    host = _own_address(master, port)
    listener = meeting.listen(host, 0, world)
    store.set(f"{prefix}/{rank}", json.dumps(meeting.addresses[rank]))
    for other in range(rank):
        address = json.loads(store.get(f"{prefix}/{other}"))
        meeting.connect(other, (address[0], address[1]))
    _await(meeting, listener, set(range(rank + 1, world)))
    # Rank 0 may not take the store away before all have read it.
    store.set(f"{prefix}/{rank}/connected", b"1")
    if own:
        for other in range(world):
            store.get(f"{prefix}/{other}/connected")
    del store
    _serve(meeting, listener, host, port)
    return True


def _open_store(master: str, port: int, world: int, own: bool) -> dist.TCPStore:
    """Opens PyTorch's store, which need not have been built with libuv."""
    try:
        return dist.TCPStore(master, port, world, own, timeout=_START, wait_for_workers=False, use_libuv=False)
    except TypeError:  # an older PyTorch knows no other way
        return dist.TCPStore(master, port, world, own, timeout=_START, wait_for_workers=False)


def _await(meeting: Meeting, listener: socket.socket, waiting: set[int]) -> None:
    """Waits until some ranks have connected."""
    listener.settimeout(_START.total_seconds())
    while waiting:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            raise TrainingError(f"the ranks {sorted(waiting)} have not come within {_START}") from None
        try:
            rank = meeting.accept(connection)
            waiting.remove(rank)
        except (TrainingError, OSError, KeyError, ValueError, TypeError):
            connection.close()
            continue
        meeting.mesh.add(rank, connection)


def _serve(meeting: Meeting, listener: socket.socket, host: str, port: int) -> None:
    """Answers ranks that come later."""
    threading.Thread(target=meeting.welcome, args=(listener,), daemon=True, name="welcome").start()
    own = _own_replica()
    threading.Thread(
        target=meeting.keep_door, args=(host, own.port if own is not None else port), daemon=True, name="door"
    ).start()


def _join(answer: tuple[dict[str, Any], Address], doors: str, patience: float) -> mesh.Mesh:
    """Connects to all ranks of a training that runs. One rank comes after the other."""
    while True:
        known, (host, port) = answer
        if not known["newcomers"]:
            meeting = Meeting(_draw(known), patience)
            meeting.token, meeting.mesh.joining = known["token"], True
            own = _own_address(host, port)
            listener = meeting.listen(own, 0, len(known["addresses"]) + 1)
            meeting.mesh.start()
            if _connect_to_all(meeting, known, doors):
                _serve(meeting, listener, own, port)
                meeting.mesh.join(status.place()["host"])
                return meeting.mesh
            meeting.mesh.close()
            listener.close()
        time.sleep(_LOOK * secrets.randbelow(100) / 100)
        answer = _await_door(doors, _HANDOFF)


def _draw(known: dict[str, Any]) -> int:
    """Returns a number for this rank: two ranks that come at once draw different ones, nearly always."""
    first = max(_FIRST_JOINED, 1 + max(rank for rank, _ in known["addresses"]))
    return secrets.choice(range(first, first + _DRAWN))


def _connect_to_all(meeting: Meeting, known: dict[str, Any], doors: str) -> bool:
    """Connects to all ranks that there are; False if another rank comes at the same time."""
    lost = set(known["lost"])
    while True:
        new = [(rank, address) for rank, address in known["addresses"] if rank not in meeting.mesh.known() | lost]
        if not new:
            return True
        for rank, address in new:
            try:
                meeting.connect(rank, (address[0], address[1]))
            except OSError:
                lost.add(rank)
                continue
            meeting.mesh.serve(rank)
        # Of two that come at once, each sees the other only after the door has seen itself.
        end = time.monotonic() + _HANDOFF
        known, _ = _await_door(doors, _HANDOFF)
        while meeting.rank not in known["newcomers"] and time.monotonic() < end:
            time.sleep(_SEEN)
            known, _ = _await_door(doors, _HANDOFF)
        lost.update(known["lost"])
        if set(known["newcomers"]) != {meeting.rank}:
            return False


def _ask(doors: str) -> tuple[dict[str, Any], Address]:
    """Returns what a training says to a rank that comes, and where it was asked."""
    whys = []
    for door in doors.split(","):
        host, _, port = door.strip().rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=10) as connection:
                mesh.hello(connection, {"join": True})
                known: dict[str, Any] = mesh.greeted(connection)
                return known, (host, int(port))
        except (OSError, ValueError, TrainingError) as why:
            whys.append(f"{door}: {why}")
    raise TrainingError(f"no training answers where {JOIN} says: {'; '.join(whys)}")


def _own_address(master: str, port: int) -> str:
    """Returns the address of this machine that others of the training reach."""
    family, kind, _, _, address = socket.getaddrinfo(master, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])
