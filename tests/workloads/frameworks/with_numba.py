"""Typical calls of numba's users, compared with numpy: kernels, shared and local memory, atomics,
reductions, universal functions, random numbers, streams, events, pinned, mapped and managed memory."""

import math
import warnings

import numpy as np
from numba import cuda, float32, int32, uint32, vectorize
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

warnings.simplefilter("ignore")  # about small arrays


@cuda.jit(device=True)
def bend(x):
    return math.exp(-x * x) * math.sin(x)


@cuda.jit
def bend_all(out, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = bend(x[i])


@cuda.jit
def count(numbers, bins):
    mine = cuda.shared.array(64, uint32)
    thread, i = cuda.threadIdx.x, cuda.grid(1)
    if thread < 64:
        mine[thread] = 0
    cuda.syncthreads()
    if i < numbers.size:
        cuda.atomic.add(mine, numbers[i] % 64, 1)
    cuda.syncthreads()
    if thread < 64:
        cuda.atomic.add(bins, thread, mine[thread])


@cuda.jit
def turn(out, matrix):
    tile = cuda.shared.array((16, 17), float32)
    x, y = cuda.grid(2)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    tile[i, j] = matrix[x, y]
    cuda.syncthreads()
    out[y - j + i, x - i + j] = tile[j, i]


@cuda.jit
def digits(out):
    own = cuda.local.array(10, int32)
    i = cuda.grid(1)
    n, length = i, 0
    while n > 0:
        own[length] = n % 10
        n //= 10
        length += 1
    total = 0
    for k in range(length):
        total += own[k]
    out[i] = total


@cuda.jit
def draw(states, out):
    i = cuda.grid(1)
    out[i] = xoroshiro128p_uniform_float32(states, i)


def test_kernels():
    x = np.linspace(-3, 3, 5000)
    out = np.zeros_like(x)
    bend_all[8, 128](out, x)
    np.testing.assert_allclose(out, np.exp(-x * x) * np.sin(x), rtol=1e-12, atol=1e-15)
    sums = cuda.device_array(1024, np.int32)
    digits[8, 128](sums)
    assert (sums.copy_to_host() == [sum(map(int, str(i))) for i in range(1024)]).all()


def test_shared():
    numbers = np.random.default_rng(1).integers(0, 1 << 20, 10000).astype(np.uint32)
    bins = cuda.to_device(np.zeros(64, np.uint32))
    count[40, 256](cuda.to_device(numbers), bins)
    assert (bins.copy_to_host() == np.bincount(numbers % 64, minlength=64)).all()
    matrix = np.random.default_rng(2).random((64, 48)).astype(np.float32)
    out = np.zeros((48, 64), np.float32)
    turn[(4, 3), (16, 16)](out, matrix)
    assert (out == matrix.T).all()


def test_reduce():
    total = cuda.reduce(lambda a, b: a + b)
    largest = cuda.reduce(lambda a, b: max(a, b))
    numbers = np.arange(10001)
    assert total(numbers) == numbers.sum() and largest(numbers[::-1].copy()) == 10000


def test_functions():
    @vectorize(["float32(float32, float32)", "float64(float64, float64)"], target="cuda")
    def blend(x, y):
        return x * y + 1

    for kind in np.float32, np.float64:
        x = np.linspace(0, 1, 777).astype(kind)
        np.testing.assert_allclose(blend(x, x), x * x + 1, rtol=1e-6)


def test_random():
    states, out = create_xoroshiro128p_states(1024, seed=1), cuda.device_array(1024, np.float32)
    draw[8, 128](states, out)
    got = out.copy_to_host()
    assert 0 <= got.min() and got.max() < 1 and abs(got.mean() - 0.5) < 0.05


def test_streams():
    one, two, done = cuda.stream(), cuda.stream(), cuda.event()
    x = cuda.pinned_array(4000, np.float64)
    x[:] = np.linspace(0, 2, x.size)
    out = cuda.pinned_array_like(x)
    device = cuda.to_device(x, stream=one)
    bent = cuda.device_array_like(device, stream=one)
    bend_all[8, 128, one](bent, device)
    done.record(one)
    done.wait(two)
    bent.copy_to_host(out, stream=two)
    two.synchronize()
    np.testing.assert_allclose(out, np.exp(-x * x) * np.sin(x), rtol=1e-12, atol=1e-15)
    managed = cuda.managed_array(1000, np.float64)
    managed[:] = 1
    bend_all[8, 128](managed, managed)
    cuda.synchronize()
    np.testing.assert_allclose(managed, math.exp(-1) * math.sin(1), rtol=1e-12)


def test_mapped():
    mapped = cuda.mapped_array(1000, np.float64)
    mapped[:] = 1
    bend_all[8, 128](mapped, mapped)
    cuda.synchronize()
    np.testing.assert_allclose(mapped, math.exp(-1) * math.sin(1), rtol=1e-12)
    # Ordinary arrays: in the heap, and mapped by malloc.
    for size in 700, 300_000:
        x, out = np.linspace(0, 2, size), np.zeros(size)
        before = x.copy()
        with cuda.mapped(x, out) as (at, to):
            bend_all[8, 128](to, at)
            cuda.synchronize()
            np.testing.assert_allclose(out, np.exp(-x * x) * np.sin(x), rtol=1e-12, atol=1e-15)
            x[:] = 1
            bend_all[8, 128](to, at)
            cuda.synchronize()
        np.testing.assert_allclose(out, math.exp(-1) * math.sin(1), rtol=1e-12)
        x[:] = before
        with cuda.pinned(x):
            device = cuda.to_device(x, stream=cuda.stream())
            cuda.synchronize()
            assert (device.copy_to_host() == before).all()


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name[5:], flush=True)
