// The fuzz target of edge lists on nasty inputs, and on some thousand that are made of their
// pieces, so that it is built and run everywhere.
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "fuzz/graph.cpp"

namespace {

const std::vector<std::string> kNasty = {"",
                                         "\n",
                                         "#",
                                         "\r\n\r\n",
                                         "0 1",
                                         "0 1\n1 2\n2 0\n",
                                         "0 1 1e308\n1 2 1e308\n",
                                         "0 1 5e-324\n1 2 5e-324\n",
                                         "0 1 1e-300\n1 2 1\n",
                                         "0 1 1e999\n",
                                         "0 1 1e-999\n",
                                         "0 1 nan\n",
                                         "0 1 inf\n",
                                         "0 1 -1\n",
                                         "0 1 0\n",
                                         "0 1 -0.0\n",
                                         "0 1 0x10\n",
                                         "0 1 1,5\n",
                                         "0 1 +1\n",
                                         "0 0\n",
                                         "0 1\n1 0\n",
                                         "0 1\n0 1\n",
                                         "-1 0\n",
                                         "0 2147483647\n",
                                         "0 2147483648\n",
                                         "0 99999999999999999999\n",
                                         "00 01\n1 2\n",
                                         "0\t1\v2\f\n",
                                         "0 1 1 1\n",
                                         "0 1 1 # rate\n1 2#\n",
                                         "0",
                                         "0 ",
                                         " 0  1 ",
                                         "a b\n",
                                         "0 1\r1 2\r",
                                         std::string("0 1\0 2", 7),
                                         "\xff\xfe"
                                         "0 1\n",
                                         "0 1\n\xe2\x80\xa8 1 2\n",
                                         std::string(5000, ' '),
                                         std::string(5000, '9'),
                                         "0 1 " + std::string(400, '1'),
                                         "0 1 0." + std::string(400, '0') + "1\n",
                                         "0 1 1e6\n1 2 1e-6\n",
                                         "0 1 1.0000001e6\n1 2\n"};

void run(unsigned workers, const std::string& text) {
  const std::string input = static_cast<char>(workers) + text;
  // it aborts when something is wrong
  ASSERT_EQ(
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size()), 0);
}

TEST(GraphFuzz, NastyInputsAreGraphsOrConfigErrors) {
  for (const std::string& text : kNasty)
    for (const unsigned workers : {0u, 1u, 2u, 3u, 4u, 64u}) run(workers, text);
}

TEST(GraphFuzz, SoAreMixturesOfThem) {
  std::mt19937 random(9);
  for (int i = 0; i < 5000; ++i) {
    const unsigned workers = 2 + random() % 5;
    std::string text;
    for (unsigned w = 1; w < workers; ++w)
      // a tree
      text +=
          std::to_string(random() % w) + " " + std::to_string(w) + (random() % 2 ? " 2.5\n" : "\n");
    if (random() % 2) text += kNasty[random() % kNasty.size()];
    for (unsigned flips = random() % 4; flips > 0 && !text.empty(); --flips)
      text[random() % text.size()] = static_cast<char>(random());
    run(workers, text);
  }
}

TEST(GraphFuzz, RatesAreBoundedSoThatTheirSumIs) {
  const auto text = [](const std::string& edges) {
    try {
      gossamer::dist::parse_graph(edges, "net.txt", 3);
    } catch (const gossamer::ConfigError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  for (const char* edges :
       {"0 1 1e308\n1 2 1e308\n", "0 1 5e-324\n1 2 5e-324\n", "0 1\n1 2 1e7\n", "0 1\n1 2 1e-7\n"})
    EXPECT_NE(text(edges).find("1e-6 to 1e6"), std::string::npos) << edges << text(edges);
  EXPECT_EQ(text("0 1 1e6\n1 2 1e-6\n"), "no error");
}

}  // namespace
