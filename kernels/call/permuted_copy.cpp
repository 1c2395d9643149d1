#include "kernels/call/permuted_copy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "kernels/call/operand.h"
#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {
namespace {

using Mode = PermutedCopy::Mode;

constexpr int kEdge = 64;  // of a block
constexpr int kPermutingCtas = 8;

// Returns the name of a mode's parameter, such as "extent_row".
std::string mode_name(const char* which, const char* what) { return fmt::format("{}_{}", what, which); }
constexpr std::array kAxisModes = {"row", "next_row", "column", "next_column"};
std::string outer_name(const char* what, size_t i) { return fmt::format("{}{}", what, i); }

// Two modes become one if one continues where the other ends, on both sides.
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

// An axis of a block: two modes, with their first elements in this block.
struct BlockAxis {
  u32 inner_extent, outer_extent, first_inner, first_outer;
  u64 from_inner, from_outer, to_inner, to_outer;
  int box;

  u32 inner(u32 i) const { return box == kEdge ? i : i & (box - 1); }
  u32 outer(u32 i) const { return box == kEdge ? u32(0) : i >> std::countr_zero(static_cast<unsigned>(box)); }
  pred inside(u32 i) const {
    const pred is = first_inner + inner(i) < inner_extent;
    return box == kEdge ? is : is & (first_outer + outer(i) < outer_extent);
  }
  u64 from(u32 i) const { return u64(inner(i)) * from_inner + u64(outer(i)) * from_outer; }
  u64 to(u32 i) const { return u64(inner(i)) * to_inner + u64(outer(i)) * to_outer; }
  // These are the same of a number that is known when the kernel is built.
  u64 from(int i) const { return along(i, from_inner, from_outer); }
  u64 to(int i) const { return along(i, to_inner, to_outer); }

