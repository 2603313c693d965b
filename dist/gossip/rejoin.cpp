// Takes over a neighbour's state, and sends one to a worker that asks.
#include "gossamer/dist/gossip/rejoin.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/agreement.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {

// A number that no earlier life of this worker has used.
std::uint32_t first_nonce() {
  return static_cast<std::uint32_t>(std::chrono::system_clock::now().time_since_epoch() /
                                    std::chrono::microseconds(1)) &
         0x3fffffffu;
}

// Whom a worker asks for a state: its neighbours first, then all others.
std::vector<int> order_of_asking(const Graph& graph, int self) {
  std::vector<int> order = graph.neighbours(self);
  for (int peer = 0; peer < graph.n; ++peer)
    if (peer != self && std::ranges::find(order, peer) == order.end()) order.push_back(peer);
  return order;
}

}  // namespace

StateBlock::StateBlock(i64 size, bool with_twin, i64 buffer_size,
                       const std::vector<NamedTensor>& optimizer, int workers)
    : workers_(workers) {
  constexpr std::size_t kFloat = sizeof(float);
  std::size_t bytes = 0;
  for (const NamedTensor& each : optimizer) bytes += each.tensor.bytes();
  const i64 of_twin = with_twin ? size : 0, tensors = size + of_twin + buffer_size;
  const auto of_optimizer = static_cast<i64>((bytes + kFloat - 1) / kFloat);
  block_ = Tensor::zeros({tensors + of_optimizer + 2 * numbers()});
  x = block_.slice(0, size);
  if (with_twin) twin = block_.slice(size, 2 * size);
  buffers = block_.slice(size + of_twin, tensors);
  optimizer_ = {reinterpret_cast<char*>(block_.as<float>() + tensors), bytes};
}

void StateBlock::take(const std::vector<NamedTensor>& optimizer) {
  char* to = optimizer_.data();
  for (const NamedTensor& each : optimizer) {
    const Tensor here = each.tensor.to(Device::cpu());
    to = std::copy_n(static_cast<const char*>(here.data()), here.bytes(), to);
  }
}

void StateBlock::give(const std::vector<NamedTensor>& optimizer) const {
  const char* from = optimizer_.data();
  for (const NamedTensor& each : optimizer) {
    const Tensor here = Tensor::empty(each.tensor.shape(), each.tensor.dtype());
    std::copy_n(from, here.bytes(), static_cast<char*>(here.data()));
    from += here.bytes();
    Tensor(each.tensor).copy_from(here);
  }
}

void StateBlock::set_count(const Count& count) {
  std::vector<double> all = {count.progress, count.gradients_of_all};
  for (const Account& a : count.accounts) all.insert(all.end(), {a.share, a.taken_over});
  check(static_cast<i64>(all.size()) == numbers(), "StateBlock: accounts of ",
        count.accounts.size(), " workers, there are ", workers_);
  std::memcpy(block_.as<float>() + block_.numel() - 2 * numbers(), all.data(),
              all.size() * sizeof(double));
}

Count StateBlock::count() const {
  std::vector<double> all(static_cast<std::size_t>(numbers()));
  std::memcpy(all.data(), block_.as<float>() + block_.numel() - 2 * numbers(),
              all.size() * sizeof(double));
  Count out{all[0], all[1], {}};
  for (std::size_t i = 2; i < all.size(); i += 2) out.accounts.push_back({all[i], all[i + 1]});
  return out;
}

std::uint64_t state_session(std::uint32_t nonce) { return 1ull << 63 | nonce; }

