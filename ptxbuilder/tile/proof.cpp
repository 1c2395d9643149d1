#include "ptxbuilder/tile/proof.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ptxbuilder/tile/proof_image.h"

namespace ptxbuilder {
namespace {

using namespace detail;

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

// Element i of a box, the first dimension innermost, in the view.
Element element_of(const CopyRecord& copy, const CopyRecord::Slice& slice, const CopyRecord::Box& box,
                   uint32_t i) {
  Element e{slice.coordinate + box.rows, box.cols};
  for (size_t d = 0; d < copy.steps.size(); ++d) {
    const uint32_t extent = copy.recipe.box[d];
    e.row += static_cast<int>(i % extent) * copy.steps[d].rows;
    e.col += static_cast<int>(i % extent) * copy.steps[d].cols;
    i /= extent;
  }
  return e;
}

char axis_name(const CopyRecord& copy) { return "xyz"[copy.axis]; }

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

class Prover {
 public:
  explicit Prover(const KernelRecord& record) : record_(record) {}

  Proof run() {
    for (size_t i = 0; i < record_.tiles.size() && proof_; ++i) prove_tile(static_cast<int>(i));
    for (const WarpMmaRecord& mma : record_.warp_mmas)
      if (proof_) prove_warp_mma(mma);
    for (const StoreRecord& store : record_.stores)
      if (proof_) prove_store(store);
    return std::move(proof_);
  }

 private:
  using Images = std::vector<Image>;

  // What writes a tile first, of which each stage's image results, then what reads it.
  void prove_tile(int number) {
    const TileRecord& tile = record_.tiles[static_cast<size_t>(number)];
    Images images(static_cast<size_t>(tile.stages), Image(tile));
    bool written = false;
    auto copies = [&](bool stores) {
      for (const CopyRecord& copy : record_.copies)
        if (copy.view.tile == number && copy.is_store == stores && proof_) {
          Images apart(static_cast<size_t>(tile.stages), Image(tile));  // where nothing is known to lie
          prove_copy(copy, tile, stores && !written ? apart : images, stores && written);
          written |= !stores;
        }
    };
    auto thread_copies = [&](bool reads) {
      for (const ThreadCopyRecord& copy : record_.thread_copies) {
        if (copy.view.tile != number || reads != (copy.kind == ThreadCopyRecord::Kind::to_registers) ||
            !proof_)
          continue;
        if (reads && !written)
          skip(copy.text, tile);
        else
          prove_thread_copy(copy, tile, images);
        written |= !reads;
      }
    };
    copies(false);
    thread_copies(false);
    prove_readers(number, tile, images, written);
    thread_copies(true);
    copies(true);
  }

  void skip(const std::string& what, const TileRecord& tile) {
    const std::string text = fmt::format("{} from a {}: no copy fills it", what, tile.text);
    if (std::find(proof_.unproved.begin(), proof_.unproved.end(), text) == proof_.unproved.end())
      proof_.unproved.push_back(text);
  }

  // Matrix instructions, and loads of their fragments.
  void prove_readers(int number, const TileRecord& tile, const Images& images, bool written) {
    std::vector<Reader> readers;
    for (const MmaRecord& mma : record_.mmas) {
      if (mma.a && mma.a->view.tile == number)
        readers.push_back({*mma.a, tile, 'A', mma.m, mma.k, kBlock, mma.where});
      if (mma.b.view.tile == number) readers.push_back({mma.b, tile, 'B', mma.n, mma.k, mma.n, mma.where});
    }
    for (const Reader& reader : readers) {
      if (!proof_) return;
      if (written)
        prove_reader(reader, images);
      else
        skip(fmt::format("mma: {}", reader.name), tile);
    }
    for (const FragmentRecord& fragment : record_.fragments) {
      if (fragment.view.tile != number || !proof_) continue;
      if (written)
        prove_fragment(fragment, tile, images);
      else
        skip("load_fragment", tile);
    }
  }

  void prove_thread_copy(const ThreadCopyRecord& copy, const TileRecord& tile, Images& images) {
    uint64_t elements = 0;
    int ways = 0;
    for (Element corner : corners(copy.view, tile))
      for (int stage = 0; stage < tile.stages && proof_; ++stage) {
        Tried tried = try_thread_copy(copy, tile, corner, stage, images[static_cast<size_t>(stage)]);
        if (tried.counterexample) fail(std::move(*tried.counterexample));
        elements += tried.elements;
        ways = std::max(ways, tried.bank_ways);
      }
    if (!proof_) return;
    add({fmt::format("{}, {}{}", copy.text, view_text(copy.view, tile), conflicts_text(ways)), elements,
         copy.where, ways});
  }

