// How a worker joins others that train in rounds.
//
//   newcomer -> all            ask_state(digests of model, method, graph and budget; nonce: a
//                              number that tells this life of it from others), each second
//   all members                meet, as after a death, and learn which newcomers all have heard
//   each member -> all others  admitted(epoch: 2 rank + 1 of who comes, nonce: how many take part
//                              now, progress: the number of who comes), one for each that takes
//                              part; or to the newcomer no_state: it belongs to another run
//   all, with the newcomers    meet again; in it one that has the state gives it to those that come
//
// A death can end the first meeting for some members only. So that all come to the second with the
// same workers, whoever learns the first time who was admitted, by the meeting or by such messages,
// says it to all of them: an admission is heard by all that live or by none. And since every
// meeting gives the state to whoever in it has none, those that must repeat the first one do what
// the second does.
#include <algorithm>
#include <cmath>
#include <random>

#include "gossamer/core/error.h"
#include "gossamer/dist/rounds/synchronous.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {

constexpr double kAskAgain_s = 1;
constexpr double kMostNumbers = 1 << 24;    // numbers
constexpr std::uint32_t kLives = 1u << 16;  // sums of squares are exact for 2^10 workers

// What comes is put here by a worker that has no state; one that has its own keeps it.
void give(Collectives& all, const Tensor& own, int root, bool keeps) {
  if (own.numel() == 0) return;
  Tensor buffer = keeps ? own.clone() : own;
  all.broadcast(buffer, root);
}

}  // namespace

// --- who has asked: columns of the table of a meeting

void Newcomers::write(std::span<double> table) const {
  for (const auto& [rank, each] : heard_) {
    if (!each.waits) continue;
    double* row = &table[kColumns * static_cast<std::size_t>(rank)];
    row[0] = 1;
    row[1] = each.life;
    row[2] = static_cast<double>(each.life) * each.life;
  }
}

// All lives are the same where the square of their sum is their count times the sum of squares.
Lives Newcomers::heard_by_all(std::span<const double> table, int members) {
  Lives out;
  for (std::size_t rank = 0; rank * kColumns < table.size(); ++rank) {
    const double* row = &table[kColumns * rank];
    if (row[0] == members && row[1] * row[1] == row[0] * row[2])
      out[static_cast<int>(rank)] = static_cast<std::uint32_t>(row[1] / row[0]);
  }
  return out;
}

bool Newcomers::waiting() const {
  return std::ranges::any_of(heard_, [](const auto& each) { return each.second.waits; });
}

// --- members

void SynchronousMethod::asked_to_join(int peer, const Message& m) {
  if (!traits_.joins || std::ranges::find(members_, peer) != members_.end()) return;
  if (m.value != digest_.whole) {
    group_.control().send(peer, {.type = MessageType::no_state,
                                 .epoch = static_cast<std::uint32_t>(Refusal::another_run),
                                 .nonce = m.nonce,
                                 .progress = 0,
                                 .gradients = digest_.parts});
    return;
  }
  if (m.nonce == 0 || m.nonce >= kLives) return;  // no worker says that
  const auto came = came_.find(peer);
  newcomers_.asks(peer, m.nonce, came == came_.end() ? group_.arrivals(peer) : came->second);
}

// A sender says one list after another.
void SynchronousMethod::hear_admission(int peer, const Message& m) {
  const auto places = static_cast<std::uint32_t>(group_.size());
  if (m.epoch / 2 >= places || m.nonce > places || !(m.progress >= 0 && m.progress < kLives))
    return;  // no worker says that
  auto& [wanted, list] = told_[peer];
  if (wanted == 0) wanted = m.nonce;
  list[static_cast<int>(m.epoch / 2)] =
      m.epoch % 2 != 0 ? static_cast<std::uint32_t>(m.progress) : 0;
  if (list.size() < wanted) return;
  const Lives whole = std::move(list);
  told_.erase(peer);
  admit(whole);
}

void SynchronousMethod::admit(const Lives& all) {
  bool news = false;
  for (const auto& [rank, life] : all) {
    if (!admitted_.emplace(rank, life).second || rank == group_.rank()) continue;
    news = true;
    const std::optional<std::uint64_t> arrival = life == 0 || !newcomers_.heard(rank)
                                                     ? group_.arrivals(rank)
                                                     : newcomers_.arrival(rank, life);
    if (arrival && (life != 0 || !has_state_)) membership_.joined(rank, *arrival);
    newcomers_.gone(rank);
  }
  if (!news) return;
  // One may have died since: who knows it already builds anew as those do who learn it only then.
  membership_.renew();
  for (const auto& [to, unused] : all) {
    if (to == group_.rank()) continue;
    for (const auto& [rank, life] : all)
      group_.control().send(to, {.type = MessageType::admitted,
                                 .epoch = static_cast<std::uint32_t>(2 * rank + (life != 0)),
                                 .nonce = static_cast<std::uint32_t>(all.size()),
                                 .progress = static_cast<double>(life)});
  }
}

