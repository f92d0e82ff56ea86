"""Compares tinygrad's operators, forward and backward, on the device under test with its CPU backend, and prints the
pass rate. usage: operators.py [--verbose] [FIRST STEP]: every STEP-th operator.
"""

import sys

import numpy as np
from tinygrad import Tensor, dtypes

random = np.random.default_rng(1)


def floats(*shape, low=-2.0, high=2.0):
    return random.uniform(low, high, shape).astype(np.float32)


def ints(*shape, low=-50, high=50, type=np.int32):
    return random.integers(low, high, shape).astype(type)


A, B, M, V = floats(17, 33), floats(17, 33), floats(33, 9), floats(33)
POSITIVE, UNIT = floats(17, 33, low=0.1, high=4), floats(17, 33, low=-0.95, high=0.95)
IMAGE, KERNEL = floats(2, 3, 12, 11), floats(4, 3, 3, 3)
I, J = ints(9, 21), ints(9, 21, low=1, high=30)
U8, I64, DOUBLE = ints(40, low=0, high=255, type=np.uint8), ints(40, type=np.int64) * 10**11, random.uniform(size=(13, 7))

# Name, inputs, function. Floating inputs are differentiated.
CASES = [
    ("add", (A, B), lambda a, b: a + b), ("sub", (A, B), lambda a, b: a - b), ("mul", (A, B), lambda a, b: a * b),
    ("div", (A, POSITIVE), lambda a, b: a / b), ("neg", (A,), lambda a: -a), ("abs", (A,), Tensor.abs),
    ("sqrt", (POSITIVE,), Tensor.sqrt), ("rsqrt", (POSITIVE,), Tensor.rsqrt), ("exp", (A,), Tensor.exp),
    ("exp2", (A,), Tensor.exp2), ("log", (POSITIVE,), Tensor.log), ("log2", (POSITIVE,), Tensor.log2),
    ("sin", (A,), Tensor.sin), ("cos", (A,), Tensor.cos), ("tan", (UNIT,), Tensor.tan), ("asin", (UNIT,), Tensor.asin),
    ("sin of large", (A * 1000,), Tensor.sin), ("tanh", (A,), Tensor.tanh), ("sigmoid", (A,), Tensor.sigmoid),
    ("relu", (A,), Tensor.relu), ("gelu", (A,), Tensor.gelu), ("silu", (A,), Tensor.silu), ("elu", (A,), Tensor.elu),
    ("softplus", (A,), Tensor.softplus), ("erf", (A,), Tensor.erf), ("reciprocal", (POSITIVE,), Tensor.reciprocal),
    ("square", (A,), Tensor.square), ("pow", (POSITIVE, B), lambda a, b: a**b), ("pow scalar", (POSITIVE,), lambda a: a**2.5),
    ("maximum", (A, B), Tensor.maximum), ("minimum", (A, B), Tensor.minimum), ("where", (A, B), lambda a, b: (a > 0).where(a, b)),
    ("clip", (A,), lambda a: a.clip(-1, 1)), ("broadcast", (A, V), lambda a, v: a * v + v),
    ("sum", (A,), Tensor.sum), ("sum axis", (A,), lambda a: a.sum(axis=0)), ("mean", (A,), lambda a: a.mean(axis=1)),
    ("var", (A,), lambda a: a.var(axis=1)), ("std", (A,), Tensor.std), ("max", (A,), lambda a: a.max(axis=1)),
    ("min", (A,), lambda a: a.min(axis=0)), ("prod", (UNIT[:4, :5],), Tensor.prod), ("cumsum", (A,), lambda a: a.cumsum(axis=1)),
    ("logsumexp", (A,), lambda a: a.logsumexp(axis=1)), ("softmax", (A,), Tensor.softmax), ("log_softmax", (A,), Tensor.log_softmax),
    ("argmax", (A,), lambda a: a.argmax(axis=1)), ("argmin", (A,), lambda a: a.argmin(axis=0)), ("sort", (A,), lambda a: a.sort(dim=1)[0]),
    ("topk", (A,), lambda a: a.topk(5)[0]), ("matmul", (A, M), lambda a, m: a @ m), ("dot", (A, V), lambda a, v: a @ v),
    ("large matmul", (floats(96, 64), floats(64, 80)), lambda a, b: a @ b),
    ("batched matmul", (floats(3, 8, 12), floats(3, 12, 5)), lambda a, b: a @ b), ("einsum", (A, B), lambda a, b: Tensor.einsum("ij,kj->ik", a, b)),
    ("conv2d", (IMAGE, KERNEL), lambda x, k: x.conv2d(k)), ("conv2d stride", (IMAGE, KERNEL), lambda x, k: x.conv2d(k, stride=2, padding=1)),
    ("conv2d groups", (floats(2, 4, 9, 9), floats(4, 2, 3, 3)), lambda x, k: x.conv2d(k, groups=2)),
    ("conv transpose", (floats(2, 4, 6, 6), floats(4, 3, 3, 3)), lambda x, k: x.conv_transpose2d(k)),
    ("max_pool", (IMAGE,), lambda x: x.max_pool2d()), ("avg_pool", (IMAGE,), lambda x: x.avg_pool2d()),
    ("layernorm", (A,), lambda a: a.layernorm()), ("attention", (floats(2, 2, 6, 8), floats(2, 2, 6, 8), floats(2, 2, 6, 8)),
                                                  lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True)),
    ("reshape", (A,), lambda a: a.reshape(33, 17) * 2), ("permute", (IMAGE,), lambda x: x.permute(2, 0, 3, 1) * 2),
    ("flip", (A,), lambda a: a.flip(0) * 2), ("pad", (A,), lambda a: a.pad(((1, 2), (3, 0))) * 2), ("shrink", (A,), lambda a: a[3:9, 2:30:3] * 2),
    ("cat", (A, B), lambda a, b: a.cat(b, dim=1) * 2), ("stack", (A, B), lambda a, b: Tensor.stack(a, b) * 2), ("repeat", (V,), lambda v: v.repeat(3) * 2),
    ("gather", (A,), lambda a: a[Tensor([3, 1, 4], device=a.device)] * 2), ("triu", (A,), lambda a: a.triu() * 2), ("roll", (A,), lambda a: a.roll(3, 1) * 2),
    ("integer add", (I, J), lambda a, b: a + b), ("integer divide", (I, J), lambda a, b: a // b), ("modulo", (I, J), lambda a, b: a % b),
    ("bits", (I, J), lambda a, b: (a & b) | (a ^ 21)), ("shifts", (J,), lambda a: (a << 3) + (a >> 1)), ("integer compare", (I, J), lambda a, b: (a < b) == (a >= b)),
    ("wide integers", (I64,), lambda a: a * 3 + (a >> 7)), ("bytes", (U8,), lambda a: a + 100), ("double", (DOUBLE,), lambda a: (a * 3 + 0.25) * a),
    ("half", (A,), lambda a: (a.cast(dtypes.half) * 1.5 + 0.25).cast(dtypes.float)), ("half matmul", (A, M), lambda a, m: (a.cast(dtypes.half) @ m.cast(dtypes.half)).cast(dtypes.float)),
    ("to int", (A * 30,), lambda a: a.cast(dtypes.int8)), ("to float", (I,), lambda a: a.cast(dtypes.float) / 3), ("round", (A,), Tensor.round),
    ("floor", (A,), Tensor.floor), ("ceil", (A,), Tensor.ceil), ("trunc", (A,), Tensor.trunc), ("isnan", (A,), lambda a: (a / (a * 0)).isnan()),
    ("dropout seed", (A,), lambda a: a + Tensor.rand(17, 33, device=a.device)), ("cross entropy", (A,), lambda a: a.cross_entropy(Tensor(np.arange(17, dtype=np.int32), device=a.device))),
]


