#!/usr/bin/env python3
"""Language models and tokenizers to and from Hugging Face's library as it is installed.

    language_huggingface.py GOSSAMER

GOSSAMER is the program. Of every family a small model of random weights, which transformers wrote,
in one file and cut into several, is continued by the program with the distributions that
transformers computes, and so is what `gossamer export --to huggingface` makes of it, when
transformers reads that. So are the golden folders, and what `gossamer train` leaves. Both give the
same ids for every text. Where onnxruntime is installed, it computes what `--to onnx` writes.

Exits with 77 (ctest: skipped) and the reason when a package is missing.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing} (wanted: torch, transformers, safetensors)")
    sys.exit(77)

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

GOSSAMER = sys.argv[1]
GOLDEN = pathlib.Path(__file__).parent.parent / "golden"
MOST = 1e-4  # of a logarithm of a probability, in f32
PROMPT = "The king said: 12 'tis naïve, 日本 \U0001f600\n\n  and so"
torch.set_num_threads(1)
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SMALL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.15,
             bos_token_id=None, eos_token_id=None, pad_token_id=None)
ROPE3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
             high_freq_factor=4.0, original_max_position_embeddings=64)
WINDOW = dict(use_sliding_window=True, sliding_window=7, max_window_layers=1)
GPT2 = dict(n_embd=64, n_layer=3, n_head=4, n_positions=512, initializer_range=0.15,
            bos_token_id=None, eos_token_id=None)
# name, model_type, options, the golden tokenizer that it has
FAMILIES = [
    ("llama, groups", "llama", SMALL, "llama2"),
    ("llama, scaled", "llama", SMALL | {"rope_parameters": ROPE3}, "llama3"),
    ("llama, linear", "llama", SMALL | {"rope_parameters": dict(rope_type="linear", factor=4.0,
                                                                rope_theta=10000.0)}, "llama3"),
    ("llama, tied", "llama", SMALL | {"tie_word_embeddings": True}, "smollm"),
    ("llama, biases", "llama", SMALL | {"attention_bias": True, "mlp_bias": True}, "cl100k"),
    ("mistral, window", "mistral", SMALL | {"sliding_window": 6}, "mistral"),
    ("mistral, none", "mistral", SMALL | {"sliding_window": None, "head_dim": 24}, "mistral"),
    ("qwen2", "qwen2", SMALL | {"tie_word_embeddings": True}, "qwen2"),
    ("qwen2, window", "qwen2", SMALL | WINDOW, "qwen2"),
    ("qwen3", "qwen3", SMALL | {"head_dim": 32}, "qwen2"),
    ("gpt2", "gpt2", GPT2, "gpt2"),
    ("gpt2, own head", "gpt2", GPT2 | {"tie_word_embeddings": False, "n_inner": 96}, "gpt2"),
    ("gpt2, erf", "gpt2", GPT2 | {"activation_function": "gelu"}, "gpt2"),
]


def gossamer(*words):
    done = subprocess.run([GOSSAMER, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def model_of(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], (folder, info)
    assert not info["mismatched_keys"], (folder, info)
    return model.eval()


def randomize(model):
    """Norms and biases begin at 1 and 0, where a mistake would not be seen."""
    torch.manual_seed(3)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim < 2:
                p.add_(0.3 * torch.randn_like(p))


@torch.no_grad()
def log_p_of(model, ids):
    return torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)


def difference(model, tokenizer, folder):
    """The largest difference of log p of any id, at 24 positions that the program goes on with."""
    count = model.config.vocab_size
    out = json.loads(gossamer("generate", folder, "--prompt", PROMPT, "--temperature", "0",
                              "--tokens", 24, "--ignore-end", "--threads", 1, "--json",
                              "--logprobs", count))
    prompt = tokenizer(PROMPT).input_ids
    made = [each["id"] for each in out["logprobs"]]
    text = tokenizer(PROMPT, add_special_tokens=False).input_ids
    assert out["ids"] == text + made, (folder, out["ids"], text)
    theirs = log_p_of(model, prompt + made)
    most = 0.0
    for i, each in enumerate(out["logprobs"]):
        row = theirs[len(prompt) - 1 + i]
        assert len(each["top"]) == count
        for top in each["top"]:
            most = max(most, abs(top["logprob"] - row[top["id"]].item()))
    assert most < MOST, (folder, most)
    return most


def onnx_difference(model, folder, file):
    """The largest difference of log p of any id, in texts of several lengths."""
    gossamer("export", folder, "--to", "onnx", "--out", file)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    most = 0.0
    for length in (1, 2, 30, 100):
        torch.manual_seed(length)
        ids = torch.randint(model.config.vocab_size, (2, length))
        logits = torch.tensor(session.run(["logits"], {"ids": ids.numpy()})[0]).double()
        for row in (0, 1):
            theirs = log_p_of(model, ids[row].tolist())
            most = max(most, (torch.log_softmax(logits[row], -1) - theirs).abs().max().item())
    assert most < MOST, (folder, most)
    return most


def same_weights(a, b):
    b = b.state_dict()
    assert a.state_dict().keys() == b.keys()
    return all(torch.equal(p, b[name]) for name, p in a.state_dict().items())


def tokenizer_of(folder):
    return transformers.PreTrainedTokenizerFast.from_pretrained(folder)


def same_ids(a, b, texts):
    assert len(a) == len(b)
    for text in texts:
        assert a(text).input_ids == b(text).input_ids, ascii(text)
        ids = a(text).input_ids
        assert a.decode(ids) == b.decode(ids), ascii(text)


def family(at, name, kind, options, tokens, texts):
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(GOLDEN / "tokenizers" / tokens / "tokenizer.json"))
    torch.manual_seed(1)
    # more ids than the tokenizer has, as published models have
    config = transformers.AutoConfig.for_model(kind, vocab_size=len(tokenizer) + 5, **options)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model.eval()
    randomize(model)
    theirs = at / "theirs"
    worst = 0.0
    for shards in ("1GB", "60KB"):
        for folder in (theirs, at / "ours"):
            shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(theirs, max_shard_size=shards)
        tokenizer.save_pretrained(theirs)
        parts = len(list(theirs.glob("*.safetensors")))
        assert (parts > 1) == (shards == "60KB"), parts
        worst = max(worst, difference(model, tokenizer, theirs))
        gossamer("export", theirs, "--to", "huggingface", "--out", at / "ours",
                 "--shard-bytes", 0 if parts == 1 else 60000)
        assert (len(list((at / "ours").glob("*.safetensors"))) > 1) == (parts > 1)
        back = model_of(at / "ours")
        assert same_weights(model, back), name
        assert torch.equal(log_p_of(model, list(range(40))), log_p_of(back, list(range(40)))), name
        same_ids(tokenizer, tokenizer_of(at / "ours"), texts)
        worst = max(worst, difference(back, tokenizer, at / "ours"))
    print(f"{name}: log p within {worst:.1e}, written back with the same weights and ids"
          + (f", onnxruntime's within {onnx_difference(model, theirs, at / 'model.onnx'):.1e}"
             if onnxruntime else ""))


def golden(at, folder):
    shutil.rmtree(at / "ours", ignore_errors=True)
    gossamer("export", folder, "--to", "huggingface", "--out", at / "ours")
    values = load_file(GOLDEN / "llama" / folder.name.replace("-sharded", "") /
                       "golden.safetensors")
    with torch.no_grad():
        logits = model_of(at / "ours")(values["input_ids"].long()).logits
    error = (logits - values["logits"]).abs().max().item()
    print(f"golden {folder.name}: transformers reads it, logits within {error:.1e} of f64")
    assert error < 3e-5, folder


def trained(at, texts):
    (at / "text.txt").write_text("\n".join(f"the king {i} said naïve things, 日本" * 3
                                           for i in range(200)))
    gossamer("data", "tokenize", at / "text.txt", "--tokenizer", "bpe:400", "--out", at / "ids")
    for model, keys in (("llama", ["model.heads=4", "model.kv_heads=2"]),
                        ("gpt2", ["model.heads=2", "model.bias=false"])):
        gossamer("train", "task=language", f"data.train={at}/ids", f"model.name={model}",
                 "model.layers=2", "model.width=32", *keys, "data.length=64", "data.val=none",
                 "train.batch=4", "train.epochs=8 steps", "optim.warmup_epochs=0",
                 "optim.name=adamw", "optim.learning_rate=0.01", f"run.dir={at}/runs",
                 f"run.name={model}", "run.report=false", "train.threads=1")
        folder = at / "runs" / model
        net, tokenizer = model_of(folder), transformers.AutoTokenizer.from_pretrained(folder)
        worst = difference(net, tokenizer, folder)
        gossamer("export", folder, "--to", "huggingface", "--out", at / f"of-{model}")
        assert same_weights(net, model_of(at / f"of-{model}"))
        same_ids(tokenizer, transformers.AutoTokenizer.from_pretrained(at / f"of-{model}"), texts)
        print(f"trained {model}: log p within {worst:.1e}")


def main():
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    texts = json.loads((GOLDEN / "tokenizers" / "strings.json").read_text())["strings"]
    with tempfile.TemporaryDirectory() as directory:
        at = pathlib.Path(directory)
        for each in FAMILIES:
            family(at, *each, texts)
        for folder in sorted((GOLDEN / "llama").iterdir()):
            if (folder / "config.json").exists():
                golden(at, folder)
        trained(at, texts)
    print("passed")


main()
