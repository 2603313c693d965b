// All-reduce, broadcast and barrier on Gloo, with a name in every error.
#ifdef GOSSAMER_HAS_GLOO
#include "gossamer/dist/net/gloo_collectives.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/dist/net/gloo_context.h"
#include "gossamer/dist/net/greeting.h"

namespace gossamer::dist {
namespace {

using SteadyClock = std::chrono::steady_clock;

template <class T>
void add(void* out, const void* a, const void* b, std::size_t n) {
  T* o = static_cast<T*>(out);
  const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  for (std::size_t i = 0; i < n; ++i) o[i] = x[i] + y[i];
}

std::uint64_t key_of(const std::vector<int>& members, std::uint32_t epoch) {
  std::uint64_t h = 0xcbf29ce484222325ull ^ epoch;
  for (int m : members) h = (h ^ static_cast<std::uint64_t>(m + 1)) * 0x100000001b3ull;
  return h | 1;
}

// Operations meet by their tags. Members that come for different things (one to the end of
// training, another with its gradient) would add what does not belong together; so they wait for
// each other in vain.
template <class T>
std::uint32_t tag_of(std::size_t count) {
  return static_cast<std::uint32_t>((count * 2 + (sizeof(T) == sizeof(double))) * 0x9e3779b1u);
}

constexpr std::size_t kKeptEnds = 256;

std::chrono::milliseconds ms(Seconds s) { return std::chrono::ceil<std::chrono::milliseconds>(s); }

}  // namespace

struct GlooCollectives::Impl {
  AsioLink& link;
  const Seconds limit;
  Seconds allowed = limit;  // of what is under way
  std::uint64_t calls = 0;
  std::vector<int> members;
  std::string broken = "not built yet";  // why there is no context
  // Guards what other threads read: context, members, key, end_elsewhere, rebuilding. Only the
  // thread that calls the operations writes the first three.
  mutable std::mutex mutex;
  std::shared_ptr<GlooContext> context;
  std::uint64_t key = 0;  // names the context, the same on all members; 0: not agreed on yet
  // Which attempt of a rebuild this one makes, and the others make: theirs once all agree.
  std::uint64_t own_attempt = 0;
  std::map<int, std::uint64_t> attempts;
  // A member's operation failed: who was the first, why, and in which context; or the attempt that
  // it has given up.
  struct End {
    int rank;
    std::uint64_t key;
    bool late;
  };
  std::deque<End> ends;  // the last kKeptEnds: one may give up several attempts in a row
  std::atomic<bool> stop{false};
  bool rebuilding = false;
  std::atomic<bool> somebody_came{false};  // while it was

  Impl(AsioLink& l, Seconds s) : link(l), limit(s), members{l.rank()} {}

  // Under the mutex.
  bool given_up(const End& e) const {
    const auto theirs = attempts.find(e.rank);
    return theirs != attempts.end() && theirs->second == e.key;
  }
  std::optional<End> end_elsewhere() const {
    for (const End& e : ends)
      if (e.key == key || given_up(e)) return e;
    return std::nullopt;
  }

  std::vector<int> dead() const {
    std::vector<int> ranks;
    for (int m : members) {
      if (m != link.rank() && !link.alive(m)) ranks.push_back(m);
    }
    return ranks;
  }

  // The most useful sentence that can be said about a failure.
  std::string explain(const std::string& what, const std::string& error) {
    if (const std::string why = link.given_up(); !why.empty()) return what + ": " + why;
    const std::vector<int> gone = dead();
    if (!gone.empty()) {
      return what + ": worker" + (gone.size() > 1 ? "s " : " ") + listed(gone) +
             (gone.size() > 1 ? " are" : " is") + " gone (" + link.why_dead(gone.front()) + ")";
    }
    std::vector<int> absent;
    for (int m : members) {
      if (m != link.rank() && link.mark(m) < calls) absent.push_back(m);
    }
    return what + " among workers " + listed(members) + " failed: " + error +
           (absent.empty() ? ""
                           : "; worker" + std::string(absent.size() > 1 ? "s " : " ") +
                                 listed(absent) + " did not come to this operation");
  }

