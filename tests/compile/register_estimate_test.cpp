// Compares the register counts that are estimated before ptxas runs to the counts that ptxas reports, for the
// kernels in this repository. The counts are in compile/registers.txt, which `unit_tests
// register_estimate_test --bless` writes in about a minute. For a few kernels, ptxas runs each time.
#include "ptxbuilder/analysis/register_estimate.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "options.h"
#include "ptxas_kit.h"
#include "ptxbuilder/analysis/sass_registers.h"
#include "ptxbuilder/compile/assemble.h"
#include "ptxbuilder/compile/nvdisasm.h"

namespace ptxbuilder::test::register_estimate_test {
namespace {

using namespace analysis;
namespace fs = std::filesystem;

const bool& bless = option("bless", false);
const fs::path folder = PTXBUILDER_TEST_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string golden(const std::string& kernel) { return text_of(folder / "golden" / (kernel + ".ptx")); }

std::vector<RegisterEstimate> estimates_of(const std::string& ptx) {
  const ptx_text::Module module = ptx_text::parse(ptx);
  const Code code = Code::of(module);
  return estimate_registers(code, Graph::of(code));
}

std::string kernel(const std::string& declarations, const std::string& body) {
  return fmt::format(
      ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n.maxntid "
      "512\n{{\n{}\n{}\nret;\n}}\n",
      declarations, body);
}

// The key is the number of registers that a role is granted, or 0 if the kernel has no roles. The value is
// the highest number of live registers in the role's machine code.
using Needs = std::map<int, int>;

Needs needs_of(const std::string& ptx, const Ptxas& ptxas, const Nvdisasm& nvdisasm) {
  Cache cache{Cache::Options{}};
  AssembleOptions options;
  options.waived = {"spills", "stack"};
  const std::string cubin = assemble(ptxas, &cache, ptx, options).cubin;
  const SassKernel sass = parse_sass(nvdisasm.disassemble(cubin)).at(0);
  Needs needs;
  for (const RegisterPeak& peak :
       register_peaks(sass, parse_life_ranges(sass, nvdisasm.life_ranges(cubin)))) {
    int& most = needs[peak.granted.value_or(0)];
    most = std::max(most, peak.live);
  }
  return needs;
}

std::vector<std::string> golden_kernels() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "golden"))
    // The sums of tcgen05 are not in registers, and this test needs nvdisasm's life ranges for Hopper.
    if (entry.path().extension() == ".ptx" && entry.path().stem() != "blackwell_tile")
      names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

struct Tools {
  const Ptxas* ptxas = real_ptxas();
  std::optional<Nvdisasm> nvdisasm = {};

  Tools() {
    if (!ptxas) return;
    try {
      nvdisasm.emplace();
    } catch (const Error& e) {
      skip(e.what());
    }
  }
};

}  // namespace

TEST_CASE("values that are live at once count, by width, and others do not") {
  // The 64-bit value can be loaded after the 32-bit value has been used, so that only the 64-bit value and an
  // address for each lane are live at once. A predicate needs no register, and a parameter is in a uniform
  // register.
  const auto some = estimates_of(kernel(".reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<5>;",
                                        "ld.param.u64 %rd1, [p];\nmov.u32 %r2, %tid.x;\n"
                                        "mad.wide.u32 %rd3, %r2, 16, %rd1;\nld.global.u64 %rd2, [%rd3];\n"
                                        "ld.global.u32 %r1, [%rd3+8];\nsetp.ne.s32 %p1, %r1, 0;\n"
                                        "@%p1 st.global.u64 [%rd3], %rd2;"));
  REQUIRE(some.size() == 1);
  CHECK(some[0].others == 4);
  CHECK(some[0].accumulators == 0);
  CHECK(some[0].granted == 128);  // 65536 / 512
  CHECK_FALSE(some[0].is_too_large());
}

TEST_CASE("values that another order computes one after the other count once") {
  std::string loads, stores;
  for (int i = 2; i < 122; ++i) {
    loads += fmt::format("ld.global.u32 %r{}, [%rd1+{}];\n", i, 4 * i);
    stores += fmt::format("st.global.u32 [%rd1+{}], %r{};\n", 4 * i, i);
  }
  auto with = [&](const std::string& between) {
    return estimates_of(kernel(".reg .b32 %r<130>; .reg .b64 %rd<4>;",
                               fmt::format("ld.param.u64 %rd1, [p];\n{}{}{}", loads, between, stores)))[0]
        .others;
  };
  CHECK(with("") == 1);                 // each store can follow the load of its own bytes
  CHECK(with("bar.sync 0;\n") == 120);  // no load or store may move across the barrier
}

TEST_CASE("the first wgmma of a product does not need its accumulators") {
  auto with = [&](const char* scale_d) {
    return estimates_of(kernel(
        ".reg .pred %p<3>; .reg .b64 %rd<4>; .reg .f32 a<4>; .reg .f32 b<4>; .reg .b32 %r<3>;",
        fmt::format("mov.u32 %r1, %tid.x;\nsetp.ne.u32 %p2, %r1, 0;\nmov.pred %p1, 0;\n"
                    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{a0, a1, a2, a3}}, %rd1, %rd2, %p1, "
                    "1, 1, 0, 0;\nst.global.v4.f32 [%rd3], {{a0, a1, a2, a3}};\n"
                    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{b0, b1, b2, b3}}, %rd1, %rd2, {}, "
                    "1, 1, 0, 0;\nst.global.v4.f32 [%rd3+16], {{b0, b1, b2, b3}};\n",
                    scale_d)))[0]
        .accumulators;
  };
  CHECK(with("%p1") == 4);
  CHECK(with("0") == 4);
  CHECK(with("%p2") == 8);
}

