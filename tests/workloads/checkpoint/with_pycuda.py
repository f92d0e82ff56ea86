"""with_pycuda.py STEPS SECONDS: CUDA C compiled by pycuda, its arrays and reductions, two streams,
events, page-locked memory, a memory pool, and a thread with its own context. Checked against
numpy. Ends with status 7."""

import sys
import threading
import time

import numpy as np
import pycuda.autoinit
import pycuda.driver as cuda
import pycuda.gpuarray as gpuarray
import pycuda.tools
from hold import hold
from pycuda.compiler import SourceModule
from pycuda.reduction import ReductionKernel

STEPS, REST = int(sys.argv[1]), float(sys.argv[2])
COUNT, BLOCK = 4000, (128, 1, 1)
GRID = ((COUNT + 127) // 128, 1)
SOURCE = """
__constant__ unsigned factor;
__device__ unsigned rounds;
__global__ void mix(unsigned *numbers, unsigned count, unsigned key)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        numbers[i] = (numbers[i] * factor + key) ^ (numbers[i] >> 7);
    if (i == 0)
        rounds++;
}
__global__ void weigh(unsigned long long *sum, const unsigned *numbers, unsigned count)
{
    extern __shared__ unsigned long long part[];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < count ? numbers[i] * (unsigned long long)i : 0;
    for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
        __syncthreads();
        if (threadIdx.x < s)
            part[threadIdx.x] += part[threadIdx.x + s];
    }
    if (threadIdx.x == 0)
        atomicAdd(sum, part[0]);
}"""


def mixed(numbers, key):
    return (numbers * np.uint32(1664525) + np.uint32(key)) ^ (numbers >> np.uint32(7))


class Beside(threading.Thread):
    """A thread with its own context, which runs a step on request."""

    def __init__(self):
        super().__init__(daemon=True)
        self.asked, self.told = threading.Semaphore(0), threading.Semaphore(0)
        self.answer = 0

    def run(self):
        context = pycuda.autoinit.device.make_context()
        mix = prepared(SourceModule(SOURCE)).get_function("mix")
        expected = np.arange(COUNT, dtype=np.uint32)[::-1].copy()
        numbers = cuda.to_device(expected)
        for step in range(STEPS):
            self.asked.acquire()
            mix(numbers, np.uint32(COUNT), np.uint32(step), block=BLOCK, grid=GRID)
            expected = mixed(expected, step)
            assert (cuda.from_device_like(numbers, expected) == expected).all()
            self.answer = int(np.bitwise_xor.reduce(expected))
            self.told.release()
        context.pop()


def prepared(module):
    cuda.memcpy_htod(module.get_global("factor")[0], np.uint32(1664525))
    return module


def main():
    module = prepared(SourceModule(SOURCE))
    mix, weigh = module.get_function("mix"), module.get_function("weigh")
    squares = ReductionKernel(np.uint64, neutral="0", reduce_expr="a+b", map_expr="(unsigned long) x[i] * x[i]", arguments="const unsigned *x")
    beside = Beside()
    beside.start()
    work, side, ready = cuda.Stream(), cuda.Stream(), cuda.Event(cuda.event_flags.DISABLE_TIMING)
    pool = pycuda.tools.DeviceMemoryPool()
    expected, places = np.arange(COUNT, dtype=np.uint32), np.arange(COUNT, dtype=np.uint64)
    numbers, sum_ = cuda.to_device(expected), cuda.mem_alloc(8)
    pinned, total = cuda.pagelocked_empty(COUNT, np.uint32), cuda.pagelocked_zeros(1, np.uint64)
    small = gpuarray.arange(0, 1000, dtype=np.uint32)
    for step in range(STEPS):
        beside.asked.release()
        mix(numbers, np.uint32(COUNT), np.uint32(step), block=BLOCK, grid=GRID, stream=work)
        ready.record(work)
        side.wait_for_event(ready)
        cuda.memcpy_dtoh_async(pinned, numbers, side)
        cuda.memset_d32_async(int(sum_), 0, 2, work)
        weigh(sum_, numbers, np.uint32(COUNT), block=BLOCK, grid=GRID, shared=8 * BLOCK[0], stream=work)
        cuda.memcpy_dtoh_async(total, sum_, work)
        expected = mixed(expected, step)
        piece = pool.allocate(1 << 16 + step % 4)
        side.synchronize()
        work.synchronize()
        assert (pinned == expected).all()
        assert total[0] == (expected * places).sum()
        rounds = np.zeros(1, np.uint32)
        cuda.memcpy_dtoh(rounds, module.get_global("rounds")[0])
        assert rounds[0] == step + 1
        small = small * np.uint32(3) + np.uint32(step)
        host = small.get().astype(np.uint64)
        square = squares(small).get()
        assert square == (host * host).sum()
        beside.told.acquire()
        print("step", step, f"{np.bitwise_xor.reduce(expected):08x}", total[0], square, f"{beside.answer:08x}", flush=True)
        del piece
        time.sleep(REST)
    hold()
    beside.join()
    pool.stop_holding()
    print("ok pycuda", flush=True)


main()
sys.exit(7)
