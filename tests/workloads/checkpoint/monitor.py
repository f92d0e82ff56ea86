"""monitor.py STEPS SECONDS: asks NVML at each step how much GPU memory this process holds, and
compares that with what it has allocated. Ends with status 7."""

import ctypes
import os
import sys
import time

import driver
from hold import hold

STEPS, REST = int(sys.argv[1]), float(sys.argv[2])
PIECE = 2 << 20


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]


nvml = ctypes.CDLL("libnvidia-ml.so.1")


def ask(name, *arguments):
    result = getattr(nvml, name)(*arguments)
    if result != 0:
        sys.exit(f"{name}: {result}")


def held():
    """The GPU memory of this process as NVML reports it."""
    device, count, found = ctypes.c_void_p(), ctypes.c_uint(512), (Process * 512)()
    ask("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(device))
    ask("nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), found)
    return sum(p.used for p in found[: count.value] if p.pid == os.getpid())


driver.context()
ask("nvmlInit_v2")
before, pointers = held(), []
for step in range(STEPS):
    if step % 7 == 6:
        while pointers:
            driver.call("cuMemFree_v2", pointers.pop())
        driver.call("cuCtxSynchronize")
    else:
        pointer = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(PIECE))
        pointers.append(pointer)
    used = held() - before
    if used != PIECE * len(pointers):
        sys.exit(f"step {step}: NVML says {used} bytes, and {len(pointers)} pieces of {PIECE} are held")
    print("step", step, used, flush=True)
    time.sleep(REST)
ask("nvmlShutdown")
hold()
print("ok monitor", flush=True)
sys.exit(7)
