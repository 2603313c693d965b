// `gossamer generate MODEL --prompt TEXT`: a language model goes on with a text, shown as it grows,
// or with several at once.
#include <algorithm>
#include <bit>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "gossamer/apps/command_keys.h"
#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/commands/lines.h"
#include "gossamer/apps/commands/on_gpu.h"
#include "gossamer/apps/commands/text_stream.h"
#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/machine.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/language_model.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/ops/decode.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/text/json.h"
#include "gossamer/data/text/chat.h"
#include "gossamer/data/text/json_lines.h"
#include "gossamer/models/decoder.h"
#include "gossamer/models/growing_texts.h"
#include "gossamer/models/sampling.h"

namespace gossamer::apps {
namespace {

using Ids = std::vector<std::int32_t>;

struct Text {
  Ids ids;  // the prompt's, then those that are made
  std::uint64_t seed;
  TextStream out;
  data::TextOfIds made_text;
  std::size_t hidden = 0;   // ids in front that are no part of the text
  std::size_t surplus = 0;  // ids behind it
  i64 made = 0;
  bool ended = false;
  bool goes_on() const { return !ended && out.stop().empty(); }
};

// What the texts begin with, as they grow together.
class Prompts {
 public:
  Prompts(const GenerateCommand& c, const LanguageModel& m) : c_(c), m_(m), given_(c.prompts) {
    check<ConfigError>(c.prompts.empty() || c.file.empty(),
                       "generate: --prompt and --file both give prompts; use one of them");
    check<ConfigError>(!c.lines || !c.file.empty(), "generate: --lines is for a --file of prompts");
    check<ConfigError>(c.field.empty() || c.lines,
                       "generate: --field is for --lines of JSON with the prompts");
    if (c.chat) {
      check<ConfigError>(
          !c.chat_template.empty() || !data::chat_template_of(*m.tokenizer, m.folder).empty(),
          "generate: no chat template came with ", m.file,
          "; name one (--chat-template): ", data::names_of_chats());
      chat_ = c.chat_template.empty() ? data::chat_of(*m.tokenizer, m.folder) : c.chat_template;
      const std::string end = data::chat_end(chat_, *m.tokenizer);
      if (!end.empty() && !c.ignore_end) stops_.push_back(end);
    }
    if (c.lines) {
      lines_ = std::make_unique<Lines>(c.file);
    } else if (!c.file.empty()) {
      given_ = {whole_file(c.file)};
    } else if (given_.empty()) {
      given_ = {""};
    }
    several_ = c.lines || given_.size() > 1 || c.samples > 1;
  }
  struct Group {
    std::vector<Text> texts;
    std::string wrong;  // with the line behind these, which no text begins with
  };
  // At most `most` texts, or those of one prompt if they are more. Of standard input it takes one
  // line, which is answered before the next is read. An empty group: there is no prompt left.
  Group next(std::size_t most) {
    Group out;
    if (!lines_) {
      for (const std::string& prompt : std::exchange(given_, {}))
        add(prompt, c_.file.empty() ? "--prompt" : c_.file, out.texts);
      return out;
    }
    if (c_.file == "-") most = 1;
    for (std::string line; out.texts.size() < most && out.wrong.empty() && lines_->next(line);) {
      any_ = true;
      try {
        const std::string prompt = prompt_of(line);
        try {
          add(prompt, lines_->place(), out.texts);
        } catch (const DataError& error) {
          out.wrong = lines_->place() + ": " + error.what();
        }
      } catch (const DataError& error) {  // which names the place
        out.wrong = error.what();
      }
    }
    check<DataError>(any_, c_.file, ": has no lines, so no prompts");
    return out;
  }
  // Whether there may be several texts; one alone is shown while it grows.
  bool several() const { return several_; }

 private:
  static std::string whole_file(const std::string& file) {
    std::ifstream in;
    if (file != "-") in.open(file, std::ios::binary);
    std::istream& from = file == "-" ? std::cin : in;
    check<IoError>(from.good() && !std::filesystem::is_directory(file), file,
                   ": cannot open this file with the prompt");
    return {std::istreambuf_iterator<char>(from), {}};
  }

  std::string prompt_of(const std::string& line) const {
    return c_.field.empty() ? line : data::text_in_json(line, c_.field, lines_->place());
  }

