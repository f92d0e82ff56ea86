"""What NCCL asks of the driver for two processes, each with a GPU of its own: collectives, messages
from one to the other, and a training by DistributedDataParallel. As in asks.py nothing is
compared."""

import os
import tempfile
import warnings

warnings.simplefilter("ignore")

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn

RANKS = 2


def collectives(rank, device):
    x = torch.ones(1 << 16, device=device)
    for call in (dist.all_reduce, dist.broadcast, dist.reduce):
        call(x, **({} if call is dist.all_reduce else {"src" if call is dist.broadcast else "dst": 0}))
    dist.all_reduce(x.bfloat16(), dist.ReduceOp.MAX)
    parts = torch.empty(RANKS * x.numel(), device=device)
    dist.all_gather_into_tensor(parts, x)
    dist.reduce_scatter_tensor(x, parts)
    dist.all_to_all_single(parts, parts.clone())
    dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, x.clone(), 1 - rank)]):
        work.wait()
    dist.barrier()
    torch.cuda.synchronize()


def training(rank, device):
    # What the ranks would say of their parameters at the start is not computed.
    net = nn.parallel.DistributedDataParallel(nn.Linear(64, 64).to(device), device_ids=[rank], init_sync=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.ones(8, 64, device=device)).sum().backward()
        optimizer.step()
    torch.cuda.synchronize()


def graph(device):
    x, captured = torch.ones(1000, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        dist.all_reduce(x)
    captured.replay()
    torch.cuda.synchronize()


def work(rank, store):
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", init_method="file://" + store, rank=rank, world_size=RANKS, device_id=device)
    for part in (lambda: collectives(rank, device), lambda: training(rank, device), lambda: graph(device)):
        part()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.spawn(work, (os.path.join(directory, "store"),), nprocs=RANKS)
    print("ok ranks, NCCL", torch.cuda.nccl.version())
