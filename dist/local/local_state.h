// What the workers of a LocalCluster share: mail, exchanges, collectives, and which worker reaches
// which. Private to dist/local/local_cluster.cpp.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gossamer/dist/transport.h"

namespace gossamer::dist::local {

using Instant = std::chrono::steady_clock::time_point;
inline Instant after(Seconds s) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::min(s, Seconds(1e6)));
}

// One side's exchange, as long as the other side has not come.
struct Waiting {
  std::uint64_t session;
  Tensor send, receive;
  std::vector<char> note;
  Instant deadline;
};

// Members meet here, operation after operation. Broken once, it stays broken: the group is to be
// rebuilt.
struct Context {
  std::vector<int> members;
  std::map<int, void*> arrived;  // rank -> its buffer
  // the operation of this round and its size: all must do the same
  const char* what = "";
  std::size_t bytes = 0;
  std::uint64_t round = 0;
  std::string broken;
  std::set<int> late;  // who did not come, so that it is broken
};

// What one worker holds of another.
struct Link {
  bool up = true;
  std::uint64_t arrivals = 1;  // how often the other has come
  bool cut = false;            // nothing passes
  // to the other, while it may yet be mended: a network would send them again
  std::deque<Message> held;
};

// A worker. One that was revived has a new life; what still runs of the old one is dead for ever,
// and has events of its own.
struct Worker {
  bool dead = false;
  std::size_t life = 0;
  std::deque<std::deque<Event>> mail{1};  // by life
  std::vector<Link> links;
  std::condition_variable filled;
};

struct Shared {
  Shared(int n, Seconds dead, Seconds collective, int began)
      : dead_after(dead),
        collective_limit(collective),
        started(began),
        workers(static_cast<std::size_t>(n)) {
    for (int rank = 0; rank < n; ++rank) {
      Worker& w = worker(rank);
      w.links.resize(workers.size());
      w.dead = rank >= started;
      for (int peer = 0; peer < n; ++peer)
        if (peer != rank && (rank >= started || peer >= started))
          link(rank, peer).up = false, link(rank, peer).arrivals = 0;
    }
  }
  const Seconds dead_after, collective_limit;
  const int started;
  // one for all: this transport is for correctness. Held in all calls below
  std::mutex mutex;
  std::condition_variable changed;  // of contexts
  std::deque<Worker> workers;
  // (owner, peer, session)
  std::map<std::tuple<int, int, std::uint64_t>, Waiting> meetings;
  std::map<std::pair<std::uint32_t, std::vector<int>>, std::shared_ptr<Context>> contexts;
  // a < b; until when it may be mended without a death
  std::map<std::pair<int, int>, Instant> cuts;

  int count() const { return static_cast<int>(workers.size()); }
  Worker& worker(int rank) { return workers.at(static_cast<std::size_t>(rank)); }
  Link& link(int a, int b) { return worker(a).links.at(static_cast<std::size_t>(b)); }
  bool sees(int a, int b) { return !worker(b).dead && (a == b || link(a, b).up); }
  bool reaches(int a, int b) { return sees(a, b) && !link(a, b).cut; }

  void put(int rank, Event e) {
    worker(rank).mail.back().push_back(std::move(e));
    worker(rank).filled.notify_all();
  }
  void put(int rank, Event::Kind kind, int peer, std::string why = {}, std::uint64_t session = 0) {
    put(rank, {.kind = kind,
               .peer = peer,
               .message = {},
               .ok = false,
               .session = session,
               .why = std::move(why)});
  }
  void put(int rank, int from, const Message& message) {
    put(rank, {.kind = Event::Kind::message,
               .peer = from,
               .message = message,
               .ok = false,
               .session = 0,
               .why = {}});
  }
  void done(int rank, int peer, std::uint64_t session, bool ok, std::string why = {},
            std::vector<char> note = {}, double squared_distance = 0) {
    put(rank, {.kind = Event::Kind::exchanged,
               .peer = peer,
               .message = {},
               .ok = ok,
               .session = session,
               .note = std::move(note),
               .squared_distance = squared_distance,
               .why = std::move(why)});
  }

