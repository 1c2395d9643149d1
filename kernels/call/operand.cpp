#include "kernels/call/operand.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace ptxbuilder::kernels {
namespace {

using Wide = __int128;  // for products of extents and strides
using Dimension = Operand::Dimension;

std::span<const Dimension> outer_of(const Operand& x) { return std::span(x.outer).first(x.outer_count); }

[[noreturn]] void refuse(const char* operation, const Operand& x, const std::string& what, Where where) {
  throw Error(where, fmt::format("{}: {} of {}: {}", operation, x.name, name(x.type), what));
}

std::string plural(const char* word) {
  return fmt::format("{}{}", word, std::string_view(word).ends_with("ch") ? "es" : "s");
}

// Returns a string such as "a row stride of 4 and a head stride of 2". It covers the dimensions with a stride
// that is used.
std::string strides_text(const Operand& x) {
  std::vector<std::string> all;
  for (const Dimension& d : outer_of(x))
    if (d.extent > 1) all.push_back(fmt::format("a {} stride of {}", d.word, d.stride));
  return fmt::format("{}", fmt::join(all, " and "));
}

// Returns the extent of the part that repeats with this stride. The part consists of all columns and of the
// dimensions with shorter strides.
Wide width_below(const Operand& x, int64_t stride) {
  Wide width = x.columns;
  for (const Dimension& d : outer_of(x))
    if (d.extent > 1 && d.stride < stride) width += Wide{d.extent - 1} * d.stride;
  return width * x.element_bytes();
}

// Returns whether strides of at least `least_bytes` show that `x` and `y` share no bytes. This is so if both
// repeat with the same stride and occupy different parts of it. `y` must begin after `x`.
bool apart_in_steps(const Operand& x, const Operand& y, int64_t least_bytes) {
  int64_t period = 0;  // bytes
  for (const Operand* o : {&x, &y})
    for (const Dimension& d : outer_of(*o))
      if (d.extent > 1 && d.stride * o->element_bytes() >= least_bytes)
        period = std::gcd(period, d.stride * o->element_bytes());
  const auto width = [&](const Operand& o) {
    return width_below(o, (least_bytes + o.element_bytes() - 1) / o.element_bytes());
  };
  const Wide at = (y.memory.address - x.memory.address) % static_cast<uint64_t>(period);
  return at >= width(x) && at + width(y) <= period;
}

}  // namespace

bool Operand::is_empty() const {
  return columns == 0 ||
         std::ranges::any_of(outer_of(*this), [](const Dimension& d) { return d.extent == 0; });
}

bool Operand::aligned_for_tma() const {
  return memory.address % kTma == 0 && std::ranges::all_of(outer_of(*this), [&](const Dimension& d) {
           return d.extent <= 1 || d.stride * element_bytes() % kTma == 0;
         });
}

Operand one_row(const char* name, DType type, runtime::View memory, int64_t count) {
  return {.name = name, .type = type, .memory = memory, .columns = count};
}

int64_t stride_of(int64_t count, int64_t stride) {
  int64_t product = 0;
  return __builtin_mul_overflow(count, stride, &product) ? kStrideEnd : product;
}

__int128 extent_bytes(const Operand& x) {
  if (x.is_empty()) return 0;
  Wide last = 0;
  for (const Dimension& d : outer_of(x)) last += Wide{d.extent - 1} * d.stride;
  return (last + x.columns) * x.element_bytes();
}

bool may_share(const Operand& x, const Operand& y) {
  if (x.memory.address > y.memory.address) return may_share(y, x);
  if (x.is_empty() || y.is_empty()) return false;
  if (Wide{y.memory.address - x.memory.address} >= extent_bytes(x)) return false;
  for (const Operand* o : {&x, &y})
    for (const Dimension& d : outer_of(*o))
      if (d.extent > 1 && d.stride > 0 && apart_in_steps(x, y, d.stride * o->element_bytes())) return false;
  return true;
}

