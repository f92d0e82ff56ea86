"""talk.py: two replicas measure how fast they talk to each other over their network.

Rank 0 prints one line: bytes a second of one TCP stream, and, with torch, the seconds of an
all-reduce of 4 MiB by gloo.
"""

import os
import socket
import time

try:
    import torch
    import torch.distributed as dist
except ImportError:
    torch = None

RANK = int(os.environ["RANK"])
ADDRESS = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1)
SECONDS = 1.5
CHUNK = 1 << 20


def stream():
    """Returns bytes a second from rank 1 to rank 0, as rank 0 counts them."""
    if RANK == 0:
        with socket.create_server(ADDRESS) as server:
            connection = server.accept()[0]
        with connection:
            count, begun = 0, time.monotonic()
            while got := len(connection.recv(CHUNK)):
                count += got
            return count / (time.monotonic() - begun)
    while True:
        try:
            connection = socket.create_connection(ADDRESS)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    with connection:
        data, begun = b"x" * CHUNK, time.monotonic()
        while time.monotonic() - begun < SECONDS:
            connection.sendall(data)
    return 0


def leave():
    """Ends this rank once none is in a collective: gloo aborts a rank whose peer has gone."""
    store = dist.distributed_c10d._get_default_store()
    for key, count in ("through", dist.get_world_size()), ("gone", dist.get_world_size() - 1):
        if key == "gone" and dist.get_rank() != 0:
            store.add(key, 1)
            return
        store.add(key, int(key == "through"))
        while store.add(key, 0) < count:
            time.sleep(0.01)


def all_reduce():
    """Returns the median seconds of an all-reduce of 4 MiB; 0 without torch."""
    if not torch:
        return 0
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    values, took = torch.ones(1 << 20), []
    for _ in range(20):
        begun = time.monotonic()
        dist.all_reduce(values)
        took.append(time.monotonic() - begun)
    leave()
    return sorted(took)[len(took) // 2]


rate = stream()
seconds = all_reduce()
if RANK == 0:
    print(f"rate {rate} reduce {seconds}", flush=True)
os._exit(0)  # torch's threads cannot be ended in order
