// Proves the matrix product correct in all of its forms, with its tuned tiles, and with stores by threads.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "error_kit.h"
#include "kernels/gemm/kernel.h"
#include "library_kit.h"
#include "proof_kit.h"
#include "ptxbuilder/analysis/lint.h"
#include "ptxbuilder/analysis/loop_work.h"
#include "ptxbuilder/analysis/prove_schedules.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::test::gemm_proof_test {

TEST_CASE("a matrix product is proved if threads store what TMA cannot") {
  for (const char* tile : {"128x256x64_4_2x1", "64x128x64_8_1x2_pp_swap", "128x64_s4"}) {
    kernels::GemmOperation o;
    o.d_by_threads = true;
    Kernel kernel = kernels::gemm(o, kernels::parse_tile(tile));
    kernel.builder().finish();
    const Proof proof = prove(kernel.record());
    CHECK_MESSAGE(proof, tile << ": " << text_of(proof));
    CHECK(proof.unproved.empty());
    CHECK(elements_of(proof, "store: ") > 0);  // these are TMA's stores; threads store without a tile
  }
}

TEST_CASE("every tuned matrix product is proved") {
  struct Row {
    DType a, d;
    std::string layout, tile;
  };
  const std::vector<Row> rows = {
#define PTXBUILDER_TUNED(a, d, layout, m, n, k, tile) {DType::a, DType::d, layout, tile},
#include "kernels/gemm/tuned.def"
#undef PTXBUILDER_TUNED
  };
  std::vector<std::string> seen;
  for (const Row& row : rows) {
    const std::string key = fmt::format("{} {} {} {}", name(row.a), name(row.d), row.layout, row.tile);
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    seen.push_back(key);
    kernels::GemmOperation o;
    o.a = o.b = row.a;
    o.d = row.d;
    o.b_k_major = row.layout[0] == 'T';
    o.a_k_major = row.layout[1] == 'N';
    Kernel kernel = kernels::gemm(o, kernels::parse_tile(row.tile));
    kernel.builder().finish();
    Proof proof = prove(kernel.record());
    CHECK_MESSAGE(proof, key << ": " << text_of(proof));
    CHECK(proof.unproved.empty());
    CHECK(elements_of(proof, "mma: ") > 0);
    CHECK(elements_of(proof, "store: accumulators") > 0);
  }
  CHECK(seen.size() > 30);
}

