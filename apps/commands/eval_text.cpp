// `gossamer eval RUN data.val=DIR` of a language model: loss, perplexity, bits per byte.
#include "gossamer/apps/commands/eval_text.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/config_check.h"
#include "gossamer/apps/report/progress.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/fitting_batch.h"
#include "gossamer/apps/train/language_model.h"
#include "gossamer/apps/train/language_task.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/text/json.h"
#include "gossamer/data/text/window_loader.h"

namespace gossamer::apps {
namespace {

// Windows of `length` ids that overlap: each begins `stride` ids behind the one before, and what
// that one has predicted does not count again. As in Hugging Face's recipe, the last id of a window
// is predicted from the others, and nothing from it. The sums over all ids but the first.
Counts evaluate_sliding(models::LanguageNet& net, const data::TokenFiles& tokens, i64 length,
                        i64 stride, i64 batch, Device device,
                        const std::function<void(i64)>& progress) {
  const NoGrad no_grad;
  Counts counts{.batch = batch};
  const i64 labels = tokens.size() - 1;  // label i is the id behind position i
  i64 done = 0;                          // labels that count already
  for (i64 begin = 0; done < labels;) {
    const auto all = static_cast<std::size_t>(batch * length);
    std::vector<std::int32_t> ids(all, 0), wanted(all, data::kNoLabel);
    i64 counted = 0;
    for (i64 row = 0; row < batch && done < labels; ++row, begin += stride) {
      const i64 end = std::min(begin + length - 1, labels);
      std::vector<std::int32_t> window(static_cast<std::size_t>(end - begin + 1));
      tokens.read(begin, window);
      const auto at = row * length;
      std::copy(window.begin(), window.end() - 1, ids.begin() + at);
      for (i64 i = std::max(begin, done); i < end; ++i, ++counted)
        wanted[static_cast<std::size_t>(at + i - begin)] =
            window[static_cast<std::size_t>(i - begin + 1)];
      done = end;
    }
    const Tensor loss = net.loss(Tensor::from(ids, {batch, length}).to(device),
                                 Tensor::from(wanted, {batch, length}).to(device));
    counts.items += static_cast<double>(counted);
    counts.loss += static_cast<double>(counted) * static_cast<double>(loss.item());
    progress(done);
  }
  return counts;
}

}  // namespace

void begin_text_evaluation(const EvalCommand& command, const std::string& task, Config& config) {
  check<ConfigError>(!command.flip && !command.per_class && !command.confusion &&
                         command.csv.empty() && command.html.empty(),
                     "eval: ", command.model, " is a ", task,
                     " model; --flip, --per-class, --confusion, --csv and --html are for "
                     "pictures");
  const bool language = task == "language";
  check<ConfigError>(language ? !command.beam && !command.length_penalty
                              : !command.stride && command.choices.empty(),
                     "eval: ", command.model, " is a ", task, " model; ",
                     language ? "--beam and --length-penalty are for translation"
                              : "--stride and --choices are for language");
  check<ConfigError>(!command.stride || command.choices.empty(),
                     "eval: --stride is of text, and --choices of questions; leave one out");
  config.dist = {};  // of a run of several workers, perhaps, and this is one process
  config.task = task;
  fit_to_task(config);
  validate(config, 1);
  settle_cpu(config);
  set_compute_threads(compute_threads_for(config, 1));
}

int eval_text(const EvalCommand& command, const ModelSource& source, Config config, Device device) {
  begin_text_evaluation(command, "language", config);
  const LanguageModel m =
      load_language_model(source, compute_type(config.train.dtype), config.model.heads, device);
  for (const std::string& line : m.notes) say(line);
  if (!command.choices.empty()) return eval_choices(command, m, config, device);
  const i64 vocabulary = m.net->vocabulary(), positions = m.net->positions();
  check<ConfigError>(config.data.val[0] != "none" &&
                         (config.data.val[0] != "auto" || config.origin.contains("data.train")),
                     "eval: give the text: data.val=DIR, a folder of `gossamer data tokenize`");
  const data::TextSet set = data::open_text(
      config.data.val[0] == "auto" ? config.data.train[0] : config.data.val[0], vocabulary);
  check<DataError>(!set.pairs, set.path, ": holds pairs of sentences, for translation");
  check<DataError>(!set.tokenizer || !m.tokenizer || set.tokenizer->same_ids(*m.tokenizer),
                   set.path,
                   ": was made with another tokenizer than the model's; tokenize it "
                   "with --tokenizer ",
                   m.folder.string());
  check<DataError>(set.vocabulary <= vocabulary, set.path, ": has ", set.vocabulary,
                   " ids, the model ", vocabulary);
  const data::TextPart& text = set.val.empty() ? set.train : set.val;
  check_predicts(set.path, text);
  const i64 length = config.origin.contains("data.length") ? config.data.length : positions;
  check<ConfigError>(length <= positions, "data.length = ", length, ": ", command.model, " sees ",
                     positions, " ids at once");
  const i64 stride = command.stride.value_or(length);
  check<ConfigError>(stride >= 1 && stride <= length, "eval: --stride ", stride,
                     " must be 1 to data.length = ", length);
  check<ConfigError>(stride == length || !text.learnt, "eval: --stride ", stride, ": ", set.path,
                     " holds examples, each of which is read by itself; leave --stride out");
  nn::Module* const one[] = {m.net.get()};
  const auto began = std::chrono::steady_clock::now();
  const Counts counts = [&] {
    ProgressLine line(
        "eval", {.total = text.labels(), .unit = "tokens", .silent = !progress_is_seen(false)});
    const auto progress = [&](i64 done) { line.show(done); };
    if (stride == length)
      return evaluate_text(one, text, set.marks, length, config.eval.batch, device,
                           {.progress = progress})[0];
    return with_fitting_batch(config.eval.batch, device, [&](i64 batch) {
      return evaluate_sliding(*m.net, *text.tokens, length, stride, batch, device, progress);
    });
  }();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  check_finite(counts.loss / counts.items, command.model);
  say_how_it_ran(config, counts);
  const std::string recipe = stride == length ? "disjoint windows" : "sliding windows";
  const TextScore score =
      text_score(counts.loss / counts.items, counts.items, static_cast<double>(text.text_bytes));
  if (command.json) {
    print(fmt::format("{}\n", JsonObject()
                                  .add("model", command.model)
                                  .add("recipe", recipe)
                                  .add("length", length)
                                  .add("stride", stride)
                                  .add("tokens", counts.items)
                                  .add("loss", score.loss)
                                  .add("perplexity", score.perplexity)
                                  .add("bits_per_byte", score.bits_per_byte)
                                  .add("tokens_per_s", counts.items / seconds)
                                  .str()));
    return 0;
  }
  print(
      fmt::format("{}: loss {:.4f}, perplexity {}{} on {:.0f} tokens, {} at once, {} ({:.0f} "
                  "tokens/s)\n",
                  command.model, score.loss, perplexity_text(score.perplexity),
                  std::isfinite(score.bits_per_byte)
                      ? fmt::format(", {:.4f} bits per byte", score.bits_per_byte)
                      : "",
                  counts.items, length, recipe, counts.items / seconds));
  return 0;
}

}  // namespace gossamer::apps
