// The peers tell each other over the control link where their tensors are, and when they have read.
#include "gossamer/dist/net/memory_edge.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sys/uio.h>
#include <unistd.h>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

constexpr std::size_t kChunk = std::size_t{256} << 10;  // bytes: still in the cache when compared

// What each side tells the other. All bytes come from a worker that knows the job's token, but from
// another build perhaps.
struct Hello {
  std::int64_t process = 0;
  std::uint64_t word = 0;  // where it is
};
struct Offer {
  std::uint64_t address = 0, sends = 0, receives = 0;  // bytes; 0: nothing goes that way
  std::uint64_t send_type = 0, receive_type = 0;
  std::uint64_t note_length = 0;
  std::array<char, kLongestNote> note{};
};
template <class T>
std::vector<char> packed(const T& what) {
  std::vector<char> out(sizeof what);
  std::memcpy(out.data(), static_cast<const void*>(&what), sizeof what);
  return out;
}
template <class T>
T unpacked(const std::vector<char>& bytes, int peer) {
  T out;
  check<DistError>(bytes.size() == sizeof out, "worker ", peer, " sent ", bytes.size(),
                   " bytes to arrange an exchange, wanted ", sizeof out,
                   "; start the same program on all workers");
  std::memcpy(static_cast<void*>(&out), bytes.data(), sizeof out);
  return out;
}

// Which message of a session it is.
enum class Step : std::uint64_t { hello = 1, verdict, offer, done };
std::uint64_t key_of(std::uint64_t session, Step step) {
  return scrambled(session ^ (static_cast<std::uint64_t>(step) << 56) ^ 0x6d656d6f7279ull);
}
std::uint64_t name_of(std::uint64_t session, std::uint64_t secret) {
  return scrambled(session * 2 + 1) ^ secret;
}
std::uint64_t first_word(int rank, std::uint64_t secret) {
  return scrambled(static_cast<std::uint64_t>(rank) + 1) ^ secret;
}

}  // namespace

MemoryEdge::MemoryEdge(AsioLink& link, int peer)
    : link_(link),
      peer_(peer),
      secret_(link.connection(peer)),
      word_(first_word(link.rank(), secret_)) {}

std::shared_ptr<MemoryEdge> MemoryEdge::open(AsioLink& link, int peer, bool wanted,
                                             const PayloadJob& job, const std::atomic<bool>& stop) {
  const std::shared_ptr<MemoryEdge> edge(new MemoryEdge(link, peer));
  const auto told = [&](Step step, const std::vector<char>& own) {
    const std::uint64_t key = key_of(job.session, step);
    link.put(peer, key, own, job.arrival);
    auto theirs = link.take(peer, key, job.until, stop);
    if (theirs) return *std::move(theirs);
    if (!link.alive(peer)) fail<DistError>("worker ", peer, " is gone: ", link.why_dead(peer));
    fail<DistError>(stop ? "given up" : "no answer", " while opening the payload edge to worker ",
                    peer);
  };
  const Hello own{getpid(), reinterpret_cast<std::uint64_t>(&edge->word_)};
  const auto answer = told(Step::hello, wanted ? packed(own) : std::vector<char>());
  if (!wanted || answer.empty()) return nullptr;
  const auto theirs = unpacked<Hello>(answer, peer);
  edge->process_ = static_cast<int>(theirs.process);
  edge->peer_word_ = theirs.word;
  const bool possible = edge->can_read();
  const auto verdict = told(Step::verdict, {static_cast<char>(possible)});
  return possible && verdict.size() == 1 && verdict[0] != 0 ? edge : nullptr;
}

void MemoryEdge::abort() { stop_ = true; }