  void prove_warp_mma(const WarpMmaRecord& mma) {
    for (const auto* words : {&mma.a, &mma.b})
      for (const WarpMmaRecord::Word& word : *words)
        if (word.copy < 0) {
          const std::string text = "mma.sync: registers that no copy has loaded";
          if (std::find(proof_.unproved.begin(), proof_.unproved.end(), text) == proof_.unproved.end())
            proof_.unproved.push_back(text);
          return;
        }
    Tried tried = try_warp_mma(record_, mma);
    if (tried.counterexample) fail(std::move(*tried.counterexample));
    add({fmt::format("mma.sync of {} x {} {}, each warp's A and B of one k", mma.m, mma.n, name(mma.a_type)),
         tried.elements, mma.where});
  }

  void prove_store(const StoreRecord& store) {
    Tried tried = try_store(record_, store);
    if (tried.counterexample) fail(std::move(*tried.counterexample));
    const TileRecord& tile = record_.tiles[static_cast<size_t>(store.tile)];
    add({fmt::format("store: accumulators{} -> {} -> {}: boxes of {}", store.transposed ? ", transposed" : "",
                     tile.text, store.map, fmt::join(store.recipe.box, "x")),
         tried.elements, store.where});
  }

  static std::string conflicts_text(int ways) {
    if (ways == 0) return "";
    return ways == 1 ? ", no bank conflicts" : fmt::format(", {}-way bank conflicts", ways);
  }

  void prove_copy(const CopyRecord& copy, const TileRecord& tile, Images& images, bool reads) {
    uint64_t elements = 0;
    const int ctas = copy.cluster[0] * copy.cluster[1] * copy.cluster[2];
    for (int receiver = 0; receiver < ctas && proof_; ++receiver) {
      std::vector<int> slices = slices_for(copy, receiver);
      for (Element corner : corners(copy.view, tile))
        for (int stage = 0; stage < tile.stages && proof_; ++stage)
          elements +=
              prove_boxes(copy, tile, corner, slices, stage, images[static_cast<size_t>(stage)], reads);
    }
    if (!proof_) return;
    std::string shared = copy.masks.empty()
                             ? ""
                             : fmt::format(", in {} slices for {} CTAs along {}", copy.slices.size(),
                                           copy.slices.size(), axis_name(copy));
    std::string boxes = fmt::format(
        "{} of {}{}", copy.boxes.size() == 1 ? "1 box" : fmt::format("{} boxes", copy.boxes.size()),
        fmt::join(copy.recipe.box, "x"), shared);
    const std::string view = view_text(copy.view, tile);
    add({copy.is_store ? fmt::format("tma_store: {} -> {}: {}", view, copy.map, boxes)
                       : fmt::format("tma_load: {} -> {}: {}", copy.map, view, boxes),
         elements, copy.where});
  }

  // The slices that arrive at a CTA of the cluster.
  std::vector<int> slices_for(const CopyRecord& copy, int receiver) {
    if (copy.masks.empty()) return receiver == 0 ? std::vector<int>{0} : std::vector<int>{};
    std::vector<int> slices;
    int step = 1;  // from a rank to the next in line
    for (int i = 0; i < copy.axis; ++i) step *= copy.cluster[static_cast<size_t>(i)];
    const int in_line = copy.cluster[static_cast<size_t>(copy.axis)];
    auto place = [&](int rank) { return rank / step % in_line; };
    for (int sender = 0; sender < static_cast<int>(copy.masks.size()); ++sender) {
      if (!(copy.masks[static_cast<size_t>(sender)] >> receiver & 1)) continue;
      if (sender - place(sender) * step != receiver - place(receiver) * step)
        return fail({.operation = fmt::format("tma_load of '{}'", copy.map),
                     .reason = fmt::format(
                         "the CTA of rank {} sends to the one of rank {}, which is not beside it along {}",
                         sender, receiver, axis_name(copy)),
                     .where = copy.where}),
               slices;
      slices.push_back(place(sender));
    }
    return slices;
  }

