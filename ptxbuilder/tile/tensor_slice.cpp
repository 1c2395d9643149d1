#include "ptxbuilder/tile/tensor_slice.h"

#include <fmt/format.h>

#include "ptxbuilder/ir/index.h"

namespace ptxbuilder {
namespace {

void bind(TensorMap map, const TensorCopy& copy, std::string_view operation, Where where) {
  Builder& builder = Builder::current(where);
  Parameter& parameter = builder.signature().parameters[builder.parameter_index(map, where)];
  const TensorMapRecipe wanted = copy.recipe();
  if (!parameter.tensor_map.box.empty() && !(parameter.tensor_map == wanted))
    throw Error(
        where,
        fmt::format("{}: the tensor map '{}' already serves copies with a box of {} {} and {} B "
                    "swizzle; {} needs another: declare a second map",
                    operation, parameter.name, fmt::join(parameter.tensor_map.box, "x"),
                    name(parameter.tensor_map.dtype), name(parameter.tensor_map.swizzle), copy.describe()));
  parameter.dtype = wanted.dtype;
  parameter.tensor_map = wanted;
}

void check_slices(const TensorCopy& copy, const std::vector<Slice>& slices, std::string_view operation,
                  Where where) {
  if (slices.size() != copy.extents().size())
    throw Error(where, fmt::format("{}: {} slices for {}, which has {} dimensions", operation, slices.size(),
                                   copy.describe(), copy.extents().size()));
  for (size_t i = 0; i < slices.size(); ++i)
    if (slices[i].length != copy.extents()[i])
      throw Error(where, fmt::format("{}: a slice of {} along dimension {} for {}", operation,
                                     slices[i].length, i, copy.describe()));
  for (const TensorMode& mode : copy.map_modes()) {
    const auto d = static_cast<size_t>(mode.dimension);
    if (auto known = Builder::current(where).constant(slices[d].start);
        known && known->value % static_cast<uint64_t>(mode.step) != 0)
      throw Error(where, fmt::format("{}: dimension {} begins at {}, which is no multiple of its tile, {}",
                                     operation, d, known->value, mode.step));
  }
}

// The coordinates of box `i`, innermost first. Of a dimension in tiles, the outermost part counts tiles from
// the slice's start; the parts within begin at 0, but for what the box has moved on.
std::vector<Argument> coordinates(const TensorCopy& copy, const std::vector<Slice>& slices, int i) {
  const std::vector<TensorMode>& modes = copy.map_modes();
  std::vector<Argument> result;
  for (size_t m = modes.size(); m-- > 0;) {
    const TensorMode& mode = modes[m];
    const auto d = static_cast<size_t>(mode.dimension);
    bool outermost = true;
    for (const TensorMode& other : modes)
      outermost = outermost && (other.dimension != mode.dimension || other.step <= mode.step);
    const int64_t moved = copy.box_start(i)[d] / mode.step;
    if (outermost)
      result.emplace_back(
          (mode.step == 1 ? slices[d].start : slices[d].start / static_cast<uint32_t>(mode.step)) +
          static_cast<uint32_t>(moved));
    else
      result.emplace_back(u32(static_cast<uint32_t>(moved % mode.extent)));
  }
  return result;
}

uint32_t bulk_bytes(DType type, Slice slice, std::string_view operation, Where where) {
  const int64_t bytes = slice.length * size_of(type);
  constexpr int64_t kMost = (1 << 20) - 1;  // what a barrier can expect (PTX ISA, mbarrier, tx-count)
  if (slice.length < 1 || bytes % 16 != 0 || bytes > kMost)
    throw Error(where, fmt::format("{}: {} {} are {} B; a bulk copy moves a multiple of 16 B up to {}",
                                   operation, slice.length, name(type), bytes, kMost / 16 * 16));
  if (auto known = Builder::current(where).constant(slice.start);
      known && known->value * static_cast<uint64_t>(size_of(type)) % 16 != 0)
    throw Error(where,
                fmt::format("{}: begins at element {}, byte {}, which is no multiple of 16 B", operation,
                            known->value, known->value * static_cast<uint64_t>(size_of(type))));
  return static_cast<uint32_t>(bytes);
}

gmem element_of(gmem base, DType type, u32 index) {
  return base + u64(index) * static_cast<uint64_t>(size_of(type));
}

}  // namespace

SharedSlice shared_slice(DType type, const ComposedLayout& memory, smem start, Slice rows, Slice cols,
                         Where where) {
  AtLine line(where);
  const int64_t extents[] = {size(memory.shape()[0]), size(memory.shape()[1])};
  const Slice slices[] = {rows, cols};
  for (size_t i : {0, 1}) {
    const int64_t length = slices[i].length;
    if (length < 1 || extents[i] % length != 0)
      throw Error(where, fmt::format("shared_slice: {} of {} along dimension {}; the length must divide it",
                                     length, extents[i], i));
    auto known = Builder::current(where).constant(slices[i].start);
    if (known && (known->value % static_cast<uint64_t>(length) != 0 ||
                  known->value >= static_cast<uint64_t>(extents[i])))
      throw Error(
          where,
          fmt::format("shared_slice: {} from {} of {} along dimension {}; it begins at a multiple of the "
                      "length, within the tile",
                      length, known->value, extents[i], i));
  }
  // ((within a part), (which part)).
  Layout parts = zipped_divide(memory.layout(), {rows.length, cols.length});
  const XorSwizzle& swizzle = memory.swizzle();
  const int64_t pattern =
      swizzle.bits() == 0 ? 1 : int64_t{1} << (swizzle.base() + swizzle.shift() + swizzle.bits());
  for (int64_t part = 0; part < size(parts[1]); ++part)
    if (parts[1](part) % pattern != 0)
      throw Error(
          where, fmt::format("shared_slice: parts of {}x{} in {}: part {} begins {} B into a pattern of {} B",
                             rows.length, cols.length, to_string(memory), part,
                             parts[1](part) % pattern * size_of(type), pattern * size_of(type)));
  auto number = [](Slice s) { return Index(s.start / static_cast<uint32_t>(s.length)); };
  Index offset = to_device(parts[1])({number(rows), number(cols)});
  smem address = start + LayoutInteger<Index>::multiply(offset, Index(size_of(type))).value();
  return {address, memory.with(parts[0])};
}

void tma_load(const TensorCopy& copy, smem to, TensorMap from, const std::vector<Slice>& slices, smem barrier,
              Where where) {
  AtLine line(where);
  check_slices(copy, slices, "tma_load", where);
  bind(from, copy, "tma_load", where);
  const isa::Row& row = isa::cp_async_bulk_tensor_load({.rank = copy.map_rank()}, where);
  for (int i = 0; i < copy.boxes(); ++i) {
    std::vector<Argument> arguments = {to + copy.box_offset(i), from}, at = coordinates(copy, slices, i);
    arguments.insert(arguments.end(), at.begin(), at.end());
    arguments.emplace_back(barrier);
    Builder::current(where).emit(row, arguments, std::nullopt, where);
  }
}

void tma_store(const TensorCopy& copy, TensorMap to, const std::vector<Slice>& slices, smem from,
               Where where) {
  AtLine line(where);
  check_slices(copy, slices, "tma_store", where);
  bind(to, copy, "tma_store", where);
  const isa::Row& row = isa::cp_async_bulk_tensor_store(copy.map_rank(), where);
  for (int i = 0; i < copy.boxes(); ++i) {
    std::vector<Argument> arguments = {to}, at = coordinates(copy, slices, i);
    arguments.insert(arguments.end(), at.begin(), at.end());
    arguments.emplace_back(from + copy.box_offset(i));
    Builder::current(where).emit(row, arguments, std::nullopt, where);
  }
}

namespace detail {

void bulk_load(smem to, gmem from, DType type, Slice slice, smem barrier, Where where) {
  AtLine line(where);
  const uint32_t bytes = bulk_bytes(type, slice, "bulk_load", where);
  cp_async_bulk_load(to, element_of(from, type, slice.start), bytes, barrier, where);
}

void bulk_store(gmem to, DType type, Slice slice, smem from, Where where) {
  AtLine line(where);
  const uint32_t bytes = bulk_bytes(type, slice, "bulk_store", where);
  cp_async_bulk_store(element_of(to, type, slice.start), from, bytes, where);
}

}  // namespace detail

}  // namespace ptxbuilder
