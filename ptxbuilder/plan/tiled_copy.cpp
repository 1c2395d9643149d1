#include "ptxbuilder/plan/tiled_copy.h"

#include <fmt/format.h>

#include "ptxbuilder/plan/offsets.h"

namespace ptxbuilder {
namespace {

IntTuple modes_of(const Layout& mode, const std::vector<Repeat>& repeats, bool strides) {
  std::vector<IntTuple> modes;
  for (const IntTuple& leaf : leaves(strides ? mode.stride() : mode.shape())) modes.push_back(leaf);
  for (Repeat r : repeats)
    if (r.count > 1) modes.emplace_back(strides ? r.step : r.count);
  return IntTuple(std::move(modes));
}

// Returns the layout (thread, (element, access)) -> element of the tile that counts the elements at a
// thread's addresses instead of the elements in its registers.
Layout by_address(const CopyAtom& atom, DType type, const Layout& thread_value) {
  const int64_t held = atom.register_bytes() / size_of(type);
  // The layout has the modes ((threads of the instruction, their values), (other threads, further
  // instructions)).
  Layout tiles = zipped_divide(thread_value, {int64_t{atom.threads()}, held});
  Layout of_tile = composition(right_inverse(atom.held(type)), atom.addressed(type));
  Layout one = composition(coalesce(tiles[0]), of_tile);
  return concatenate<int64_t>(
      {concatenate<int64_t>({one[0], tiles[1][0]}), concatenate<int64_t>({one[1], tiles[1][1]})});
}

std::string list_of(const std::vector<int64_t>& bytes) { return fmt::format("{}", fmt::join(bytes, ", ")); }

}  // namespace

Layout repeated(const Layout& thread_value, const std::vector<Repeat>& threads,
                const std::vector<Repeat>& values) {
  std::vector<IntTuple> shape, stride;
  for (size_t i : {0, 1}) {
    const auto& repeats = i == 0 ? threads : values;
    shape.push_back(modes_of(thread_value[i], repeats, false));
    stride.push_back(modes_of(thread_value[i], repeats, true));
  }
  return make_layout(IntTuple(shape), IntTuple(stride));
}

Layout within_rows(const Layout& thread_value, int64_t rows, int64_t cols, int64_t tile_rows) {
  return composition(make_layout({rows, cols}, {1, tile_rows}), thread_value);
}

Layout threads_along_rows(int64_t rows, int64_t cols, int64_t threads, int64_t elements, Where where) {
  CallersLine line(where);
  auto refuse = [&](const std::string& rule) {
    throw Error(fmt::format("threads_along_rows: a {}x{} tile by {} threads, {} elements at a time: {}", rows,
                            cols, threads, elements, rule));
  };
  if (rows < 1 || cols < 1 || threads < 1 || elements < 1) refuse("all must be at least 1");
  if (cols % elements != 0) refuse("these do not divide a row");
  const int64_t chunks = cols / elements;  // number of chunks per row
  if (chunks % threads == 0)
    return make_layout({threads, {elements, chunks / threads, rows}},
                       {elements * rows, {rows, threads * elements * rows, 1}});
  if (threads % chunks != 0 || rows % (threads / chunks) != 0)
    refuse(fmt::format("its {} rows of {} pieces cannot be divided equally among them", rows, chunks));
  const int64_t across = threads / chunks;  // number of rows that all threads cover at a time
  return make_layout({{chunks, across}, {elements, rows / across}}, {{elements * rows, 1}, {rows, across}});
}

ComposedLayout panel_layout(DType type, int64_t rows, int64_t cols, Swizzle swizzle, int64_t panel_cols) {
  const int bytes = size_of(type);
  const int64_t width = swizzle != Swizzle::none ? span_bytes(swizzle) / bytes
                        : panel_cols             ? panel_cols
                                                 : cols;
  return {upcast(byte_swizzle(swizzle), bytes), 0,
          make_layout({rows, {width, cols / width}}, {width, {1, rows * width}})};
}

TiledCopy::TiledCopy(CopyAtom atom, DType type, const Layout& thread_value, const ComposedLayout& memory,
                     Where where)
    : atom_(atom), dtype_(type), thread_value_(thread_value), memory_(memory) {
  CallersLine line(where);
  auto refuse = [&](const std::string& rule) {
    throw Error(fmt::format("tiled copy by {} of {} {} into {}: {}", atom.describe(), name(type),
                            to_string(thread_value), to_string(memory), rule));
  };
  if (rank(thread_value) != 2 || rank(memory.layout()) != 2)
    refuse("the layouts must be of (thread, value) and of (row, column)");
  threads_ = static_cast<int>(size(thread_value[0]));
  const int64_t values = size(thread_value[1]), held = atom.register_bytes() / size_of(type);
  if (threads_ % atom.threads() != 0)
    refuse(fmt::format("{} threads are not a number of whole warps", threads_));
  if (held < 1 || values % held != 0)
    refuse(fmt::format("a thread's {} values are not a multiple of the {} of one instruction", values, held));
  if (cosize(thread_value) > size(memory.layout()))
    refuse(fmt::format("the tile has {} elements, but a thread holds element {}", size(memory.layout()),
                       cosize(thread_value) - 1));
  accesses_ = static_cast<int>(values / held);

  Layout elements = by_address(atom, type, thread_value);
  Layout lies = composition(memory.layout(), elements);
  const int64_t together = size(elements[1]) / accesses_;
  const std::vector<int64_t> of_thread = offsets_of(lies[0]), of_element = offsets_of(lies[1]);
  std::vector<int64_t> bytes;
  for (int t = 0; t < threads_; ++t)
    for (int a = 0; a < accesses_; ++a) {
      bytes.clear();
      bool contiguous = true;
      for (int64_t e = 0; e < together; ++e) {
        const int64_t linear =
            of_thread[static_cast<size_t>(t)] + of_element[static_cast<size_t>(a * together + e)];
        bytes.push_back(memory.swizzle()(memory.offset() + linear) * size_of(type));
        contiguous = contiguous && bytes.back() == bytes.front() + e * size_of(type);
      }
      if (!contiguous)
        refuse(fmt::format("the elements of thread {}, access {} are at bytes {}, which are not contiguous",
                           t, a, list_of(bytes)));
      if (bytes.front() % atom.bytes() != 0)
        refuse(fmt::format("thread {}, access {} begins at byte {}, which is not a multiple of {}", t, a,
                           bytes.front(), atom.bytes()));
    }
  // Selects the first of each access's contiguous elements.
  Layout value = zipped_divide(elements[1], together);
  first_ = concatenate<int64_t>({elements[0], value[1]});
  access_.emplace(memory, size_of(type), elements[0], offsets_of(value[1]));
}

Layout TiledCopy::coordinates() const {
  const IntTuple& shape = memory_.layout().shape();
  return composition(make_identity_layout({size(shape[0]), size(shape[1])}), first_);
}

std::string TiledCopy::describe() const {
  return fmt::format("{} threads x {} times {}", threads_, accesses_, atom_.describe());
}

}  // namespace ptxbuilder
