#!/usr/bin/env python3
"""GGUF files of `gossamer export --to gguf`, read by llama.cpp's own package and run by it.

    gguf_llamacpp.py GOSSAMER

GOSSAMER is the program. The package gguf finds the tensors of small models of every family as they
were, of f32, f16, bf16 and q8_0 (the bytes of its own quantizer), the rows of q and k in the other
order where llama.cpp wants it. llama.cpp itself, from the package xllamacpp, gives the ids of the
tokenizer and, with greedy ids, the probabilities that Gossamer computes; with q and k as they are
in Hugging Face's files it does not.

Exits with 77 (ctest: skipped) and the reason when a package is missing.
"""

import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request

sys.dont_write_bytecode = True
try:
    import gguf
    import numpy as np
    import torch
    import transformers
except ImportError as missing:
    print(f"skipped: {missing} (wanted: gguf, numpy, torch, transformers)")
    sys.exit(77)
try:
    import xllamacpp
except ImportError:
    xllamacpp = None

GOSSAMER = sys.argv[1]
GOLDEN = pathlib.Path(__file__).parent.parent / "golden"
PROMPT = "The king said: 12 'tis naïve, 日本 \U0001f600\n\n  and so"
# Of log p, in f32. llama.cpp looks up GELU, which GPT-2 has, in a table of f16.
MOST, MOST_OF_GPT2 = 1e-4, 5e-3
torch.set_num_threads(1)
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SMALL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.15,
             bos_token_id=None, eos_token_id=None, pad_token_id=None)
ROPE3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
             high_freq_factor=4.0, original_max_position_embeddings=64)
GPT2 = dict(n_embd=64, n_layer=3, n_head=4, n_positions=512, initializer_range=0.15,
            bos_token_id=None, eos_token_id=None)
# Of the golden strings how many have other ids in llama.cpp, as the export's notes say: with
# Mistral's Metaspace "first" texts that begin with a space or have a mark; with Qwen those that NFC
# changes.
OTHER_IDS = {"mistral": 10, "qwen2": 3}
# name, model_type, options, the golden tokenizer that it has
FAMILIES = [
    ("llama, scaled", "llama", SMALL | {"rope_parameters": ROPE3}, "llama3"),
    ("llama, linear", "llama", SMALL | {"rope_parameters": dict(rope_type="linear", factor=4.0,
                                                                rope_theta=10000.0)}, "smollm"),
    ("llama, biases", "llama", SMALL | {"attention_bias": True, "mlp_bias": True,
                                        "tie_word_embeddings": True}, "cl100k"),
    ("llama, pieces", "llama", SMALL, "llama2"),
    ("mistral", "mistral", SMALL | {"sliding_window": None, "head_dim": 24}, "mistral"),
    ("qwen2", "qwen2", SMALL | {"tie_word_embeddings": True}, "qwen2"),
    ("qwen3", "qwen3", SMALL | {"head_dim": 32}, "qwen2"),
    ("gpt2", "gpt2", GPT2, "gpt2"),
]


