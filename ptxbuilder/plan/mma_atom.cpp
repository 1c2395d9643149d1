#include "ptxbuilder/plan/mma_atom.h"

#include <fmt/format.h>

namespace ptxbuilder {
namespace {

void check_operand(const WgmmaOperand& operand, DType type, Major major, int mn, int k, const char* name) {
  if (operand.dtype() != type || operand.major() != major)
    throw Error(fmt::format("tiled mma: {} is {}, but the instruction needs {}-major {}", name,
                            operand.describe(), major == Major::k ? "K" : "MN", ptxbuilder::name(type)));
  if (operand.mn() % mn != 0 || operand.k() % k != 0)
    throw Error(fmt::format("tiled mma: {} is {}, but the instruction needs multiples of {}x{}", name,
                            operand.describe(), mn, k));
}

void check_major(DType type, Major major) {
  if (major == Major::mn && size_of(type) != 2)
    throw Error(
        fmt::format("wgmma: {} cannot be MN-major: only 16-bit elements can be transposed", name(type)));
}

// Returns a mode that consists of the parts with more than one element.
Layout mode_of(const std::vector<std::pair<int64_t, int64_t>>& modes) {
  std::vector<IntTuple> shape, stride;
  for (auto [extent, step] : modes)
    if (extent > 1) {
      shape.emplace_back(extent);
      stride.emplace_back(step);
    }
  if (shape.empty()) return {};
  if (shape.size() == 1) return make_layout(shape[0], stride[0]);
  return make_layout(IntTuple(shape), IntTuple(stride));
}

}  // namespace

Layout mma_registers(MmaRegisters held, int64_t row, int64_t col) {
  const int64_t lanes = 4, beside = held.beside;
  Layout threads = mode_of({{lanes, beside * col}, {8, row}, {held.warps, 16 * row}});
  Layout values =
      mode_of({{beside, col}, {held.eights, 8 * row}, {held.cols / (lanes * beside), lanes * beside * col}});
  return concatenate<int64_t>({threads, values});
}

MmaAtom MmaAtom::wgmma(DType d, DType a, DType b, int n, Major a_major, Major b_major, Where where) {
  CallersLine line(where);
  check_major(a, a_major);
  MmaAtom atom = wgmma_a_in_registers(d, a, b, n, b_major);
  atom.a_in_registers_ = false;
  atom.a_major_ = a_major;
  atom.row_ = &isa::wgmma_mma_async({d, a, b, n});
  return atom;
}

MmaAtom MmaAtom::wgmma_a_in_registers(DType d, DType a, DType b, int n, Major b_major, Where where) {
  CallersLine line(where);
  check_major(b, b_major);
  MmaAtom atom;
  atom.row_ = &isa::wgmma_mma_async({d, a, b, n, true});
  atom.m_ = 64;
  atom.n_ = n;
  atom.k_ = isa::wgmma_depth(a);
  atom.threads_ = 128;
  atom.d_ = d;
  atom.a_ = a;
  atom.b_ = b;
  atom.a_in_registers_ = true;
  atom.b_major_ = b_major;
  return atom;
}

MmaAtom MmaAtom::mma_sync(DType d, DType a, DType b, int k, Where where) {
  CallersLine line(where);
  MmaAtom atom;
  atom.row_ = &isa::mma_sync({d, a, b, k});
  atom.m_ = 16;
  atom.n_ = 8;
  atom.k_ = k;
  atom.threads_ = 32;
  atom.d_ = d;
  atom.a_ = a;
  atom.b_ = b;
  atom.a_in_registers_ = true;
  return atom;
}

Layout MmaAtom::layout_a() const {
  if (!a_in_registers_) return make_layout({threads_, {m_, k_}}, {0, {1, m_}});
  return mma_registers({threads_ / 32, 2, 4 / size_of(a_), k_}, 1, m_);
}

Layout MmaAtom::layout_b() const {
  if (!b_in_registers()) return make_layout({threads_, {n_, k_}}, {0, {1, n_}});
  return mma_registers({1, 1, 4 / size_of(b_), k_}, 1, n_);
}

Layout MmaAtom::layout_c() const { return mma_registers({threads_ / 32, 2, 2, n_}, 1, m_); }

TiledMma::TiledMma(const MmaAtom& atom, const WgmmaOperand& a, const WgmmaOperand& b, Where where)
    : TiledMma(atom, a.mn(), b, where) {
  CallersLine line(where);
  if (atom.a_in_registers())
    throw Error(fmt::format("tiled mma: A is {}, but the instruction reads A from registers", a.describe()));
  check_operand(a, atom.a(), atom.a_major(), atom.m(), atom.k(), "A");
  if (a.k() != b.k())
    throw Error(fmt::format("tiled mma: A is {} and B is {}, but both must have the same k", a.describe(),
                            b.describe()));
  a_ = a;
}

TiledMma::TiledMma(const MmaAtom& atom, int m, const WgmmaOperand& b, Where where) : atom_(atom), b_(b) {
  CallersLine line(where);
  if (atom.b_in_registers())
    throw Error(
        fmt::format("tiled mma: {} reads B from registers, not through a descriptor", atom.row().name));
  if (m < 1 || m % atom.m() != 0)
    throw Error(
        fmt::format("tiled mma: m is {}, but must be a multiple of the instruction's {}", m, atom.m()));
  check_operand(b, atom.b(), atom.b_major(), atom.n(), atom.k(), "B");
  count_ = {m / atom.m(), b.mn() / atom.n(), b.k() / atom.k()};
}

const WgmmaOperand& TiledMma::a() const {
  if (!a_) throw Error("tiled mma: A is in registers and has no descriptor");
  return *a_;
}

MatrixDescriptor TiledMma::descriptor_a(int i, int k, uint32_t start_address, Where where) const {
  CallersLine line(where);
  uint32_t offset = static_cast<uint32_t>(a().linear_offset(i * atom_.m(), k * atom_.k()));
  return a().part(atom_.m()).descriptor(start_address + offset);
}

MatrixDescriptor TiledMma::descriptor_b(int j, int k, uint32_t start_address, Where where) const {
  CallersLine line(where);
  uint32_t offset = static_cast<uint32_t>(b_.linear_offset(j * atom_.n(), k * atom_.k()));
  return b_.part(atom_.n()).descriptor(start_address + offset);
}

std::vector<int> TiledMma::advances_m(Where where) const {
  CallersLine line(where);
  return a().advances_mn(atom_.m());
}

std::vector<int> TiledMma::advances_n(Where where) const {
  CallersLine line(where);
  return b_.advances_mn(atom_.n());
}

std::vector<int> TiledMma::advances_k_a(Where where) const {
  CallersLine line(where);
  return a().advances_k();
}

}  // namespace ptxbuilder