  // One copy to one stage of one CTA: every element of the view once, and nothing else.
  uint64_t prove_boxes(const CopyRecord& copy, const TileRecord& tile, Element corner,
                       const std::vector<int>& slices, int stage, Image& image, bool reads) {
    if (slices.empty() && copy.masks.empty()) return 0;
    std::vector<bool> seen(static_cast<size_t>(copy.view.rows) * static_cast<size_t>(copy.view.cols));
    const std::string operation =
        fmt::format("{} of '{}'", copy.is_store ? "tma_store" : "tma_load", copy.map);
    const int64_t stage_start = int64_t{tile.offset} + int64_t{stage} * tile.stage_bytes;
    for (int s : slices) {
      const CopyRecord::Slice& slice = copy.slices[static_cast<size_t>(s)];
      for (int b = slice.first_box; b < slice.first_box + slice.boxes; ++b) {
        const CopyRecord::Box& box = copy.boxes.at(static_cast<size_t>(b));
        const int64_t start = start_of(tile, stage, {corner.row + slice.first_row, corner.col}) + box.bytes;
        if (start % 128 != 0)
          return fail({.operation = operation,
                       .address = start - stage_start,
                       .puts = !copy.is_store,
                       .reason = "a box starts there, no multiple of 128 B",
                       .where = copy.where});
        uint32_t count = 1;
        for (uint32_t extent : copy.recipe.box) count *= extent;
        for (uint32_t i = 0; i < count; ++i) {
          const auto [row, col] = element_of(copy, slice, box, i);
          const int64_t at = where_tma_puts(copy.recipe, static_cast<uint32_t>(start), i) - stage_start;
          const Element element{corner.row + row, corner.col + col};
          std::optional<Element> there = image.at(at);
          auto refuse = [&](const std::string& reason) {
            return fail({.operation = operation,
                         .wanted = element,
                         .found = there,
                         .address = at,
                         .puts = !copy.is_store,
                         .reason = reason,
                         .where = copy.where});
          };
          if (row >= copy.view.rows || col >= copy.view.cols)
            return refuse(fmt::format("the box brings it, but the view has {} x {} elements", copy.view.rows,
                                      copy.view.cols));
          if (!image.holds(at)) return refuse(fmt::format("a stage has {} B", tile.stage_bytes));
          auto mark =
              seen[static_cast<size_t>(row) * static_cast<size_t>(copy.view.cols) + static_cast<size_t>(col)];
          if (mark) return refuse("it is brought twice");
          mark = true;
          if (reads && !(there == element))
            return refuse(there ? "TMA stores another element" : "TMA stores what nothing has written");
          if (there && !(*there == element)) return refuse("two elements at one address");
          image.put(at, element);
        }
      }
    }
    for (size_t i = 0; i < seen.size(); ++i)
      if (!seen[i])
        return fail({.operation = operation,
                     .wanted = Element{corner.row + static_cast<int>(i) / copy.view.cols,
                                       corner.col + static_cast<int>(i) % copy.view.cols},
                     .reason = "no box brings it",
                     .where = copy.where});
    return seen.size();
  }

  void prove_reader(const Reader& reader, const std::vector<Image>& images) {
    const OperandRecord& o = reader.operand;
    const int blocks = static_cast<int>(o.along_mn.size()), steps = static_cast<int>(o.along_k.size());
    if (blocks * reader.block_mn != reader.mn || steps * reader.depth() != reader.k) {
      fail({.operation = fmt::format("mma: {}", reader.name),
            .reason = fmt::format("{} instructions of {} x {} and {} steps do not cover {} x {}", blocks,
                                  reader.block_mn, reader.depth(), steps, reader.mn, reader.k),
            .where = reader.where});
      return;
    }
    uint64_t elements = 0;
    for (Element corner : corners(o.view, reader.tile))
      for (int stage = 0; stage < reader.tile.stages; ++stage)
        for (int block = 0; block < blocks; ++block)
          for (int step = 0; step < steps && proof_; ++step)
            elements +=
                prove_instruction(reader, corner, stage, block, step, images[static_cast<size_t>(stage)]);
    if (!proof_) return;
    add({fmt::format("mma: {} from {}, {}-major: {} of {}x{}, descriptor {:#018x}, advances {}", reader.name,
                     view_text(o.view, reader.tile), o.mn_major ? "MN" : "K", blocks * steps, reader.block_mn,
                     reader.depth(), o.descriptor, advances_text(o)),
         elements, reader.where});
  }

  static std::string advances_text(const OperandRecord& o) {
    std::string text = fmt::format("{}", fmt::join(o.along_k, " "));
    if (o.along_mn.size() > 1) text += fmt::format(" along k and {} along m", fmt::join(o.along_mn, " "));
    return text + " B";
  }

