"""Typical use of pycuda: kernels, arrays, streams, events and page-locked memory, compared with
numpy.

pycuda lets nvcc produce machine code, and the software GPU needs PTX. NVCC_APPEND_FLAGS="--ptx -o
kernel.cubin" produces PTX instead, and PYCUDA_DISABLE_CACHE=1 avoids nvcc's preprocessing, which
does not work with these flags.
"""

import sys

import numpy as np
import pycuda.autoinit  # noqa: F401 -- makes the context
import pycuda.driver as cuda

SAXPY = rb"""
.version 7.0
.target sm_60
.address_size 64
.global .align 4 .f32 bias = 0f3F000000;
.visible .entry saxpy(.param .u64 y, .param .u64 x, .param .f32 a, .param .u32 n)
{
	.reg .pred %p;
	.reg .u32 %i, %b, %w, %n;
	.reg .u64 %y, %x, %o;
	.reg .f32 %a, %u, %v, %c;
	ld.param.u64 %y, [y];
	ld.param.u64 %x, [x];
	ld.param.f32 %a, [a];
	ld.param.u32 %n, [n];
	mov.u32 %b, %ctaid.x;
	mov.u32 %w, %ntid.x;
	mov.u32 %i, %tid.x;
	mad.lo.u32 %i, %b, %w, %i;
	setp.ge.u32 %p, %i, %n;
	@%p bra done;
	mul.wide.u32 %o, %i, 4;
	add.u64 %y, %y, %o;
	add.u64 %x, %x, %o;
	ld.global.f32 %u, [%x];
	ld.global.f32 %v, [%y];
	ld.global.f32 %c, [bias];
	fma.rn.f32 %v, %a, %u, %v;
	add.f32 %v, %v, %c;
	st.global.f32 [%y], %v;
done:
	ret;
}
"""

COUNT = 10007
random = np.random.default_rng(1)


def vector(count=COUNT):
    """Numbers that single precision represents exactly."""
    return random.standard_normal(count).astype(np.float32)


def grid(count, block):
    return ((count + block - 1) // block, 1)


def test_attributes():
    device = pycuda.autoinit.device
    assert cuda.get_driver_version() >= 11000
    assert device.compute_capability() >= (5, 0)
    assert device.total_memory() >= 1 << 28
    assert len(device.get_attributes()) > 50
    free, total = cuda.mem_get_info()
    assert 0 < free <= total
    assert device.name()
    assert len(device.pci_bus_id().split(":")) == 3


def test_ptx():
    """A module from PTX text, its function's attributes, a global of it, launches in each form."""
    module = cuda.module_from_buffer(SAXPY)
    saxpy = module.get_function("saxpy")
    assert saxpy.num_regs > 0 and saxpy.max_threads_per_block >= 256
    x, y = vector(), vector()
    expected = np.float32(2) * x + y + np.float32(0.5)
    out = y.copy()
    saxpy(cuda.InOut(out), cuda.In(x), np.float32(2), np.uint32(COUNT), block=(256, 1, 1), grid=grid(COUNT, 256))
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)

    bias, size = module.get_global("bias")
    assert size == 4
    cuda.memcpy_htod(bias, np.float32(-1))
    device_x, device_y = cuda.to_device(x), cuda.to_device(y)
    saxpy.prepare("PPfI")
    saxpy.prepared_call(grid(COUNT, 128), (128, 1, 1), device_y, device_x, 3.0, COUNT)
    np.testing.assert_allclose(cuda.from_device_like(device_y, y), 3 * x + y - 1, rtol=1e-5, atol=1e-5)
    seconds = saxpy.prepared_timed_call(grid(COUNT, 128), (128, 1, 1), device_y, device_x, 1.0, COUNT)()
    assert seconds > 0
    try:
        module.get_function("none")
    except cuda.LogicError as error:
        assert "not found" in str(error), error
    else:
        raise AssertionError("a function that is not there was found")


def test_bad_ptx():
    try:
        cuda.module_from_buffer(SAXPY.replace(b"fma.rn.f32", b"frobnicate"))
    except cuda.Error as error:
        assert "frobnicate" in str(error), error
    else:
        raise AssertionError("what is not PTX was loaded")


