// Tests `ptxb prove` from a user's point of view. Checks proofs, as text and as JSON, and the errors for
// wrong words.
#include <nlohmann/json.hpp>

#include "command_kit.h"

namespace ptxbuilder::test::prove_command_test {
namespace {

Ran prove(const std::string& words) { return run("ptxb prove " + words); }

}  // namespace

TEST_CASE("the chain of a kernel") {
  Ran ran = prove("gemm_tile");
  CAPTURE(ran.output);
  CHECK(ran.code == 0);
  for (const char* words : {"tma_load: B -> f16 64x128 tile, 128 B swizzle: 2 boxes of 64x64: 8192 elements",
                            "mma: B from f16 64x128 tile, 128 B swizzle, MN-major: 4 of 128x16, descriptor "
                            "0x4000004002000000, advances 0 2048 4096 6144 B: 8192 elements (gemm_tile.cpp:",
                            "tma_store: ", "elements are where they are read"})
    CHECK_MESSAGE(ran.output.find(words) != std::string::npos, words);
  ran = prove("hello");
  CHECK(ran.code == 0);
  CHECK(ran.output.find("nothing to prove") != std::string::npos);
}

TEST_CASE("JSON, with fields of the kernel") {
  Ran ran = prove("gemm_persistent --cluster_m 2 --bn 128 --stages 3 --json");
  CAPTURE(ran.output);
  REQUIRE(ran.code == 0);
  nlohmann::json json = nlohmann::json::parse(ran.output);
  CHECK(json["kernel"] == "gemm_persistent");
  CHECK(json["fields"].get<std::string>().find("bn=128") != std::string::npos);
  CHECK(json["proved"] == true);
  CHECK(json["counterexample"].is_null());
  uint64_t elements = 0;
  for (const auto& link : json["links"]) elements += link["elements"].get<uint64_t>();
  CHECK(json["elements"] == elements);
  CHECK(elements > 100000);
}

TEST_CASE("wrong words") {
  Ran ran = prove("gemm_warp_specialized --bn 100");
  CHECK(ran.code == 2);
  CHECK(ran.output.find("field bn = 100") != std::string::npos);
  CHECK(prove("gemm_warp_specialized --bn 64").code == 0);
  CHECK(prove("no_such_kernel").code == 2);
}

}  // namespace ptxbuilder::test::prove_command_test
