# One array in two processes: its memory and an event are shared by handles, with the stock runtime
# library.
import multiprocessing
import numpy as np
import cupy
from cupy.cuda import runtime

def child(memory, event, pipe):
    cupy.cuda.set_allocator(None)
    there = runtime.ipcOpenMemHandle(memory)
    theirs = runtime.ipcOpenEventHandle(event)
    array = cupy.ndarray((1000,), cupy.int64, cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(there, 8000, None), 0))
    stream = cupy.cuda.Stream(non_blocking=True)
    runtime.streamWaitEvent(stream.ptr, theirs)
    with stream:
        array += 5
        stream.synchronize()
    pipe.send(array.get(stream=stream))
    runtime.ipcCloseMemHandle(there)
    runtime.eventDestroy(theirs)

if __name__ == "__main__":
    cupy.cuda.set_allocator(None)
    spawn = multiprocessing.get_context("spawn")
    here = cupy.arange(1000, dtype=cupy.int64)
    event = runtime.eventCreateWithFlags(2 | 4)
    ours, theirs = spawn.Pipe()
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        here *= 3
        runtime.eventRecord(event, stream.ptr)
    p = spawn.Process(target=child, args=(runtime.ipcGetMemHandle(here.data.ptr), runtime.ipcGetEventHandle(event), theirs))
    p.start()
    want = np.arange(1000) * 3 + 5
    assert (ours.recv() == want).all()
    p.join()
    assert p.exitcode == 0 and (here.get() == want).all()
    print("ok cupy ipc")
