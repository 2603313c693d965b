// How a worker that was started again comes back: before its first gradient it takes over the state
// of a neighbour.
//
//   worker -> neighbour   ask_state(nonce, digests of model, method, graph and budget)
//   neighbour -> worker   a one-way exchange of x, x~, batch-norm statistics, the optimizer's state
//                         and progress, or no_state(nonce, why)
//   worker -> all         back: from now on it is a member like any other
//
// The copy is one moment of the neighbour's training: its training thread makes it between two
// steps. If the neighbour dies, refuses or is late, the next one is asked.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/dist/gossip/roster.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/run_digest.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

// What is taken over, as one block of floats, so that one transfer brings it.
class StateBlock {
 public:
  // size: of x, and of x~ if there is one; buffers: of the batch-norm statistics; all in floats.
  // optimizer: Optimizer::state()
  StateBlock(i64 size, bool with_twin, i64 buffers, const std::vector<NamedTensor>& optimizer,
             int workers);
  // windows of the block; twin is undefined without x~
  Tensor x, twin, buffers;
  // The optimizer's state, into the block and out of it.
  void take(const std::vector<NamedTensor>& optimizer);
  void give(const std::vector<NamedTensor>& optimizer) const;
  void set_count(const Count&);
  Count count() const;  // of the worker that sent it
  const Tensor& tensor() const { return block_; }

 private:
  i64 numbers() const { return 2 + 2 * workers_; }  // doubles behind the tensors
  Tensor block_;
  std::span<char> optimizer_;  // of the block
  i64 workers_;
};

struct Takeover {
  int from = -1;             // whose state it was
  std::vector<Event> early;  // what else came meanwhile: to be handled first
};
// Fills `block`. Reads the link itself: nobody else may yet. Asks the neighbours in `graph` first,
// then all others that live, each for `patience` at most, again and again until `limit` is over:
// then DistError, as for a neighbour of another run.
Takeover take_over(StateBlock& block, const RunDigest& digest, Group&, const Graph&,
                   Seconds patience, Seconds limit);

// The other side: sends this worker's state to workers that ask, one at a time. All calls under the
// mutex of that state.
class StateSender {
 public:
  StateSender(Group& group, const RunDigest& digest, Seconds limit)
      : group_(group), digest_(digest), limit_(limit) {}

  // --- communication thread
  void asked(int peer, const Message&, bool ending);  // ending: this worker does no more steps
  void turn();                                        // sends what fill() has copied
  // an exchanged event: true if it was this one's
  bool ended(const Event&);
  void gone(int peer);
  void back(int peer);                       // the worker that asked is a member again
  bool sending() const { return sending_; }  // the payload reads our buffer
  // A `back` of the worker that we still send to: it has all it needs, our payload does not know
  // yet. True: kept until the sending has ended.
  bool keep(int peer, const Message& back);
  std::vector<Message> take_kept() { return std::exchange(kept_, {}); }
  // until the worker that asked is back, is gone, or takes too long
  bool busy();

  // --- training thread, between two steps
  bool wanted() const { return wanted_; }
  void fill(const Tensor& x, const Tensor* twin, const Tensor& buffers,
            const std::vector<NamedTensor>& optimizer, const Count&);

 private:
  void refuse(int peer, std::uint32_t nonce, Refusal);

  Group& group_;
  const RunDigest digest_;
  const Seconds limit_;
  int peer_ = -1;
  std::uint32_t nonce_ = 0;
  double since_ = 0;
  bool wanted_ = false, filled_ = false, sending_ = false;
  std::unique_ptr<StateBlock> block_;
  std::vector<Message> kept_;
};

// The session in which a state travels. No exchange between partners has it.
std::uint64_t state_session(std::uint32_t nonce);

}  // namespace gossamer::dist
