// Proofs of what the tensor cores read: operands of wgmma by a descriptor, and fragments of A by ldmatrix.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ptxbuilder/tile/proof_image.h"

namespace ptxbuilder::detail {
namespace {

constexpr int kBlock = 64;  // rows of A that one wgmma reads

// wgmma (PTX ISA, "Matrix Descriptor Format", "Strides"): core matrices of 8 rows of 16 bytes. Element `mn`
// along m or n and `k` of the matrix of one instruction.
uint32_t where_wgmma_reads(uint64_t descriptor, bool mn_major, int size, int mn, int k) {
  auto field = [&](int from) { return static_cast<uint32_t>(descriptor >> from & 0x3fff) * 16; };
  const uint32_t start = field(0), leading = field(16), stride = field(32),
                 base = static_cast<uint32_t>(descriptor >> 49 & 7);
  constexpr std::array<uint32_t, 4> spans = {16, 128, 64, 32};
  const uint32_t span = spans[descriptor >> 62];
  // Along which bytes are contiguous, and across.
  const auto along = static_cast<uint32_t>(mn_major ? mn : k) * static_cast<uint32_t>(size),
             across = static_cast<uint32_t>(mn_major ? k : mn);
  uint32_t byte = start + across % 8 * span + along % span;
  if (span == 16 && mn_major)
    byte += along / span * stride + across / 8 * leading;
  else if (span == 16 || mn_major)
    byte += along / span * leading + across / 8 * stride;
  else  // an instruction never leaves the span
    byte += along / span * span + across / 8 * stride;
  // The pattern starts `base` lines of 128 bytes above a multiple of 1024.
  const uint32_t line = byte / 128 + 8 - base;
  return (byte / 16 ^ line % (span / 16)) * 16 + byte % 16;
}

// One operand of one instruction of a product: A's blocks are 64 rows, B has one of all columns.
struct Reader {
  const OperandRecord& operand;
  const TileRecord& tile;
  char name;     // 'A' or 'B'
  int mn, k;     // of the product
  int block_mn;  // of one instruction
  Where where;

  int depth() const { return 32 / size_of(tile.dtype); }
  std::string operation(int block, int step, int i, int j) const {
    std::string at = name == 'A' ? fmt::format("block {}, step {}: m {}", block, step, block * block_mn + i)
                                 : fmt::format("step {}: n {}", step, i);
    return fmt::format("mma: {}, {}, k {}", name, at, step * depth() + j);
  }
};

// Where the rows of 16 bytes lie that the lanes of a warp name to one ldmatrix, from the start of the stage.
struct RowAddress {
  const FragmentRecord& fragment;
  const TileRecord& tile;
  Element corner;
  int stage, step, warp;

  int64_t operator()(int matrix, int row) const {
    const int64_t stage_start = start_of(tile, stage, {}), view = start_of(tile, stage, corner);
    const int64_t offset = int64_t{fragment.by_thread[static_cast<size_t>(32 * warp + 8 * matrix + row)]} +
                           fragment.along_k[static_cast<size_t>(step)];
    return view + swizzled_offset(view, offset, fragment.swizzle) - stage_start;
  }

