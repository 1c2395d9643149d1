// gemm_combination: a bf16 product that combines a method of copying with a method of multiplying. Each
// combination is a kernel: gemm_tma_wgmma, gemm_tma_register_a, gemm_tma_mma_sync, and three kernels with
// cp_async in place of tma.
#include "kernels/family/family.h"
#include "kernels/steps/gemm_run.h"
#include "ptxbuilder/plan/bank_conflicts.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/product/warp_mma.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/cooperative_copy.h"
#include "ptxbuilder/tile/parameters.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {
namespace {

// The method of copying. tma: one thread copies boxes with TMA. cp_async: all threads copy pieces with
// cp.async, which supports rows of any length.
enum class CopyBy : uint8_t { tma, cp_async };
// The method of multiplying. wgmma reads both operands from shared memory, or A from registers (register_a);
// mma.sync reads both from registers.
enum class MultiplyBy : uint8_t { wgmma, register_a, mma_sync };
constexpr std::array kCopyWords = {"tma", "cp_async"};
constexpr std::array kMultiplyWords = {"wgmma", "register_a", "mma_sync"};

constexpr int BK = 64;

struct Combination {
  CopyBy copy_by;
  MultiplyBy multiply_by;

  bool has_roles() const { return copy_by == CopyBy::tma; }  // has a producer and consumers
  bool is_warps() const { return multiply_by == MultiplyBy::mma_sync; }
  int bm() const { return is_warps() ? 64 : 128; }
  int bn() const { return bm(); }
  int stages() const { return has_roles() ? 4 : 3; }
  // Returns the number of warpgroups that multiply.
  int warpgroups() const { return has_roles() && !is_warps() ? bm() / 64 : 1; }
  int rows() const { return bm() / warpgroups(); }
  // Returns whether the kernel has parameters for the sizes. Otherwise, tensor maps contain the sizes.
  bool has_sizes() const { return !has_roles() || is_warps(); }
  std::string name() const {
    return std::string("gemm_") + kCopyWords[static_cast<size_t>(copy_by)] + "_" +
           kMultiplyWords[static_cast<size_t>(multiply_by)];
  }
};

// The parts of a kernel that all combinations have in common.
struct Gemm {
  Gemm(Kernel& k, const Combination& c) : k(k), c(c) {
    const auto matrix = [&](const char* name, bool is_map, const char* meaning) {
      p.add(name, is_map ? Parameter::Kind::tensor_map : Parameter::Kind::pointer, DType::bf16, meaning);
    };
    const auto size = [&](const char* name, const char* meaning) {
      p.add(name, Parameter::Kind::scalar, DType::u32, meaning);
    };
    matrix("A", c.has_roles(), "m rows of K"), matrix("B", c.has_roles(), "n rows of K");
    matrix("D", !c.is_warps(), "A B^T: m rows of n");
    if (c.has_sizes()) size("m", "rows of A and D"), size("n", "rows of B, columns of D");
    size("K", "depth");
    p.declare(k, Where::here());
    k.grid(ctas_along(c.has_sizes() ? "n" : "extent(D, 0)", c.bn()),
           ctas_along(c.has_sizes() ? "m" : "extent(D, 1)", c.bm()));
    a.emplace(k.shared<bf16>({c.bm(), BK}, Swizzle128B, c.stages(), "sA"));
    b.emplace(k.shared<bf16>({c.bn(), BK}, Swizzle128B, c.stages(), "sB"));
  }
  u32 size(const char* name) const { return p.get<u32>(name); }
  GlobalTensor<bf16, 2> tensor(const char* name, u32 rows, u32 columns) const {
    return GlobalTensor(p.get<gptr<bf16>>(name), {rows, columns});
  }

  Kernel& k;
  const Combination& c;
  Parameters p;
  std::optional<SharedTile> a, b;
};

// Returns a stage; its address is computed where the function is called.
using StageView = std::function<TileView()>;

// The sums of a tile for the rows of a warpgroup. Adds the products of stages, and stores the sums.
class Sums {
 public:
  virtual ~Sums() = default;
  virtual void add(const StageView& a, const StageView& b) = 0;
  virtual void store(u32 row, u32 col) = 0;
};

class WgmmaSums : public Sums {
 public:
  explicit WgmmaSums(const Gemm& g) : g_(g), acc_(g.c.rows(), g.c.bn()) {}
  void add(const StageView& a, const StageView& b) override {
    if (g_.c.multiply_by == MultiplyBy::register_a) {
      const auto x = load<bf16>(a(), wgmma_layout(g_.c.rows(), BK));  // loaded with ldmatrix
      wgmma_group([&] { mma(acc_, x, b()); });
    } else {
      wgmma_group([&] { mma(acc_, a(), b()); });
    }
    wgmma_wait(0);
  }
  void store(u32 row, u32 col) override { ptxbuilder::store<bf16>(g_.p.get<TensorMap>("D"), acc_, row, col); }

