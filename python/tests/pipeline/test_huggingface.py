"""Models of transformers, split: they compute the same bits, and no tensor is lost or has another name."""

import copy
import os
import sys
import types
import unittest

import torch
from phos.pipeline import ModelError, split
from phos.pipeline.whole import whole_name
from torch import nn

PACKAGES = os.environ.get("TRANSFORMERS")
if PACKAGES:
    sys.path.append(PACKAGES)


def models():
    """Yields one small model of each family."""
    import transformers as hf

    words = {"vocab_size": 64}
    none = {"resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
    wide = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
    yield hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=3, n_embd=32, n_head=4, n_positions=64, **none, **words))
    yield hf.GPTJForCausalLM(hf.GPTJConfig(n_layer=3, n_embd=32, n_head=4, n_positions=64, rotary_dim=4, **none, **words))
    yield hf.GPTNeoForCausalLM(hf.GPTNeoConfig(
        hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
        max_position_embeddings=64, resid_dropout=0, embed_dropout=0, attention_dropout=0, **words,
    ))
    yield hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(intermediate_size=64, **wide, **words))
    yield hf.LlamaForCausalLM(hf.LlamaConfig(intermediate_size=64, **wide, **words))
    yield hf.BloomForCausalLM(hf.BloomConfig(
        hidden_size=32, n_layer=3, n_head=4, hidden_dropout=0, attention_dropout=0, **words,
    ))
    # Those of newer versions.
    few = {"num_key_value_heads": 2, "pad_token_id": 0, "intermediate_size": 64}
    for name in ("Gemma", "Mistral", "Olmo2", "Phi3", "Qwen2", "Qwen3", "Starcoder2"):
        if hasattr(hf, f"{name}Config"):
            heads = {"head_dim": 8} if name in ("Gemma", "Qwen3") else {}
            model = hf.AutoModelForCausalLM.from_config(getattr(hf, f"{name}Config")(**few, **heads, **wide, **words))
            for part in model.modules():
                part.p = 0  # of Dropout
            yield model
    for inner, before in ((16, False), (32, True)):
        yield hf.OPTForCausalLM(hf.OPTConfig(
            ffn_dim=64, word_embed_proj_dim=inner, do_layer_norm_before=before, dropout=0, **wide, **words,
        ))


def computed(layers, *values):
    """Returns what layers compute, one after the other."""
    for layer in layers:
        made = layer(*values)
        values = made if isinstance(made, tuple) else (made,)
    return values[0]


@unittest.skipUnless(PACKAGES, "TRANSFORMERS is not set: ./build.sh test sets it")
class FamiliesTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.tokens = torch.randint(64, (2, 10))
        self.mask = torch.ones(2, 10, dtype=torch.long)
        self.mask[0, :3] = 0

    def test_same_bits_and_names(self):
        for model in models():
            for inputs in ((self.tokens,), (self.tokens, self.mask)):
                with self.subTest(type(model).__name__, mask=len(inputs) > 1):
                    want = model(*inputs[:1], attention_mask=dict(enumerate(inputs)).get(1), use_cache=False).logits
                    layers = split(copy.deepcopy(model), *(each[:1, :4] for each in inputs))
                    self.assertTrue(torch.equal(computed(layers, *inputs), want))
                    if len(inputs) > 1:
                        full = self.tokens, torch.ones_like(self.mask)
                        want = model(self.tokens, attention_mask=full[1], use_cache=False).logits
                        self.assertTrue(torch.equal(computed(layers, *full), want))
                    names = {whole_name(i, layer, key) for i, layer in enumerate(layers) for key in layer.state_dict()}
                    self.assertEqual(names, set(model.state_dict()))

    def test_other_call(self):
        layers = split(next(models()), self.tokens)
        with self.assertRaisesRegex(ModelError, "in another way than for the example"):
            layers[0](self.tokens, self.mask)

    def test_half_precision(self):
        for model in models():
            with self.subTest(type(model).__name__):
                model = model.to(torch.bfloat16)
                want = model(self.tokens, use_cache=False).logits
                got = computed(split(model, self.tokens), self.tokens)
                self.assertEqual(got.dtype, want.dtype)
                self.assertTrue(torch.equal(got, want))

    def test_other_models(self):
        import transformers as hf

        small = {"n_layer": 1, "n_embd": 32, "n_head": 4, "n_positions": 16}
        for kind in (hf.GPT2Model, hf.GPT2DoubleHeadsModel, hf.GPT2ForSequenceClassification):
            with self.assertRaisesRegex(ModelError, f"{kind.__name__} is no model with only a head for language"):
                split(kind(hf.GPT2Config(**small)), self.tokens)
        opt = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "layerdrop": 0.1}
        with self.assertRaisesRegex(ModelError, "layerdrop"):
            split(hf.OPTForCausalLM(hf.OPTConfig(ffn_dim=8, word_embed_proj_dim=32, **opt)), self.tokens)
        model = hf.GPT2LMHeadModel(hf.GPT2Config(**small))
        model.gradient_checkpointing_enable()
        with self.assertRaisesRegex(ModelError, "recompute=True"):
            split(model, self.tokens)

    def test_again(self):
        model = next(models())
        with self.assertRaises(IndexError):
            split(model, self.tokens + 64)
        layers = split(model, self.tokens)  # an example that failed has changed nothing
        with self.assertRaisesRegex(ModelError, "was split before"):
            split(model, self.tokens)
        with self.assertRaisesRegex(ModelError, "65 tokens, and the model knows 64 positions"):
            layers[0](torch.zeros(1, 65, dtype=torch.long))


class RefusalsTest(unittest.TestCase):
    def test_unknown(self):
        model = nn.Linear(2, 2)
        with self.assertRaisesRegex(ModelError, "type Linear cannot be split.*gpt2"):
            split(model, torch.zeros(1))
        model.config = types.SimpleNamespace(model_type="t5")
        with self.assertRaisesRegex(ModelError, "type t5 cannot be split"):
            split(model, torch.zeros(1))
