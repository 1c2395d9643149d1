// Tests the errors and warnings that the library reports to C: the status of each kind of exception,
// warnings, and structs of older headers.
#include "kernels/c/report.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <new>
#include <string>
#include <vector>

#include "folder_kit.h"
#include "kernels/c/grown.h"
#include "kernels/call/tile_file.h"
#include "ptxbuilder/log.h"
#include "runtime/device.h"
#include "runtime/emulator/emulator.h"

namespace report_test {
namespace {

using namespace ptxbuilder;
using c::status_of;

template <class Thrown>
int status_when(const Thrown& thrown) {
  return status_of([&] { throw thrown; });
}

}  // namespace

TEST_CASE("each kind of exception has a status, and its text is kept") {
  using enum Error::Kind;
  CHECK(status_of([] {}) == PTXB_OK);
  CHECK(status_when(Error("m is 0")) == PTXB_INVALID_ARGUMENT);
  CHECK(std::string(ptxb_error()) == "m is 0");
  CHECK(status_when(Error("no GPU", unavailable)) == PTXB_ERROR);
  CHECK(status_when(Error("full", out_of_memory)) == PTXB_OUT_OF_MEMORY);
  CHECK(status_when(Error("lost", device)) == PTXB_DEVICE);
  CHECK(status_when(Error("no such row", compile)) == PTXB_COMPILE);
  CHECK(status_when(runtime::TimeoutError("hangs")) == PTXB_TIMEOUT);
  CHECK(status_when(runtime::EmulatorError(runtime::Fault::time_limit, 0, "a race")) == PTXB_DEVICE);
  CHECK(status_when(std::bad_alloc()) == PTXB_OUT_OF_MEMORY);
  CHECK(std::string(ptxb_error()) == "out of memory");
  CHECK(status_when(std::logic_error("at()")) == PTXB_INTERNAL);
  CHECK(std::string(ptxb_error()) == "at()");
  CHECK(status_when(1) == PTXB_INTERNAL);
  CHECK(status_of([] {}) == PTXB_OK);
  CHECK(std::string(ptxb_error()).empty());
}

TEST_CASE("an error from compiling is of the kind `compile`, and stays what it is") {
  try {
    compiling([] { throw Error({"gemm.cpp", 41}, "spills"); });
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.kind() == Error::Kind::compile);
    CHECK(std::string(e.what()) == "spills (gemm.cpp:41)");
    CHECK(e.where().line == 41);
  }
  CHECK(compiling([] { return 7; }) == 7);
}

TEST_CASE("warnings go to the callback, and without one to standard error") {
  std::vector<std::string> lines;
  const auto keep = [](int level, const char* text, void* user) {
    CHECK(level == PTXB_LOG_WARNING);
    static_cast<std::vector<std::string>*>(user)->push_back(text);
  };
  ptxb_set_log(keep, &lines);
  const Folder temporary;
  const std::string folder = temporary.path("");
  kernels::TileFile file(folder, 1, [](const std::string&) { return true; });
  file.keep("call", "tile");
  CHECK(lines == std::vector<std::string>{
                     "tuned tiles: " + folder +
                     ": it is not a regular file, so measured tiles are kept only in this process"});

  ptxb_set_log(nullptr, nullptr);
  const std::string written = folder + "/stderr";
  const int before = dup(2);
  REQUIRE(std::freopen(written.c_str(), "w", stderr) != nullptr);
  log(LogLevel::warning, "nobody asks");
  std::fflush(stderr);
  dup2(before, 2);
  close(before);
  std::string said;
  std::getline(std::ifstream(written), said);
  CHECK(said == "warning: nobody asks");
  CHECK(lines.size() == 1);
}

// A struct that has grown twice. `size` is its size in the caller's header.
struct Grows {
  size_t size;
  int32_t first = 1, second = 2;
  const char* third = "third";
  int64_t fourth = 4;
};

TEST_CASE("fields that an older header lacks have the values of INIT") {
  const size_t first = offsetof(Grows, second) + sizeof(int32_t);
  Grows given = {sizeof(Grows), 10, 20, "given", 40};
  const auto grown_of = [&](size_t size) {
    given.size = size;
    return c::grown(given, Grows{sizeof(Grows)}, first, "Grows", "GROWS_INIT");
  };
  const Grows oldest = grown_of(first), middle = grown_of(offsetof(Grows, fourth)),
              newest = grown_of(sizeof(Grows));
  CHECK((oldest.size == sizeof(Grows) && oldest.second == 20 && oldest.third == std::string("third") &&
         oldest.fourth == 4));
  CHECK((middle.third == std::string("given") && middle.fourth == 4));
  CHECK((newest.third == std::string("given") && newest.fourth == 40));
  for (const size_t size : {size_t{0}, size_t{8}, first - 8, first + 4, sizeof(Grows) + 8})
    CHECK_THROWS_WITH_AS(grown_of(size),
                         doctest::Contains(("the size of this Grows is " + std::to_string(size) +
                                            " bytes, but it has 32 in this library and had 16 in "
                                            "the first header: initialize it with GROWS_INIT")
                                               .c_str()),
                         Error);
}

}  // namespace report_test
