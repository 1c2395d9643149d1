#include "ptxbuilder/product/mma.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/article.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/isa/manual.h"
#include "ptxbuilder/plan/sparse_matrix.h"
#include "ptxbuilder/registers/place.h"
#include "ptxbuilder/tile/cooperative_copy.h"

namespace ptxbuilder {
namespace {

using detail::operand_of;
using detail::TileContext;

// Returns the record from which an operand's descriptors are computed. `part` is the part of the operand that
// one instruction reads.
OperandRecord record_of(const TileView& view, const WgmmaOperand& whole, const WgmmaOperand& part) {
  OperandRecord record;
  record.view = detail::record_view(TileContext::of(Builder::current()).record, view);
  record.transposed = view.is_transposed();
  record.mn_major = whole.major() == Major::mn;
  record.descriptor = part.descriptor().encode();
  record.along_mn = whole.advances_mn(part.mn());
  record.along_k = whole.advances_k();
  return record;
}

// Returns the descriptor of the operand's first instruction.
u64 descriptor(const TileView& view, const OperandRecord& record) {
  u64 address = u64((u32(view.address()) >> 4) & 0x3fff);
  return address | record.descriptor;
}

bool multiply_together(DType a, DType b) {
  auto both = [&](DType x, DType y) { return (a == x && b == y) || (a == y && b == x); };
  return a == b || both(DType::e4m3, DType::e5m2) || both(DType::s8, DType::u8);
}

// The metadata of A in registers: one word for each block of 64 rows and every 64 elements along k.
struct Metadata {
  std::vector<Value> words;
  std::vector<LoadedWord> loads;
  int blocks, steps_of_word;  // number of row blocks, and of instructions along k that share a word

  size_t at(int block, int step) const { return static_cast<size_t>(step / steps_of_word * blocks + block); }
  int selector(int step) const { return step % steps_of_word; }
};

// Loads this thread's words for m rows and k elements along k. A word of 0 comes from outside the tensor.
// Such a word is replaced, because it would select the same element twice, which is undefined.
Metadata load_metadata(const TileView& view, DType type, int m, int k) {
  const SharedTile& tile = view.tile();
  const int blocks = m / kSparseBlock, lines = k / kSparseBlock;
  if (tile.dtype() != DType::s32 || tile.swizzle() != Swizzle::none ||
      tile.panel_cols() != kSparseBlockWords || view.is_transposed() || view.row_count() != lines ||
      tile.cols() != blocks * kSparseBlockWords)
    throw Error(
        fmt::format("mma: the metadata of A is {} rows of {} in panels of {}, but for {} x {} elements it "
                    "must be {} rows of an s32 {}x{} tile, no swizzle, in panels of {}",
                    view.row_count(), with_article(tile.describe()), tile.panel_cols(), m, k, lines, lines,
                    blocks * kSparseBlockWords, kSparseBlockWords));
  const Layout thread_value =
      make_layout({kSparseBlockWords, {blocks, lines}}, {lines, {kSparseBlockWords * lines, 1}});
  const TiledCopy copy(CopyAtom::vector(4), tile.dtype(), thread_value, view.layout());
  Metadata metadata = {{}, {}, blocks, size_of(type)};
  const auto& loaded = TileContext::of(Builder::current()).loaded_words;
  for (u32 word : load(copy, view, detail::thread_in_warpgroup())) {
    const auto known = loaded.find(word.handle());
    metadata.loads.push_back(known == loaded.end() ? LoadedWord{} : known->second);
    metadata.words.push_back(select(word == 0, u32(kFirstTwoOfEach), word));
  }
  return metadata;
}

// Returns the instruction row of wgmma.mma_async.sp for these types and n columns.
const isa::Row& sparse_row(DType d, DType a, DType b, int n, bool saturate) {
  return isa::instruction(fmt::format("wgmma.mma_async.sp.sync.aligned.m64n{}k{}{}.{}.{}.{}", n,
                                      64 / size_of(a), saturate ? ".satfinite" : "", name(d), name(a),
                                      name(b)));
}

}  // namespace

namespace detail {

// A call to mma() with A in shared memory or in registers.
class WgmmaCall {
 public:
  WgmmaCall(Accumulator& d, DType a_type, const std::string& a_text, const TileView& b,
            const MmaOptions& options, bool is_sparse = false)
      : builder_(Builder::current()),
        d_(d),
        a_type_(a_type),
        b_view_(b),
        b_(is_sparse ? operand_of(b, "mma: B").for_sparse() : operand_of(b, "mma: B")),
        options_(options) {
    if (!multiply_together(a_type, b_.dtype()))
      throw Error(fmt::format(
          "mma: A is {} and B is {}, but their types must be equal, or e4m3 and e5m2, or s8 and u8", a_text,
          with_article(b.tile().describe())));
    if (d.dtype() == DType::s32 && (options.negate_a || options.negate_b))
      throw Error("mma: negate_a and negate_b are only for floating-point types, but D is s32");
  }