bool same_place(const Operand& x, const Operand& y) {
  return x.memory.address == y.memory.address &&
         std::ranges::equal(outer_of(x), outer_of(y), [](const Dimension& a, const Dimension& b) {
           return a.extent <= 1 || a.stride == b.stride;
         });
}

void check_memory(const char* operation, const Operand& x, Where where) {
  if (x.is_empty()) return;
  for (const Dimension& d : outer_of(x)) {
    if (d.extent <= 1) continue;
    if (d.stride < x.columns && !d.overlaps)
      refuse(operation, x,
             fmt::format("the {} stride is {} elements, but must be at least the {} of a row", d.word,
                         d.stride, x.columns),
             where);
    if (Wide{d.stride} * x.element_bytes() >= kStrideEnd)
      refuse(operation, x,
             fmt::format("the {} stride is {} elements of {} B, but a tensor map supports less than 2^40 B: "
                         "copy the data closer together",
                         d.word, d.stride, x.element_bytes()),
             where);
  }
  if (x.memory.address % static_cast<uint64_t>(x.element_bytes()) != 0)
    refuse(operation, x,
           fmt::format("the address {:#x} must be a multiple of the {} B of an element", x.memory.address,
                       x.element_bytes()),
           where);
  if (extent_bytes(x) <= Wide{x.memory.bytes}) return;
  std::string lies;
  for (const Dimension& d : outer_of(x))
    lies += lies.empty() ? fmt::format("{} x {} elements with a {} stride of {}", d.extent, x.columns, d.word,
                                       d.stride)
                         : fmt::format(", {} {} with a stride of {}", d.extent, plural(d.word), d.stride);
  refuse(operation, x,
         fmt::format("{}, need {} B, but the memory has {} B", lies, static_cast<uint64_t>(extent_bytes(x)),
                     x.memory.bytes),
         where);
}

void check_row(const char* operation, const Operand& x, Where where) {
  if (x.memory.address % static_cast<uint64_t>(x.element_bytes()) != 0 ||
      extent_bytes(x) > Wide{x.memory.bytes})
    throw Error(where, fmt::format("{}: {} has {} B at {:#x}, but must have {} {}, at a multiple of {} B",
                                   operation, x.name, x.memory.bytes, x.memory.address,
                                   static_cast<uint64_t>(extent_bytes(x) / x.element_bytes()), name(x.type),
                                   x.element_bytes()));
}

void check_address(const char* operation, const Operand& x, Where where) {
  if (!x.is_empty() && x.memory.address == 0)
    throw Error(where, fmt::format("{}: {}: data is NULL", operation, x.name));
}

// Visits strides from the shortest to the longest. Each must be at least the extent of all dimensions with
// shorter strides.
void check_no_self_overlap(const char* operation, const Operand& x, Where where) {
  std::array<Dimension, Operand::kMostOuter> dimensions = x.outer;
  const std::span sorted = std::span(dimensions).first(x.outer_count);
  std::ranges::sort(sorted, {}, [](const Dimension& d) { return std::pair(d.stride, d.extent); });
  Wide width = x.columns;
  for (const Dimension& d : sorted) {
    if (d.extent <= 1) continue;
    if (d.stride < width) {
      std::string lies;
      for (const Dimension& one : outer_of(x))
        if (one.extent > 1)
          lies += lies.empty() ? fmt::format("{} {} of {}", one.extent, plural(one.word), x.columns)
                               : fmt::format(" in {} {}", one.extent, plural(one.word));
      refuse(operation, x,
             fmt::format("with {} elements, {} overlap, but they are written", strides_text(x), lies), where);
    }
    width += Wide{d.stride} * (d.extent - 1);
  }
}

