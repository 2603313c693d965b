// The options of the commands for text, and of average.
#include "gossamer/apps/cli_options.h"
#include "gossamer/apps/commands.h"
#include "gossamer/data/text/chat.h"
#include "gossamer/data/text/steps/pattern.h"

namespace gossamer::apps {
namespace {

// usual: where a default that is not given comes from, behind the option's meaning.
std::vector<CLI::Option*> add_sampling(CLI::App& a, SamplingOptions& o, const std::string& usual) {
  return {
      a.add_option("--temperature", o.temperature,
                   "0: always the likeliest id; below 1: more likely ones" + usual + "1"),
      a.add_option("--top-k", o.top_k, "only the K likeliest ids; 0: all" + usual + "0"),
      a.add_option("--top-p", o.top_p,
                   "only the likeliest ids of this probability together; 1: all" + usual + "1"),
      a.add_option(
          "--min-p", o.min_p,
          "only ids at least so many times as probable as the likeliest; 0: all" + usual + "0"),
      a.add_option("--repetition-penalty", o.repetition_penalty,
                   "logits of ids that the text has are divided by it, negative ones multiplied; "
                   "1: none" +
                       usual + "1")};
}

void add_generate(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand("generate",
                                    "Go on with a text: gossamer generate runs/NAME --prompt TEXT");
  GenerateCommand& c = run_on(a, generate, code);
  const auto option = [&](const char* name, auto& value, const char* text) {
    a.add_option(name, value, text)->capture_default_str();
  };
  a.add_option("model", c.model,
               "a run's folder, a checkpoint's, one of Hugging Face, or its file of weights")
      ->required();
  a.add_option("arguments", c.arguments,
               model_keys_help("model.heads=…, for weights that do not say it"));
  a.add_option("--prompt", c.prompts,
               "the text, several times for several; default: the beginning of a document")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  a.add_option("--file", c.file, "a file with the text; -: standard input");
  a.add_flag("--lines", c.lines, "each line of --file is a text of its own");
  a.add_option("--field", c.field,
               "with --lines: each is a JSON object, and the prompt is its field of this name");
  option("--samples", c.samples,
         "ways to go on with each text, drawn from --seed and those behind");
  a.add_option("--tokenizer", c.tokenizer, "its folder; default: beside the model");
  a.add_flag("--marks", c.marks, "names of marks in a prompt, as <|endoftext|>, are marks");
  CLI::Option* const chat = a.add_flag(
      "--chat", c.chat, "each prompt is what a user says to the model; print its answer");
  a.add_option("--chat-template", c.chat_template,
               "how conversations are written: " + data::names_of_chats() +
                   "; default: as the tokenizer's files say")
      ->needs(chat);
  a.add_option("--system", c.system, "what the model is told before the user speaks")->needs(chat);
  option("--tokens", c.tokens, "most ids to make of each text");
  a.add_option("--stop", c.stops,
               "a text ends in front of this one, which is not shown; several times for several")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_sampling(a, c.sampling, "; default: as generation_config.json beside the model says, else ");
  option("--seed", c.seed, "of the random numbers");
  option("--threads", c.threads, "compute threads; 0: all cores");
  option("--dtype", c.dtype, "f32, bf16, f16 or auto");
  a.add_flag("--no-cache", c.no_cache, "compute the whole text anew for each id");
  a.add_flag("--ignore-end", c.ignore_end, "go on behind the end of a document");
  add_device(a, c.arguments);
  add_json(a, c.json, "print one JSON object for each text, a line each");
  a.add_option("--logprobs", c.logprobs,
               "with --json: log p of each id, before temperature and cuts, and of the N likeliest "
               "in its place; 0: of none");
}

void add_translate(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "translate", "A translation of each line: gossamer translate runs/NAME < in.txt > out.txt");
  TranslateCommand& c = run_on(a, translate, code);
  const auto option = [&](const char* name, auto& value, const char* text) {
    return a.add_option(name, value, text)->capture_default_str();
  };
  a.add_option("model", c.model, "a run's folder, a checkpoint's, or its file of weights")
      ->required();
  a.add_option("arguments", c.arguments, model_keys_help("train.dtype=…, as --dtype"));
  option("--file", c.file, "a file of lines; -: standard input");
  a.add_option(
       "--reference", c.references,
       "a file of right translations, several times for several: BLEU and chrF go to stderr")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  CLI::Option* const beam = option(
      "--beam", c.beam, "hypotheses that are followed; 1: greedy, the likeliest id each time");
  option("--length-penalty", c.length_penalty, "0: none; more: longer translations");
  a.add_option("--n-best", c.n_best,
               "so many translations of each line, a line each, the best first; at most as many as "
               "--beam");
  a.add_flag("--scores", c.scores,
             "the score and a tab in front of each translation: log p of its n ids, divided by "
             "((5 + n) / 6) to the power of --length-penalty");
  CLI::Option* const sample =
      a.add_flag("--sample", c.sample, "draw the ids, instead of the search for likely ones")
          ->excludes(beam);
  for (CLI::Option* const drawn : add_sampling(a, c.sampling, "; default: ")) drawn->needs(sample);
  option("--seed", c.seed,
         "with --sample: of the first translation of each line; that of the next "
         "ones is one more each")
      ->needs(sample);
  option("--batch", c.batch, "lines at once");
  a.add_flag("--lines", c.lines, "answer each line before the next is read, for another program");
  option("--on-long", c.on_long,
         "a line longer than the model reads: skip, with an empty line in its place, cut, or stop")
      ->check(CLI::IsMember({"skip", "cut", "stop"}));
  option("--threads", c.threads, "compute threads; 0: all cores");
  option("--dtype", c.dtype, "f32, bf16, f16 or auto");
  add_device(a, c.arguments);
  add_json(a, c.json, "print a JSON object at the end; with --lines one for each line");
}

void add_average(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "average", "The mean of a run's last checkpoints: gossamer average runs/NAME --last 10");
  AverageCommand& c = run_on(a, average, code);
  a.add_option("models", c.models,
               model_keys_help("a run's folder; or models of one kind: files, folders of runs or "
                               "checkpoints; and key=value: data.train=DIR, for models with batch "
                               "norm"))
      ->required();
  a.add_option("--last", c.last, "of a run: how many checkpoints, the newest");
  a.add_option("--out", c.out,
               "the file to write; default: average.safetensors in the run's folder");
  add_device(a, c.models);
  add_json(a, c.json);
}

}  // namespace

