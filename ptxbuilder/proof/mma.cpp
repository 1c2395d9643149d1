// Proves that tensor cores read the right elements: operands of wgmma through a descriptor, A in registers,
// and the metadata of a sparse A.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ptxbuilder/proof/image.h"

namespace ptxbuilder::detail {
namespace {

constexpr int kBlock = 64;  // rows of A that one wgmma reads from registers

// Returns the address at which wgmma and tcgen05 read an element in the matrix of one instruction: number
// `mn` along m or n, and number `k` along k. These instructions read core matrices of 8 rows of 16 bytes (PTX
// ISA, "Matrix Descriptor Format", "Strides").
uint32_t where_wgmma_reads(uint64_t descriptor, bool mn_major, int size, int mn, int k) {
  auto field = [&](int from) { return static_cast<uint32_t>(descriptor >> from & 0x3fff) * 16; };
  const uint32_t start = field(0), leading = field(16), stride = field(32),
                 base = static_cast<uint32_t>(descriptor >> 49 & 7);
  constexpr std::array<uint32_t, 4> spans = {16, 128, 64, 32};
  const uint32_t span = spans[descriptor >> 62];
  // `along` is the offset along the contiguous dimension, in bytes, and `across` is the index along the other
  // dimension.
  const auto along = static_cast<uint32_t>(mn_major ? mn : k) * static_cast<uint32_t>(size),
             across = static_cast<uint32_t>(mn_major ? k : mn);
  uint32_t byte = start + across % 8 * span + along % span;
  if (span == 16 && mn_major)
    byte += along / span * stride + across / 8 * leading;
  else if (span == 16 || mn_major)
    byte += along / span * leading + across / 8 * stride;
  else  // an instruction reads only within one span
    byte += along / span * span + across / 8 * stride;
  // The swizzle pattern begins `base` lines of 128 bytes after a multiple of 1024 bytes.
  const uint32_t line = byte / 128 + 8 - base;
  return (byte / 16 ^ line % (span / 16)) * 16 + byte % 16;
}

// An operand of a product. A consists of blocks of rows, one for each instruction, and B is a single block
// with all columns.
struct Reader {
  const OperandRecord& operand;
  const TileRecord& tile;
  char name;     // 'A' or 'B'
  int mn, k;     // extents of the product
  int block_mn;  // extent of a block along m or n
  int depth_bytes;
  Where where;

  int depth() const { return depth_bytes / size_of(tile.dtype); }
  std::string operation(int block, int step, int i, int j) const {
    std::string at = name == 'A' ? fmt::format("block {}, step {}: m {}", block, step, block * block_mn + i)
                                 : fmt::format("step {}: n {}", step, block * block_mn + i);
    return fmt::format("mma: {}, {}, k {}", name, at, step * depth() + j);
  }
};

Reader reader_of(const MmaRecord& mma, char name, const TileRecord& tile) {
  return name == 'A'
             ? Reader{*mma.a, tile, name, mma.m, mma.a_k(), mma.block, 32, mma.where}
             : Reader{mma.b, tile, name, mma.n, mma.k, mma.columns, mma.is_sparse() ? 64 : 32, mma.where};
}

Tried try_instruction(const Reader& reader, Element corner, int stage, int block, int step,
                      const Image& image) {
  Tried tried;
  const OperandRecord& o = reader.operand;
  const TileRecord& tile = reader.tile;
  const int size = size_of(tile.dtype);
  const int64_t stage_start = start_of(tile, stage, {}), view = start_of(tile, stage, corner);
  // Repeats the kernel's own computation, which inserts the view's start into the address bits and adds the
  // advance.
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
          .reason = found ? "wgmma reads another element"
                    : image.holds(at)
                        ? "wgmma reads an element that no copy has written"
                        : fmt::format("wgmma reads outside of the stage of {} B", tile.stage_bytes),
          .where = reader.where};
      return tried;
    }
  tried.elements = static_cast<uint64_t>(reader.block_mn) * static_cast<uint64_t>(reader.depth());
  return tried;
}

// Adds the result of a part to `all`. Returns whether the part is proved.
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
  if (o.along_mn.size() > 1)
    advances += fmt::format(" along k and {} along {}", fmt::join(o.along_mn, " "), name == 'A' ? 'm' : 'n');
  return fmt::format("mma: {} from {}, {}-major: {} of {}x{}, descriptor {:#018x}, advances {} B", name,
                     view_text(o.view, tile), o.mn_major ? "MN" : "K", o.along_mn.size() * o.along_k.size(),
                     reader.block_mn, reader.depth(), o.descriptor, advances);
}

namespace {

// Returns the element of A in value `e` of register `number` of a thread. Registers are numbered over all
// blocks and steps (PTX ISA, wgmma, "Register Fragments"). Register 2 * c + h of a step holds 4 bytes of row
// 16 * warp + lane / 4 + 8 * h of a block, beginning at byte 16 * c + 4 * (lane % 4) of the step.
Element read_from_register(const MmaRecord& mma, int number, int thread, int e) {
  const int size = size_of(mma.a_type), steps = mma.k * size / 32;
  const int r = number % 4, step = number / 4 % steps, block = number / 4 / steps;
  const int lane = thread % 32, warp = thread / 32;
  return {kBlock * block + 16 * warp + lane / 4 + 8 * (r % 2),
          (32 * step + r / 2 * 16 + lane % 4 * 4) / size + e};
}

Tried another_element(const MmaRecord& mma, int number, int thread, Element wanted, Element found) {
  const int steps = mma.k * size_of(mma.a_type) / 32;
  Tried tried;
  tried.counterexample = {
      .operation = fmt::format("mma: A in registers: block {}, step {}, thread {}, register {}",
                               number / 4 / steps, number / 4 % steps, thread, number % 4),
      .wanted = wanted,
      .found = found,
      .reason = "the register holds another element",
      .where = mma.where};
  return tried;
}

}  // namespace

