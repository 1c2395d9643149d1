#include "kernels/call/copy_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kThreads = 256, kRows = kThreads / 32;  // each warp copies one row of a block
constexpr int kUnroll = 16, kColumns = 32 * kUnroll;
constexpr int kCtasPerSm = 8;

// Loads an element. The destination register may be wider than the element (PTX ISA, ld).
void load_element(Var<u32>& value, gmem at, int bytes) {
  ptx(fmt::format("ld.global.u{} {{value:=u32}}, [{{at:gmem}}];", 8 * bytes), {{"value", value}, {"at", at}});
}
void store_element(u32 value, gmem at, int bytes) {
  ptx(fmt::format("st.global.u{} [{{at:gmem}}], {{value:u32}};", 8 * bytes), {{"at", at}, {"value", value}});
}

// The kernel's parameters for one matrix, in elements of the size that the kernel copies.
struct Told {
  gmem from, to;
  u64 from_row, to_row, from_batch, to_batch;
  u32 rows, columns, batches;

  u32 across() const { return ceil_div(columns, kColumns); }
  u32 down() const { return ceil_div(rows, kRows); }
  u32 blocks() const { return across() * down() * batches; }
};

std::string name_of(const char* parameter, int matrix) { return fmt::format("{}{}", parameter, matrix); }

void add_parameters(Parameters& p, int matrix) {
  using enum Parameter::Kind;
  auto add = [&](const char* name, Parameter::Kind kind, DType type, const char* meaning) {
    p.add(name_of(name, matrix), kind, type, meaning);
  };
  add("from", pointer, DType::u32, "where the matrix is, of any type");
  add("to", pointer, DType::u32, "where it is copied to");
  add("from_row", scalar, DType::u64, "bytes from one row to the next");
  add("to_row", scalar, DType::u64, "bytes from one row of the copy to the next");
  add("from_batch", scalar, DType::u64, "bytes from one batch to the next");
  add("to_batch", scalar, DType::u64, "bytes from one batch of the copy to the next");
  add("rows", scalar, DType::u32, "rows of each batch");
  add("columns", scalar, DType::u32, "elements of a row, of the size that this kernel copies");
  add("batches", scalar, DType::u32, "matrices");
}

Told told(const Parameters& p, int matrix) {
  auto pointer = [&](const char* name) { return gmem(p.get<gptr<u32>>(name_of(name, matrix))); };
  auto bytes = [&](const char* name) { return p.get<u64>(name_of(name, matrix)); };
  auto number = [&](const char* name) { return p.get<u32>(name_of(name, matrix)); };
  return {pointer("from"),   pointer("to"),  bytes("from_row"), bytes("to_row"),  bytes("from_batch"),
          bytes("to_batch"), number("rows"), number("columns"), number("batches")};
}

// Copies a block. All loads are issued before the first store. A load beyond the end of the row loads the
// row's last element.
void copy_block(const Told& m, u32 block, int bytes) {
  const auto size = static_cast<uint64_t>(bytes);
  u32 line = block / m.across(), batch = line / m.down();
  u32 row = (line - batch * m.down()) * kRows + tid_x() / 32;
  u32 column = (block - line * m.across()) * kColumns + tid_x() % 32;
  if_(row < m.rows, [&] {
    gmem source = m.from + (u64(batch) * m.from_batch + u64(row) * m.from_row);
    gmem target = m.to + (u64(batch) * m.to_batch + u64(row) * m.to_row);
    std::deque<Var<u32>> values;
    for (uint32_t i = 0; i < kUnroll; ++i)
      load_element(values.emplace_back(u32(0)), source + u64(min(column + 32 * i, m.columns - 1u)) * size,
                   bytes);
    for (uint32_t i = 0; i < kUnroll; ++i)
      if_(column + 32 * i < m.columns,
          [&] { store_element(values[i], target + u64(column + 32 * i) * size, bytes); });
  });
}

