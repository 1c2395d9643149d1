// Tests roles: the warp and the warpgroup of their threads, either taken from the kernel's entry or computed
// again.
//
//   role_test [--device=emulator|cuda|auto]
#include "copy_kit.h"
#include "library_kit.h"

namespace ptxbuilder::test::role_test {
namespace {

// A kernel with two roles, of one and of two warpgroups, whose warps are either taken from the kernel's entry
// or computed again. Each thread stores its warp, plus 100 for each earlier warpgroup of its role.
Kernel roles(Kernel::WarpIndex index) {
  Kernel k("roles");
  auto [to] = k.params<gptr<u32>>("out");
  const gptr<u32> out = to;  // a lambda cannot capture the binding
  k.warpgroups(1, 40, [&](u32 wg) { out[tid_x()] = warp_index() + wg * 100; });
  k.warpgroups(
      2, 232, [&](u32 wg) { out[tid_x()] = warp_index() + wg * 100; }, index);
  return k;
}

int count(const std::string& text, const std::string& word) {
  int all = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++all;
  return all;
}

}  // namespace

TEST_CASE("a role's warps, from the entry and computed anew") {
  Running running;
  for (const auto index : {Kernel::WarpIndex::of_entry, Kernel::WarpIndex::of_role}) {
    Compiled compiled = running.compile(roles(index));
    CHECK(count(compiled.ptx, "shfl.sync.idx") == (index == Kernel::WarpIndex::of_entry ? 1 : 2));
    runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
    runtime::Buffer out(*running.device, 4 * 384);
    out.fill(0xff);
    kernel.launch({.grid = {1}}, {runtime::pointer(out, DType::u32)});
    running.device->synchronize();
    const std::vector<uint32_t> got = out.copy_out<uint32_t>();
    for (uint32_t i = 0; i < 384; ++i) CHECK(got[i] == i / 32 + (i < 256 ? 0 : 100));
  }
}

}  // namespace ptxbuilder::test::role_test
