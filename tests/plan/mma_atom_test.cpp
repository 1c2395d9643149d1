// Tests the plans of matrix instructions: the layouts of their threads and values, and the way in which the
// instructions cover tiles.
#include "ptxbuilder/plan/mma_atom.h"

#include <map>

#include "error_kit.h"
#include "ptxbuilder/plan/register_layout.h"

namespace ptxbuilder::test::mma_atom_test {
using enum DType;

namespace {

// Checks that every element occurs once, or `copies` times if all threads share an operand.
void check_covers(const Layout& layout, int64_t elements, int64_t threads, int64_t copies) {
  CAPTURE(to_string(layout));
  std::map<int64_t, int64_t> seen;
  int64_t values = size(layout) / threads;
  for (int64_t t = 0; t < threads; ++t)
    for (int64_t v = 0; v < values; ++v) ++seen[layout({t, v})];
  CHECK(static_cast<int64_t>(seen.size()) == elements);
  CHECK(seen.rbegin()->first == elements - 1);
  for (auto [index, count] : seen)
    if (count != copies) FAIL_CHECK(index << " is held " << count << " times");
}

}  // namespace

TEST_CASE("layouts of wgmma equal CuTe's") {
  MmaAtom atom = MmaAtom::wgmma(f32, bf16, bf16, 128);
  CHECK(to_string(atom.layout_c()) == "((4,8,4),(2,2,16)):((128,1,16),(64,8,512))");
  CHECK(to_string(atom.layout_a()) == "(128,(64,16)):(0,(1,64))");
  CHECK(to_string(atom.layout_b()) == "(128,(128,16)):(0,(1,128))");
  CHECK(atom.row().name == "wgmma_mma_async_m64n128k16_f32_bf16_bf16_ss");
  CHECK(to_string(MmaAtom::wgmma(s32, s8, u8, 8).layout_c()) == "((4,8,4),(2,2)):((128,1,16),(64,8))");

  auto a_of = [](DType d, DType ab) {
    return to_string(MmaAtom::wgmma_a_in_registers(d, ab, ab, 64).layout_a());
  };
  CHECK(a_of(f16, f16) == "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))");
  CHECK(a_of(f32, tf32) == "((4,8,4),(2,2)):((64,1,16),(8,256))");
  CHECK(a_of(f32, e4m3) == "((4,8,4),(4,2,2)):((256,1,16),(64,8,1024))");
  CHECK(MmaAtom::wgmma_a_in_registers(f32, e4m3, e5m2, 64).row().name ==
        "wgmma_mma_async_m64n64k32_f32_e4m3_e5m2_rs");
}

TEST_CASE("layouts of mma.sync equal CuTe's") {
  MmaAtom atom = MmaAtom::mma_sync(f32, bf16, bf16, 16);
  CHECK(to_string(atom.layout_a()) == "((4,8),(2,2,2)):((32,1),(16,8,128))");
  CHECK(to_string(atom.layout_b()) == "((4,8),(2,2)):((16,1),(8,64))");
  CHECK(to_string(atom.layout_c()) == "((4,8),(2,2)):((32,1),(16,8))");
  CHECK(to_string(MmaAtom::mma_sync(f16, f16, f16, 8).layout_b()) == "((4,8),2):((16,1),8)");
  CHECK(to_string(MmaAtom::mma_sync(f32, tf32, tf32, 4).layout_a()) == "((4,8),2):((16,1),8)");
  CHECK(to_string(MmaAtom::mma_sync(s32, s8, s8, 32).layout_a()) == "((4,8),(4,2,2)):((64,1),(16,8,256))");
}

TEST_CASE("every element is held, and once") {
  for (DType type : {f16, bf16, tf32, e4m3, e5m2, s8, u8}) {
    DType d = type == s8 || type == u8 ? s32 : f32;
    for (int n : {8, 24, 64, 256}) {
      MmaAtom ss = MmaAtom::wgmma(d, type, type, n), rs = MmaAtom::wgmma_a_in_registers(d, type, type, n);
      check_covers(ss.layout_a(), 64 * ss.k(), 128, 128);
      check_covers(rs.layout_a(), 64 * rs.k(), 128, 1);
      check_covers(rs.layout_b(), n * rs.k(), 128, 128);
      check_covers(rs.layout_c(), 64 * n, 128, 1);
    }
    for (int bytes : {16, 32}) {
      MmaAtom atom = MmaAtom::mma_sync(d, type, type, bytes / size_of(type));
      check_covers(atom.layout_a(), 16 * atom.k(), 32, 1);
      check_covers(atom.layout_b(), 8 * atom.k(), 32, 1);
      check_covers(atom.layout_c(), 16 * 8, 32, 1);
    }
  }
}

// PTX ISA, wgmma.mma_async, "Register Fragments": D, and A with elements of `bytes` bytes.
TEST_CASE("registers of wgmma have the elements of the manual") {
  auto check = [](const RegisterLayout& layout, int beside) {
    CAPTURE(layout.describe());
    REQUIRE(layout.values() == layout.elements() / 128);
    const int of_block = 64 * layout.cols() / 128;
    for (int t = 0; t < 128; ++t)
      for (int v = 0; v < layout.values(); ++v) {
        const int lane = t % 32, in_block = v % of_block, word = in_block / beside;
        const int row = 64 * (v / of_block) + 16 * (t / 32) + lane / 4 + 8 * (word % 2);
        const int col = beside * (lane % 4) + in_block % beside + 4 * beside * (word / 2);
        if (layout.row(t, v) != row || layout.col(t, v) != col)
          FAIL_CHECK("thread " << t << ", value " << v << ": " << layout.row(t, v) << ", "
                               << layout.col(t, v));
      }
  };
  for (int m : {64, 128, 192})
    for (int n : {8, 16, 24, 128, 256}) check(wgmma_layout(m, n), 2);
  for (DType type : {f16, bf16, tf32, e4m3, e5m2, s8, u8})
    for (int steps : {1, 2, 3, 8}) check(wgmma_a(type, 64, steps * 32 / size_of(type)), 4 / size_of(type));
  for (int m : {64, 192}) {
    RegisterLayout rows = wgmma_row(m);
    CHECK(rows.values() == m / 32);
    for (int t = 0; t < 128; ++t)
      for (int v = 0; v < rows.values(); ++v)
        CHECK(rows.row(t, v) == 64 * (v / 2) + 16 * (t / 32) + t % 32 / 4 + 8 * (v % 2));
  }
  for (int n : {8, 64}) {
    RegisterLayout cols = wgmma_col(n);
    CHECK(cols.values() == n / 4);
    for (int t = 0; t < 128; ++t)
      for (int v = 0; v < cols.values(); ++v) CHECK(cols.col(t, v) == 8 * (v / 2) + 2 * (t % 4) + v % 2);
  }
}

TEST_CASE("tiles of a CTA: counts, descriptors and advances") {
  using Bytes = std::vector<int>;
  MmaAtom atom = MmaAtom::wgmma(f32, f16, f16, 128, Major::k, Major::mn);
  WgmmaOperand b(f16, Major::mn, Swizzle::b128, 128, 64);
  TiledMma small(atom, WgmmaOperand(f16, Major::k, Swizzle::b128, 64, 64), b);
  CHECK(small.count() == std::array{1, 1, 4});
  CHECK(small.advances_m() == Bytes{0});
  TiledMma tiled(atom, WgmmaOperand(f16, Major::k, Swizzle::b128, 128, 64), b);
  CHECK(tiled.count() == std::array{2, 1, 4});
  CHECK(tiled.advances_k_a() == Bytes{0, 32, 64, 96});
  CHECK(tiled.advances_k_b() == Bytes{0, 2048, 4096, 6144});
  CHECK(tiled.advances_m() == Bytes{0, 8192});
  CHECK(tiled.advances_n() == Bytes{0});
  CHECK(tiled.descriptor_a(0, 0).encode() == 0x4000004000010000);
  CHECK(tiled.descriptor_a(1, 3, 1024).encode() == 0x4000004000010000 + ((1024 + 8192 + 96) >> 4));
  CHECK(tiled.descriptor_b(0, 1).encode() == 0x4000004002000000 + (2048 >> 4));

  TiledMma halves(MmaAtom::wgmma(f32, f16, f16, 64, Major::k, Major::mn),
                  WgmmaOperand(f16, Major::k, Swizzle::b128, 64, 64), b);
  CHECK(halves.count() == std::array{1, 2, 4});
  CHECK(halves.advances_n() == Bytes{0, 8192});
  CHECK(halves.descriptor_b(1, 0).start_address == 8192);

  TiledMma from_registers(MmaAtom::wgmma_a_in_registers(f32, f16, f16, 128, Major::mn), 192, b);
  CHECK(from_registers.count() == std::array{3, 1, 4});
  CHECK_ERROR(from_registers.descriptor_a(0, 0), "A is in registers and has no descriptor");
}

TEST_CASE("plans that do not fit, each with one that does") {
  WgmmaOperand a(f16, Major::k, Swizzle::b128, 128, 64), b(f16, Major::mn, Swizzle::b128, 128, 64);
  MmaAtom atom = MmaAtom::wgmma(f32, f16, f16, 128, Major::k, Major::mn);
  CHECK(error_of([&] { TiledMma(atom, a, b); }) == "");
  CHECK_ERROR(TiledMma(MmaAtom::wgmma(f32, f16, f16, 128), a, b),
              "B is MN-major f16 128x64 with 128 B swizzle, but the instruction needs K-major f16");
  CHECK_ERROR(TiledMma(MmaAtom::wgmma(f32, bf16, bf16, 128, Major::k, Major::mn), a, b),
              "the instruction needs MN-major bf16");
  CHECK_ERROR(TiledMma(MmaAtom::wgmma(f32, f16, f16, 256, Major::k, Major::mn), a, b),
              "B is MN-major f16 128x64 with 128 B swizzle, but the instruction needs multiples of 256x16");
  CHECK_ERROR(TiledMma(atom, WgmmaOperand(f16, Major::k, Swizzle::b128, 72, 64), b),
              "m is 72, but must be a multiple of");
  CHECK_ERROR(TiledMma(atom, WgmmaOperand(f16, Major::k, Swizzle::b128, 64, 128), b),
              "both must have the same k");
  CHECK_ERROR(TiledMma(MmaAtom::wgmma_a_in_registers(f32, f16, f16, 128, Major::mn), a, b),
              "but the instruction reads A from registers");
  CHECK_ERROR(TiledMma(MmaAtom::mma_sync(f32, f16, f16, 16), 16, b), "reads B from registers");
  CHECK_ERROR(MmaAtom::wgmma(f32, e4m3, e4m3, 64, Major::mn), "e4m3 cannot be MN-major");
  CHECK_ERROR(MmaAtom::wgmma(f32, tf32, tf32, 64, Major::k, Major::mn), "tf32 cannot be MN-major");
  CHECK_ERROR(MmaAtom::wgmma(f16, bf16, bf16, 64), "f16, e4m3 or e5m2 (d = f16)");
  CHECK_ERROR(MmaAtom::mma_sync(f32, f16, f16, 32), "m16n8k32.row.col.f32.f16.f16.f32 does not exist; k is ");
  // Instructions of 32 columns take half an atom of B. The Error names this file.
  TiledMma narrow(MmaAtom::wgmma(f32, f16, f16, 32, Major::k, Major::mn), a, b);
  CHECK_ERROR(narrow.descriptor_b(0, 0), "(mma_atom_test.cpp:");
  CHECK_ERROR(narrow.advances_n(), "(mma_atom_test.cpp:");
}

}  // namespace ptxbuilder::test::mma_atom_test
