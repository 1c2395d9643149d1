// Declares helpers that the tests of tensor copies share: a kernel that copies a box, and a model of the
// expected result.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/signature.h"

namespace ptxbuilder::test {

using Bytes = std::vector<uint8_t>;
inline constexpr uint8_t kPoison = 0xa5;
inline constexpr uint32_t kSharedBytes = 32768;

inline constexpr std::array kTypes = {DType::u8,  DType::s8,   DType::u16,  DType::s16,  DType::u32,
                                      DType::s32, DType::u64,  DType::s64,  DType::f16,  DType::bf16,
                                      DType::f32, DType::tf32, DType::e4m3, DType::e5m2, DType::f64};
inline constexpr std::array kSwizzles = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};

inline size_t width(DType type) { return static_cast<size_t>(size_of(type)); }

// --- The kernels ---

// The task of one launch, which the kernel reads from global memory.
struct Job {
  int32_t at[5] = {}, to[5] = {};  // the coordinates of the loaded box and of the stored box
  uint32_t box_bytes = 0;          // bytes that complete on the barrier
  uint32_t dumped_bytes =
      0;  // bytes of shared memory that are poisoned before the load and written out after it
  uint32_t source = 0, mask = 0;  // rank of the CTA that loads, and mask of those that receive
};

inline std::string coordinates(int rank, const char* base) {
  std::string list;
  for (int d = 0; d < rank; ++d) list += fmt::format("{}%{}{}", d ? ", " : "", base, d);
  return list;
}

// Poisons shared memory, loads a box, writes shared memory out, and stores or reduces the box. With clusters,
// one CTA loads for all CTAs of a mask, and nothing is stored.
inline std::string kernel_text(int rank, const std::string& reduction, bool cluster) {
  std::string load = fmt::format(
      "cp.async.bulk.prefetch.tensor.{0}d.L2.global.tile [%in, {{{1}}}];\n"
      "cp.async.bulk.tensor.{0}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{2} [%smem], [%in, "
      "{{{1}}}], [%bar]{3};",
      rank, coordinates(rank, "at"), cluster ? ".multicast::cluster" : "", cluster ? ", %mask16" : "");
  std::string store =
      reduction.empty() ? fmt::format("cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group", rank)
                        : fmt::format("cp.reduce.async.bulk.tensor.{}d.global.shared::cta.{}.tile.bulk_group",
                                      rank, reduction);
  std::string loads;
  for (int d = 0; d < rank; ++d)
    loads += fmt::format("ld.global.b32 %at{0}, [%job+{1}]; ld.global.b32 %to{0}, [%job+{2}];\n", d, 4 * d,
                         20 + 4 * d);
  std::string meet = cluster ? "barrier.cluster.arrive; barrier.cluster.wait;" : "bar.sync 0;";
  std::string finish = cluster ? meet
                               : fmt::format(
                                     "@%other bra DONE;\n{} [%out, {{{}}}], [%smem];\n"
                                     "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
                                     store, coordinates(rank, "to"));
  return fmt::format(R"(.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 box[];
.visible .entry copy(.param .align 64 .b8 in[128], .param .align 64 .b8 out[128], .param .u64 job, .param .u64 dump)
{{
.shared .align 8 .b8 full[8];
.reg .b32 %at<5>, %to<5>, %thread, %smem, %bar, %i, %a, %v, %bytes, %dumped, %rank, %source, %mask;
.reg .b16 %mask16; .reg .b64 %in, %out, %job, %dump, %o;
.reg .pred %other, %ends, %done, %sends, %gets;
mov.u32 %thread, %tid.x; mov.u32 %smem, box; mov.u32 %bar, full;
mov.b64 %in, in; cvta.param.u64 %in, %in; mov.b64 %out, out; cvta.param.u64 %out, %out;
ld.param.u64 %job, [job]; cvta.to.global.u64 %job, %job;
ld.param.u64 %dump, [dump]; cvta.to.global.u64 %dump, %dump;
{}ld.global.b32 %bytes, [%job+40]; ld.global.b32 %dumped, [%job+44];
ld.global.b32 %source, [%job+48]; ld.global.b32 %mask, [%job+52]; cvt.u16.u32 %mask16, %mask;
mov.u32 %rank, %cluster_ctarank; mul.wide.u32 %o, %rank, %dumped; add.u64 %dump, %dump, %o;
setp.ne.u32 %other, %thread, 0;
setp.eq.u32 %sends, %rank, %source;
shr.b32 %v, %mask, %rank; and.b32 %v, %v, 1; setp.ne.u32 %gets, %v, 0;
shl.b32 %i, %thread, 2; mov.b32 %v, 0xa5a5a5a5;
POISON: setp.ge.u32 %ends, %i, %dumped; @%ends bra POISONED;
add.u32 %a, %smem, %i; st.shared.b32 [%a], %v; add.u32 %i, %i, 128; bra POISON;
POISONED: fence.proxy.async.shared::cta;
@%other bra READY;
mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster;
fence.proxy.async.shared::cta;
@%gets mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %bytes;
READY: {}
@%other bra WAIT;
@!%sends bra WAIT;
{}
WAIT: @!%gets bra LOADED;
AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], 0; @!%done bra AGAIN;
LOADED: shl.b32 %i, %thread, 2;
DUMP: setp.ge.u32 %ends, %i, %dumped; @%ends bra DUMPED;
add.u32 %a, %smem, %i; ld.shared.b32 %v, [%a]; cvt.u64.u32 %o, %i; add.u64 %o, %dump, %o;
st.global.b32 [%o], %v; add.u32 %i, %i, 128; bra DUMP;
DUMPED: {}
DONE: ret;
}})",
                     loads, meet, load, finish);
}