def evaluate(device, inputs, function):
    """The result of function on a device, and the gradients of its sum."""
    Tensor.manual_seed(2)
    tensors = [Tensor(x, device=device).contiguous().realize() for x in inputs]
    floating = [t for t in tensors if dtypes.is_float(t.dtype)]
    result = function(*tensors)
    found = [result.numpy()]
    if floating and dtypes.is_float(result.dtype):
        weights = Tensor(np.cos(np.arange(result.numel(), dtype=np.float32)).reshape(result.shape), device=device)
        try:
            gradients = (result * weights).sum().gradient(*floating)
        except RuntimeError:
            return found  # not differentiable
        found += [g.numpy() for g in gradients]
    return found


def compare(name, inputs, function):
    loose = "half" in name
    for got, want in zip(evaluate(None, inputs, function), evaluate("CPU", inputs, function), strict=True):
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=2e-2 if loose else 1e-4, atol=2e-2 if loose else 1e-4)
        else:
            np.testing.assert_array_equal(got, want)


def main(first=0, step=1):
    failed, cases = [], CASES[int(first)::int(step)]
    for name, inputs, function in cases:
        try:
            compare(name, inputs, function)
        except Exception as error:  # the sweep continues, and the end lists the failures
            failed.append(name)
            print(f"{name}: {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}")
            if "--verbose" in sys.argv:
                print(error)
    print(f"operators: {len(cases) - len(failed)} of {len(cases)} agree with the CPU")
    if failed:
        sys.exit("differ: " + ", ".join(failed))
    print("ok operators")


if __name__ == "__main__":
    main(*(each for each in sys.argv[1:] if each != "--verbose"))
