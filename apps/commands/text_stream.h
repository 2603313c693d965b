// A text that is shown while it grows, up to the first of the texts that end it.
// Threads: one at a time.
#pragma once

#include <string>
#include <vector>

namespace gossamer::apps {

class TextStream {
 public:
  // silent: nothing is printed. stops: none empty; the text ends in front of the first that it has.
  explicit TextStream(bool silent, std::vector<std::string> stops = {});
  // What the text begins with; no stop is looked for in it.
  void begin(const std::string& prompt);
  // Shows whole characters only, for an id may end inside of one, and nothing that may become a
  // stop. Without effect when the text has ended.
  void add(const std::string& bytes);
  // The stop that has ended the text; empty: none has.
  const std::string& stop() const { return stop_; }
  // The text, all of which is shown now, with a line feed behind it.
  const std::string& end();

 private:
  void show(std::size_t until);
  std::size_t certain() const;

  bool silent_;
  std::vector<std::string> stops_;
  std::string text_, stop_;
  std::size_t shown_ = 0, made_ = 0;  // made_: where the prompt ends
};

}  // namespace gossamer::apps
