// Runs cuBLASLt as a contender, which times the first eight plans that cuBLASLt's heuristic proposes, and
// uses the fastest plan.
#pragma once

#include <memory>
#include <optional>

#include "kernels/bench/peers/cublaslt_api.h"
#include "kernels/measure/contender.h"

namespace ptxbuilder::bench {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // the size that cuBLAS uses on Hopper for full speed

// A problem in the form that cuBLASLt requires. cuBLASLt's matrices are column-major, so it treats our
// row-major D[m,n] as an n x m matrix that is the product of our B and our A.
class MatmulPlan {
 public:
  // Throws an Error that names the types if cuBLASLt has no plan for the problem.
  MatmulPlan(const lt::Api& api, lt::Handle handle, const GemmProblem& problem, int most_algorithms = 8);
  ~MatmulPlan();
  MatmulPlan(const MatmulPlan&) = delete;
  MatmulPlan& operator=(const MatmulPlan&) = delete;

  // Returns the number of plans, which are in the order of the heuristic.
  size_t algorithms() const { return results_.size(); }

  // Queues D = alpha A B + beta D. `workspace` must have kWorkspaceBytes.
  void run(size_t algorithm, const GemmProblem::Set& set, runtime::Address workspace,
           runtime::cu::Stream stream, double alpha = 1, double beta = 0) const;

  std::string describe(size_t algorithm) const;  // returns, for example, "heuristic 3 of 8: algorithm 66,
                                                 // tile 23, ..."

 private:
  void create(const GemmProblem& problem);
  void ask(const GemmProblem& problem, int most_algorithms);
  void destroy() noexcept;

  const lt::Api& api_;
  lt::Handle handle_;
  bool integer_;
  lt::Desc desc_ = nullptr;
  lt::Layout a_ = nullptr, b_ = nullptr, d_ = nullptr;
  std::vector<lt::HeuristicResult> results_;
};

class CublasLt final : public ContenderOf<GemmProblem> {
 public:
  // `library` is the path of the library, or "" to search for it. If it is not found, throws an Error that
  // explains what to do.
  CublasLt(const Gpu& gpu, const std::string& library);
  ~CublasLt() override;

  std::string name() const override { return "cuBLASLt"; }
  std::string refuses(const GemmProblem& problem) const override;
  void prepare(const GemmProblem& problem, std::span<const GemmProblem::Set> sets) override;
  void launch(size_t set) override;
  std::string configuration() const override;
  bool is_peer() const override { return true; }
  bool is_usual() const override { return true; }

  std::string version() const;  // returns, for example, "13.1.0"

 private:
  const Gpu& gpu_;
  lt::Api api_;
  lt::Handle handle_ = nullptr;
  runtime::Buffer workspace_;
  std::vector<GemmProblem::Set> sets_;
  std::optional<MatmulPlan> plan_;
  size_t chosen_ = 0;
};

}  // namespace ptxbuilder::bench
