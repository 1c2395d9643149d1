#include "ptxbuilder/plan/descriptor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ptxbuilder/plan/thread_access.h"

namespace ptxbuilder {
namespace {

// The swizzles, indexed by bits 63..62.
constexpr std::array kLayoutTypes = {Swizzle::none, Swizzle::b128, Swizzle::b64, Swizzle::b32};

uint64_t layout_type(Swizzle swizzle) {
  return static_cast<uint64_t>(std::find(kLayoutTypes.begin(), kLayoutTypes.end(), swizzle) -
                               kLayoutTypes.begin());
}

constexpr uint64_t kOffsetBits = 0x3fff;
constexpr uint64_t kZeroBits =
    ~(uint64_t{3} << 62 | uint64_t{7} << 49 | kOffsetBits << 32 | kOffsetBits << 16 | kOffsetBits);

uint64_t field(uint32_t bytes, const char* what) {
  if (bytes % 16 != 0 || bytes >> 4 > kOffsetBits)
    throw Error(
        fmt::format("descriptor: the {} is {} B, but must be a multiple of 16 B below 256 KiB", what, bytes));
  return bytes >> 4;
}

std::string span_text(Swizzle swizzle) {
  return swizzle == Swizzle::none ? "no swizzle" : fmt::format("{} B swizzle", span_bytes(swizzle));
}

// Return descriptions of the distances that LBO and SBO specify, for a major and a swizzle.
std::string leading_meaning(Major major, Swizzle swizzle) {
  if (major == Major::mn)
    return swizzle == Swizzle::none ? "from 8 rows of k to the next 8"
                                    : fmt::format("from {} B along m or n to the next", span_bytes(swizzle));
  return swizzle == Swizzle::none ? "from 16 B along k to the next 16 B" : "not used";
}

std::string stride_meaning(Major major, Swizzle swizzle) {
  if (major == Major::mn)
    return swizzle == Swizzle::none ? "from 8 elements along m or n to the next 8"
                                    : "from 8 rows of k to the next 8";
  return "from 8 rows of m or n to the next 8";
}

std::string type_refusal(DType dtype, Major major) {
  constexpr std::array types = {DType::f16,  DType::bf16, DType::tf32, DType::e4m3,
                                DType::e5m2, DType::s8,   DType::u8};
  if (std::find(types.begin(), types.end(), dtype) == types.end())
    return fmt::format("the type is {}, but must be f16, bf16, tf32, e4m3, e5m2, s8 or u8", name(dtype));
  if (major == Major::mn && size_of(dtype) != 2)
    return fmt::format(
        "{} cannot be MN-major: wgmma only transposes 16-bit elements, but {} has {}: make k contiguous",
        name(dtype), name(dtype), 8 * size_of(dtype));
  return "";
}

// Returns the error message for a row that is not a multiple of the swizzle's span.
std::string row_refusal(DType dtype, std::string_view along, int extent, int span) {
  int size = size_of(dtype), row = extent * size;
  Swizzle fits = widest_swizzle(row);
  std::string advice;
  if (fits != Swizzle::none)
    advice = fmt::format("the widest swizzle that fits is {} B, or ", span_bytes(fits));
  else if (row % 16 == 0)
    advice = "no swizzle fits, or ";
  return fmt::format("{} {} along {} are {} B, but must be a multiple of {} B; {}use {} along {}", extent,
                     name(dtype), along, row, span, advice, (row + span - 1) / span * span / size, along);
}

}  // namespace

std::string_view name(Major major) { return major == Major::k ? "k" : "mn"; }

std::string_view name(AtomOrder order) { return order == AtomOrder::k_first ? "k" : "mn"; }

Swizzle widest_swizzle(int bytes) {
  for (Swizzle s : {Swizzle::b128, Swizzle::b64, Swizzle::b32})
    if (bytes % span_bytes(s) == 0) return s;
  return Swizzle::none;
}

uint64_t MatrixDescriptor::encode(Where where) const {
  CallersLine line(where);
  if (base_offset > 7)
    throw Error(fmt::format("descriptor: the base offset is {}, but must be 0 to 7", base_offset));
  return layout_type(swizzle) << 62 | uint64_t{base_offset} << 49 |
         field(stride_byte_offset, "stride byte offset") << 32 |
         field(leading_byte_offset, "leading byte offset") << 16 | field(start_address, "start address");
}

uint64_t MatrixDescriptor::encode_tcgen05(Where where) const { return encode(where) | uint64_t{0b001} << 46; }

MatrixDescriptor MatrixDescriptor::decode(uint64_t bits, Where where) {
  CallersLine line(where);
  if (bits & kZeroBits)
    throw Error(
        fmt::format("descriptor: {:#018x} sets the bits {:#018x}, which must be 0", bits, bits & kZeroBits));
  auto bytes = [&](int at) { return static_cast<uint32_t>(bits >> at & kOffsetBits) << 4; };
  return {bytes(0), bytes(16), bytes(32), static_cast<uint32_t>(bits >> 49 & 7), kLayoutTypes[bits >> 62]};
}

uint32_t MatrixDescriptor::address(Major major, int bytes, int mn, int k) const {
  uint32_t i = static_cast<uint32_t>(mn), j = static_cast<uint32_t>(k), size = static_cast<uint32_t>(bytes);
  uint32_t span = swizzle == Swizzle::none ? 16 : static_cast<uint32_t>(span_bytes(swizzle));
  uint32_t linear;
  if (major == Major::k) {
    linear = start_address + i / 8 * stride_byte_offset + i % 8 * span;
    if (swizzle == Swizzle::none)
      linear += j * size / 16 * leading_byte_offset + j * size % 16;
    else
      linear += j * size;
  } else {
    bool plain = swizzle == Swizzle::none;
    linear = start_address + i * size / span * (plain ? stride_byte_offset : leading_byte_offset) +
             j / 8 * (plain ? leading_byte_offset : stride_byte_offset) + j % 8 * span + i * size % span;
  }
  return static_cast<uint32_t>(byte_swizzle(swizzle)(linear));
}

std::string MatrixDescriptor::explain() const {
  auto both = [&](auto meaning) {
    return fmt::format("K-major: {}; MN-major: {}", meaning(Major::k, swizzle), meaning(Major::mn, swizzle));
  };
  return fmt::format(
      "bits 63..62 layout type         {}: {}\n"
      "bits 51..49 base offset         {}\n"
      "bits 45..32 stride byte offset  {:#x} * 16 = {} B; {}\n"
      "bits 29..16 leading byte offset {:#x} * 16 = {} B; {}\n"
      "bits 13..0  start address       {:#x} * 16 = {} B\n",
      layout_type(swizzle), span_text(swizzle), base_offset, stride_byte_offset >> 4, stride_byte_offset,
      both(stride_meaning), leading_byte_offset >> 4, leading_byte_offset, both(leading_meaning),
      start_address >> 4, start_address);
}

std::string MatrixDescriptor::explain(Major major) const {
  return fmt::format(
      "bits 63..62 layout type         {}: {}\n"
      "bits 51..49 base offset         {}: patterns start at multiples of {} B\n"
      "bits 45..32 stride byte offset  {:#x} * 16 = {} B: {}\n"
      "bits 29..16 leading byte offset {:#x} * 16 = {} B: {}\n"
      "bits 13..0  start address       {:#x} * 16 = {} B\n",
      layout_type(swizzle), span_text(swizzle), base_offset,
      swizzle == Swizzle::none ? 128 : 8 * span_bytes(swizzle), stride_byte_offset >> 4, stride_byte_offset,
      stride_meaning(major, swizzle), leading_byte_offset >> 4, leading_byte_offset,
      leading_meaning(major, swizzle), start_address >> 4, start_address);
}

uint32_t Tcgen05Descriptor::encode(Where where) const {
  CallersLine line(where);
  auto type = [](DType dtype, DType first, DType second, std::string_view matrix) {
    if (dtype != first && dtype != second)
      throw Error(fmt::format("tcgen05: {} is {}, but .kind::f16 takes {} and {}", matrix, name(dtype),
                              name(first), name(second)));
    return uint32_t{dtype == second};
  };
  if (d == DType::f16 && (a != d || b != d)) throw Error("tcgen05: D is f16; A and B must then be f16 too");
  const int step = m == 64 ? 8 : 16;
  if (m != 64 && m != 128)
    throw Error(fmt::format("tcgen05: D has {} rows, but one CTA multiplies 64 or 128", m));
  if (n < step || n > 256 || n % step != 0)
    throw Error(
        fmt::format("tcgen05: D has {} columns, but with {} rows it must have a multiple of {}, at most 256",
                    n, m, step));
  const uint32_t d_type = type(d, DType::f16, DType::f32, "D") << 4;
  const uint32_t a_type = type(a, DType::f16, DType::bf16, "A") << 7;
  return static_cast<uint32_t>(m >> 4) << 24 | static_cast<uint32_t>(n >> 3) << 17 |
         uint32_t{b_major == Major::mn} << 16 | uint32_t{a_major == Major::mn} << 15 |
         type(b, DType::f16, DType::bf16, "B") << 10 | a_type | d_type;
}

WgmmaOperand::WgmmaOperand(DType dtype, Major major, Swizzle swizzle, int mn, int k, Where where)
    : WgmmaOperand(dtype, major, swizzle, mn, k, default_order(major), where) {}

WgmmaOperand::WgmmaOperand(DType dtype, Major major, Swizzle swizzle, int mn, int k, AtomOrder order,
                           Where where)
    : dtype_(dtype),
      major_(major),
      swizzle_(swizzle),
      mn_(mn),
      k_(k),
      layout_(byte_swizzle(swizzle), 0, Layout()) {
  CallersLine line(where);
  if (std::string rule = refusal(dtype, major, swizzle, mn, k); !rule.empty())
    throw Error(fmt::format("wgmma operand: {}: {}", describe(), rule));
  const int64_t atoms_mn = mn / atom_mn(), atoms_k = k / atom_k(), size = size_of(dtype);
  const bool k_first = order == AtomOrder::k_first, k_major = major == Major::k;
  layout_ = layout_.with(make_layout({{atom_mn(), atoms_mn}, {atom_k(), atoms_k}},
                                     {{k_major ? span() : size, atom_bytes() * (k_first ? atoms_k : 1)},
                                      {k_major ? size : span(), atom_bytes() * (k_first ? 1 : atoms_mn)}}));
}

WgmmaOperand::WgmmaOperand(DType dtype, Major major, Swizzle swizzle, const ComposedLayout& elements,
                           Where where)
    : dtype_(dtype), major_(major), swizzle_(swizzle), layout_(elements) {
  CallersLine line(where);
  mn_ = static_cast<int>(ptxbuilder::size(elements.shape()[0]));
  k_ = static_cast<int>(ptxbuilder::size(elements.shape()[1]));
  layout_ = in_bytes(elements, size_of(dtype));
  std::string rule = refusal(dtype, major, swizzle, mn_, k_);
  const bool k_major = major == Major::k;
  const int row = linear_offset(k_major ? 1 : 0, k_major ? 0 : 1);
  if (rule.empty() && row != span())
    rule = fmt::format("its rows are {} B apart, but {} has {} B", row, span_text(swizzle), span());
  if (rule.empty() && (atom_stride_mn() % atom_bytes() != 0 || atom_stride_k() % atom_bytes() != 0))
    rule = fmt::format(
        "its panels are {} B, but must be a multiple of the {} B of 8 rows; give the tile a multiple of 8 "
        "rows",
        k_major ? atom_stride_k() : atom_stride_mn(), atom_bytes());
  if (!rule.empty()) throw Error(fmt::format("wgmma operand: {}: {}", describe(), rule));
}

std::string WgmmaOperand::refusal(DType dtype, Major major, Swizzle swizzle, int mn, int k) {
  if (std::string rule = type_refusal(dtype, major); !rule.empty()) return rule;
  if (mn < 1 || k < 1) return "there are no elements";
  bool k_major = major == Major::k;
  int contiguous = k_major ? k : mn, across = k_major ? mn : k;
  int span = swizzle == Swizzle::none ? 16 : span_bytes(swizzle), depth = 32 / size_of(dtype);
  if (contiguous * size_of(dtype) % span != 0) return row_refusal(dtype, name(major), contiguous, span);
  if (k % depth != 0)
    return fmt::format(
        "{} along k is not a multiple of {}, the number in the 32 B of an instruction; the nearest is {}", k,
        depth, (k + depth - 1) / depth * depth);
  if (across % 8 != 0)
    return fmt::format("{} along mn is not a multiple of 8; the nearest is {}", across, (across + 7) / 8 * 8);
  return "";
}

WgmmaOperand WgmmaOperand::part(int mn, Where where) const {
  CallersLine line(where);
  if (mn < 1 || mn > mn_ || mn % atom_mn() != 0)
    throw Error(fmt::format(
        "wgmma operand: a part has {} of the {} elements along mn of {}, but must have a multiple of {}", mn,
        mn_, describe(), atom_mn()));
  WgmmaOperand part = *this;
  part.mn_ = mn;
  return part;
}

WgmmaOperand WgmmaOperand::for_sparse(Where where) const {
  CallersLine line(where);
  WgmmaOperand operand = *this;
  operand.depth_bytes_ = 64;
  if (k_ % operand.instruction_k() != 0)
    throw Error(
        fmt::format("wgmma operand: {}: {} along k is not a multiple of {}, the number in the 64 B of an "
                    "instruction with a sparse A",
                    describe(), k_, operand.instruction_k()));
  if (major_ == Major::k && swizzle_ == Swizzle::b32)
    throw Error(
        fmt::format("wgmma operand: {}: an instruction with a sparse A reads 64 B along k, more than the "
                    "swizzle spans: give the tile a swizzle of 64 or 128 B",
                    describe()));
  return operand;
}

int WgmmaOperand::linear_offset(int mn, int k) const {
  return static_cast<int>(layout_.layout()({int64_t{mn}, int64_t{k}}));
}

int WgmmaOperand::offset(int mn, int k) const { return static_cast<int>(layout_({int64_t{mn}, int64_t{k}})); }

MatrixDescriptor WgmmaOperand::descriptor(uint32_t start_address) const {
  // One instruction covers 32 or 64 bytes along k, so it extends over several atoms of 16 bytes or of 8 rows.
  uint32_t along_mn = mn_ > atom_mn() ? static_cast<uint32_t>(atom_stride_mn()) : 0;
  uint32_t along_k = instruction_k() > atom_k() ? static_cast<uint32_t>(atom_stride_k()) : 16;
  MatrixDescriptor d;
  d.start_address = start_address;
  d.swizzle = swizzle_;
  bool stride_is_mn = major_ == Major::k || swizzle_ == Swizzle::none;
  d.stride_byte_offset = stride_is_mn ? along_mn : along_k;
  d.leading_byte_offset = stride_is_mn ? along_k : along_mn;
  return d;
}

std::vector<int> WgmmaOperand::advances_k() const {
  std::vector<int> advances;
  for (int k = 0; k < k_; k += instruction_k()) advances.push_back(linear_offset(0, k));
  return advances;
}

std::vector<int> WgmmaOperand::advances_mn(int block, Where where) const {
  CallersLine line(where);
  if (block < 1 || block % atom_mn() != 0 || mn_ % block != 0)
    throw Error(
        fmt::format("wgmma operand: {}: a block has {} elements along mn, but the number must be a multiple "
                    "of {}, the atom's extent, and divide {}",
                    describe(), block, atom_mn(), mn_));
  std::vector<int> advances;
  for (int mn = 0; mn < mn_; mn += block) advances.push_back(linear_offset(mn, 0));
  return advances;
}

std::string WgmmaOperand::describe() const {
  return fmt::format("{}-major {} {}x{} with {}", major_ == Major::k ? "K" : "MN", ptxbuilder::name(dtype_),
                     mn_, k_, span_text(swizzle_));
}

}  // namespace ptxbuilder
