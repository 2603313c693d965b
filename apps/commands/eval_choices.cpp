// `gossamer eval RUN --choices FILE.jsonl`: how often a language model finds the right ending
// likelier than the others.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

#include <fmt/core.h>

#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/commands/eval_text.h"
#include "gossamer/apps/report/progress.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/evaluate.h"
#include "gossamer/apps/train/fitting_batch.h"
#include "gossamer/apps/train/language_model.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/data/text/choices.h"
#include "gossamer/data/text/text_file.h"

namespace gossamer::apps {
namespace {

using Ids = std::vector<std::int32_t>;

// A context with one ending: the ids from `first` on are the ending's.
struct Row {
  Ids ids;
  std::size_t first = 0;
  double bytes = 0;  // of the ending
};

// As lm-evaluation-harness has it: the ids of both together, of which as many as those of the
// context alone, without spaces at its end, are the context's; so tokenizers that join across the
// border are treated alike.
// What the model does not see at once is cut from the front of the context.
Row row_of(const data::Choices& question, const std::string& ending,
           const data::Tokenizer& tokenizer, i64 positions, const std::string& place) {
  const std::string joint = ending.starts_with(' ') ? "" : " ";
  Row row;
  const Ids before = tokenizer.frame().before;
  Ids context, whole;
  tokenizer.encode(question.context.substr(0, question.context.find_last_not_of(' ') + 1), context);
  tokenizer.encode(question.context + joint + ending, whole);
  row.bytes = static_cast<double>(ending.size());
  row.ids = before;
  row.ids.insert(row.ids.end(), whole.begin(), whole.end());
  row.first = before.size() + context.size();
  const auto most = static_cast<std::size_t>(positions) + 1;  // the last id is a label only
  const std::size_t cut = row.ids.size() > most ? row.ids.size() - most : 0;
  check<DataError>(row.first > cut && row.first < row.ids.size(), place,
                   row.first == 0     ? ": the context has no id to predict an ending from"
                   : row.first <= cut ? ": an ending is longer than the model sees at once"
                                      : ": an ending has no id of its own");
  row.ids.erase(row.ids.begin(), row.ids.begin() + static_cast<std::ptrdiff_t>(cut));
  row.first -= cut;
  return row;
}

// log p of the ids of each row's ending.
std::vector<double> scores_of(models::LanguageNet& net, std::span<const Row> rows, Device device) {
  const NoGrad no_grad;
  std::size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, row.ids.size() - 1);
  const auto length = static_cast<i64>(longest), count = static_cast<i64>(rows.size());
  // What stands behind a row changes nothing in front of it.
  Ids inputs(static_cast<std::size_t>(count * length), 0);
  for (i64 i = 0; i < count; ++i) {
    const Ids& ids = rows[static_cast<std::size_t>(i)].ids;
    std::copy(ids.begin(), ids.end() - 1, inputs.begin() + i * length);
  }
  const Tensor hidden = net.hidden(Tensor::from(inputs, {count, length}).to(device))
                            .reshape({count * length, net.width()});
  std::vector<double> out;
  for (i64 i = 0; i < count; ++i) {
    const Row& row = rows[static_cast<std::size_t>(i)];
    const Ids ending(row.ids.begin() + static_cast<std::ptrdiff_t>(row.first), row.ids.end());
    const auto n = static_cast<i64>(ending.size());
    const i64 begin = i * length + static_cast<i64>(row.first) - 1;
    const Tensor loss =
        net.loss_of(hidden.slice(begin, begin + n), Tensor::from(ending, {n}).to(device));
    out.push_back(-static_cast<double>(loss.item()) * static_cast<double>(n));
  }
  return out;
}

struct Right {
  i64 questions = 0;
  i64 sum = 0, by_id = 0, by_byte = 0;
};

// Of equal scores the first counts as the likeliest.
void count(Right& right, const data::Choices& question, std::span<const Row> rows,
           std::span<const double> scores) {
  const auto likeliest = [&](auto size_of) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < rows.size(); ++i)
      if (scores[i] / size_of(rows[i]) > scores[best] / size_of(rows[best])) best = i;
    return best == question.right;
  };
  ++right.questions;
  right.sum += likeliest([](const Row&) { return 1.0; });
  right.by_id +=
      likeliest([](const Row& row) { return static_cast<double>(row.ids.size() - row.first); });
  right.by_byte += likeliest([](const Row& row) { return row.bytes; });
}

}  // namespace

int eval_choices(const EvalCommand& command, const LanguageModel& m, const Config& config,
                 Device device) {
  check<ConfigError>(m.tokenizer != nullptr, "eval: ", command.model,
                     ": there is no tokenizer beside the model, which --choices needs");
  struct Question {
    data::Choices choices;
    std::vector<Row> rows;
  };
  std::vector<Question> questions;
  data::TextFile file(command.choices);
  for (std::string line; file.next(line);) {
    if (line.find_first_not_of(" \t\r\n") == std::string::npos) continue;
    Question q{data::choices_in_json(line, file.place()), {}};
    for (const std::string& ending : q.choices.endings)
      q.rows.push_back(row_of(q.choices, ending, *m.tokenizer, m.net->positions(), file.place()));
    questions.push_back(std::move(q));
  }
  check<DataError>(!questions.empty(), printable(command.choices), ": holds no question");
  const auto began = std::chrono::steady_clock::now();
  Right right;
  ProgressLine progress("eval", {.total = static_cast<i64>(questions.size()),
                                 .unit = "questions",
                                 .silent = !progress_is_seen(false)});
  for (const Question& q : questions) {
    std::vector<double> scores;
    const auto all = static_cast<i64>(q.rows.size());
    with_fitting_batch(std::min(all, config.eval.batch), device, [&](i64 batch) {
      scores.clear();
      for (i64 at = 0; at < all; at += batch) {
        const auto some = scores_of(
            *m.net,
            std::span(q.rows).subspan(static_cast<std::size_t>(at),
                                      static_cast<std::size_t>(std::min(batch, all - at))),
            device);
        scores.insert(scores.end(), some.begin(), some.end());
      }
      return batch;
    });
    for (const double score : scores) check_finite(score, command.model);
    count(right, q.choices, q.rows, scores);
    progress.show(right.questions);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const auto part = [&](i64 n) {
    return static_cast<double>(n) / static_cast<double>(right.questions);
  };
  if (command.json) {
    print(JsonObject()
              .add("model", command.model)
              .add("questions", right.questions)
              .add("accuracy", part(right.sum))
              .add("accuracy_per_token", part(right.by_id))
              .add("accuracy_per_byte", part(right.by_byte))
              .add("questions_per_s", static_cast<double>(right.questions) / seconds)
              .str() +
          "\n");
    return 0;
  }
  print(
      fmt::format("{}: {:.2f} % of {} questions by log p of the ending, {:.2f} % by log p per "
                  "token, {:.2f} % per byte\n",
                  command.model, 100 * part(right.sum), right.questions, 100 * part(right.by_id),
                  100 * part(right.by_byte)));
  return 0;
}

}  // namespace gossamer::apps
