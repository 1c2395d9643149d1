// Tests a call on rows whose form has been checked before. New addresses and numbers take effect, and
// properties that the form does not include are checked again.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernels/rows/operations.h"
#include "kernels/rows/rows.h"
#include "library_kit.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::test::rows_call_test {
namespace {

constexpr int64_t kRows = 6, kColumns = 32;
using Floats = std::vector<float>;

kernels::RowOperand operand(runtime::View memory, std::vector<int64_t> extents) {
  return {DType::f32, std::move(extents), memory};
}

Floats row_numbers(float scale) {
  Floats x(kRows * kColumns);
  for (size_t i = 0; i < x.size(); ++i) x[i] = scale * static_cast<float>(static_cast<int>(i * 7) % 13 - 6);
  return x;
}

}  // namespace

TEST_CASE("a known call takes other addresses and numbers, and is checked where they matter") {
  const auto device = runtime::open_emulator();
  kernels::Rows rows(*device);
  const kernels::RowOperation& norm = kernels::row_operation("rms_norm");
  runtime::Buffer memory(*device, 4096 * 4);
  const auto part = [&](uint64_t first) {
    return runtime::View{memory.address() + first, kRows * kColumns * 4};
  };
  const auto call = [&](uint64_t x, uint64_t y, float epsilon) {
    rows({.operation = &norm,
          .tensors = {operand(part(x), {kRows, kColumns}), {}, operand(part(y), {kRows, kColumns}), {}},
          .numbers = {epsilon}});
  };
  const auto check = [&](uint64_t at, uint64_t y, float epsilon, float scale) {
    const Floats x = row_numbers(scale);
    device->copy_in(memory.address() + at, x.data(), x.size() * 4);
    call(at, y, epsilon);
    device->synchronize();
    Floats got(x.size());
    device->copy_out(got.data(), memory.address() + y, got.size() * 4);
    double worst = 0;
    for (size_t r = 0; r < kRows; ++r) {
      double square = 0;
      for (size_t c = 0; c < kColumns; ++c) square += double{x[r * kColumns + c]} * x[r * kColumns + c];
      for (size_t c = 0; c < kColumns; ++c)
        worst = std::max(worst, std::abs(got[r * kColumns + c] -
                                         x[r * kColumns + c] / std::sqrt(square / kColumns + epsilon)));
    }
    CHECK(worst < 1e-5);
  };
  check(0, 2048, 1e-6F, 1);
  check(1024, 4096, 1e-6F, 2);  // known, at other addresses
  check(1024, 4096, 4, 2);      // known, with another number
  check(1024, 1024, 1, 3);      // in place, which is another form
  check(2048, 2048, 1, 1);
  check(1028, 4096, 1, 3);  // a different alignment
  // An overlap is refused even if the form is known.
  CHECK(contains(error_of([&] { call(1024, 1024 + 16, 1); }), "overlaps"));
  CHECK(contains(error_of([&] { call(0, 4, 1); }), "overlaps"));
}

TEST_CASE("a known call asks for its workspace again") {
  const auto device = runtime::open_emulator();
  kernels::Rows rows(*device);
  runtime::Buffer memory(*device, 8192 * 4);
  kernels::RowCall call;
  call.operation = &kernels::row_operation("layer_norm_gradient");
  const auto place = [&](uint64_t first, std::vector<int64_t> extents) {
    int64_t count = 1;
    for (const int64_t extent : extents) count *= extent;
    return operand({memory.address() + first, static_cast<size_t>(count * 4)}, std::move(extents));
  };
  const std::vector<int64_t> all = {kRows, kColumns}, columns = {kColumns}, of_rows = {kRows};
  call.tensors = {place(0, all),    place(1024, columns), place(1280, of_rows), place(1536, of_rows),
                  place(2048, all), place(3072, all),     place(4096, columns), place(4352, columns)};
  const size_t bytes = rows.workspace_bytes(call);
  CHECK(bytes > 0);
  CHECK(rows.workspace_bytes(call) == bytes);
  runtime::Buffer workspace(*device, bytes);
  call.workspace = workspace;
  for (int i = 0; i < 2; ++i) rows(call);
  call.workspace.bytes = bytes - 1;
  CHECK(contains(error_of([&] { rows(call); }), "needs a workspace of"));
  call.workspace = {memory.address(), bytes};
  CHECK(contains(error_of([&] { rows(call); }), "the workspace"));
  device->synchronize();
}

TEST_CASE("exponentials of the least finite numbers are finite") {
  const auto device = runtime::open_emulator();
  kernels::Rows rows(*device);
  runtime::Buffer x(*device, kColumns * 4), y(*device, kColumns * 4), target(*device, 4), loss(*device, 4);
  const auto row = [&](const runtime::Buffer& memory) { return operand(memory, {1, kColumns}); };
  const Floats least(kColumns, std::numeric_limits<float>::lowest());
  device->copy_in(x.address(), least.data(), kColumns * 4);
  rows({.operation = &kernels::row_operation("softmax"), .tensors = {row(x), row(y)}});
  const int32_t third = 3;
  device->copy_in(target.address(), &third, 4);
  rows({.operation = &kernels::row_operation("cross_entropy"),
        .tensors = {row(x), kernels::RowOperand{DType::s32, {1}, target}, operand(loss, {1}), {}}});
  device->synchronize();
  Floats got(kColumns);
  device->copy_out(got.data(), y.address(), kColumns * 4);
  for (const float one : got) CHECK(one == doctest::Approx(1.0 / kColumns));
  device->copy_out(got.data(), loss.address(), 4);
  CHECK(std::isfinite(got[0]));
}

TEST_CASE("a warp holds a row if it can, though fewer threads then run at once") {
  const kernels::RowLimits& limits = kernels::row_operation("softmax_gradient").limits;
  const auto tile = [&](int64_t columns, int bytes, int vector) {
    return kernels::row_tile(columns, bytes, vector, limits);
  };
  CHECK(tile(512, 2, 8).at_once == 8);
  CHECK(tile(1024, 2, 8).warps == 1);
  CHECK(tile(1024, 2, 8).rows() == 4);
  CHECK(tile(1024, 2, 8).at_once == 6);
  CHECK(tile(1024, 2, 4).warps == 4);  // accesses are narrower
  CHECK(tile(1024, 4, 4).warps == 4);
  CHECK(tile(1032, 2, 8).warps == 4);
}

TEST_CASE("no more clusters take rows in turn than run at once") {
  const kernels::RowOperation& o = kernels::row_operation("rms_norm_gradient");
  const kernels::RowTile four = kernels::row_tile(16384, 2, 8, o.limits),
                         eight = kernels::row_tile(65536, 2, 8, o.limits);
  CHECK(four.ctas == 4);
  CHECK(four.at_once == 4);
  CHECK(eight.ctas == 8);
  CHECK(eight.at_once == 2);
  CHECK(kernels::row_parts(four, 4096, 132) == 120);
  CHECK(kernels::row_parts(eight, 4096, 132) == 30);
  CHECK(kernels::row_parts(eight, 7, 132) == 7);
}

}  // namespace ptxbuilder::test::rows_call_test
