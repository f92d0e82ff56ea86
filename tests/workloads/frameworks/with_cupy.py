"""Typical calls of CuPy's users, compared with numpy. Kernels come from CuPy's compiler, or are
compiled from thrust and cub in its package. Calls that need another NVIDIA library (cuBLAS,
cuFFT, cuRAND) are not here."""

import cupy
import numpy as np

random = np.random.default_rng(1)
host = random.standard_normal((300, 70)).astype(np.float32)
device = cupy.asarray(host)
CLOSE = dict(rtol=1e-4, atol=1e-4)


def same(got, expected, **limits):
    np.testing.assert_allclose(cupy.asnumpy(got), expected, **limits)


def test_arithmetic():
    same(device * 2 + 1, host * 2 + 1)
    same(cupy.exp(device) + cupy.sqrt(abs(device)), np.exp(host) + np.sqrt(abs(host)), **CLOSE)
    same(cupy.where(device > 0, device, -device), abs(host))
    same(device.T.copy()[::3, 5:9], host.T[::3, 5:9])
    same(device[cupy.asarray([1, 5, 7])], host[[1, 5, 7]])
    counts = cupy.zeros(5, cupy.float32)
    cupy.add.at(counts, cupy.asarray([1, 1, 2]), 1)
    same(counts, [0, 2, 1, 0, 0])


def test_reductions():
    """By cub where possible, otherwise by CuPy's own kernels."""
    same(device.sum(), host.sum(), **CLOSE)
    same(device.sum(axis=0), host.sum(axis=0), **CLOSE)
    same(device.max(axis=1), host.max(axis=1))
    same(device.argmax(), host.argmax())
    same(device.cumsum(), host.cumsum(), rtol=1e-3, atol=1e-2)
    same(device.std(axis=1), host.std(axis=1), **CLOSE)
    same(cupy.nonzero(device > 0)[0], np.nonzero(host > 0)[0])
    same(cupy.histogram(device, bins=20)[0], np.histogram(host, bins=20)[0])


def test_order():
    """By thrust."""
    same(cupy.sort(device.ravel()), np.sort(host.ravel()))
    same(cupy.sort(device, axis=0), np.sort(host, axis=0))
    same(cupy.argsort(device.ravel()), np.argsort(host.ravel(), kind="stable"))
    same(cupy.unique((device * 10).astype(cupy.int32)), np.unique((host * 10).astype(np.int32)))
    same(cupy.searchsorted(cupy.arange(100), cupy.asarray([3, 50])), [3, 50])


def test_kernels():
    """User kernels."""
    double = cupy.RawKernel(r"""
        extern "C" __global__ void twice(float *a, int n)
        {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n)
                a[i] *= 2;
        }""", "twice")
    copy = device.copy()
    double(((copy.size + 255) // 256,), (256,), (copy, np.int32(copy.size)))
    same(copy, host * 2)
    weigh = cupy.ElementwiseKernel("float32 a, float32 b", "float32 c", "c = a * b + 1", "weigh")
    same(weigh(device, device), host * host + 1, **CLOSE)
    squares = cupy.ReductionKernel("T a", "float64 b", "(double)a * a", "a + b", "b = a", "0", "squares")
    same(squares(device), (host.astype(np.float64) ** 2).sum(), rtol=1e-9)

    @cupy.fuse()
    def length(a, b):
        return cupy.sqrt(a * a + b * b)

    same(length(device, device), np.sqrt(2 * host * host), **CLOSE)
    module = cupy.RawModule(code=r"""
        template<typename T> __global__ void fill(T *a, T value) { a[threadIdx.x] = value; }""", name_expressions=["fill<double>"])
    filled = cupy.empty(32)
    module.get_function("fill<double>")((1,), (32,), (filled, 2.5))
    same(filled, np.full(32, 2.5))


def test_streams():
    stream, event = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event()
    step = cupy.ElementwiseKernel("", "float32 a", "a = a + 1", "step")
    copy = device.copy()
    step(copy)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        stream.begin_capture()
        step(copy)
        step(copy)
        graph = stream.end_capture()
    graph.launch(stream)
    graph.launch(stream)
    event.record(stream)
    event.synchronize()
    same(copy, host + 5, rtol=1e-5, atol=1e-5)


def test_memory():
    for allocate in (cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc, cupy.cuda.MemoryAsyncPool().malloc):
        with cupy.cuda.using_allocator(allocate):
            same(cupy.arange(1000) * 2, np.arange(1000) * 2)
    pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(4 * 1000), np.float32, 1000)
    pinned[:] = 3
    same(cupy.asarray(pinned), pinned)


def test_random():
    numbers = cupy.random.default_rng(3).random(1 << 14)
    assert 0 <= numbers.min() and numbers.max() < 1 and abs(float(numbers.mean()) - 0.5) < 0.02


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name[5:], flush=True)
