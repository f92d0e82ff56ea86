# cuBLAS and cuFFT of CUDA 13, from the folder LIBRARIES: a product and transforms, compared with
# plain Python. Where a device has no code for bf16, that product may be refused; it must not crash.
# expect: ok libraries
import cmath
import ctypes
import os
import random

FOLDER = os.environ["LIBRARIES"]
FORWARD, C2C, BF16, F32, COMPUTE_F32 = -1, 0x29, 14, 0, 68

cu = ctypes.CDLL("libcuda.so.1")


def check(what, status, want=0):
    assert status == want, f"{what} returns {status}, want {want}"


def load(name):
    return ctypes.CDLL(os.path.join(FOLDER, name), ctypes.RTLD_GLOBAL)


def floats(values):
    return (ctypes.c_float * len(values))(*values)


class Memory:
    def __init__(self, values):
        self.host = floats(values)
        self.address = ctypes.c_uint64()
        check("cuMemAlloc", cu.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(ctypes.sizeof(self.host))))
        check("copy", cu.cuMemcpyHtoD_v2(self.address, self.host, ctypes.c_size_t(ctypes.sizeof(self.host))))

    @property
    def pointer(self):
        return ctypes.c_void_p(self.address.value)

    def read(self):
        check("copy", cu.cuMemcpyDtoH_v2(self.host, self.address, ctypes.c_size_t(ctypes.sizeof(self.host))))
        return list(self.host)


def transforms():
    fft = load("libcufft.so.12")
    for n in (16, 100, 17, 256, 2048):
        plan = ctypes.c_int()
        check("cufftPlan1d", fft.cufftPlan1d(ctypes.byref(plan), n, C2C, 1))
        x = [complex(random.random(), random.random()) for _ in range(n)]
        memory = Memory([part for each in x for part in (each.real, each.imag)])
        check("cufftExecC2C", fft.cufftExecC2C(plan, memory.pointer, memory.pointer, FORWARD))
        got = memory.read()
        for k in (0, 1, n // 2, n - 1):
            want = sum(x[j] * cmath.exp(-2j * cmath.pi * j * k / n) for j in range(n))
            error = abs(want - complex(got[2 * k], got[2 * k + 1]))
            assert error < 1e-5 * n, f"transform of {n}: {k} is off by {error}"


def products():
    load("libcublasLt.so.13")
    blas = load("libcublas.so.13")
    handle, n = ctypes.c_void_p(), 64
    check("cublasCreate", blas.cublasCreate_v2(ctypes.byref(handle)))
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    a, b = ([random.random() for _ in range(n * n)] for _ in range(2))
    left, right, product = Memory(a), Memory(b), Memory([0] * (n * n))
    blas.cublasGemmEx(handle, 0, 0, n, n, n, ctypes.byref(one), left.pointer, BF16, n, right.pointer, BF16, n,
                      ctypes.byref(zero), product.pointer, BF16, n, COMPUTE_F32, 99)
    status = blas.cublasSgemm_v2(handle, 0, 0, n, n, n, ctypes.byref(one), left.pointer, n, right.pointer, n,
                                 ctypes.byref(zero), product.pointer, n)
    if os.environ.get("PRODUCT") == "refused":
        assert status != 15, "cublasSgemm does not know the architecture"
        return
    check("cublasSgemm", status)
    got = product.read()
    for i, j in ((0, 0), (3, 5), (n - 1, n - 1)):
        want = sum(a[k * n + i] * b[j * n + k] for k in range(n))
        assert abs(want - got[j * n + i]) < 1e-3, f"product at {i}, {j} is {got[j * n + i]}, want {want}"


check("cuInit", cu.cuInit(0))
context = ctypes.c_void_p()
check("retain", cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check("set", cu.cuCtxSetCurrent(context))
transforms()
products()
print("ok libraries")
