// The shapes of graphs: from a name and n to edges with relative rates. Private to graph.cpp and
// rounds.cpp.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/dist/graph/graph.h"

namespace gossamer::dist::shapes {

// "random-regular:4" -> {random-regular, 4}
struct Name {
  std::string base, argument;
};
Name split(const std::string& name);
// A number of the argument. ConfigError, with an example of the whole name, if it is none.
template <class T>
T whole_number(const Name& name, std::string_view text, const char* example) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check<ConfigError>(error == std::errc() && end == text.data() + text.size(), "graph ", name.base,
                     ":", name.argument, ": \"", std::string(text),
                     "\" is not a whole number; write for example ", example);
  return value;
}

bool known(const std::string& base);
std::vector<std::string> names();  // that need no argument

// Edges once each, a < b, ascending, rates relative. ConfigError: argument or n that the shape
// can't have.
std::vector<Edge> make(const Name&, int n, int per_node);
// How many workers a node of aer has: the argument, else per_node. ConfigError if n does not fit.
int workers_per_node(const Name&, int n, int per_node);

// The edges of a file; see parse_graph().
std::vector<Edge> parse_edges(std::string_view text, const std::string& path, int n);
std::vector<Edge> read_edges(const std::string& path, int n);

// The first worker that no path leads to from worker 0; -1 if all are connected.
int unreachable(int n, const std::vector<Edge>& edges);

}  // namespace gossamer::dist::shapes