 private:
  u64 along(int i, u64 of_inner, u64 of_outer) const {
    return of_inner * static_cast<uint64_t>(i % box) + of_outer * static_cast<uint64_t>(i / box);
  }
};

// Calls `access` with the first column of each of this thread's vectors, in the order of strided(), and with
// its row as a sum: `row` is less than each power of two that divides `more`, so that the sum's modes along
// an axis are the sums of theirs, and only `row` takes a multiplication.
void each_vector(int vector, const std::function<void(u32 row, int more, u32 column)>& access) {
  const int across = kEdge / vector, threads = RegisterLayout::kThreads;
  const u32 column = tid_x() % across * vector, row = tid_x() / across;
  for (int i = 0; i < kEdge * across / threads; ++i) access(row, i * (threads / across), column);
}

// Returns the registers of a vector's elements; `bytes` is the size of an element, and narrow elements are in
// the low bits of one register.
std::vector<u32> read_vector(gmem from, int bytes, int vector) {
  if (vector > 1) {
    const auto [a, b, c, d] = instruction<"ld.global.v4.u32">(from);
    return {a, b, c, d};
  }
  if (bytes == 1) return {u32(instruction<"ld.global.u8">(from))};
  if (bytes == 2) return {u32(instruction<"ld.global.u16">(from))};
  return {instruction<"ld.global.u32">(from)};
}
void write_vector(gmem to, int bytes, const std::vector<u32>& words, pred is) {
  if (words.size() == 4)
    instruction<"st.global.v4.u32">.when(is)(to, {words[0], words[1], words[2], words[3]});
  else if (bytes == 1)
    instruction<"st.global.u8">.when(is)(to, u16(words[0]));
  else if (bytes == 2)
    instruction<"st.global.u16">.when(is)(to, u16(words[0]));
  else
    instruction<"st.global.u32">.when(is)(to, words[0]);
}

// Single elements are each read into a register, but a tile in registers has its elements packed.
std::vector<u32> packed(const std::vector<u32>& elements, int bytes) {
  const size_t per = sizeof(uint32_t) / static_cast<size_t>(bytes);
  std::vector<u32> words;
  for (size_t i = 0; i < elements.size(); i += per) {
    u32 word = elements[i];
    for (size_t j = 1; j < per; ++j) word = word | elements[i + j] << static_cast<int>(8 * bytes * j);
    words.push_back(word);
  }
  return words;
}

template <class T>
void copy_blocks(Kernel& k, const Parameters& p, const PermutedCopyForm& form) {
  const int bytes = form.element_bytes, vector = form.vector;
  const auto number = [&](const std::string& name) { return p.get<u32>(name); };
  const auto stride = [&](const std::string& name) { return p.get<u64>(name); };
  const SharedTile tile = k.shared<T>({kEdge, kEdge}, widest_swizzle(kEdge * size_of(T::dtype)), 1, "tile");
  const RegisterLayout by_rows = strided({kEdge, kEdge}, vector);
  // Returns the number of blocks along a mode if a block has `box` of its elements.
  const auto blocks = [&](const char* mode, int box) {
    const u32 extent = number(mode_name(mode, "extent"));
    return box == 1 ? extent : ceil_div(extent, box);
  };
  struct Digit {
    const char* mode;
    int box;
    bool is_one = false;  // a mode that does not exist
  };
  const std::array<Digit, 4> digits = {
      {{"column", form.columns.box},
       {"next_column", kEdge / form.columns.box, form.columns.outer.extent == 1},
       {"row", form.rows.box},
       {"next_row", kEdge / form.rows.box, form.rows.outer.extent == 1}}};
  u32 all(1u);
  for (const Digit& digit : digits)
    if (!digit.is_one) all = all * blocks(digit.mode, digit.box);
  for (size_t i = 0; i < form.outer.size(); ++i) all = all * number(outer_name("extent", i));
  for_(ctaid_x(), all, nctaid_x(), [&](u32 block) {
    u32 rest = block;
    auto left = std::ranges::count(digits, false, &Digit::is_one) + std::ssize(form.outer);
    const auto taken = [&](u32 count) {
      if (--left == 0) return rest;
      const u32 next = rest / count, digit = rest - next * count;
      rest = next;
      return digit;
    };
    std::vector<u32> first;
    for (const Digit& digit : digits)
      first.push_back(digit.is_one ? u32(0)
                                   : taken(blocks(digit.mode, digit.box)) * static_cast<uint32_t>(digit.box));
    u64 from = 0, to = 0;
    for (size_t i = 0; i < form.outer.size(); ++i) {
      const u64 digit(taken(number(outer_name("extent", i))));
      from = from + digit * stride(outer_name("from", i)), to = to + digit * stride(outer_name("to", i));
    }
    const auto axis = [&](const char* inner, const char* outer, size_t at, int box) {
      const auto of = [&](const char* mode, const char* what) { return stride(mode_name(mode, what)); };
      const BlockAxis axis{number(mode_name(inner, "extent")),
                           number(mode_name(outer, "extent")),
                           first[at],
                           first[at + 1],
                           of(inner, "from"),
                           of(outer, "from"),
                           of(inner, "to"),
                           of(outer, "to"),
                           box};
      from = from + u64(first[at]) * axis.from_inner + u64(first[at + 1]) * axis.from_outer;
      to = to + u64(first[at]) * axis.to_inner + u64(first[at + 1]) * axis.to_outer;
      return axis;
    };
    const BlockAxis columns = axis("column", "next_column", 0, form.columns.box),
                    rows = axis("row", "next_row", 2, form.rows.box);
    const gmem source(p.get<gptr<T>>("from")), target(p.get<gptr<T>>("to"));
    // Elements that do not exist are read from the block's first element, and not written.
    std::vector<u32> read;
    each_vector(vector, [&](u32 row, int more, u32 column) {
      const u64 at = select(rows.inside(row + more) & columns.inside(column),
                            rows.from(row) + columns.from(column) + rows.from(more), u64(0));
      for (const u32& word : read_vector(source + (from + at) * bytes, bytes, vector)) read.push_back(word);
    });
    const auto write = [&](const std::vector<u32>& words, const BlockAxis& down, const BlockAxis& across) {
      size_t next = 0;
      each_vector(vector, [&](u32 row, int more, u32 column) {
        const pred is = down.inside(row + more) & across.inside(column);
        const size_t count = vector > 1 ? 4 : 1;
        const std::vector<u32> its(words.begin() + static_cast<ptrdiff_t>(next),
                                   words.begin() + static_cast<ptrdiff_t>(next + count));
        next += count;
        write_vector(target + (to + (down.to(row) + across.to(column)) + down.to(more)) * bytes, bytes, its,
                     is);
      });
    };
    if (!form.transposes) return write(read, rows, columns);
    const bool narrow = vector == 1 && bytes < 4;
    sync_threads();  // all threads have finished the previous block
    store(tile[0], RegisterTile<T>::of_registers(by_rows, narrow ? packed(read, bytes) : read));
    sync_threads();
    const std::vector<u32> words = layout_cast(load<T>(tile[0].transposed()), by_rows).registers();
    if (!narrow) return write(words, columns, rows);
    std::vector<u32> elements;
    for (const u32& word : words)
      for (int i = 0; i < 4 / bytes; ++i) elements.push_back(word >> 8 * bytes * i);
    write(elements, columns, rows);
  });
}

// Returns the share of a block that elements of two modes fill, times the share of an access that is useful.
double worth(const Mode& inner, const Mode& outer, int box, int element_bytes) {
  const auto filled = [](int64_t extent, int64_t box) {
    return static_cast<double>(extent) / static_cast<double>(round_up(extent, box));
  };
  const double run =
      std::min<double>(static_cast<double>(std::min<int64_t>(box, inner.extent)) * element_bytes, 128);
  return filled(inner.extent, box) * filled(outer.extent, kEdge / box) * run / (run + 16);
}

// The best box of an axis with this outer mode, and what it is worth.
struct BoxedMode {
  Mode outer;
  int box = kEdge;
  double worth = 0;
};

// Returns the choices of an axis: each of the modes, which are in the order of preference, and none.
std::vector<BoxedMode> boxed_modes(const Mode& inner, std::vector<Mode> modes, int least, int element_bytes) {
  modes.push_back({1, 0, 0});
  std::vector<BoxedMode> all;
  for (const Mode& outer : modes) {
    BoxedMode& best = all.emplace_back(BoxedMode{outer});
    for (int box = kEdge; box >= least; box /= 2)
      if (const double is = worth(inner, outer, box, element_bytes); is > 1.05 * best.worth)
        best.box = box, best.worth = is;
  }
  return all;
}

// Chooses the outer modes by which blocks are filled best, and leaves the others in form.outer.
void choose_blocks(PermutedCopyForm& form, std::vector<Mode> modes) {
  const auto choices = [&](const Mode& inner, bool is_accessed, auto by) {
    std::ranges::sort(modes, {}, by);
    return boxed_modes(inner, modes, is_accessed ? form.vector : 1, is_accessed ? form.element_bytes : 128);
  };
  const std::vector<BoxedMode> columns = choices(form.columns.inner, true, &Mode::from);
  const std::vector<BoxedMode> rows = choices(form.rows.inner, form.transposes, [&](const Mode& mode) {
    return form.transposes ? mode.to : -mode.extent;
  });
  double best = 0;
  for (const BoxedMode& column : columns)
    for (const BoxedMode& row : rows) {
      const bool is_same = column.outer.extent > 1 && column.outer.to == row.outer.to;
      if (is_same || column.worth * row.worth <= 1.05 * best) continue;
      best = column.worth * row.worth;
      form.columns.outer = column.outer, form.columns.box = column.box;
      form.rows.outer = row.outer, form.rows.box = row.box;
    }
  std::erase_if(modes, [&](const Mode& mode) {
    return mode.to == form.columns.outer.to || mode.to == form.rows.outer.to;
  });
  form.outer = modes;
}

}  // namespace

