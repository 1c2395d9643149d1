#include "ptxbuilder/tile/mma.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptxbuilder {
namespace {

using detail::operand_of;
using detail::TileContext;

constexpr int kRows = 64;  // of one wgmma

// What the descriptors of an operand are made from; `part` is what one instruction reads.
OperandRecord record_of(const TileView& view, const WgmmaOperand& whole, const WgmmaOperand& part,
                        Where where) {
  OperandRecord record;
  record.view = detail::record_view(TileContext::of(Builder::current(where)).record, view);
  record.transposed = view.is_transposed();
  record.mn_major = whole.major() == Major::mn;
  record.descriptor = part.descriptor().encode();
  record.along_mn = whole.advances_mn(part.mn(), where);
  record.along_k = whole.advances_k();
  return record;
}

// The descriptor of its first instruction.
u64 descriptor(const TileView& view, const OperandRecord& record) {
  u64 address = u64((u32(view.address()) >> 4) & 0x3fff);
  return address | record.descriptor;
}

Class register_class(DType dtype) {
  return dtype == DType::f32 ? Class::f32 : dtype == DType::s32 ? Class::s32 : Class::b32;
}

bool multiply_together(DType a, DType b) {
  auto both = [&](DType x, DType y) { return (a == x && b == y) || (a == y && b == x); };
  return a == b || both(DType::e4m3, DType::e5m2) || both(DType::s8, DType::u8);
}

}  // namespace

Accumulator::Accumulator(int m, int n, DType dtype, Where where)
    : m_(m), n_(n), dtype_(dtype), accumulate_(pred(false)), in_flight_(std::make_shared<bool>(false)) {
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::s32)
    throw Error(where, fmt::format("accumulator: {} is none of f32, f16, s32", name(dtype)));
  if (m < kRows || m % kRows != 0)
    throw Error(where, fmt::format("accumulator: m = {} must be a multiple of {}", m, kRows));
  if (!isa::wgmma_has_width(dtype, n))
    throw Error(where, fmt::format("accumulator: n = {} must be a multiple of 8 from 8 to 256{}", n,
                                   dtype == DType::s32 ? ", in s32 from 32 on of 16" : ""));
  Builder& builder = Builder::current(where);
  int count = m / kRows * (dtype == DType::f16 ? n / 4 : n / 2);
  registers_ = builder.declare_registers(register_class(dtype), count);
  TileContext::of(builder).in_flight.push_back(in_flight_);
}

Registers Accumulator::block_registers(int block) const {
  int count = registers_.count / (m_ / kRows);
  return registers_.slice(block * count, count);
}

Registers Accumulator::registers(int block, Where where) const {
  if (*in_flight_)
    throw Error(where, "accumulator: read while an mma may still write it; call wgmma_wait(0) first");
  if (block < 0 || block >= m_ / kRows)
    throw Error(where, fmt::format("accumulator: block {} of {}", block, m_ / kRows));
  return block_registers(block);
}

Value Accumulator::element(int block, int i, DType as, Where where) const {
  AtLine line(where);
  if (i < 0 || i >= elements())
    throw Error(where, fmt::format("accumulator: register {} of the {} of a block", i, elements()));
  if (as != dtype_)
    throw Error(where,
                fmt::format("accumulator: a value of {} from an accumulator of {}", name(as), name(dtype_)));
  Registers all = registers(block, where);
  auto read = [&](const isa::Row& row, int at) {
    std::vector<Argument> from = {all.slice(at, 1)};
    return Builder::current(where).emit(row, from, std::nullopt, where)[0];
  };
  if (dtype_ == DType::f32) return read(isa::rows_def::mov_f32, i);
  if (dtype_ == DType::s32) return read(isa::rows_def::mov_b32, i);
  u32 both(read(isa::rows_def::mov_b32, i / 2).handle());
  return bit_cast<f16>(u16(i % 2 ? both >> 16 : both), where);
}

void Accumulator::set(int block, int i, f32 value, Where where) {
  AtLine line(where);
  if (dtype_ != DType::f32)
    throw Error(where, fmt::format("accumulator: set() serves f32, and this one is {}", name(dtype_)));
  if (i < 0 || i >= elements())
    throw Error(where, fmt::format("accumulator: register {} of the {} of a block", i, elements()));
  std::vector<Argument> to = {registers(block, where).slice(i, 1), value};
  Builder::current(where).emit(isa::rows_def::mov_to_f32, to, std::nullopt, where);
}

void Accumulator::fill(f32 value, Where where) {
  AtLine line(where);
  for (int block = 0; block < m_ / kRows; ++block)
    for (int i = 0; i < elements(); ++i) set(block, i, value, where);
}

void Accumulator::add(const Accumulator& other, Where where) {
  AtLine line(where);
  if (other.m() != m_ || other.n() != n_)
    throw Error(where, fmt::format("accumulator: {} x {} added to {} x {}", other.m(), other.n(), m_, n_));
  for (int block = 0; block < m_ / kRows; ++block)
    for (int i = 0; i < elements(); ++i)
      set(block, i, value(block, i, where) + other.value(block, i, where), where);
}

u32 Accumulator::row(int block, int i, Where where) const {
  u32 lane = tid_x(where) & 31, warp = warp_index(where) & 3;
  return warp * 16 + (lane >> 2) + (block * kRows + i / 2 % 2 * 8);
}

u32 Accumulator::col(int i, Where where) const { return (tid_x(where) & 3) * 2 + (i / 4 * 8 + i % 2); }

