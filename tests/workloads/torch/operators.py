"""The results of PyTorch's operators on the GPU, compared with the CPU."""

import warnings

warnings.simplefilter("ignore")  # PyTorch does not know the software GPU's capability

import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

torch.backends.cudnn.enabled = False  # it has machine code only
torch.manual_seed(1)
X, Y = torch.randn(40, 33), torch.randn(40, 33)
AT, POSITIVE = torch.randint(0, 40, (25,)), X.abs() * 0.5 + 0.01
FLOATS = [torch.float64, torch.float16, torch.bfloat16]
WHOLE = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]


def named(module, names, *arguments):
    for name in names.split():
        yield name, getattr(module, name), arguments, {}


def cases():
    """(name, function, arguments, tolerances) of each operator."""
    yield from named(torch, "add sub mul maximum minimum atan2 hypot copysign", X, Y)
    yield from named(torch, "div fmod remainder pow", POSITIVE, POSITIVE.flip(0) + 0.5)
    yield from named(torch, "exp log sqrt rsqrt sin cos tan tanh sigmoid erf log1p expm1 log2 log10 reciprocal sinh atan", POSITIVE)
    yield from named(torch, "floor ceil round trunc abs neg sign isnan", X)
    yield from named(functional, "relu gelu silu softplus leaky_relu elu hardtanh logsigmoid mish", X)
    yield from named(torch, "sum mean max min argmax argmin std var norm count_nonzero median", X)
    yield from named(torch, "tril triu ravel fliplr nonzero unique isfinite", X.round())
    for axis in (0, 1):
        for name in "sum amax cumsum softmax log_softmax logsumexp sort argsort max".split():
            yield f"{name} {axis}", lambda x, name=name, axis=axis: getattr(torch, name)(x, axis), (X,), {}
    yield "topk", lambda x: x.topk(5), (X,), {}
    yield "sort many", torch.sort, (torch.randn(5000),), {}
    yield "where", lambda x, y: torch.where(x > 0, x, y), (X, Y), {}
    yield "index", lambda x, at: (x[at], x[:, 3:9], x[x > 0]), (X, AT), {}
    yield "gather", lambda x: x.gather(1, (x > 0).long()), (X,), {}
    yield "scatter_add", lambda x: torch.zeros_like(x).scatter_add_(1, (x > 0).long() * 3, x), (X,), {}
    yield "index_put", lambda x, at: x.clone().index_put_((at,), torch.ones(1, device=x.device), accumulate=True), (X, AT), {}
    yield "shapes", lambda x, y: (torch.cat([x, y], 1), torch.stack([x, y]), x.t().contiguous(), x.roll(3, 0), x.repeat(2, 3)), (X, Y), {}
    yield "bits", lambda at: (at & 3 | at << 2 ^ at >> 1, at // 3, at % 3, torch.bincount(at)), (AT,), {}
    yield "complex", lambda x, y: torch.view_as_real(torch.complex(x, y) * torch.complex(y, x)), (X, Y), {}
    for kind in FLOATS + WHOLE:
        x, y = (X * 5).to(kind), (Y * 5).to(kind)
        loose = {"rtol": 2e-2, "atol": 2e-1} if kind in (torch.float16, torch.bfloat16) else {}
        yield f"{kind}", lambda x, y: (x + y, x * y, x == y, x.float(), x.sum(0)), (x, y), loose
    yield "embedding", functional.embedding, (AT, X), {}
    yield "losses", lambda x, y: (functional.mse_loss(x, y), functional.binary_cross_entropy_with_logits(x, (y > 0).float())), (X, Y), {}
    yield "cross_entropy", functional.cross_entropy, (X, torch.randint(0, 33, (40,))), {}
    yield "layer_norm", lambda x: functional.layer_norm(x, (33,)), (X,), {}
    picture = torch.randn(2, 4, 8, 8)
    yield "group_norm", lambda x: functional.group_norm(x, 2), (picture,), {}
    yield "batch_norm", lambda x: functional.batch_norm(x, None, None, training=True), (picture,), {}
    yield "pools", lambda x: (functional.max_pool2d(x, 2), functional.avg_pool2d(x, 2), functional.adaptive_avg_pool2d(x, 3)), (picture,), {}
    yield "pad, resize", lambda x: (functional.pad(x, (1, 2, 1, 1), mode="reflect"), functional.interpolate(x, scale_factor=2)), (picture,), {}
    close = {"rtol": 1e-3, "atol": 1e-4}
    yield "conv2d", functional.conv2d, (picture, torch.randn(6, 4, 3, 3)), close
    yield "depthwise", lambda x, w: functional.conv2d(x, w, groups=4), (picture, torch.randn(4, 1, 3, 3)), close
    yield "mm", torch.mm, (X, Y.t().contiguous()), close
    yield "mm double", torch.mm, (X.double(), Y.double().t()), {}
    yield "mm half", torch.mm, (X.half(), Y.half().t()), {"rtol": 5e-2, "atol": 5e-2}
    yield "mm bfloat16", torch.mm, (X.bfloat16(), Y.bfloat16().t()), {"rtol": 5e-2, "atol": 2e-1}
    yield "mm large", torch.mm, (torch.randn(150, 200), torch.randn(200, 170)), close
    yield "mv, dot", lambda x, y: (torch.mv(x, y[0]), torch.dot(x[0], y[0])), (X, Y), close
    yield "bmm", torch.bmm, (torch.randn(3, 8, 9), torch.randn(3, 9, 7)), close
    yield "linear", functional.linear, (X, Y, torch.randn(40)), close
    yield "attention", functional.scaled_dot_product_attention, (torch.randn(2, 2, 16, 16),) * 3, close


def compare(name, function, arguments, tolerances):
    expected = function(*arguments)
    got = function(*(a.cuda() for a in arguments))
    if isinstance(expected, torch.Tensor):
        expected, got = (expected,), (got,)
    for e, g in zip(expected, got, strict=True):
        assert g.is_cuda, name
        torch.testing.assert_close(g.cpu(), e, **tolerances, equal_nan=True, msg=lambda text: f"{name}: {text}")


count = 0
for case in cases():
    compare(*case)
    count += 1
print(f"ok operators: {count} agree with the CPU")
