// Questions with several answers, of which one is right, as files of JSON lines: HellaSwag's
// (Zellers et al., ACL 2019) and all that have its form.
// Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gossamer::data {

struct Choices {
  std::string context;
  std::vector<std::string> endings;  // at least two, none empty
  std::size_t right = 0;             // which one goes on with the context
};

// A line {"ctx": TEXT, "endings": [TEXT, …], "label": N}; N, from 0 on, may be a string, as Hugging
// Face has it. Other fields are left alone. DataError begins with `place` and says what is wrong.
Choices choices_in_json(const std::string& line, const std::string& place);

}  // namespace gossamer::data
