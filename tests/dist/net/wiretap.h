// A man in the middle of every TCP connection of this process: connect() leads to him, and he
// passes on what he likes. He sees and changes bytes, of control connections, exchanges and
// collectives alike, but he has no secret.
#pragma once

#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include <netinet/in.h>

namespace gossamer::dist::testing {

class Wiretap {
 public:
  // Bytes of connection `number` (from 0, in the order in which they were made) that are under way;
  // they arrive as he leaves them. False: he cuts the connection. One call at a time.
  using Touch = std::function<bool(int number, bool to_door, std::string& bytes)>;
  explicit Wiretap(Touch = {});  // one at a time
  ~Wiretap();
  Wiretap(const Wiretap&) = delete;

  std::string heard() const;  // all that has passed so far, both ways
  int connections() const;

  // What connect() does while he is there.
  int connect(int socket, const sockaddr_in& to);

 private:
  struct Line {
    int number = 0, caller = -1, door = -1, listener = -1;
    std::thread there, back;
  };
  void serve(Line&);
  void pass(Line&, bool to_door);

  const Touch touch_;
  mutable std::mutex mutex_;
  std::list<Line> lines_;
  std::string heard_;
};

}  // namespace gossamer::dist::testing