  void check_shapes(int a_rows, int a_depth) const {
    if (a_rows != d_.m() || b_.mn() != d_.n() || a_depth != b_.k())
      throw Error(fmt::format("mma: the shapes do not match in D {}x{} += A {}x{} B {}x{}", d_.m(), d_.n(),
                              a_rows, a_depth, b_.k(), b_.mn()));
  }

  // Emits the instructions. `a(block, step)` returns an instruction's operand A. If A is in registers,
  // `a_record` is empty, and `a_words` are the registers, in `a_layout`. `metadata` is the metadata of a
  // sparse A.
  void emit(const std::optional<OperandRecord>& a_record, const std::vector<LoadedWord>& a_words,
            const std::optional<RegisterLayout>& a_layout, const std::function<Argument(int, int)>& a,
            const std::optional<Metadata>& metadata = std::nullopt) {
    check_whole_warpgroups("mma");
    const bool a_in_registers = !a_record;
    const int width = d_.wgmma_columns();
    MmaRecord record = {a_type_, d_.m(),  d_.n(), b_.k(), a_record, record_of(b_view_, b_, b_.part(width)),
                        a_words, a_layout};
    record.columns = width;
    const isa::Row& row = metadata ? sparse_row(d_.dtype(), a_type_, b_.dtype(), width, options_.saturate)
                                   : isa::wgmma_mma_async({d_.dtype(), a_type_, b_.dtype(), width,
                                                           a_in_registers, options_.saturate});
    u64 b_start = descriptor(b_view_, record.b);
    pred accumulate = d_.accumulate_;
    for (int block = 0; block < d_.m() / hopper::wgmma_rows; ++block)
      for (int step = 0; step < static_cast<int>(record.b.along_k.size()); ++step) {
        if (metadata)
          record.metadata.push_back({metadata->loads[metadata->at(block, step)], metadata->selector(step)});
        for (int column = 0; column < d_.n() / width; ++column) {
          std::vector<Argument> arguments = {d_.block_registers(block, column * width, width), a(block, step),
                                             b_start + (record.b.start(column, step) >> 4)};
          if (metadata) {
            arguments.emplace_back(metadata->words[metadata->at(block, step)]);
            arguments.emplace_back(int64_t{metadata->selector(step)});
          }
          arguments.emplace_back(step == 0 ? accumulate : pred(true));
          if (d_.dtype() != DType::s32) {
            arguments.emplace_back(int64_t{options_.negate_a ? -1 : 1});
            arguments.emplace_back(int64_t{options_.negate_b ? -1 : 1});
          }
          if (size_of(a_type_) == 2) {
            if (!a_in_registers) arguments.emplace_back(int64_t{a_record->mn_major});
            arguments.emplace_back(int64_t{record.b.mn_major});
          }
          builder_.emit(row, arguments, std::nullopt);
        }
      }
    d_.accumulate_ = pred(true);
    TileContext::of(builder_).products.product(d_.state_);
    TileContext::of(builder_).record.mmas.push_back(std::move(record));
  }

