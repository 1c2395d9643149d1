// Compares bank conflicts of copies to and from shared memory with an independent count, and tests the
// planner's choices.
#include <fmt/format.h>

#include <map>
#include <set>

#include "error_kit.h"
#include "ptxbuilder/plan/bank_conflicts.h"
#include "ptxbuilder/plan/mma_atom.h"
#include "ptxbuilder/plan/tensor_copy.h"

namespace ptxbuilder::test::bank_conflict_test {
using enum DType;

namespace {

// Returns the wavefronts of one phase of accesses, each `bytes` wide, by sorting (bank, word) pairs.
int wavefronts(const std::vector<int64_t>& addresses, int bytes) {
  std::set<std::pair<int64_t, int64_t>> touched;
  for (int64_t a : addresses)
    for (int64_t byte = a; byte < a + bytes; ++byte) touched.insert({byte / 4 % 32, byte / 4});
  std::map<int64_t, int> of_bank;
  int most = 0;
  for (auto [bank, word] : touched) most = std::max(most, ++of_bank[bank]);
  return most;
}

// Returns the layout of a wgmma's accumulators: 64 rows, n columns.
Layout accumulators(int n) { return MmaAtom::wgmma(f32, bf16, bf16, n).layout_c(); }

// Returns the layout of a 16-bit A of mma.sync or wgmma in registers: 64 rows, k columns.
Layout fragments(int k) {
  Layout one = MmaAtom::wgmma_a_in_registers(f32, bf16, bf16, 8).layout_a();
  return repeated(one, {}, {{k / 16, 64 * 16}});
}

}  // namespace

TEST_CASE("accumulators as 16-bit elements: stmatrix without conflicts, at every width of wgmma") {
  for (DType type : {f16, bf16})
    for (int n = 8; n <= 256; n += 8) {
      CAPTURE(n);
      // The boxes of the epilogue are as wide as the widest swizzle that divides a row.
      TransferPlan plan = plan_store(type, accumulators(n), TensorCopy(type, {64, n}).shared_layout());
      CHECK(plan.copy.atom() == CopyAtom::stmatrix(n % 16 == 0 ? 4 : 2));
      CHECK(plan.cost.conflicts() == 0);
      CHECK(plan.cost.ways == 1);
      CHECK(plan.cost.phases == 64 * n * 2 / 128);  // every byte once
    }
}

TEST_CASE("accumulators stored transposed: stmatrix.trans without conflicts") {
  for (DType type : {f16, bf16})
    for (int n = 8; n <= 256; n += 8) {
      CAPTURE(n);
      // D^T has n rows of 64 elements. Element (i, j) becomes (j, i).
      Layout transposed = composition(make_layout({64, n}, {n, 1}), accumulators(n));
      TransferPlan plan = plan_store(type, transposed, panel_layout(type, n, 64, Swizzle::b128));
      CHECK(plan.copy.atom() == CopyAtom::stmatrix(n % 16 == 0 ? 4 : 2, true));
      CHECK(plan.cost.conflicts() == 0);
    }
}

// 64 elements are two adjacent boxes of 128 bytes, which are as high as their buffer allows.
TEST_CASE("accumulators stored transposed as f32: one word a thread, without conflicts") {
  for (int n = 32; n <= 256; n += 32) {
    CAPTURE(n);
    Layout transposed = composition(make_layout({64, n}, {n, 1}), accumulators(n));
    ComposedLayout boxes{upcast(byte_swizzle(Swizzle::b128), 4), 0,
                         make_layout({{32, n / 32}, {32, 2}}, {{32, 2048}, {1, 1024}})};
    TransferPlan plan = plan_store(f32, transposed, boxes);
    CHECK(plan.copy.atom() == CopyAtom::vector(4));
    CHECK(plan.cost.conflicts() == 0);
    CHECK(plan.cost.phases == 64 * n * 4 / 128);
  }
}

// A half-warp holds 4 rows of 32 bytes, and the swizzle exchanges chunks of 16 bytes. Therefore, two rows use
// the same banks.
TEST_CASE("accumulators as f32: pairs in vectors of 8 bytes, 2-way except for the narrowest") {
  for (int n = 8; n <= 256; n += 8) {
    CAPTURE(n);
    TransferPlan plan = plan_store(f32, accumulators(n), TensorCopy(f32, {64, n}).shared_layout());
    CHECK(plan.copy.atom() == CopyAtom::vector(8));
    CHECK(plan.cost.phases == 64 * n * 4 / 128);
    const int ways = n % 16 == 0 ? 2 : 1;
    CHECK(plan.cost.ways == ways);
    CHECK(plan.cost.wavefronts == ways * plan.cost.phases);
  }
}

// Odd rows use the groups of columns in a different order.
TEST_CASE("accumulators as f32 in exchanged order: free of conflicts at every width") {
  for (int n = 8; n <= 256; n += 8) {
    CAPTURE(n);
    const Layout held = accumulators(n);
    std::vector<int64_t> pairs;
    for (int64_t v = 0; v < size(held[1]); v += 2) pairs.push_back(held[1](v));
    const ThreadAccess plain(TensorCopy(f32, {64, n}).shared_layout(), 4, held[0], pairs);
    const ThreadAccess best = with_fewest_conflicts(plain, 8);
    const AccessCost cost = access_cost(best, 8);
    CHECK(access_cost(plain, 8).ways == (n % 16 == 0 ? 2 : 1));
    CHECK(best.exchange().has_value() == (n % 16 == 0));
    CHECK(cost.ways == 1);
    CHECK(cost.wavefronts == 64 * n * 4 / 128);
    // The accesses are the same, and each occurs once.
    std::set<int64_t> all;
    for (int t = 0; t < 128; ++t)
      for (int i = 0; i < best.accesses(); ++i) {
        all.insert(best.address(t, i));
        const int made = best.exchange() ? best.exchange()->made(t, i) : i;
        if (best.address(t, i) != plain.address(t, made)) FAIL_CHECK("thread " << t << ", access " << i);
      }
    CHECK(all.size() == static_cast<size_t>(32 * n));
  }
}

TEST_CASE(
    "fragments with ldmatrix: free of conflicts under each swizzle, and without one as bad as the rows are "
    "wide") {
  for (auto [swizzle, cols] :
       {std::pair{Swizzle::b32, 16}, {Swizzle::b64, 32}, {Swizzle::b128, 64}, {Swizzle::b128, 128}}) {
    CAPTURE(cols);
    TransferPlan plan = plan_load(bf16, fragments(cols), panel_layout(bf16, 64, cols, swizzle));
    CHECK(plan.copy.atom() == CopyAtom::ldmatrix(4));
    CHECK(plan.cost.conflicts() == 0);
    CHECK_NOTHROW(check_conflict_free(plan.copy));
  }
  for (auto [cols, ways] : {std::pair{8, 1}, {16, 2}, {32, 4}, {64, 8}, {128, 8}}) {
    CAPTURE(cols);
    Layout held =
        cols == 8 ? Layout(make_layout({{4, 8, 4}, {2, 2}}, {{128, 1, 16}, {64, 8}})) : fragments(cols);
    TiledCopy copy(CopyAtom::ldmatrix(2), bf16, held, panel_layout(bf16, 64, cols, Swizzle::none));
    AccessCost cost = access_cost(copy);
    CHECK(cost.ways == ways);
    CHECK(cost.wavefronts == ways * cost.phases);
    if (ways > 1) {
      CHECK(cost.worst == fmt::format("threads 0 to 7, access 0: {} wavefronts", ways));
      CHECK_ERROR(check_conflict_free(copy),
                  fmt::format("{} bank conflicts in {} phases", cost.conflicts(), cost.phases));
    }
  }
}

TEST_CASE("a column of 4-byte elements: 32-way with rows of 128 bytes, free with a padded row") {
  for (auto [stride, ways] : {std::pair{32, 32}, {33, 1}, {34, 2}, {36, 4}, {48, 16}}) {
    CAPTURE(stride);
    ComposedLayout memory{byte_swizzle(Swizzle::none), 0, make_layout({32, 32}, {stride, 1})};
    TiledCopy column(CopyAtom::vector(4), f32, make_layout({32, 32}, {1, 32}), memory);
    CHECK(access_cost(column).ways == ways);
    CHECK(access_cost(column).wavefronts == 32 * ways);
    TiledCopy row(CopyAtom::vector(4), f32, make_layout({32, 32}, {32, 1}), memory);
    CHECK(access_cost(row).conflicts() == 0);
  }
}

TEST_CASE("threads that read the same word share a wavefront") {
  TiledCopy same(CopyAtom::vector(4), f32, make_layout({32, 1}, {0, 0}),
                 panel_layout(f32, 1, 4, Swizzle::none));
  CHECK(access_cost(same).wavefronts == 1);
  // Accesses to bytes of the same words have no conflict either.
  TiledCopy bytes(CopyAtom::vector(1), u8, make_layout({32, 1}, {1, 0}),
                  panel_layout(u8, 1, 32, Swizzle::none));
  CHECK(access_cost(bytes).wavefronts == 1);
}

TEST_CASE("the count is that of all bytes, phase by phase") {
  struct Phases {
    CopyAtom atom;
    int lanes, used;
  };
  for (Swizzle swizzle : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128})
    for (Phases p : {Phases{CopyAtom::vector(16), 8, 32},
                     {CopyAtom::vector(8), 16, 32},
                     {CopyAtom::vector(4), 32, 32},
                     {CopyAtom::vector(2), 32, 32},
                     {CopyAtom::cp_async(16), 8, 32},
                     {CopyAtom::cp_async(4), 32, 32}}) {
      const int elements = p.atom.bytes() / 2;
      Layout held = threads_along_rows(64, 64, 64, elements);
      TiledCopy copy(p.atom, bf16, held, panel_layout(bf16, 64, 64, swizzle));
      CAPTURE(p.atom.describe());
      int total = 0, phases = 0;
      for (int warp = 0; warp < 64; warp += 32)
        for (int access = 0; access < copy.accesses(); ++access)
          for (int lane = 0; lane < p.used; lane += p.lanes, ++phases) {
            std::vector<int64_t> addresses;
            for (int l = lane; l < lane + p.lanes; ++l) addresses.push_back(copy.address(warp + l, access));
            total += wavefronts(addresses, p.atom.bytes());
          }
      CHECK(access_cost(copy).phases == phases);
      CHECK(access_cost(copy).wavefronts == total);
    }
}