TEST_CASE("a role that cannot get its registers is found, with the numbers") {
  std::string loads, sums;
  for (int i = 2; i < 122; ++i) {
    loads += fmt::format("ld.volatile.global.u32 %r{}, [%rd1+{}];\n", i, 4 * i);
    sums += fmt::format("st.volatile.global.u32 [%rd1+{}], %r{};\n", 4 * i, i);
  }
  auto with = [&](int granted) {
    return estimates_of(
        kernel(".reg .b32 %r<130>; .reg .b64 %rd<4>;",
               fmt::format("ld.param.u64 %rd1, [p];\nsetmaxnreg.dec.sync.aligned.u32 {};\n{}{}", granted,
                           loads, sums)));
  };
  const auto small = with(40), large = with(128);
  REQUIRE(small.size() == 1);
  CHECK(small[0].granted == 40);
  CHECK(small[0].others == 120);
  CHECK(small[0].is_too_large());
  CHECK(small[0].line > 0);
  REQUIRE(large.size() == 1);
  CHECK_FALSE(large[0].is_too_large());
}

TEST_CASE("a block that would take long is skipped") {
  auto others = [](int loads) {
    std::string text = "ld.param.u64 %rd1, [p];\n";
    for (int i = 1; i <= loads; ++i) text += fmt::format("ld.volatile.global.u32 %r{}, [%rd1];\n", i);
    for (int i = 1; i <= loads; ++i) text += fmt::format("st.volatile.global.u32 [%rd1], %r{};\n", i);
    return estimates_of(kernel(".reg .b32 %r<8000>; .reg .b64 %rd<4>;", text))[0].others;
  };
  CHECK(others(4000) == 4000);
  CHECK(others(4100) == 0);
}

TEST_CASE("the estimate is near ptxas's number for every kernel, and refuses none") {
  const fs::path table = folder / "compile" / "registers.txt";
  const std::vector<std::string> names = golden_kernels();
  if (bless) {
    const Tools tools;
    REQUIRE(tools.nvdisasm);
    std::ofstream file(table);
    for (const std::string& name : names)
      for (const auto& [granted, needed] : needs_of(golden(name), *tools.ptxas, *tools.nvdisasm))
        file << name << ' ' << granted << ' ' << needed << '\n';
  }
  std::map<std::string, Needs> needs;
  std::ifstream file(table);
  int granted = 0, needed = 0;
  for (std::string name; file >> name >> granted >> needed;) needs[name][granted] = needed;

  double squares = 0, of_products = 0;
  int roles = 0, products = 0, above = 0, below = 0;
  for (const std::string& name : names) {
    REQUIRE_MESSAGE(needs.contains(name), name, ": unit_tests register_estimate_test --bless");
    for (const RegisterEstimate& e : estimates_of(golden(name))) {
      const Needs& of_kernel = needs[name];
      const auto found = of_kernel.contains(0) ? of_kernel.begin() : of_kernel.find(e.granted.value_or(0));
      REQUIRE_MESSAGE(found != of_kernel.end(), name, " has no role of ", e.granted.value_or(0));
      const int error = e.registers - found->second;
      CHECK_MESSAGE(error <= e.tolerance(), name, ": ", e.registers, " for ", found->second);
      CHECK_MESSAGE(error >= -70, name, ": ", e.registers, " for ", found->second);
      CHECK_MESSAGE(!e.is_too_large(), name, " would be warned of: ", e.registers, " of ", *e.granted);
      above = std::max(above, error);
      below = std::max(below, -error);
      squares += error * error;
      ++roles;
      if (e.accumulators == 0) continue;
      of_products += error * error;
      ++products;
    }
  }
  REQUIRE(roles > 50);
  const double mean = std::sqrt(squares / roles), mean_of_products = std::sqrt(of_products / products);
  MESSAGE(roles, " roles: off by ", mean, " registers in the mean square, at most ", above, " above and ",
          below, " below; ", products, " roles with wgmma by ", mean_of_products);
  CHECK(mean < 22);
  CHECK(mean_of_products < 22);
}

TEST_CASE("a few kernels need today the registers of the table") {
  const Tools tools;
  if (!tools.nvdisasm) return;
  const std::string table = text_of(folder / "compile" / "registers.txt");
  for (const char* name : {"gemm_warp_specialized", "gemm_tile", "softmax"})
    for (const auto& [granted, needed] : needs_of(golden(name), *tools.ptxas, *tools.nvdisasm)) {
      const size_t row = table.find(fmt::format("{} {} ", name, granted));
      REQUIRE(row != std::string::npos);
      const std::string there = table.substr(row, table.find('\n', row) - row);
      const int known = std::stoi(there.substr(there.rfind(' ')));
      // Another version of ptxas may use a few registers more or fewer.
      CHECK_MESSAGE(std::abs(needed - known) <= 16, there, ", now ", needed);
    }
}

}  // namespace ptxbuilder::test::register_estimate_test
