// Proves copies by threads: with cp.async, with ldmatrix and stmatrix, and with ordinary loads and stores.
#include <fmt/format.h>

#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/proof/image.h"

namespace ptxbuilder::detail {
namespace {

using Kind = ThreadCopyRecord::Kind;

constexpr int kMatrixRows = 8, kMatrixRowBytes = 16;  // rows of an 8x8 matrix, and bytes of a row

}  // namespace

// Returns the address of a value. In ldmatrix and stmatrix, lane l addresses row l % 8 of matrix l / 8. It
// holds 4 bytes of each matrix, from row l / 4 or, with .trans, from column l / 4 (PTX ISA).
int address_of(const ThreadCopyRecord& copy, int access, int thread, int i) {
  const int size = size_of(copy.dtype);
  if (copy.matrices == 0) return copy.addresses[copy.index(access, thread)] + i * size;
  const int lane = thread % hopper::warp_threads, held = 4 / size, matrix = i / held, e = i % held;
  const int row = copy.trans ? lane % 4 * 2 + e : lane / 4;
  const int within = copy.trans ? lane / 4 * size : lane % 4 * 4 + e * size;
  return copy.addresses[copy.index(access, thread - lane + kMatrixRows * matrix + row)] + within;
}

Tried try_thread_copy(const ThreadCopyRecord& copy, const TileRecord& tile, Element corner, int stage,
                      Image& image) {
  Tried tried;
  const int64_t stage_start = start_of(tile, stage, {}), start = start_of(tile, stage, corner);
  const int aligned = copy.matrices > 0 ? kMatrixRowBytes : copy.bytes, values = copy.values();
  for (int access = 0; access < copy.accesses(); ++access)
    for (int thread = 0; thread < copy.threads; ++thread) {
      auto refuse = [&](const std::string& reason, int64_t at, std::optional<Element> wanted) {
        Counterexample wrong{.operation = fmt::format("{}: access {}, thread {}", copy.text, access, thread)};
        wrong.wanted = wanted;
        if (image.holds(at)) wrong.found = image.at(at);
        if (wanted) wrong.wanted_at = image.place_of(*wanted);
        wrong.address = at;
        wrong.puts = copy.kind != Kind::to_registers;
        wrong.reason = reason;
        wrong.where = copy.where;
        tried.counterexample = std::move(wrong);
        return tried;
      };
      const int64_t named = start + copy.addresses[copy.index(access, thread)];
      if (named % aligned != 0)
        return refuse(fmt::format("not a multiple of {} B", aligned), named - stage_start, std::nullopt);
      for (int i = 0; i < values; ++i) {
        const int64_t at = start + address_of(copy, access, thread, i) - stage_start;
        const Element within = copy.element(access, thread, i);
        const Element wanted{corner.row + within.row, corner.col + within.col};
        if (!image.holds(at)) return refuse(fmt::format("a stage has {} B", tile.stage_bytes), at, wanted);
        if (within.row >= copy.view.rows || within.col >= copy.view.cols)
          return refuse(fmt::format("the view has {} x {} elements", copy.view.rows, copy.view.cols), at,
                        wanted);
        const std::optional<Element> there = image.at(at);
        if (copy.kind == Kind::to_registers) {
          if (!(there == wanted))
            return refuse(
                there ? "threads read another element" : "threads read an element that nothing has written",
                at, wanted);
        } else {
          if (there && !(*there == wanted)) return refuse("two elements at one address", at, wanted);
          image.put(at, wanted);
        }
        ++tried.elements;
      }
    }
  for (int access = 0; copy.kind != Kind::from_global && access < copy.accesses(); ++access)
    tried.bank_ways = std::max(
        tried.bank_ways,
        bank_ways(std::span(copy.addresses).subspan(copy.index(access, 0), static_cast<size_t>(copy.threads)),
                  start, copy.bytes, copy.matrices));
  return tried;
}

namespace {

// An operand of an mma.sync: the part of the tile that each warp's registers hold.
struct RegisterOperand {
  char name;  // 'A' or 'B'
  const std::vector<LoadedWord>& words;
  const Layout& layout;  // maps (lane, value) to an index in the matrix of rows x k, column by column
  int rows;
  DType dtype;
};

// Returns the element in value `v` of a warp's lane.
Element held_by(const KernelRecord& kernel, const RegisterOperand& o, int warp, int lane, int v) {
  const int per_word = 4 / size_of(o.dtype);
  const LoadedWord& word = o.words[static_cast<size_t>(v / per_word)];
  return kernel.thread_copies[static_cast<size_t>(word.copy)].held(warp * hopper::warp_threads + lane,
                                                                   word.word * per_word + v % per_word);
}

// Derives the first element of the warp's part from each register, and returns it. If the results differ,
// records a counterexample and returns nothing.
std::optional<Element> corner_of(const KernelRecord& kernel, const WarpMmaRecord& mma,
                                 const RegisterOperand& o, int warp, Tried& tried) {
  std::optional<Element> corner;
  const int values = static_cast<int>(size(o.layout[1]));
  for (int lane = 0; lane < hopper::warp_threads; ++lane)
    for (int v = 0; v < values; ++v) {
      const auto index = static_cast<int>(o.layout({int64_t{lane}, int64_t{v}}));
      const Element held = held_by(kernel, o, warp, lane, v), within{index % o.rows, index / o.rows};
      const Element first{held.row - within.row, held.col - within.col};
      if (!corner) corner = first;
      if (*corner == first) {
        ++tried.elements;
        continue;
      }
      Counterexample wrong{
          .operation = fmt::format("mma.sync: {}, warp {}, lane {}, value {}", o.name, warp, lane, v)};
      wrong.wanted = Element{corner->row + within.row, corner->col + within.col};
      wrong.found = held;
      wrong.reason = "the register holds another element";
      wrong.where = mma.where;
      tried.counterexample = std::move(wrong);
      return std::nullopt;
    }
  return corner;
}

}  // namespace

Tried try_warp_mma(const KernelRecord& kernel, const WarpMmaRecord& mma) {
  Tried tried;
  const RegisterOperand a{'A', mma.a, mma.layout_a, mma.m, mma.a_type},
      b{'B', mma.b, mma.layout_b, mma.n, mma.b_type};
  const int warps = kernel.thread_copies[static_cast<size_t>(mma.a[0].copy)].threads / hopper::warp_threads;
  for (int warp = 0; warp < warps; ++warp) {
    const auto of_a = corner_of(kernel, mma, a, warp, tried), of_b = corner_of(kernel, mma, b, warp, tried);
    if (tried.counterexample) return tried;
    if (of_a->col == of_b->col) continue;
    Counterexample wrong{.operation = fmt::format("mma.sync: warp {}", warp)};
    wrong.wanted = of_a;
    wrong.found = of_b;
    wrong.reason = fmt::format("A begins at k {}, but B at k {}", of_a->col, of_b->col);
    wrong.where = mma.where;
    tried.counterexample = std::move(wrong);
    return tried;
  }
  return tried;
}

}  // namespace ptxbuilder::detail