def test_streams():
    """Pieces of an array on two streams, from page-locked memory, with an event after each, and one
    stream that waits for the other."""
    saxpy = cuda.module_from_buffer(SAXPY).get_function("saxpy")
    pieces, count = 8, 4096
    x, y, out = (cuda.pagelocked_empty((pieces, count), np.float32) for _ in range(3))
    x[:], y[:] = vector(pieces * count).reshape(x.shape), vector(pieces * count).reshape(x.shape)
    streams = [cuda.Stream(), cuda.Stream()]
    device = [(cuda.mem_alloc(x[0].nbytes), cuda.mem_alloc(x[0].nbytes)) for _ in range(pieces)]
    begin, events = cuda.Event(), [cuda.Event() for _ in range(pieces)]
    begin.record(streams[0])
    streams[1].wait_for_event(begin)
    for i, (device_x, device_y) in enumerate(device):
        stream = streams[i % 2]
        cuda.memcpy_htod_async(device_x, x[i], stream)
        cuda.memcpy_htod_async(device_y, y[i], stream)
        saxpy(device_y, device_x, np.float32(i), np.uint32(count), block=(64, 1, 1), grid=grid(count, 64), stream=stream)
        events[i].record(stream)
        other = streams[(i + 1) % 2]
        other.wait_for_event(events[i])
        cuda.memcpy_dtoh_async(out[i], device_y, other)
    for stream in streams:
        stream.synchronize()
        assert stream.is_done()
    assert all(event.query() for event in events)
    assert all(event.time_since(begin) >= 0 for event in events)
    factors = np.arange(pieces, dtype=np.float32)[:, None]
    np.testing.assert_allclose(out, factors * x + y + np.float32(0.5), rtol=1e-5, atol=1e-5)


