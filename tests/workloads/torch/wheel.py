"""PyPI's PyTorch, built for a newer CUDA and with machine code only: the features that need none of
that code. Its runtime starts; memory, copies, streams and graphs of copies work; kernels of
Triton run."""

import torch
import triton
import triton.language as tl

COUNT = 1000


@triton.jit
def blend(x, y, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    value = tl.exp(tl.load(x + at, mask=inside)) + tl.load(y + at, mask=inside)
    tl.store(out + at, value, mask=inside)


def device_of(numbers):
    out = torch.empty(numbers.shape, dtype=numbers.dtype, device="cuda")
    return out.copy_(numbers)


def copies():
    numbers = torch.randn(COUNT).pin_memory()
    assert numbers.is_pinned() and torch.cuda.mem_get_info()[1] > 0
    begin, end, side = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True), torch.cuda.Stream()
    with torch.cuda.stream(side):
        begin.record()
        there = numbers.to("cuda", non_blocking=True)
        end.record()
    torch.cuda.current_stream().wait_stream(side)
    assert torch.equal(there.cpu(), numbers) and begin.elapsed_time(end) >= 0


def kernel():
    x, y = torch.randn(COUNT), torch.randn(COUNT)
    out = torch.empty(COUNT, device="cuda")
    blend[(4,)](device_of(x), device_of(y), out, COUNT, BLOCK=256)
    torch.testing.assert_close(out.cpu(), x.exp() + y)


assert torch.cuda.is_available() and torch.cuda.device_count() == 1
copies()
kernel()
try:
    torch.ones(3, device="cuda")
    raise SystemExit("machine code has run")
except RuntimeError as refused:
    assert "no kernel image" in str(refused), refused
print("ok wheel", torch.version.cuda)