namespace detail {

// One call of mma, whichever way A comes.
class Product {
 public:
  Product(Accumulator& d, DType a_type, const std::string& a_text, const TileView& b,
          const MmaOptions& options, Where where)
      : builder_(Builder::current(where)),
        d_(d),
        a_type_(a_type),
        b_view_(b),
        b_(operand_of(b, "mma: B", where)),
        options_(options),
        where_(where) {
    if (!multiply_together(a_type, b_.dtype()))
      throw Error(where,
                  fmt::format("mma: A is {} and B a {}; their types must be equal, or e4m3 and e5m2, or s8 "
                              "and u8",
                              a_text, b.tile().describe()));
    if (d.dtype() == DType::s32 && (options.negate_a || options.negate_b))
      throw Error(where, "mma: negate_a and negate_b are for floating types, and D is s32");
  }

  void check_shapes(int a_rows, int a_depth) const {
    if (a_rows != d_.m() || b_.mn() != d_.n() || a_depth != b_.k())
      throw Error(where_, fmt::format("mma: D {}x{} += A {}x{} B {}x{}: the shapes do not fit", d_.m(),
                                      d_.n(), a_rows, a_depth, b_.k(), b_.mn()));
  }

  // `a(block, step)` is A's operand of an instruction; `a_record` is none where A is in registers.
  void emit(const std::optional<OperandRecord>& a_record, const std::function<Argument(int, int)>& a) {
    const bool a_in_registers = !a_record;
    const MmaRecord record = {a_type_, d_.m(), d_.n(), b_.k(), a_record, record_of(b_view_, b_, b_, where_),
                              where_};
    const isa::Row& row = isa::wgmma_mma_async(
        {d_.dtype(), a_type_, b_.dtype(), d_.n(), a_in_registers, options_.saturate}, where_);
    u64 b_start = descriptor(b_view_, record.b);
    pred accumulate = d_.accumulate_;
    for (int block = 0; block < d_.m() / kRows; ++block)
      for (int step = 0; step < static_cast<int>(record.b.along_k.size()); ++step) {
        std::vector<Argument> arguments = {d_.block_registers(block), a(block, step),
                                           b_start + (record.b.start(0, step) >> 4),
                                           step == 0 ? accumulate : pred(true)};
        if (d_.dtype() != DType::s32) {
          arguments.emplace_back(int64_t{options_.negate_a ? -1 : 1});
          arguments.emplace_back(int64_t{options_.negate_b ? -1 : 1});
        }
        if (size_of(a_type_) == 2) {
          if (!a_in_registers) arguments.emplace_back(int64_t{a_record->mn_major});
          arguments.emplace_back(int64_t{record.b.mn_major});
        }
        builder_.emit(row, arguments, std::nullopt, where_);
      }
    d_.accumulate_ = pred(true);
    *d_.in_flight_ = true;
    TileContext::of(builder_).record.mmas.push_back(record);
  }

 private:
  Builder& builder_;
  Accumulator& d_;
  DType a_type_;
  const TileView& b_view_;
  WgmmaOperand b_;
  MmaOptions options_;
  Where where_;
};

}  // namespace detail

void mma(Accumulator& d, const TileView& a, const TileView& b, const MmaOptions& options, Where where) {
  AtLine line(where);
  WgmmaOperand operand = operand_of(a, "mma: A", where);
  detail::Product product(d, operand.dtype(), fmt::format("a {}", a.tile().describe()), b, options, where);
  product.check_shapes(operand.mn(), operand.k());
  OperandRecord record = record_of(a, operand, operand.part(kRows, where), where);
  u64 start = descriptor(a, record);
  product.emit(record, [&](int block, int step) { return start + (record.start(block, step) >> 4); });
}

void mma(Accumulator& d, const TileView& a, const TileView& b, Where where) {
  mma(d, a, b, MmaOptions{}, where);
}

void mma(Accumulator& d, const Fragment& a, const TileView& b, const MmaOptions& options, Where where) {
  AtLine line(where);
  detail::Product product(d, a.dtype(), a.describe(), b, options, where);
  product.check_shapes(kRows, a.k());
  product.emit(std::nullopt, [&](int, int step) { return a.step(step); });
}

void mma(Accumulator& d, const Fragment& a, const TileView& b, Where where) {
  mma(d, a, b, MmaOptions{}, where);
}

void MatrixProduct::add_to(Accumulator& d, const MmaOptions& options) const {
  std::visit([&](const auto& a) { mma(d, a, b_, options, a_.where_); }, a_.a_);
}

Fragment to_fragment(DType type, const Accumulator& from, int block, Where where) {
  AtLine line(where);
  Registers all = from.registers(block, where);
  if (from.dtype() == DType::f16 && type == DType::f16) {  // the same registers
    std::vector<u32> registers;
    for (int i = 0; i < all.count; ++i) {
      std::vector<Argument> one = {all.slice(i, 1)};
      registers.emplace_back(
          Builder::current(where).emit(isa::rows_def::mov_b32, one, std::nullopt, where)[0].handle());
    }
    return Fragment(type, registers, where);
  }
  auto element = [&](int i) { return Argument(all.slice(i, 1)); };
  return detail::packed_fragment(type, from.dtype(), from.elements(), element, where);
}

void wgmma_group(const std::function<void()>& body, Where where) {
  wgmma_fence(where);
  body();
  wgmma_commit_group(where);
}

void wgmma_wait(int pending, Where where) {
  wgmma_wait_group(pending, where);
  if (pending != 0) return;
  for (const auto& flag : TileContext::of(Builder::current(where)).in_flight)
    if (auto alive = flag.lock()) *alive = false;
}

}  // namespace ptxbuilder
