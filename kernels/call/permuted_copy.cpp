#include "kernels/call/permuted_copy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "kernels/call/operand.h"
#include "kernels/call/quick_division.h"
#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {
namespace {

using Mode = PermutedCopy::Mode;
using Modes = std::vector<Mode>;
using Words = std::vector<u32>;  // registers that hold contiguous elements

constexpr int kCopyThreads = RegisterLayout::kThreads;
constexpr int kEdge = 64;       // edge of a block that is transposed in shared memory
constexpr int kSquareRows = 8;  // rows of a block of squares; threads along its rows write adjacent memory
constexpr int kMostPlanes = 8;
constexpr int kWideAtOnce = 8, kNarrowAtOnce = 16;  // pieces that a thread copies at once if nothing is
                                                    // transposed

// Merges two modes into one if, in both the source and the destination, one mode continues where the other
// ends.
void fold(Modes& modes) {
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

bool is_square(const PermutedCopyForm& form) { return form.transposes && form.vector > 1; }

// ---- The kernel ----

std::string mode_name(const char* axis, size_t i, const char* what = "") {
  return fmt::format("{}{}{}", axis, i, what);
}
constexpr const char *kRow = "row", *kColumn = "column";

// The addresses of a piece in the source and in the destination, or one axis's contribution to these
// addresses.
struct Place {
  u64 from = 0, to = 0;
};
Place operator+(const Place& x, const Place& y) { return {x.from + y.from, x.to + y.to}; }

Place place_of(const Parameters& p, const char* axis, size_t modes, u32 number) {
  Place place;
  for (size_t i = 0; i < modes; ++i) {
    u32 digit = number;
    if (i + 1 < modes) {
      const QuickDivision by(p, mode_name(axis, i));
      const u32 next = by(number);
      digit = number - next * by.divisor;
      number = next;
    }
    place.from = place.from + u64(digit) * p.get<u64>(mode_name(axis, i, "_from"));
    place.to = place.to + u64(digit) * p.get<u64>(mode_name(axis, i, "_to"));
  }
  return place;
}

// Reads a piece of 1 to 16 bytes. A piece of 1 or 2 bytes is in the low bits of its register.
Words read_piece(gmem from, int bytes) {
  if (bytes == 16) {
    const auto [a, b, c, d] = instruction<"ld.global.v4.u32">(from);
    return {a, b, c, d};
  }
  if (bytes == 8) {
    const auto [a, b] = instruction<"ld.global.v2.u32">(from);
    return {a, b};
  }
  if (bytes == 1) return {u32(instruction<"ld.global.u8">(from))};
  if (bytes == 2) return {u32(instruction<"ld.global.u16">(from))};
  return {instruction<"ld.global.u32">(from)};
}
void write_piece(gmem to, int bytes, const Words& words, pred is) {
  if (bytes == 16)
    instruction<"st.global.v4.u32">.when(is)(to, {words[0], words[1], words[2], words[3]});
  else if (bytes == 8)
    instruction<"st.global.v2.u32">.when(is)(to, {words[0], words[1]});
  else if (bytes == 1)
    instruction<"st.global.u8">.when(is)(to, u16(words[0]));
  else if (bytes == 2)
    instruction<"st.global.u16">.when(is)(to, u16(words[0]));
  else
    instruction<"st.global.u32">.when(is)(to, words[0]);
}

// Returns words that hold `elements` in this order. Elements are numbered through `words`. The selectors
// choose bytes of two words (PTX ISA, prmt).
Words sorted(const Words& words, int bytes, const std::vector<int>& elements) {
  const auto permuted = [](u32 low, u32 high, size_t selector) {
    return u32(instruction<"prmt.b32">(low, high, u32(static_cast<uint32_t>(selector))));
  };
  const size_t per_word = sizeof(uint32_t) / static_cast<size_t>(bytes);
  // Returns a word with two consecutive entries of `elements`. If they have one byte each, they are in the
  // low half of the word.
  const auto pair = [&](size_t i) {
    const auto first = static_cast<size_t>(elements[i]), second = static_cast<size_t>(elements[i + 1]);
    const size_t low = first % per_word, high = second % per_word;
    return permuted(
        words[first / per_word], words[second / per_word],
        bytes == 2 ? (low == 0 ? 0x10 : 0x32) | (high == 0 ? 0x5400 : 0x7600) : low | (4 + high) << 4);
  };
  Words made;
  for (size_t i = 0; i < elements.size(); i += per_word)
    made.push_back(bytes == 4   ? words[static_cast<size_t>(elements[i])]
                   : bytes == 2 ? pair(i)
                                : permuted(pair(i), pair(i + 2), 0x5410));
  return made;
}

// Returns the numbers of the elements of a row-major matrix, in the order of its transpose.
std::vector<int> transposed(int rows, int columns) {
  std::vector<int> elements;
  for (int j = 0; j < columns; ++j)
    for (int i = 0; i < rows; ++i) elements.push_back(i * columns + j);
  return elements;
}

// Packs elements into words, because each element was read into a separate register, but a tile in registers
// holds its elements packed.
Words packed(const Words& elements, int bytes) {
  const size_t per = sizeof(uint32_t) / static_cast<size_t>(bytes);
  Words words;
  for (size_t i = 0; i < elements.size(); i += per) {
    u32 word = elements[i];
    for (size_t j = 1; j < per; ++j) word = word | elements[i + j] << static_cast<int>(8 * bytes * j);
    words.push_back(word);
  }
  return words;
}
Words unpacked(const Words& words, int bytes) {
  Words elements;
  for (const u32& word : words)
    for (int i = 0; i < 4 / bytes; ++i) elements.push_back(word >> 8 * bytes * i);
  return elements;
}

// Emits the code for one block.
struct BlockCopy {
  const Parameters& p;
  const PermutedCopyForm& form;
  gmem source, target;
  u32 first_row, first_column;

  int bytes() const { return form.element_bytes * form.vector; }
  Place row(u32 i) const { return place_of(p, kRow, form.rows.size(), i); }
  Place column(u32 i) const { return place_of(p, kColumn, form.columns.size(), i); }
  pred inside(u32 row, u32 column) const {
    return (row < p.get<u32>("rows")) & (column < p.get<u32>("columns"));
  }
  // For a piece outside the tensor, the first piece is read instead, and nothing is written.
  Words read(const Place& at, pred is, u64 within = 0) const {
    return read_piece(source + (select(is, at.from, u64(0)) + within), bytes());
  }
  void write(const Place& at, pred is, const Words& words, u64 within = 0) const {
    write_piece(target + (at.to + within), bytes(), words, is);
  }

  // read_all() reads `count` pieces that are `step` bytes apart, and write_all() writes `count` such pieces.
  Words read_all(const Place& at, pred is, int count, u64 step) const {
    Words all;
    for (int i = 0; i < count; ++i)
      for (const u32& word : read(at, is, step * static_cast<uint64_t>(i))) all.push_back(word);
    return all;
  }
  void write_all(const Place& at, pred is, const Words& all, int count, u64 step) const {
    const auto each = static_cast<ptrdiff_t>(all.size()) / count;
    for (int i = 0; i < count; ++i)
      write(at, is, Words(all.begin() + i * each, all.begin() + (i + 1) * each),
            step * static_cast<uint64_t>(i));
  }

  void in_order() const {
    const int planes = form.planes;
    const u64 near = u64(static_cast<uint64_t>(bytes())),
              far = planes > 1 ? p.get<u64>("plane_stride") : near;
    const Place of_row = row(first_row);
    std::vector<std::pair<Place, pred>> at;
    std::vector<Words> read_words;
    for (int64_t i = 0; i < form.block_columns / kCopyThreads; ++i) {
      const u32 number = first_column + tid_x() + static_cast<uint32_t>(i * kCopyThreads);
      at.emplace_back(of_row + column(number), inside(first_row, number));
      read_words.push_back(
          read_all(at.back().first, at.back().second, planes, form.planes_are_in_copy ? near : far));
    }
    for (size_t i = 0; i < at.size(); ++i) {
      if (planes > 1)
        read_words[i] = sorted(
            read_words[i], form.element_bytes,
            form.planes_are_in_copy ? transposed(form.vector, planes) : transposed(planes, form.vector));
      write_all(at[i].first, at[i].second, read_words[i], planes, form.planes_are_in_copy ? far : near);
    }
  }

  void squares() const {
    const QuickDivision by(p, "block_rows");
    const u32 far = by(tid_x()), my_row = first_row + (tid_x() - far * by.divisor),
              my_column = first_column + far;
    // If the number of rows does not divide the number of threads, there are surplus threads. Without this
    // condition, they would copy squares of the next block.
    const pred is = inside(my_row, my_column) & (far < p.get<u32>("block_columns"));
    const Place at = row(my_row) + column(my_column);
    const Words rows = read_all(at, is, form.vector, p.get<u64>("row_stride"));
    write_all(at, is, sorted(rows, form.element_bytes, transposed(form.vector, form.vector)), form.vector,
              p.get<u64>("column_stride"));
  }

  // Consecutive threads read consecutive columns, and write consecutive rows.
  template <class T>
  void through_shared(const SharedTile& tile) const {
    const RegisterLayout by_rows = strided({kEdge, kEdge}, 1);
    const u32 near = tid_x() % kEdge, far = tid_x() / kEdge;
    const auto step = [](int i) { return static_cast<uint32_t>(i * kCopyThreads / kEdge); };
    const int count = kEdge * kEdge / kCopyThreads;
    Words elements;
    const Place of_column = column(first_column + near);
    for (int i = 0; i < count; ++i) {
      const u32 its = first_row + far + step(i);
      elements.push_back(read(row(its) + of_column, inside(its, first_column + near))[0]);
    }
    const bool is_narrow = bytes() < 4;
    store(tile[0], RegisterTile<T>::of_registers(by_rows, is_narrow ? packed(elements, bytes()) : elements));
    sync_threads();
    elements = layout_cast(load<T>(tile[0].transposed()), by_rows).registers();
    if (is_narrow) elements = unpacked(elements, bytes());
    const Place of_row = row(first_row + near);
    for (int i = 0; i < count; ++i) {
      const u32 its = first_column + far + step(i);
      write(of_row + column(its), inside(first_row + near, its), {elements[static_cast<size_t>(i)]});
    }
  }
};

template <class T>
void copy_block(Kernel& k, const Parameters& p, const PermutedCopyForm& form) {
  const QuickDivision by(p, "column_blocks");
  const u32 row = by(ctaid_x()), column = ctaid_x() - row * by.divisor;
  const auto first = [&](u32 block, const char* name, int64_t pieces) {
    return block * (is_square(form) ? p.get<u32>(name) : u32(static_cast<uint32_t>(pieces)));
  };
  const BlockCopy copy{p,
                       form,
                       gmem(p.get<gptr<T>>("from")),
                       gmem(p.get<gptr<T>>("to")),
                       first(row, "block_rows", form.block_rows),
                       first(column, "block_columns", form.block_columns)};
  if (!form.transposes)
    copy.in_order();
  else if (is_square(form))
    copy.squares();
  else
    copy.through_shared<T>(k.shared<T>({kEdge, kEdge}, widest_swizzle(kEdge * size_of(T::dtype)), 1, "tile"));
}

// ---- The form ----

int64_t count_of(const Modes& modes) {
  return std::accumulate(modes.begin(), modes.end(), int64_t{1}, [](int64_t all, const Mode& mode) {
    return std::min(all * mode.extent, int64_t{1} << 31);
  });
}
int64_t blocks_of(const Modes& modes, int64_t block) { return (count_of(modes) + block - 1) / block; }

// Returns the share of the accessed memory that is useful, computed from the bytes of a block that are
// contiguous on one side of the copy.
double useful(const Modes& modes, int64_t Mode::*side, int64_t block, int64_t piece_bytes) {
  int64_t run = modes[0].extent;
  for (size_t i = 1; i < modes.size() && modes[i].*side == modes[i - 1].*side * modes[i - 1].extent; ++i)
    run *= modes[i].extent;
  const auto bytes = static_cast<double>(std::min<int64_t>(std::min(run, block) * piece_bytes, 128));
  return bytes / (bytes + 16);
}

// Assigns each of `others` to the rows or to the columns, and squares to threads, so that blocks are as full
// as possible, and contiguous runs are as long as possible.
void divide(PermutedCopyForm& form, const Modes& others) {
  const Modes row = form.rows, column = form.columns;
  const int piece = form.element_bytes * form.vector;
  // Returns the share of the pieces of all blocks that exist in the tensor.
  const auto filled = [&](const Modes& rows, const Modes& columns, int64_t high, int64_t wide) {
    const auto all = static_cast<double>(blocks_of(rows, high) * blocks_of(columns, wide));
    return static_cast<double>(count_of(rows)) * static_cast<double>(count_of(columns)) / all;
  };
  double best = 0;
  for (size_t mask = 0; mask < size_t{1} << others.size(); ++mask) {
    Modes rows = row, columns = column;
    for (size_t i = 0; i < others.size(); ++i) (mask >> i & 1 ? rows : columns).push_back(others[i]);
    std::sort(rows.begin() + 1, rows.end(), [](const Mode& x, const Mode& y) { return x.to < y.to; });
    std::sort(columns.begin() + 1, columns.end(),
              [](const Mode& x, const Mode& y) { return x.from < y.from; });
    if (std::max(count_of(rows), count_of(columns)) == int64_t{1} << 31) continue;
    const auto consider = [&](int64_t high, int64_t wide) {
      const double worth = filled(rows, columns, high, wide) * useful(rows, &Mode::to, high, piece) *
                           useful(columns, &Mode::from, wide, piece);
      if (worth <= 1.02 * best) return;
      best = worth, form.rows = rows, form.columns = columns;
      form.block_rows = high, form.block_columns = wide;
    };
    if (!is_square(form)) {
      consider(kEdge, kEdge);
      continue;
    }
    consider(kSquareRows, kCopyThreads / kSquareRows);
    for (int64_t high = 1; high <= 2 * kSquareRows; ++high) consider(high, kCopyThreads / high);
  }
}

// If the innermost mode of one side is short, and the mode around it is the innermost one on the other side,
// sets up the form for planes and removes the short mode from `modes`.
void take_planes(PermutedCopyForm& form, Modes& modes, int vector) {
  for (const auto& [near, far] : {std::pair{&Mode::from, &Mode::to}, {&Mode::to, &Mode::from}}) {
    const auto find = [&](int64_t Mode::*side, int64_t stride) {
      return std::ranges::find(modes, stride, side);
    };
    const auto planes = find(near, 1), around = find(far, 1);
    if (planes == modes.end() || around == modes.end() || planes == around) continue;
    if (planes->extent > kMostPlanes || (*around).*near != planes->extent || around->extent % vector != 0)
      continue;
    const bool others_fit = std::ranges::all_of(modes, [&](const Mode& mode) {
      return (&mode == &*planes || mode.*near % vector == 0 || &mode == &*around) &&
             (&mode == &*around || mode.*far % vector == 0);
    });
    if (!others_fit) continue;
    form.transposes = false;
    form.vector = vector;
    form.planes = static_cast<int>(planes->extent);
    form.planes_are_in_copy = near == &Mode::from;
    form.plane_stride = (*planes).*far;
    modes.erase(planes);
    return;
  }
}

}  // namespace

PermutedCopyForm form_of(const PermutedCopy& copy) {
  Modes modes = copy.modes;
  fold(modes);
  if (modes.size() > PermutedCopyForm::kMost)
    throw Error(fmt::format("copy of a tensor: it has {} modes that do not fold, but may have at most {}",
                            modes.size(), PermutedCopyForm::kMost));
  if (modes.empty()) modes.push_back({1, 0, 0});
  PermutedCopyForm form{copy.from, copy.to, copy.element_bytes};
  const auto least = [&](int64_t Mode::*side) { return std::ranges::min_element(modes, {}, side); };
  form.transposes = least(&Mode::from) != least(&Mode::to);
  // In the source and in the destination, all strides must be multiples of the vector, except the stride
  // along which a piece is accessed.
  const int vector = std::min(8, static_cast<int>(kTma) / copy.element_bytes);
  const auto is_wide = [&](int64_t Mode::*side) {
    const auto along = least(side);
    return (*along).*side == 1 && along->extent % vector == 0 &&
           std::ranges::all_of(
               modes, [&](const Mode& mode) { return &mode == &*along || mode.*side % vector == 0; });
  };
  const auto is_aligned = [&](const runtime::View& memory) {
    return memory.address % static_cast<uint64_t>(vector * copy.element_bytes) == 0;
  };
  if (is_aligned(copy.from) && is_aligned(copy.to)) {
    if (is_wide(&Mode::from) && is_wide(&Mode::to))
      form.vector = vector;
    else
      take_planes(form, modes, vector);
  }
  // Removes the innermost mode of a side from `modes`, and returns it in units of pieces.
  const auto take = [&](int64_t Mode::*side) {
    const auto at = least(side);
    Mode taken = *at;
    modes.erase(at);
    taken.extent /= form.vector, taken.from *= form.vector, taken.to *= form.vector;
    return taken;
  };
  form.columns = {take(&Mode::from)};
  form.column_stride = form.columns[0].to / form.vector;
  if (!form.transposes) {
    form.block_columns = kCopyThreads * (form.vector > 1 ? kWideAtOnce / form.planes : kNarrowAtOnce);
    for (const Mode& mode : modes)
      (count_of(form.columns) * mode.extent < int64_t{1} << 31 && form.rows.empty() ? form.columns
                                                                                    : form.rows)
          .push_back(mode);
    return form;
  }
  form.rows = {take(&Mode::to)};
  form.row_stride = form.rows[0].from / form.vector;
  divide(form, modes);
  return form;
}

PermutedCopyKind kind_of(const PermutedCopyForm& form) {
  return {form.element_bytes,
          form.vector,
          form.transposes,
          static_cast<int>(form.rows.size()),
          static_cast<int>(form.columns.size()),
          form.planes,
          form.planes_are_in_copy};
}

Kernel permuted_copy(const PermutedCopyForm& form) {
  const int bytes = form.element_bytes;
  Kernel k(fmt::format("permuted_copy_{}", fmt::join(kind_of(form), "_")));
  const DType type = bytes == 1 ? DType::u8 : bytes == 2 ? DType::bf16 : DType::u32;
  Parameters p;
  const auto stride = [&](const std::string& name, const char* meaning) {
    p.add(name, Parameter::Kind::scalar, DType::u64, meaning);
  };
  p.add("from", Parameter::Kind::pointer, type, "the tensor");
  p.add("to", Parameter::Kind::pointer, type, "its copy");
  p.add("rows", Parameter::Kind::scalar, DType::u32, "pieces along the rows");
  p.add("columns", Parameter::Kind::scalar, DType::u32, "pieces along the columns");
  QuickDivision::declare(p, "column_blocks", "blocks along the columns");
  for (const auto& [axis, modes] : {std::pair{kRow, &form.rows}, {kColumn, &form.columns}})
    for (size_t i = 0; i < modes->size(); ++i) {
      if (i + 1 < modes->size()) QuickDivision::declare(p, mode_name(axis, i), "pieces along a mode");
      stride(mode_name(axis, i, "_from"), "bytes from one to the next");
      stride(mode_name(axis, i, "_to"), "bytes from one to the next in the copy");
    }
  if (is_square(form)) {
    QuickDivision::declare(p, "block_rows", "pieces of a block along the rows");
    p.add("block_columns", Parameter::Kind::scalar, DType::u32, "pieces of a block along the columns");
    stride("row_stride", "bytes from a row to the next");
    stride("column_stride", "bytes from a column to the next in the copy");
  }
  if (form.planes > 1) stride("plane_stride", "bytes from a plane to the next");
  p.declare(k, Where::here());
  k.threads(kCopyThreads);
  k.overlaps();
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  if (bytes == 1)
    copy_block<u8>(k, p, form);
  else if (bytes == 2)
    copy_block<bf16>(k, p, form);
  else
    copy_block<u32>(k, p, form);
  return k;
}

PermutedCopier::PermutedCopier(runtime::Device& device, const LoadOptions& options)
    : device_(device), compiler_(compiler_for(device, options)) {}

runtime::LoadedKernel& PermutedCopier::kernel(const PermutedCopyForm& form) {
  const std::lock_guard lock(mutex_);
  auto& kernel = kernels_[kind_of(form)];
  if (!kernel)
    kernel = std::make_unique<runtime::LoadedKernel>(load(device_, compiler_, permuted_copy(form)));
  return *kernel;
}

void PermutedCopier::operator()(const PermutedCopyForm& form, runtime::Stream stream) {
  const DType type = form.element_bytes == 1 ? DType::u8 : form.element_bytes == 2 ? DType::bf16 : DType::u32;
  const int64_t across = blocks_of(form.columns, form.block_columns),
                count = blocks_of(form.rows, form.block_rows) * across;
  if (count >= int64_t{1} << 31)
    throw Error(
        fmt::format("copy of a tensor: it has {} blocks, but less than 2^31 can be copied at once", count));
  std::vector<runtime::Argument> arguments = {runtime::pointer(form.from, type),
                                              runtime::pointer(form.to, type)};
  const auto number = [&](int64_t value) {
    arguments.push_back(runtime::scalar(static_cast<uint32_t>(value)));
  };
  const auto divisor = [&](int64_t value) {
    const Reciprocal by(value);
    number(value), number(by.factor), number(by.shift);
  };
  const auto stride = [&](int64_t elements) {
    arguments.push_back(runtime::scalar(static_cast<uint64_t>(elements * form.element_bytes)));
  };
  number(count_of(form.rows)), number(count_of(form.columns));
  divisor(across);
  for (const Modes* modes : {&form.rows, &form.columns})
    for (size_t i = 0; i < modes->size(); ++i) {
      if (i + 1 < modes->size()) divisor((*modes)[i].extent);
      stride((*modes)[i].from), stride((*modes)[i].to);
    }
  if (is_square(form)) {
    divisor(form.block_rows), number(form.block_columns);
    stride(form.row_stride), stride(form.column_stride);
  }
  if (form.planes > 1) stride(form.plane_stride);
  kernel(form).launch(
      {.grid = {static_cast<uint32_t>(count)}, .programmatic_dependent_launch = true, .stream = stream},
      arguments);
}

}  // namespace ptxbuilder::kernels
