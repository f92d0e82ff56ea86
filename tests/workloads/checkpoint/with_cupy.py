"""with_cupy.py STEPS SECONDS: CuPy's own kernels, user kernels, sorting and reducing with its
compiled thrust and cub, streams, events, a captured graph, pinned memory, random numbers.
Checked against numpy. Ends with status 7."""

import sys
import time

import cupy
import numpy as np
from hold import hold

STEPS, REST = int(sys.argv[1]), float(sys.argv[2])
COUNT = 4000

raw = cupy.RawKernel(r"""
extern "C" __global__ void mix(unsigned *numbers, unsigned count, unsigned key)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        numbers[i] = (numbers[i] * 1664525u + key) ^ (numbers[i] >> 7);
}""", "mix")
blend = cupy.ElementwiseKernel("float32 x, float32 y, float32 t", "float32 z", "z = t * x + (1 - t) * y", "blend")
squares = cupy.ReductionKernel("int64 x", "int64 y", "x * x", "a + b", "y = a", "0", "squares")
advance = cupy.ElementwiseKernel("", "uint32 x", "x = x * 69069u + 1u", "advance")


@cupy.fuse()
def bend(x):
    return cupy.sqrt(x * x + 1) - 1


def capture(stream, numbers):
    """A graph of two steps of a generator."""
    advance(numbers)  # compiled before the capture
    with stream:
        stream.begin_capture()
        advance(numbers)
        advance(numbers)
        return stream.end_capture()


def main():
    side, done = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event(disable_timing=True)
    expected = np.arange(COUNT, dtype=np.uint32)
    numbers, seeds = cupy.asarray(expected), cupy.arange(256, dtype=cupy.uint32)
    cupy.cuda.get_current_stream().synchronize()
    graph, seed = capture(side, seeds), np.arange(256, dtype=np.uint32) * np.uint32(69069) + np.uint32(1)
    pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(4 * COUNT), np.uint32, COUNT)
    random = cupy.random.default_rng(11)
    curve = cupy.linspace(-1, 1, 500, dtype=cupy.float32)
    with open("curves", "wb") as file:
        for step in range(STEPS):
            raw(((COUNT + 255) // 256,), (256,), (numbers, np.uint32(COUNT), np.uint32(step)))
            done.record()
            side.wait_event(done)
            graph.launch(side)
            cupy.cuda.runtime.memcpyAsync(pinned.ctypes.data, numbers.data.ptr, pinned.nbytes, 2, side.ptr)
            expected = (expected * np.uint32(1664525) + np.uint32(step)) ^ (expected >> np.uint32(7))
            for _ in range(2):
                seed = seed * np.uint32(69069) + np.uint32(1)
            ordered = cupy.sort(numbers)
            place = int(cupy.argsort(numbers)[step])
            small = numbers.astype(cupy.int64) % 1000
            sums = int(squares(small)), int(small.sum()), int(small.max()), int(cupy.cumsum(small)[-1])
            side.synchronize()
            assert (pinned == expected).all()
            assert (seeds.get() == seed).all()
            assert (ordered.get() == np.sort(expected)).all()
            assert place == np.argsort(expected, kind="stable")[step]
            host = expected.astype(np.int64) % 1000
            assert sums == ((host * host).sum(), host.sum(), host.max(), host.sum()), sums
            curve = blend(bend(curve), random.random(500, dtype=cupy.float32), np.float32(0.75))
            file.write(curve.get().tobytes())
            file.flush()
            print("step", step, f"{np.bitwise_xor.reduce(expected):08x}", place, *sums, float(curve.sum()).hex(), flush=True)
            time.sleep(REST)
    hold()
    print("ok cupy", flush=True)


main()
sys.exit(7)
