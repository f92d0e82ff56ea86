"""How the ranks of a training find each other: by the variables that torchrun, srun scripts and phos
launch set.

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are all that is needed. PyTorch's store at the master's
address is used only until all ranks are connected, so the training survives the loss of rank 0.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from datetime import timedelta

import torch.distributed as dist

from . import mesh
from .errors import TrainingError

# How long ranks wait for each other at the start.
_START = timedelta(minutes=10)


def meet(patience: float) -> mesh.Mesh:
    """Connects all ranks, and returns the connections of this one."""
    rank, world = _number("RANK", 0), _number("WORLD_SIZE", 1)
    if not 0 <= rank < world:
        raise TrainingError(f"RANK is {rank} and WORLD_SIZE {world}: a rank is from 0 to {world - 1}")
    connections = mesh.Mesh(rank, patience)
    if world > 1:
        _connect(connections, rank, world)
    connections.start()
    return connections


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise TrainingError(f"{name} is {text!r}, which is no number") from None


def _connect(connections: mesh.Mesh, rank: int, world: int) -> None:
    """Connects to all lower ranks, and is connected to by all higher ones."""
    master, port = os.environ.get("MASTER_ADDR"), _number("MASTER_PORT", 0)
    if not master or not port:
        raise TrainingError(f"WORLD_SIZE is {world}, and MASTER_ADDR and MASTER_PORT do not say where rank 0 is")
    # torchrun has a store of its own there already.
    own = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    store = dist.TCPStore(master, port, world, own, timeout=_START, wait_for_workers=False)
    prefix = f"phos/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    if rank == 0:
        store.set(f"{prefix}/token", secrets.token_hex(16))
    token = store.get(f"{prefix}/token").decode()
    listener = socket.create_server((_own_address(master, port), 0), backlog=world)
    listener.settimeout(_START.total_seconds())
    store.set(f"{prefix}/{rank}", json.dumps(listener.getsockname()[:2]))
    for other in range(rank):
        host, at = json.loads(store.get(f"{prefix}/{other}"))
        connection = socket.create_connection((host, at), timeout=_START.total_seconds())
        mesh.hello(connection, rank, token)
        connections.add(other, connection)
    waiting = set(range(rank + 1, world))
    while waiting:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            raise TrainingError(f"the ranks {sorted(waiting)} have not come within {_START}") from None
        try:
            other = mesh.greeted(connection, token)
        except (TrainingError, OSError):
            connection.close()
            continue
        if other in waiting:
            waiting.remove(other)
            connections.add(other, connection)
    listener.close()
    # Rank 0 may not take the store away before all have read it.
    store.set(f"{prefix}/{rank}/connected", b"1")
    if own:
        for other in range(world):
            store.get(f"{prefix}/{other}/connected")


def _own_address(master: str, port: int) -> str:
    """Returns the address of this machine that others of the training reach."""
    family, kind, _, _, address = socket.getaddrinfo(master, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])
