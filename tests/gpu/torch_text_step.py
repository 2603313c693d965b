#!/usr/bin/env python3
"""PyTorch's training step of GPT-2 on the same GPU, for comparison with ours: bf16 autocast, fused
attention, tied head, fused AdamW, the gradient's norm clipped to 1; eager, or compiled.

    torch_text_step.py [--layers 12] [--dim 768] [--seq 1024] [--vocab 50304] [--batch 8]
                       [--seconds 6] [--stream f32|bf16] [--compile [--mode default]]

--stream: the type of what passes from block to block and of layer norm: f32, as autocast has it, or
bf16, as we have it. The logits exist as a whole here, not with us. Prints a JSON object. Needs
torch; without it the script says so and ends with 77.
"""
import argparse
import json
import statistics
import sys

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--dim", type=int, default=768)
parser.add_argument("--seq", type=int, default=1024)
parser.add_argument("--vocab", type=int, default=50304)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--seconds", type=float, default=6)
parser.add_argument("--stream", choices=["f32", "bf16"], default="f32")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--mode", default="default", help="of torch.compile; reduce-overhead: graphs")
options = parser.parse_args()
try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: PyTorch finds no GPU")
    sys.exit(77)

nn, F = torch.nn, torch.nn.functional
torch.set_float32_matmul_precision("high")      # what is not bf16: TF32
HEAD = 64                                       # values of a head, as in GPT-2


class Norm(nn.LayerNorm):
    def forward(self, x):
        if options.stream == "f32":
            return super().forward(x)
        with torch.autocast("cuda", enabled=False):
            return F.layer_norm(x, self.normalized_shape, self.weight.bfloat16(),
                                self.bias.bfloat16(), self.eps)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.norm2 = Norm(dim), Norm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.wide, self.narrow = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        rows, length, dim = x.shape
        q, k, v = (t.view(rows, length, dim // HEAD, HEAD).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).split(dim, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(rows, length, dim))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(options.vocab, options.dim)
        self.places = nn.Embedding(options.seq, options.dim)
        self.blocks = nn.ModuleList(Block(options.dim) for _ in range(options.layers))
        self.norm = Norm(options.dim)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0.0, 0.02)

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.places.weight
        if options.stream == "bf16":
            x = x.bfloat16()
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


torch.manual_seed(0)
model = Gpt2().cuda().train()
network = torch.compile(model, mode=options.mode) if options.compile else model
optimizer = torch.optim.AdamW(
    [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
     {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}],
    lr=1e-4, betas=(0.9, 0.95), fused=True)
ids, labels = (torch.randint(0, options.vocab, (options.batch, options.seq), device="cuda")
               for _ in range(2))


def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = network(ids, labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def milliseconds(steps):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(steps):
        step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / steps


for _ in range(10):
    step()
samples, spent = [], 0.0
while spent < options.seconds * 1e3 or len(samples) < 5:
    samples.append(milliseconds(5))
    spent += 5 * samples[-1]
middle = statistics.median(samples)
print(json.dumps({
    "engine": "pytorch", "version": torch.__version__,
    "mode": f"compile {options.mode}" if options.compile else "eager", "stream": options.stream,
    "batch": options.batch, "dtype": "bf16",
    "ms_median": round(middle, 3),
    "tokens_per_s": round(1e3 * options.batch * options.seq / middle, 1),
    "peak_bytes": torch.cuda.max_memory_allocated()}))
