// Tests contractions of named modes. Random contractions are compared with float64. Also tests which modes
// fold, which operands are copied, and which calls are refused.
//
//   contraction_test [--device=emulator|cuda|auto] [--count=N] [--seed=S]
#include <doctest/doctest.h>

#include "contraction_kit.h"
#include "error_kit.h"
#include "options.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::contraction_test {
using kernels::Contraction;

namespace {

const size_t& count = test::option<size_t>("contractions", 40);
const uint64_t& seed = test::option<uint64_t>("contraction_seed", 1);

runtime::Device& device() {
  static const std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  return *device;
}

// Returns the smallest tile that supports the operation, so that even small products have several tiles.
kernels::GemmTile small_tile(const kernels::GemmOperation& operation, const kernels::GemmSize& size,
                             int multiprocessors) {
  for (const auto& [bm, bn, consumers] : {std::tuple{64, 32, 1}, {64, 64, 1}, {128, 64, 2}, {128, 128, 2}}) {
    kernels::GemmTile t;
    t.bm = bm, t.bn = bn, t.consumers = consumers, t.stages = 2;
    t.swapped = size.m < size.n && consumers == 1;
    if (kernels::plan_of(operation, t).plan) return t;
    t.swapped = false;
    if (kernels::plan_of(operation, t).plan) return t;
  }
  return kernels::choose(operation, size, multiprocessors);
}

Contraction& contraction() {
  static Contraction contraction = [] {
    kernels::MatmulOptions options;
    if (device().wants_ptx()) options.choose = small_tile;
    return Contraction(device(), options);
  }();
  return contraction;
}

void check_case(const ContractionCase& c) {
  CAPTURE(text(c));
  std::string problem;
  try {
    ContractionTrial trial(device(), c);
    problem = trial.wrong(contraction());
  } catch (const Error& e) {
    problem = e.what();
  }
  CHECK_MESSAGE(problem.empty(), problem);
}

}  // namespace

TEST_CASE("drawn contractions are right, and touch nothing else") {
  const double scale = device().wants_ptx() ? 1 << 16 : 1 << 20;
  for (size_t i = 0; i < count; ++i) check_case(drawn_contraction(seed * 1000 + i, scale));
}

TEST_CASE("two modes of the depth and of the rows, along which an operand is stored, that do not fold") {
  for (const auto& [a, b, d] : {std::tuple{"dcm", "adcb", "abm"},
                                {"dcm", "adbc", "mab"},
                                {"mcd", "dabc", "abm"},
                                {"dcm", "dcab", "bam"}})
    for (const DType type : {DType::bf16, DType::f32}) {
      ContractionCase c;
      c.subscripts = "cdm,abcd->abm";
      c.extents = {{'a', 40}, {'b', 16}, {'c', 4}, {'d', 24}, {'m', 8}};
      c.a.order = a, c.b.order = b, c.d.order = d, c.type = type;
      c.b.gaps[c.b.order[1]] = 8;
      check_case(c);
    }
}

}  // namespace ptxbuilder::test::contraction_test