  void drop(const std::string& why) {
    std::shared_ptr<GlooContext> old;
    {
      std::lock_guard lock(mutex);
      old = std::move(context);
      context.reset();
      key = own_attempt = 0;
      attempts.clear();
      rebuilding = false;
      broken = why;
    }
    if (old) old->abort();
  }

  [[noreturn]] void end(const std::string& what, const std::exception& error) {
    bool late = dynamic_cast<const DistTimeout*>(&error) != nullptr;
    std::string why = error.what();
    bool tries_again = somebody_came;
    const auto ended_elsewhere = [&]() -> std::optional<End> {
      std::lock_guard lock(mutex);
      const std::optional<End> found = end_elsewhere();
      tries_again = tries_again || (found && given_up(*found));
      return found;
    };
    // A connection may show that a worker died, or lost patience, before the control link does,
    // whose thread may wait for a core as long as a frozen worker is waited for.
    const auto until = SteadyClock::now() + ms(link.dead_after());
    std::optional<End> other = ended_elsewhere();
    while (dead().empty() && !late && !(other && (other->late || tries_again)) && !stop &&
           link.given_up().empty() && SteadyClock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      other = ended_elsewhere();
    }
    if (other) {
      late = other->late;
      why = late ? "it took too long" : "it failed on worker " + std::to_string(other->rank);
    }
    if (late)
      why += fmt::format(" (limit {:g} s{})", allowed.count(),
                         allowed == limit ? ", collective_timeout_s" : "");
    // The others may wait for each other, and never learn of it from their connection to us.
    // Members that have agreed on another attempt of somebody else know another key.
    const std::uint64_t ended = own_attempt != 0 ? own_attempt : key;
    for (const int m : members)
      if (ended != 0 && m != link.rank()) link.end_collectives(m, ended, late);
    why = explain(what, why);
    drop(why);
    if (!link.given_up().empty()) throw GivenUp(why);
    if (late && dead().empty()) throw DistTimeout(why);
    if (tries_again) throw MembersChanged(why);
    throw DistError(why);
  }

  // Any thread: what is under way ends soon.
  template <class Condition>
  void stop_if(Condition condition) {
    {
      std::lock_guard lock(mutex);
      if (!condition(*this)) return;
      stop = true;
      if (context) context->abort();
    }
    link.interrupt();
  }

  void find_each_other(GlooContext& fresh, std::uint64_t set, SteadyClock::time_point until);

  template <class Operation>
  void run(const char* what, const Operation& operation, Seconds patience = Seconds(0)) {
    allowed = std::max(limit, patience);
    link.set_mark(++calls);
    if (members.size() == 1 && broken.empty()) {
      if (const std::string why = link.given_up(); !why.empty())
        throw GivenUp(std::string(what) + ": " + why);
      return;
    }
    std::shared_ptr<gloo::Context> now;
    {
      std::lock_guard lock(mutex);
      now = context;
    }
    if (!now) fail<DistError>(what, ": the workers can't do this together now (", broken, ")");
    try {
      operation(now);
    } catch (const std::exception& e) {
      end(what, e);
    }
  }

  template <class T>
  void all_reduce(std::span<T> values, Seconds patience = Seconds(0)) {
    run(
        "all_reduce",
        [&](const std::shared_ptr<gloo::Context>& now) {
          if (values.empty()) return;
          gloo::AllreduceOptions options(now);
          options.setOutput(values.data(), values.size());
          options.setReduceFunction(&add<T>);
          options.setTag(tag_of<T>(values.size()));
          options.setTimeout(ms(allowed));
          gloo::allreduce(options);
        },
        patience);
  }

