"""A process group of one, by NCCL: the result of each collective, and, on a real GPU, a training by
DistributedDataParallel compared with one without it. The collectives need no kernel, so they run
on a software GPU too, for which PyPI's PyTorch has none."""

import copy
import os
import warnings

warnings.simplefilter("ignore")  # PyTorch does not know the software GPU's capability

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

NUMBERS = torch.arange(1000.0)


def there(numbers):
    out = torch.empty(numbers.shape, device="cuda")
    return out.copy_(numbers)


def same(x):
    return torch.equal(x.cpu(), NUMBERS)


def collectives():
    x = there(NUMBERS)
    for what in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
        dist.all_reduce(x, what)
        assert same(x), what
    dist.broadcast(x, 0)
    dist.reduce(x, 0)
    assert same(x)
    for call in (dist.all_gather_into_tensor, dist.reduce_scatter_tensor, dist.all_to_all_single):
        other = there(-NUMBERS)
        call(other, x)
        assert same(other), call
    gathered = [there(-NUMBERS)]
    dist.all_gather(gathered, x)
    assert same(gathered[0])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work = dist.broadcast(x, 0, async_op=True)
        work.wait()
    side.synchronize()
    assert work.is_completed() and same(x)


def trained(net, x):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(5):
        optimizer.zero_grad()
        net(x).pow(2).mean().backward()
        optimizer.step()
    return [p.detach().cpu() for p in net.parameters()]


def training():
    torch.manual_seed(5)
    net, x = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 4)).cuda(), torch.randn(16, 20, device="cuda")
    twin = nn.parallel.DistributedDataParallel(copy.deepcopy(net), device_ids=[0])
    dist.barrier()
    mean = torch.ones(5, device="cuda")
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    assert mean.tolist() == [1.0] * 5
    for mine, theirs in zip(trained(net, x), trained(twin, x), strict=True):
        torch.testing.assert_close(theirs, mine)


if __name__ == "__main__":
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda:0"))
    collectives()
    if not torch.cuda.get_device_name().startswith("phos software"):
        training()
    dist.destroy_process_group()
    print("ok group, NCCL", torch.cuda.nccl.version())
