// The way out of the tensor cores: accumulators through shared memory to global memory.
#include <fmt/format.h>

#include "ptxbuilder/tile/mma.h"

namespace ptxbuilder {
namespace {

constexpr int kRows = 64, kRowBytes = 128, kBuffers = 2;

// Threads of one warpgroup, and barrier 0 is the whole CTA's: each warpgroup has one of its own.
void sync_warpgroup(u32 group, Where where) { bar_sync(group + 1, 128, where); }

// Where the 16-byte chunk `chunk` of a row lies in a buffer with 128-byte swizzle: the chunk's number is
// exclusive-ored with the row's, modulo 8 (CUDA driver API, CU_TENSOR_MAP_SWIZZLE_128B).
smem chunk_address(smem buffer, u32 row, u32 chunk) {
  return buffer + (row * kRowBytes + ((chunk ^ (row & 7)) << 4));
}

// 64 x 64 elements of 16 bits: each stmatrix moves four 8x8 blocks, two along m times two along n. Lane l
// gives the address of row l % 16 of the blocks at column 8 (l / 16).
void write_packed(smem buffer, DType type, const Registers& registers, Where where) {
  Builder& builder = Builder::current(where);
  const isa::Row& pack = isa::cvt_pack(type, where);
  const isa::Row& stmatrix = isa::stmatrix(4, false, where);
  u32 lane = tid_x(where) & 31, warp = warp_index(where) & 3;
  u32 row = warp * 16 + (lane & 15);
  for (int chunk = 0; chunk < 8; chunk += 2) {
    std::vector<Value> packed;
    for (int i = 0; i < 4; ++i) {
      int first = 4 * chunk + 2 * i;
      std::vector<Argument> pair = {registers.slice(first + 1, 1), registers.slice(first, 1)};
      packed.push_back(builder.emit(pack, pair, std::nullopt, where)[0]);
    }
    std::vector<Argument> arguments = {chunk_address(buffer, row, (lane >> 4) + chunk), packed};
    builder.emit(stmatrix, arguments, std::nullopt, where);
  }
}

// 64 x 32 elements of f32: a thread stores pairs of its rows lane / 4 and lane / 4 + 8 of its warp's 16.
void write_f32(smem buffer, const Registers& registers, Where where) {
  Builder& builder = Builder::current(where);
  u32 lane = tid_x(where) & 31, warp = warp_index(where) & 3;
  for (int j = 0; j < 4; ++j)
    for (int half = 0; half < 2; ++half) {
      u32 row = warp * 16 + (lane >> 2) + 8 * half;
      u32 chunk = ((lane & 3) >> 1) + 2 * j;
      sptr<f32> to(chunk_address(buffer, row, chunk) + ((lane & 1) << 3));
      auto read = [&](int i) {
        std::vector<Argument> from = {registers.slice(4 * j + 2 * half + i, 1)};
        return f32(builder.emit(isa::rows_def::mov_f32, from, std::nullopt, where)[0].handle());
      };
      f32 low = read(0), high = read(1);
      store(to, std::array<f32, 2>{low, high}, where);
    }
}

}  // namespace

template <class T>
void store(TensorMap to, const Accumulator& from, u32 m, u32 n, Where where) {
  AtLine line(where);
  Builder& builder = Builder::current(where);
  const int cols = kRowBytes / size_of(T::dtype);
  if (from.n() % cols != 0)
    throw Error(where, fmt::format("store: n = {} must be a multiple of {}, the {} elements of 128 B",
                                   from.n(), cols, name(T::dtype)));

  SharedTile staging(builder, T::dtype, {kRows, cols}, Swizzle128B, kBuffers * detail::warpgroups_in_role(),
                     where);
  u32 group = detail::warpgroup_in_cta(where);
  u32 group_in_role = group - detail::first_warpgroup_of_role();
  pred issues = (tid_x(where) & 127) == 0;  // the thread that issues, commits and waits

  int panel = 0;
  for (int block = 0; block < from.m() / kRows; ++block) {
    Registers registers = from.registers(block, where);
    for (int col = 0; col < from.n(); col += cols, ++panel) {
      TileView buffer = staging[group_in_role * kBuffers + panel % kBuffers];
      if (panel >= kBuffers) {  // the store that used this buffer last has read it
        cp_async_bulk_wait_group_read.when(issues)(kBuffers - 1, where);
        sync_warpgroup(group, where);
      }
      Registers mine = registers.slice(col / 2, cols / 2);
      if constexpr (T::dtype == DType::f32)
        write_f32(buffer.address(), mine, where);
      else
        write_packed(buffer.address(), T::dtype, mine, where);
      fence_proxy_async_shared(where);  // TMA reads through the async proxy what these threads wrote
      sync_warpgroup(group, where);
      if_(
          issues,
          [&] {
            tma_store({to, where}, buffer, n + col, m + block * kRows);
            cp_async_bulk_commit_group(where);
          },
          where);
    }
  }
  cp_async_bulk_wait_group_read.when(issues)(0, where);
  sync_warpgroup(group, where);
}

template void store<f32>(TensorMap, const Accumulator&, u32, u32, Where);
template void store<f16>(TensorMap, const Accumulator&, u32, u32, Where);
template void store<bf16>(TensorMap, const Accumulator&, u32, u32, Where);

}  // namespace ptxbuilder