  template <class Options, class Operation>
  void move(const char* what, const Tensor& from, const Tensor& to, Operation operation) {
    run(what, [&](const std::shared_ptr<gloo::Context>& now) {
      if (from.bytes() == 0) return;
      Options options(now);
      options.setInput(static_cast<char*>(from.data()), from.bytes());
      options.setOutput(static_cast<char*>(to.data()), to.bytes());
      options.setTag(tag_of<char>(to.bytes()));
      options.setTimeout(ms(limit));
      operation(options);
    });
  }
};

GlooCollectives::GlooCollectives(AsioLink& link, Seconds limit)
    : impl_(std::make_unique<Impl>(link, limit)) {}
GlooCollectives::~GlooCollectives() = default;

// Members find each other by what they say, over and over until it fits: "this is my attempt, this
// I know of yours, here is my address". So leftovers of an attempt that failed, of the same set in
// the same epoch, mislead nobody: they name an attempt that is not made any more.
void GlooCollectives::Impl::find_each_other(GlooContext& fresh, std::uint64_t set,
                                            SteadyClock::time_point until) {
  struct Known {
    std::uint64_t attempt = 0;
    bool knows_ours = false;
    std::vector<char> address;
  };
  const std::uint64_t own = greeting::fresh_number();
  {
    std::lock_guard lock(mutex);
    own_attempt = own;
  }
  std::map<int, Known> known;
  std::map<int, int> place;
  std::vector<int> others;
  for (std::size_t i = 0; i < members.size(); ++i) {
    place[members[i]] = static_cast<int>(i);
    if (members[i] != link.rank()) others.push_back(members[i]);
  }
  const auto say = [&](int to) {
    std::vector<char> value(16);
    std::memcpy(value.data(), &own, 8);
    std::memcpy(value.data() + 8, &known[to].attempt, 8);
    const std::vector<char>& address = fresh.address();
    value.insert(value.end(), address.begin(), address.end());
    link.put(to, set, value);
  };
  for (const int m : others) say(m);
  const auto all = [&] {
    return std::ranges::all_of(others, [&](int m) { return known[m].knows_ours; });
  };
  while (!all()) {
    auto heard = link.take_any(others, set, until, stop);
    if (stop || !dead().empty()) throw DistError("the members changed");
    if (!heard) {
      std::vector<int> absent;
      for (const int m : others)
        if (!known[m].knows_ours) absent.push_back(m);
      throw DistTimeout("worker(s) " + listed(absent) + " did not come");
    }
    auto& [from, value] = *heard;
    if (value.size() < 16) continue;
    std::uint64_t theirs = 0, of_ours = 0;
    std::memcpy(&theirs, value.data(), 8);
    std::memcpy(&of_ours, value.data() + 8, 8);
    Known& k = known[from];
    const bool news = k.attempt != theirs;
    k.attempt = theirs;
    k.address.assign(value.begin() + 16, value.end());
    k.knows_ours = of_ours == own;
    if (news || !k.knows_ours) say(from);
  }
  {
    std::lock_guard lock(mutex);
    key = own;
    for (const auto& [m, k] : known) {
      key ^= k.attempt;
      attempts[m] = k.attempt;
    }
    if (end_elsewhere()) throw DistError("it failed elsewhere");
  }
  for (const int m : others) fresh.expect(place[m], known[m].address, link.side(m));
}

void GlooCollectives::rebuild(std::vector<int> members, std::uint32_t epoch, Seconds limit) {
  Impl& s = *impl_;
  std::sort(members.begin(), members.end());
  const auto self = std::find(members.begin(), members.end(), s.link.rank());
  check<DistError>(self != members.end(), "rebuild: worker ", s.link.rank(),
                   " is not among the members ", listed(members));
  if (const std::string why = s.link.given_up(); !why.empty()) throw GivenUp("rebuild: " + why);
  s.drop("being rebuilt");
  {
    std::lock_guard lock(s.mutex);
    s.members = members;
    s.stop = s.somebody_came = false;
    s.rebuilding = true;
  }
  s.allowed = limit;
  s.calls = 0;
  s.link.set_mark(0);
  const auto until = SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(limit);
  const int place = static_cast<int>(self - members.begin()), n = static_cast<int>(members.size());
  try {
    // it died while `stop` was being cleared
    if (!s.dead().empty()) throw DistError("a member is gone");
    if (n > 1) {
      auto fresh = std::make_shared<GlooContext>(s.link.local_address(), place, n, ms(s.limit),
                                                 s.link.keys(members));
      {
        std::lock_guard lock(s.mutex);
        s.context = fresh;  // died() reaches it from here on
      }
      s.find_each_other(*fresh, key_of(members, epoch), until);
    }
    std::lock_guard lock(s.mutex);
    s.rebuilding = s.somebody_came = false;
    s.own_attempt = 0;  // whose failure ends this now is known by the key
    s.broken.clear();
  } catch (const std::exception& e) {
    s.end("building the collective group", e);
  }
}

void GlooCollectives::joined(int rank) {
  impl_->stop_if([rank](Impl& s) {
    return s.rebuilding && std::ranges::find(s.members, rank) == s.members.end() &&
           (s.somebody_came = true);
  });
}

void GlooCollectives::interrupt() {
  impl_->stop_if([](const Impl&) { return true; });
}

void GlooCollectives::ended(int rank, std::uint64_t key, bool late) {
  std::lock_guard lock(impl_->mutex);
  impl_->ends.push_back({rank, key, late});
  if (impl_->ends.size() > kKeptEnds) impl_->ends.pop_front();
  if (impl_->context && impl_->end_elsewhere()) impl_->context->abort();
}

void GlooCollectives::died(int rank, bool left) {
  impl_->stop_if([&](const Impl& s) {
    return !left && std::find(s.members.begin(), s.members.end(), rank) != s.members.end();
  });
}

void GlooCollectives::all_reduce_sum(const Tensor& x) { impl_->all_reduce(x.span<float>()); }
void GlooCollectives::all_reduce_sum(std::span<double> values, Seconds patience) {
  impl_->all_reduce(values, patience);
}

void GlooCollectives::broadcast(const Tensor& x, int root) {
  Impl& s = *impl_;
  const auto found = std::find(s.members.begin(), s.members.end(), root);
  check<DistError>(found != s.members.end(), "broadcast from worker ", root,
                   ": it is not among the members ", listed(s.members));
  s.run("broadcast", [&](const std::shared_ptr<gloo::Context>& now) {
    if (x.bytes() == 0) return;
    gloo::BroadcastOptions options(now);
    options.setOutput(static_cast<char*>(x.data()), x.bytes());
    options.setRoot(static_cast<int>(found - s.members.begin()));
    options.setTag(tag_of<char>(x.bytes()));
    options.setTimeout(ms(s.limit));
    gloo::broadcast(options);
  });
}

void GlooCollectives::all_gather(const Tensor& own, const Tensor& all) {
  check_gathered(own.bytes() * impl_->members.size(), all);
  impl_->move<gloo::AllgatherOptions>("all_gather", own, all,
                                      [](auto& options) { gloo::allgather(options); });
}

void GlooCollectives::all_to_all(const Tensor& from, const Tensor& to) {
  check_gathered(from.bytes(), to);
  impl_->move<gloo::AlltoallOptions>("all_to_all", from, to,
                                     [](auto& options) { gloo::alltoall(options); });
}

void GlooCollectives::barrier() {
  impl_->run("barrier", [&](const std::shared_ptr<gloo::Context>& now) {
    gloo::BarrierOptions options(now);
    options.setTimeout(ms(impl_->limit));
    gloo::barrier(options);
  });
}

int GlooCollectives::members() const { return static_cast<int>(impl_->members.size()); }

}  // namespace gossamer::dist
#endif
