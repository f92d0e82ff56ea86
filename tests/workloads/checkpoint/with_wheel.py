"""with_wheel.py STEPS SECONDS: PyPI's PyTorch trains on a blank GPU: cuDNN, cuBLAS, mixed
precision and a fused optimizer have their modules, variables, tensors and handles, though nothing
is computed. What copies have written must come back. Ends with status 7."""

import sys
import time
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
from hold import hold  # noqa: E402
from torch import nn  # noqa: E402

STEPS, REST = int(sys.argv[1]), float(sys.argv[2])


def there(numbers):
    return torch.empty(numbers.shape, dtype=numbers.dtype, device="cuda").copy_(numbers)


def main():
    net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 14 * 14, 10))
    optimizer = torch.optim.AdamW(net.cuda().parameters(), fused=True)
    images, labels = torch.ones(4, 3, 16, 16, device="cuda"), torch.zeros(4, dtype=torch.long, device="cuda")
    kept = []
    for step in range(STEPS):
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(there(torch.arange(step, step + 1000)))
        for at, numbers in enumerate(kept):
            assert (numbers.cpu() == torch.arange(at, at + 1000)).all(), at
        print("step", step, flush=True)
        time.sleep(REST)
    hold()
    print("ok wheel", flush=True)


main()
sys.exit(7)