 private:
  Builder& builder_;
  Accumulator& d_;
  DType a_type_;
  const TileView& b_view_;
  WgmmaOperand b_;
  MmaOptions options_;
};

WgmmaOperand operand_of(const TileView& view, std::string_view what) {
  const SharedTile& tile = view.tile();
  bool transposed = view.is_transposed();
  int mn = transposed ? tile.cols() : view.row_count(), k = transposed ? view.row_count() : tile.cols();
  Major major = transposed ? Major::mn : Major::k;
  std::string rule = WgmmaOperand::refusal(tile.dtype(), major, tile.swizzle(), mn, k);
  if (rule.empty() && tile.swizzle() == Swizzle::none && tile.panel_row_bytes() != 16)
    rule = fmt::format(
        "wgmma reads tiles with 32, 64 or 128 B swizzle, or tiles without swizzle in panels of 16 B: {{{}, "
        "{}, {}}}",
        tile.rows(), tile.cols(), 16 / size_of(tile.dtype()));
  if (!rule.empty())
    throw Error(fmt::format("{} is {}{}: {}", what, with_article(tile.describe()),
                            transposed ? ", transposed" : "", rule));
  return WgmmaOperand(tile.dtype(), major, tile.swizzle(), view.layout());
}

void mma_from_registers(Accumulator& d, const TileValues& a, const TileView& b, const MmaOptions& options) {
  ProductGroups& products = TileContext::of(Builder::current()).products;
  const RegisterLayout wanted = wgmma_a(*a.dtype, a.layout.rows(), a.layout.cols());
  if (!(a.layout == wanted))
    throw Error(
        fmt::format("mma: the layout of A is {}, but {} in registers needs {}; multiply layout_cast(a, "
                    "wgmma_a(DType::{}, {}, {}))",
                    a.layout.describe(), name(*a.dtype), wanted.describe(), name(*a.dtype), a.layout.rows(),
                    a.layout.cols()));
  WgmmaCall call(d, *a.dtype,
                 with_article(fmt::format("{} {}x{} tile in registers", name(*a.dtype), a.layout.rows(),
                                          a.layout.cols())),
                 b, options);
  call.check_shapes(a.layout.rows(), a.layout.cols());
  const auto& loaded = TileContext::of(Builder::current()).loaded_words;
  std::vector<Value> registers;
  std::vector<LoadedWord> loads;
  for (Value word : a.words) {
    registers.push_back(a.dtype == DType::tf32 ? Value(bit_cast<u32>(f32(word.handle()))) : word);
    const auto known = loaded.find(word.handle());
    loads.push_back(known == loaded.end() ? LoadedWord{} : known->second);
  }
  registers = products.ahead_of_fence(registers, "A in registers");
  products.fence();
  const size_t steps = static_cast<size_t>(a.layout.cols() / isa::wgmma_depth(*a.dtype));
  call.emit(std::nullopt, loads, a.layout, [&](int block, int step) {
    auto first = registers.begin() + 4 * static_cast<std::ptrdiff_t>(static_cast<size_t>(block) * steps +
                                                                     static_cast<size_t>(step));
    return std::vector<Value>(first, first + 4);
  });
  products.product_of_copies("A in registers");
}

}  // namespace detail

void mma(Accumulator& d, const TileView& a, const TileView& b, const MmaOptions& options, Where where) {
  AtLine line(where);
  TileContext::of(Builder::current()).products.fence();
  WgmmaOperand operand = operand_of(a, "mma: A");
  detail::WgmmaCall call(d, operand.dtype(), with_article(a.tile().describe()), b, options);
  call.check_shapes(operand.mn(), operand.k());
  OperandRecord record = record_of(a, operand, operand.part(hopper::wgmma_rows));
  u64 start = descriptor(a, record);
  call.emit(record, {}, std::nullopt,
            [&](int block, int step) { return start + (record.start(block, step) >> 4); });
}

void mma(Accumulator& d, const SparseTile& a, const TileView& b, const MmaOptions& options, Where where) {
  AtLine line(where);
  WgmmaOperand operand = operand_of(a.values, "mma: A");
  const DType type = operand.dtype();
  if (!can_be_sparse(type) || operand.major() == Major::mn)
    throw Error(fmt::format(
        "mma: the sparse A is {}{}, but must be stored along k, in f16, bf16, e4m3, e5m2, s8 or u8",
        with_article(a.values.tile().describe()), a.values.is_transposed() ? ", transposed" : ""));
  detail::WgmmaCall call(d, type, fmt::format("a sparse {}", a.values.tile().describe()), b, options, true);
  const int k = 2 * operand.k();
  call.check_shapes(operand.mn(), k);
  if (k % kSparseBlock != 0)
    throw Error(fmt::format(
        "mma: a sparse A has {} elements along k and stores half of them, but k must be a multiple of {}", k,
        kSparseBlock));
  // The tensor cores read the words while they multiply, as with A in registers, but ptxas reuses such a
  // register for another value as soon as the product is issued.
  detail::ProductGroups& products = TileContext::of(Builder::current()).products;
  Metadata metadata = load_metadata(a.metadata, type, operand.mn(), k);
  metadata.words = products.ahead_of_fence(metadata.words, "the metadata of a sparse A");
  products.fence();
  OperandRecord record = record_of(a.values, operand, operand.part(hopper::wgmma_rows));
  u64 start = descriptor(a.values, record);
  call.emit(
      record, {}, std::nullopt, [&](int block, int step) { return start + (record.start(block, step) >> 4); },
      metadata);
  products.product_of_copies("the metadata of a sparse A");
}

void MatrixProduct::add_to(Accumulator& d, const MmaOptions& options) const {
  AtLine line(a_.where_);
  if (const TileView* view = std::get_if<TileView>(&a_.a_))
    mma(d, *view, b_, options);
  else
    detail::mma_from_registers(d, std::get<detail::TileValues>(a_.a_), b_, options);
}

void wgmma_group(const std::function<void()>& body, Where where) {
  AtLine line(where);
  detail::ProductGroups& products = TileContext::of(Builder::current()).products;
  products.open();
  Builder::current().run_body("wgmma_group", line, body);
  products.fence();
  wgmma_commit_group();
  products.commit();
}

void wgmma_wait(int pending, Where where) {
  AtLine line(where);
  wgmma_wait_group(pending);
  TileContext::of(Builder::current()).products.wait(pending);
}

}  // namespace ptxbuilder
