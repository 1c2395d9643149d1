#include "kernels/tune/tuned_matmul.h"

#include "kernels/gemm/matmul.h"
#include "kernels/measure/operation.h"

namespace ptxbuilder::bench {
namespace {

using kernels::GemmOperation;
using kernels::GemmTile;

class TunedMatmul final : public ContenderOf<GemmProblem> {
 public:
  TunedMatmul(const Gpu& gpu, std::shared_ptr<GemmKernels> kernels)
      : gpu_(gpu), kernels_(std::move(kernels)) {}

  std::string name() const override { return "ptxbuilder tuned"; }

  std::string refuses(const GemmProblem& p) const override {
    try {
      kernels::choose(operation_of(p), {p.m, p.n, p.k}, multiprocessors());
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  }

  void announce(const GemmProblem& p) override {
    if (!refuses(p).empty()) return;
    const GemmOperation o = operation_of(p);
    const kernels::GemmSize size = {p.m, p.n, p.k};
    for (const GemmTile& tile :
         tiles_to_measure(o, size, multiprocessors(), kernels::choose(o, size, multiprocessors())))
      kernels_->want(o, tile);
  }

  void prepare(const GemmProblem& problem, std::span<const GemmProblem::Set> sets) override {
    matmul_.reset();
    kernels::MatmulOptions options;
    options.tuned_file = "";
    options.load = [kernels = kernels_](const GemmOperation& o, const GemmTile& t) {
      return kernels->load(o, t);
    };
    matmul_ = std::make_unique<kernels::Matmul>(gpu_.device(), std::move(options));
    arguments_.clear();
    for (const GemmProblem::Set& set : sets) arguments_.push_back(arguments(problem, set));
    matmul_->tune(arguments_.at(0));
    const size_t bytes = matmul_->workspace_bytes(arguments_[0]);
    workspace_ = bytes ? runtime::Buffer(gpu_.device(), bytes) : runtime::Buffer();
    for (kernels::MatmulArguments& p : arguments_)
      if (bytes) p.workspace = workspace_;
  }

  void launch(size_t set) override { (*matmul_)(arguments_.at(set)); }

  std::string configuration() const override { return kernels::text(matmul_->tile(arguments_.at(0))); }

 private:
  int multiprocessors() const { return gpu_.device().properties().multiprocessors; }

  static kernels::MatmulArguments arguments(const GemmProblem& p, const GemmProblem::Set& set) {
    kernels::MatmulArguments q;
    q.m = p.m, q.n = p.n, q.k = p.k;
    q.a = {.memory = set.a, .type = p.a, .stride = p.lda()};
    q.b = {.memory = set.b, .type = p.b, .stride = p.ldb()};
    q.d = {.memory = set.d, .type = p.d, .stride = p.ldd()};
    q.a_k_major = p.a_k_major, q.b_k_major = p.b_k_major;
    q.fast_accumulation = p.fast_accumulation;
    return q;
  }

  const Gpu& gpu_;
  std::shared_ptr<GemmKernels> kernels_;
  std::unique_ptr<kernels::Matmul> matmul_;
  std::vector<kernels::MatmulArguments> arguments_;  // one for each set
  runtime::Buffer workspace_;
};

}  // namespace

std::unique_ptr<Contender> tuned_matmul(const Gpu& gpu, std::shared_ptr<GemmKernels> kernels) {
  return std::make_unique<TunedMatmul>(gpu, std::move(kernels));
}

}  // namespace ptxbuilder::bench
