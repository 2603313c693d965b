#!/usr/bin/env python3
"""Writes golden values of small models of text, computed in f64 and stored as f32: weights, logits,
the loss, every gradient, the losses of ten AdamW steps, and what the model writes.

gpt2-tiny: Hugging Face's GPT-2. transformer-postnorm, -prenorm: torch.nn.Transformer with the
embedding, positions and loss of Decent-DP's model, and a plain beam search.

    text.py OUT_DIR            (torch 2.15, transformers 5.23)
"""
import math
import os
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
DECAY = 0.1


def train(model, loss_of, steps=10):
    """The losses before each of ten AdamW steps on one batch."""
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, **ADAMW)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def store(name, out):
    out = {k: (v.float() if v.is_floating_point() else v.int()).detach().clone().contiguous()
           for k, v in out.items()}
    save_file(out, os.path.join(sys.argv[1], name + ".safetensors"))


def gpt2():
    torch.manual_seed(20261122)
    config = GPT2Config(vocab_size=128, n_positions=24, n_embd=32, n_layer=2, n_head=4,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                        activation_function="gelu_new", bos_token_id=127, eos_token_id=127,
                        attn_implementation="eager")
    model = GPT2LMHeadModel(config)
    with torch.no_grad():  # so that biases and layer norms matter
        for p in model.parameters():
            p.add_((0.1 if p.dim() < 2 else 0.2) * torch.randn_like(p))
    model = model.double().train()
    ids = torch.randint(0, 127, (3, 24))

    def loss_of(m):
        logits = m(input_ids=ids).logits[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    logits, loss = model(input_ids=ids).logits, loss_of(model)
    loss.backward()
    out = {k: v for k, v in model.named_parameters()}
    out.update({f"grad.{k}": v.grad for k, v in model.named_parameters()})
    model.eval()
    with torch.no_grad():
        greedy = ids[:, :8]
        for _ in range(16):
            greedy = torch.cat((greedy, model(input_ids=greedy).logits[:, -1:].argmax(-1)), 1)
    out.update(logits=logits, loss=loss.reshape(1), ids=ids, greedy=greedy)
    out = {k: v.detach().clone() for k, v in out.items()}
    out["losses"] = train(model.train(), loss_of)
    store("gpt2-tiny", out)


VOCABULARY, DIM, PAD, BEGIN, END = 64, 32, 0, 2, 3


class Translator(nn.Module):
    def __init__(self, norm_first, eps):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, DIM)
        self.transformer = nn.Transformer(DIM, 4, 2, 2, 48, dropout=0.0, batch_first=True,
                                          norm_first=norm_first, layer_norm_eps=eps)
        at = torch.arange(40).unsqueeze(1)
        div = torch.exp(torch.arange(0, DIM, 2) * (-math.log(10000.0) / DIM))
        pe = torch.zeros(40, DIM)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(at * div), torch.cos(at * div)
        self.register_buffer("pe", pe)

    def embed(self, ids):
        return self.embedding(ids) * math.sqrt(DIM) + self.pe[:ids.shape[1]]

    def encode(self, src):
        return self.transformer.encoder(self.embed(src), src_key_padding_mask=src == PAD)

    def decode(self, memory, src, tgt):
        causal = torch.triu(torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool), 1)
        y = self.transformer.decoder(self.embed(tgt), memory, tgt_mask=causal,
                                     memory_key_padding_mask=src == PAD)
        return F.linear(y, self.embedding.weight)


def beam_search(model, src, beam, penalty, extra):
    """One sentence at a time; the score is log p / ((5 + length) / 6)^penalty."""
    rows = []
    for s in src:
        s = s[s != PAD].unsqueeze(0)
        memory, live, done = model.encode(s), [(0.0, [BEGIN])], []
        for _ in range(s.shape[1] + extra):
            found = []
            for logp, seq in live:
                lp = F.log_softmax(model.decode(memory, s, torch.tensor([seq]))[0, -1], -1)
                top = torch.topk(lp, 2 * beam)
                found += [(logp + float(v), seq + [int(i)])
                          for v, i in zip(top.values, top.indices)]
            found.sort(key=lambda c: -c[0])
            live = []
            for logp, seq in found:
                if seq[-1] == END:
                    done.append((logp / ((5 + len(seq) - 1) / 6) ** penalty, seq))
                else:
                    live.append((logp, seq))
                if len(live) == beam:
                    break
            if len(done) >= beam:
                break
        done += [(logp / ((5 + len(seq) - 1) / 6) ** penalty, seq) for logp, seq in live]
        rows.append(max(done, key=lambda d: d[0]))
    n = max(len(r) for _, r in rows)
    return (torch.tensor([r + [PAD] * (n - len(r)) for _, r in rows]),
            torch.tensor([v for v, _ in rows]))


def transformer(name, norm_first, eps):
    torch.manual_seed(20261123)
    model = Translator(norm_first, eps)
    with torch.no_grad():
        model.embedding.weight.uniform_(-0.1, 0.1)
        for n, p in model.named_parameters():
            if p.dim() < 2:
                p.add_(0.1 * torch.randn_like(p))
    model = model.double().train()
    src, tgt = torch.full((3, 12), PAD), torch.full((3, 11), PAD)
    for i, (a, b) in enumerate(((12, 8), (5, 11), (9, 9))):
        src[i, :a] = torch.cat((torch.randint(4, VOCABULARY, (a - 1,)), torch.tensor([END])))
        tgt[i, :b] = torch.cat((torch.tensor([BEGIN]), torch.randint(4, VOCABULARY, (b - 2,)),
                                torch.tensor([END])))

    def loss_of(m):
        logits = m.decode(m.encode(src), src, tgt[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD,
                               label_smoothing=0.1)

    loss = loss_of(model)
    loss.backward()
    out = {k: v for k, v in model.named_parameters()}
    out.update({f"grad.{k}": v.grad for k, v in model.named_parameters()})
    memory = model.encode(src)
    out.update(src=src, tgt=tgt, loss=loss.reshape(1), memory=memory,
               logits=model.decode(memory, src, tgt[:, :-1]))
    out = {k: v.detach().clone() for k, v in out.items()}
    out["losses"] = train(model, loss_of)
    train(model, loss_of, 30)
    model.eval()
    with torch.no_grad():  # half learnt, so that beams differ from greedy
        out.update({f"trained.{k}": v for k, v in model.named_parameters()})
        greedy, memory = torch.full((3, 1), BEGIN), model.encode(src)
        for _ in range(12):
            greedy = torch.cat((greedy, model.decode(memory, src, greedy)[:, -1:].argmax(-1)), 1)
        best, scores = beam_search(model, src, 4, 0.6, 20)
        out.update(greedy=greedy, beam4=best, beam4_scores=scores)
    store(name, out)


gpt2()
transformer("transformer-postnorm", False, 1e-5)
transformer("transformer-prenorm", True, 1e-6)
