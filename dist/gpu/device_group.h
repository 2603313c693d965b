// A Group around one of the host's, for tensors on a device. Knows no vendor: the device is a
// DevicePort.
#pragma once

#include <functional>
#include <memory>

#include "gossamer/dist/gpu/staged.h"
#include "gossamer/dist/reducer.h"

namespace gossamer::dist {

class DeviceGroup final : public Group {
 public:
  struct Parts {
    Group& host;
    DevicePort& port;
    Device device{};
    // whose work so far a tensor waits for before it is sent over the host
    DevicePort::Stream stream = DevicePort::Stream::exchange;
    Payload* edges = nullptr;  // the way between devices; none: over the host
    std::function<std::unique_ptr<Reducer>(Group&, std::size_t buckets)> reducer{};
    std::shared_ptr<void> keep{};  // what owns the parts; destroyed last
  };
  explicit DeviceGroup(const Parts&);
  ~DeviceGroup() override;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  int started() const override { return host_.started(); }
  ControlLink& control() override;
  Payload& payload() override;
  SideChannel* side_channel() override { return host_.side_channel(); }
  const char* why_no_side_channel() const override { return host_.why_no_side_channel(); }
  Collectives& collectives() override;
  void rebuild(const std::vector<int>& alive, std::uint32_t epoch, Seconds limit) override {
    host_.rebuild(alive, epoch, limit);
  }
  Seconds collective_limit() const override { return host_.collective_limit(); }
  std::vector<int> alive() const override { return host_.alive(); }
  std::string given_up_by(int peer) const override { return host_.given_up_by(peer); }
  std::uint64_t arrivals(int peer) const override { return host_.arrivals(peer); }
  DevicePort* device_port() override { return &port_; }
  std::unique_ptr<Reducer> reducer(std::size_t buckets) override;

 private:
  struct Impl;
  const std::shared_ptr<void> keep_;  // destroyed last
  Group& host_;
  DevicePort& port_;
  const std::function<std::unique_ptr<Reducer>(Group&, std::size_t)> reducer_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::dist
