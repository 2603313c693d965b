// How a worker joins others that train in rounds. It asks all of them, again and again. Whoever has
// heard it wants to meet, as after a death; the meeting finds those that all have heard. They are
// told who takes part, and all meet in one collective more, in which one of those that trained
// before gives its state to those that come. Then the rounds begin anew, with all.
//
//   newcomer -> all       ask_state(digests of model, method, graph and budget), each second
//   each member -> newcomer, for each worker that takes part from now on:
//                         admitted(epoch: 2 rank + 1 of who comes, nonce: how many, value: which
//                         meeting), or no_state: it belongs to another run
#include <algorithm>
#include <map>

#include "gossamer/core/error.h"
#include "gossamer/dist/rounds/synchronous.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {

constexpr double kAskAgain_s = 1;

// This worker's copy, where it gives; else where what comes is put: a worker that has its own keeps
// it.
void take(Collectives& all, Tensor own, int root, bool gives, bool wanted) {
  if (own.numel() == 0) return;
  Tensor buffer = gives || wanted ? own : own.clone();
  all.broadcast(buffer, root);
}

}  // namespace

void SynchronousMethod::asked_to_join(int peer, const Message& m) {
  if (!traits_.joins || std::ranges::find(members_, peer) != members_.end()) return;
  if (m.value == digest_.whole) {
    newcomers_.insert(peer);
    return;
  }
  group_.control().send(peer, {.type = MessageType::no_state,
                               .epoch = static_cast<std::uint32_t>(Refusal::another_run),
                               .nonce = m.nonce,
                               .progress = 0,
                               .gradients = digest_.parts});
}

// After a meeting that has found them: all members do so, with the same.
void SynchronousMethod::let_in(const std::vector<int>& newcomers) {
  std::vector<int> everybody = members_;
  everybody.insert(everybody.end(), newcomers.begin(), newcomers.end());
  for (const int to : newcomers) {
    for (const int rank : everybody) {
      const bool comes = std::ranges::find(newcomers, rank) != newcomers.end();
      Message told{.type = MessageType::admitted};
      told.epoch = static_cast<std::uint32_t>(2 * rank + (comes ? 1 : 0));
      told.nonce = static_cast<std::uint32_t>(everybody.size());
      told.value = static_cast<double>(epoch_);
      group_.control().send(to, told);
    }
    membership_.joined(to);
    newcomers_.erase(to);
  }
  // One may have died since: who knows it already builds anew as those do who learn it only then.
  membership_.renew();
  share_state({newcomers.begin(), newcomers.end()});
}

// All of them, at the same time. A death in it is a death in a collective: the living do it again.
void SynchronousMethod::share_state(const std::set<int>& newcomers) {
  const bool comes = newcomers.contains(group_.rank());
  std::vector<double> numbers;
  membership_.run([&](Collectives& all) {
    const std::vector<int> now = membership_.members();
    const auto old = std::ranges::find_if(now, [&](int r) { return !newcomers.contains(r); });
    check<DistError>(old != now.end(), "worker ", group_.rank(),
                     ": all have gone that had a state to give");
    const int root = *old;
    const bool gives = root == group_.rank();
    numbers = {gives ? samples_ : 0, gives ? static_cast<double>(epoch_) : 0};
    all.all_reduce_sum(numbers);
    take(all, params_.values(), root, gives, comes);
    take(all, params_.buffers(), root, gives, comes);
    for (const NamedTensor& each : state())
      if (each.name != kPayloadError) take(all, each.tensor, root, gives, comes);
    all.barrier();  // nobody goes on while another may have to do this again
  });
  const std::vector<int> now = membership_.members();
  for (const int r : now)
    if (newcomers.contains(r) && r != group_.rank() && options_.on_fault)
      options_.on_fault("joined", r);
  members_ = now;
  samples_ = numbers[0];
  epoch_ = static_cast<std::uint32_t>(numbers[1]);
  if (comes) params_.refresh();
  adopt_members();
  begin_anew();
}

void SynchronousMethod::join() {
  ControlLink& link = group_.control();
  const double until = wall_seconds() + options_.finish_timeout_s;
  std::map<int, bool> told;  // who takes part, and whether it comes
  std::size_t wanted = 0;
  double meeting = -1, asked = 0;
  std::string why = "nobody has answered";
  for (std::uint32_t nonce = 0; told.empty() || told.size() < wanted;) {
    const double now = wall_seconds();
    bool anyone = false;
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (peer == group_.rank() || !link.alive(peer)) continue;
      anyone = true;
      if (now - asked >= kAskAgain_s)
        link.send(peer, {.type = MessageType::ask_state,
                         .epoch = 0,
                         .nonce = nonce,
                         .progress = 0,
                         .gradients = digest_.parts,
                         .value = digest_.whole});
    }
    if (now - asked >= kAskAgain_s) asked = now, ++nonce;
    check<DistError>(anyone && now < until, "worker ", group_.rank(),
                     ": the others do not let it take part (",
                     anyone ? why : "they have gone; the run may be at its end", ")");
    const Event e = link.next(Seconds(kAskAgain_s / 4));
    if (e.kind != Event::Kind::message) continue;
    if (e.message.type == MessageType::no_state)
      fail<DistError>("worker ", group_.rank(), ": worker ", e.peer, " has ",
                      difference(digest_.parts, e.message.gradients),
                      "; start this one again with the command and options of the others");
    if (e.message.type != MessageType::admitted) continue;
    if (e.message.value > meeting) {
      told.clear();
      meeting = e.message.value;
      wanted = e.message.nonce;
    }
    if (e.message.value == meeting)
      told[static_cast<int>(e.message.epoch / 2)] = e.message.epoch % 2 != 0;
  }
  std::set<int> newcomers;
  for (const auto& [rank, comes] : told) {
    if (rank != group_.rank()) membership_.joined(rank);
    if (comes) newcomers.insert(rank);
  }
  share_state(newcomers);
}

}  // namespace gossamer::dist