  // What a model for chats reads in front of its answer.
  std::string conversation(const std::string& prompt) const {
    std::vector<data::ChatMessage> messages;
    if (!c_.system.empty()) messages.push_back({"system", c_.system});
    messages.push_back({"user", prompt});
    return data::chat_text(chat_, *m_.tokenizer, messages, true);
  }

  void add(const std::string& prompt, const std::string& place, std::vector<Text>& texts) const {
    Ids ids;
    std::size_t hidden = 0;
    if (c_.chat) {
      m_.tokenizer->encode_with_marks(conversation(prompt), ids);
      hidden = ids.size();
    } else {
      ids = m_.tokenizer->frame().before;
      hidden = ids.size();
      const auto encode = c_.marks ? &data::Tokenizer::encode_with_marks : &data::Tokenizer::encode;
      (*m_.tokenizer.*encode)(prompt, ids);
    }
    // as at the beginning of a document
    if (ids.empty()) {
      ids.push_back(std::max(m_.tokenizer->marks().end, 0));
      hidden = 1;
    }
    const i64 positions = m_.net->positions();
    if (static_cast<i64>(ids.size()) > positions)
      say(fmt::format("{}: the prompt has {} ids, the model sees {} at once, so not its beginning",
                      place, ids.size(), positions));
    check<ConfigError>(!c_.logprobs || static_cast<i64>(ids.size()) + c_.tokens <= positions + 1,
                       "generate: --logprobs: the prompt of ", ids.size(), " ids and --tokens ",
                       c_.tokens, " are more than the ", positions,
                       " ids that the model sees at once; make fewer");
    const std::string shown = c_.chat ? "" : prompt;
    for (i64 sample = 0; sample < c_.samples; ++sample) {
      texts.push_back({.ids = ids,
                       .seed = static_cast<std::uint64_t>(c_.seed + sample),
                       .out = TextStream(several_ || c_.json, stops_),
                       .made_text = data::TextOfIds(*m_.tokenizer, !shown.empty()),
                       .hidden = hidden});
      texts.back().out.begin(shown);
    }
  }

  const GenerateCommand& c_;
  const LanguageModel& m_;
  std::string chat_;                           // the name of the template
  std::vector<std::string> stops_ = c_.stops;  // and the end of an answer
  std::vector<std::string> given_;
  std::unique_ptr<Lines> lines_;
  bool several_ = false, any_ = false;
};

// Bytes of keys and values of all texts that grow together.
i64 room_for_caches(Device device) { return (device.is_cpu() ? i64{1} : i64{8}) << 30; }

// A decoder for so many texts, whose graph serves group after group: on a GPU batches are powers of
// two. If a step cannot be captured, it says why and goes on without graphs.
class Decoders {
 public:
  explicit Decoders(models::LanguageNet& net)
      : net_(net), device_(net.parameters().front().tensor.device()) {
    if (device_.is_cpu()) return;
    graphs_ = {cuda_graph_capture(device_), [this](const std::string& why) {
                 say_no_graph(why);
                 graphs_.capture = nullptr;  // of the decoders to come
               }};
  }
  Decoders(const Decoders&) = delete;
  Decoders& operator=(const Decoders&) = delete;
  models::Decoder& of(std::size_t texts) {
    const auto batch = static_cast<i64>(device_.is_cpu() ? texts : std::bit_ceil(texts));
    if (!decoder_ || decoder_->texts() != batch) {
      decoder_.reset();  // its memory serves the next one
      decoder_ = std::make_unique<models::Decoder>(net_, batch, graphs_);
    }
    return *decoder_;
  }
  // Texts that grow together: as many as have their keys and values in 1 GiB; on a GPU in 8, but no
  // more than 32, where each is hardly slower than one alone.
  std::size_t most() const {
    const auto number = static_cast<i64>(size_of(net_.parameters().front().tensor.dtype()));
    const i64 fit = std::max<i64>(1, room_for_caches(device_) / (net_.cache_numbers() * number));
    if (device_.is_cpu()) return static_cast<std::size_t>(fit);
    return std::bit_floor(static_cast<std::size_t>(std::min<i64>(fit, 32)));
  }