PermutedCopyForm form_of(const PermutedCopy& copy) {
  std::vector<Mode> modes = copy.modes;
  fold(modes);
  if (modes.size() > PermutedCopyForm::kMost)
    throw Error(fmt::format("copy of a tensor of {} modes that do not fold; it has {} at most", modes.size(),
                            PermutedCopyForm::kMost));
  PermutedCopyForm form;
  form.element_bytes = copy.element_bytes;
  const auto take = [&](auto by) {
    if (modes.empty()) return Mode{1, 0, 0};
    const auto at = std::ranges::min_element(modes, {}, by);
    const Mode taken = *at;
    modes.erase(at);
    return taken;
  };
  form.columns.inner = take(&Mode::from);
  form.transposes =
      std::ranges::any_of(modes, [&](const Mode& mode) { return mode.to < form.columns.inner.to; });
  form.rows.inner = take([&](const Mode& mode) { return form.transposes ? mode.to : -mode.extent; });
  const int vector = static_cast<int>(kTma) / copy.element_bytes;
  // All strides except the one along an access are multiples of the vector, on the side that matters.
  const auto is_wide = [&](int64_t Mode::*side, const Mode& along) {
    const auto is_multiple = [&](int64_t value) { return value % vector == 0; };
    bool is = along.*side == 1 && is_multiple(along.extent);
    for (const Mode* mode : {&form.columns.inner, &form.rows.inner})
      is &= mode == &along || is_multiple(mode->*side);
    return is && std::ranges::all_of(modes, [&](const Mode& mode) { return is_multiple(mode.*side); });
  };
  if (copy.from.address % kTma == 0 && copy.to.address % kTma == 0 &&
      is_wide(&Mode::from, form.columns.inner) &&
      is_wide(&Mode::to, form.transposes ? form.rows.inner : form.columns.inner))
    form.vector = vector;
  choose_blocks(form, modes);
  return form;
}