void MemoryEdge::read(void* to, std::uint64_t from, std::size_t bytes) const {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const iovec here{out, bytes}, there{reinterpret_cast<void*>(from), bytes};
    const ssize_t got = process_vm_readv(process_, &here, 1, &there, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    const int why = got < 0 ? errno : EIO;
    // no such process: it has ended
    if (got <= 0 && why != ESRCH)
      fail<Unreadable>("can't read the memory of worker ", peer_, " (process ", process_,
                       "): ", std::strerror(why));
    if (got <= 0) fail<DistError>("worker ", peer_, " (process ", process_, ") has ended");
    out += got;
    from += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

// That a process of this number can be read is not enough: on another machine it is another one.
bool MemoryEdge::can_read() {
  try {
    std::uint64_t word = 0;
    read(&word, peer_word_, sizeof word);
    return word == first_word(peer_, secret_);
  } catch (const DistError&) {
    return false;
  }
}

PayloadEdge::Arrival MemoryEdge::carry(const PayloadJob& job) {
  // However this ends, nothing of ours is offered afterwards.
  struct Offered {
    std::atomic<std::uint64_t>& word;
    // ARM may show later writes to the tensor before a store, even a sequentially consistent one.
    ~Offered() {
      word = 0;
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  } const offered{word_};
  word_ = name_of(job.session, secret_);

  Offer own;
  if (goes(job.send)) {
    own.address = reinterpret_cast<std::uint64_t>(job.send.data());
    own.sends = job.send.bytes();
    own.send_type = static_cast<std::uint64_t>(job.send.dtype());
    own.note_length = job.note.size();
    std::ranges::copy(job.note, own.note.begin());
  }
  if (goes(job.receive)) {
    own.receives = job.receive.bytes();
    own.receive_type = static_cast<std::uint64_t>(job.receive.dtype());
  }
  const std::uint64_t offer = key_of(job.session, Step::offer),
                      done = key_of(job.session, Step::done);
  link_.put(peer_, offer, packed(own), job.arrival);
  const auto theirs = unpacked<Offer>(wait_for(job, offer), peer_);
  check<DistError>(theirs.sends == own.receives && own.sends == theirs.receives &&
                       theirs.send_type == own.receive_type && own.send_type == theirs.receive_type,
                   "worker ", peer_, " sends ", theirs.sends, " bytes and wants ", theirs.receives,
                   "; here ", own.receives, " are wanted and ", own.sends, " sent, or the types ",
                   "are not the same");
  check<DistError>(theirs.note_length <= kLongestNote, "worker ", peer_, " sent a note of ",
                   theirs.note_length, " bytes");
  Arrival out;
  out.note.assign(theirs.note.begin(),
                  theirs.note.begin() + static_cast<std::ptrdiff_t>(theirs.note_length));
  if (goes(job.receive)) {
    out.squared_distance = copy(job, theirs.address);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // the word is read last
    std::uint64_t word = 0;
    read(&word, peer_word_, sizeof word);
    check<DistError>(word == name_of(job.session, secret_), "worker ", peer_,
                     " gave the exchange up");
    link_.put(peer_, done, {}, job.arrival);
  }
  if (goes(job.send)) (void)wait_for(job, done);
  return out;
}

// Piece by piece, and each is compared while it is in the cache. Returns the squared distance.
double MemoryEdge::copy(const PayloadJob& job, std::uint64_t from) const {
  const Tensor receive = job.receive.reshape({-1});
  const bool both = goes(job.send) && job.send.numel() == receive.numel();
  const Tensor send = both ? job.send.reshape({-1}) : Tensor();
  const std::size_t size = receive.bytes() / static_cast<std::size_t>(receive.numel());
  const i64 step = static_cast<i64>(kChunk / size);
  double distance = 0;
  for (i64 at = 0; at < receive.numel(); at += step) {
    if (stop_) fail<DistError>("given up");
    check<DistError>(std::chrono::steady_clock::now() < job.until, "time is up");
    const i64 end = std::min(at + step, receive.numel());
    const Tensor piece = receive.slice(at, end);
    read(piece.data(), from + static_cast<std::uint64_t>(at) * size, piece.bytes());
    if (both) distance += distance_of_exchange(send.slice(at, end), piece);
  }
  return distance;
}

std::vector<char> MemoryEdge::wait_for(const PayloadJob& job, std::uint64_t key) {
  auto came = link_.take(peer_, key, job.until, stop_);
  if (came) return *std::move(came);
  if (!link_.alive(peer_)) fail<DistError>("worker ", peer_, " is gone: ", link_.why_dead(peer_));
  fail<DistError>(stop_ ? "given up" : "time is up", " in an exchange with worker ", peer_);
}

}  // namespace gossamer::dist