Takeover take_over(StateBlock& block, const RunDigest& digest, Group& group, const Graph& graph,
                   Seconds patience, Seconds limit) {
  ControlLink& link = group.control();
  const std::vector<int> order = order_of_asking(graph, group.rank());
  const double until = wall_seconds() + limit.count();
  std::uint32_t nonce = first_nonce();
  Takeover out;
  std::string why = "none is alive";
  while (wall_seconds() < until) {
    bool anyone = false;
    for (const int neighbour : order) {
      if (!link.alive(neighbour)) continue;
      anyone = true;
      link.send(neighbour, {.type = MessageType::ask_state,
                            .epoch = 0,
                            .nonce = ++nonce,
                            .progress = 0,
                            .gradients = digest.parts,
                            .value = digest.whole});
      group.payload().exchange(neighbour, state_session(nonce), {}, block.tensor(), {}, patience);
      bool refused = false;
      for (bool waiting = true; waiting;) {
        const Event e = link.next(Seconds(1));
        const bool of_neighbour = e.peer == neighbour;
        if (e.kind == Event::Kind::exchanged && of_neighbour && e.session == state_session(nonce)) {
          if (e.ok) return out.from = neighbour, out;
          waiting = false;
          if (!refused)
            why = "worker " + std::to_string(neighbour) + ": " +
                  (e.why.empty() ? "the transfer failed" : e.why);
        } else if (e.kind == Event::Kind::message && of_neighbour &&
                   e.message.type == MessageType::no_state && e.message.nonce == nonce) {
          const auto refusal = static_cast<Refusal>(e.message.epoch);
          refused = true;
          why = refusal == Refusal::ending ? "the run is at its end" : "all are busy";
          group.payload().abort(neighbour);
          if (refusal == Refusal::another_run) {
            group.payload().drain(patience);
            fail<DistError>("worker ", group.rank(), ": worker ", neighbour, " has ",
                            difference(digest.parts, e.message.gradients),
                            "; start this one again with the command and options of the others");
          }
        } else if (e.kind == Event::Kind::message && e.message.type == MessageType::ask_state) {
          // It was started again as well, and must ask a worker that has a state.
          link.send(e.peer, {.type = MessageType::no_state,
                             .epoch = static_cast<std::uint32_t>(Refusal::busy),
                             .nonce = e.message.nonce});
        } else if (e.kind != Event::Kind::none &&
                   !(e.kind == Event::Kind::message && e.message.type == MessageType::back)) {
          if (e.kind == Event::Kind::dead && of_neighbour) group.payload().abort(neighbour);
          out.early.push_back(e);
        }
      }
    }
    if (!anyone) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  fail<DistError>("worker ", group.rank(), ": no worker gave it the state to go on with (", why,
                  "); the others go on without it");
}

void StateSender::refuse(int peer, std::uint32_t nonce, Refusal why) {
  group_.control().send(peer, {.type = MessageType::no_state,
                               .epoch = static_cast<std::uint32_t>(why),
                               .nonce = nonce,
                               .progress = 0,
                               .gradients = digest_.parts});
}

void StateSender::asked(int peer, const Message& m, bool ending) {
  if (m.value != digest_.whole) return refuse(peer, m.nonce, Refusal::another_run);
  if (ending) return refuse(peer, m.nonce, Refusal::ending);
  if (sending_ || (busy() && peer_ != peer)) return refuse(peer, m.nonce, Refusal::busy);
  peer_ = peer;
  nonce_ = m.nonce;
  wanted_ = true;
  filled_ = false;
  since_ = wall_seconds();
}

void StateSender::fill(const Tensor& x, const Tensor* twin, const Tensor& buffers,
                       const std::vector<NamedTensor>& optimizer, const Count& count) {
  block_ = std::make_unique<StateBlock>(x.numel(), twin != nullptr, buffers.numel(), optimizer,
                                        group_.size());
  block_->x.copy_from(x);
  if (twin) block_->twin.copy_from(*twin);
  if (buffers.numel() > 0) block_->buffers.copy_from(buffers);
  block_->take(optimizer);
  block_->set_count(count);
  wanted_ = false;
  filled_ = true;
}

void StateSender::turn() {
  if (!filled_ || sending_) return;
  filled_ = false;
  sending_ = true;
  group_.payload().exchange(peer_, state_session(nonce_), block_->tensor(), {}, {}, limit_);
}

bool StateSender::ended(const Event& e) {
  if (!sending_ || e.session != state_session(nonce_)) return false;
  sending_ = false;
  block_.reset();
  since_ = wall_seconds();
  if (!e.ok) peer_ = -1;
  return true;
}

bool StateSender::keep(int peer, const Message& back) {
  if (!sending_ || peer_ != peer) return false;
  kept_.push_back(back);
  return true;
}

void StateSender::gone(int peer) {
  if (peer_ != peer) return;
  kept_.clear();
  wanted_ = filled_ = false;
  // the buffer is ours again when its event has come
  if (sending_)
    group_.payload().abort(peer);
  else
    block_.reset();
  peer_ = -1;
}

void StateSender::back(int peer) {
  if (peer_ != peer) return;
  wanted_ = filled_ = false;
  if (!sending_) block_.reset();
  peer_ = -1;
}

bool StateSender::busy() {
  if (peer_ >= 0 && !sending_ && wall_seconds() - since_ > limit_.count()) gone(peer_);
  return peer_ >= 0;
}

}  // namespace gossamer::dist
