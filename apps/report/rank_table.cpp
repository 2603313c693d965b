// The table is a sum: each worker adds its own row as numbers, and zeros for the others.
#include "gossamer/apps/report/rank_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "gossamer/apps/machine.h"

namespace gossamer::apps {
namespace {

// process, two numbers of threads, letters of the host's name
constexpr std::size_t kName = 64, kRow = 3 + kName;

}  // namespace

std::vector<std::string> rank_table(dist::Group& group, const dist::LaunchInfo& place,
                                    int compute_threads, int data_threads) {
  std::vector<double> rows(kRow * static_cast<std::size_t>(place.size), 0.0);
  const std::string host = host_name();
  double* const own = rows.data() + kRow * static_cast<std::size_t>(place.rank);
  own[0] = getpid(), own[1] = compute_threads, own[2] = data_threads;
  for (std::size_t i = 0; i < std::min(kName, host.size()); ++i)
    own[3 + i] = static_cast<unsigned char>(host[i]);
  group.collectives().all_reduce_sum(std::span<double>(rows));

  const auto name_of = [&](int rank) {
    std::string name;
    for (std::size_t i = 0; i < kName; ++i) {
      const double letter = rows[kRow * static_cast<std::size_t>(rank) + 3 + i];
      if (letter > 0) name += static_cast<char>(static_cast<unsigned char>(letter));
    }
    // Several containers or network namespaces may share one host name; the launcher's name tells
    // them apart.
    const auto r = static_cast<std::size_t>(rank);
    return r < place.hosts.size() && !place.hosts[r].empty() && place.hosts[r] != name
               ? place.hosts[r] + " (" + name + ")"
               : name;
  };
  std::size_t widest = 0;
  for (int r = 0; r < place.size; ++r) widest = std::max(widest, name_of(r).size());
  std::vector<std::string> lines;
  for (int r = 0; r < place.size; ++r) {
    const double* row = rows.data() + kRow * static_cast<std::size_t>(r);
    lines.push_back(fmt::format("worker {:<3} {:<{}}  pid {:<8.0f} {:.0f}+{:.0f} threads  {}", r,
                                name_of(r), widest, row[0], row[1], row[2], place.source));
  }
  return lines;
}

}  // namespace gossamer::apps
