"""with_torch.py STEPS SECONDS: PyTorch trains a small network with convolutions, normalisation,
dropout and AdamW. Its data is copied from pinned memory on a separate stream, next to a captured
graph and tensors that are sorted and reduced. Prints every loss exactly, and writes the final
weights to a file. Ends with status 7."""

import os
import sys
import time
import warnings

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
warnings.simplefilter("ignore")  # PyTorch does not know the software GPU's capability

import torch  # noqa: E402
from hold import hold  # noqa: E402
from torch import nn  # noqa: E402
from weights import leave  # noqa: E402

STEPS, REST = int(sys.argv[1]), float(sys.argv[2])
BATCH, SIDE, CLASSES = 8, 10, 5


def network():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(4 * 4 * 4, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, CLASSES)).cuda()


def captured(numbers):
    """A graph of one step of a generator."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        numbers * 69069 + 1  # load its kernels before the capture
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        numbers.copy_((numbers * 69069 + 1) & 0xFFFFFFFF)
    return graph


def main():
    torch.backends.cudnn.enabled = False  # it has machine code only
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(3)
    net, images = network(), torch.randn(8 * BATCH, 1, SIDE, SIDE).pin_memory()
    labels = torch.randint(0, CLASSES, (8 * BATCH,)).cuda()
    optimizer, copies = torch.optim.AdamW(net.parameters(), lr=0.01), torch.cuda.Stream()
    numbers = torch.arange(100, device="cuda")
    graph, expected = captured(numbers), torch.arange(100)
    for step in range(STEPS):
        at = step * BATCH % len(images)
        with torch.cuda.stream(copies):
            batch = images[at:at + BATCH].to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(copies)
        batch.record_stream(torch.cuda.current_stream())
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(batch), labels[at:at + BATCH])
        loss.backward()
        optimizer.step()
        graph.replay()
        expected = (expected * 69069 + 1) & 0xFFFFFFFF
        assert (numbers.cpu() == expected).all()
        assert (numbers.sort().values.cpu() == expected.sort().values).all() and numbers.sum().item() == expected.sum()
        noise = torch.rand(64, device="cuda").sum()
        print("step", step, loss.item().hex(), noise.item().hex(), flush=True)
        time.sleep(REST)
    hold()
    leave(net)
    print("ok torch", flush=True)


main()
sys.exit(7)