void SynchronousMethod::let_in(Lives newcomers) {
  for (const int member : members_) newcomers[member] = 0;
  admit(newcomers);
  meet(Purpose::restart, [](Collectives&) {});
}

// In a meeting in which some have no state. A death in it is a death in a meeting: it is done
// again.
void SynchronousMethod::share_state(Collectives& all, int root) {
  give(all, params_.values(), root, has_state_);
  give(all, params_.buffers(), root, has_state_);
  for (const std::vector<NamedTensor>& states : {state(), optimizer_.state()})
    for (const NamedTensor& each : states)
      if (each.name != kPayloadError) give(all, each.tensor, root, has_state_);
}

// Sums of what one has, and of zeros.
void SynchronousMethod::share_note(Collectives& all, int root, Sharing::Change& change) {
  const bool gives = group_.rank() == root;
  std::vector<double> note, sizes(3, 0.0);
  if (gives && options_.tell) note = options_.tell();
  if (gives)
    sizes = {static_cast<double>(note.size()), static_cast<double>(change.done.size()),
             samples_at_change_};
  all.all_reduce_sum(sizes);
  const bool possible = sizes[0] >= 0 && sizes[0] <= kMostNumbers && sizes[1] >= 0 &&
                        sizes[1] <= group_.size() && sizes[2] >= 0;
  check<DistError>(possible, "worker ", root,
                   " says of the samples what no worker says: ", sizes[0], " numbers of ", sizes[1],
                   " workers");
  std::vector<double> shared(2 * static_cast<std::size_t>(sizes[1]), 0.0);  // workers, their steps
  const std::size_t n = shared.size() / 2;
  note.resize(static_cast<std::size_t>(sizes[0]));
  for (std::size_t i = 0; gives && i < n; ++i) {
    shared[i] = change.workers[i];
    shared[n + i] = static_cast<double>(change.done[i]);
  }
  all.all_reduce_sum(shared);
  if (!note.empty()) all.all_reduce_sum(note);
  change = {};
  for (std::size_t i = 0; i < n; ++i) {
    change.workers.push_back(static_cast<int>(std::clamp(shared[i], -1.0, 1e6)));
    change.done.push_back(static_cast<i64>(std::clamp(shared[n + i], 0.0, kMostSteps)));
  }
  if (has_state_) return;
  samples_at_change_ = sizes[2];
  if (options_.told) options_.told(note);
}

// --- the newcomer

void SynchronousMethod::join() {
  has_state_ = false;
  membership_.outside();
  ControlLink& link = group_.control();
  const double until = wall_seconds() + options_.finish_timeout_s;
  const std::uint32_t life = 1 + std::random_device{}() % (kLives - 1);
  double asked = 0;
  while (admitted_.empty()) {
    const double now = wall_seconds();
    bool anyone = false;
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (peer == group_.rank() || !link.alive(peer)) continue;
      anyone = true;
      if (now - asked >= kAskAgain_s)
        link.send(peer, {.type = MessageType::ask_state,
                         .epoch = 0,
                         .nonce = life,
                         .progress = 0,
                         .gradients = digest_.parts,
                         .value = digest_.whole});
    }
    if (now - asked >= kAskAgain_s) asked = now;
    check<DistError>(
        anyone && now < until, "worker ", group_.rank(), ": the others do not let it take part (",
        anyone ? "they have not answered" : "they have gone; the run may be at its end", ")");
    const Event e = link.next(Seconds(kAskAgain_s / 4));
    if (e.kind == Event::Kind::joined)
      came_[e.peer] = e.session != 0 ? e.session : group_.arrivals(e.peer);
    if (e.kind != Event::Kind::message) continue;
    if (e.message.type == MessageType::ask_state) asked_to_join(e.peer, e.message);
    if (e.message.type == MessageType::no_state)
      fail<DistError>("worker ", group_.rank(), ": worker ", e.peer, " has ",
                      difference(digest_.parts, e.message.gradients),
                      "; start this one again with the command and options of the others");
    if (e.message.type == MessageType::admitted) hear_admission(e.peer, e.message);
  }
  while (!has_state_) meet(Purpose::restart, [](Collectives&) {});
}

}  // namespace gossamer::dist
