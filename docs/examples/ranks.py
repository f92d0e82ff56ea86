"""Trains the line of train.py by two ranks, each on a GPU of its own. After each step they exchange
their lines through a socket, and both go on with the mean.

usage: ranks.py [STEPS]

Each rank writes what it has found after every tenth step to rank0.log or rank1.log, in hexadecimal,
which shows all bits.
"""

import array
import ctypes
import os
import socket
import subprocess
import sys
import time

import train


def mean(line, peer):
    """The mean of this rank's line and the other rank's, written back to this rank's GPU."""
    mine = (ctypes.c_float * 2)()
    train.call("cuMemcpyDtoH_v2", mine, line.line, ctypes.c_size_t(8))
    peer.sendall(bytes(mine))
    other = array.array("f", peer.recv(8, socket.MSG_WAITALL))
    both = (ctypes.c_float * 2)(*((a + b) / 2 for a, b in zip(mine, other)))
    train.call("cuMemcpyHtoD_v2", line.line, both, ctypes.c_size_t(8))
    return both


def rank(number, steps, peer):
    line = train.Line(number)
    start = (ctypes.c_float * 2)(float(number), -float(number))
    train.call("cuMemcpyHtoD_v2", line.line, start, ctypes.c_size_t(8))
    with open("rank%d.log" % number, "w", buffering=1) as log:
        for step in range(1, steps + 1):
            line.step()
            a, b = mean(line, peer)
            if step % 10 == 0:
                print("step %5d  y = %s x + %s" % (step, a.hex(), b.hex()), file=log)
            time.sleep(0.01)


def main(steps="600"):
    ends = socket.socketpair()
    ranks = [
        subprocess.Popen([sys.executable, __file__, "rank", str(number), steps, str(end.fileno())], pass_fds=[end.fileno()])
        for number, end in enumerate(ends)
    ]
    for end in ends:
        end.close()
    sys.exit(max(each.wait() for each in ranks))


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank(int(sys.argv[2]), int(sys.argv[3]), socket.socket(fileno=int(sys.argv[4])))
    else:
        main(*sys.argv[1:])