// Returns the element size for a kernel that copies all these matrices, which is the smallest of their
// element sizes.
int unit_of(std::span<const MatrixCopy> copies) {
  int unit = copies.front().element_bytes;
  for (const MatrixCopy& c : copies) unit = std::min(unit, c.element_bytes);
  return unit;
}

int64_t blocks(const MatrixShape& s, int units) {
  auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  return ceil_div(s.rows, kRows) * ceil_div(s.columns * units, kColumns) * s.batches;
}

}  // namespace

Kernel copy_matrices(int element_bytes, int count) {
  Kernel k(fmt::format("copy_matrices_{}_{}", element_bytes, count));
  Parameters parameters;
  for (int i = 0; i < count; ++i) add_parameters(parameters, i);
  parameters.declare(k, Where::here());
  k.threads(kThreads);
  k.overlaps();
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();

  std::vector<Told> matrices;
  u32 end = 0;
  for (int i = 0; i < count; ++i) end = end + matrices.emplace_back(told(parameters, i)).blocks();
  for_(ctaid_x(), end, nctaid_x(), [&](u32 block) {
    for (const Told& m : matrices) {
      if_(block < m.blocks(), [&] { copy_block(m, block, element_bytes); });
      block = block - m.blocks();  // if the block belongs to this matrix, this wraps around, beyond the
                                   // blocks of all later matrices
    }
  });
  return k;
}

runtime::LoadedKernel& MatrixCopier::kernel(std::span<const MatrixCopy> copies) {
  const int unit = unit_of(copies), count = static_cast<int>(copies.size());
  const std::lock_guard lock(mutex_);
  std::unique_ptr<runtime::LoadedKernel>& kernel = kernels_[{unit, count}];
  if (!kernel)
    kernel = std::make_unique<runtime::LoadedKernel>(load(device_, compiler_, copy_matrices(unit, count)));
  return *kernel;
}

CopyLaunch MatrixCopier::launch_of(std::span<const MatrixCopy> copies, runtime::Stream stream) {
  const int unit = unit_of(copies);
  int64_t count = 0;
  CopyLaunch launch = {&kernel(copies), {}, {}};
  launch.arguments.reserve(kCopyParameters * copies.size());
  for (const MatrixCopy& c : copies) {
    count += blocks(c.shape, c.element_bytes / unit);
    auto add = [&](runtime::Argument argument) { launch.arguments.push_back(std::move(argument)); };
    auto bytes = [&](int64_t elements) {
      add(runtime::scalar(static_cast<uint64_t>(elements * c.element_bytes)));
    };
    auto number = [&](int64_t n) { add(runtime::scalar(static_cast<uint32_t>(n))); };
    add(runtime::pointer(c.from.memory, DType::u32));
    add(runtime::pointer(c.to.memory, DType::u32));
    bytes(c.from.stride);
    bytes(c.to.stride);
    bytes(c.from.batch_stride);
    bytes(c.to.batch_stride);
    number(c.shape.rows);
    number(c.shape.columns * (c.element_bytes / unit));
    number(c.shape.batches);
  }
  if (count >= int64_t{1} << 31)
    throw Error(
        fmt::format("copy of {} matrices, the first {} of {} x {}: there are {} blocks of {} x {}, but at "
                    "most 2^31 - 1 can be copied at once",
                    copies.size(), copies.front().shape.batches, copies.front().shape.rows,
                    copies.front().shape.columns, count, kRows, kColumns));
  const int64_t resident = int64_t{kCtasPerSm} * multiprocessors_;
  launch.options = {.grid = {static_cast<uint32_t>(std::min(count, resident))},
                    .programmatic_dependent_launch = true,
                    .stream = stream};
  return launch;
}

void MatrixCopier::operator()(const MatrixCopy& copy, runtime::Stream stream) {
  const CopyLaunch launch = launch_of({&copy, 1}, stream);
  launch.kernel->launch(launch.options, launch.arguments);
}

}  // namespace ptxbuilder::kernels
