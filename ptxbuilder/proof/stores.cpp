// Proves epilogues: each element of a register tile reaches its element of the tensor.
#include <fmt/format.h>

#include "ptxbuilder/proof/image.h"

namespace ptxbuilder::detail {
namespace {

constexpr int kThreads = 128, kWarp = 32, kBlockRows = 64;

// Returns the row and column of accumulator `i` of a thread (PTX ISA, wgmma.mma_async, "Register Fragments").
Element accumulator(int thread, int i) {
  const int lane = thread % kWarp, warp = thread / kWarp;
  return {16 * warp + lane / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (lane % 4) + i % 2};
}

// Returns the position of pair i, which consists of accumulators 2i and 2i + 1. The two accumulators are
// neighbours in a row.
Element pair(int thread, int i) {
  const Element first = accumulator(thread, 2 * i);
  return {first.row, first.col / 2};
}

// A buffer in shared memory, and the accumulator that is stored at each of its elements.
class Buffer {
 public:
  Buffer(const StoreRecord& store, const TileRecord& tile, int stage)
      : store_(store),
        tile_(tile),
        start_(int64_t{tile.offset} + int64_t{stage} * tile.stage_bytes),
        lies_(static_cast<size_t>(tile.stage_bytes / size_of(tile.dtype))),
        stored_(static_cast<size_t>(kBlockRows * store.cols), false) {}

  Tried run() {
    for (int i = 0; i < store_.written.accesses() && !tried_.counterexample; ++i) write(i);
    for (const StoreRecord::Piece& piece : store_.pieces)
      for (int i = 0; i < piece.copy.boxes.count() && !tried_.counterexample; ++i) read(piece, i);
    for (size_t i = 0; i < stored_.size() && !tried_.counterexample; ++i)
      if (!stored_[i])
        fail("tma_store", element(static_cast<int>(i)), std::nullopt, std::nullopt, "no box contains it");
    for (int i = 0; i < store_.written.accesses() && !tried_.counterexample; ++i) tell(i);
    return std::move(tried_);
  }

 private:
  // Returns the element of the accumulators that a thread's access stores as its value `i`.
  Element held(int access, int thread, int i) const {
    const int value = store_.first_col / 2 + store_.written.value(thread, access, i);
    return store_.pairs ? pair(thread, value) : accumulator(thread, value);
  }

  void write(int access) {
    const ThreadCopyRecord& w = store_.written;
    const int size = size_of(tile_.dtype), aligned = w.matrices > 0 ? 16 : w.bytes;
    tried_.bank_ways = std::max(
        tried_.bank_ways,
        bank_ways(std::span(w.addresses).subspan(w.index(access, 0), kThreads), start_, w.bytes, w.matrices));
    for (int thread = 0; thread < kThreads; ++thread) {
      const std::string operation = text_of(access, thread);
      const int64_t named = w.addresses[w.index(access, thread)];
      if ((start_ + named) % aligned != 0)
        return fail(operation, std::nullopt, std::nullopt, named,
                    fmt::format("not a multiple of {} B", aligned));
      for (int i = 0; i < w.values(); ++i) {
        const Element held_here = held(access, thread, i);
        const int64_t at = address_of(w, access, thread, i);
        if (!holds(at)) return fail(operation, held_here, std::nullopt, at, "outside of the buffer");
        if (there(at)) return fail(operation, held_here, there(at), at, "two elements at one address");
        lies_[static_cast<size_t>(at / size)] = held_here;
      }
    }
  }

  std::string text_of(int access, int thread) const {
    return fmt::format("{} {}, thread {}", store_.written.matrices > 0 ? "stmatrix" : "st.shared", access,
                       thread);
  }

  // Checks that the epilogue gets the right position of each element that an access stores.
  void tell(int access) {
    for (int thread = 0; thread < kThreads; ++thread)
      for (int i = 0; i < store_.written.values(); ++i) {
        const Element in_buffer = store_.written.element(access, thread, i), its = held(access, thread, i);
        const Element told = store_.transposed ? Element{in_buffer.col, store_.first_col + in_buffer.row}
                                               : Element{in_buffer.row, store_.first_col + in_buffer.col};
        if (!(told == its))
          return fail(text_of(access, thread), its, told, std::nullopt,
                      "the epilogue gets the position of that element");
      }
  }

