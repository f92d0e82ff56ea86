"""PyTorch's allocator with expandable segments: addresses are reserved, memory is mapped in pieces,
unmapped and mapped again."""

import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
import torch

MIB = 1 << 20
streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
kept, total = {}, 0
slack = 0 if "software GPU" in torch.cuda.get_device_name() else 16 * MIB  # a real driver keeps tables there


def segments():
    found = torch.cuda.memory_snapshot()
    assert all(s["is_expandable"] for s in found), found
    return found


def check():
    torch.cuda.synchronize()
    for value, (tensor, _) in kept.items():
        assert bool((tensor == value).all()), f"what holds {value} was changed"


for round in range(4):
    for n, mib in enumerate([1, 30, 3, 50, 0.01, 24, 7]):
        with torch.cuda.stream(streams[n % 2]):
            value = 100 * round + n
            tensor = torch.full((int(mib * MIB / 4),), value, dtype=torch.int32, device="cuda")
            kept[value] = (tensor, n)
    del tensor
    check()
    mapped = sum(s["total_size"] for s in segments())
    assert mapped >= sum(t.nbytes for t, _ in kept.values())
    free, _ = torch.cuda.mem_get_info()
    for value in [v for v in kept if (v + round) % 2]:
        del kept[value]
    torch.cuda.empty_cache()
    after, _ = torch.cuda.mem_get_info()
    less = mapped - sum(s["total_size"] for s in segments())
    assert less > 0 and abs(after - free - less) <= slack, (after - free, less)
    check()

a = torch.arange(4 * MIB, device="cuda", dtype=torch.float32)  # across several pieces
b = torch.empty_like(a)
b.copy_(a * 2 + 1)
assert b[[0, 12345, -1]].tolist() == [1.0, 24691.0, 2.0 * (4 * MIB - 1) + 1]
kept.clear()
del a, b
torch.cuda.empty_cache()
assert not segments(), segments()
print("ok expandable")