def gossamer(*words):
    done = subprocess.run([GOSSAMER, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def with_every_split(tokenizer):
    """Of a tokenizer of pieces: each way to cut a token in two is a merge, as in published ones."""
    model = tokenizer["model"]
    order = dict.fromkeys("".join(m if isinstance(m, list) else m.split(" "))
                          for m in model["merges"])
    model["merges"] = [[token[:i], token[i:]] for token in order for i in range(1, len(token))
                       if token[:i] in model["vocab"] and token[i:] in model["vocab"]]


def make(folder, kind, options, tokens):
    folder.mkdir()
    file = json.loads((GOLDEN / "tokenizers" / tokens / "tokenizer.json").read_text())
    if file["model"].get("byte_fallback"):
        with_every_split(file)
    (folder / "tokenizer.json").write_text(json.dumps(file))
    if (GOLDEN / "tokenizers" / tokens / "tokenizer_config.json").exists():
        shutil.copy(GOLDEN / "tokenizers" / tokens / "tokenizer_config.json", folder)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"))
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(kind, vocab_size=len(tokenizer) + 5, **options)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    torch.manual_seed(3)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim < 2:
                p.add_(0.3 * torch.randn_like(p))
    model.save_pretrained(folder)
    return model, tokenizer


NAMES = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down",
         "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "ln_1": "attn_norm",
         "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
         "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}


def turned(x, heads):
    """Rows of each head: neighbours where there were halves."""
    return x.reshape(heads, 2, -1, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def expected(model):
    """GGUF's name -> values, with the transposed matrices of GPT-2 as they are multiplied."""
    kind, config = model.config.model_type, model.config
    out = {}
    tied = config.tie_word_embeddings
    for name, p in model.state_dict().items():
        if name == "lm_head.weight" and tied:
            continue
        parts = name.removeprefix("model.").removeprefix("transformer.").split(".")
        block = ""
        if parts[0] in ("layers", "h"):
            block, parts = f"blk.{parts[1]}.", parts[2:]
        value = p.numpy()
        module, leaf = ".".join(parts[:-1]), parts[-1]
        if kind == "gpt2" and ".c_" in "." + module and value.ndim == 2:
            value = value.T
        if kind in ("llama", "mistral") and module.endswith(("q_proj", "k_proj")):
            value = turned(value, config.num_attention_heads if module.endswith("q_proj")
                           else config.num_key_value_heads)
        out[f"{block}{NAMES[module]}.{leaf}"] = np.ascontiguousarray(value)
    return out


TYPES = {"f32": gguf.GGMLQuantizationType.F32, "f16": gguf.GGMLQuantizationType.F16,
         "bf16": gguf.GGMLQuantizationType.BF16, "q8_0": gguf.GGMLQuantizationType.Q8_0}


def check_tensors(name, path, model, dtype):
    reader, wanted = gguf.GGUFReader(path), expected(model)
    found = {t.name: t for t in reader.tensors if t.name != "rope_freqs.weight"}
    assert found.keys() == wanted.keys(), found.keys() ^ wanted.keys()
    for key, value in wanted.items():
        t = found[key]
        kind = TYPES[dtype] if value.ndim > 1 else TYPES["f32"]
        assert t.tensor_type == kind, (key, t.tensor_type)
        ours = np.array(t.data).view(np.uint8).reshape(-1)
        theirs = gguf.quants.quantize(value, kind).view(np.uint8).reshape(-1)
        assert np.array_equal(ours, theirs), (name, dtype, key)
        back = gguf.quants.dequantize(np.array(t.data), t.tensor_type).reshape(value.shape)
        bound = {"f32": 0, "f16": 2**-11, "bf16": 2**-8, "q8_0": 1 / 220}[dtype]
        assert np.abs(back - value).max() <= bound * np.abs(value).max(), (name, dtype, key)
    fields = {k: f.contents() for k, f in reader.fields.items()}
    arch = "llama" if model.config.model_type == "mistral" else model.config.model_type
    assert fields["general.architecture"] == arch
    assert fields[f"{arch}.context_length"] == 512 and fields[f"{arch}.block_count"] == 3
    assert len(fields["tokenizer.ggml.tokens"]) == model.config.vocab_size
    return fields


class LlamaCpp:
    """llama.cpp's server in this process, asked by its own calls."""

    def __init__(self, path):
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel, params.n_gpu_layers = 256, 1, 0
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        # else keys and values are f16
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.warmup, params.port, params.verbosity = False, 0, -1
        self.server = xllamacpp.Server(params)

    def ids(self, text, marks):
        request = urllib.request.Request(
            self.server.listening_address + "/tokenize", method="POST",
            headers={"Content-Type": "application/json"},
            data=json.dumps({"content": text, "add_special": marks,
                             "parse_special": marks}).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["tokens"]

    def next_to(self, ids, count):
        """log p of the `count` likeliest ids behind these; none: half a character, which the
        server holds back."""
        out = self.server.handle_completions({
            "prompt": ids, "n_predict": 1, "temperature": 0, "n_probs": count,
            "post_sampling_probs": False, "ignore_eos": True, "cache_prompt": False,
            "samplers": ["temperature"]})
        for each in (out["choices"][0]["logprobs"] or {"content": []})["content"]:
            return {t["id"]: t["logprob"] for t in each["top_logprobs"]}
        return {}


def ours(folder, count):
    out = json.loads(gossamer("generate", folder, "--prompt", PROMPT, "--temperature", "0",
                              "--tokens", 16, "--ignore-end", "--threads", 1, "--json",
                              "--logprobs", count))
    return out, [{t["id"]: t["logprob"] for t in each["top"]} for each in out["logprobs"]]


def distance(llama, prompt, made, wanted, known):
    """Of log p behind every beginning; whether the likeliest id that is one of the tokenizer's
    (we take no other) is ours; how many were answered."""
    far, same, answered = 0.0, True, 0
    for at, row in enumerate(wanted):
        theirs = llama.next_to(prompt + made[:at], 20)
        if not theirs:
            continue
        answered += 1
        same = same and max((i for i in theirs if i < known), key=theirs.get) == made[at]
        far = max([far] + [abs(row[i] - theirs[i]) for i in row.keys() & theirs.keys()])
    return far, same, answered


def check_run(name, folder, path, tokenizer, texts):
    llama = LlamaCpp(path)
    wrong = [t for t in texts if llama.ids(t, True) != tokenizer(t).input_ids]
    out, wanted = ours(folder, 20)
    made = [each["id"] for each in out["logprobs"]]
    far, same, answered = distance(llama, tokenizer(PROMPT).input_ids, made, wanted,
                                   len(tokenizer))
    print(f"{name}: llama.cpp makes {'the same' if same else 'OTHER'} greedy ids, log p within "
          f"{far:.1e} at {answered} places; ids of {len(wrong)} of {len(texts)} texts differ")
    most = MOST_OF_GPT2 if name == "gpt2" else MOST
    assert same and far < most and answered >= len(made) // 2, name
    return wrong


def check_trap(folder, path, tokenizer):
    """With rows as Hugging Face has them, llama.cpp would compute another model."""
    reader = gguf.GGUFReader(path, "r+")
    for t in reader.tensors:
        if t.name.endswith(("attn_q.weight", "attn_k.weight")):
            rows = np.array(t.data)
            heads = rows.shape[0] // 16
            t.data[:] = rows.reshape(heads, -1, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)
    reader.data.flush()
    out, wanted = ours(folder, 20)
    made = [each["id"] for each in out["logprobs"]]
    far, _, _ = distance(LlamaCpp(path), tokenizer(PROMPT).input_ids, made, wanted, len(tokenizer))
    print(f"without the turned rows llama.cpp's log p is {far:.2f} away")
    assert far > 0.05, far


def main():
    print(f"gguf {gguf.__name__}, transformers {transformers.__version__}, llama.cpp "
          f"{'by xllamacpp ' + xllamacpp.__version__ if xllamacpp else 'is missing: xllamacpp'}")
    texts = json.loads((GOLDEN / "tokenizers" / "strings.json").read_text())["strings"]
    with tempfile.TemporaryDirectory() as directory:
        at = pathlib.Path(directory)
        for number, (name, kind, options, tokens) in enumerate(FAMILIES):
            folder = at / str(number)
            model, tokenizer = make(folder, kind, options, tokens)
            for dtype in TYPES:
                path = at / f"{number}-{dtype}.gguf"
                gossamer("export", folder, "--to", "gguf", "--dtype", dtype, "--out", path)
                check_tensors(name, path, model, dtype)
            print(f"{name}: gguf {', '.join(TYPES)} hold its tensors to the byte")
            if xllamacpp:
                path = at / f"{number}-f32.gguf"
                wrong = check_run(name, folder, path, tokenizer, texts)
                assert len(wrong) == OTHER_IDS.get(tokens, 0), (name, wrong)
                if number == 0:
                    check_trap(folder, path, tokenizer)
    print("passed" if xllamacpp else "passed, but nothing was run by llama.cpp")


main()
