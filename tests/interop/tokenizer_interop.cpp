// Ids of texts, for tokenizers_live.py:  tokenizer_interop TOKENIZER [SPLIT] < TEXTS > IDS
// Each line is a text as a JSON string, and the answer a line with two lists: the ids with marks
// and what stands around them, and those of plain text.
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "gossamer/data/text/tokenizer.h"

int main(int count, char** arguments) {
  if (count != 2 && count != 3) {
    std::cerr << "usage: tokenizer_interop TOKENIZER [SPLIT] < TEXTS > IDS\n";
    return 2;
  }
  try {
    const auto tokenizer =
        gossamer::data::open_tokenizer(arguments[1], count == 3 ? arguments[2] : "");
    const auto frame = tokenizer->frame();
    for (std::string line; std::getline(std::cin, line);) {
      const auto text = nlohmann::json::parse(line).get<std::string>();
      std::vector<std::int32_t> ids = frame.before, plain;
      tokenizer->encode_with_marks(text, ids);
      ids.insert(ids.end(), frame.after.begin(), frame.after.end());
      tokenizer->encode(text, plain);
      std::cout << nlohmann::json{ids, plain} << "\n";
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