  // The 8 rows of a matrix are read at a time, from 32 banks of 4 bytes.
  int bank_ways() const {
    int most = 1;
    for (int matrix = 0; matrix < 4; ++matrix) {
      std::array<int, 8> rows = {};
      for (int row = 0; row < 8; ++row)
        most = std::max(most, ++rows[static_cast<size_t>((*this)(matrix, row) / 16 % 8)]);
    }
    return most;
  }
};

Reader reader_of(const MmaRecord& mma, char name, const TileRecord& tile) {
  return name == 'A' ? Reader{*mma.a, tile, name, mma.m, mma.k, kBlock, mma.where}
                     : Reader{mma.b, tile, name, mma.n, mma.k, mma.n, mma.where};
}

Tried try_instruction(const Reader& reader, Element corner, int stage, int block, int step,
                      const Image& image) {
  Tried tried;
  const OperandRecord& o = reader.operand;
  const TileRecord& tile = reader.tile;
  const int size = size_of(tile.dtype);
  const int64_t stage_start = start_of(tile, stage, {}), view = start_of(tile, stage, corner);
  // As the kernel computes it: the view's start takes its place among the bits, and the advance is added.
  const uint64_t bits = (static_cast<uint64_t>(view >> 4 & 0x3fff) | o.descriptor) +
                        static_cast<uint64_t>(o.start(block, step) >> 4);
  for (int i = 0; i < reader.block_mn; ++i)
    for (int j = 0; j < reader.depth(); ++j) {
      const int mn = block * reader.block_mn + i, k = step * reader.depth() + j;
      const Element wanted =
          o.transposed ? Element{corner.row + k, corner.col + mn} : Element{corner.row + mn, corner.col + k};
      const int64_t at = int64_t{where_wgmma_reads(bits, o.mn_major, size, i, j)} - stage_start;
      std::optional<Element> found = image.at(at);
      if (found && *found == wanted) continue;
      tried.counterexample = {
          .operation = reader.operation(block, step, i, j),
          .wanted = wanted,
          .found = found,
          .wanted_at = image.place_of(wanted),
          .address = at,
          .reason = found             ? "wgmma reads another element"
                    : image.holds(at) ? "wgmma reads what no copy has written"
                                      : fmt::format("wgmma reads beside the stage of {} B", tile.stage_bytes),
          .where = reader.where};
      return tried;
    }
  tried.elements = static_cast<uint64_t>(reader.block_mn) * static_cast<uint64_t>(reader.depth());
  return tried;
}

// The four registers of one thread. ldmatrix (PTX ISA): lane l names row l % 8 of matrix l / 8, and gets of
// each matrix 4 bytes of row lane / 4, or with .trans of column lane / 4. wgmma (PTX ISA, "Register
// Fragments"): register 2 c + h holds 4 bytes of row 16 warp + lane / 4 + 8 h from byte 16 c + 4 (lane % 4)
// of the step on.
Tried try_registers(const RowAddress& row_address, int thread, const Image& image) {
  Tried tried;
  const FragmentRecord& f = row_address.fragment;
  const int size = size_of(row_address.tile.dtype), lane = thread % 32, warp = thread / 32;
  for (int matrix = 0; matrix < 4; ++matrix)
    for (int e = 0; e < 4 / size; ++e) {
      const int m = 16 * warp + lane / 4 + matrix % 2 * 8,
                k = (32 * row_address.step + matrix / 2 * 16 + lane % 4 * 4) / size + e;
      const int64_t at = f.trans ? row_address(matrix, lane % 4 * 2 + e) + lane / 4 * size
                                 : row_address(matrix, lane / 4) + lane % 4 * 4 + e * size;
      const Element corner = row_address.corner;
      const Element wanted =
          f.transposed ? Element{corner.row + k, corner.col + m} : Element{corner.row + m, corner.col + k};
      std::optional<Element> found = image.at(at);
      if (found && *found == wanted) continue;
      tried.counterexample = {
          .operation =
              fmt::format("load_fragment: step {}, thread {}, register {}", row_address.step, thread, matrix),
          .wanted = wanted,
          .found = found,
          .wanted_at = image.place_of(wanted),
          .address = at,
          .reason = found ? "ldmatrix reads another element" : "ldmatrix reads beside the elements",
          .where = f.where};
      return tried;
    }
  tried.elements = static_cast<uint64_t>(16 / size);
  return tried;
}

// Adds what a part has tried; whether it holds.
bool add(Tried& all, Tried part) {
  all.elements += part.elements;
  all.counterexample = std::move(part.counterexample);
  return !all.counterexample;
}

}  // namespace

Tried try_operand(const MmaRecord& mma, char name, const TileRecord& tile, const std::vector<Image>& images) {
  const Reader reader = reader_of(mma, name, tile);
  Tried tried;
  const OperandRecord& o = reader.operand;
  const int blocks = static_cast<int>(o.along_mn.size()), steps = static_cast<int>(o.along_k.size());
  if (blocks * reader.block_mn != reader.mn || steps * reader.depth() != reader.k) {
    tried.counterexample = {
        .operation = fmt::format("mma: {}", reader.name),
        .reason = fmt::format("{} instructions of {} x {} and {} steps do not cover {} x {}", blocks,
                              reader.block_mn, reader.depth(), steps, reader.mn, reader.k),
        .where = reader.where};
    return tried;
  }
  for (Element corner : corners(o.view, tile))
    for (int stage = 0; stage < tile.stages; ++stage)
      for (int block = 0; block < blocks; ++block)
        for (int step = 0; step < steps; ++step)
          if (!add(tried,
                   try_instruction(reader, corner, stage, block, step, images[static_cast<size_t>(stage)])))
            return tried;
  return tried;
}

std::string text_of(const MmaRecord& mma, char name, const TileRecord& tile) {
  const Reader reader = reader_of(mma, name, tile);
  const OperandRecord& o = reader.operand;
  std::string advances = fmt::format("{}", fmt::join(o.along_k, " "));
  if (o.along_mn.size() > 1) advances += fmt::format(" along k and {} along m", fmt::join(o.along_mn, " "));
  return fmt::format("mma: {} from {}, {}-major: {} of {}x{}, descriptor {:#018x}, advances {} B", name,
                     view_text(o.view, tile), o.mn_major ? "MN" : "K", o.along_mn.size() * o.along_k.size(),
                     reader.block_mn, reader.depth(), o.descriptor, advances);
}

Tried try_fragment(const FragmentRecord& f, const TileRecord& tile, const std::vector<Image>& images) {
  Tried tried;
  tried.bank_ways = 1;
  for (Element corner : corners(f.view, tile))
    for (int stage = 0; stage < tile.stages; ++stage)
      for (int step = 0; step < static_cast<int>(f.along_k.size()); ++step)
        for (int thread = 0; thread < 128; ++thread) {
          const RowAddress row_address{f, tile, corner, stage, step, thread / 32};
          if (!add(tried, try_registers(row_address, thread, images[static_cast<size_t>(stage)])))
            return tried;
          if (thread % 32 == 0) tried.bank_ways = std::max(tried.bank_ways, row_address.bank_ways());
        }
  return tried;
}

std::string text_of(const FragmentRecord& f, const TileRecord& tile) {
  return fmt::format("load_fragment: A from {}, {}-major: {} ldmatrix of 64x{}, advances {} B",
                     view_text(f.view, tile), f.trans ? "MN" : "K", f.along_k.size(),
                     32 / size_of(tile.dtype), fmt::join(f.along_k, " "));
}

}  // namespace ptxbuilder::detail
