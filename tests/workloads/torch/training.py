"""Networks trained by PyTorch on the GPU and on the CPU: their losses must agree."""

import copy
import warnings

warnings.simplefilter("ignore")  # PyTorch does not know the software GPU's capability

import torch  # noqa: E402
from torch import nn  # noqa: E402

torch.backends.cudnn.enabled = False  # it has machine code only
torch.manual_seed(2)
CLASSES, BATCH = 5, 16


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.out = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.out(self.cells(x)[0][:, -1])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.TransformerEncoderLayer(12, 2, 24, dropout=0, batch_first=True), nn.Linear(12, CLASSES)

    def forward(self, x):
        return self.out(self.layer(x).mean(1))


NETWORKS = {
    "perceptron": (nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, CLASSES)), (20,)),
    "convolutions": (nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, CLASSES)), (1, 8, 8)),
    "recurrent": (Recurrent(), (5, 6)),
    "attention": (Attention(), (6, 12)),
}


def losses(net, x, y, steps=8):
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


def mixed(kind):
    """A training in mixed precision, whose loss must fall."""
    net, scaler = nn.Linear(16, 1).cuda(), torch.amp.GradScaler("cuda", enabled=kind == torch.float16)
    optimizer, x = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), torch.randn(32, 16, device="cuda")
    course = []
    for _ in range(10):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=kind):
            loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        course.append(loss.item())
    assert course[-1] < course[0] / 2, (kind, course)


for name, (net, shape) in NETWORKS.items():
    x, y = torch.randn(BATCH, *shape), torch.randint(0, CLASSES, (BATCH,))
    on_gpu = list(losses(copy.deepcopy(net).cuda(), x.cuda(), y.cuda()))
    expected = list(losses(net, x, y))
    worst = max(abs(a - b) / b for a, b in zip(on_gpu, expected, strict=True))
    print(f"{name}: {expected[0]:.4f} -> {expected[-1]:.4f}, largest difference {worst:.1e}", flush=True)
    assert worst < 1e-3 and expected[-1] < expected[0], name
for kind in (torch.float16, torch.bfloat16):
    mixed(kind)
print("ok training: losses agree with the CPU's")