// Tests all types, majors, exchanged operands, widths and clusters of the kernel. A form that the kernel
// refuses to build cannot be proved.
TEST_CASE("gemm is proved in all of its forms") {
  int built = 0, refused = 0;
  auto check = [&](const Values& values) {
    KernelRecord record;
    try {
      record = record_of("gemm", values);
    } catch (const Error&) {
      ++refused;
      return;
    }
    Proof proof = prove(record);
    CHECK_MESSAGE(proof, record.kernel << ": " << text_of(proof));
    CHECK(proof.unproved.empty());
    CHECK(elements_of(proof, "mma: ") > 0);
    ++built;
  };
  constexpr int outputs[] = {0, 1, 2, 0,
                             0, 3, 3};  // bf16, f16, tf32, e4m3, e5m2, s8 and u8 give these types of D
  // Each combination uses every second or every fourth width, so that each width occurs with every type, with
  // all majors, and swapped or not.
  constexpr int widths[] = {8, 40, 64, 96, 128, 192, 200, 256};
  for (int type = 0; type < 7; ++type)
    for (int majors = 0; majors < 4; ++majors)
      for (int swapped : {0, 1})
        for (int width = 0; width < 8; ++width) {
          const bool is_narrow = type < 2;  // 16 bits; other types are refused except with one of the majors
          if (is_narrow ? (width + majors + 2 * swapped + type) % 4 != 0 : (width + type) % 2 != swapped)
            continue;
          check({{"a", type},
                 {"d", outputs[type]},
                 {"a_major", majors & 1},
                 {"b_major", majors >> 1},
                 {"swapped", swapped},
                 {"bn", widths[width]},
                 {"stages", 2}});
        }
  for (int majors = 0; majors < 4; ++majors)
    for (auto [x, y] : {std::pair{2, 1}, {1, 2}, {2, 2}, {4, 1}})
      check({{"a_major", majors & 1},
             {"b_major", majors >> 1},
             {"bn", 128},
             {"cluster_m", x},
             {"cluster_n", y},
             {"stages", 2}});
  for (const Values& values :
       {Values{{"pingpong", 1}, {"bn", 128}},
        {{"split_k", 4}, {"bn", 128}},
        {{"split_k", 4}, {"bn", 112}, {"cluster_m", 2}},  // their parts overlap
        {{"consumers", 1}, {"bm", 64}},
        {{"consumers", 3}, {"bm", 192}, {"bn", 192}},
        {{"bk", 32}},
        {{"bk", 128}, {"stages", 2}},
        {{"batches", 3}},
        {{"activation", 2}, {"alpha", 1}, {"beta", 1}, {"bias", 1}, {"bn", 128}},
        {{"bm", 256}, {"bn", 128}},
        {{"bm", 256}, {"bn", 128}, {"a_major", 1}},
        {{"a_rows", 1}, {"bn", 128}, {"stages", 2}},
        {{"a_rows", 1}, {"bn", 40}, {"swapped", 1}, {"stages", 2}},
        {{"a_rows", 1}, {"bn", 128}, {"cluster_m", 2}, {"stages", 3}},
        {{"a_rows", 1}, {"bn", 64}, {"swapped", 1}, {"cluster_n", 4}, {"stages", 1}},
        {{"a_rows", 1}, {"a", 3}, {"a_scales_1x128", 1}, {"b_scales_128x128", 1}, {"bn", 128}, {"stages", 3}},
        {{"d_rows", 1}, {"bn", 128}, {"stages", 2}},
        {{"add_to_rows", 1}, {"bn", 128}, {"stages", 2}},
        {{"packed", 1}, {"swapped", 1}, {"bn", 64}, {"group_ends", 1}, {"batches", 3}, {"stages", 2}},
        {{"packed", 1},
         {"swapped", 1},
         {"bn", 64},
         {"group_ends", 1},
         {"batches", 3},
         {"a_rows", 1},
         {"stages", 2}},
        {{"group_counts", 1}, {"batches", 4}, {"bn", 128}, {"stages", 2}},
        {{"group_counts", 1}, {"batches", 4}, {"bn", 64}, {"swapped", 1}, {"cluster_m", 2}, {"stages", 2}},
        {{"group_ends", 1},
         {"batches", 4},
         {"b_addresses", 1},
         {"b_major", 1},
         {"cluster_m", 2},
         {"stages", 2}},
        {{"group_ends", 1}, {"batches", 4}, {"b_addresses", 1}, {"bn", 64}, {"swapped", 1}, {"stages", 2}},
        {{"packed", 1}, {"swapped", 1}, {"bn", 64}, {"group_ends", 1}, {"split_last", 4}, {"stages", 2}},
        {{"add_to_rows", 1}, {"bn", 40}, {"swapped", 1}, {"d", 2}, {"stages", 2}},
        {{"pingpong", 1}, {"bn", 168}, {"cluster_m", 2}},  // stored twice, and shared in pieces of 84 rows
        {{"bn", 88}, {"cluster_m", 4}},
        {{"bn", 136}, {"swapped", 1}, {"cluster_m", 4}},
        {{"a_metadata", 1}, {"bn", 256}},
        {{"a_metadata", 1}, {"bm", 256}, {"bn", 192}, {"cluster_m", 2}, {"cluster_n", 2}},
        {{"a_metadata", 1}, {"bk", 128}, {"bn", 192}, {"consumers", 3}, {"bm", 192}, {"stages", 2}},
        {{"a_metadata", 1}, {"a", 3}, {"d", 2}, {"bn", 128}, {"pingpong", 1}},
        {{"a_metadata", 1}, {"b_major", 1}, {"bn", 128}, {"split_last", 4}},
        {{"b_metadata", 1}, {"swapped", 1}, {"bn", 320}},
        {{"b_metadata", 1}, {"swapped", 1}, {"a_major", 1}, {"bn", 128}, {"batches", 2}}})
    check(values);
  const int before = built;
  for (int output : {0, 1, 2})  // bf16, f16, f32
    for (int bn : {64, 208, 256})
      check({{"d", output}, {"activation", 2}, {"use", 2}, {"bn", bn}, {"stages", 2}});
  CHECK(built == before + 9);
  MESSAGE(built << " kernels proved, " << refused << " refused");
  CHECK(built > 80);
}

