// See quarantine.h.
#include "gossamer/dist/quarantine.h"

#include <algorithm>
#include <iterator>

#include "gossamer/core/text/listed.h"

namespace gossamer::dist {

std::optional<Message> Quarantine::applied(int peer) {
  in_a_row_.erase(peer);
  return doubts(self_, peer) ? std::optional(say(peer, false)) : std::nullopt;
}

std::optional<Message> Quarantine::refused(int peer, bool own_is_finite) {
  if (++in_a_row_[peer] < kInARow) return {};
  const int of = own_is_finite ? peer : self_;
  return doubts(self_, of) ? std::nullopt : std::optional(say(of, true));
}

Message Quarantine::say(int of, bool doubt) {
  const Message said{
      .type = MessageType::doubt, .epoch = doubt ? 1u : 0u, .value = static_cast<double>(of)};
  heard(self_, said);
  return said;
}

void Quarantine::heard(int from, const Message& doubt) {
  if (!(doubt.value >= 0 && doubt.value < workers_)) return;
  const std::pair about(from, static_cast<int>(doubt.value));
  if (doubt.epoch == 0)
    doubts_.erase(about);
  else
    doubts_.insert(about);
}

void Quarantine::forget(int worker) {
  in_a_row_.erase(worker);
  std::erase_if(doubts_, [&](const auto& d) { return d.first == worker || d.second == worker; });
}

std::vector<int> Quarantine::doubters(int worker, const std::vector<int>& among) const {
  std::vector<int> out;
  std::ranges::copy_if(among, std::back_inserter(out), [&](int n) { return doubts(n, worker); });
  return out;
}

bool Quarantine::is_broken(int worker, const std::vector<int>& neighbours) const {
  if (doubts(worker, worker)) return true;
  const std::size_t count = doubters(worker, neighbours).size();
  return count >= 2 && 2 * count > neighbours.size();
}

std::string Quarantine::verdict(const std::vector<int>& neighbours) const {
  const std::string what = doubts(self_, self_)
                               ? "its model is not finite"
                               : "its model is too far from those of workers " +
                                     listed(doubters(self_, neighbours)) + ", which refuse it";
  return "worker " + std::to_string(self_) +
         " is in quarantine, and the others go on without it: " + what +
         "; look at its loss and its data, and start it again";
}

}  // namespace gossamer::dist
