"""What PyTorch and its libraries ask of the driver: products, convolutions, transforms, attention,
training, graphs, linear algebra, compiled kernels. Nothing is compared: a blank GPU computes
nothing, and a real one is compared elsewhere. Each part must be accepted, whatever comes out."""

import contextlib
import os
import sys
import traceback
import warnings

warnings.simplefilter("ignore")

import torch
import torch.nn.functional as functional
from torch import nn

DEVICE = torch.device("cuda:0")
PARTS = {}


def part(function):
    PARTS[function.__name__] = function
    return function


def some(*shape, dtype=torch.float32):
    return torch.randn(*shape, device=DEVICE).to(dtype)


@part
def products():
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64):
        a = some(256, 256, dtype=dtype)
        a @ a
        torch.bmm(a.reshape(4, 64, 256), a.reshape(4, 256, 64))
        torch.addmm(a, a, a)
    small = torch.ones(64, 64, device=DEVICE, dtype=torch.int8)
    torch._int_mm(small, small)
    one = torch.ones((), device=DEVICE)
    eight = some(64, 64).to(torch.float8_e4m3fn)
    torch._scaled_mm(eight, eight.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


@part
def layers():
    x = some(32, 128)
    nn.Sequential(nn.Linear(128, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8)).to(DEVICE)(x).sum().backward()
    out, _ = nn.LSTM(16, 32, 2).to(DEVICE)(some(5, 3, 16))
    out.sum().backward()


@part
def convolutions():
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 5, stride=2))
        net.to(DEVICE, dtype)(some(4, 3, 32, 32, dtype=dtype)).sum().backward()
    nn.Conv1d(4, 8, 3).to(DEVICE)(some(2, 4, 50)).sum().backward()
    nn.ConvTranspose3d(4, 8, 3).to(DEVICE)(some(2, 4, 6, 6, 6)).sum().backward()


@part
def transforms():
    for x in (some(64, 100), some(7, 128), some(3, 17)):
        torch.fft.rfft(x), torch.fft.fft(x), torch.fft.rfft2(x)
        torch.fft.irfft(torch.fft.rfft(x))
    torch.stft(some(4096), 256, window=torch.hann_window(256, device=DEVICE), return_complex=True)


@part
def attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = some(2, 4, 64, 64, dtype=torch.bfloat16).requires_grad_()
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH):
        with sdpa_kernel(backend):
            functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()


@part
def training():
    net = nn.Sequential(nn.Embedding(100, 32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 100)).to(DEVICE)
    optimizer, scaler = torch.optim.AdamW(net.parameters(), fused=True), torch.amp.GradScaler()
    words = torch.zeros(8, 16, dtype=torch.long, device=DEVICE)
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("cuda", dtype):
            loss = functional.cross_entropy(net(words).reshape(-1, 100), words.reshape(-1))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@part
def graphs():
    net, x = nn.Linear(64, 64).to(DEVICE), some(8, 64)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        net(x).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        net(x).relu().sum().backward()
    for _ in range(3):
        graph.replay()


@part
def reductions():
    x = some(1000, 257)
    x.sort(), x.topk(10), x.cumsum(0), x.argmax(), x.std(0), torch.unique(x), x.softmax(1), x.logsumexp(1)
    torch.randperm(1000, device=DEVICE), torch.multinomial(torch.ones(100, device=DEVICE), 5)
    torch.nonzero(x), torch.histc(x), x.median(), x[x > 0]


@contextlib.contextmanager
def nonsense():
    """Ignores complaints about a status that a kernel should have written."""
    try:
        yield
    except torch.linalg.LinAlgError:
        pass
    except RuntimeError as error:
        if "BatchLinearAlgebra" not in str(error):
            raise


@part
def algebra():
    a = torch.eye(64, device=DEVICE)
    for call in (torch.linalg.inv, torch.linalg.qr, torch.linalg.eigh, torch.linalg.svd, torch.linalg.cholesky_ex):
        with nonsense():
            call(a)
    sparse = torch.sparse_csr_tensor(torch.tensor([0, 1, 2]), torch.tensor([0, 1]), torch.ones(2), size=(2, 2))
    sparse.to(DEVICE) @ torch.ones(2, 2, device=DEVICE)


@part
def generated():
    torch.special.bessel_j0(some(100)), torch.special.zeta(some(100), 2.0)
    jiterator = torch.cuda.jiterator._create_jit_fn("template <typename T> T twice(T x) { return 2 * x; }")
    jiterator(some(100))


@part
def compiled():
    import torch._inductor.config as settings

    settings.compile_threads = 1
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10)).to(DEVICE)
    torch.compile(net)(some(2, 3, 16, 16)).sum().backward()
    quick = torch.compile(lambda x: (x.sin() @ x).softmax(-1), mode="reduce-overhead")
    for _ in range(3):
        quick(some(64, 64))


@part
def memory():
    x = torch.randn(1 << 20).pin_memory().to(DEVICE, non_blocking=True)
    x.cpu(), x.numpy(force=True)
    torch.cuda.memory_stats(), torch.cuda.mem_get_info(), torch.cuda.get_device_properties(DEVICE)
    del x
    torch.cuda.empty_cache()


def run(name):
    try:
        PARTS[name]()
        torch.cuda.synchronize()
        print("accepted", name, flush=True)
        return True
    except Exception:
        traceback.print_exc()
        print("refused", name, flush=True)
        return False


if __name__ == "__main__":
    wanted = sys.argv[1:] or list(PARTS)
    assert torch.cuda.is_available(), "no GPU"
    refused = [name for name in wanted if not run(name)]
    assert not refused, f"refused: {', '.join(refused)}"
    print("ok asks", torch.version.cuda, torch.cuda.get_device_name())
