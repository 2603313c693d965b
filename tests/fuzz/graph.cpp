// libFuzzer: the text of an edge list (graph file:PATH) through its parser, and what is accepted
// through all that is made of it. The first byte is the number of workers.
//
// sources: dist/graph/graph dist/graph/graph_file graph_shapes graph_constants sparse_laplacian
// sources: dist/graph/translation linear_algebra dist/graph/rounds random printable utf8
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/dist/graph/rounds.h"

namespace {

void require_of_graph(bool right) {
  if (!right) std::abort();
}

void use(const gossamer::dist::Graph& g) {
  using namespace gossamer::dist;
  validate(g);
  double total = 0;
  for (const Edge& e : g.edges) total += e.rate;
  require_of_graph(g.n == 1 || std::abs(total - g.n / 2.0) < 1e-9 * g.n);
  validate(*make_rounds(g));
  if (g.n > 12) return;
  const auto sane = [](const GraphConstants& k) {
    return std::isfinite(k.eta) && k.eta > 0 && std::isfinite(k.alpha_tilde) && k.alpha_tilde > 0;
  };
  try {
    require_of_graph(g.n == 1 || sane(constants(g)));
  } catch (const gossamer::ConfigError&) {  // rates so different that it all but falls apart
  }
  for (int dead = 0; dead < g.n; ++dead) {
    std::vector<bool> gone(static_cast<std::size_t>(g.n));
    gone[static_cast<std::size_t>(dead)] = true;
    for (const Edge& e : heal(g, gone).edges)
      require_of_graph(e.a != dead && e.b != dead && e.a < e.b && e.rate > 0 &&
                       std::isfinite(e.rate));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::optional<gossamer::dist::Graph> graph;
  try {
    graph = gossamer::dist::parse_graph(text, "net.txt", data[0] % 65);
  } catch (const gossamer::ConfigError& e) {
    require_of_graph(std::string_view(e.what()).starts_with("graph file net.txt"));
  }
  if (graph) use(*graph);
  return 0;
}
