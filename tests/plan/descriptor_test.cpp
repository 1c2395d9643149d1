// Tests descriptors of matrices in shared memory against known answers and CuTe's descriptors. Compares the
// hardware's address sequence with the layout, for every type, majorness, swizzle, tile and order of atoms.
#include "ptxbuilder/plan/descriptor.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <functional>
#include <sstream>

#include "error_kit.h"
#include "ptxbuilder/plan/tiled_copy.h"

namespace ptxbuilder::test::descriptor_test {
namespace {

constexpr std::array kTypes = {DType::f16,  DType::bf16, DType::tf32, DType::e4m3,
                               DType::e5m2, DType::s8,   DType::u8};
constexpr std::array kSwizzles = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};

// Calls `visit` with every legal operand, over a range of extents.
template <class Body>
int for_each_operand(Body body) {
  int count = 0;
  for (DType type : kTypes)
    for (Major major : {Major::k, Major::mn})
      for (Swizzle swizzle : kSwizzles)
        for (int mn : {8, 16, 24, 64, 96, 128, 192, 256})
          for (int k : {8, 16, 32, 48, 64, 128, 256})
            for (AtomOrder order : {AtomOrder::mn_first, AtomOrder::k_first}) {
              int span = swizzle == Swizzle::none ? 16 : span_bytes(swizzle);
              bool k_major = major == Major::k;
              if (!k_major && size_of(type) != 2) continue;
              if ((k_major ? k : mn) * size_of(type) % span || k * size_of(type) % 32) continue;
              if (mn * k * size_of(type) > 227 * 1024) continue;  // larger than shared memory
              ++count;
              body(WgmmaOperand(type, major, swizzle, mn, k, order));
            }
  return count;
}

uint64_t bits(Major major, int mn, int k, Swizzle swizzle) {
  return WgmmaOperand(DType::f16, major, swizzle, mn, k).descriptor().encode();
}

Swizzle swizzle_of(int span) {
  for (Swizzle s : kSwizzles)
    if (span_bytes(s) == span) return s;
  throw Error("no such swizzle");
}

}  // namespace

TEST_CASE("descriptors: known answers") {
  CHECK(bits(Major::k, 64, 64, Swizzle::b128) == 0x4000004000010000);
  CHECK(bits(Major::k, 128, 64, Swizzle::b128) == 0x4000004000010000);
  CHECK(bits(Major::mn, 128, 64, Swizzle::b128) == 0x4000004002000000);
  CHECK(bits(Major::k, 64, 32, Swizzle::b64) == 0x8000002000010000);
  CHECK(bits(Major::mn, 128, 32, Swizzle::b128) == 0x4000004001000000);

  using Bytes = std::vector<int>;
  WgmmaOperand a(DType::f16, Major::k, Swizzle::b128, 128, 64),
      b(DType::f16, Major::mn, Swizzle::b128, 128, 64);
  CHECK(a.advances_k() == Bytes{0, 32, 64, 96});
  CHECK(a.advances_mn(64) == Bytes{0, 8192});
  CHECK(b.advances_k() == Bytes{0, 2048, 4096, 6144});
  CHECK(b.advances_mn(128) == Bytes{0});
  CHECK(b.advances_mn(64) == Bytes{0, 8192});
  // The operand is two atoms deep. After 96, the next atom follows 128 rows of 128 bytes later or, with k
  // first, right after 8 rows.
  CHECK(WgmmaOperand(DType::f16, Major::k, Swizzle::b128, 128, 128).advances_k() ==
        Bytes{0, 32, 64, 96, 16384, 16416, 16448, 16480});
  CHECK(WgmmaOperand(DType::f16, Major::k, Swizzle::b128, 128, 128, AtomOrder::k_first).advances_k() ==
        Bytes{0, 32, 64, 96, 1024, 1056, 1088, 1120});
}

