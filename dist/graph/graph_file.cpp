// A graph from a file: one edge a line, "a b [rate]". Untrusted text, so every field is checked;
// the parser takes text, no file.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "gossamer/core/error.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/dist/graph/graph_shapes.h"

namespace gossamer::dist::shapes {
namespace {

constexpr std::string_view kBlank = " \t\r\f\v";
// relative to each other: sums of more extreme ones are 0 or infinite
constexpr double kLeastRate = 1e-6, kMostRate = 1e6;

// The next word of a line, taken off its front; empty at the end.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlank));
  line.remove_prefix(word.size());
  return word;
}

template <class T>
std::optional<T> number(std::string_view word) {
  T value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

}  // namespace

std::vector<Edge> parse_edges(std::string_view text, const std::string& path, int n) {
  std::vector<Edge> edges;
  std::map<std::pair<int, int>, int> line_of;
  for (int line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    const std::string_view whole = line, first = take_word(line), second = take_word(line),
                           third = take_word(line), fourth = take_word(line);
    if (first.empty()) continue;
    const auto want = [&](bool ok, const auto&... parts) {
      check<ConfigError>(ok, "graph file ", path, ", line ", line_number, ": ", parts...);
    };
    const auto a = number<int>(first), b = number<int>(second);
    want(a && b && fourth.empty(), "\"", printable(whole, 40),
         "\" is not \"worker worker [rate]\"");
    for (const int worker : {*a, *b})
      want(worker >= 0 && worker < n, "worker ", worker, "; there are 0 to ", n - 1);
    want(*a != *b, "worker ", *a, " is its own neighbour; an edge joins two workers");
    double rate = 1;
    if (!third.empty()) {
      const auto given = number<double>(third);
      want(given && *given >= kLeastRate && *given <= kMostRate, "rate \"", printable(third, 40),
           "\"; it must be a number from 1e-6 to 1e6");
      rate = *given;
    }
    const auto [before, fresh] =
        line_of.emplace(std::pair{std::min(*a, *b), std::max(*a, *b)}, line_number);
    want(fresh, "the edge ", *a, "-", *b, " stands in line ", before->second,
         " already; add the rates instead");
    edges.push_back({std::min(*a, *b), std::max(*a, *b), rate});
  }
  const int lonely = unreachable(n, edges);
  check<ConfigError>(lonely < 0, "graph file ", path, ": no path leads from worker 0 to worker ",
                     lonely, " of ", n, "; add edges until all are connected");
  return edges;
}

std::vector<Edge> read_edges(const std::string& path, int n) {
  check<ConfigError>(!path.empty(),
                     "graph file: no path is given; write file:PATH, with one edge \"worker worker "
                     "[rate]\" a line");
  std::error_code none;
  std::ifstream in(path, std::ios::binary);
  check<ConfigError>(in.is_open() && !std::filesystem::is_directory(path, none), "graph file ",
                     path, ": it can't be read; is the path right?");
  return parse_edges(std::string{std::istreambuf_iterator<char>(in), {}}, path, n);
}

}  // namespace gossamer::dist::shapes
