#include "ptxbuilder/tile/fragment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ptxbuilder/tile/copy.h"

namespace ptxbuilder {
namespace {

using detail::operand_of;

constexpr int kRows = 64;

bool is_fp8(DType type) { return type == DType::e4m3 || type == DType::e5m2; }
bool is_int8(DType type) { return type == DType::s8 || type == DType::u8; }

// Where this lane's row of the four 8x8 matrices of one step starts, in bytes from the view, without what
// depends on the step: ldmatrix takes row l % 8 of matrix l / 8 from lane l. Matrices are the registers of a
// fragment: 8 rows of m, the next 8, and both again 16 bytes further along k.
// I is int, or u32 on the device.
template <class I>
I lane_offset(const WgmmaOperand& a, I lane, I row) {
  if (a.major() == Major::k) {
    I m = row + (lane & 15), chunk = lane >> 4;
    int chunk_bytes = a.swizzle() == Swizzle::none ? a.atom_stride_k() : 16;
    return (m >> 3) * a.atom_stride_mn() + (m & 7) * (a.atom_bytes() / 8) + chunk * chunk_bytes;
  }
  I m = row + ((lane >> 3) & 1) * 8, k = (lane & 7) + (lane >> 4) * 8;
  return m / a.atom_mn() * a.atom_stride_mn() + m % a.atom_mn() * 2 + (k >> 3) * a.atom_stride_k() +
         (k & 7) * (a.atom_bytes() / 8);
}

smem swizzled(smem start, u32 offset, Swizzle swizzle) {
  if (swizzle == Swizzle::none) return start + offset;
  return start + swizzled_offset(u32(start), offset, swizzle);
}

// What a load is made from.
FragmentRecord record_of(const TileView& from, const WgmmaOperand& a, Where where) {
  FragmentRecord record;
  record.view = detail::record_view(detail::TileContext::of(Builder::current(where)).record, from);
  record.transposed = from.is_transposed();
  record.trans = a.major() == Major::mn;
  record.swizzle = a.swizzle();
  record.along_k = a.advances_k();
  for (int thread = 0; thread < 128; ++thread)
    record.by_thread.push_back(lane_offset(a, thread % 32, thread / 32 * 16));
  record.where = where;
  return record;
}

// Two bytes in the low half of each of two values.
u32 halves(u32 high, u32 low) { return high << 16 | low; }

class Packer {
 public:
  Packer(DType type, DType from, const std::function<Argument(int)>& element, Where where)
      : builder_(Builder::current(where)), type_(type), from_(from), element_(element), where_(where) {}

  // Elements i and i + 1 in one register of 16-bit types, or in the low half of one.
  u32 pair(int i) const {
    std::vector<Argument> arguments = {element_(i + 1), element_(i)};
    if (from_ == DType::s32) {
      arguments.emplace_back(u32(0));
      return u32(emit(isa::cvt_pack_integer(type_, where_), arguments));
    }
    llvm::Value* packed = emit(isa::cvt_pack(type_, where_), arguments);
    return size_of(type_) == 2 ? u32(packed) : u32(u16(packed));
  }

  // An accumulator has two columns in every 8 of a lane, a fragment of bytes four in every 16: lanes 0 and 1
  // of four hold what lane 0 wants of the first 8 columns and lane 2 of the second, lanes 2 and 3 the
  // others'.
  u32 quad(int first, int second) const {
    u32 word = halves(pair(second), pair(first));
    u32 lane = tid_x(where_) & 31;
    u32 source = (lane & 28) + (lane & 1) * 2, shift = ((lane >> 1) & 1) * 16;
    u32 low = shfl_sync_idx(word, source, where_) >> shift, high = shfl_sync_idx(word, source + 1, where_);
    return halves(high >> shift, low & 0xffff);
  }

 private:
  llvm::Value* emit(const isa::Row& row, const std::vector<Argument>& arguments) const {
    return builder_.emit(row, arguments, std::nullopt, where_)[0].handle();
  }