 private:
  const Gemm& g_;
  Accumulator acc_;
};

// Multiplies with mma.sync. Warps are numbered down the tile and then across, and so are the instructions of
// a warp; the loop over k is the outermost.
class MmaSyncSums : public Sums {
 public:
  explicit MmaSyncSums(const Gemm& g) : g_(g), thread_(tid_x() % 128) {
    check_conflict_free(load_a_);
    check_conflict_free(load_b_);
    for (int i = 0; i < kDown * kAcross * 4; ++i) acc_.emplace_back(0);
  }
  void add(const StageView& a, const StageView& b) override {
    for (int step = 0; step < kSteps; ++step) {
      const int of_a = load_a_.accesses() / kSteps, of_b = load_b_.accesses() / kSteps;
      std::vector<u32> ra = load(load_a_, a(), thread_, step * of_a, of_a);
      std::vector<u32> rb = load(load_b_, b(), thread_, step * of_b, of_b);
      for (size_t j = 0; j < kAcross; ++j)
        for (size_t i = 0; i < kDown; ++i)
          mma(atom_, std::span(acc_).subspan(4 * (i + kDown * j), 4), std::span(ra).subspan(4 * i, 4),
              std::span(rb).subspan(2 * j, 2));
    }
  }
  void store(u32 row, u32 col) override {
    std::vector<u32> packed;
    for (size_t i = 0; i < acc_.size(); i += 2) packed.push_back(pack(DType::bf16, acc_[i], acc_[i + 1]));
    ptxbuilder::store(store_d_, g_.tensor("D", g_.size("m"), g_.size("n")).tile(row, col), thread_, packed);
  }

 private:
  static constexpr int kTile = 64,
                       kWarp = 32;  // edge of the tile, which 2 x 2 warps share, and edge of a warp's part
  static constexpr int kDown = kWarp / 16, kAcross = kWarp / 8, kSteps = BK / 16;

