// Language models as a task of `gossamer train`: samples are ids, called tokens.
#pragma once

#include "gossamer/apps/train/task.h"
#include "gossamer/data/text/text_set.h"

namespace gossamer::apps {

// What is measured of a text: the mean loss of its ids, and what follows from it.
struct TextScore {
  double loss = 0;           // nats of an id
  double perplexity = 0;     // exp(loss)
  double bits_per_byte = 0;  // comparable between vocabularies; NaN: the bytes are not known
};
// loss: the mean of so many ids, of a text of so many bytes (0: not known).
TextScore text_score(double loss, double ids, double bytes);

// The counts of each model over a share of a text; loss is the sum over `items` ids.
// batch: windows at a time, half as many where memory does not suffice.
std::vector<Counts> evaluate_text(std::span<nn::Module* const>, const data::TextPart&,
                                  const data::Marks&, i64 length, i64 batch, Device,
                                  const TaskMetrics::Share&);

// DataError: the text of `path` has no id that comes after another.
void check_predicts(const std::string& path, const data::TextPart& text);
// The text of data.val, or that beside data.train; empty with data.val=none. ConfigError,
// DataError.
data::TextPart validation_text(const Config&, const data::TextSet& train);

Task language_task(const Config&, const dist::LaunchInfo&, Device);

}  // namespace gossamer::apps