void add_text_commands(CLI::App& app, int& code) {
  add_generate(app, code);
  add_translate(app, code);
  add_average(app, code);
}

void add_tokenize(CLI::App& data, int& code) {
  CLI::App& a = *data.add_subcommand(
      "tokenize", "Turn text into ids: gossamer data tokenize TEXT... --tokenizer T --out DIR");
  DataTokenizeCommand& c = run_on(a, data_tokenize, code);
  data::TokenizeOptions& o = c.options;
  a.add_option("text", o.sources,
               "files of text or of JSON lines (.jsonl), also .gz and .zst, or folders of .txt, "
               ".text, .md, .jsonl; -: standard input")
      ->required();
  a.add_option("--tokenizer", o.tokenizer,
               "folder with tokenizer.json, or vocab.json and merges.txt, or encoder.json and "
               "vocab.bpe; a .model file of SentencePiece, a .tiktoken file; bpe:8192 makes byte "
               "pairs of the training text, characters a vocabulary of characters")
      ->required();
  a.add_option("--split", o.split,
               "of bpe:N or a .tiktoken file: how text is cut into words: " +
                   data::names_of_patterns() + " (bpe:N: gpt2)");
  a.add_flag("--marks", o.marks, "names of marks in the text, as <|endoftext|>, become marks");
  a.add_option("--out", o.folder, "a new or empty folder for ids, index.json and tokenizer")
      ->required();
  a.add_option("--target", o.targets,
               "translations: line i of each file belongs to line i of the text");
  a.add_option("--val", o.val_sources, "validation text");
  a.add_option("--val-target", o.val_targets, "its translations");
  a.add_option("--val-fraction", o.val_fraction,
               "instead: this part of the documents or pairs; of a single document its end")
      ->capture_default_str();
  a.add_option("--val-by", c.val_by,
               "which: order, evenly spread ones; or hash, those whose text has a small hash, so "
               "that equal texts are on one side, and more text moves none to the other")
      ->check(CLI::IsMember({"order", "hash"}))
      ->capture_default_str();
  a.add_option("--separator", o.separator, "a line that ends a document")->capture_default_str();
  a.add_option(
      "--field", o.field,
      "of JSON lines: the field with the text (text); with it, standard input is JSON lines");
  CLI::Option* const examples = a.add_flag(
      "--examples", o.examples,
      "the files are JSON lines of examples to learn from: {\"prompt\": …, \"completion\": …} or "
      "{\"messages\": [{\"role\": …, \"content\": …}, …]}; only completions and what the "
      "assistant says are learnt");
  a.add_option("--chat-template", o.chat,
               "how their messages are written: " + data::names_of_chats() +
                   "; default: as the tokenizer's files say")
      ->needs(examples);
  a.add_option("--max-length", o.max_length, "leave out pairs with more ids on a side; 0: no limit")
      ->capture_default_str();
  a.add_option("--format", c.format, "of the .bin files: llm.c or nanogpt")
      ->check(CLI::IsMember({"llm.c", "nanogpt"}))
      ->capture_default_str();
  a.add_option("--shard-tokens", o.shard_tokens, "most ids of a file (llm.c)")
      ->capture_default_str();
  a.add_flag("--any-bytes", o.any_bytes, "take bytes that are no UTF-8 as they are");
  a.add_option("--threads", o.threads, "threads that encode")->capture_default_str();
  add_json(a, c.json);
}

}  // namespace gossamer::apps
