// The kernels of a step that ran as a graph, added up: how often each is called in a step, and for
// how long it runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <cxxabi.h>

namespace gossamer::testing {

// "void gossamer::detail::block_kernel<K>(K)" of its mangled form: block_kernel<K>, with the
// namespaces of what is in brackets.
inline std::string name_of_kernel(const std::string& mangled) {
  int status = 0;
  char* const text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);
  if (name.starts_with("void ")) name.erase(0, 5);
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<';
    depth -= name[i] == '>';
    if (depth == 0 && name.compare(i, 2, "::") == 0) begin = i + 2;
    // the parameters; not "(anonymous namespace)"
    if (depth == 0 && name[i] == '(' && name.compare(i, 5, "(anon") != 0) name.resize(i);
  }
  return name.substr(begin);
}

class KernelTimes {
 public:
  struct Row {
    std::string name;
    double calls, microseconds;  // of a step
  };

  // A kernel that has run. node: what it is in its graph; 0, outside of a graph: not counted.
  void add(const std::string& name, std::uint64_t node, double microseconds) {
    if (node == 0) return;
    Node& n = nodes_[node];
    n.name = name;
    n.microseconds += microseconds;
    ++n.runs;
  }
  // How often the graph was launched.
  std::int64_t steps() const {
    std::int64_t most = 0;
    for (const auto& [id, node] : nodes_) most = std::max(most, node.runs);
    return most;
  }
  // The longest first.
  std::vector<Row> rows() const {
    std::map<std::string, Row> by_name;
    for (const auto& [id, node] : nodes_) {
      Row& row = by_name[node.name];
      row.calls += static_cast<double>(node.runs) / static_cast<double>(steps());
      row.microseconds += node.microseconds / static_cast<double>(steps());
    }
    std::vector<Row> out;
    for (const auto& [name, row] : by_name) {
      out.push_back(row);
      out.back().name = name_of_kernel(name);
    }
    std::ranges::stable_sort(out, std::ranges::greater{}, &Row::microseconds);
    return out;
  }
  void print(std::FILE* to) const {
    const std::vector<Row> all = rows();
    double calls = 0, sum = 0;
    for (const Row& row : all) calls += row.calls, sum += row.microseconds;
    std::fprintf(to, "kernels of a step: %.0f calls, %.1f us, %lld steps\n", calls, sum,
                 static_cast<long long>(steps()));
    for (const Row& row : all)
      std::fprintf(to, "%10.1f us %6.1f %% %6.0f  %.160s\n", row.microseconds,
                   100 * row.microseconds / sum, row.calls, row.name.c_str());
  }

 private:
  struct Node {
    std::string name;
    double microseconds = 0;
    std::int64_t runs = 0;
  };
  std::map<std::uint64_t, Node> nodes_;
};

}  // namespace gossamer::testing