  // Ends what this worker waits for in vain: with one peer, with all (-1), or what is late by now.
  // Returns when the next will be late.
  template <class Test>
  void end_meetings(int owner, Test test) {
    for (auto it = meetings.lower_bound({owner, -1, 0});
         it != meetings.end() && std::get<0>(it->first) == owner;) {
      const auto [self, peer, session] = it->first;
      if (!test(peer, it->second)) {
        ++it;
        continue;
      }
      it = meetings.erase(it);
      done(owner, peer, session, false,
           "worker " + std::to_string(peer) + " did not come, or is gone");
    }
  }

  // Both sides have come: copies both ways.
  void meet(int a, int b, std::uint64_t session) {
    const auto first = meetings.find({a, b, session}), second = meetings.find({b, a, session});
    if (first == meetings.end() || second == meetings.end() || !reaches(a, b)) return;
    const Waiting x = first->second, y = second->second;
    const auto mirror = [](const Tensor& from, const Tensor& to) {
      const auto bytes = [](const Tensor& t) { return t.defined() ? t.bytes() : 0; };
      return bytes(from) == bytes(to) && (bytes(to) == 0 || from.dtype() == to.dtype());
    };
    meetings.erase(first);
    meetings.erase(second);
    if (!mirror(x.send, y.receive) || !mirror(y.send, x.receive)) {
      const char* why = "one side sends another number or type of values than the other receives";
      done(a, b, session, false, why);
      done(b, a, session, false, why);
      return;
    }
    for (const auto& [from, to] : {std::pair(x.send, y.receive), std::pair(y.send, x.receive)})
      if (to.defined()) std::memcpy(to.data(), from.data(), to.bytes());
    done(a, b, session, true, "", y.note, distance_of_exchange(x.send, x.receive));
    done(b, a, session, true, "", x.note, distance_of_exchange(y.send, y.receive));
  }

  // Each living side of a link gives the other up.
  void part(int a, int b, const std::string& why) {
    cuts.erase(std::minmax(a, b));
    for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
      if (!link(self, peer).up) continue;
      link(self, peer).up = false;
      link(self, peer).held.clear();
      end_meetings(self, [with = peer](int p, const Waiting&) { return p == with; });
      if (!worker(self).dead) put(self, Event::Kind::dead, peer, why);
    }
    for (auto& [key, context] : contexts)
      if (std::ranges::count(context->members, a) + std::ranges::count(context->members, b) == 2 &&
          context->broken.empty())
        context->broken = worker(a).dead ? "worker " + std::to_string(a) + " died"
                                         : "workers " + std::to_string(a) + " and " +
                                               std::to_string(b) + " have parted";
    changed.notify_all();
  }

  void unite(int a, int b) {
    for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
      link(self, peer).up = true;
      put(self, Event::Kind::joined, peer, {}, ++link(self, peer).arrivals);
    }
  }

  // Workers that were cut off for too long are given up. Returns when the next will be.
  Instant expire_cuts() {
    Instant next = Instant::max();
    for (auto it = cuts.begin(); it != cuts.end();) {
      const auto [pair, limit] = *it++;
      if (limit <= std::chrono::steady_clock::now())
        part(pair.first, pair.second,
             "no heartbeat for " + std::to_string(dead_after.count()) + " s");
      else
        next = std::min(next, limit);
    }
    return next;
  }

  // Waits on `what` until test() holds; false when it does not by `limit`. owner: exchanges of this
  // worker may come to be late meanwhile.
  template <class Test>
  bool wait(std::unique_lock<std::mutex>& lock, std::condition_variable& what, Instant limit,
            int owner, Test test) {
    for (;;) {
      Instant next = std::min(limit, expire_cuts());
      const Instant now = std::chrono::steady_clock::now();
      if (owner >= 0)
        end_meetings(owner, [&](int, const Waiting& w) {
          if (w.deadline > now) next = std::min(next, w.deadline);
          return w.deadline <= now;
        });
      if (test()) return true;
      if (now >= limit) return false;
      what.wait_until(lock, next);
    }
  }
};

// One life of a worker: what its link, payload, collectives and group know of themselves.
struct Self {
  Shared& shared;
  int rank;
  std::size_t life;
  bool dead() const { return shared.worker(rank).dead || shared.worker(rank).life != life; }
  std::deque<Event>& mail() const { return shared.worker(rank).mail[life]; }
  void post(Event e) const {
    mail().push_back(std::move(e));
    shared.worker(rank).filled.notify_all();
  }
};

}  // namespace gossamer::dist::local
