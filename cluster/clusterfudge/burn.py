"""Keeps all GPUs of a replica busy for some seconds, and checks everything that they compute.

It needs Python and a CUDA driver, nothing else: the kernel is PTX, and the driver compiles it. Each
thread iterates an integer recurrence and one of floating point from a start of its own. Two threads
of different blocks have the same start, so their results must agree; one start is computed here, too.
"""

import ctypes
import struct
import sys
import threading
import time

THREADS, BLOCKS = 128, 64
STARTS = THREADS * BLOCKS // 2  # each is computed twice

PTX = """
.version 6.0
.target sm_50
.address_size 64
.visible .entry burn(.param .u64 out, .param .u32 starts, .param .u32 rounds)
{
    .reg .pred %p;
    .reg .b32 %r<10>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [starts];
    ld.param.u32 %r2, [rounds];
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, %ctaid.x;
    mov.u32 %r5, %ntid.x;
    mad.lo.s32 %r6, %r4, %r5, %r3;
    rem.u32 %r7, %r6, %r1;
    cvt.rn.f32.u32 %f1, %r7;
    mov.u32 %r8, 0;
loop:
    mad.lo.s32 %r7, %r7, 1664525, 1013904223;
    fma.rn.f32 %f1, %f1, 0f3F000000, 0f3F800000;
    add.s32 %r8, %r8, 1;
    setp.lt.u32 %p, %r8, %r2;
    @%p bra loop;
    mov.b32 %r9, %f1;
    xor.b32 %r7, %r7, %r9;
    mul.wide.u32 %rd2, %r6, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r7;
    ret;
}
"""


def expected(start: int, rounds: int) -> int:
    """Returns what a thread must compute: the halving and the sum are exact in doubles, too, and are
    rounded to single precision after each step, as fma does."""
    value, single = start, struct.unpack("f", struct.pack("f", start))[0]
    for _ in range(rounds):
        value = (value * 1664525 + 1013904223) & 0xFFFFFFFF
        single = struct.unpack("f", struct.pack("f", single * 0.5 + 1.0))[0]
    return value ^ struct.unpack("I", struct.pack("f", single))[0]


class Driver:
    """The CUDA driver."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name: str, *arguments) -> None:
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'').decode()} ({status})")


class Burner(threading.Thread):
    """Computes on one GPU until a time."""

    def __init__(self, driver: Driver, number: int, until: float) -> None:
        super().__init__()
        self.driver, self.number, self.until = driver, number, until
        self.launches, self.wrong, self.error = 0, 0, ""

    def run(self) -> None:
        try:
            self.burn()
        except RuntimeError as error:
            self.error = str(error)

    def burn(self) -> None:
        call, device, context = self.driver, ctypes.c_int(), ctypes.c_void_p()
        call("cuDeviceGet", ctypes.byref(device), self.number)
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        call("cuCtxSetCurrent", context)
        module, function, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        call("cuModuleLoadData", ctypes.byref(module), PTX.encode())
        call("cuModuleGetFunction", ctypes.byref(function), module, b"burn")
        call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4 * THREADS * BLOCKS))
        rounds = 16
        while not self.launches or time.monotonic() < self.until:
            began = time.monotonic()
            self.wrong += self.step(function, memory, rounds)
            self.launches += 1
            if time.monotonic() - began < 0.25 and rounds < 1 << 24:
                rounds *= 2
        call("cuMemFree_v2", memory)
        call("cuModuleUnload", module)
        call("cuDevicePrimaryCtxRelease_v2", device)

    def step(self, function: ctypes.c_void_p, memory: ctypes.c_uint64, rounds: int) -> int:
        """Launches the kernel once, and returns how many of its results are wrong."""
        values = (ctypes.c_uint64(memory.value), ctypes.c_uint32(STARTS), ctypes.c_uint32(rounds))
        pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in values))
        self.driver("cuLaunchKernel", function, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, pointers, None)
        results = (ctypes.c_uint32 * (THREADS * BLOCKS))()
        self.driver("cuMemcpyDtoH_v2", results, memory, ctypes.c_size_t(ctypes.sizeof(results)))
        wrong = sum(results[i] != results[i + STARTS] for i in range(STARTS))
        checked = min(rounds, 1 << 16)  # more would take long here
        if rounds == checked and results[7] != expected(7, rounds):
            wrong += 1
        return wrong


def main() -> int:
    seconds = float(sys.argv[1])
    driver, count = Driver(), ctypes.c_int()
    driver("cuInit", 0)
    driver("cuDeviceGetCount", ctypes.byref(count))
    if count.value == 0:
        print("there is no GPU", file=sys.stderr)
        return 1
    until = time.monotonic() + seconds
    burners = [Burner(driver, number, until) for number in range(count.value)]
    for burner in burners:
        burner.start()
    for burner in burners:
        burner.join()
        said = burner.error or f"{burner.launches} launches, {burner.wrong} wrong results"
        print(f"GPU {burner.number}: {said}")
    return 1 if any(burner.error or burner.wrong for burner in burners) else 0


if __name__ == "__main__":
    sys.exit(main())
