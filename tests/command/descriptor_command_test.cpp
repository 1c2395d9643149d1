// Tests `ptxb desc` from a user's point of view. Descriptors are encoded and explained, as text and as JSON.
// Wrong words are tested together with correct ones.
#include <nlohmann/json.hpp>

#include "command_kit.h"

namespace ptxbuilder::test::descriptor_command_test {
namespace {

Ran desc(const std::string& words) { return run("ptxb desc " + words); }

nlohmann::json json_of(const std::string& words) {
  Ran ran = desc(words + " --json");
  CAPTURE(ran.output);
  REQUIRE(ran.code == 0);
  return nlohmann::json::parse(ran.output);
}

}  // namespace

TEST_CASE("a descriptor from its fields") {
  struct Case {
    const char *words, *descriptor;
    std::vector<int> along_k, along_mn;
  };
  const Case cases[] = {
      {"--dtype f16 --tile 128x64", "0x4000004000010000", {0, 32, 64, 96}, {0, 8192}},
      {"--dtype f16 --major mn --tile 128x64", "0x4000004002000000", {0, 2048, 4096, 6144}, {0, 8192}},
      {"--dtype f16 --tile 64x32 --swizzle 64", "0x8000002000010000", {0, 32}, {0}},
      {"--dtype bf16 --major k --swizzle none --tile 64x32 --order k", "0x0000002000080000", {0, 256}, {0}},
      {"--dtype e4m3 --tile 64x64 --swizzle 32 --address 1024", "0xc000001000010040", {0, 2048}, {0}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.words);
    nlohmann::json json = json_of(c.words);
    CHECK(json["descriptor"] == c.descriptor);
    CHECK(json["advance_k"] == c.along_k);
    CHECK(json["advance_mn"] == c.along_mn);
    Ran ran = desc(c.words);
    CHECK(ran.code == 0);
    CHECK(ran.output.find(c.descriptor) != std::string::npos);
    // Decodes the descriptor again.
    nlohmann::json decoded = json_of(c.descriptor);
    for (const char* key :
         {"start_address", "leading_byte_offset", "stride_byte_offset", "layout_type", "swizzle"})
      CHECK(decoded[key] == json[key]);
  }
}

TEST_CASE("a descriptor in words") {
  Ran ran = desc("0x4000004000010000 --major k");
  CHECK(ran.code == 0);
  CHECK(ran.output.find("layout type         1: 128 B swizzle") != std::string::npos);
  CHECK(ran.output.find("0x40 * 16 = 1024 B: from 8 rows of m or n to the next 8") != std::string::npos);
}

TEST_CASE("wrong words") {
  struct Case {
    const char* words;
    int code;
    const char* phrase;
  };
  const Case cases[] = {
      {"--tile 64x32", 1, "the widest swizzle that fits is 64 B, or use 64 along k"},
      {"--dtype e4m3 --major mn --tile 64x64", 1, "e4m3 cannot be MN-major"},
      {"--dtype f99 --tile 64x64", 2, "--dtype 'f99' is not an element type"},
      {"--tile 64", 2, "--tile '64' must be MNxK"},
      {"0x12z", 2, "'0x12z' must be a 64-bit number"},
      {"0x40000040000100001", 2, "must be a 64-bit number"},
      {"0x4000004000014000", 1, "which must be 0"},
      {"--tile 64x64 --address 24", 1, "the start address is 24 B"},
      {"", 2, "pass a descriptor to explain, or --tile"},
      {"--swizzle 256 --tile 64x64", 2, "256 not in {128,64,32,none}"},
      {"0x0 --tile 64x64", 2, "excludes"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.words);
    Ran ran = desc(c.words);
    CHECK(ran.code == c.code);
    CHECK_MESSAGE(ran.output.find(c.phrase) != std::string::npos, ran.output);
  }
}

}  // namespace ptxbuilder::test::descriptor_command_test
