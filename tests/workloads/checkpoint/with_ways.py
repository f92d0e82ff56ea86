"""with_ways.py WAY STEPS SECONDS: PyTorch trains a small network in one of the ways of real
trainings: in mixed precision (half, brain), with each step a captured graph (captured), compiled
(compiled, reduced), with segments that grow and shrink (expandable), with loader processes
(forked, spawned), in a process group (group). Prints the result of each step exactly, and writes
the final weights to a file. Ends with status 7."""

import itertools
import os
import sys
import time
import warnings

WAY, STEPS, REST = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
if WAY == "expandable":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
warnings.simplefilter("ignore")  # PyTorch does not know the software GPU's capability

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from hold import hold  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402
from weights import leave  # noqa: E402

BATCH, WIDTH, CLASSES, MIB = 8, 16, 5, 1 << 20


class Examples(Dataset):
    """Each sample is computed from its number, in any process."""

    def __len__(self):
        return 5 * BATCH

    def __getitem__(self, index):
        numbers = torch.Generator().manual_seed(index)
        return torch.randn(WIDTH, generator=numbers), torch.randint(CLASSES, (), generator=numbers)


class Elementwise(nn.Module):
    """A network without matrix products: on a software GPU, those and Triton's kernels need
    different capabilities."""

    def __init__(self):
        super().__init__()
        self.scale, self.norm = nn.Parameter(torch.randn(CLASSES, WIDTH)), nn.LayerNorm(CLASSES)

    def forward(self, x):
        return self.norm((x[:, None, :] * self.scale).sum(-1))


def network():
    return nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.LayerNorm(32), nn.Dropout(0.1), nn.Linear(32, CLASSES))


def software():
    return torch.cuda.get_device_name().startswith("phos software")


def endless(**how):
    """Batches in a fixed order."""
    loader = DataLoader(Examples(), BATCH, shuffle=True, generator=torch.Generator().manual_seed(4), pin_memory=True, **how)
    return itertools.chain.from_iterable(itertools.repeat(loader))


def there(batch):
    return (part.to("cuda", non_blocking=True) for part in batch)


def mixed(kind):
    """The initial scale is so high that steps are skipped, and it grows soon enough for that to
    happen again."""
    net, scaler = network().cuda(), torch.amp.GradScaler("cuda", init_scale=2.0**22, growth_interval=2, enabled=kind == torch.float16)
    optimizer, data = torch.optim.AdamW(net.parameters(), lr=0.01), endless()

    def step():
        x, y = there(next(data))
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=kind):
            loss = nn.functional.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.item(), scaler.get_scale()

    return step, net


def captured():
    """Forward, backward and the optimizer's step are one graph, whose random numbers continue from
    replay to replay."""
    net, data = network().cuda(), endless()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, capturable=True)
    x, y = there(next(data))

    def work():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = work()

    def step():
        for mine, new in zip((x, y), there(next(data)), strict=True):
            mine.copy_(new)
        graph.replay()
        return (loss.item(),)

    return step, net


def trained(net, data, run=None):
    """The usual training loop."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def step():
        x, y = there(next(data))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy((run or net)(x), y)
        loss.backward()
        optimizer.step()
        return (loss.item(),)

    return step, net


def compiled(mode):
    net = (Elementwise() if software() else network()).cuda()
    return trained(net, endless(), torch.compile(net, mode=mode))


def expandable():
    """During the training, tensors of many sizes are allocated and freed on two streams."""
    plain, net = trained(network().cuda(), endless())
    streams, kept, numbers = [torch.cuda.current_stream(), torch.cuda.Stream()], {}, itertools.count()

    def step():
        n = next(numbers)
        with torch.cuda.stream(streams[n % 2]):
            kept[n] = torch.full((MIB * (1, 22, 3, 9)[n % 4] // 4,), n, dtype=torch.int32, device="cuda")
        if n % 3 == 2:
            for old in [k for k in kept if (k + n) % 2]:
                del kept[old]
            torch.cuda.empty_cache()
        torch.cuda.synchronize()
        assert all(bool((tensor == value).all()) for value, tensor in kept.items()), kept
        segments = torch.cuda.memory_snapshot()
        assert all(s["is_expandable"] for s in segments), segments
        return *plain(), float(sum(s["total_size"] for s in segments))

    return step, net


def loaded(method):
    return trained(network().cuda(), endless(num_workers=2, persistent_workers=True, multiprocessing_context=method))


def group():
    """NCCL's group of one, opened as under launchers. On a software GPU PyTorch trains on the CPU,
    and its gradients go through the group."""
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    os.environ.setdefault("NCCL_IB_DISABLE", "1")  # CRIU cannot save open InfiniBand devices
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("nccl", device_id=torch.device("cuda:0"))
    if not software():
        net = network().cuda()
        return trained(net, endless(), nn.parallel.DistributedDataParallel(net, device_ids=[0]))
    torch.utils.deterministic.fill_uninitialized_memory = False  # it would need a kernel
    net, data = network(), endless()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def step():
        x, y = next(data)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        for parameter in net.parameters():
            mine = torch.empty(parameter.shape, device="cuda")
            mine.copy_(parameter.grad)
            gathered = torch.empty_like(mine)
            dist.all_reduce(mine)
            dist.all_gather_into_tensor(gathered, mine)
            parameter.grad.copy_(gathered)
        optimizer.step()
        return (loss.item(),)

    return step, net


WAYS = {
    "half": lambda: mixed(torch.float16), "brain": lambda: mixed(torch.bfloat16), "captured": captured,
    "compiled": lambda: compiled(None), "reduced": lambda: compiled("reduce-overhead"), "expandable": expandable,
    "forked": lambda: loaded("fork"), "spawned": lambda: loaded("spawn"), "group": group,
}


def main():
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(3)
    step, net = WAYS[WAY]()
    for number in range(STEPS):
        print("step", number, *(value.hex() for value in step()), flush=True)
        time.sleep(REST)
    hold()
    leave(net)
    if dist.is_initialized():
        dist.destroy_process_group()
    if WAY in ("compiled", "reduced"):
        from torch._inductor.async_compile import shutdown_compile_workers
        shutdown_compile_workers()  # they may print errors if they are killed at exit
    print("ok", WAY, flush=True)


if __name__ == "__main__":
    main()
    sys.exit(7)
