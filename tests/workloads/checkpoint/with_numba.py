"""with_numba.py STEPS SECONDS: kernels by numba's compiler, some of them compiled only halfway,
with streams, events, shared, pinned, mapped and managed memory. Every step is checked against numpy.
Ends with status 7."""

import sys
import time
import warnings

import numpy as np
from hold import hold
from numba import cuda, float32, uint32

warnings.simplefilter("ignore")  # about small arrays
STEPS, REST = int(sys.argv[1]), float(sys.argv[2])
COUNT, BINS, SIDE = 5000, 64, 32
GRID = (COUNT + 127) // 128


@cuda.jit
def mix(numbers, key):
    i = cuda.grid(1)
    if i < numbers.size:
        numbers[i] = (numbers[i] * uint32(1664525) + uint32(key)) ^ (numbers[i] >> uint32(7))


@cuda.jit
def histogram(numbers, bins):
    mine = cuda.shared.array(BINS, uint32)
    thread, i = cuda.threadIdx.x, cuda.grid(1)
    if thread < BINS:
        mine[thread] = 0
    cuda.syncthreads()
    if i < numbers.size:
        cuda.atomic.add(mine, numbers[i] % BINS, 1)
    cuda.syncthreads()
    if thread < BINS:
        cuda.atomic.add(bins, thread, mine[thread])


@cuda.jit
def multiply(a, b, c):
    left, right = cuda.shared.array((16, 16), float32), cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(SIDE // 16):
        left[i, j], right[i, j] = a[x, j + 16 * k], b[i + 16 * k, y]
        cuda.syncthreads()
        for m in range(16):
            total += left[i, m] * right[m, j]
        cuda.syncthreads()
    c[x, y] = total


def reducers():
    """The sum is only compiled when it is first called, halfway."""
    return cuda.reduce(lambda x, y: x + y)


def mixed(numbers, key):
    return (numbers * np.uint32(1664525) + np.uint32(key)) ^ (numbers >> np.uint32(7))


def main():
    total = reducers()
    work, side = cuda.stream(), cuda.stream()
    expected = np.arange(COUNT, dtype=np.uint32)
    numbers = cuda.to_device(expected, stream=work)
    pinned = cuda.pinned_array(COUNT, np.uint32)
    managed = cuda.managed_array((SIDE, SIDE), np.float32)
    own = np.arange(COUNT, dtype=np.uint32)  # ordinary memory, which kernels reach
    mapping = cuda.mapped(own)
    mapped = mapping.__enter__()
    ready = cuda.event()
    factor = cuda.to_device(np.random.default_rng(5).integers(0, 4, (SIDE, SIDE)).astype(np.float32))
    managed[:] = np.eye(SIDE)
    product = cuda.device_array((SIDE, SIDE), np.float32)
    for step in range(STEPS):
        bins = cuda.to_device(np.zeros(BINS, np.uint32), stream=work)
        mix[GRID, 128, work](numbers, step)
        ready.record(work)
        histogram[GRID, 128, work](numbers, bins)
        ready.wait(side)
        numbers.copy_to_host(pinned, stream=side)
        mix[GRID, 128, side](mapped, step)
        multiply[(2, 2), (16, 16), side](managed, factor, product)
        expected = mixed(expected, step)
        work.synchronize()
        side.synchronize()
        assert (pinned == expected).all() and (own == expected).all()
        assert (bins.copy_to_host() == np.bincount(expected % BINS, minlength=BINS)).all()
        # Small whole numbers: their sum is exact in any order.
        assert (product.copy_to_host() == managed @ factor.copy_to_host()).all()
        managed[:] = product.copy_to_host() % 5
        line = f"{np.bitwise_xor.reduce(expected):08x} {int(managed.sum())}"
        if step > STEPS // 2:
            line += f" {total(numbers.copy_to_host().astype(np.int64))}"
            assert line.endswith(f" {expected.astype(np.int64).sum()}")
        print("step", step, line, flush=True)
        time.sleep(REST)
    hold()
    mapping.__exit__(None, None, None)
    with open("numbers", "wb") as file:
        file.write(numbers.copy_to_host().tobytes())
    print("ok numba", flush=True)


main()
sys.exit(7)
