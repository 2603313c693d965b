// Wraps Gloo's TCP transport so that its waits can be ended.
#ifdef GOSSAMER_HAS_GLOO
#include "gossamer/dist/net/gloo_context.h"

#include <algorithm>
#include <ctime>
#include <mutex>
#include <stdexcept>

#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include "gossamer/core/error.h"
#include "gossamer/core/host_signals.h"

namespace gossamer::dist {

using gloo::transport::UnboundBuffer;

class GlooContext::Transport final : public gloo::transport::Context {
 public:
  Transport(std::shared_ptr<gloo::transport::Context> inner)
      : Context(inner->rank, inner->size), inner_(std::move(inner)) {}

  std::unique_ptr<gloo::transport::Pair>& getPair(int r) override { return inner_->getPair(r); }
  std::unique_ptr<gloo::transport::Pair>& createPair(int r) override {
    return inner_->createPair(r);
  }
  std::unique_ptr<UnboundBuffer> createUnboundBuffer(void* data, std::size_t bytes) override;

  void throw_if_aborted() const {
    if (aborted_) throw std::runtime_error("ended from outside");
  }

  void abort() {
    aborted_ = true;
    std::lock_guard lock(mutex_);
    for (UnboundBuffer* b : buffers_) wake(*b);
    // Wakes a connect() that waits. Only then: closing a pair waits for Gloo's thread.
    if (connecting_ >= 0) inner_->getPair(connecting_)->close();
  }

  void connect(int peer, const std::vector<char>& address) {
    {
      std::lock_guard lock(mutex_);
      throw_if_aborted();
      connecting_ = peer;
    }
    std::exception_ptr error;
    try {
      inner_->getPair(peer)->connect(address);
    } catch (...) {
      error = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    connecting_ = -1;
    if (error) std::rethrow_exception(error);
    throw_if_aborted();
  }

  void add(UnboundBuffer* b) {
    std::lock_guard lock(mutex_);
    buffers_.push_back(b);
    if (aborted_) wake(*b);
  }
  void remove(UnboundBuffer* b) {
    std::lock_guard lock(mutex_);
    buffers_.erase(std::find(buffers_.begin(), buffers_.end(), b));
  }

 private:
  static void wake(UnboundBuffer& b) {
    b.abortWaitRecv();
    b.abortWaitSend();
  }

  std::shared_ptr<gloo::transport::Context> inner_;
  std::mutex mutex_;
  std::vector<UnboundBuffer*> buffers_;
  std::atomic<bool> aborted_{false};
  int connecting_ = -1;
};

// Gloo's collectives ignore the result of waits: here an ended wait throws.
class GlooContext::Watched final : public UnboundBuffer {
 public:
  Watched(Transport& owner, std::unique_ptr<UnboundBuffer> inner)
      : UnboundBuffer(inner->ptr, inner->size), owner_(owner), inner_(std::move(inner)) {
    owner_.add(inner_.get());
  }
  ~Watched() override { owner_.remove(inner_.get()); }

  bool waitRecv(int* r, std::chrono::milliseconds limit) override {
    owner_.throw_if_aborted();
    if (!inner_->waitRecv(r, limit)) throw std::runtime_error("ended from outside");
    return true;
  }
  bool waitSend(int* r, std::chrono::milliseconds limit) override {
    owner_.throw_if_aborted();
    if (!inner_->waitSend(r, limit)) throw std::runtime_error("ended from outside");
    return true;
  }
  void abortWaitRecv() override { inner_->abortWaitRecv(); }
  void abortWaitSend() override { inner_->abortWaitSend(); }
  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    inner_->send(to, slot, offset, bytes);
  }
  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    inner_->recv(from, slot, offset, bytes);
  }
  void recv(std::vector<int> from, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    inner_->recv(std::move(from), slot, offset, bytes);
  }

 private:
  Transport& owner_;
  std::unique_ptr<UnboundBuffer> inner_;
};

std::unique_ptr<UnboundBuffer> GlooContext::Transport::createUnboundBuffer(void* data,
                                                                           std::size_t bytes) {
  return std::make_unique<Watched>(*this, inner_->createUnboundBuffer(data, bytes));
}

GlooContext::GlooContext(const std::shared_ptr<gloo::transport::Device>& device, int rank, int size,
                         std::chrono::milliseconds connect_limit)
    : gloo::Context(rank, size) {
  auto inner = device->createContext(rank, size);
  inner->setTimeout(
      // Gloo waits five times as long for a connection
      std::max(connect_limit / 5, std::chrono::milliseconds(100)));
  for (int r = 0; r < size; ++r) {
    if (r != rank) inner->createPair(r);
  }
  transport_ = std::make_shared<Transport>(std::move(inner));
  device_ = device;
  transportContext_ = transport_;
}

GlooContext::~GlooContext() = default;

std::vector<char> GlooContext::address(int peer) {
  return transport_->getPair(peer)->address().bytes();
}
void GlooContext::connect(int peer, const std::vector<char>& address) {
  transport_->connect(peer, address);
}
void GlooContext::abort() { transport_->abort(); }

std::shared_ptr<gloo::transport::Device> make_gloo_device(const std::string& address) {
  const HostSignals inherited_by_its_thread;
  gloo::transport::tcp::attr attr;
  attr.hostname = address;
  try {
    return gloo::transport::tcp::CreateDevice(attr);
  } catch (const std::exception& e) {
    fail<DistError>("cannot open the payload transport on ", address, ": ", e.what());
  }
}

NoSigpipe::NoSigpipe() {
  sigset_t broken_pipe, pending;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  sigpending(&pending);
  pending_before_ = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &broken_pipe, &before_);
}

NoSigpipe::~NoSigpipe() {
  if (!pending_before_) {  // swallow what came in between
    sigset_t broken_pipe;
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    const timespec now{0, 0};
    while (sigtimedwait(&broken_pipe, nullptr, &now) > 0) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace gossamer::dist
#endif