  uint64_t prove_instruction(const Reader& reader, Element corner, int stage, int block, int step,
                             const Image& image) {
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
        const Element wanted = o.transposed ? Element{corner.row + k, corner.col + mn}
                                            : Element{corner.row + mn, corner.col + k};
        const int64_t at = int64_t{where_wgmma_reads(bits, o.mn_major, size, i, j)} - stage_start;
        std::optional<Element> found = image.at(at);
        if (found && *found == wanted) continue;
        return fail({.operation = reader.operation(block, step, i, j),
                     .wanted = wanted,
                     .found = found,
                     .wanted_at = image.place_of(wanted),
                     .address = at,
                     .reason = found ? "wgmma reads another element"
                               : image.holds(at)
                                   ? "wgmma reads what no copy has written"
                                   : fmt::format("wgmma reads beside the stage of {} B", tile.stage_bytes),
                     .where = reader.where});
      }
    return static_cast<uint64_t>(reader.block_mn) * static_cast<uint64_t>(reader.depth());
  }

  void prove_fragment(const FragmentRecord& f, const TileRecord& tile, const std::vector<Image>& images) {
    uint64_t elements = 0;
    int ways = 1;
    for (Element corner : corners(f.view, tile))
      for (int stage = 0; stage < tile.stages; ++stage)
        for (int step = 0; step < static_cast<int>(f.along_k.size()); ++step)
          for (int thread = 0; thread < 128 && proof_; ++thread) {
            const RowAddress row_address{f, tile, corner, stage, step, thread / 32};
            elements += prove_registers(row_address, thread, images[static_cast<size_t>(stage)]);
            if (thread % 32 == 0) ways = std::max(ways, row_address.bank_ways());
          }
    if (!proof_) return;
    add({fmt::format(
             "load_fragment: A from {}, {}-major: {} ldmatrix of 64x{}, advances {} B, {}",
             view_text(f.view, tile), f.trans ? "MN" : "K", f.along_k.size(), 32 / size_of(tile.dtype),
             fmt::join(f.along_k, " "),
             ways == 1 ? std::string("no bank conflicts") : fmt::format("{}-way bank conflicts", ways)),
         elements, f.where, ways});
  }

  // The four registers of one thread. ldmatrix (PTX ISA): lane l names row l % 8 of matrix l / 8, and gets of
  // each matrix 4 bytes of row lane / 4, or with .trans of column lane / 4. wgmma (PTX ISA, "Register
  // Fragments"): register 2 c + h holds 4 bytes of row 16 warp + lane / 4 + 8 h from byte 16 c + 4 (lane % 4)
  // of the step on.
  uint64_t prove_registers(const RowAddress& row_address, int thread, const Image& image) {
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
        return fail(
            {.operation = fmt::format("load_fragment: step {}, thread {}, register {}", row_address.step,
                                      thread, matrix),
             .wanted = wanted,
             .found = found,
             .wanted_at = image.place_of(wanted),
             .address = at,
             .reason = found ? "ldmatrix reads another element" : "ldmatrix reads beside the elements",
             .where = f.where});
      }
    return static_cast<uint64_t>(16 / size);
  }

  // Calls on different lines, or in an unrolled loop, are one thing to know.
  void add(Proof::Link link) {
    for (Proof::Link& known : proof_.links)
      if (known.text == link.text) {
        known.elements += link.elements;
        return;
      }
    proof_.links.push_back(std::move(link));
  }

  uint64_t fail(Counterexample wrong) {
    if (!proof_.counterexample) proof_.counterexample = std::move(wrong);
    return 0;
  }

  const KernelRecord& record_;
  Proof proof_;
};

std::string element_text(Element e) { return fmt::format("({}, {})", e.row, e.col); }

}  // namespace

std::string Counterexample::text() const {
  std::string text = operation;
  if (wanted) {
    text += fmt::format(": element {}", element_text(*wanted));
    if (wanted_at) text += fmt::format(", which lies at byte {}", *wanted_at);
  }
  if (address) text += fmt::format(": {} at byte {}", puts ? "put" : "looked for", *address);
  if (found) text += fmt::format(", where {} lies", element_text(*found));
  text += ": " + reason;
  if (where) text += fmt::format(" ({})", to_string(where));
  return text;
}

uint64_t Proof::elements() const {
  uint64_t sum = 0;
  for (const Link& link : links) sum += link.elements;
  return sum;
}

Proof prove(const KernelRecord& record) { return Prover(record).run(); }

}  // namespace ptxbuilder