TEST_CASE("the planner uses vectors if no matrix fits, and reports if nothing does") {
  // Rows have 8 bytes, but a row of a matrix has 16 bytes.
  Layout pieces = make_layout({32, 4}, {1, 32});  // a thread holds a row of 4 elements
  TransferPlan plan = plan_store(bf16, pieces, panel_layout(bf16, 32, 4, Swizzle::none));
  CHECK(plan.copy.atom() == CopyAtom::vector(8));
  CHECK(plan.cost.conflicts() == 0);
  // The elements have 32 bits in rows of 16 bytes. ldmatrix moves these rows whatever the width of an
  // element.
  Layout words = make_layout({32, 2}, {1, 32});
  auto without = [](Layout layout) {
    return ComposedLayout{byte_swizzle(Swizzle::none), 0, std::move(layout)};
  };
  CHECK(plan_load(f32, words, without(make_layout({32, 2}))).copy.atom() == CopyAtom::ldmatrix(2));
  // If elements are in every second word, they move one at a time, and two of them share a bank.
  plan = plan_load(f32, words, without(make_layout({32, 2}, {2, 64})));
  CHECK(plan.copy.atom() == CopyAtom::vector(4));
  CHECK(plan.cost.ways == 2);
  CHECK_ERROR(plan_store(f32, make_layout({32, 4}, {1, 32}), panel_layout(f32, 16, 4, Swizzle::none)),
              "plan_store: no instruction moves f32");
}

}  // namespace ptxbuilder::test::bank_conflict_test