def test_memory():
    """Fills, copies on the device, pitched copies, managed and registered memory, a pool."""
    a = cuda.mem_alloc(4 * COUNT)
    cuda.memset_d32(int(a), 0x3F800000, COUNT)
    b = cuda.mem_alloc(4 * COUNT)
    cuda.memcpy_dtod(b, a, 4 * COUNT)
    got = np.zeros(COUNT, np.float32)
    cuda.memcpy_dtoh(got, b)
    assert (got == 1).all()

    matrix = vector(300 * 77).reshape(300, 77)
    pitched, pitch = cuda.mem_alloc_pitch(77 * 4, 300, 4)
    copy = cuda.Memcpy2D()
    copy.set_src_host(matrix)
    copy.set_dst_device(pitched)
    copy.src_pitch, copy.dst_pitch, copy.width_in_bytes, copy.height = 77 * 4, pitch, 77 * 4, 300
    copy(aligned=False)
    back = np.zeros((77, 300), np.float32).reshape(300, 77)
    copy = cuda.Memcpy2D()
    copy.set_src_device(pitched)
    copy.set_dst_host(back)
    copy.src_pitch, copy.dst_pitch, copy.width_in_bytes, copy.height = pitch, 77 * 4, 77 * 4, 300
    copy(aligned=False)
    assert (back == matrix).all()

    saxpy = cuda.module_from_buffer(SAXPY).get_function("saxpy")
    managed = cuda.managed_zeros(COUNT, np.float32, mem_flags=cuda.mem_attach_flags.GLOBAL)
    managed[:] = 2
    mapped = cuda.pagelocked_zeros(COUNT, np.float32, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
    mapped[:] = np.arange(COUNT)
    saxpy(np.intp(managed.base.get_device_pointer()), np.intp(mapped.base.get_device_pointer()), np.float32(0.25),
          np.uint32(COUNT), block=(32, 1, 1), grid=grid(COUNT, 32))
    cuda.Context.synchronize()
    np.testing.assert_allclose(managed, 2.5 + 0.25 * np.arange(COUNT), rtol=1e-6)

    import pycuda.tools
    pool = pycuda.tools.DeviceMemoryPool()
    for _ in range(20):
        piece = pool.allocate(1 << 16)
        cuda.memset_d8(int(piece), 7, 1 << 16)
        del piece
    assert pool.held_blocks == 1
    pool.stop_holding()


def test_contexts():
    """A thread with its own context, and two contexts on one stack."""
    import threading
    x, failures = vector(), []

    def work(factor):
        context = pycuda.autoinit.device.make_context()
        try:
            saxpy = cuda.module_from_buffer(SAXPY).get_function("saxpy")
            for _ in range(20):
                y = np.zeros(COUNT, np.float32)
                saxpy(cuda.InOut(y), cuda.In(x), np.float32(factor), np.uint32(COUNT), block=(256, 1, 1), grid=grid(COUNT, 256))
                np.testing.assert_allclose(y, factor * x + np.float32(0.5), rtol=1e-5, atol=1e-5)
        except BaseException as error:  # reported by the thread that started this one
            failures.append(error)
        finally:
            context.pop()
            context.detach()

    threads = [threading.Thread(target=work, args=(factor,)) for factor in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures

    first = cuda.Context.get_current()
    device_x = cuda.to_device(x)
    second = pycuda.autoinit.device.make_context()
    assert cuda.Context.get_current().handle == second.handle != first.handle
    second.pop()
    assert (cuda.from_device_like(device_x, x) == x).all()
    second.detach()


def test_source():
    """CUDA C compiled by pycuda: shared memory, constants, printf-free reduction."""
    from pycuda.compiler import SourceModule
    module = SourceModule("""
        __constant__ float weight[4];
        __global__ void weigh(float *out, const float *in, int n)
        {
            extern __shared__ float part[];
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            part[threadIdx.x] = i < n ? in[i] * weight[i % 4] : 0;
            for (int s = blockDim.x / 2; s > 0; s /= 2) {
                __syncthreads();
                if (threadIdx.x < s)
                    part[threadIdx.x] += part[threadIdx.x + s];
            }
            if (threadIdx.x == 0)
                atomicAdd(out, part[0]);
        }""")
    x, weights = vector(), np.array([1, -2, 0.5, 3], np.float32)
    cuda.memcpy_htod(module.get_global("weight")[0], weights)
    out = np.zeros(1, np.float32)
    module.get_function("weigh")(cuda.InOut(out), cuda.In(x), np.int32(COUNT), block=(256, 1, 1), grid=grid(COUNT, 256), shared=1024)
    np.testing.assert_allclose(out[0], np.sum(x.astype(np.float64) * np.resize(weights, COUNT)), rtol=1e-3, atol=1e-2)


def test_arrays():
    """gpuarray: arithmetic, mathematics, reductions, scans, elementwise kernels, slices, types."""
    import pycuda.cumath as cumath
    import pycuda.gpuarray as gpuarray
    from pycuda.elementwise import ElementwiseKernel
    from pycuda.reduction import ReductionKernel
    from pycuda.scan import InclusiveScanKernel
    x, y = vector(), np.abs(vector()) + 1
    a, b = gpuarray.to_gpu(x), gpuarray.to_gpu(y)

    def same(got, expected, rtol=1e-5):
        np.testing.assert_allclose(got.get(), expected, rtol=rtol, atol=1e-5)

    same(a + b, x + y)
    same(a * b - 2 * a / b, x * y - 2 * x / y)
    same((a ** 2).astype(np.float64), x.astype(np.float64) ** 2)
    same(abs(a)[::3], np.abs(x)[::3])
    same(cumath.exp(a), np.exp(x))
    same(cumath.log(b), np.log(y))
    same(cumath.sin(a) + cumath.tanh(b) * cumath.sqrt(b), np.sin(x) + np.tanh(y) * np.sqrt(y))
    same(gpuarray.arange(0, 1000, dtype=np.int32) * 7 - 3, np.arange(1000) * 7 - 3)
    same(gpuarray.if_positive(a, a, b), np.where(x > 0, x, y))
    same(gpuarray.maximum(a, b), np.maximum(x, y))
    np.testing.assert_allclose(gpuarray.sum(a, dtype=np.float64).get(), x.astype(np.float64).sum(), rtol=1e-9)
    np.testing.assert_allclose(gpuarray.dot(a, b).get(), np.dot(x.astype(np.float64), y), rtol=1e-3, atol=0.05)
    assert gpuarray.max(a).get() == x.max() and gpuarray.min(a).get() == x.min()
    z = gpuarray.to_gpu((x + 1j * y).astype(np.complex64))
    np.testing.assert_allclose((z * z.conj()).get(), np.abs(x + 1j * y) ** 2, rtol=1e-4)

    blend = ElementwiseKernel("float *z, const float *x, const float *y, float t", "z[i] = t * x[i] + (1 - t) * y[i]", "blend")
    c = gpuarray.empty_like(a)
    blend(c, a, b, 0.25)
    same(c, 0.25 * x + 0.75 * y)
    squares = ReductionKernel(np.float64, neutral="0", reduce_expr="a+b", map_expr="(double) x[i] * x[i]", arguments="const float *x")
    np.testing.assert_allclose(squares(a).get(), (x.astype(np.float64) ** 2).sum(), rtol=1e-9)
    whole = gpuarray.arange(1, 5001, dtype=np.int32)
    assert (InclusiveScanKernel(np.int32, "a+b")(whole).get() == np.cumsum(np.arange(1, 5001))).all()


def test_random():
    """Random numbers generated in kernels, and the known properties of their distribution."""
    import pycuda._driver
    if not hasattr(pycuda._driver, "get_curand_version"):
        print("it was built without cuRAND")
        return
    import pycuda.curandom as curandom
    for generator in curandom.XORWOWRandomNumberGenerator(), curandom.MRG32k3aRandomNumberGenerator():
        uniform = generator.gen_uniform(1 << 16, np.float32).get()
        assert 0 < uniform.min() and uniform.max() <= 1 and abs(uniform.mean() - 0.5) < 0.01
        normal = generator.gen_normal(1 << 16, np.float64).get()
        assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02
    uniform = curandom.rand((100, 100)).get()
    assert 0 <= uniform.min() and uniform.max() <= 1 and abs(uniform.mean() - 0.5) < 0.02


def main():
    tests = {name[5:]: test for name, test in globals().items() if name.startswith("test_")}
    for name in sys.argv[1:] or tests:
        tests[name]()
        print("ok", name, flush=True)


main()