// --- The model ---

// A box in a tensor whose rows are followed by gaps. Lists begin with the innermost dimension.
struct Place {
  DType type;
  Swizzle swizzle;
  std::vector<uint32_t> box, element_strides;
  std::vector<uint64_t> shape;
  std::vector<int32_t> at;
  OobFill fill = OobFill::zero;

  size_t rank() const { return box.size(); }
  uint32_t extent(size_t d) const { return (box[d] + element_strides[d] - 1) / element_strides[d]; }
  uint32_t box_bytes() const {
    uint32_t bytes = static_cast<uint32_t>(width(type));
    for (size_t d = 0; d < rank(); ++d) bytes *= extent(d);
    return bytes;
  }
  // Returns strides that leave at least 16 unused bytes after each row and each slab.
  std::vector<uint64_t> strides() const {
    std::vector<uint64_t> all = {width(type)};
    for (size_t d = 0; d < rank(); ++d) all.push_back((all.back() * shape[d] + 15) / 16 * 16 + 16);
    return {all.begin() + 1, all.end()};
  }
  size_t tensor_bytes() const { return static_cast<size_t>(strides().back()); }

  // Calls f(byte in the box, byte in the tensor or none) for each element.
  template <class F>
  void each(const std::vector<int32_t>& start, F f) const {
    walk(start, static_cast<int64_t>(shape[0]), f);
  }
  // Does the same as each() for a store, which writes whole units of 16 bytes at the end of a row.
  template <class F>
  void each_stored(const std::vector<int32_t>& start, F f) const {
    const int64_t unit = 16 / static_cast<int64_t>(width(type));
    walk(start, (static_cast<int64_t>(shape[0]) + unit - 1) / unit * unit, f);
  }

  // Calls f for each element, for a tensor with rows of `row` elements.
  template <class F>
  void walk(const std::vector<int32_t>& start, int64_t row, F f) const {
    const std::vector<uint64_t> step = strides();
    uint32_t count = box_bytes() / static_cast<uint32_t>(width(type));
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t rest = i;
      int64_t place = 0;
      bool inside = true;
      for (size_t d = 0; d < rank(); ++d) {
        int64_t x = start[d] + int64_t{rest % extent(d)} * element_strides[d];
        rest /= extent(d);
        inside &= x >= 0 && x < (d == 0 ? row : static_cast<int64_t>(shape[d]));
        place += x * static_cast<int64_t>(d == 0 ? width(type) : step[d - 1]);
      }
      f(i * width(type), inside ? std::optional<size_t>(static_cast<size_t>(place)) : std::nullopt);
    }
  }

  std::string text() const {
    return fmt::format("{}d {} swizzle {}, box {} at {} of {}, element strides {}{}", rank(), name(type),
                       name(swizzle), fmt::join(box, "x"), fmt::join(at, ","), fmt::join(shape, "x"),
                       fmt::join(element_strides, ","), fill == OobFill::nan ? ", filled with NaN" : "");
  }
};

// Returns the place of a byte of the box in shared memory. The box starts at a multiple of 1024.
inline size_t swizzled(size_t byte, Swizzle swizzle) {
  constexpr size_t lines[] = {1, 2, 4, 8};
  return (byte / 16 ^ byte / 128 % lines[static_cast<int>(swizzle)]) * 16 + byte % 16;
}

inline bool is_floating(DType t) {
  return t == DType::f16 || t == DType::bf16 || t == DType::f32 || t == DType::tf32 || t == DType::f64;
}

// Returns random bits or, for tf32, small integers, because a copy may round tf32.
inline Bytes random_tensor(const Place& p, uint32_t seed) {
  std::mt19937 engine(seed);
  Bytes bytes(p.tensor_bytes());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(engine());
  if (p.type == DType::tf32)
    for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
      float value = static_cast<float>(engine() % 1000);
      std::memcpy(&bytes[i], &value, 4);
    }
  return bytes;
}

inline bool is_nan(const uint8_t* at, DType type) {
  std::vector<std::byte> copy(width(type));
  std::memcpy(copy.data(), at, copy.size());
  return std::isnan(read_element(copy.data(), type));
}

}  // namespace ptxbuilder::test