Tried try_computed_a(const MmaRecord& mma) {
  Tried tried;
  const int held = 4 / size_of(mma.a_type);  // number of values in a register
  for (int number = 0; number < static_cast<int>(mma.a_words.size()); ++number)
    for (int thread = 0; thread < RegisterLayout::kThreads; ++thread)
      for (int e = 0; e < held; ++e) {
        const Element wanted = read_from_register(mma, number, thread, e);
        const Element found{mma.a_layout->row(thread, number * held + e),
                            mma.a_layout->col(thread, number * held + e)};
        if (!(wanted == found)) return another_element(mma, number, thread, wanted, found);
        ++tried.elements;
      }
  return tried;
}

Tried try_registers_of_a(const KernelRecord& kernel, const MmaRecord& mma) {
  Tried tried;
  const int size = size_of(mma.a_type);
  std::optional<Element> corner;  // first element of the view to which all registers must belong
  for (size_t i = 0; i < mma.a_words.size(); ++i) {
    const LoadedWord& word = mma.a_words[i];
    const ThreadCopyRecord& copy = kernel.thread_copies[static_cast<size_t>(word.copy)];
    for (int thread = 0; thread < 128; ++thread)
      for (int e = 0; e < 4 / size; ++e) {
        const Element within = read_from_register(mma, static_cast<int>(i), thread, e);
        const Element held = copy.held(thread, word.word * (4 / size) + e);
        const Element of_a = copy.transposed ? Element{held.col, held.row} : held;
        const Element first{of_a.row - within.row, of_a.col - within.col};
        if (!corner) corner = first;
        if (*corner == first) {
          ++tried.elements;
          continue;
        }
        return another_element(mma, static_cast<int>(i), thread,
                               {corner->row + within.row, corner->col + within.col}, of_a);
      }
  }
  return tried;
}

namespace {

// The position of a group's metadata, given by a word of a block and a half byte of the word. The metadata
// selects the group's stored elements.
struct GroupPlace {
  int word, half_byte;
  bool operator==(const GroupPlace&) const = default;
};

// Returns the position of the metadata that an instruction with this selector reads for a row, 0 to 63, and a
// group (PTX ISA, wgmma.mma_async.sp, "Sparse matrix storage"). In the result, `word` is the number of the
// thread that holds the metadata. For 16-bit types, there are 8 groups. Two of every four threads hold them,
// each for a row and for the row 8 further down. For 8-bit types, there are 16 groups, and each of four
// threads holds 8 groups of one of these rows.
GroupPlace looked_at(int size, int row, int group, int selector) {
  const int quad = 32 * (row / 16) + 4 * (row % 8), lower = row % 16 / 8;
  return size == 2 ? GroupPlace{quad + 2 * selector + group / 4, 4 * lower + group % 4}
                   : GroupPlace{quad + 2 * (group / 8) + lower, group % 8};
}

// Returns the position at which compress_2_4() stores the metadata of a group in a block. `group` is 0 to 15,
// along 64 elements of k.
GroupPlace arranged(int size, int row, int group) {
  const int quad = 32 * (row / 16) + 4 * (row % 8), lower = row % 16 / 8;
  return size == 2 ? GroupPlace{quad + group / 4, 4 * lower + group % 4}
                   : GroupPlace{quad + 2 * (group / 8) + lower, group % 8};
}

}  // namespace

Tried try_metadata(const KernelRecord& kernel, const MmaRecord& mma) {
  constexpr int kGroup = 4, kBlockGroups = 16, kBlockWords = 128;
  Tried tried;
  const int size = size_of(mma.a_type), steps = static_cast<int>(mma.b.along_k.size());
  const int groups = mma.k / kGroup, of_step = groups / steps;
  std::optional<Element> corner;  // first element of the view to which all words must belong
  for (int row = 0; row < mma.m; ++row)
    for (int group = 0; group < groups; ++group) {
      const int block = row / kBlock, step = group / of_step;
      const MetadataRecord& record = mma.metadata.at(static_cast<size_t>(block * steps + step));
      const GroupPlace read = looked_at(size, row % kBlock, group % of_step, record.selector),
                       right = arranged(size, row % kBlock, group % kBlockGroups);
      const Element wanted{group / kBlockGroups, block * kBlockWords + right.word};
      const Element held =
          kernel.thread_copies[static_cast<size_t>(record.word.copy)].held(read.word, record.word.word);
      const Element first{held.row - wanted.row, held.col - wanted.col};
      if (!corner) corner = Element{first.row, first.col / kBlockWords * kBlockWords};  // start of the block
      if (*corner == first && read.half_byte == right.half_byte) {
        ++tried.elements;
        continue;
      }
      tried.counterexample = {
          .operation = fmt::format("mma: metadata, block {}, step {}, selector {}: m {}, k {}", block, step,
                                   record.selector, row, group * kGroup),
          .wanted = Element{corner->row + wanted.row, corner->col + wanted.col},
          .found = held,
          .reason = fmt::format("thread {} has another word", read.word),
          .where = mma.where};
      return tried;
    }
  return tried;
}

}  // namespace ptxbuilder::detail
