#include "kernels/call/permuted_copy.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/call/operand.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {
namespace {

using Mode = PermutedCopy::Mode;

constexpr int kEdge = 64;  // of a block
constexpr int kShort = 16;
constexpr int kPermutingCtas = 8;

std::string outer_name(const char* what, size_t i) { return fmt::format("{}{}", what, i); }

// Two modes are one where one goes on where the other ends, on either side.
void fold(std::vector<Mode>& modes) {
  std::erase_if(modes, [](const Mode& mode) { return mode.extent == 1; });
  std::ranges::sort(modes, {}, &Mode::to);
  for (size_t i = 0; i + 1 < modes.size();) {
    Mode &inner = modes[i], &next = modes[i + 1];
    if (next.from == inner.from * inner.extent && next.to == inner.to * inner.extent &&
        inner.extent * next.extent < int64_t{1} << 31) {
      inner.extent *= next.extent;
      modes.erase(modes.begin() + static_cast<ptrdiff_t>(i) + 1);
    } else {
      ++i;
    }
  }
}

template <class T>
void copy_blocks(Kernel& k, const Parameters& p, int vector, bool transposes) {
  const auto number = [&](const std::string& name) { return p.get<u32>(name); };
  const auto stride = [&](const char* name, bool is_one) {
    return vector > 1 && is_one ? Stride(1) : Stride(p.get<u64>(name));
  };
  const SharedTile tile = k.shared<T>({kEdge, kEdge}, widest_swizzle(kEdge * size_of(T::dtype)), 1, "tile");
  const RegisterLayout by_rows = strided({kEdge, kEdge}, vector);
  const u32 rows = number("rows"), columns = number("columns");
  const u32 down = ceil_div(rows, kEdge), across = ceil_div(columns, kEdge);
  u32 all = down * across;
  for (size_t i = 0; i < PermutedCopyForm::kOuter; ++i) all = all * number(outer_name("extent", i));
  for_(ctaid_x(), all, nctaid_x(), [&](u32 block) {
    u32 rest = block / across;
    const u32 column = (block - rest * across) * kEdge;
    const u32 line = rest / down, row = (rest - line * down) * kEdge;
    rest = line;
    u64 from = 0, to = 0;
    for (size_t i = 0; i < PermutedCopyForm::kOuter; ++i) {
      const u32 next = rest / number(outer_name("extent", i));
      const u64 digit = u64(rest - next * number(outer_name("extent", i)));
      from = from + digit * p.get<u64>(outer_name("from", i));
      to = to + digit * p.get<u64>(outer_name("to", i));
      rest = next;
    }
    GlobalTensor x(p.get<gptr<T>>("from") + from, {rows, columns},
                   {stride("from_row", false), stride("from_column", true)});
    if (vector > 1) x = x.multiples_of(vector);
    const RegisterTile<T> read = load<T>(x.tile(row, column), by_rows);
    if (!transposes) {
      GlobalTensor y(p.get<gptr<T>>("to") + to, {rows, columns},
                     {stride("to_row", false), stride("to_column", true)});
      if (vector > 1) y = y.multiples_of(vector);
      store(y.tile(row, column), read);
      return;
    }
    sync_threads();  // all are through with the block before
    store(tile[0], read);
    sync_threads();
    GlobalTensor y(p.get<gptr<T>>("to") + to, {columns, rows},
                   {stride("to_column", false), stride("to_row", true)});
    if (vector > 1) y = y.multiples_of(vector);
    store(y.tile(column, row), layout_cast(load<T>(tile[0].transposed()), by_rows));
  });
}

}  // namespace

PermutedCopyForm form_of(const PermutedCopy& copy) {
  std::vector<Mode> modes = copy.modes;
  fold(modes);
  if (modes.size() > PermutedCopyForm::kOuter + 2)
    throw Error(fmt::format("copy of a tensor of {} modes that do not fold; it has {} at most", modes.size(),
                            PermutedCopyForm::kOuter + 2));
  PermutedCopyForm form{copy.element_bytes};
  const auto take = [&](auto by) {
    const auto at = std::ranges::min_element(modes, {}, by);
    const Mode taken = *at;
    modes.erase(at);
    return taken;
  };
  if (!modes.empty()) form.columns = take(&Mode::from);
  if (!modes.empty()) {
    const Mode& written = *std::ranges::min_element(modes, {}, &Mode::to);
    form.transposes = written.to < form.columns.to;
    // A block of a short mode would be nearly empty: the copy goes along the longer one on both sides.
    if (form.transposes && std::min(written.extent, form.columns.extent) < kShort) {
      form.transposes = false;
      if (form.columns.extent < kShort) {
        modes.push_back(form.columns);
        form.columns = take(&Mode::to);
      }
      form.rows = take([](const Mode& mode) { return -mode.extent; });
    } else {
      form.rows = take(&Mode::to);
    }
  }
  form.outer = modes;
  form.outer.resize(PermutedCopyForm::kOuter, {1, 0, 0});
  const int vector = static_cast<int>(kTma) / copy.element_bytes;
  const auto is_multiple = [&](int64_t value) { return value % vector == 0; };
  const Mode &rows = form.rows, &columns = form.columns;
  const bool is_wide = copy.from.address % kTma == 0 && copy.to.address % kTma == 0 && columns.from == 1 &&
                       is_multiple(columns.extent) && is_multiple(rows.from) &&
                       (form.transposes ? rows.to == 1 && is_multiple(rows.extent) && is_multiple(columns.to)
                                        : columns.to == 1 && is_multiple(rows.to)) &&
                       std::ranges::all_of(form.outer, [&](const Mode& mode) {
                         return is_multiple(mode.from) && is_multiple(mode.to);
                       });
  if (is_wide) form.vector = vector;
  return form;
}

