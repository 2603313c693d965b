// Gloo's transport interface: messages with a slot, from and into buffers. They move while somebody
// waits; there is no thread.
#ifdef GOSSAMER_HAS_GLOO
#include "gossamer/dist/net/gloo_context.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>
#include <sys/uio.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/net/mesh.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class GlooContext::Buffer final : public gloo::transport::UnboundBuffer {
 public:
  Buffer(std::shared_ptr<Transport> owner, void* data, std::size_t bytes)
      : UnboundBuffer(data, bytes), owner_(std::move(owner)) {}
  ~Buffer() override;
  bool waitRecv(int* from, std::chrono::milliseconds limit) override;
  bool waitSend(int* to, std::chrono::milliseconds limit) override;
  void abortWaitRecv() override;
  void abortWaitSend() override;
  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override;
  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override;
  void recv(std::vector<int>, std::uint64_t, std::size_t, std::size_t) override {
    fail<DistError>("a receive from any member is not made here");
  }

  std::deque<int> received, sent;  // whole, and not waited for yet: by whom, to whom

 private:
  // Throws unless they lie within the buffer.
  char* part(std::size_t offset, std::size_t& bytes) const;
  const std::shared_ptr<Transport> owner_;
};

namespace {

// Gloo's algorithms ask only whether there is one.
class Pair final : public gloo::transport::Pair {
 public:
  const gloo::transport::Address& address() const override { unused(); }
  void connect(const std::vector<char>&) override { unused(); }
  void close() override { unused(); }
  void setSync(bool, bool) override { unused(); }
  std::unique_ptr<gloo::transport::Buffer> createSendBuffer(int, void*, std::size_t) override {
    unused();
  }
  std::unique_ptr<gloo::transport::Buffer> createRecvBuffer(int, void*, std::size_t) override {
    unused();
  }
  void send(gloo::transport::UnboundBuffer*, std::uint64_t, std::size_t, std::size_t) override {
    unused();
  }
  void recv(gloo::transport::UnboundBuffer*, std::uint64_t, std::size_t, std::size_t) override {
    unused();
  }

 private:
  [[noreturn]] static void unused() { fail<DistError>("Gloo's pairs are not used here"); }
};

}  // namespace

class GlooContext::Transport final : public gloo::transport::Context,
                                     public std::enable_shared_from_this<Transport> {
 public:
  Transport(const std::string& address, int place, int members, std::chrono::milliseconds limit,
            MemberKeys keys)
      : Context(place, members),
        mesh(address, place, members, std::move(keys)),
        lines_(static_cast<std::size_t>(members)) {
    setTimeout(limit);
  }

  StopSignal stop;
  Mesh mesh;

  std::unique_ptr<gloo::transport::Pair>& createPair(int place) override {
    return pairs_.at(static_cast<std::size_t>(place)) = std::make_unique<Pair>();
  }
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                      std::size_t bytes) override {
    return std::make_unique<Buffer>(shared_from_this(), data, bytes);
  }

  void expect(int place, const std::vector<char>& address, Side side) {
    mesh.expect(place, address, side);
    line(place).state = Line::State::expected;
    createPair(place);
  }
  void connect(int place, StopSignal::TimePoint until) {
    while (!is_open(place)) {
      if (mesh.go_on()) continue;
      std::vector<pollfd> waits;
      mesh.add_waits(waits);
      wait(waits, until);
    }
  }

  void wait(const std::vector<pollfd>& waits, StopSignal::TimePoint until) const {
    try {
      stop.poll(waits, until);
    } catch (const DistTimeout&) {
      const std::string silent = mesh.unanswered();
      if (silent.empty()) throw;
      throw DistTimeout("no answer from " + silent +
                        ", where tensors go; a firewall must let calls to all ports through");
    }
  }

  void send(Buffer* from, int to, std::uint64_t slot, const char* data, std::size_t bytes) {
    line(to).out.push_back({from, {slot, bytes}, data});
  }
  void receive(Buffer* to, int from, std::uint64_t slot, char* data, std::size_t bytes) {
    line(from).in.push_back({to, {slot, bytes}, data});
  }

  // Returns when `done` holds. What is not for the front of the queues waits in the kernel.
  template <class Done>
  void work_until(const Done& done, std::chrono::milliseconds limit) {
    if (limit < std::chrono::milliseconds(0)) limit = getTimeout();
    const auto until = std::chrono::steady_clock::now() + limit;
    std::vector<pollfd> waits;
    stop.check();
    while (!done()) {
      stop.check(until);
      waits.clear();
      bool moved = false;
      for (std::size_t i = 0; i < lines_.size(); ++i) {
        Line& l = lines_[i];
        if ((l.out.empty() && l.in.empty() && !l.now) || !is_open(static_cast<int>(i))) continue;
        if (!l.out.empty()) moved = write(l, static_cast<int>(i)) || moved;
        if (l.now || !l.in.empty()) moved = read(l, static_cast<int>(i)) || moved;
        const bool reads = l.now || (!l.in.empty() && l.come < sizeof l.head);
        const int events = (l.out.empty() ? 0 : POLLOUT) | (reads ? POLLIN : 0);
        if (events != 0) waits.push_back({l.stream->descriptor(), static_cast<short>(events), 0});
      }
      if (moved || mesh.go_on()) continue;
      mesh.add_waits(waits);
      wait(waits, until);
    }
  }

  // Its memory may be gone afterwards.
  void forget(const Buffer* buffer) {
    for (Line& l : lines_) {
      // What is half sent or half received can't go on, nor can what is behind it.
      const bool comes = l.now && l.now->buffer == buffer;
      if (comes) l.now.reset();
      if (comes || (!l.out.empty() && l.out.front().buffer == buffer && l.out.front().done > 0))
        l.stream.reset(), l.state = Line::State::closed;
      const auto of_it = [&](const auto& one) { return one.buffer == buffer; };
      std::erase_if(l.out, of_it);
      std::erase_if(l.in, of_it);
    }
  }

 private:
  struct Head {
    std::uint64_t slot = 0, bytes = 0;
  };
  struct Going {
    Buffer* buffer;
    Head head;
    const char* data;
    std::size_t done = 0;  // of head and data
  };
  struct Wanted {
    Buffer* buffer;
    Head head;
    char* data;
  };
  // All there is with one member.
  struct Line {
    enum class State : std::uint8_t { closed, expected, open } state = State::closed;
    std::optional<Stream> stream;  // open
    std::deque<Going> out;
    std::deque<Wanted> in;
    Head head;                  // of the message that comes
    std::size_t come = 0;       // of its head and data
    std::optional<Wanted> now;  // what it is for, once the head is here and somebody wants it
  };

  // False: it is not connected yet.
  bool is_open(int place) {
    Line& l = line(place);
    check<DistError>(l.state != Line::State::closed, "the connection is closed");
    if (l.state == Line::State::open) return true;
    l.stream = mesh.join(place);
    if (l.stream) l.state = Line::State::open;
    return l.stream.has_value();
  }

  Line& line(int place) { return lines_.at(static_cast<std::size_t>(place)); }

  static bool write(Line& l, int to) {
    Going& g = l.out.front();
    std::array<iovec, 2> parts{};
    const std::size_t head = sizeof g.head - std::min(g.done, sizeof g.head);
    const std::size_t data = g.done + head - sizeof g.head;
    parts[0] = {reinterpret_cast<char*>(&g.head) + (sizeof g.head - head), head};
    parts[1] = {const_cast<char*>(g.data) + data, g.head.bytes - data};
    const std::size_t n = l.stream->write(parts);
    g.done += n;
    if (g.done < sizeof g.head + g.head.bytes || !l.stream->flush()) return n > 0;
    g.buffer->sent.push_back(to);
    l.out.pop_front();
    return true;
  }

  static bool read(Line& l, int from) {
    if (l.come < sizeof l.head) {
      const std::size_t before = l.come;
      take(l, reinterpret_cast<char*>(&l.head) + l.come, sizeof l.head - l.come);
      if (l.come < sizeof l.head) return l.come > before;
    }
    if (!l.now) {
      const auto wanted =
          std::ranges::find(l.in, l.head.slot, [](const Wanted& w) { return w.head.slot; });
      if (wanted == l.in.end()) return false;
      check<DistError>(wanted->head.bytes == l.head.bytes, "the other side sends ", l.head.bytes,
                       " bytes, here ", wanted->head.bytes, " are wanted");
      l.now = *wanted;
      l.in.erase(wanted);
    }
    const std::size_t have = l.come - sizeof l.head;
    if (have < l.head.bytes) take(l, l.now->data + have, l.head.bytes - have);
    if (l.come < sizeof l.head + l.head.bytes) return l.come > have + sizeof l.head;
    l.now->buffer->received.push_back(from);
    l.now.reset();
    l.come = 0;
    return true;
  }

  // What there is of the next bytes of the message.
  static void take(Line& l, char* to, std::size_t bytes) { l.come += l.stream->read(to, bytes); }

  std::vector<Line> lines_;  // by place
};

