// `gossamer eval RUN data.val=DIR` of a translation model: loss, perplexity and BLEU.
#include <chrono>
#include <cmath>

#include <fmt/core.h>

#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/commands/eval_text.h"
#include "gossamer/apps/report/progress.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/translation_task.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"

namespace gossamer::apps {

int eval_pairs(const EvalCommand& command, const ModelSource& source, Config config,
               Device device) {
  begin_text_evaluation(command, "translation", config);
  const models::BeamOptions usual;
  const TranslateOptions search{
      .beam = command.beam.value_or(usual.beam),
      .length_penalty = command.length_penalty.value_or(usual.length_penalty)};
  check_search("eval", search);
  const TranslationModel m =
      load_translation_model(source, compute_type(config.train.dtype), device);
  for (const std::string& line : m.notes) say(line);
  check<ConfigError>(config.data.val[0] != "none" &&
                         (config.data.val[0] != "auto" || config.origin.contains("data.train")),
                     "eval: give the pairs: data.val=DIR, a folder of `gossamer data tokenize`");
  const data::TextSet set =
      data::open_text(config.data.val[0] == "auto" ? config.data.train[0] : config.data.val[0]);
  check<DataError>(set.pairs && set.tokenizer, set.path, ": holds no pairs of sentences");
  check<DataError>(set.tokenizer->same_ids(*m.tokenizer), set.path,
                   ": was made with another tokenizer than the model's; tokenize it with "
                   "--tokenizer ",
                   m.folder.string());
  const i64 positions = m.net->options().positions,
            length = config.origin.contains("data.length") ? config.data.length : positions;
  check<ConfigError>(length <= positions, "data.length = ", length, ": ", command.model, " reads ",
                     positions, " ids");
  nn::Module* const one[] = {m.net.get()};
  const auto began = std::chrono::steady_clock::now();
  const data::TextPart& pairs = set.val.empty() ? set.train : set.val;
  const Counts counts = [&] {
    ProgressLine line(
        "eval", {.total = pairs.items, .unit = "sentences", .silent = !progress_is_seen(false)});
    return evaluate_pairs(one, pairs, *m.tokenizer,
                          {.tokens = config.train.batch,
                           .rows = config.eval.batch,
                           .search = search,
                           .length = length},
                          device, {.progress = [&](i64 done) { line.show(done); }})[0];
  }();
  const double loss = counts.loss / counts.items,
               seconds =
                   std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  check_finite(loss, command.model);
  say_how_it_ran(config, counts);
  const TranslationCounts counted = TranslationCounts::of(counts.more);
  const data::Bleu bleu = counted.bleu.bleu();
  const double chrf = counted.chrf->score();
  if (command.json)
    print(fmt::format("{}\n", JsonObject()
                                  .add("model", command.model)
                                  .add("tokens", counts.items)
                                  .add("loss", loss)
                                  .add("perplexity", std::exp(loss))
                                  .add("bleu", bleu.score)
                                  .add("bleu_signature", data::bleu_signature())
                                  .add("chrf", chrf)
                                  .add("chrf_signature", data::chrf_signature(1))
                                  .add("beam", search.beam)
                                  .add("length_penalty", search.length_penalty)
                                  .add("tokens_per_s", counts.items / seconds)
                                  .str()));
  else
    print(fmt::format(
        "{}: loss {:.4f}, perplexity {} on {:.0f} tokens, beam {}\n{}\n{}\nchrF2 = {:.2f}\n{}\n",
        command.model, loss, perplexity_text(std::exp(loss)), counts.items, search.beam,
        bleu.text(), data::bleu_signature(), chrf, data::chrf_signature(1)));
  return 0;
}

}  // namespace gossamer::apps
