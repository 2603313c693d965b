// The order of all events of one worker, written to a file: what an asynchronous run needs to be
// repeated bit for bit (replay.h).
//
// FOLDER/events-RANK.jsonl: one JSON object a line. First the facts of the run, then its events in
// the order in which they changed the worker's state, last the number of events and a digest of the
// parameters before the final average. Without that line the run did not end, and can't be
// replayed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/dist/gossip/event_log.h"

namespace gossamer::dist {

struct RunFacts {
  std::string method, graph, pairing, device = "cpu";  // device: cpu or cuda
  int rank = 0, workers = 1;
  std::uint64_t seed = 0, parameters = 0;  // fingerprint of names and shapes
  double rate = 1, batch = 1, start_samples = 0, total_samples = 0;
};

// Writes the file. IoError with the file: it can't be written.
class Recorder final : public EventLog {
 public:
  Recorder(const std::string& folder, const RunFacts&);
  void happened(const WorkerEvent&) override;
  void ended(std::uint64_t digest) override;

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  using File = std::unique_ptr<std::FILE, Close>;
  static File open(const std::string& path, const char* mode);
  void write(const std::string& line);
  friend void check_can_record(const std::string& folder, int rank);

  std::string path_;
  File file_;
  i64 events_ = 0, gradients_ = 0;
};

struct Record {
  std::string path;
  RunFacts facts;
  std::vector<WorkerEvent> events;
  std::uint64_t digest = 0;
};

std::string record_path(const std::string& folder, int rank);
void check_record(const std::string& path);  // IoError if it can't be opened
// Makes the folder. IoError if a Recorder could not write there.
void check_can_record(const std::string& folder, int rank);
// Believes nothing that the file says: IoError with file and line for anything that no Recorder
// writes, also a file without its end.
Record read_record(const std::string& path);
Record read_record(std::istream&, const std::string& path);  // path: for messages
// 64 bits over the bits of the numbers.
std::uint64_t digest_of(std::span<const float>);

}  // namespace gossamer::dist
