"""Holds GPU memory until its standard input ends: hold.py GPU MEBIBYTES. Prints the driver's
numbers for the GPU's memory, as JSON."""
import ctypes
import json
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result != 0:
        sys.exit(f"{name}: {result}")


gpu, mebibytes = int(sys.argv[1]), int(sys.argv[2])
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
free, total = ctypes.c_size_t(), ctypes.c_size_t()
bus_id = ctypes.create_string_buffer(32)
call("cuInit", 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, gpu)
call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(mebibytes << 20))
call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
call("cuDeviceGetPCIBusId", bus_id, 32, gpu)
print(json.dumps({"free": free.value, "total": total.value, "bus_id": bus_id.value.decode()}), flush=True)
sys.stdin.read()
