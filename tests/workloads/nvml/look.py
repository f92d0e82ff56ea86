"""Queries NVML as monitoring tools do, and prints the results as JSON. None stands for what is not
supported."""
import json

import pynvml as nvml


def ask(question, *arguments, **options):
    try:
        return question(*arguments, **options)
    except nvml.NVMLError_NotSupported:
        return None


def describe(handle):
    memory, plain = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2), nvml.nvmlDeviceGetMemoryInfo(handle)
    assert (memory.total, memory.free, memory.used) == (plain.total, plain.free, plain.used)
    place = nvml.nvmlDeviceGetPciInfo(handle)
    uuid = nvml.nvmlDeviceGetUUID(handle)
    for same in nvml.nvmlDeviceGetHandleByUUID(uuid), nvml.nvmlDeviceGetHandleByPciBusId(place.busId):
        assert nvml.nvmlDeviceGetIndex(same) == nvml.nvmlDeviceGetIndex(handle)
    return {
        "index": nvml.nvmlDeviceGetIndex(handle),
        "name": nvml.nvmlDeviceGetName(handle),
        "uuid": uuid,
        "bus_id": place.busId,
        "total": memory.total,
        "used": memory.used,
        "free": memory.free,
        "capability": list(nvml.nvmlDeviceGetCudaComputeCapability(handle)),
        "processes": [{"pid": p.pid, "used": p.usedGpuMemory} for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle)],
        "drawing": len(nvml.nvmlDeviceGetGraphicsRunningProcesses(handle)),
        "temperature": ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        "power": ask(nvml.nvmlDeviceGetPowerUsage, handle),
        "fan": ask(nvml.nvmlDeviceGetFanSpeed, handle),
        "link": ask(nvml.nvmlDeviceGetNvLinkState, handle, 0),
    }


nvml.nvmlInit()
count = nvml.nvmlDeviceGetCount()
for wrong, kind in (
    (lambda: nvml.nvmlDeviceGetHandleByIndex(count), nvml.NVMLError_InvalidArgument),
    (lambda: nvml.nvmlDeviceGetHandleByUUID("GPU-of-another-machine"), nvml.NVMLError_NotFound),
):
    try:
        wrong()
        raise SystemExit("there is a GPU too many")
    except kind:
        pass
print(json.dumps({
    "driver": nvml.nvmlSystemGetDriverVersion(),
    "cuda": nvml.nvmlSystemGetCudaDriverVersion(),
    "gpus": [describe(nvml.nvmlDeviceGetHandleByIndex(i)) for i in range(count)],
}))
nvml.nvmlShutdown()
