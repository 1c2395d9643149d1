// The project's kernels as contenders of the benchmark.
#include <fmt/format.h>

#include "kernels/bench/our_kernel.h"
#include "kernels/command/family.h"

namespace ptxbuilder::bench {
namespace {

// gemm_pipelined with its default tile: one kernel for all sizes.
class Pipelined final : public Contender {
 public:
  Pipelined(const Gpu& gpu, OurOptions options) : gpu_(gpu), options_(std::move(options)) {}

  std::string name() const override { return "gemm_pipelined"; }

  std::string refuses(const GemmProblem& p) const override {
    if (p.a != DType::bf16 || p.b != DType::bf16 || p.d != DType::bf16) return "it takes bf16 alone";
    return p.layout() == "TN" ? "" : "it takes layout TN alone";
  }

  void prepare(const GemmProblem& problem, std::span<const BufferSet> sets) override {
    if (!kernel_) kernel_ = load(gpu_, command::family("gemm_pipelined").build(fields_), options_);
    problem_ = problem;
    sets_.assign(sets.begin(), sets.end());
    auto tiles = [](int64_t extent, int64_t tile) {
      return static_cast<uint32_t>((extent + tile - 1) / tile);
    };
    grid_ = {tiles(problem.n, fields_["bn"]), tiles(problem.m, fields_["bm"])};
  }

  void launch(size_t set) override {
    const BufferSet& s = sets_.at(set);
    kernel_->launch({.grid = grid_}, {tensor_a(problem_, s), tensor_b(problem_, s), tensor_d(problem_, s),
                                      runtime::scalar(static_cast<uint32_t>(problem_.k))});
  }

  std::string configuration() const override {
    return fmt::format("{}x{}x{}, {} stages", fields_["bm"], fields_["bn"], fields_["bk"], fields_["stages"]);
  }

 private:
  const Gpu& gpu_;
  OurOptions options_;
  command::Fields fields_{command::family("gemm_pipelined").fields};
  std::unique_ptr<runtime::LoadedKernel> kernel_;
  GemmProblem problem_;
  runtime::Dim3 grid_;
  std::vector<BufferSet> sets_;
};

}  // namespace

std::vector<std::unique_ptr<Contender>> our_contenders(const Gpu& gpu, const OurOptions& options) {
  std::vector<std::unique_ptr<Contender>> all;
  all.push_back(std::make_unique<Pipelined>(gpu, options));
  return all;
}

}  // namespace ptxbuilder::bench
