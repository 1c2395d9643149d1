// Tests inputs with which the fuzzer has reached every known path of the parser. Each input must be refused
// or survive the round trip.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/round_trip.h"

namespace ptxbuilder::test::ptx_corpus_test {

TEST_CASE("every text of the corpus is refused or makes the round trip") {
  int refused = 0, same = 0;
  for (const char* folder : {"corpus", "ptx_seeds"})
    for (const auto& file : std::filesystem::directory_iterator(std::filesystem::path(PTXBUILDER_TEST_DIR) /
                                                                "ptx/fuzz" / folder)) {
      std::ifstream in(file.path(), std::ios::binary);
      const std::string text(std::istreambuf_iterator<char>(in), {});
      const RoundTrip outcome = round_trip(text);
      const std::string name = file.path().string();
      CHECK_MESSAGE(outcome != RoundTrip::different, name);
      refused += outcome == RoundTrip::refused;
      same += outcome == RoundTrip::same;
    }
  CHECK(same >= 40);  // the corpus has both
  CHECK(refused >= 100);
}

}  // namespace ptxbuilder::test::ptx_corpus_test
