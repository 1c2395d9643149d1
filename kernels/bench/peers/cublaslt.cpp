#include "kernels/bench/peers/cublaslt.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/measure/burst.h"
#include "kernels/measure/statistics.h"

namespace ptxbuilder::bench {
namespace {

constexpr double kTrialMicroseconds = 5000;  // duration of each of the three trials of a plan
constexpr int kTrials = 3;

std::optional<lt::DataType> data_type(DType type) {
  switch (type) {
    case DType::f32:
    case DType::tf32:
      return lt::DataType::f32;
    case DType::f16:
      return lt::DataType::f16;
    case DType::bf16:
      return lt::DataType::bf16;
    case DType::e4m3:
      return lt::DataType::e4m3;
    case DType::e5m2:
      return lt::DataType::e5m2;
    case DType::s8:
      return lt::DataType::s8;
    case DType::s32:
      return lt::DataType::s32;
    default:
      return std::nullopt;
  }
}

lt::DataType known_data_type(DType type) {
  if (auto known = data_type(type)) return *known;
  throw Error(fmt::format("cuBLASLt does not support matrices of {}", name(type)));
}

lt::ComputeType compute_type(const GemmProblem& p) {
  if (p.a == DType::s8) return lt::ComputeType::s32;
  return p.a == DType::tf32 ? lt::ComputeType::f32_fast_tf32 : lt::ComputeType::f32;
}

}  // namespace

MatmulPlan::MatmulPlan(const lt::Api& api, lt::Handle handle, const GemmProblem& problem, int most_algorithms)
    : api_(api), handle_(handle), integer_(problem.a == DType::s8) {
  try {
    create(problem);
    ask(problem, most_algorithms);
  } catch (...) {
    destroy();
    throw;
  }
}

MatmulPlan::~MatmulPlan() { destroy(); }

void MatmulPlan::destroy() noexcept {
  for (lt::Layout layout : {a_, b_, d_})
    if (layout) (void)api_.layout_destroy.status(layout);
  if (desc_) (void)api_.desc_destroy.status(desc_);
}

// cuBLASLt's first operand is our B, which must be n x k after the operation that cuBLASLt applies: a k-major
// B is stored as a k x n matrix and must be transposed. The second operand is our A, which must be k x m. A
// k-major A already has this form.
void MatmulPlan::create(const GemmProblem& p) {
  api_.desc_create(&desc_, compute_type(p), integer_ ? lt::DataType::s32 : lt::DataType::f32);
  const lt::Operation first = p.b_k_major ? lt::Operation::t : lt::Operation::n;
  const lt::Operation second = p.a_k_major ? lt::Operation::n : lt::Operation::t;
  api_.desc_set(desc_, lt::DescAttribute::transa, &first, sizeof first);
  api_.desc_set(desc_, lt::DescAttribute::transb, &second, sizeof second);
  if (is_fp8(p.a)) {
    const int8_t fast = p.fast_accumulation ? 1 : 0;
    api_.desc_set(desc_, lt::DescAttribute::fast_accumulation, &fast, sizeof fast);
  }
  auto layout = [&](lt::Layout* made, DType type, int64_t stored_rows, int64_t columns, int64_t stride) {
    api_.layout_create(made, known_data_type(type), static_cast<uint64_t>(columns),
                       static_cast<uint64_t>(stored_rows), stride);
  };
  layout(&b_, p.b, p.b_rows(), p.b_columns(), p.ldb());
  layout(&a_, p.a, p.a_rows(), p.a_columns(), p.lda());
  layout(&d_, p.d, p.m, p.n, p.ldd());
}

void MatmulPlan::ask(const GemmProblem& p, int most_algorithms) {
  lt::Preference preference = nullptr;
  api_.preference_create(&preference);
  const size_t workspace = kWorkspaceBytes;
  lt::Status status = api_.preference_set.status(preference, lt::PreferenceAttribute::max_workspace_bytes,
                                                 &workspace, sizeof workspace);
  int found = 0;
  results_.resize(static_cast<size_t>(most_algorithms));
  if (status == lt::Status::success)
    status = api_.heuristic.status(handle_, desc_, b_, a_, d_, d_, preference, most_algorithms,
                                   results_.data(), &found);
  (void)api_.preference_destroy.status(preference);
  results_.resize(static_cast<size_t>(found));
  std::erase_if(results_, [](const lt::HeuristicResult& r) { return r.state != lt::Status::success; });
  if (status != lt::Status::success || results_.empty())
    throw Error(fmt::format("cublasLtMatmulAlgoGetHeuristic finds no plan for {} {}: {}", size_text(p),
                            type_text(p), api_.loaded.describe(status)));
}

void MatmulPlan::run(size_t algorithm, const GemmProblem::Set& set, runtime::Address workspace,
                     runtime::cu::Stream stream, double alpha, double beta) const {
  auto pointer = [](runtime::Address address) { return reinterpret_cast<void*>(address); };
  const float float_scales[] = {static_cast<float>(alpha), static_cast<float>(beta)};
  const int32_t integer_scales[] = {static_cast<int32_t>(alpha), static_cast<int32_t>(beta)};
  const void* a = integer_ ? static_cast<const void*>(&integer_scales[0]) : &float_scales[0];
  const void* b = integer_ ? static_cast<const void*>(&integer_scales[1]) : &float_scales[1];
  api_.matmul(handle_, desc_, a, pointer(set.b.address), b_, pointer(set.a.address), a_, b,
              pointer(set.d.address), d_, pointer(set.d.address), d_, &results_.at(algorithm).algo,
              pointer(workspace), kWorkspaceBytes, stream);
}

std::string MatmulPlan::describe(size_t algorithm) const {
  const lt::HeuristicResult& result = results_.at(algorithm);
  std::string text = fmt::format("heuristic {} of {}", algorithm + 1, results_.size());
  constexpr std::pair<lt::AlgoAttribute, const char*> kShown[] = {{lt::AlgoAttribute::id, "algorithm"},
                                                                  {lt::AlgoAttribute::tile, "tile"},
                                                                  {lt::AlgoAttribute::stages, "stages"},
                                                                  {lt::AlgoAttribute::split_k, "split-K"},
                                                                  {lt::AlgoAttribute::cluster, "cluster"}};
  for (auto [attribute, name] : kShown) {
    // The cluster attribute is two bytes wide; the other attributes are four bytes wide.
    int32_t value = 0;
    const size_t bytes = attribute == lt::AlgoAttribute::cluster ? 2 : 4;
    size_t written = 0;
    if (api_.algo_get.status(&result.algo, attribute, &value, bytes, &written) == lt::Status::success)
      text += fmt::format(", {} {}", name, value);
  }
  return text;
}

CublasLt::CublasLt(const Gpu& gpu, const std::string& library)
    : gpu_(gpu), api_(lt::find_library(library)), workspace_(gpu.device(), kWorkspaceBytes) {
  api_.create(&handle_);
}

CublasLt::~CublasLt() {
  plan_.reset();
  (void)api_.destroy.status(handle_);
}

std::string CublasLt::refuses(const GemmProblem& p) const {
  for (DType type : {p.a, p.b, p.d})
    if (!data_type(type)) return fmt::format("it does not support matrices of {}", ptxbuilder::name(type));
  return "";
}

void CublasLt::prepare(const GemmProblem& problem, std::span<const GemmProblem::Set> sets) {
  plan_.reset();
  plan_.emplace(api_, handle_, problem);
  sets_.assign(sets.begin(), sets.end());

  struct Trial {
    size_t algorithm;
    std::unique_ptr<Burst> burst;
    std::vector<double> times;
  };
  std::vector<Trial> trials;
  for (chosen_ = 0; chosen_ < plan_->algorithms(); ++chosen_) {
    auto queue = [this](size_t set) { launch(set); };
    try {
      const double each = estimate(gpu_, sets_.size(), queue);
      const auto launches = static_cast<size_t>(kTrialMicroseconds / std::max(each, 1.0)) + 1;
      trials.push_back({chosen_, std::make_unique<Burst>(gpu_, sets_.size(), launches, each, queue), {}});
    } catch (const runtime::TimeoutError&) {
      throw;
    } catch (const Error&) {
      // The heuristic may propose a plan that the library then refuses to run. Such a plan is skipped.
    }
  }
  if (trials.empty()) throw Error("cublasLtMatmul runs none of the plans that its heuristic offers");
  for (int i = 0; i < kTrials; ++i)
    for (Trial& t : trials) t.times.push_back(t.burst->run());
  auto best = std::min_element(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) {
    return median(a.times) < median(b.times);
  });
  chosen_ = best->algorithm;
}

void CublasLt::launch(size_t set) { plan_->run(chosen_, sets_.at(set), workspace_.address(), gpu_.stream()); }

std::string CublasLt::configuration() const { return plan_ ? plan_->describe(chosen_) : ""; }

std::string CublasLt::version() const {
  const size_t v = api_.version();  // for example 130100; 120805 means 12.8.5
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace ptxbuilder::bench
