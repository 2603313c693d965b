#!/usr/bin/env python3
"""Writes perplexity.json: the loss of gpt2-tiny by Hugging Face's recipe for windows that overlap
(transformers' page "Perplexity of fixed-length models"), on the ids of that file. The recipe weighs
the mean of a window by one id less than it predicts; here each id that is predicted counts once.

    perplexity.py > perplexity.json        (torch 2.15, transformers 5.24)
"""
import json
import os

import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

HERE = os.path.dirname(os.path.abspath(__file__))


def recipe(model, ids, length, stride):
    loss, counted, previous = 0.0, 0, 0
    for begin in range(0, ids.shape[1], stride):
        end = min(begin + length, ids.shape[1])
        inputs = ids[:, begin:end]
        targets = inputs.clone()
        targets[:, :-(end - previous)] = -100
        predicted = int((targets[:, 1:] != -100).sum())
        with torch.no_grad():
            loss += float(model(inputs, labels=targets).loss) * predicted
        counted, previous = counted + predicted, end
        if end == ids.shape[1]:
            break
    return {"length": length, "stride": stride, "tokens": counted, "loss": loss / counted}


def main():
    tensors = load_file(os.path.join(HERE, "gpt2-tiny.safetensors"))
    model = GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=24, n_embd=32, n_layer=2,
                                       n_head=4, activation_function="gelu_new",
                                       bos_token_id=127, eos_token_id=127))
    weights = {k: v for k, v in tensors.items() if k.startswith("transformer.")}
    missing, extra = model.load_state_dict(weights, strict=False)
    assert set(missing) <= {"lm_head.weight"} and not extra, (missing, extra)
    model.tie_weights()
    model = model.double().eval()
    ids = tensors["ids"].long().reshape(1, -1)
    print(json.dumps([recipe(model, ids, *o) for o in ((24, 1), (24, 5), (16, 8), (16, 15))],
                     indent=1))


main()
