// Who has asked a worker of rounds to take part (joining.cpp).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

namespace gossamer::dist {

// By rank: a number that tells one life of a worker that comes from others of its rank; 0: it took
// part before.
using Lives = std::map<int, std::uint32_t>;

class Newcomers {
 public:
  static constexpr std::size_t kColumns = 3;  // of the table of a meeting, for each rank

  // arrival: which of the arrivals of `rank` (Group::arrivals) it asks in.
  void asks(int rank, std::uint32_t life, std::uint64_t arrival) {
    heard_[rank] = {life, arrival, true};
  }
  void gone(int rank) {  // it died, or takes part
    if (heard(rank)) heard_[rank].waits = false;
  }
  bool waiting() const;  // somebody does
  bool heard(int rank) const { return heard_.contains(rank); }
  // None: `life` is not the last that was heard of.
  std::optional<std::uint64_t> arrival(int rank, std::uint32_t life) const {
    const auto& last = heard_.at(rank);
    return last.life == life ? std::optional(last.arrival) : std::nullopt;
  }
  // table: [ranks * kColumns], of zeros; its sum over `members` workers says whom all have heard.
  void write(std::span<double> table) const;
  static Lives heard_by_all(std::span<const double> table, int members);

 private:
  struct Heard {
    std::uint32_t life = 0;
    std::uint64_t arrival = 0;
    bool waits = false;
  };
  std::map<int, Heard> heard_;
};

}  // namespace gossamer::dist
