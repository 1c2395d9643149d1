// Tests all-reduces of several emulated ranks with a residual and an RMS norm. They must be right for random
// shapes and schedules, compared with float64, and faults must be named if one piece of the code is wrong.
#include <doctest/doctest.h>

#include "kernels/ranks/all_reduce_norm.h"
#include "kernels/rows/row_check.h"
#include "tests/ranks/mutant_kit.h"
#include "tests/ranks/norm_kit.h"
#include "tests/ranks/refusal_kit.h"

namespace ptxbuilder::test::ranked_norm_test {
namespace {

using Norms = std::vector<std::unique_ptr<kernels::RankedNorm>>;

Norms norms_of(RankedRun::Devices& devices, const LoadOptions& options) {
  Norms norms;
  for (auto& device : devices)
    norms.push_back(std::make_unique<kernels::RankedNorm>(*device, kernels::CallOptions{options}));
  return norms;
}

void call(Norms& norms, const NormRun& run, int multiprocessors) {
  for (size_t r = 0; r < norms.size(); ++r) {
    kernels::RankedNormArguments p = run.arguments(static_cast<int>(r));
    p.multiprocessors = multiprocessors;
    (*norms[r])(p);
  }
}

// Queues three calls one after the other, so that the last finds the data of the first in its place. A
// further call has other data.
void call_often(const NormCase& c, uint64_t seed, const LoadOptions& options) {
  auto devices = ranked_devices("emulator", c.ranks, of_seed(seed));
  Norms norms = norms_of(devices, options);
  NormRun run(devices, c, seed + 1);
  for (int i = 0; i < 3; ++i) call(norms, run, 1);  // each CTA has several rows
  run.synchronize();
  CHECK(run.worst() <= 1);
  run.draw_again();
  call(norms, run, 1);
  run.synchronize();
  CHECK(run.worst() <= 1);
  CHECK(run.is_same_on_all());
}

std::string right_ptx(const NormCase& c) {
  auto devices = ranked_devices("emulator", c.ranks);
  NormRun run(devices, c, 1);
  const kernels::RankedNormArguments p = run.arguments(0);
  const kernels::RowOperation operation = kernels::all_reduce_rms_norm();
  kernels::RowCall call;
  call.operation = &operation;
  call.tensors = {p.x, p.residual, p.weight, p.y, p.new_residual};
  return compiled_ptx(kernels::all_reduce_norm(kernels::check_rows(call, Where{}).problem, c.ranks));
}

}  // namespace

TEST_CASE("all-reduces with a norm are right on every schedule") {
  std::mt19937_64 engine(31);
  const auto draw = [&](uint64_t most) { return static_cast<int64_t>(engine() % most) + 1; };
  std::vector<NormCase> cases;
  if (asked_ranks == 0)
    cases = {{2, 3, 8200, DType::bf16}, {3, 2, 17, DType::f16}, {2, 5, 40000, DType::f16, true, false}};
  for (const int ranks : ranks_or({2, 3, 4}))
    for (const DType type : {DType::bf16, DType::f16, DType::f32})
      cases.push_back({ranks, draw(70), engine() % 2 ? draw(600) : 8 * draw(200), type, engine() % 3 > 0,
                       engine() % 3 > 0});
  for (const NormCase& c : cases) {
    const uint64_t seed = engine() % 1000;
    CAPTURE(c.ranks);
    CAPTURE(c.rows);
    CAPTURE(c.columns);
    CAPTURE(name(c.type));
    CAPTURE(seed);
    for (uint64_t more = 0; more < (asked_ranks > 0 ? 20 : 1); ++more) call_often(c, seed + more, uncached());
  }
}

TEST_CASE("what orders the ranks of an all-reduce is named where it is wrong") {
  const NormCase c{ranks_or({2}).front(), 6, 1024, DType::bf16};
  const std::string right = right_ptx(c);
  for (const PtxMutant& m : {
           PtxMutant{"rows are signalled ahead of their coming", "bar\\.sync \\d+, 128;", "", true},
           PtxMutant{"rows are read ahead of the wait",
                     "(bar\\.sync (\\d+), 128;[\\s\\S]*?ld\\.global[\\s\\S]*?)bar\\.sync \\2, 128;", "$1",
                     true},
           PtxMutant{"a release of the GPU's scope", "st\\.release\\.sys", "st.release.gpu"},
           PtxMutant{"an acquire of the GPU's scope", "ld\\.acquire\\.sys", "ld.acquire.gpu"},
           PtxMutant{"a place is overwritten that a peer still reads", "(and\\.b32 \t%r\\d+, %r\\d+), 1;",
                     "$1, 0;", true},
           PtxMutant{"another rank's word", "(mad\\.lo\\.s32 \t%r\\d+, )%r\\d+(, 1023)", "$1%r1$2", true},
           PtxMutant{"a signal of the call before is enough",
                     "(ld\\.acquire\\.sys[\\s\\S]*?setp\\.lt\\.u32 \t%p\\d+, %r\\d+), %r\\d+", "$1, 1", true},
       }) {
    const std::string what = m.what;
    CAPTURE(what);
    const std::string report =
        report_of(m, right, [&](uint64_t seed, const LoadOptions& options) { call_often(c, seed, options); });
    CHECK(report.find("of device ") != std::string::npos);
  }
}

TEST_CASE("all-reduces that cannot be right are refused, and their neighbours are not") {
  auto devices = ranked_devices("emulator", 2);
  Norms norms = norms_of(devices, uncached());
  NormRun run(devices, {2, 4, 64, DType::bf16}, 1);
  const auto call_with = [&](const Refusals<kernels::RankedNormArguments>::Change& change) {
    for (int r = 0; r < 2; ++r) {
      kernels::RankedNormArguments p = run.arguments(r);
      change(p);
      (*norms[static_cast<size_t>(r)])(p);
    }
    run.synchronize();
  };
  const Refusals<kernels::RankedNormArguments> refused(call_with);
  const auto nothing = [](auto&) {};
  refused([](auto& p) { p.rank = 2; }, "the rank is 2 of 2, but must be one of the ranks", nothing);
  refused([](auto& p) { p.memory.pop_back(); },
          "the exchange memory of 1 ranks was given, but there must be 2 to 64 ranks", nothing);
  refused([](auto& p) { p.memory[1].bytes -= 256; }, "the exchange memory of rank 1 has 263936 B", nothing);
  refused(
      [](auto& p) {
        p.x.extents = p.residual->extents = p.y.extents = p.new_residual.extents = {2, 64};
        p.memory[1].bytes -= 256;
      },
      "has 263936 B, but that of rank 0 has 264192; all must have the same size",
      [](auto& p) {
        p.x.extents = p.residual->extents = p.y.extents = p.new_residual.extents = {2, 64};
        for (runtime::View& memory : p.memory) memory.bytes -= 512;
      });
  refused(
      [](auto& p) {
        p.residual->extents = {4, 32};
      },
      "residual must have the shape [rows, columns], but is [4, 32]", [](auto& p) { p.residual.reset(); });
  refused([](auto& p) { p.residual->type = DType::f16; }, "residual is f16; its type must be that of x, bf16",
          [](auto& p) { p.weight->type = DType::f16; });
  refused(
      [](auto& p) {
        p.y.memory = p.residual->memory, p.y.memory.address += 128, p.y.extents = {3, 64};
      },
      "y must have the shape [rows, columns]", [](auto& p) { p.y.memory = p.residual->memory; });
  refused([](auto& p) { p.y.memory = p.new_residual.memory; }, "overlaps",
          [](auto& p) { p.new_residual.memory = p.x.memory; });
  refused(
      [](auto& p) {
        p.x.extents = p.residual->extents = p.y.extents = p.new_residual.extents = {3, 64};
        p.x.memory.address += 2, p.x.memory.bytes -= 2;
      },
      "with 64 columns of bf16 it must begin at a multiple of 16 B, as on all ranks",
      [](auto& p) {
        p.x.extents = p.residual->extents = p.y.extents = p.new_residual.extents = {3, 64};
        p.x.memory.address += 16, p.x.memory.bytes -= 16;
      });
  refused([](auto& p) { p.multiprocessors = -1; }, "multiprocessors is -1, but must be 0 or more",
          [](auto& p) { p.multiprocessors = 2; });
  // Nothing is launched if there are no rows.
  call_with([](auto& p) {
    p.x.extents = p.residual->extents = p.y.extents = p.new_residual.extents = {0, 64};
  });
}

}  // namespace ptxbuilder::test::ranked_norm_test