  const Gemm& g_;
  MmaAtom atom_ = MmaAtom::mma_sync(DType::f32, DType::bf16, DType::bf16, 16);
  TiledCopy load_a_{CopyAtom::ldmatrix(4), DType::bf16,
                    repeated(within_rows(atom_.layout_a(), 16, 16, kTile), {{2, kWarp}, {2, 0}},
                             {{kDown, 16}, {kSteps, 16 * kTile}}),
                    (*g_.a)[0].layout()};
  TiledCopy load_b_{CopyAtom::ldmatrix(4), DType::bf16,
                    repeated(within_rows(atom_.layout_b(), 8, 16, kTile), {{2, 0}, {2, kWarp}},
                             {{kAcross, 8}, {kSteps, 16 * kTile}}),
                    (*g_.b)[0].layout()};
  TiledCopy store_d_{CopyAtom::vector(4), DType::bf16,
                     repeated(within_rows(atom_.layout_c(), 16, 8, kTile), {{2, kWarp}, {2, kWarp* kTile}},
                              {{kDown, 16}, {kAcross, 8 * kTile}}),
                     panel_layout(DType::bf16, kTile, kTile, SwizzleNone)};
  u32 thread_;
  std::vector<Var<f32>> acc_;
};

std::unique_ptr<Sums> sums_of(const Gemm& g) {
  if (g.c.is_warps()) return std::make_unique<MmaSyncSums>(g);
  return std::make_unique<WgmmaSums>(g);
}

// Emits the loops of a producer, which fills a ring of stages, and of consumers, which multiply them.
void multiply_by_roles(const Gemm& g) {
  const Combination& c = g.c;
  const SharedTile &sA = *g.a, &sB = *g.b;
  const TensorMap A = g.p.get<TensorMap>("A"), B = g.p.get<TensorMap>("B");
  const u32 K = g.size("K");
  Pipeline pipe(g.k, c.stages(), {sA, sB}, c.warpgroups());
  u32 row = ctaid_y() * c.bm(), col = ctaid_x() * c.bn();
  g.k.warpgroups(1, c.is_warps() ? 0 : 40, [&](u32) {
    elect([&] {
      auto ring = pipe.producer();
      for_(0, ceil_div(K, BK), [&](u32 kt) {
        auto s = ring.acquire();
        tma_load(sA[s], A, kt * BK, row);
        tma_load(sB[s], B, kt * BK, col);
      });
    });
  });
  g.k.warpgroups(c.warpgroups(), c.is_warps() ? 0 : 232, [&](u32 wg) {
    auto ring = pipe.consumer();
    const auto sums = sums_of(g);
    for_(0, ceil_div(K, BK), [&](u32) {
      auto s = ring.wait();
      const auto rows = [&] { return c.warpgroups() == 1 ? sA[s] : sA[s].rows(wg * c.rows(), c.rows()); };
      sums->add(rows, [&] { return sB[s]; });
      if (c.is_warps())
        bar_warp_sync(0xffffffff);  // all lanes must have read the stage before lane 0 releases it
      ring.release(s);
    });
    sums->store(c.warpgroups() == 1 ? row : row + wg * c.rows(), col);
  });
}

// Emits a loop in which all threads copy their pieces of later stages, and multiply.
void multiply_by_all(const Gemm& g) {
  const Combination& c = g.c;
  const SharedTile &sA = *g.a, &sB = *g.b;
  constexpr int kThreads = 128;
  const u32 K = g.size("K");
  const auto a = g.tensor("A", g.size("m"), K), b = g.tensor("B", g.size("n"), K);
  const CopyAtom atom = CopyAtom::cp_async(16);
  TiledCopy copy_a(atom, DType::bf16, threads_along_rows(c.bm(), BK, kThreads, 8), sA[0].layout());
  TiledCopy copy_b(atom, DType::bf16, threads_along_rows(c.bn(), BK, kThreads, 8), sB[0].layout());
  check_conflict_free(copy_a);
  check_conflict_free(copy_b);
  u32 row = ctaid_y() * c.bm(), col = ctaid_x() * c.bn(), steps = ceil_div(K, BK);
  const int stages = c.stages();
  // Commits one group per stage, and an empty group after the last stage, so that waits can count groups.
  auto fetch = [&](u32 kt) {
    if_(kt < steps, [&] {
      load_async(copy_a, sA[kt % stages], a.tile(row, kt * BK), tid_x());
      load_async(copy_b, sB[kt % stages], b.tile(col, kt * BK), tid_x());
    });
    cp_async_commit_group();
  };
  for (int kt = 0; kt < stages - 1; ++kt) fetch(kt);
  const auto sums = sums_of(g);
  for_(0, steps, [&](u32 kt) {
    cp_async_wait_group(stages - 2);
    // Makes the pieces of all threads visible (to wgmma, through a fence), and waits until all warps have
    // read the previous stage.
    c.is_warps() ? sync_threads() : commit_smem();
    fetch(kt + (stages - 1));
    u32 s = kt % stages;
    sums->add([&] { return sA[s]; }, [&] { return sB[s]; });
  });
  sums->store(row, col);
}

Kernel gemm_combination(const Combination& c) {  // computes D[m,n] = sum_k A[m,k] B[n,k]
  Kernel k(c.name());
  const Gemm g(k, c);
  c.has_roles() ? multiply_by_roles(g) : multiply_by_all(g);
  return k;
}

void run(const Combination& c, const command::Fields& f, command::Run& run) {
  const auto size = [&](const char* name) { return static_cast<size_t>(f[name]); };
  run_product(run, {size("m"), size("n"), size("k")}, [&](const auto& a, const auto& b, const auto& d) {
    const auto matrix = [](const command::Tensor& x, bool is_map) {
      return is_map ? x.tensor() : x.pointer();
    };
    std::vector<runtime::Argument> all = {matrix(a, c.has_roles()), matrix(b, c.has_roles()),
                                          matrix(d, !c.is_warps())};
    for (const char* name : {"m", "n", "k"})
      if (c.has_sizes() || name == std::string_view("k"))
        all.push_back(runtime::scalar(static_cast<uint32_t>(f[name])));
    run.launch(all);
  });
}

const auto registrations = [] {
  constexpr std::array kCopies = {"TMA", "cp.async"};
  constexpr std::array kMultiplications = {"wgmma", "wgmma with A in registers", "mma.sync.m16n8k16"};
  std::vector<command::Registration> all;
  for (size_t i = 0; i < kCopies.size(); ++i)
    for (size_t j = 0; j < kMultiplications.size(); ++j) {
      const Combination c = {static_cast<CopyBy>(i), static_cast<MultiplyBy>(j)};
      all.emplace_back(command::Family{
          .name = c.name(),
          .summary = std::string("bf16 GEMM: ") + kCopies[i] + " and " + kMultiplications[j],
          .fields = {{"m", 256, "rows of A and D"},
                     {"n", 256, "rows of B, columns of D", 8},
                     {"k", 256, "columns of A and B", 8}},
          .build = [c](const command::Fields&) { return gemm_combination(c); },
          .run = [c](const command::Fields& f, command::Run& r) { run(c, f, r); },
      });
    }
  return all;
}();

}  // namespace
}  // namespace ptxbuilder::kernels