 private:
  models::LanguageNet& net_;
  Device device_;
  GraphOptions graphs_;
  std::unique_ptr<models::Decoder> decoder_;
};

// One id after the other, until each text has ended or has as many as were asked for, or a signal
// comes. Where a prompt is longer than the shortest, its ids are taken as they come.
void grow(std::span<Text> texts, const LanguageModel& m, const GenerateCommand& c,
          Decoders& decoders, const std::function<void()>& made_one) {
  std::vector<std::int32_t> ends = m.ends;
  ends.push_back(m.tokenizer->marks().end);  // of --tokenizer, too
  const auto growing = [&](const Text& t) { return t.goes_on() && t.made < c.tokens; };
  models::Decoder& decoder = decoders.of(texts.size());
  std::vector<std::uint64_t> seeds(static_cast<std::size_t>(decoder.texts()));
  for (std::size_t i = 0; i < texts.size(); ++i) seeds[i] = texts[i].seed;
  // Ids that the tokenizer does not have, of a vocabulary that was rounded up, never come.
  Choice choice = c.sampling.over(m.choice);
  choice.known = m.tokenizer->size();
  decoder.begin(choice, seeds);
  std::vector<const Ids*> so_far;
  for (const Text& t : texts) so_far.push_back(&t.ids);
  models::GrowingTexts group(so_far, decoder, !c.no_cache);
  while (std::ranges::any_of(texts, growing) && stop_signal() == 0) {
    const std::size_t known = group.known();
    const Ids ids = group.next();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      Text& text = texts[i];
      if (text.ids.size() > known) continue;
      const bool grows = growing(text);
      const std::int32_t next = ids[i];
      const bool ends_here = std::ranges::find(ends, next) != ends.end();
      text.ended = text.ended || (grows && ends_here && !c.ignore_end);
      text.ids.push_back(next);
      if (!grows || text.ended) {
        ++text.surplus;
        continue;
      }
      ++text.made;
      made_one();
      std::string piece;
      text.made_text.add(next, piece);
      text.out.add(piece);
    }
  }
}

// An id with its text, where the tokenizer has it, and its log p.
JsonObject with_log_p(const data::Tokenizer& tokenizer, std::int32_t id, float log_p) {
  std::string text;
  if (id < tokenizer.size()) tokenizer.decode(std::span(&id, 1), text);
  return JsonObject().add("id", id).add("text", text).add("logprob", log_p);
}

// Of each id that was made: its log p behind the ids in front of it, as the model has it, and the
// `likely` likeliest ids in its place. The text is read once more.
std::vector<JsonObject> log_p_of(const Text& text, const LanguageModel& m, i64 likely) {
  std::vector<JsonObject> out;
  if (text.made == 0) return out;
  const NoGrad no_grad;
  const auto end = static_cast<i64>(text.ids.size() - text.surplus), first = end - text.made;
  const Ids read(text.ids.begin(), text.ids.begin() + end - 1);
  const Tensor ids = Tensor::from(read, {1, end - 1});
  const Tensor hidden = m.net->hidden(ids.to(m.net->parameters().front().tensor.device()))
                            .reshape({end - 1, m.net->width()});
  constexpr i64 kRows = 64;  // whose logits exist at a time
  for (i64 at = first; at < end; at += kRows) {
    const i64 rows = std::min(kRows, end - at), count = std::min(likely, m.net->vocabulary());
    const Tensor logits = cast(m.net->logits(hidden.slice(at - 1, at - 1 + rows)), DType::f32);
    const Tensor log_p = log_softmax(logits).to(Device::cpu());
    Likeliest top;
    if (count > 0) {
      top = likeliest(logits, count);
      top = {top.ids.to(Device::cpu()), top.log_p.to(Device::cpu())};
    }
    for (i64 row = 0; row < rows; ++row) {
      const std::int32_t id = text.ids[static_cast<std::size_t>(at + row)];
      std::vector<JsonObject> others;
      for (i64 i = row * count; i < (row + 1) * count; ++i)
        others.push_back(
            with_log_p(*m.tokenizer, top.ids.as<std::int32_t>()[i], top.log_p.as<float>()[i]));
      out.push_back(with_log_p(*m.tokenizer, id, log_p.as<float>()[row * log_p.shape(1) + id]));
      if (count > 0) out.back().add("top", others);
    }
  }
  return out;
}

// Grows them, and prints what has not been shown yet.
void write_texts(std::span<Text> texts, bool first, bool several, const LanguageModel& m,
                 const GenerateCommand& c, Decoders& decoders,
                 const std::function<void()>& made_one) {
  const auto began = std::chrono::steady_clock::now();
  stop_after_step();  // what has been made until then is printed
  grow(texts, m, c, decoders, made_one);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  i64 made = 0;
  for (const Text& t : texts) made += t.made;
  for (Text& t : texts) {
    const std::string& text = t.out.end();
    if (c.json) {
      const auto ids = std::span(t.ids).subspan(t.hidden, t.ids.size() - t.hidden - t.surplus);
      JsonObject out;
      out.add("text", text);
      if (!c.stops.empty()) out.add("stop", t.out.stop());
      out.add("ids", Ids(ids.begin(), ids.end()))
          .add("tokens", t.made)
          .add("tokens_per_s", static_cast<double>(made) / seconds);
      if (c.logprobs) out.add("logprobs", log_p_of(t, m, *c.logprobs));
      fmt::print("{}\n", out.str());
    } else if (several) {
      fmt::print("{}{}\n", first && &t == &texts[0] ? "" : "---\n", text);
    }
  }
}

}  // namespace

