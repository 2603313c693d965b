// Batches for language models: windows of ids, and for each id the one that follows it.
// Threads: one at a time for a WindowLoader.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/tensor.h"
#include "gossamer/data/source.h"
#include "gossamer/data/text/text_set.h"

namespace gossamer::data {

// The label where nothing is to be predicted, so that the loss leaves it out.
constexpr std::int32_t kNoLabel = -1;

// What a window may hold: whatever follows each other; or documents that do not see each other.
enum class Documents { joined, separate };
Documents parse_documents(const std::string& name);  // ConfigError: neither joined nor separate

struct ExampleWindows;  // examples.h

// A text, and its part of an epoch among several.
struct WindowSource {
  std::shared_ptr<const TokenFiles> tokens;
  double weight = 1;
  // Of examples: a Learnt for each id, so that labels are ids that are learnt; and their windows,
  // which hold whole examples, with room behind them.
  std::shared_ptr<const TokenFiles> learnt = {};
  std::shared_ptr<const ExampleWindows> examples = {};
};
// Of training or validation data. packed: see windows_of_examples().
WindowSource window_source(const TextPart&, i64 length, bool packed);

struct WindowLoaderOptions {
  i64 batch = 8;    // windows
  i64 length = 64;  // ids of a window
  // shuffle: the windows begin at another position in every epoch, and come in another order.
  // drop_last = false (evaluation): the last window may be shorter and the last batch smaller, so
  // that every id but the first of the text is a label exactly once.
  EpochOptions epoch{};
  Documents documents = Documents::joined;
  // An epoch has as many windows as all texts together. Of text i it has weight_i / (all weights)
  // of them, and a text is read to its end before it is read again, in this epoch or a later one;
  // false: every window of each text, once.
  bool weighted = false;
  bool pinned = false;  // page-locked memory, so that copies to a GPU run beside the CPU
};

struct WindowBatch {
  Tensor inputs;  // i32 [N, length]; undefined: the epoch is over
  // i32 [N, length]: the next ids, or kNoLabel behind the end of the text and for ids of examples
  // that are not learnt
  Tensor labels;
  // Documents::separate: i32 [N, length], where in its window the document or example of each id
  // begins. An end mark has no label then, because what follows is another document.
  Tensor begins;
  i64 labelled = 0;  // labels that are ids
};

class WindowLoader final : public BatchSource<WindowBatch> {
 public:
  // DataError: the text does not fill a batch. ConfigError: an option makes no sense.
  WindowLoader(std::shared_ptr<const TokenFiles>, Marks, WindowLoaderOptions);
  // The windows of several texts in one random order; none holds the end of one text and the
  // beginning of another.
  WindowLoader(std::vector<WindowSource>, Marks, WindowLoaderOptions);
  ~WindowLoader() override;

  i64 steps() const override;
  void seek(i64 epoch, i64 step = 0) override;
  void deal(const Deal&) override;
  i64 epoch() const override;
  WindowBatch next() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::data