  Builder& builder_;
  DType type_, from_;
  const std::function<Argument(int)>& element_;
  Where where_;
};

}  // namespace

Fragment::Fragment(DType dtype, const std::vector<u32>& registers, Where where) : dtype_(dtype) {
  AtLine line(where);
  constexpr std::array types = {DType::f16,  DType::bf16, DType::tf32, DType::e4m3,
                                DType::e5m2, DType::s8,   DType::u8};
  if (std::find(types.begin(), types.end(), dtype) == types.end())
    throw Error(where,
                fmt::format("fragment: {} is none of f16, bf16, tf32, e4m3, e5m2, s8, u8", name(dtype)));
  if (registers.empty() || registers.size() % 4 != 0)
    throw Error(where, fmt::format("fragment: {} registers; a fragment has four for each 32 B along k",
                                   registers.size()));
  for (u32 r : registers) registers_.push_back(mov_b32(r, where));
}

int Fragment::k() const { return steps() * isa::wgmma_depth(dtype_); }

std::vector<Value> Fragment::step(int i) const {
  auto first = registers_.begin() + 4 * i;
  return {first, first + 4};
}

std::string Fragment::describe() const {
  return fmt::format("a {} {}x{} fragment", name(dtype_), kRows, k());
}

Fragment load_fragment(const TileView& from, Where where) {
  AtLine line(where);
  WgmmaOperand a = operand_of(from, "load_fragment: the source", where);
  if (a.mn() != kRows)
    throw Error(where,
                fmt::format("load_fragment: the source has {} along m, but a fragment {}", a.mn(), kRows));
  FragmentRecord record = record_of(from, a, where);
  const isa::Row& row = isa::ldmatrix(4, record.trans, where);
  u32 lane = lane_offset(a, tid_x(where) & 31, (warp_index(where) & 3) * 16);
  std::vector<u32> registers;
  for (int advance : record.along_k) {
    std::vector<Argument> address = {swizzled(from.address(), lane + advance, record.swizzle)};
    for (Value v : Builder::current(where).emit(row, address, std::nullopt, where))
      registers.emplace_back(v.handle());
  }
  detail::TileContext::of(Builder::current(where)).record.fragments.push_back(std::move(record));
  return Fragment(a.dtype(), registers, where);
}

Fragment to_fragment(DType type, const std::vector<f32>& values, Where where) {
  auto element = [&](int i) { return Argument(values[static_cast<size_t>(i)]); };
  return detail::packed_fragment(type, DType::f32, static_cast<int>(values.size()), element, where);
}

namespace detail {

Fragment packed_fragment(DType type, DType from, int count, const std::function<Argument(int)>& element,
                         Where where) {
  AtLine line(where);
  bool sixteen = type == DType::f16 || type == DType::bf16;
  if (!(from == DType::f32 && (sixteen || is_fp8(type))) && !(from == DType::s32 && is_int8(type)))
    throw Error(where,
                fmt::format("to_fragment: {} from {}; f32 becomes f16, bf16, e4m3 or e5m2, and s32 s8 or u8",
                            name(type), name(from)));
  int step = isa::wgmma_depth(type) * kRows / 128;  // elements a thread
  if (count == 0 || count % step != 0)
    throw Error(where, fmt::format("to_fragment: {} elements a thread; {} take multiples of {}, {} along k",
                                   count, name(type), step, isa::wgmma_depth(type)));
  Packer packer(type, from, element, where);
  std::vector<u32> registers;
  // Element 4 j + 2 h + e is of column 8 j + ..., row + 8 h.
  for (int i = 0; i < count; i += sixteen ? 4 : 8)
    for (int h = 0; h < 2; ++h)
      registers.push_back(sixteen ? packer.pair(i + 2 * h) : packer.quad(i + 2 * h, i + 4 + 2 * h));
  return Fragment(type, registers, where);
}

WgmmaOperand operand_of(const TileView& view, std::string_view what, Where where) {
  const SharedTile& tile = view.tile();
  bool transposed = view.is_transposed();
  int mn = transposed ? tile.cols() : view.row_count(), k = transposed ? view.row_count() : tile.cols();
  Major major = transposed ? Major::mn : Major::k;
  std::string rule = WgmmaOperand::refusal(tile.dtype(), major, tile.swizzle(), mn, k);
  if (rule.empty() && tile.swizzle() == Swizzle::none && tile.panel_row_bytes() != 16)
    rule = fmt::format(
        "wgmma reads tiles with 32, 64 or 128 B swizzle, or without in panels of 16 B: {{{}, {}, {}}}",
        tile.rows(), tile.cols(), 16 / size_of(tile.dtype()));
  if (!rule.empty())
    throw Error(where, fmt::format("{} is a {}{}: {}", what, tile.describe(),
                                   transposed ? ", transposed" : "", rule));
  WgmmaOperand operand(tile.dtype(), major, tile.swizzle(), mn, k, where);
  return transposed ? operand.within(tile.cols(), tile.rows()) : operand.within(tile.rows(), tile.cols());
}

}  // namespace detail

}  // namespace ptxbuilder