int generate(const GenerateCommand& c) {
  models::check_choice(c.sampling.over({}));
  check<ConfigError>(c.tokens >= 1, "generate: --tokens ", c.tokens, "; wanted at least 1");
  check<ConfigError>(c.samples >= 1, "generate: --samples ", c.samples, "; wanted at least 1");
  check<ConfigError>(!c.logprobs || (c.json && *c.logprobs >= 0),
                     "generate: --logprobs N, from 0 on, is for --json");
  check<ConfigError>(c.threads >= 0, "generate: --threads ", c.threads, "; wanted at least 1");
  set_compute_threads(c.threads > 0 ? c.threads : cores());
  Config config = load_config(c.arguments);
  allow_keys(config, "generate", {"model.heads", "train.dtype", "train.device"});
  if (!config.origin.contains("train.dtype")) config.train.dtype = c.dtype;
  const Device device = command_device(config);
  const DType dtype = compute_type(config.train.dtype, !device.is_cpu());
  const ModelSource model = find_model(c.model, config);
  check_task(model, "generate", "language");
  LanguageModel m =
      load_language_model(model, dtype, config.model.heads, device, room_for_caches(device));
  for (const std::string& line : m.notes) say(line);
  if (!c.tokenizer.empty()) {
    const auto given = data::open_tokenizer(c.tokenizer);
    check<ConfigError>(!m.tokenizer || m.tokenizer->same_ids(*given), "--tokenizer ", c.tokenizer,
                       ": the model has another tokenizer, beside ", m.file,
                       "; leave --tokenizer out");
    m.tokenizer = given;
  }
  check<ConfigError>(m.tokenizer != nullptr, m.file,
                     ": there is no tokenizer beside it; name its folder with --tokenizer");
  check<ConfigError>(m.tokenizer->size() <= m.net->vocabulary(), "--tokenizer ", c.tokenizer,
                     " has ", m.tokenizer->size(), " ids, the model ", m.net->vocabulary());
  if (const Choice used = c.sampling.over(m.choice); used != c.sampling.over({}))
    say(fmt::format(
        "{}: generation_config.json beside it decides where no option does: temperature "
        "{}, top-k {}, top-p {}, min-p {}, repetition penalty {}",
        m.file, used.temperature, used.top_k, used.top_p, used.min_p, used.repetition_penalty));
  Prompts prompts(c, m);
  const bool several = prompts.several();
  Decoders decoders(*m.net);
  const std::size_t step = decoders.most();
  bool first = true, left_out = false;
  // One text alone is shown as it grows.
  ProgressLine line("generate", {.unit = "ids", .silent = !progress_is_seen(true) || !several});
  i64 ids = 0;
  const auto made_one = [&] { line.show(++ids); };
  for (;;) {
    install_stop_handlers();  // nothing is lost while a prompt is waited for
    Prompts::Group group = prompts.next(step);
    if (group.texts.empty() && group.wrong.empty()) break;
    for (std::size_t at = 0; at < group.texts.size() && stop_signal() == 0; at += step) {
      const std::size_t count = std::min(step, group.texts.size() - at);
      write_texts(std::span(group.texts).subspan(at, count), first, several, m, c, decoders,
                  made_one);
      first = false;
    }
    if (stop_signal() != 0) return stopped_code();
    if (!group.wrong.empty()) {
      left_out = true;
      say(group.wrong);
      fmt::print("{}\n", c.json  ? JsonObject().add("error", group.wrong).str()
                         : first ? ""
                                 : "---\n");
      first = false;
    }
    std::fflush(stdout);
  }
  return left_out ? 3 : 0;
}

}  // namespace gossamer::apps