// The rows of an operand, and likewise its depth, may consist of two modes, which are loaded as a box. A
// stage of windows consists of pixels. Threads load and store the rows that an index selects.
TEST_CASE("products of boxes of two modes, of windows, and of rows by an index are proved") {
  const auto check = [](const char* tile, const std::function<void(kernels::GemmOperation&)>& set) {
    kernels::GemmOperation o;
    set(o);
    Kernel kernel = kernels::gemm(o, kernels::parse_tile(tile));
    kernel.builder().finish();
    const Proof proof = prove(kernel.record());
    CHECK_MESSAGE(proof, tile << ": " << text_of(proof));
    CHECK(elements_of(proof, "mma: ") > 0);
    return proof.unproved.empty();
  };
  for (const int k_box : {16, 32})
    for (const bool k_major : {true, false})
      CHECK(check("128x128x64_4_1x2", [&](auto& o) {
        o.k_modes = 2, o.k_box = static_cast<uint8_t>(k_box), o.a_k_major = k_major, o.b_k_major = true;
      }));
  CHECK(check("128x128x64_4",
              [](auto& o) { o.m_modes = o.k_modes = 2, o.m_box = 16, o.k_box = 32, o.b_k_major = true; }));
  CHECK(check("128x128x64_4", [](auto& o) { o.windows = kernels::WindowsOf::a, o.k_modes = 3; }));
  CHECK(check("128x128x64_4", [](auto& o) { o.group_ends = o.a_rows = o.d_rows = true; }));
}

TEST_CASE("boxes of k that wgmma cannot read, or that do not go with the rest, are refused") {
  const auto build = [](int k_box, int k_modes, bool with_groups) {
    return [=] {
      kernels::GemmOperation o;
      o.k_box = static_cast<uint8_t>(k_box), o.k_modes = static_cast<uint8_t>(k_modes);
      o.group_ends = with_groups;
      kernels::gemm(o, kernels::parse_tile("128x128x64_4"));
    };
  };
  CHECK_NOTHROW(build(16, 2, false)());
  CHECK_ERROR(build(8, 2, false)(),
              "gemm: a box has 8 bf16 along the first of 2 modes of k, but must have 32 or 64 B");
  CHECK_ERROR(build(16, 1, false)(), "gemm: a box has 16 bf16 along the first of 1 modes of k");
  CHECK_ERROR(build(16, 2, true)(),
              "gemm: boxes along two modes of k cannot be used with windows, groups, gathered rows");
}

TEST_CASE("a sparse product is proved for all schedules, and uses half of the tensor cores' clocks") {
  const auto ptx_with = [](bool is_sparse) {
    kernels::GemmOperation o;
    o.a_metadata = is_sparse;
    Kernel kernel = kernels::gemm(o, kernels::parse_tile("128x256x64_3"));
    return ptx_of(kernel);
  };
  const std::string sparse = ptx_with(true);
  const ptx_text::Module module = ptx_text::parse(sparse);
  const analysis::ScheduleProof proof = analysis::prove_schedules(module);
  CHECK_MESSAGE(proof.verdict == analysis::ScheduleProof::Verdict::proved, text(proof));
  CHECK(analysis::lint(module).empty());
  const auto work_of = [](const std::string& ptx) {
    const std::vector<analysis::LoopWork> all = analysis::loop_work(analysis::KernelAnalysis(ptx));
    return *std::ranges::find_if(all, [](const analysis::LoopWork& work) { return work.flops > 0; });
  };
  const analysis::LoopWork work = work_of(sparse), dense = work_of(ptx_with(false));
  CHECK(work.flops == dense.flops);
  CHECK(work.tensor_clocks == dense.tensor_clocks / 2);
  CHECK(work.read_bytes == 2 * 2 * (64 * 32 + 256 * 64));  // two wgmmas of each of two warpgroups
}

}  // namespace ptxbuilder::test::gemm_proof_test
