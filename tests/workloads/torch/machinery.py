"""PyTorch's features besides its operators: streams, events, graphs, pinned memory, its allocator,
generators, workers, files."""

import tempfile
import threading
import warnings

warnings.simplefilter("ignore")  # PyTorch does not know the software GPU's capability

import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402


class Numbers(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        return torch.full((4,), float(i))


def streams():
    first, second, x = torch.cuda.Stream(), torch.cuda.Stream(priority=-1), torch.ones(1000, device="cuda")
    first.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(first):
        doubled = x * 2
    second.wait_stream(first)
    with torch.cuda.stream(second):
        tripled = doubled + x
    torch.cuda.current_stream().wait_stream(second)
    tripled.record_stream(torch.cuda.current_stream())
    assert (tripled == 3).all() and first.query()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    x.sum()
    end.record()
    end.synchronize()
    assert begin.elapsed_time(end) >= 0


def graphs():
    x = torch.zeros(1000, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        (x * 2 + 1).sum()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = (x * 2 + 1).sum()
    for i in range(3):
        x.fill_(i)
        graph.replay()
        assert total.item() == 1000 * (2 * i + 1)


def memory():
    x = torch.randn(300000).pin_memory()
    assert x.is_pinned()
    back = torch.empty_like(x).pin_memory()
    back.copy_(x.to("cuda", non_blocking=True), non_blocking=True)
    torch.cuda.synchronize()
    assert (x == back).all()
    held = torch.empty(1 << 20, device="cuda")
    before = torch.cuda.memory_allocated()
    del held
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    assert torch.cuda.memory_allocated() == before - (4 << 20) and 0 < free <= total
    try:
        torch.empty(1 << 40, device="cuda")
        raise AssertionError("a tensor of 4 TiB")
    except torch.OutOfMemoryError:
        pass


def generators():
    torch.manual_seed(3)
    x = torch.rand(1000, device="cuda")
    torch.manual_seed(3)
    assert (x == torch.rand(1000, device="cuda")).all() and 0.4 < x.mean() < 0.6
    state = torch.cuda.get_rng_state()
    y = torch.randn(5000, device="cuda")
    torch.cuda.set_rng_state(state)
    assert (y == torch.randn(5000, device="cuda")).all() and abs(y.std().item() - 1) < 0.1
    assert sorted(torch.randperm(50, device="cuda").tolist()) == list(range(50))
    picked = torch.multinomial(torch.tensor([0.0, 1, 0, 1], device="cuda"), 2)
    assert sorted(picked.tolist()) == [1, 3]
    dropped = torch.nn.functional.dropout(torch.ones(5000, device="cuda"))
    assert set(dropped.tolist()) == {0.0, 2.0}


def threads():
    sums = []

    def add():
        with torch.cuda.stream(torch.cuda.Stream()):
            sums.append(torch.ones(10, device="cuda").sum().item())

    started = [threading.Thread(target=add) for _ in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert sums == [10.0] * 4


def workers():
    for how in ("fork", "spawn"):
        loader = DataLoader(Numbers(), 4, num_workers=2, pin_memory=True, multiprocessing_context=how)
        assert sum(batch.to("cuda", non_blocking=True).sum().item() for batch in loader) == 480


def files():
    net = torch.nn.Linear(3, 3).cuda()
    with tempfile.NamedTemporaryFile() as file:
        torch.save(net.state_dict(), file.name)
        read = torch.load(file.name, map_location="cuda", weights_only=True)
    assert read["weight"].is_cuda and (read["weight"] == net.weight).all()


if __name__ == "__main__":
    for part in (streams, graphs, memory, generators, threads, workers, files):
        part()
    print("ok machinery")
