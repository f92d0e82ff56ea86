"""A vector of integers on the GPU, with the driver's C interface only. Each step changes every
element. The expected values are computed here too, so a lost, repeated or partial step is
detected."""
import ctypes

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry step(.param .u64 x, .param .u32 n)
{
 .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<8>;
 mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
 mad.lo.s32 %r1, %r1, %r2, %r3;
 ld.param.u32 %r4, [n]; setp.ge.u32 %p, %r1, %r4; @%p bra DONE;
 ld.param.u64 %d1, [x]; cvta.to.global.u64 %d1, %d1;
 mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d1, %d3;
 ld.global.u32 %r5, [%d4]; mad.lo.u32 %r5, %r5, 1664525, %r1;
 add.u32 %r5, %r5, 1013904223; st.global.u32 [%d4], %r5;
DONE: ret;
}
"""


class Vector:
    def __init__(self, words=1000, seed=1):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.want = [(seed * (i + 1)) & 0xFFFFFFFF for i in range(words)]
        self.steps = 0
        device, context = ctypes.c_int(), ctypes.c_void_p()
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.memory = ctypes.c_uint64()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        self.call("cuModuleLoadData", ctypes.byref(module), PTX)
        self.call("cuModuleGetFunction", ctypes.byref(self.function), module, b"step")
        self.call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(4 * words))
        self.call("cuMemcpyHtoD_v2", self.memory, (ctypes.c_uint32 * words)(*self.want), ctypes.c_size_t(4 * words))

    def call(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result:
            raise RuntimeError("%s: %d after %d steps" % (name, result, self.steps))

    def step(self):
        count = ctypes.c_uint32(len(self.want))
        parameters = (ctypes.c_void_p * 2)(
            ctypes.cast(ctypes.byref(self.memory), ctypes.c_void_p), ctypes.cast(ctypes.byref(count), ctypes.c_void_p))
        self.call("cuLaunchKernel", self.function, (len(self.want) + 127) // 128, 1, 1, 128, 1, 1, 0, None, parameters, None)
        self.want = [(value * 1664525 + i + 1013904223) & 0xFFFFFFFF for i, value in enumerate(self.want)]
        self.steps += 1

    def check(self):
        got = (ctypes.c_uint32 * len(self.want))()
        self.call("cuMemcpyDtoH_v2", got, self.memory, ctypes.c_size_t(4 * len(self.want)))
        if list(got) != self.want:
            raise AssertionError("wrong after %d steps" % self.steps)
        return "%d %08x" % (self.steps, self.want[-1])
