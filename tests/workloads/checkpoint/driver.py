"""The driver API by ctypes: a kernel changes an array of integers step by step, and the CPU checks
it."""

import array
import ctypes

PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry step(.param .u64 x, .param .u32 n, .param .u32 salt)
{
 .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<8>;
 mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
 mad.lo.s32 %r1, %r1, %r2, %r3;
 ld.param.u32 %r4, [n]; setp.ge.u32 %p, %r1, %r4; @%p bra DONE;
 ld.param.u64 %d1, [x]; cvta.to.global.u64 %d1, %d1; ld.param.u32 %r6, [salt];
 mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d1, %d3;
 ld.global.u32 %r5, [%d4]; mad.lo.u32 %r5, %r5, 1664525, %r1;
 add.u32 %r5, %r5, %r6; st.global.u32 [%d4], %r5;
DONE: ret;
}
"""

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, (name, result)


def context():
    """Makes the primary context of the first device current in this thread."""
    device, made = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(made), device)
    call("cuCtxSetCurrent", made)
    return made


class Numbers:
    """An array on the GPU with its own stream, and its expected content."""

    def __init__(self, count, salt):
        self.count, self.salt = count, salt
        self.want = array.array("I", [salt] * count)
        self.got = array.array("I", [0] * count)
        self.memory, self.stream = ctypes.c_uint64(), ctypes.c_void_p()
        module, self.kernel = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuModuleLoadData", ctypes.byref(module), PTX)
        call("cuModuleGetFunction", ctypes.byref(self.kernel), module, b"step")
        call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(4 * count))
        call("cuStreamCreate", ctypes.byref(self.stream), 1)
        call("cuMemsetD32_v2", self.memory, ctypes.c_uint(salt), ctypes.c_size_t(count))
        call("cuCtxSynchronize")

    def step(self):
        """Runs one step on both sides; returns the last number."""
        count, salt = ctypes.c_uint(self.count), ctypes.c_uint(self.salt)
        parameters = (ctypes.c_void_p * 3)(*(ctypes.cast(ctypes.byref(x), ctypes.c_void_p) for x in (self.memory, count, salt)))
        call("cuLaunchKernel", self.kernel, -(-self.count // 128), 1, 1, 128, 1, 1, 0, self.stream, parameters, None)
        for i, x in enumerate(self.want):
            self.want[i] = (x * 1664525 + i + self.salt) & 0xFFFFFFFF
        call("cuStreamSynchronize", self.stream)
        address = self.got.buffer_info()[0]
        call("cuMemcpyDtoH_v2", ctypes.c_void_p(address), self.memory, ctypes.c_size_t(4 * self.count))
        assert self.got == self.want
        return self.want[-1]
