// Decodes a whole data set and collects what is wrong or unusual.
#include "gossamer/data/check.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/image.h"
#include "gossamer/data/codec/picture_facts.h"
#include "gossamer/data/work.h"

namespace gossamer::data {

CheckReport check_pictures(const Dataset& set, int threads, FunctionRef<bool(i64)> tick) {
  struct Noted {
    i64 index;
    std::string text;
  };
  CheckReport report;
  std::mutex mutex;
  std::vector<Noted> damaged;
  std::map<std::string, std::vector<Noted>> odd;
  const bool raw = set.raw().height > 0;
  const auto note_size = [&](int width, int height) {
    report.least_side = std::min({report.least_side ? report.least_side : width, width, height});
    report.most_side = std::max({report.most_side, width, height});
  };
  report.whole = for_each_sample(
      0, set.size(), threads,
      [&](i64 i, std::vector<std::byte>& buffer) {
        const std::string name = set.name(i);
        std::string defect;
        PictureFacts facts;
        ImageSize size;
        std::size_t bytes = 0;
        try {
          const auto content = set.bytes(i, buffer);
          bytes = content.size();
          if (!raw) {
            facts = picture_facts(content);
            size = verify(content, name);
          }
        } catch (const DataError& error) {
          defect = error.what();
        }
        const std::scoped_lock lock(mutex);
        ++report.images;
        report.bytes += bytes;
        if (!defect.empty()) return damaged.push_back({i, defect});
        if (raw) return note_size(set.raw().width, set.raw().height);
        note_size(size.width, size.height);
        facts.width = size.width;
        facts.height = size.height;
        for (const std::string& what : oddities(facts, name)) odd[what].push_back({i, name});
      },
      tick);
  std::ranges::sort(damaged, {}, &Noted::index);
  for (Noted& noted : damaged) report.damaged.push_back(std::move(noted.text));
  for (std::string& text : set.left_out()) report.damaged.push_back(std::move(text));
  for (auto& [what, list] : odd) {
    std::ranges::sort(list, {}, &Noted::index);
    for (Noted& noted : list) report.odd[what].push_back(std::move(noted.text));
  }
  return report;
}

}  // namespace gossamer::data