  void read(const StoreRecord::Piece& piece, int number) {
    const CopyRecord& copy = piece.copy;
    const TensorMapRecipe& recipe = copy.recipe;
    const auto box = copy.boxes.box(int64_t{0}, number);
    // A view of the buffer may begin at any row.
    const int64_t begin = int64_t{copy.view.first_row.value_or(0)} * tile_.row_bytes + box.bytes,
                  start = start_ + begin;
    uint32_t count = 1;
    for (const uint32_t extent : recipe.box) count *= extent;
    if (start % 128 != 0) return fail("tma_store", std::nullopt, std::nullopt, begin, "no multiple of 128 B");
    for (uint32_t i = 0; i < count; ++i) {
      const Element in_view = element_of(copy, box, i);
      const Element wanted = store_.transposed ? Element{in_view.col, piece.first_col + in_view.row}
                                               : Element{in_view.row, piece.first_col + in_view.col};
      const int64_t at = int64_t{where_tma_puts(recipe, static_cast<uint32_t>(start), i)} - start_;
      if (!holds(at) || !(there(at) == wanted))
        return fail(fmt::format("tma_store of '{}'", copy.map), wanted, holds(at) ? there(at) : std::nullopt,
                    at,
                    holds(at) && there(at) ? "TMA stores another element"
                                           : "TMA stores an element that no thread has written");
      if (wanted.row >= kBlockRows || wanted.col < store_.first_col ||
          wanted.col >= store_.first_col + store_.cols)
        return fail(fmt::format("tma_store of '{}'", copy.map), wanted, std::nullopt, at,
                    fmt::format("of columns {} to {}", store_.first_col, store_.first_col + store_.cols - 1));
      stored_[static_cast<size_t>((wanted.col - store_.first_col) * kBlockRows + wanted.row)] = true;
      ++tried_.elements;
    }
  }

  Element element(int number) const { return {number % kBlockRows, store_.first_col + number / kBlockRows}; }
  bool holds(int64_t at) const {
    return at >= 0 && at / size_of(tile_.dtype) < static_cast<int64_t>(lies_.size());
  }
  std::optional<Element> there(int64_t at) const {
    return lies_[static_cast<size_t>(at / size_of(tile_.dtype))];
  }

  void fail(const std::string& operation, std::optional<Element> wanted, std::optional<Element> found,
            std::optional<int64_t> at, const std::string& reason) {
    Counterexample wrong{.operation = "store: " + operation};
    wrong.wanted = wanted;
    wrong.found = found;
    if (wanted)
      if (auto place = std::find(lies_.begin(), lies_.end(), wanted); place != lies_.end())
        wrong.wanted_at = (place - lies_.begin()) * size_of(tile_.dtype);
    wrong.address = at;
    wrong.puts = !operation.starts_with("tma_store");
    wrong.reason = reason;
    wrong.where = store_.where;
    tried_.counterexample = std::move(wrong);
  }

  const StoreRecord& store_;
  const TileRecord& tile_;
  int64_t start_;  // start of the buffer, relative to the start of dynamic shared memory
  std::vector<std::optional<Element>> lies_;
  std::vector<bool> stored_;
  Tried tried_;
};

}  // namespace

Tried try_store(const KernelRecord& kernel, const StoreRecord& store) {
  Tried all;
  for (int stage : store.stages) {
    Tried tried = Buffer(store, kernel.tiles[static_cast<size_t>(store.tile)], stage).run();
    all.elements += tried.elements;
    all.bank_ways = std::max(all.bank_ways, tried.bank_ways);
    if (!tried.counterexample) continue;
    all.counterexample = std::move(tried.counterexample);
    break;
  }
  return all;
}

}  // namespace ptxbuilder::detail