void check_apart(const char* operation, const Operand& written, const Operand& other, bool is_read,
                 Where where) {
  if (may_share(written, other))
    throw Error(
        where,
        fmt::format("{0}: {1} overlaps {2}, which is {3} while {1} is written: give {1} memory of its own",
                    operation, written.name, other.name, is_read ? "read" : "written"));
}

void check_workspace(const char* operation, runtime::View given, size_t bytes,
                     std::span<const Operand* const> others, Where where) {
  if (bytes == 0) return;
  if (given.address == 0 || given.bytes < bytes || given.address % kTma != 0)
    throw Error(
        where,
        fmt::format("{0}: this call needs a workspace of {1} B at a multiple of {2}, as workspace_bytes() "
                    "returns (ptxb_{0}_workspace() in C), but {3} B at {4:#x} were given",
                    operation, bytes, kTma, given.bytes, given.address));
  const Operand taken = one_row("workspace", DType::u8, {given.address, bytes}, static_cast<int64_t>(bytes));
  for (const Operand* other : others)
    if (other->memory.address != 0 && may_share(taken, *other))
      throw Error(where,
                  fmt::format("{}: the workspace, {} B at {:#x}, overlaps {}: give it memory of its own",
                              operation, bytes, given.address, other->name));
}

Operand padded(const Operand& x, int64_t unit) {
  Operand p = x;
  int64_t stride = round_up(round_up(x.columns, unit), kTma / x.element_bytes());
  for (Dimension& d : std::span(p.outer).first(p.outer_count)) {
    d.stride = stride;
    stride *= d.extent;
  }
  p.memory = {0, static_cast<size_t>(stride * x.element_bytes())};
  return p;
}

size_t workspace_bytes(const Operand& x, int64_t unit) {
  return static_cast<size_t>(round_up(static_cast<int64_t>(padded(x, unit).memory.bytes), kPartAlignment));
}

size_t count_of_copies(const Operand& from) {
  return static_cast<size_t>(from.outer[2].extent * from.outer[3].extent);
}

std::vector<MatrixCopy> copies_of(const Operand& from, const Operand& to) {
  std::vector<MatrixCopy> all;
  const auto place = [](const Operand& x, int64_t skipped) {
    const auto bytes = static_cast<uint64_t>(skipped * x.element_bytes());
    return MatrixPlace{
        {x.memory.address + bytes, x.memory.bytes - bytes}, x.outer[0].stride, x.outer[1].stride};
  };
  const auto& f = from.outer;
  for (int64_t last = 0; last < f[3].extent; ++last)
    for (int64_t next = 0; next < f[2].extent; ++next) {
      const auto skipped = [&](const Operand& x) {
        return next * x.outer[2].stride + last * x.outer[3].stride;
      };
      all.push_back({{f[0].extent, from.columns, f[1].extent},
                     from.element_bytes(),
                     place(from, skipped(from)),
                     place(to, skipped(to))});
    }
  return all;
}

runtime::Argument tensor(const Operand& x, size_t outer) {
  const auto bytes = static_cast<uint64_t>(x.element_bytes());
  std::array<uint64_t, Operand::kMostOuter + 1> shape = {static_cast<uint64_t>(x.columns)};
  std::array<uint64_t, Operand::kMostOuter> strides = {};
  const size_t count = std::min(outer, x.outer_count);
  for (size_t i = 0; i < count; ++i) {
    const Dimension& d = x.outer[i];
    shape[i + 1] = static_cast<uint64_t>(d.extent);
    // The stride of a dimension with one element is not used, so any legal value will do.
    strides[i] = d.extent > 1 ? static_cast<uint64_t>(d.stride) * bytes : (shape[0] * bytes + 15) / 16 * 16;
  }
  runtime::Argument made =
      runtime::tensor(x.memory, x.type, std::span(shape).first(count + 1), std::span(strides).first(count));
  for (size_t i = 0; i < count; ++i) made.overlaps |= x.outer[i].overlaps;
  return made;
}

}  // namespace ptxbuilder::kernels
