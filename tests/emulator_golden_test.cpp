// The library's own kernels, as the golden files keep them: they verify on every schedule, and their mutants,
// which are made from the syntax tree, are reported.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "emulator_kit.h"

namespace ptxbuilder::runtime {
namespace {

using ptx::Instruction;
using ptx::Operand;

Operand number(int64_t value) { return {Operand::Kind::number, std::to_string(value), {}, {}}; }

// Applies `change` to the nth instruction whose mnemonic starts with `opcode`; it is dropped where that says
// false. Returns whether there was one.
bool edit(std::vector<ptx::Statement>& body, const std::string& opcode, int& nth,
          const std::function<bool(Instruction&)>& change) {
  for (size_t i = 0; i < body.size(); ++i) {
    ptx::Statement& s = body[i];
    if (s.kind == ptx::Statement::Kind::block && edit(s.block, opcode, nth, change)) return true;
    if (s.kind != ptx::Statement::Kind::instruction || !s.instruction.opcode.starts_with(opcode) || nth-- > 0)
      continue;
    if (!change(s.instruction)) body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return false;
}

struct Mutant {
  std::string what, opcode;
  int nth;
  std::function<bool(Instruction&)> change;
  std::vector<Fault> causes;  // those that name what is wrong
  int times = 1;
};

bool drop(Instruction&) { return false; }

std::function<bool(Instruction&)> add_to(size_t operand, int64_t by) {
  return [=](Instruction& i) {
    Operand& o = i.operands.at(operand);
    auto value = ptx::integer_value(o);
    REQUIRE(value);
    o = number(*value + by);
    return true;
  };
}

// Waits for the other parity: the register's value is only 0 or 1, and an immediate becomes the other.
bool other_parity(Instruction& i) {
  Operand& o = i.operands.at(2);
  if (auto value = ptx::integer_value(o))
    o = number(1 - *value);
  else
    return false;
  return true;
}

std::optional<Fault> reported(const std::string& text, const Mutant& m,
                              const std::function<void(const std::string&, uint64_t)>& run,
                              std::string& what) {
  ptx::Module module = ptx::parse(text);
  for (int time = 0; time < m.times; ++time) {
    int nth = m.nth;
    bool found = false;
    for (ptx::Statement& s : module.statements)
      if (s.kind == ptx::Statement::Kind::function && s.function[0].has_body)
        found = found || edit(s.function[0].body, m.opcode, nth, m.change);
    REQUIRE_MESSAGE(found, m.what);
  }
  const std::string mutant = ptx::print(module);
  for (uint64_t seed = 0; seed < 20; ++seed)
    if (auto fault = fault_of([&] { run(mutant, seed); }, &what)) return fault;
  return std::nullopt;
}

void run_all(const std::string& file, const std::vector<Mutant>& mutants, int seeds,
             const std::function<void(const std::string&, uint64_t)>& run) {
  const std::string text = test_file(file);
  std::string what;
  for (int seed = 0; seed < seeds; ++seed) {
    auto fault = fault_of([&] { run(text, static_cast<uint64_t>(seed)); }, &what);
    REQUIRE_MESSAGE(!fault, what);
  }
  std::string table = fmt::format("\n{}\n", file);
  for (const Mutant& m : mutants) {
    auto fault = reported(text, m, run, what);
    table += fmt::format("  {:56} {}\n", m.what, what.substr(0, what.find('\n')));
    const bool right = fault && std::find(m.causes.begin(), m.causes.end(), *fault) != m.causes.end();
    const std::string shown = m.what + ": " + what;
    CHECK_MESSAGE(right, shown);
  }
  MESSAGE(table);
}

void run_pipelined(const std::string& text, uint64_t seed) {
  EmulatorOptions options;
  options.seed = seed;
  Bench bench(text, 384, options);
  const uint32_t m = 128, n = 264, k = 648;
  auto a = random_bf16(size_t{m} * k, 1), b = random_bf16(size_t{n} * k, 2);
  Address da = bench.upload(a), db = bench.upload(b), dd = bench.upload(std::vector<uint16_t>(m * n));
  bench.run({2, 1, 1}, 230400, bench.map_2d(da, DType::bf16, m, k, 128, 64, Swizzle::b128),
            bench.map_2d(db, DType::bf16, n, k, 256, 64, Swizzle::b128),
            bench.map_2d(dd, DType::bf16, m, n, 64, 64, Swizzle::b128), k);
}

TEST_CASE("emulator: gemm_pipelined and its mutants") {
  run_all(
      "golden/gemm_pipelined.ptx",
      {{"no fence after the init", "fence.", 0, drop, {Fault::mbarrier_init}, 2},
       {"no bar.sync after the init", "bar.sync", 0, drop, {Fault::mbarrier_use, Fault::mbarrier_init}},
       {"a full barrier for 2", "mbarrier.init", 0, add_to(1, 1), {Fault::deadlock}},
       {"an empty barrier for one less",
        "mbarrier.init",
        4,
        add_to(1, -1),
        {Fault::arrival_count, Fault::phase_skipped, Fault::race}},
       {"an empty barrier for one more", "mbarrier.init", 4, add_to(1, 1), {Fault::deadlock}},
       {"an mbarrier is not initialised", "mbarrier.init", 5, drop, {Fault::mbarrier_use}},
       {"16 B too many expected", "mbarrier.arrive.expect_tx", 0, add_to(2, 16), {Fault::tx_count}},
       {"16 B too few expected", "mbarrier.arrive.expect_tx", 0, add_to(2, -16), {Fault::tx_count}},
       {"no expect_tx", "mbarrier.arrive.expect_tx", 0, drop, {Fault::deadlock}},
       {"a copy is left out", "cp.async.bulk.tensor.2d.shared", 1, drop, {Fault::tx_count}},
       {"a copy twice as far",
        "cp.async.bulk.tensor.2d.shared",
        0,
        [](Instruction& i) {
          i.operands[0].parts[0] = {Operand::Kind::binary, "+", {i.operands[0].parts[0], number(16384)}, {}};
          return true;
        },
        {Fault::race}},
       {"no wgmma.fence", "wgmma.fence", 0, drop, {Fault::matrix_fence}},
       {"no wgmma.commit_group", "wgmma.commit_group", 0, drop, {Fault::race, Fault::matrix_registers}},
       {"wait_group 1 for 0", "wgmma.wait_group", 0, add_to(0, 1), {Fault::race, Fault::matrix_registers}},
       {"stages are not released", "mbarrier.arrive.shared", 0, drop, {Fault::deadlock}},
       {"no proxy fence before the store", "fence.proxy.async", 1, drop, {Fault::proxy_fence}},
       {"no wait for a store", "cp.async.bulk.wait_group", 0, drop, {Fault::race, Fault::early_exit}},
       {"setmaxnreg.inc too far", "setmaxnreg.inc", 0, add_to(0, 8), {Fault::register_budget}}},
      200, run_pipelined);
}

void run_saxpy(const std::string& text, uint64_t seed) {
  EmulatorOptions options;
  options.seed = seed;
  Bench bench(text, 32, options);
  std::vector<float> x(64 * 32, 1.0f), y(64 * 32, 3.0f);
  Address dx = bench.upload(x), dy = bench.upload(y);
  bench.run({64, 1, 1}, 512, bench.map_2d(dx, DType::f32, 64, 32, 1, 32, Swizzle::none),
            bench.map_2d(dy, DType::f32, 64, 32, 1, 32, Swizzle::none), dy, 2.0f);
  auto r = bench.download<float>(dy, y.size());
  CHECK(std::all_of(r.begin(), r.end(), [](float v) { return v == 5.0f; }));
}

TEST_CASE("emulator: saxpy_tma and its mutants") {
  run_all("golden/saxpy_tma.ptx",
          {{"no mbarrier.init", "mbarrier.init", 0, drop, {Fault::mbarrier_use}},
           {"a barrier for 2", "mbarrier.init", 0, add_to(1, 1), {Fault::deadlock}},
           {"16 B too many expected", "mbarrier.arrive.expect_tx", 0, add_to(2, 16), {Fault::tx_count}},
           {"16 B too few expected", "mbarrier.arrive.expect_tx", 0, add_to(2, -16), {Fault::tx_count}},
           {"half the bytes expected", "mbarrier.arrive.expect_tx", 0, add_to(2, -128), {Fault::tx_count}},
           {"no expect_tx", "mbarrier.arrive.expect_tx", 0, drop, {Fault::deadlock}},
           {"arrive without bytes",
            "mbarrier.arrive.expect_tx",
            0,
            [](Instruction& i) {
              i.opcode = "mbarrier.arrive.shared::cta.b64";
              i.operands.pop_back();
              return true;
            },
            {Fault::race, Fault::tx_count}},
           {"one copy is left out", "cp.async.bulk.tensor", 0, drop, {Fault::tx_count}},
           {"the other copy is left out", "cp.async.bulk.tensor", 1, drop, {Fault::tx_count}},
           {"a copy to an odd place",
            "cp.async.bulk.tensor",
            1,
            [](Instruction& i) {
              i.operands[0].parts[0] = {Operand::Kind::binary, "+", {i.operands[0].parts[0], number(16)}, {}};
              return true;
            },
            {Fault::misaligned}},
           {"both copies to one place",
            "add.s32",
            2,
            [](Instruction& i) {
              i.operands[2] = number(0);
              return true;
            },
            {Fault::race}},
           {"the other parity", "mbarrier.try_wait", 0, other_parity, {Fault::race, Fault::uninitialised}},
           {"no wait",
            "mbarrier.try_wait",
            0,
            [](Instruction& i) {
              i.opcode = "setp.eq.u32";
              i.operands = {i.operands[0], number(0), number(0)};
              return true;
            },
            {Fault::race}}},
          200, run_saxpy);
}

}  // namespace
}  // namespace ptxbuilder::runtime
