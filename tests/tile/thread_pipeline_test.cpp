// Tests stages of a pipeline that threads fill with cp.async or with stores, with or without tiles from TMA.
// wgmma reads the stages, and the result is compared with a product on the host.
//
//   thread_pipeline_test [--device=emulator|cuda|auto]
#include <fmt/format.h>

#include "bf16_kit.h"
#include "copy_kit.h"
#include "library_kit.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::test::thread_pipeline_test {
namespace {

constexpr int BM = 128, BN = 64, BK = 64, kStages = 3, kSteps = 5;

// The ways in which threads of a warpgroup fill their rows of A. B is loaded by TMA or cp.async.
enum class Fill : uint8_t { copies, stores, registers, both, addresses };

struct Form {
  Fill a;
  bool b_by_tma;
  int warpgroups;       // warpgroups that fill stages
  bool fronts = false;  // whether consumers multiply the stage that front() returns before they wait for it
};

std::string text(const Form& f) {
  constexpr const char* names[] = {"copies", "stores", "registers", "both", "addresses"};
  return fmt::format("A by {}, B by {}, {} warpgroups{}", names[static_cast<int>(f.a)],
                     f.b_by_tma ? "TMA" : "cp.async", f.warpgroups, f.fronts ? ", front()" : "");
}

// Fills rows of A's stage: the rows of one warpgroup, or of its first or second half.
void fill_a(Fill how, const TileView& to, const TensorTile<bf16>& from) {
  const int rows = to.row_count();
  const u32 thread = tid_x() & 127;
  const Layout threads = threads_along_rows(rows, BK, 128, 8);
  const TiledCopy copies(CopyAtom::cp_async(16), DType::bf16, threads, to.layout()),
      vectors(CopyAtom::vector(16), DType::bf16, threads, to.layout());
  if (how == Fill::copies) load_async(copies, to, from, thread);
  if (how == Fill::stores) store(vectors, to, thread, load(vectors, from, thread));
  if (how == Fill::registers) store(to, load(from, strided({rows, BK}, 8)));
  // If the address is a plain one, the pipeline learns of the write only through fills().
  if (how == Fill::addresses) store(vectors, to.address(), thread, load(vectors, from, thread));
}

Kernel product(const Form& form) {  // D[m,n] = sum_k A[m,k] B[n,k]
  Kernel k("product");
  auto [A, B, map, D] = k.params<gptr<bf16>, gptr<bf16>, TensorMap, TensorMap>("A", "B", "map", "D");
  const GlobalTensor a(A, {BM, kSteps * BK}), b(B, {BN, kSteps * BK});
  auto sA = k.shared<bf16>({BM, BK}, Swizzle128B, kStages),
       sB = k.shared<bf16>({BN, BK}, Swizzle128B, kStages);
  Pipeline pipe(k, kStages, {sA, sB}, 2, ThreadProducers{form.warpgroups});
  if (!form.b_by_tma) k.encode(map, {DType::bf16, {64, 64}, {1, 1}});
  const int rows = BM / form.warpgroups, part = form.a == Fill::both ? rows / 2 : rows;
  k.warpgroups(form.warpgroups, 0, [&, map = map](u32 wg) {
    auto ring = pipe.producer();
    for_(0, u32(kSteps), [&](u32 kt) {
      const Stage s = ring.acquire();
      const u32 row = wg * rows, col = kt * BK;
      fill_a(form.a == Fill::both ? Fill::copies : form.a, sA[s].rows(row, part), a.tile(row, col));
      if (form.a == Fill::both) fill_a(Fill::stores, sA[s].rows(row + part, part), a.tile(row + part, col));
      if (form.a == Fill::addresses) ring.fills(s, sA);
      const auto fetch_b = [&] {
        if (form.b_by_tma)
          elect([&] { tma_load(sB[s], map, col, 0); });
        else
          load_async(TiledCopy(CopyAtom::cp_async(16), DType::bf16, threads_along_rows(BN, BK, 128, 8),
                               sB[s].layout()),
                     sB[s], b.tile(0, col), tid_x() & 127);
      };
      if (form.warpgroups > 1)
        if_(wg == 0, fetch_b);
      else
        fetch_b();
      ring.commit(s);
    });
  });
  k.warpgroups(2, 0, [&, to = D](u32 wg) {
    auto ring = pipe.consumer();
    Accumulator acc(64, BN);
    for_(0, u32(kSteps), [&](u32) {
      const Stage s = form.fronts ? ring.front() : ring.wait();
      wgmma_group([&] { mma(acc, sA[s].rows(wg * 64, 64), sB[s]); });
      wgmma_wait(0);
      ring.release(form.fronts ? ring.wait() : s);
    });
    store<f32>(to, acc, wg * 64, 0);
  });
  return k;
}

}  // namespace

TEST_CASE("threads fill the stages of a pipeline, with TMA and alone") {
  constexpr size_t K = kSteps * BK;
  Running running;
  const std::vector<float> a = numbers(BM * K, 2654435761u), b = numbers(BN * K, 40503);
  std::vector<float> wanted(BM * BN);
  for (size_t i = 0; i < BM; ++i)
    for (size_t j = 0; j < BN; ++j)
      for (size_t k = 0; k < K; ++k) wanted[i * BN + j] += a[i * K + k] * b[j * K + k];
  const runtime::Buffer da = runtime::Buffer::of(*running.device, as_bf16(a)),
                        db = runtime::Buffer::of(*running.device, as_bf16(b));
  for (Fill fill : {Fill::copies, Fill::stores, Fill::registers, Fill::both, Fill::addresses})
    for (bool b_by_tma : {false, true})
      for (int warpgroups : {1, 2}) {
        const Form form{fill, b_by_tma, warpgroups, fill == Fill::stores && warpgroups == 2};
        CAPTURE(text(form));
        runtime::Buffer d(*running.device, wanted.size() * 4);
        d.fill(0xff);
        const std::string ptx =
            launch(running, product(form), {1, 1, 1},
                   {runtime::pointer(da, DType::bf16), runtime::pointer(db, DType::bf16),
                    runtime::tensor(db, DType::bf16, {K, BN}), runtime::tensor(d, DType::f32, {BN, BM})});
        CHECK(d.copy_out<float>() == wanted);
        const bool copies = fill == Fill::copies || fill == Fill::both || !b_by_tma,
                   stores = fill != Fill::copies;
        CHECK(contains(ptx, "mbarrier.arrive.noinc") == (copies && !stores));
        CHECK(contains(ptx, "cp.async.mbarrier.arrive.shared") == (copies && stores));
        CHECK(contains(ptx, "mbarrier.expect_tx") == b_by_tma);
      }
}

}  // namespace ptxbuilder::test::thread_pipeline_test
