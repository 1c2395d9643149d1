// What the command lines do with words that are numbers, files and folders: those that mean nothing are
// refused, each beside one that means something, and output that does not arrive is a failure.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "command_kit.h"
#include "folder_kit.h"

namespace {

using Json = nlohmann::json;

bool contains(const Ran& ran, const std::string& text) {
  const bool found = ran.output.find(text) != std::string::npos;
  if (!found) MESSAGE("no '", text, "' in: ", ran.output);
  return found;
}

// Ends with `code`, and says `text`.
void refused(const std::string& words, int code, const std::string& text) {
  CAPTURE(words);
  const Ran ran = run(words);
  CHECK(ran.code == code);
  CHECK(contains(ran, text));
}

const std::string saxpy = "ptxb run saxpy --m 1 --n 64 --device emulator --assembler none ";
const std::string gemm = "ptxb run gemm --m 64 --n 64 --k 64 --device emulator --assembler none ";

}  // namespace

TEST_CASE("a file that does not end is refused") {
  for (const std::string& words :
       {saxpy + "--ptx /dev/zero", std::string("ptxb sim k.ptx --launch /dev/zero"),
        std::string("ptxb export gemm --ptx -o /tmp --shapes /dev/zero")}) {
    CAPTURE(words);
    const Ran ran = run(words, "timeout 60");
    CHECK(ran.code == 1);
    CHECK(contains(ran, "/dev/zero: cannot be read: it does not end within 1024 MiB"));
  }
  const Folder folder;
  REQUIRE(run("ptxb emit saxpy --assembler none -o " + folder.path("out")).code == 0);
  CHECK(run(saxpy + "--ptx /dev/stdin", "cat " + folder.path("out/saxpy.ptx") + " |").code == 0);
}