GlooContext::Buffer::~Buffer() { owner_->forget(this); }

bool GlooContext::Buffer::waitRecv(int* from, std::chrono::milliseconds limit) {
  owner_->work_until([this] { return !received.empty(); }, limit);
  if (from != nullptr) *from = received.front();
  received.pop_front();
  return true;
}
bool GlooContext::Buffer::waitSend(int* to, std::chrono::milliseconds limit) {
  owner_->work_until([this] { return !sent.empty(); }, limit);
  if (to != nullptr) *to = sent.front();
  sent.pop_front();
  return true;
}
void GlooContext::Buffer::abortWaitRecv() { owner_->stop.raise(); }
void GlooContext::Buffer::abortWaitSend() { owner_->stop.raise(); }

char* GlooContext::Buffer::part(std::size_t offset, std::size_t& bytes) const {
  check<DistError>(offset <= size, "offset ", offset, " in a buffer of ", size, " bytes");
  if (bytes == kUnspecifiedByteCount) bytes = size - offset;
  check<DistError>(bytes <= size - offset, bytes, " bytes from ", offset, " in a buffer of ", size);
  return static_cast<char*>(ptr) + offset;
}
void GlooContext::Buffer::send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) {
  const char* data = part(offset, bytes);
  owner_->send(this, to, slot, data, bytes);
}
void GlooContext::Buffer::recv(int from, std::uint64_t slot, std::size_t offset,
                               std::size_t bytes) {
  char* data = part(offset, bytes);
  owner_->receive(this, from, slot, data, bytes);
}

GlooContext::GlooContext(const std::string& address, int place, int members,
                         std::chrono::milliseconds limit, MemberKeys keys)
    : gloo::Context(place, members),
      transport_(std::make_shared<Transport>(address, place, members, limit, std::move(keys))) {
  transportContext_ = transport_;
  setTimeout(limit);
}

GlooContext::~GlooContext() = default;

const std::vector<char>& GlooContext::address() const { return transport_->mesh.address(); }
void GlooContext::expect(int place, const std::vector<char>& address, Side side) {
  transport_->expect(place, address, side);
}
void GlooContext::connect(int place, const std::vector<char>& address, Side side,
                          StopSignal::TimePoint until) {
  transport_->stop.check();
  transport_->expect(place, address, side);
  transport_->connect(place, until);
}
void GlooContext::abort() { transport_->stop.raise(); }

}  // namespace gossamer::dist
#endif
