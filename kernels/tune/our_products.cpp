#include "kernels/tune/our_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "kernels/gemm/choice.h"
#include "kernels/gemm/kernel.h"
#include "kernels/gemm/scheduler.h"
#include "kernels/measure/operation.h"
#include "kernels/steps/gemm_step.h"
#include "kernels/tune/tile_contender.h"
#include "kernels/tune/tuned_matmul.h"

namespace ptxbuilder::bench {
namespace {

using kernels::GemmOperation;
using kernels::GemmSize;
using kernels::GemmTile;

// The tiles that the model proposes for the most recent problem. They are stored because many contenders use
// them.
class Offers {
 public:
  explicit Offers(uint64_t seed) : seed_(seed) {}

  // Returns the tile with number `index` in the model's shortlist.
  GemmTile candidate(const GemmOperation& o, const GemmSize& size, int multiprocessors, int index) {
    update(o, size, multiprocessors);
    return taken(first_, index);
  }

  // Returns the tile with number `index` in a random order of the tiles that the model predicts to take up to
  // 1.5 times as long as its first tile. Every second tile has another raster, or launches that do not
  // overlap.
  GemmTile diverse(const GemmOperation& o, const GemmSize& size, int multiprocessors, int index) {
    update(o, size, multiprocessors);
    return taken(diverse_, index);
  }

 private:
  static GemmTile taken(const std::vector<GemmTile>& tiles, int index) {
    if (static_cast<size_t>(index) >= tiles.size())
      throw Error(fmt::format("the model has no {} tiles for it", index + 1));
    return tiles[static_cast<size_t>(index)];
  }

  void update(const GemmOperation& o, const GemmSize& size, int multiprocessors) {
    const std::array<int64_t, 4> sizes = {size.m, size.n, size.k, multiprocessors};
    if (!first_.empty() && o == operation_ && sizes == sizes_) return;
    operation_ = o;
    sizes_ = sizes;
    first_.clear();
    diverse_.clear();
    for (const kernels::Candidate& c : kernels::shortlist(o, size, multiprocessors, 100))
      first_.push_back(c.tile);
    const std::vector<kernels::Candidate> all = kernels::candidates(o, size, multiprocessors);
    for (const kernels::Candidate& c : all)
      if (c.prediction.microseconds() < 1.5 * all.front().prediction.microseconds())
        diverse_.push_back(c.tile);
    std::mt19937_64 random(seed_ ^ static_cast<uint64_t>(size.m << 40 ^ size.n << 20 ^ size.k));
    std::shuffle(diverse_.begin(), diverse_.end(), random);
    for (size_t i = 1; i < diverse_.size(); i += 2) {
      GemmTile& tile = diverse_[i];
      constexpr int kGroups[] = {4, 8, 32};
      if (i % 4 == 1)
        tile.overlaps = false;
      else
        tile.raster.group = kGroups[random() % 3];
    }
  }

  uint64_t seed_;
  GemmOperation operation_;
  std::array<int64_t, 4> sizes_ = {};
  std::vector<GemmTile> first_, diverse_;
};

class Launcher {
 public:
  Launcher(const Gpu& gpu, GemmKernels& kernels, const GemmProblem& problem, const GemmOperation& operation,
           const kernels::TilePlan& tile, std::span<const GemmProblem::Set> sets)
      : kernel_(kernels.get(operation, tile)),
        problem_(problem),
        d_by_threads_(operation.d_by_threads),
        splits_last_(tile.split_last > 1),
        overlaps_(tile.overlaps),
        sets_(sets.begin(), sets.end()) {
    const int multiprocessors = gpu.device().properties().multiprocessors;
    const kernels::GemmGrid grid = kernels::gemm_grid(tile, problem.m, problem.n, 1, multiprocessors);
    if (const size_t bytes = kernels::gemm_workspace_bytes(tile, grid))
      workspace_ = runtime::Buffer(gpu.device(), bytes);
  }

  // If `overlaps` is true, the launch may begin before the previous launch has ended, like a launch of
  // matmul().
  void launch(size_t set, bool overlaps = true) {
    const GemmProblem::Set& s = sets_.at(set);
    auto extent = [](int64_t e) { return runtime::scalar(static_cast<uint32_t>(e)); };
    runtime::ArgumentList arguments(10);
    auto add = [&](const runtime::Argument& argument) { arguments.add([&] { return argument; }); };
    add(tensor_a(problem_, s));
    add(tensor_b(problem_, s));
    add(tensor_d_by_tma(problem_, s));
    for (int64_t e : {problem_.m, problem_.n, problem_.k}) add(extent(e));
    if (d_by_threads_) {
      add(runtime::pointer(s.d, problem_.d));
      add(extent(problem_.ldd()));
      add(extent(problem_.d_columns_by_tma()));
    }
    if (splits_last_) add(runtime::pointer(workspace_, DType::f32));
    kernel_->launch({.programmatic_dependent_launch = overlaps && overlaps_}, arguments);
  }