PermutedCopyKind kind_of(const PermutedCopyForm& form) {
  return {form.element_bytes,
          form.vector,
          form.transposes,
          form.rows.box,
          form.columns.box,
          form.rows.outer.extent > 1,
          form.columns.outer.extent > 1,
          static_cast<int>(form.outer.size())};
}

Kernel permuted_copy(const PermutedCopyForm& form) {
  const int element_bytes = form.element_bytes;
  Kernel k(fmt::format("permuted_copy_{}", fmt::join(kind_of(form), "_")));
  const DType type = element_bytes == 1 ? DType::u8 : element_bytes == 2 ? DType::bf16 : DType::u32;
  Parameters p;
  p.add("from", Parameter::Kind::pointer, type, "the tensor");
  p.add("to", Parameter::Kind::pointer, type, "its copy");
  const auto mode = [&](const std::string& extent, const std::string& from, const std::string& to,
                        const char* of) {
    p.add(extent, Parameter::Kind::scalar, DType::u32, of);
    p.add(from, Parameter::Kind::scalar, DType::u64, "elements from one to the next");
    p.add(to, Parameter::Kind::scalar, DType::u64, "the same of the copy");
  };
  for (const char* of : kAxisModes)
    mode(mode_name(of, "extent"), mode_name(of, "from"), mode_name(of, "to"),
         "the extent of a mode of blocks");
  for (size_t i = 0; i < form.outer.size(); ++i)
    mode(outer_name("extent", i), outer_name("from", i), outer_name("to", i), "the extent of another mode");
  p.declare(k, Where::here());
  k.threads(RegisterLayout::kThreads);
  k.overlaps();
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  if (element_bytes == 1)
    copy_blocks<u8>(k, p, form);
  else if (element_bytes == 2)
    copy_blocks<bf16>(k, p, form);
  else
    copy_blocks<u32>(k, p, form);
  return k;
}

PermutedCopier::PermutedCopier(runtime::Device& device, const LoadOptions& options)
    : device_(device),
      compiler_(compiler_for(device, options)),
      multiprocessors_(device.properties().multiprocessors) {}

runtime::LoadedKernel& PermutedCopier::kernel(const PermutedCopyForm& form) {
  const std::lock_guard lock(mutex_);
  auto& kernel = kernels_[kind_of(form)];
  if (!kernel)
    kernel = std::make_unique<runtime::LoadedKernel>(load(device_, compiler_, permuted_copy(form)));
  return *kernel;
}

void PermutedCopier::operator()(const PermutedCopy& copy, runtime::Stream stream) {
  const PermutedCopyForm form = form_of(copy);
  const DType type = form.element_bytes == 1 ? DType::u8 : form.element_bytes == 2 ? DType::bf16 : DType::u32;
  std::vector<runtime::Argument> arguments = {runtime::pointer(copy.from, type),
                                              runtime::pointer(copy.to, type)};
  int64_t count = 1;
  const auto add = [&](const Mode& mode, int box) {
    count *= (mode.extent + box - 1) / box;
    arguments.push_back(runtime::scalar(static_cast<uint32_t>(mode.extent)));
    for (const int64_t stride : {mode.from, mode.to})
      arguments.push_back(runtime::scalar(static_cast<uint64_t>(stride)));
  };
  for (const PermutedCopyForm::Axis* axis : {&form.rows, &form.columns}) {
    add(axis->inner, axis->box);
    add(axis->outer, kEdge / axis->box);
  }
  for (const Mode& mode : form.outer) add(mode, 1);
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