Kernel permuted_copy(int element_bytes, int vector, bool transposes) {
  Kernel k(fmt::format("permuted_copy_{}_{}{}", element_bytes, vector, transposes ? "_transposed" : ""));
  const DType type = element_bytes == 1 ? DType::u8 : element_bytes == 2 ? DType::bf16 : DType::u32;
  Parameters p;
  p.add("from", Parameter::Kind::pointer, type, "where the tensor lies");
  p.add("to", Parameter::Kind::pointer, type, "where it is copied to");
  p.add("rows", Parameter::Kind::scalar, DType::u32, "the extent of the mode along which copies are written");
  p.add("columns", Parameter::Kind::scalar, DType::u32, "that of the mode along which they are read");
  for (const char* name : {"from_row", "from_column", "to_row", "to_column"})
    p.add(name, Parameter::Kind::scalar, DType::u64, "elements from one to the next");
  for (size_t i = 0; i < PermutedCopyForm::kOuter; ++i) {
    p.add(outer_name("extent", i), Parameter::Kind::scalar, DType::u32, "the extent of another mode");
    p.add(outer_name("from", i), Parameter::Kind::scalar, DType::u64, "elements from one to the next");
    p.add(outer_name("to", i), Parameter::Kind::scalar, DType::u64, "the same of the copy");
  }
  p.declare(k, Where::here());
  k.threads(RegisterLayout::kThreads);
  k.overlaps();
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  if (element_bytes == 1)
    copy_blocks<u8>(k, p, vector, transposes);
  else if (element_bytes == 2)
    copy_blocks<bf16>(k, p, vector, transposes);
  else
    copy_blocks<u32>(k, p, vector, transposes);
  return k;
}

PermutedCopier::PermutedCopier(runtime::Device& device, const LoadOptions& options)
    : device_(device),
      compiler_(compiler_for(device, options)),
      multiprocessors_(device.properties().multiprocessors) {}

runtime::LoadedKernel& PermutedCopier::kernel(const PermutedCopyForm& form) {
  const std::lock_guard lock(mutex_);
  auto& kernel = kernels_[{form.element_bytes, form.vector, form.transposes}];
  if (!kernel)
    kernel = std::make_unique<runtime::LoadedKernel>(
        load(device_, compiler_, permuted_copy(form.element_bytes, form.vector, form.transposes)));
  return *kernel;
}

void PermutedCopier::operator()(const PermutedCopy& copy, runtime::Stream stream) {
  const PermutedCopyForm form = form_of(copy);
  const DType type = form.element_bytes == 1 ? DType::u8 : form.element_bytes == 2 ? DType::bf16 : DType::u32;
  const auto number = [](int64_t value) { return runtime::scalar(static_cast<uint32_t>(value)); };
  const auto stride = [](int64_t value) { return runtime::scalar(static_cast<uint64_t>(value)); };
  std::vector<runtime::Argument> arguments = {runtime::pointer(copy.from, type),
                                              runtime::pointer(copy.to, type), number(form.rows.extent),
                                              number(form.columns.extent)};
  for (const int64_t value : {form.rows.from, form.columns.from, form.rows.to, form.columns.to})
    arguments.push_back(stride(value));
  const auto blocks = [](int64_t extent) { return (extent + kEdge - 1) / kEdge; };
  int64_t count = blocks(form.rows.extent) * blocks(form.columns.extent);
  for (const Mode& mode : form.outer) {
    count *= mode.extent;
    arguments.push_back(number(mode.extent));
    arguments.push_back(stride(mode.from));
    arguments.push_back(stride(mode.to));
  }
  if (count >= int64_t{1} << 31)
    throw Error(fmt::format("copy of a tensor in {} blocks of {} x {}; less than 2^31 are taken at once",
                            count, kEdge, kEdge));
  const int64_t resident = int64_t{kPermutingCtas} * multiprocessors_;
  kernel(form).launch({.grid = {static_cast<uint32_t>(std::min(count, resident))},
                       .programmatic_dependent_launch = true,
                       .stream = stream},
                      arguments);
}

}  // namespace ptxbuilder::kernels
