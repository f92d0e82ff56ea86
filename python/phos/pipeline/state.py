"""A layer's state as bytes: parameters, buffers and what its optimizer and scheduler remember.

The bytes are all tensors one after the other. A description in JSON says what they are, and has all
that is no tensor. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import torch

from .mesh import memory

_TYPES = {
    str(kind).removeprefix("torch."): kind
    for kind in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
        torch.uint8, torch.bool,
    )
}


def pack(value: Any) -> tuple[Any, torch.Tensor]:
    """Returns the description and the bytes of dictionaries, lists, numbers and tensors."""
    parts: list[torch.Tensor] = []
    description = _describe(value, parts)
    return description, torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8)


def size(value: Any) -> int:
    """Returns how many bytes pack gives."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        return sum(size(each) for each in value.values())
    return sum(size(each) for each in value) if isinstance(value, (list, tuple)) else 0


def _describe(value: Any, parts: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        if str(value.dtype).removeprefix("torch.") not in _TYPES:
            raise TypeError(f"a tensor of {value.dtype} cannot be sent to another rank")
        parts.append(as_bytes(value.detach()))
        return {"tensor": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)}
    if isinstance(value, dict):
        return {"dict": [[_describe(key, parts), _describe(each, parts)] for key, each in value.items()]}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_describe(each, parts) for each in value]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be sent to another rank")


def can_pack(value: Any) -> bool:
    """Reports whether pack knows the types of a value."""
    try:
        _describe(value, [])
    except TypeError:
        return False
    return True


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the bytes of a tensor in CPU memory, as a tensor of one dimension."""
    return tensor.cpu().contiguous().reshape(-1).view(torch.uint8)


def digest(content: torch.Tensor) -> str:
    """Returns what is the same for equal bytes."""
    return hashlib.blake2b(memory(content), digest_size=16).hexdigest()


def checksum(content: torch.Tensor) -> str:
    """Returns what is the same for equal bytes, many times as fast: a CRC, and the sum of all words.

    Layers are copied with it, where ranks trust each other: a digest took most of a recovery's time.
    """
    whole = content[:content.numel() // 8 * 8]
    words = whole.clone() if whole.storage_offset() % 8 else whole
    total = int(words.view(torch.int64).sum()) & (1 << 64) - 1
    return f"{zlib.crc32(memory(content)):08x}{total:016x}"


def unpack(description: Any, content: torch.Tensor | None) -> Any:
    """Returns the value that was packed; a message without bytes has no content."""
    content = torch.empty(0, dtype=torch.uint8) if content is None else content
    value, end = _value(description, content, 0)
    if end != content.numel():
        raise ValueError(f"{content.numel()} bytes of state, of which {end} are described")
    return value


def _value(description: Any, content: torch.Tensor, at: int) -> tuple[Any, int]:
    if not isinstance(description, dict):
        return description, at
    if "tensor" in description:
        kind, shape = _TYPES[description["tensor"]], description["shape"]
        end = at + torch.empty(0, dtype=kind).element_size() * int(torch.Size(shape).numel())
        # A copy has the alignment that a type needs.
        return content[at:end].clone().view(kind).reshape(shape), end
    if "dict" in description:
        made = {}
        for key, each in description["dict"]:
            name, at = _value(key, content, at)
            made[name], at = _value(each, content, at)
        return made, at
    (name, items), = description.items()
    values = []
    for each in items:
        value, at = _value(each, content, at)
        values.append(value)
    return (tuple(values) if name == "tuple" else values), at
