"""Takes a language model of Hugging Face's transformers apart into layers.

The first layer is the model itself, without its blocks: it computes what the first block would get,
and hands that on. What all blocks get besides, such as masks and positions, goes from block to
block. So nothing here knows how a model computes its masks.
"""

from __future__ import annotations

import operator
from typing import Any, Callable

import torch
from torch import nn

from .errors import ModelError

_LIKE_LLAMA = ("model.layers", ["model.norm", "lm_head"])
# By type of model: where its blocks are, and what follows them.
_FAMILIES = {
    "bloom": ("transformer.h", ["transformer.ln_f", "lm_head"]),
    "gpt2": ("transformer.h", ["transformer.ln_f", "lm_head"]),
    "gpt_neo": ("transformer.h", ["transformer.ln_f", "lm_head"]),
    "gpt_neox": ("gpt_neox.layers", ["gpt_neox.final_layer_norm", "embed_out"]),
    "gptj": ("transformer.h", ["transformer.ln_f", "lm_head"]),
    **dict.fromkeys(["gemma", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3", "starcoder2"], _LIKE_LLAMA),
    "opt": ("model.decoder.layers", ["model.decoder.final_layer_norm", "model.decoder.project_out", "lm_head"]),
}
# Their logits have single precision, whatever the model has.
_WIDE = ("gptj",)

# How a block is called: arguments and options, with slots instead of tensors.
_Call = tuple[Any, Any]


def split(model: Any, tokens: torch.Tensor, mask: torch.Tensor | None = None) -> list[nn.Module]:
    """Returns the layers of a language model of Hugging Face's transformers, for Training.

    Args:
        model: a model with a head for language, such as GPT2LMHeadModel. It is taken apart.
        tokens: an example of the data: numbers of tokens.
        mask: which of the tokens count, if the data have that, too.
    """
    kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
    if kind not in _FAMILIES:
        raise ModelError(f"a model of the type {kind} cannot be split: make a list of its layers, or use one of "
                         f"{', '.join(_FAMILIES)}")
    at, follows = _FAMILIES[kind]
    _check(model, [at, *follows])
    blocks, catcher = list(_get(model, at)), _Catcher()
    # Models may ask their blocks for this, to choose a mask.
    attention = {getattr(block, "attention_type", None) for block in blocks}
    if len(attention) > 1:
        raise ModelError(f"the blocks of a {type(model).__name__} get different masks: make a list of its layers")
    (catcher.attention_type,) = attention
    _set(model, at, nn.ModuleList([catcher]))
    end = {path: module for path in follows if (module := _get(model, path)) is not None}
    for path in end:
        _set(model, path, nn.Identity())
    begin = _Begin(model)
    try:
        calls = begin.learn(tokens, mask)
    except BaseException:
        for path, module in [(at, nn.ModuleList(blocks)), *end.items()]:
            _set(model, path, module)
        raise
    layers = [_Block(block, f"{at}.{number}", calls) for number, block in enumerate(blocks)]
    return [begin, *layers, _End(end, kind in _WIDE)]


def _check(model: Any, paths: list[str]) -> None:
    """Refuses models that have other parts, or settings that blocks do not know of."""
    name = type(model).__name__
    if {part for part, _ in model.named_children()} != {path.partition(".")[0] for path in paths}:
        raise ModelError(f"a {name} is no model with only a head for language: use the model ForCausalLM, or "
                         "LMHeadModel, without a wrapper")
    if any(isinstance(part, _Catcher) for part in model.modules()):
        raise ModelError(f"this {name} was split before: make it again")
    if getattr(model.config, "layerdrop", 0):
        raise ModelError(f"this {name} leaves out blocks at random: set config.layerdrop to 0")
    if getattr(model, "is_gradient_checkpointing", False):
        raise ModelError(f"this {name} has gradient checkpointing: disable it, and use recompute=True instead")


class _Caught(Exception):  # noqa: N818  It is no error.
    """The first block was called."""


class _Catcher(nn.Module):
    """Stands for the blocks, and keeps how they are called: which arguments are tensors, and the others."""

    def __init__(self) -> None:
        super().__init__()
        self.call: _Call | None = None
        self.attention_type: str | None = None
        self.tensors: list[torch.Tensor] = []

    def forward(self, *arguments: Any, **options: Any) -> None:
        """Ends the pass through the model."""
        self.tensors = []
        self.call = _without(arguments, self.tensors), _without(options, self.tensors)
        raise _Caught


class _Slot(int):
    """The place of a tensor in a call."""


def _without(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Returns a value with slots instead of tensors, which are added to the list."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return _Slot(len(tensors) - 1)
    return _map(value, lambda each: _without(each, tensors))


def _with(value: Any, tensors: tuple[torch.Tensor, ...]) -> Any:
    """Returns the value again, with tensors instead of slots."""
    if isinstance(value, _Slot):
        return tensors[value]
    return _map(value, lambda each: _with(each, tensors))


def _map(value: Any, function: Callable[[Any], Any]) -> Any:
    """Returns what a value is if its parts are replaced."""
    if type(value) in (tuple, list):
        return type(value)(function(each) for each in value)
    if type(value) is dict:
        return {key: function(each) for key, each in value.items()}
    return value


class _Begin(nn.Module):
    """What is before the first block."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.calls: list[_Call] = []
        self.longest = getattr(model.config, "max_position_embeddings", None)
        self.whole_names = {"model.": ""}

    def learn(self, tokens: torch.Tensor, mask: torch.Tensor | None) -> list[_Call]:
        """Returns how the model calls its blocks: with a mask, also if that leaves out nothing."""
        with torch.no_grad():
            for each in [mask] if mask is None else [mask, torch.ones_like(mask), _first_left_out(mask)]:
                call, _ = self._catch(tokens, each)
                if call not in self.calls:
                    self.calls.append(call)
        return self.calls

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        """Returns what the first block gets: the number of the call, and its tensors."""
        if self.longest is not None and tokens.shape[-1] > self.longest:
            raise ModelError(f"a text has {tokens.shape[-1]} tokens, and the model knows {self.longest} positions")
        call, tensors = self._catch(tokens, mask)
        if call not in self.calls:
            raise ModelError("the blocks are called in another way than for the example: "
                             "split the model with an example that has the size of the data, and a mask if they have")
        return (*tensors[:1], torch.tensor(self.calls.index(call)), *tensors[1:])

    def _catch(self, tokens: torch.Tensor, mask: torch.Tensor | None) -> tuple[_Call, list[torch.Tensor]]:
        (catcher,) = (each for each in self.model.modules() if isinstance(each, _Catcher))
        try:
            self.model(tokens, attention_mask=mask, use_cache=False)
        except _Caught:
            tensors, catcher.tensors = catcher.tensors, []
            return catcher.call, tensors
        raise ModelError(f"a {type(self.model).__name__} does not call its blocks")


def _first_left_out(mask: torch.Tensor) -> torch.Tensor:
    """Returns a mask that leaves out one token."""
    mask = torch.ones_like(mask)
    mask[..., :1] = 0
    return mask


class _Block(nn.Module):
    """A block, which is called as the first one was."""

    def __init__(self, block: nn.Module, path: str, calls: list[_Call]) -> None:
        super().__init__()
        self.block = block
        self.calls = calls
        self.whole_names = {"block.": f"{path}."}

    def forward(self, hidden: torch.Tensor, call: torch.Tensor, *others: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns what the next block gets."""
        arguments, options = self.calls[int(call) if len(self.calls) > 1 else 0]
        tensors = hidden, *others
        made = self.block(*_with(arguments, tensors), **_with(options, tensors))
        return (made[0] if isinstance(made, tuple) else made), call, *others


class _End(nn.Module):
    """What is behind the last block: a norm, and the head."""

    def __init__(self, parts: dict[str, nn.Module], wide: bool) -> None:
        super().__init__()
        self.parts = nn.Sequential(*parts.values())
        self.wide = wide
        self.whole_names = {f"parts.{number}.": f"{path}." for number, path in enumerate(parts)}

    def forward(self, hidden: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        """Returns the logits."""
        logits: torch.Tensor = self.parts(hidden)
        return logits.float() if self.wide else logits


def _get(model: Any, path: str) -> Any:
    try:
        return operator.attrgetter(path)(model)
    except AttributeError:
        return None


def _set(model: Any, path: str, module: nn.Module) -> None:
    owner, _, name = path.rpartition(".")
    setattr(operator.attrgetter(owner)(model) if owner else model, name, module)