// The expected values were computed by hand from the manual's table "Shared memory descriptor layout" (PTX
// ISA, tcgen05): bits 48..46 are 0b001, and the swizzle in bits 63..61 is 0 for none, 2 for 128 B, 4 for 64 B
// and 6 for 32 B. Distances are in units of 16 bytes. LBO begins at bit 16, and SBO at bit 32.
TEST_CASE("descriptors of tcgen05: known answers") {
  auto bits = [](Major major, Swizzle swizzle, int mn, int k) {
    return WgmmaOperand(DType::f16, major, swizzle, mn, k).descriptor().encode_tcgen05();
  };
  // 8 rows of 128, 64 and 32 bytes take 1024, 512 and 256 bytes.
  CHECK(bits(Major::k, Swizzle::b128, 128, 64) == 0x4000'4040'0001'0000);
  CHECK(bits(Major::k, Swizzle::b64, 128, 32) == 0x8000'4020'0001'0000);
  CHECK(bits(Major::k, Swizzle::b32, 128, 16) == 0xc000'4010'0001'0000);
  // 8 rows of 16 bytes take 128 bytes. The next 16 bytes along k are 2048 bytes away, after 128 such rows.
  CHECK(bits(Major::k, Swizzle::none, 128, 64) == 0x0000'4008'0080'0000);
  // 64 columns with 64 of k take 8192 bytes, and 8 of k with 128 bytes each take 1024 bytes.
  CHECK(bits(Major::mn, Swizzle::b128, 256, 64) == 0x4000'4040'0200'0000);
  CHECK(MatrixDescriptor{.start_address = 0x12340, .base_offset = 5}.encode_tcgen05() ==
        0x000a'4000'0000'1234);
}

// The expected values were computed by hand from the table "Instruction descriptor format for .kind::tf32,
// .kind::f16, .kind::f8f6f4 and .kind::i8": the type of D in bits 5..4, of A in 9..7, of B in 12..10, A and B
// transposed in 15 and 16, N / 8 in 22..17, M / 16 in 28..24.
TEST_CASE("instruction descriptors of tcgen05: known answers, and refused ones") {
  using D = Tcgen05Descriptor;
  CHECK(D{.n = 256}.encode() == 0x0840'0010);
  CHECK(D{.a = DType::bf16, .b = DType::bf16, .n = 256}.encode() == 0x0840'0490);
  CHECK(D{.a = DType::bf16, .n = 16}.encode() == 0x0804'0090);
  CHECK(D{.b_major = Major::mn, .n = 128}.encode() == 0x0821'0010);
  CHECK(D{.a_major = Major::mn, .n = 128}.encode() == 0x0820'8010);
  CHECK(D{.d = DType::f16, .m = 64, .n = 8}.encode() == 0x0402'0000);
  auto error = [](D d) { return error_of([&] { static_cast<void>(d.encode()); }); };
  CHECK(error({.m = 256}).find("D has 256 rows, but one CTA multiplies 64 or 128") != std::string::npos);
  CHECK(error({.n = 8}).find("8 columns, but with 128 rows it must have a multiple of 16, at most 256") !=
        std::string::npos);
  CHECK(error({.m = 64, .n = 264}).find("with 64 rows it must have a multiple of 8, at most 256") !=
        std::string::npos);
  CHECK(error({.a = DType::tf32}).find("A is tf32, but .kind::f16 takes f16 and bf16") != std::string::npos);
  CHECK(error({.d = DType::f16, .b = DType::bf16}).find("D is f16; A and B must then be f16") !=
        std::string::npos);
}

// descriptor_oracle/cute.txt is the output of cute.cpp in the same folder.
TEST_CASE("descriptors, advances and counts equal CuTe's") {
  std::ifstream golden(PTXBUILDER_TEST_DIR "/plan/descriptor_oracle/cute.txt");
  std::string line;
  int lines = 0;
  while (std::getline(golden, line)) {
    CAPTURE(line);
    std::istringstream words(line);
    std::string type, major, order, side;
    int span, extent, k, blocks, depth;
    words >> type >> major >> span >> order >> side >> extent >> k >> blocks >> depth;
    WgmmaOperand whole(*dtype_from_name(type), major == "k" ? Major::k : Major::mn, swizzle_of(span), extent,
                       k, order == "k" ? AtomOrder::k_first : AtomOrder::mn_first);
    CHECK(name(whole.major()) == major);
    CHECK(whole.atom_stride_k() == whole.atom_bytes() * (order == "k" ? 1 : extent / whole.atom_mn()));
    int block = side == "a" ? 64 : extent;  // rows that one instruction reads
    WgmmaOperand part = whole.part(block);
    std::vector<int> along_mn = whole.advances_mn(block), along_k = whole.advances_k();
    REQUIRE(along_mn.size() == static_cast<size_t>(blocks));
    REQUIRE(along_k.size() == static_cast<size_t>(depth));
    for (int at_mn : along_mn)
      for (int at_k : along_k) {
        std::string expected;
        words >> expected;
        CHECK(fmt::format("{:016x}", part.descriptor(static_cast<uint32_t>(at_mn + at_k)).encode()) ==
              expected);
      }
    ++lines;
  }
  CHECK(lines == (4 * 4 * 2 * 3 + 5) * 2);
}

// This exhaustive test checks that an instruction reads exactly the elements of the layout through a
// descriptor.
TEST_CASE("the hardware's address sequence of a descriptor follows the layout") {
  uint32_t start = 3 * 1024;
  int wrong = 0;
  int count = for_each_operand([&](const WgmmaOperand& whole) {
    int block = whole.mn() % 64 == 0 ? 64 : whole.mn();
    WgmmaOperand part = whole.part(block);
    int size = size_of(whole.dtype());
    std::vector<int> along_mn = whole.advances_mn(block), along_k = whole.advances_k();
    for (size_t i = 0; i < along_mn.size(); ++i)
      for (size_t j = 0; j < along_k.size(); ++j) {
        MatrixDescriptor d = part.descriptor(start + static_cast<uint32_t>(along_mn[i] + along_k[j]));
        d = MatrixDescriptor::decode(d.encode());
        for (int mn = 0; mn < block; ++mn)
          for (int k = 0; k < whole.instruction_k(); ++k) {
            int expected = whole.offset(static_cast<int>(i) * block + mn,
                                        static_cast<int>(j) * whole.instruction_k() + k);
            wrong += d.address(whole.major(), size, mn, k) != start + static_cast<uint32_t>(expected);
          }
      }
  });
  CHECK(count > 700);
  CHECK(wrong == 0);
}

TEST_CASE("a layout puts every element in a place of its own, and fills its bytes") {
  for_each_operand([&](const WgmmaOperand& o) {
    if (o.mn() > 128 || o.k() > 128) return;
    std::vector<bool> taken(static_cast<size_t>(o.bytes()));
    int size = size_of(o.dtype()), wrong = 0;
    for (int mn = 0; mn < o.mn(); ++mn)
      for (int k = 0; k < o.k(); ++k) {
        size_t at = static_cast<size_t>(o.offset(mn, k));
        bool apart = at % static_cast<size_t>(size) == 0 && at < taken.size() && !taken[at];
        wrong += !apart;
        if (apart) taken[at] = true;
      }
    CHECK(wrong == 0);
  });
}

TEST_CASE("rows that are not atoms make no operand") {
  auto operand = [](int rows, Swizzle swizzle, int panel_cols = 0) {
    const ComposedLayout tile = panel_layout(DType::bf16, rows, 128, swizzle, panel_cols);
    const Layout eight = replace(tile.layout(), 0, composition(tile.layout()[0], make_layout(8)));
    WgmmaOperand(DType::bf16, Major::k, swizzle, tile.with(eight));
  };
  CHECK(error_of([&] { operand(16, Swizzle::b128); }) == "");
  CHECK_ERROR(operand(12, Swizzle::b128),
              "its panels are 1536 B, but must be a multiple of the 1024 B of 8 rows");
  CHECK(error_of([&] { operand(16, Swizzle::none, 8); }) == "");
  CHECK_ERROR(operand(16, Swizzle::none), "its rows are 256 B apart, but no swizzle has 16 B");
}

TEST_CASE("a part keeps its place") {
  WgmmaOperand whole(DType::bf16, Major::mn, Swizzle::b64, 128, 96);
  const ComposedLayout tile = panel_layout(DType::bf16, 96, 128, Swizzle::b64);  // k rows, in panels of 32
  const Layout rows = composition(tile.layout(), {32, {32, 2}});
  WgmmaOperand corner(DType::bf16, Major::mn, Swizzle::b64, tile.with(select(rows, {1, 0})));
  for (int mn = 0; mn < 64; ++mn)
    for (int k = 0; k < 32; ++k) CHECK(corner.offset(mn, k) == whole.offset(mn, k));
  CHECK(corner.descriptor() == whole.part(64).descriptor());
  CHECK(corner.advances_k() == std::vector<int>{0, 1024});
}

TEST_CASE("encode and decode are inverse, and refuse values without bits") {
  for (Swizzle swizzle : kSwizzles)
    for (uint32_t bytes : {0u, 16u, 1024u, 0x3fff0u})
      for (uint32_t base : {0u, 7u}) {
        MatrixDescriptor d = {bytes, bytes / 32 * 16, 0x3fff0 - bytes, base, swizzle};
        CHECK(MatrixDescriptor::decode(d.encode()) == d);
      }
  CHECK(MatrixDescriptor::decode(0x4000004000010000) == MatrixDescriptor{0, 16, 1024, 0, Swizzle::b128});
  CHECK(MatrixDescriptor{.start_address = 16}.encode() == 1);
  CHECK_ERROR((MatrixDescriptor{.start_address = 24}.encode()),
              "the start address is 24 B, but must be a multiple of 16 B below 256 KiB");
  CHECK_ERROR((MatrixDescriptor{.stride_byte_offset = 1 << 18}.encode()),
              "the stride byte offset is 262144 B");
  CHECK_ERROR((MatrixDescriptor{.base_offset = 8}.encode()), "the base offset is 8, but must be 0 to 7");
  CHECK_ERROR(MatrixDescriptor::decode(0x4000004000014000),
              "0x4000004000014000 sets the bits 0x0000000000004000, which must be 0");
  CHECK_ERROR(MatrixDescriptor::decode(uint64_t{1} << 52), "must be 0");
}

TEST_CASE("a descriptor in words") {
  MatrixDescriptor d = WgmmaOperand(DType::f16, Major::mn, Swizzle::b128, 128, 64).descriptor(2048);
  std::string text = d.explain(Major::mn);
  for (const char* part :
       {"layout type         1: 128 B swizzle", "0x40 * 16 = 1024 B: from 8 rows of k to the next 8",
        "0x200 * 16 = 8192 B: from 128 B along m or n to the next", "0x80 * 16 = 2048 B"}) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  }
  text = MatrixDescriptor::decode(0x4000004000010000).explain();
  CHECK(
      text.find(
          "1024 B; K-major: from 8 rows of m or n to the next 8; MN-major: from 8 rows of k to the next 8") !=
      std::string::npos);
}

TEST_CASE("operands that wgmma cannot read, each with one that it can") {
  auto operand = [](DType type, Major major, Swizzle swizzle, int mn, int k) {
    return [=] { WgmmaOperand(type, major, swizzle, mn, k); };
  };
  using enum Major;
  struct Case {
    std::function<void()> bad, good;
    const char* phrase;
  };
  const Case cases[] = {
      {operand(DType::f32, k, Swizzle::b128, 64, 32), operand(DType::tf32, k, Swizzle::b128, 64, 32),
       "the type is f32, but must be f16, bf16, tf32, e4m3, e5m2, s8 or u8"},
      {operand(DType::e4m3, mn, Swizzle::b128, 128, 64), operand(DType::f16, mn, Swizzle::b128, 128, 64),
       "e4m3 cannot be MN-major: wgmma only transposes 16-bit elements, but e4m3 has 8"},
      {operand(DType::tf32, mn, Swizzle::b128, 64, 64), operand(DType::tf32, k, Swizzle::b128, 64, 64),
       "tf32 cannot be MN-major: wgmma only transposes 16-bit elements, but tf32 has 32"},
      {operand(DType::f16, k, Swizzle::b128, 64, 32), operand(DType::f16, k, Swizzle::b64, 64, 32),
       "K-major f16 64x32 with 128 B swizzle: 32 f16 along k are 64 B, but must be a multiple of 128 B; the "
       "widest swizzle that fits is 64 B, or use 64 along k"},
      {operand(DType::bf16, mn, Swizzle::b64, 24, 64), operand(DType::bf16, mn, Swizzle::none, 24, 64),
       "24 bf16 along mn are 48 B, but must be a multiple of 64 B; no swizzle fits, or use 32 along mn"},
      {operand(DType::f16, k, Swizzle::b32, 12, 64), operand(DType::f16, k, Swizzle::b32, 16, 64),
       "12 along mn is not a multiple of 8; the nearest is 16"},
      {operand(DType::f16, mn, Swizzle::b128, 64, 24), operand(DType::f16, mn, Swizzle::b128, 64, 32),
       "24 along k is not a multiple of 16, the number in the 32 B of an instruction"},
      {operand(DType::f16, k, Swizzle::none, 64, 8), operand(DType::f16, k, Swizzle::none, 64, 16),
       "8 along k is not a multiple of 16"},
      {operand(DType::f16, k, Swizzle::b128, 0, 64), operand(DType::f16, k, Swizzle::b128, 8, 64),
       "0x64 with 128 B swizzle: there are no elements"},
      {[] { WgmmaOperand(DType::f16, mn, Swizzle::b128, 192, 64).part(96); },
       [] { WgmmaOperand(DType::f16, mn, Swizzle::b128, 192, 64).part(128); },
       "a part has 96 of the 192 elements along mn of MN-major f16 192x64 with 128 B swizzle, but must have "
       "a multiple of 64"},
      {[] { WgmmaOperand(DType::f16, mn, Swizzle::b128, 192, 64).advances_mn(96); },
       [] { WgmmaOperand(DType::f16, mn, Swizzle::b64, 192, 64).advances_mn(96); },
       "a block has 96 elements along mn, but the number must be a multiple of 64, the atom's extent, and "
       "divide 192"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.phrase);
    CHECK_ERROR(c.bad(), c.phrase);
    CHECK(error_of(c.good) == "");
  }
}

}  // namespace ptxbuilder::test::descriptor_test
