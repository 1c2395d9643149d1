// Tests a kernel that is loaded with the PTX of a file instead of its own.
#include "runtime/compile/load.h"

#include <doctest/doctest.h>

#include <fstream>

#include "error_kit.h"
#include "folder_kit.h"
#include "ptxbuilder/ptxbuilder.h"
#include "runtime/runtime.h"

namespace ptxbuilder::test::load_test {
namespace {

Kernel twice() {
  Kernel k("twice");
  auto [x, n] = k.params<gptr<f32>, u32>("x", "n");
  u32 i = ctaid_x() * 128 + tid_x();
  if_(i < n, [&] { x[i] = x[i] * 2; });
  return k;
}

}  // namespace

TEST_CASE("a ptxas that is named in vain is an error, though the device reads PTX") {
  auto device = runtime::open_device("emulator");
  CHECK_ERROR(load(*device, twice(), {.ptxas = "/nowhere/ptxas"}), "/nowhere/ptxas");
}

TEST_CASE("what is waived has a known name, also where nothing is assembled") {
  auto device = runtime::open_device("emulator");
  CHECK_ERROR(load(*device, twice(), {.waived = {"spills", "speed"}}),
              "'speed' cannot be waived; valid names are C7504");
  CHECK(load(*device, twice(), {.waived = {"spills", "C7510"}}).signature().kernel == "twice");
}

TEST_CASE("load() runs an edited PTX file in the kernel's place, and refuses one of another launch") {
  auto device = runtime::open_device("emulator");
  const Folder folder;
  const std::string file = folder.path("twice.ptx");
  CompilerOptions no_cubin;
  no_cubin.assemble = false;
  std::string text = Compiler(no_cubin).compile(twice()).ptx;
  const size_t at = text.find("add.rn.f32");
  REQUIRE(at != std::string::npos);
  std::ofstream(file) << text.replace(at, 3, "mul");  // x * x instead of x + x

  runtime::LoadedKernel kernel = load(*device, twice(), {.ptx_file = file});
  auto x = runtime::Buffer::of(*device, std::vector<float>(1000, 3));
  kernel.launch({.grid = {8}}, {runtime::pointer(x, DType::f32), runtime::scalar(1000u)});
  device->synchronize();
  CHECK(x.copy_out<float>() == std::vector<float>(1000, 9));

  std::ofstream(file) << text.replace(text.find(".maxntid 128"), 12, ".maxntid 256");
  CHECK_ERROR(load(*device, twice(), {.ptx_file = file}),
              "twice.ptx: it cannot replace kernel 'twice': the most threads (.maxntid) is 256");
  CHECK_ERROR(load(*device, twice(), {.ptx_file = folder.path("none")}), "none: cannot be read");
}

}  // namespace ptxbuilder::test::load_test
