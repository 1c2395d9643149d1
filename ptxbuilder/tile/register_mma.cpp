#include "ptxbuilder/tile/register_mma.h"

#include <fmt/format.h>

namespace ptxbuilder::detail {
namespace {

constexpr int kRows = 64;  // of one wgmma

RegisterLayout layout_of_a(DType dtype, int k, Where where) {
  if (size_of(dtype) == 1) return wgmma_8bit(k, where);
  return dtype == DType::tf32 ? wgmma_32bit(k, where) : wgmma_layout(kRows, k, where);
}

void check_type(const char* what, DType dtype, DType other, Where where) {
  if (dtype != other)
    throw Error(where,
                fmt::format("{}: a tile of {} in registers, but {} there", what, name(dtype), name(other)));
}

}  // namespace

TileValues load_accumulator(const Accumulator& from, DType dtype, Where where) {
  AtLine line(where);
  check_type("load: an accumulator", dtype, from.dtype(), where);
  const isa::Row& row = dtype == DType::f32 ? isa::rows_def::mov_f32 : isa::rows_def::mov_b32;
  TileValues x{dtype, wgmma_layout(from.m(), from.n(), where), {}};
  for (int block = 0; block < from.m() / kRows; ++block) {
    Registers all = from.registers(block, where);
    for (int i = 0; i < all.count; ++i) {
      std::vector<Argument> one = {all.slice(i, 1)};
      x.words.push_back(Builder::current(where).emit(row, one, std::nullopt, where)[0]);
    }
  }
  return x;
}

void store_accumulator(Accumulator& to, const TileValues& given, Where where) {
  AtLine line(where);
  check_type("store: an accumulator", *given.dtype, to.dtype(), where);
  RegisterLayout layout = wgmma_layout(to.m(), to.n(), where);
  if (!given.layout.is_splat() && !(given.layout == layout))
    throw Error(where, fmt::format("store: a tile of {} to an accumulator of {}; layout_cast it first",
                                   given.layout.describe(), layout.describe()));
  TileValues x = tile_layout_cast(given, layout, where);
  const isa::Row& row = x.dtype == DType::f32 ? isa::rows_def::mov_to_f32 : isa::rows_def::mov_to_b32;
  size_t word = 0;
  for (int block = 0; block < to.m() / kRows; ++block) {
    Registers all = to.registers(block, where);
    for (int i = 0; i < all.count; ++i) {
      std::vector<Argument> arguments = {all.slice(i, 1), x.words[word++]};
      Builder::current(where).emit(row, arguments, std::nullopt, where);
    }
  }
  to.accumulate();
}

Fragment fragment_of(const TileValues& x, Where where) {
  AtLine line(where);
  constexpr std::array types = {DType::f16,  DType::bf16, DType::tf32, DType::e4m3,
                                DType::e5m2, DType::s8,   DType::u8};
  if (std::find(types.begin(), types.end(), *x.dtype) == types.end())
    throw Error(where,
                fmt::format("to_fragment: a tile of {}; astype one of f16, bf16, tf32, e4m3, e5m2, s8, u8",
                            name(*x.dtype)));
  RegisterLayout wanted = layout_of_a(*x.dtype, x.layout.cols(), where);
  if (!(x.layout == wanted))
    throw Error(where, fmt::format("to_fragment: a tile of {}, but A of {} takes {}; layout_cast it first",
                                   x.layout.describe(), name(*x.dtype), wanted.describe()));
  std::vector<u32> registers;
  for (Value v : x.words)
    registers.push_back(x.dtype == DType::tf32 ? bit_cast<u32>(f32(v.handle())) : u32(v.handle()));
  return Fragment(*x.dtype, registers, where);
}

TileValues load_fragment(const Fragment& from, DType dtype, Where where) {
  AtLine line(where);
  check_type("load: a fragment", dtype, from.dtype(), where);
  TileValues x{dtype, layout_of_a(dtype, from.k(), where), {}};
  for (int i = 0; i < from.steps(); ++i)
    for (Value v : from.step(i))
      x.words.push_back(dtype == DType::tf32 ? Value(bit_cast<f32>(u32(v.handle()))) : v);
  return x;
}

}  // namespace ptxbuilder::detail
