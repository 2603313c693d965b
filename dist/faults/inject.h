// Faults on purpose, as text:
//   kill:rank=2@step=300            that process is killed (SIGKILL) when it has done 300 steps
//   stop:rank=1:5s                  it stands still (SIGSTOP) for 5 s
//   slow:rank=1:x3                  its steps take three times as long
//   restart:rank=2@t=40             it is started again 40 s after the beginning, or when it dies
//                                   if that is later (by `gossamer train` only)
//   attack:rank=3:alie              it lies to those it exchanges with (attack.h has the kinds);
//                                   attack:3:alie says the same
//   drop:edge=0-1:p=0.1             a tenth of the pairing messages and exchanges between these two
//                                   is lost
//   delay:edge=0-1:50ms             messages and exchanges arrive this much later
//   partition:0,1|2,3:10s           nothing passes between the sides for 10 s
// Items are separated by commas, each may end in @step=N (own steps of a worker) or @t=SECONDS;
// without, it holds from the beginning.
// Threads: any.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/dist/faults/attack.h"

namespace gossamer::dist {

struct Injection {
  enum class Kind : std::uint8_t {
    kill,
    stop,
    slow,
    restart,
    attack,
    drop,
    delay,
    partition
  } kind = Kind::kill;
  int rank = -1;       // kill, stop, slow, restart, attack
  int a = -1, b = -1;  // drop, delay: a < b
  // partition: at least two; a worker of no side talks to all
  std::vector<std::vector<int>> sides;
  double seconds = 0;      // stop, delay, partition: how long
  double factor = 1;       // slow: at least 1
  double probability = 0;  // drop: 0 to 1
  Attack how = Attack::sign_flip;
  double at_s = 0;   // begins at this time …
  i64 at_step = -1;  // … or at this step, unless -1

  bool process() const { return kind <= Kind::restart; }
  bool of_worker() const { return kind <= Kind::attack; }  // and not of edges
  // An attack by what is sent, not by what is learned.
  bool lies() const { return kind == Kind::attack && how != Attack::label_flip; }
  bool between(int x, int y) const;  // a fault of the link that concerns these two workers
};

// ConfigError names the place: 'inject, character 13 ("x3,drop:"): …'. An empty text is an empty
// list.
std::vector<Injection> parse_injections(const std::string& text);
// ConfigError unless all ranks are below `workers`.
void validate(const std::vector<Injection>&, int workers);
std::string to_text(const Injection&);  // parses to the same

}  // namespace gossamer::dist
