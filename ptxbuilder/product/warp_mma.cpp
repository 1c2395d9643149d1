#include "ptxbuilder/product/warp_mma.h"

#include <fmt/format.h>

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

void mma(const MmaAtom& atom, std::span<Var<f32>> d, std::span<const u32> a, std::span<const u32> b,
         Where where) {
  AtLine line(where);
  if (!atom.b_in_registers() || atom.d() != DType::f32)
    throw Error(fmt::format("mma: {} is not an mma.sync with f32 results", atom.row().name));
  auto registers = [&](const Layout& layout, DType type) {
    return static_cast<size_t>(size(layout[1])) * static_cast<size_t>(size_of(type)) / 4;
  };
  const size_t want_a = registers(atom.layout_a(), atom.a()), want_b = registers(atom.layout_b(), atom.b()),
               want_d = registers(atom.layout_c(), DType::f32);
  if (a.size() != want_a || b.size() != want_b || d.size() != want_d)
    throw Error(
        fmt::format("mma: {} registers of A, {} of B and {} of D were given, but {} needs {}, {} and {}",
                    a.size(), b.size(), d.size(), atom.row().name, want_a, want_b, want_d));
  const detail::TileContext& context = detail::TileContext::of(Builder::current());
  auto words = [&](std::span<const u32> registers_of) {
    std::vector<LoadedWord> all;
    for (const u32& r : registers_of) {
      auto known = context.loaded_words.find(r.handle());
      all.push_back(known == context.loaded_words.end() ? LoadedWord{} : known->second);
    }
    return all;
  };
  detail::TileContext::of(Builder::current())
      .record.warp_mmas.push_back(
          {atom.m(), atom.n(), atom.a(), atom.b(), atom.layout_a(), atom.layout_b(), words(a), words(b)});
  std::vector<Argument> arguments = {std::vector<Value>(a.begin(), a.end()),
                                     std::vector<Value>(b.begin(), b.end()), std::vector<Value>()};
  auto& c = std::get<std::vector<Value>>(arguments.back());
  for (const Var<f32>& v : d) c.push_back(v.value());
  std::vector<Value> sums = Builder::current().emit(atom.row(), arguments, std::nullopt);
  for (size_t i = 0; i < d.size(); ++i) d[i] = f32(sums[i].handle());
}

u32 pack(DType type, f32 low, f32 high, Where where) {
  AtLine line(where);
  const isa::Row& row = isa::cvt_pack(type);
  if (size_of(type) != 2)
    throw Error(fmt::format("pack: the type is {}, but must be f16 or bf16", name(type)));
  std::vector<Argument> arguments = {high, low};
  return u32(Builder::current().emit(row, arguments, std::nullopt)[0].handle());
}

}  // namespace ptxbuilder
