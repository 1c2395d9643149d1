#include "ptxbuilder/product/accumulator.h"

#include <fmt/format.h>

#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder {
namespace {

using detail::TileContext;

Class register_class(DType dtype) {
  return dtype == DType::f32 ? Class::f32 : dtype == DType::s32 ? Class::s32 : Class::b32;
}

}  // namespace

Accumulator::Accumulator(int m, int n, DType dtype, Where where)
    : m_(m),
      n_(n),
      wgmma_columns_(isa::wgmma_width_of(dtype, n)),
      dtype_(dtype),
      accumulate_(pred(false)),
      state_(std::make_shared<detail::AccumulatorState>()) {
  AtLine line(where);
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::s32)
    throw Error(fmt::format("accumulator: the type is {}, but must be f32, f16 or s32", name(dtype)));
  if (m < hopper::wgmma_rows || m % hopper::wgmma_rows != 0)
    throw Error(fmt::format("accumulator: m is {}, but must be a multiple of {}", m, hopper::wgmma_rows));
  if (wgmma_columns_ == 0)
    throw Error(fmt::format(
        "accumulator: n is {}, but must be a multiple of 8 from 8 to 256{}, or twice such a number", n,
        dtype == DType::s32 ? " (for s32, of 16 at 32 and above)" : ""));
  int count = m / hopper::wgmma_rows * (dtype == DType::f16 ? n / 4 : n / 2);
  registers_ = Builder::current().declare_registers(register_class(dtype), count);
  state_->clear = [registers = registers_, is_f32 = dtype == DType::f32] {
    const isa::Row& row = is_f32 ? isa::rows_def::mov_to_f32 : isa::rows_def::mov_to_b32;
    const Value zero = is_f32 ? Value(f32(0)) : Value(u32(0));
    for (int i = 0; i < registers.count; ++i) {
      const std::vector<Argument> arguments = {registers.slice(i, 1), zero};
      Builder::current().emit(row, arguments, std::nullopt);
    }
  };
}

void Accumulator::set_wgmma_columns(int columns, Where where) {
  AtLine line(where);
  if (!isa::wgmma_has_width(dtype_, columns) || n_ % columns != 0)
    throw Error(fmt::format(
        "accumulator: wgmmas of {} columns cannot make {} columns: use a width of wgmma that divides them",
        columns, n_));
  wgmma_columns_ = columns;
}

void Accumulator::zero() {
  accumulate_ = pred(false);
  state_->written = false;
}

Registers Accumulator::block_registers(int block) const {
  int count = registers_.count / (m_ / hopper::wgmma_rows);
  return registers_.slice(block * count, count);
}

Registers Accumulator::block_registers(int block, int column, int columns) const {
  const int of_8_columns = dtype_ == DType::f16 ? 2 : 4;
  return block_registers(block).slice(column / 8 * of_8_columns, columns / 8 * of_8_columns);
}

Registers Accumulator::registers(int block, Where where) const {
  AtLine line(where);
  if (block < 0 || block >= m_ / hopper::wgmma_rows)
    throw Error(
        fmt::format("accumulator: block {} was requested, but there are {}", block, m_ / hopper::wgmma_rows));
  TileContext::of(Builder::current()).products.read(state_);
  return block_registers(block);
}

namespace detail {

// Converts between words of a tile and the registers of an accumulator, or of a part of an accumulator.
class AccumulatorRegisters {
 public:
  AccumulatorRegisters(const Accumulator& accumulator, std::string_view operation, DType dtype,
                       std::optional<TilePart> part)
      : accumulator_(accumulator),
        part_(part ? *part : TilePart{0, 0, accumulator.m(), accumulator.n()}),
        builder_(Builder::current()) {
    if (dtype != accumulator.dtype())
      throw Error(fmt::format("{}: the tile in registers is {}, but the accumulator is {}", operation,
                              name(dtype), name(accumulator.dtype())));
    check_part(part_, {accumulator.m(), accumulator.n()}, operation);
  }

  RegisterLayout layout() const { return wgmma_layout(part_.rows, part_.cols); }

  TileValues load() const {
    products().read(accumulator_.state_);
    TileValues x{accumulator_.dtype(), layout(), {}};
    const isa::Row& row = is_f32() ? isa::rows_def::mov_f32 : isa::rows_def::mov_b32;
    for (const Registers& one : each()) {
      const std::vector<Argument> from = {one};
      x.words.push_back(builder_.emit(row, from, std::nullopt)[0]);
    }
    return x;
  }

  void store(const std::vector<Value>& words) const {
    products().write(accumulator_.state_);
    const isa::Row& row = is_f32() ? isa::rows_def::mov_to_f32 : isa::rows_def::mov_to_b32;
    size_t word = 0;
    for (const Registers& one : each()) {
      const std::vector<Argument> arguments = {one, words[word++]};
      builder_.emit(row, arguments, std::nullopt);
    }
  }

 private:
  ProductGroups& products() const { return TileContext::of(builder_).products; }
  bool is_f32() const { return accumulator_.dtype() == DType::f32; }

  std::vector<Registers> each() const {
    std::vector<Registers> registers;
    for (int block = part_.row / hopper::wgmma_rows; block < (part_.row + part_.rows) / hopper::wgmma_rows;
         ++block) {
      const Registers all = accumulator_.block_registers(block, part_.col, part_.cols);
      for (int i = 0; i < all.count; ++i) registers.push_back(all.slice(i, 1));
    }
    return registers;
  }

  const Accumulator& accumulator_;
  TilePart part_;
  Builder& builder_;
};

TileValues load_accumulator(const Accumulator& from, DType dtype, std::optional<TilePart> part) {
  return AccumulatorRegisters(from, "load", dtype, part).load();
}

void store_accumulator(Accumulator& to, const TileValues& x, std::optional<TilePart> part) {
  const AccumulatorRegisters registers(to, "store", *x.dtype, part);
  const RegisterLayout layout = registers.layout();
  if (!x.layout.is_splat() && !(x.layout == layout))
    throw Error(
        fmt::format("store: the layout of the tile is {}, but that of the accumulator is {}; store "
                    "layout_cast(x, wgmma_layout({}, {}))",
                    x.layout.describe(), layout.describe(), layout.rows(), layout.cols()));
  registers.store(tile_layout_cast(x, layout).words);
  to.accumulate();
}

}  // namespace detail

}  // namespace ptxbuilder
