// cuBLASLt as a contender: the first eight plans of its heuristic are timed, and the best one is used.
#pragma once

#include <memory>
#include <optional>

#include "kernels/bench/peers/cublaslt_api.h"
#include "kernels/measure/contender.h"

namespace ptxbuilder::bench {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what cuBLAS uses on Hopper for full speed

// One problem in cuBLASLt's terms, which are column-major: our row-major D[m,n] is its n x m matrix, which is
// the product of our B and our A.
class MatmulPlan {
 public:
  // Throws Error that names the types if cuBLASLt has no plan for the problem.
  MatmulPlan(const lt::Api& api, lt::Handle handle, const GemmProblem& problem, int most_algorithms = 8);
  ~MatmulPlan();
  MatmulPlan(const MatmulPlan&) = delete;
  MatmulPlan& operator=(const MatmulPlan&) = delete;

  size_t algorithms() const { return results_.size(); }  // in the heuristic's order

  // Queues D = alpha A B + beta D. `workspace` must have kWorkspaceBytes.
  void run(size_t algorithm, const GemmProblem::Set& set, runtime::Address workspace,
           runtime::cu::Stream stream, double alpha = 1, double beta = 0) const;

  std::string describe(size_t algorithm) const;  // "heuristic 3 of 8: algorithm 66, tile 23, ..."

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
  // `library` is a file, or "" to search for it. Throws Error that says what to do if it is not found.
  CublasLt(const Gpu& gpu, const std::string& library);
  ~CublasLt() override;

  std::string name() const override { return "cuBLASLt"; }
  std::string refuses(const GemmProblem& problem) const override;
  void prepare(const GemmProblem& problem, std::span<const GemmProblem::Set> sets) override;
  void launch(size_t set) override;
  std::string configuration() const override;
  bool is_peer() const override { return true; }
  bool is_usual() const override { return true; }

  std::string version() const;  // "13.1.0"

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
