// See machines.h.
#include "gossamer/dist/simulation/machines.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "gossamer/core/error.h"

namespace gossamer::dist {

double Spread::draw(Rng& random) const {
  switch (kind) {
    case Kind::lognormal:
      return std::exp(sigma * random.normal() - sigma * sigma / 2);
    case Kind::exponential:
      return random.exponential();
    default:
      return 1;
  }
}

Spread make_spread(const std::string& text) {
  if (text == "constant") return {};
  if (text == "exponential") return {Spread::Kind::exponential, 1};
  constexpr std::string_view prefix = "lognormal:";
  if (text.starts_with(prefix)) {
    Spread out{Spread::Kind::lognormal, -1};
    const char* end = text.data() + text.size();
    if (const auto [last, error] = std::from_chars(text.data() + prefix.size(), end, out.sigma);
        error == std::errc() && last == end && out.sigma >= 0 && out.sigma <= 5)
      return out;
  }
  fail<ConfigError>("a spread of times \"", text,
                    "\"; known are: constant, lognormal:SIGMA with SIGMA from 0 to 5, exponential");
}

double Machines::transfer_s(int a, int b, int sharing) const {
  return message_s(a, b) + bytes / (together(a, b) ? node_bandwidth : between_nodes(sharing));
}

double Machines::all_reduce_s(std::span<const int> workers, double all_bytes, int sharing) const {
  const auto m = static_cast<double>(workers.size());
  int nodes = 0, most = 0, here = 0;
  for (std::size_t k = 0; k < workers.size(); ++k) {
    here = k > 0 && together(workers[k - 1], workers[k]) ? here + 1 : 1;
    nodes += here == 1;
    most = std::max(most, here);
  }
  double wire = most > 1 ? node_bandwidth : INFINITY;
  if (nodes > 1) wire = std::min(wire, between_nodes(sharing));
  const double across = nodes > 1 ? nodes : 0;  // of the ring's wires
  const double ring =
      2 * (m - 1) / m * (across * latency_s + (m - across) * node_latency_s + all_bytes / wire);
  const double depth = std::bit_width(static_cast<unsigned>(nodes - 1));
  const double tree = 2 * (depth * latency_s + (most - 1) * node_latency_s + all_bytes / wire);
  return std::min(ring, tree);
}

}  // namespace gossamer::dist
