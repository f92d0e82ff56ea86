"""A kernel by Triton, and the code that torch.compile generates for functions and for a training,
compared with the CPU."""

import copy

import torch
import triton
import triton.language as tl

torch.manual_seed(4)


@triton.jit
def blend(x, y, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    value = tl.exp(tl.load(x + at, mask=inside)) + tl.load(y + at, mask=inside)
    tl.store(out + at, value, mask=inside)


def kernel():
    x, y = torch.randn(1000), torch.randn(1000)
    out = torch.empty(1000, device="cuda")
    blend[(4,)](x.cuda(), y.cuda(), out, 1000, BLOCK=256)
    torch.testing.assert_close(out.cpu(), x.exp() + y)


def fused(x, y):
    return torch.nn.functional.gelu(x * y + 1).softmax(-1).sum(0), (x - y).amax(1)


def functions():
    x, y = torch.randn(20, 33), torch.randn(20, 33)
    for got, want in zip(torch.compile(fused)(x.cuda(), y.cuda()), fused(x, y), strict=True):
        torch.testing.assert_close(got.cpu(), want)


class Net(torch.nn.Module):
    """A network without matrix products: cuBLAS has machine code for this capability."""

    def __init__(self):
        super().__init__()
        self.scale, self.norm = torch.nn.Parameter(torch.randn(8, 16)), torch.nn.LayerNorm(8)

    def forward(self, x):
        return self.norm((x[:, None, :] * self.scale).sum(-1)).relu().mean()


def training():
    net, x = Net(), torch.randn(32, 16)
    twin = copy.deepcopy(net).cuda()
    for model, batch in ((net, x), (torch.compile(twin), x.cuda())):
        for _ in range(3):
            model(batch).backward()
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(dict(twin.named_parameters())[name].grad.cpu(), parameter.grad, rtol=1e-4, atol=1e-5)


kernel()
functions()
training()
print("ok compiled")
