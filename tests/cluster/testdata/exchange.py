"""exchange.py FILE [SOCKET]: two processes pass a number to each other, one higher each time.

They do so over a unix socket of that path, or else over TCP. Each checks what it gets, and prints one line for each number of its own, so that a lost or repeated
one is visible. They end once FILE exists.
"""

import os
import socket
import struct
import sys
import time

RANK = int(os.environ["RANK"])
ALONE = os.environ["WORLD_SIZE"] == os.environ["LOCAL_WORLD_SIZE"]
HOST = "127.0.0.1" if ALONE else os.environ["MASTER_ADDR"]
ADDRESS = sys.argv[2] if len(sys.argv) > 2 else (HOST, int(os.environ["MASTER_PORT"]))
NUMBER = struct.Struct("!q")


def connect():
    """Returns the connection to the other process."""
    family = socket.AF_UNIX if isinstance(ADDRESS, str) else socket.AF_INET
    if RANK == 0:
        with socket.socket(family, socket.SOCK_STREAM) as server:
            server.bind(ADDRESS)
            server.listen()
            return server.accept()[0]
    while True:
        try:
            connection = socket.socket(family, socket.SOCK_STREAM)
            connection.connect(ADDRESS)
            return connection
        except (ConnectionRefusedError, FileNotFoundError):
            connection.close()
            time.sleep(0.01)


def exchange(other):
    """Passes numbers until the other process ends, or FILE exists."""
    step = 0
    if RANK == 0:
        other.sendall(NUMBER.pack(0))
    while True:
        got = other.recv(NUMBER.size, socket.MSG_WAITALL)
        if not got:
            return
        (number,) = NUMBER.unpack(got)
        want = 2 * step + 1 - RANK
        if number != want:
            sys.exit(f"step {step}: got {number}, want {want}")
        sys.stdout.write(f"step {step} {number}\n")  # a line in one piece, without a buffer
        if os.path.exists(sys.argv[1]):
            return
        step += 1
        time.sleep(0.002)
        other.sendall(NUMBER.pack(number + 1))


with connect() as connection:
    exchange(connection)
