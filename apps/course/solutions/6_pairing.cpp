// A solution of unit 6 of the course: who may ask whom.
#include <array>
#include <deque>
#include <vector>

#include "check.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/simulation/timeline.h"

using namespace gossamer;

// Your prediction: one of 16 workers needs ten times as long as the others. What is the efficiency
// of gossip with pairing by messages, and so for all? (1: no worker ever waits. All-reduce: 0.105.)
const double prediction = 1;

// What a worker knows. At most one of the two is not -1.
struct Worker {
  int rank = 0;
  int asked = -1;   // the peer that it has asked and whose answer it waits for
  int paired = -1;  // the peer with which it exchanges
};

// May this worker, which is free (both are -1), ask its neighbour `peer` for an exchange?
bool may_ask(const Worker& self, int peer) {
  if (peer > self.rank) return true;
  return false;
}

// `from` asks this worker. yes: the exchange begins at once. later: the question waits; it is asked
// again when the exchange or the wait of this worker is over. (There is no "no": a slow worker that
// is refused each time would never take part.)
enum class Answer { yes, later };
Answer answer(const Worker& self, int from) {
  if (self.asked < 0 && self.paired < 0) return Answer::yes;
  return Answer::later;
}
