// The secret of a job: where it comes from, and whether it is one. Private to dist/ and
// apps/.
#pragma once

#include <string>

#include "gossamer/dist/net/launch.h"

namespace gossamer::dist {

// 128 random bits as 32 hexadecimal digits. DistError if the kernel gives none.
std::string new_token();

// Why this text is no secret, as the end of a sentence: it holds fewer than 128 bits, judged by its
// length and the kinds of characters in it. Empty: it may be one.
std::string weakness(const std::string& token);

// The first word of a file that only its owner, this user or root, can read. ConfigError names the
// file by `name`, as "GOSSAMER_TOKEN_FILE", and says what to do.
std::string token_of_file(const std::string& name, const std::string& path);

// Where this user's secret lies: in $XDG_RUNTIME_DIR if that is a private folder of this user, else
// in /tmp/gossamer-UID. The folder is made if need be. ConfigError: somebody else has made it.
std::string user_token_file();
// Reads it, and makes it first if it is not there. Several processes may ask at once: all get the
// same.
std::string user_token(const std::string& path);

}  // namespace gossamer::dist
