#include "kernels/gemm/copy_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace ptxbuilder::kernels {
namespace {

constexpr int kThreads = 256, kRows = kThreads / 32;  // of a block: a warp for each row
constexpr int kUnroll = 16, kColumns = 32 * kUnroll;
constexpr int kCtasPerSm = 8;

// PTX ISA, ld: a destination may be wider than what is loaded.
void load_element(Var<u32>& value, gmem at, int bytes) {
  ptx(fmt::format("ld.global.u{} {{value:=u32}}, [{{at:gmem}}];", 8 * bytes), {{"value", value}, {"at", at}});
}
void store_element(u32 value, gmem at, int bytes) {
  ptx(fmt::format("st.global.u{} [{{at:gmem}}], {{value:u32}};", 8 * bytes), {{"at", at}, {"value", value}});
}

int64_t blocks(const MatrixShape& s) {
  auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  return ceil_div(s.rows, kRows) * ceil_div(s.columns, kColumns) * s.batches;
}

}  // namespace

Kernel copy_matrix(int element_bytes) {
  Kernel k(fmt::format("copy_matrix_{}", element_bytes));
  auto [from, to, from_row, to_row, from_batch, to_batch, rows, columns, batches] =
      k.params<gptr<u32>, gptr<u32>, u64, u64, u64, u64, u32, u32, u32>(
          "from", "to", "from_row", "to_row", "from_batch", "to_batch", "rows", "columns", "batches");
  k.threads(kThreads);
  const uint64_t size = static_cast<uint64_t>(element_bytes);
  u32 across = ceil_div(columns, kColumns), down = ceil_div(rows, kRows);

  for_(ctaid_x(), across * down * batches, nctaid_x(),
       [&, from = from, to = to, from_row = from_row, to_row = to_row, from_batch = from_batch,
        to_batch = to_batch, rows = rows, columns = columns](u32 block) {
         u32 line = block / across, batch = line / down;
         u32 row = (line - batch * down) * kRows + tid_x() / 32;
         u32 first = (block - line * across) * kColumns, column = first + tid_x() % 32;
         u64 offset = u64(column) * size;
         gmem source = gmem(from) + (u64(batch) * from_batch + u64(row) * from_row + offset);
         gmem target = gmem(to) + (u64(batch) * to_batch + u64(row) * to_row + offset);
         auto element = [&](gmem base, int i) { return base + u64(static_cast<uint64_t>(32 * i) * size); };
         if_(row < rows, [&] {
           if_(
               first + kColumns <= columns,
               [&] {
                 std::deque<Var<u32>> values;  // all loads are under way before the first store
                 for (int i = 0; i < kUnroll; ++i)
                   load_element(values.emplace_back(u32(0)), element(source, i), element_bytes);
                 for (int i = 0; i < kUnroll; ++i)
                   store_element(values[static_cast<size_t>(i)], element(target, i), element_bytes);
               },
               [&] {
                 for_(0u, (columns - column + 31u) / 32u, [&](u32 i) {
                   u64 at = u64(i) * (32 * size);
                   Var<u32> value(u32(0));
                   load_element(value, source + at, element_bytes);
                   store_element(value, target + at, element_bytes);
                 });
               });
         });
       });
  return k;
}

runtime::LoadedKernel& MatrixCopy::kernel(int element_bytes) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<runtime::LoadedKernel>& kernel = kernels_[element_bytes];
  if (!kernel)
    kernel = std::make_unique<runtime::LoadedKernel>(load(device_, compiler_, copy_matrix(element_bytes)));
  return *kernel;
}

void MatrixCopy::prepare(int element_bytes) { kernel(element_bytes); }

void MatrixCopy::operator()(const MatrixShape& shape, int element_bytes, const MatrixPlace& from,
                            const MatrixPlace& to, runtime::Stream stream) {
  const int64_t count = blocks(shape);
  if (count >= int64_t{1} << 31)
    throw Error(
        fmt::format("copy of {} matrices of {} x {}: {} blocks of {} x {}; less than 2^31 are taken at once",
                    shape.batches, shape.rows, shape.columns, count, kRows, kColumns));
  auto bytes = [&](int64_t elements) {
    return runtime::scalar(static_cast<uint64_t>(elements * element_bytes));
  };
  auto number = [](int64_t n) { return runtime::scalar(static_cast<uint32_t>(n)); };
  const int64_t resident = int64_t{kCtasPerSm} * multiprocessors_;
  const auto grid = static_cast<uint32_t>(std::min(count, resident));
  kernel(element_bytes)
      .launch({.grid = {grid}, .stream = stream},
              {runtime::pointer(from.memory, DType::u32), runtime::pointer(to.memory, DType::u32),
               bytes(from.stride), bytes(to.stride), bytes(from.batch_stride), bytes(to.batch_stride),
               number(shape.rows), number(shape.columns), number(shape.batches)});
}

}  // namespace ptxbuilder::kernels
