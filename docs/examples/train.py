"""Fits a line to points on the GPU, one step of gradient descent at a time, with the driver API only.

usage: train.py [STEPS [SECONDS]]

It prints the line that it has found after the first step and every hundredth. With SECONDS, each step takes that much
longer. A file named "stop" in the working directory ends the training early.
"""

import ctypes
import os
import sys
import time

POINTS = 4096

PTX = b""".version 7.0
.target sm_70
.address_size 64
// Each thread adds its point's part to the gradient of the squared error.
.visible .entry gradient(.param .u64 line, .param .u64 sums)
{
 .reg .b32 %r<6>; .reg .f32 %f<12>; .reg .b64 %d<4>;
 ld.param.u64 %d1, [line]; cvta.to.global.u64 %d1, %d1;
 ld.param.u64 %d2, [sums]; cvta.to.global.u64 %d2, %d2;
 mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
 mad.lo.u32 %r1, %r1, %r2, %r3;
 cvt.rn.f32.u32 %f1, %r1; mul.f32 %f1, %f1, 0f39800000; // x, from 0 to 1
 ld.global.f32 %f2, [%d1]; ld.global.f32 %f3, [%d1+4];
 fma.rn.f32 %f4, %f2, %f1, %f3;                          // what the line says
 fma.rn.f32 %f5, %f1, 0f40400000, 0f40A00000;            // the truth: 3 x + 5
 sub.f32 %f6, %f4, %f5; mul.f32 %f7, %f6, %f1;
 red.global.add.f32 [%d2], %f7; red.global.add.f32 [%d2+4], %f6;
 ret;
}
// One thread goes a step against the gradient, and clears it.
.visible .entry descend(.param .u64 line, .param .u64 sums)
{
 .reg .f32 %f<6>; .reg .b64 %d<4>;
 ld.param.u64 %d1, [line]; cvta.to.global.u64 %d1, %d1;
 ld.param.u64 %d2, [sums]; cvta.to.global.u64 %d2, %d2;
 ld.global.f32 %f1, [%d1]; ld.global.f32 %f2, [%d2]; fma.rn.f32 %f1, %f2, 0fB9000000, %f1; st.global.f32 [%d1], %f1;
 ld.global.f32 %f1, [%d1+4]; ld.global.f32 %f2, [%d2+4]; fma.rn.f32 %f1, %f2, 0fB9000000, %f1; st.global.f32 [%d1+4], %f1;
 mov.f32 %f3, 0f00000000; st.global.f32 [%d2], %f3; st.global.f32 [%d2+4], %f3;
 ret;
}
"""

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        sys.exit("%s: CUDA error %d" % (name, result))


class Line:
    """The line on the GPU."""

    def __init__(self, gpu):
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.gradient, self.descend = ctypes.c_void_p(), ctypes.c_void_p()
        self.line, self.sums = ctypes.c_uint64(), ctypes.c_uint64()
        call("cuInit", 0)
        call("cuDeviceGet", ctypes.byref(device), gpu)
        call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        call("cuModuleLoadData", ctypes.byref(module), PTX)
        call("cuModuleGetFunction", ctypes.byref(self.gradient), module, b"gradient")
        call("cuModuleGetFunction", ctypes.byref(self.descend), module, b"descend")
        for memory in self.line, self.sums:
            call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(8))
            call("cuMemsetD32_v2", memory, 0, ctypes.c_size_t(2))

    def launch(self, kernel, blocks, threads):
        arguments = (ctypes.c_void_p * 2)(ctypes.addressof(self.line), ctypes.addressof(self.sums))
        call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, None, arguments, None)

    def step(self):
        self.launch(self.gradient, POINTS // 128, 128)
        self.launch(self.descend, 1, 1)

    def read(self):
        values = (ctypes.c_float * 2)()
        call("cuMemcpyDtoH_v2", values, self.line, ctypes.c_size_t(8))
        return "y = %.4f x + %.4f" % tuple(values)


def main(steps=6000, seconds=0.01):
    line = Line(int(os.environ.get("LOCAL_RANK", 0)))
    for step in range(1, int(steps) + 1):
        line.step()
        if step == 1 or step % 100 == 0:
            print("step %5d  %s" % (step, line.read()), flush=True)
        time.sleep(float(seconds))
        if os.path.exists("stop"):
            break
    print("trained  " + line.read(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