 private:
  std::shared_ptr<runtime::LoadedKernel> kernel_;
  GemmProblem problem_;
  bool d_by_threads_, splits_last_, overlaps_;
  runtime::Buffer workspace_;
  std::vector<GemmProblem::Set> sets_;
};

struct InOrder : Launcher {
  using Launcher::Launcher;
  void launch(size_t set) { Launcher::launch(set, false); }
};

// The `Form` of matrix products for TileContender. `Launches` is Launcher or InOrder; with InOrder, each
// launch begins only after the previous launch has ended.
template <class Launches>
struct ProductForm {
  using Problem = GemmProblem;
  using Operation = GemmOperation;
  using Size = GemmSize;
  using Tile = GemmTile;
  using Call = Launches;
  static std::pair<Operation, Size> place(const Problem& p) { return {operation_of(p), {p.m, p.n, p.k}}; }
  static kernels::TilePlan checked(const Operation& o, const Size&, const Tile& tile) {
    return kernels::checked(o, tile);
  }
  static double microseconds(const Operation& o, const Size& size, const kernels::TilePlan& tile,
                             int multiprocessors) {
    return predict(o, size, tile, multiprocessors).microseconds();
  }
};

// A kernel family that is a step towards the matrix product, and the values of its fields.
struct StepChoice {
  const char* name;
  const char* family;
  std::map<std::string, int64_t> fields;
};
const StepChoice kSteps[] = {{"gemm_multistage 1 stage", "gemm_multistage", {{"stages", 1}}},
                             {"gemm_multistage", "gemm_multistage", {}},
                             {"gemm_warp_specialized", "gemm_warp_specialized", {{"bn", 128}, {"stages", 6}}},
                             {"gemm_pingpong", "gemm_pingpong", {{"bm", 64}, {"bn", 128}, {"stages", 8}}}};

class Step final : public ContenderOf<GemmProblem> {
 public:
  Step(const Gpu& gpu, OurOptions options, const StepChoice& choice)
      : gpu_(gpu), options_(std::move(options)), choice_(choice), fields_({}) {}

  std::string name() const override { return choice_.name; }
  bool is_step() const override { return true; }

  std::string refuses(const GemmProblem& p) const override {
    try {
      fields_for(p);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  }

  void prepare(const GemmProblem& problem, std::span<const GemmProblem::Set> sets) override {
    fields_ = fields_for(problem);
    kernel_ = load(gpu_, command::family(choice_.family).build(fields_), options_);
    problem_ = problem;
    sets_.assign(sets.begin(), sets.end());
  }

  void launch(size_t set) override {
    const GemmProblem::Set& s = sets_.at(set);
    kernel_->launch({}, kernels::step_arguments(fields_, tensor_a(problem_, s), tensor_b(problem_, s),
                                                tensor_d(problem_, s)));
  }

  std::string configuration() const override {
    return fmt::format("{}x{}x{}, {} stages", fields_["bm"], fields_["bn"], fields_["bk"], fields_["stages"]);
  }

 private:
  // Returns the fields for a problem. If the step does not support the problem, throws an Error that states
  // the reason.
  command::Fields fields_for(const GemmProblem& p) const {
    if (p.a != p.b || !p.a_k_major) throw Error("it supports only A and B of one type, and A stored along k");
    command::Fields f(command::family(choice_.family).fields);
    for (const auto& [field, value] : choice_.fields) f.set(field, value);
    kernels::set_types(f, p.a, p.d, p.b_k_major);
    f.set("m", p.m);
    f.set("n", p.n);
    f.set("k", p.k);
    if (f.has("ctas")) f.set("ctas", gpu_.device().properties().multiprocessors);
    return f;
  }

  const Gpu& gpu_;
  OurOptions options_;
  StepChoice choice_;
  command::Fields fields_;
  std::unique_ptr<runtime::LoadedKernel> kernel_;
  GemmProblem problem_;
  std::vector<GemmProblem::Set> sets_;
};

}  // namespace

Contenders our_products(const Gpu& gpu, const OurOptions& options) {
  using Product = TileContender<ProductForm<Launcher>>;
  Contenders all;
  const auto kernels = std::make_shared<GemmKernels>(
      gpu, options, [](const GemmOperation& o, const GemmTile& t) { return kernels::gemm(o, t); });
  const auto offers = std::make_shared<Offers>(options.seed);
  auto add = [&](std::string name, Product::Choice choice, bool usual = false) {
    all.push_back(std::make_unique<Product>(gpu, kernels, std::move(name), std::move(choice), usual));
  };
  add("ptxbuilder", kernels::choose, true);
  all.push_back(std::make_unique<TileContender<ProductForm<InOrder>>>(gpu, kernels, "ptxbuilder, no PDL",
                                                                      kernels::choose, true));
  for (const std::string& text : options.tiles)
    add(text,
        [tile = kernels::parse_tile(text)](const GemmOperation&, const GemmSize&, int) { return tile; });
  for (int i = 0; i < options.candidates; ++i)
    add(fmt::format("candidate {}", i + 1),
        [i, offers](const GemmOperation& o, const GemmSize& s, int multiprocessors) {
          return offers->candidate(o, s, multiprocessors, i);
        });
  for (int i = 0; i < options.diverse; ++i)
    add(fmt::format("diverse {}", i + 1),
        [i, offers](const GemmOperation& o, const GemmSize& s, int multiprocessors) {
          return offers->diverse(o, s, multiprocessors, i);
        });
  if (options.tuned) all.push_back(tuned_matmul(gpu, kernels));
  for (const StepChoice& step : kSteps) all.push_back(std::make_unique<Step>(gpu, options, step));
  return all;
}

}  // namespace ptxbuilder::bench
