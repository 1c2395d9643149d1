// Compares the benchmark's own declarations of cuBLASLt and of libcuda with the toolkit's headers, if these
// are installed.
#include <cublasLt.h>
#include <cuda.h>
#include <doctest/doctest.h>

#include <type_traits>

#include "kernels/bench/peers/cublaslt_api.h"
#include "kernels/measure/gpu.h"
#include "options.h"

namespace ptxbuilder::test::cublaslt_layout_test {
using namespace bench;

namespace {

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return sizeof(Ours) == sizeof(Theirs) && static_cast<long long>(ours) == static_cast<long long>(theirs);
}

static_assert(same(lt::Status::success, CUBLAS_STATUS_SUCCESS));
static_assert(same(lt::Status::not_supported, CUBLAS_STATUS_NOT_SUPPORTED));
static_assert(same(lt::DataType::f32, CUDA_R_32F));
static_assert(same(lt::DataType::f16, CUDA_R_16F));
static_assert(same(lt::DataType::bf16, CUDA_R_16BF));
static_assert(same(lt::DataType::s8, CUDA_R_8I));
static_assert(same(lt::DataType::s32, CUDA_R_32I));
static_assert(same(lt::DataType::e4m3, CUDA_R_8F_E4M3));
static_assert(same(lt::DataType::e5m2, CUDA_R_8F_E5M2));
static_assert(same(lt::ComputeType::f32, CUBLAS_COMPUTE_32F));
static_assert(same(lt::ComputeType::s32, CUBLAS_COMPUTE_32I));
static_assert(same(lt::ComputeType::f32_fast_tf32, CUBLAS_COMPUTE_32F_FAST_TF32));
static_assert(same(lt::Operation::n, CUBLAS_OP_N) && same(lt::Operation::t, CUBLAS_OP_T));
static_assert(same(lt::DescAttribute::transa, CUBLASLT_MATMUL_DESC_TRANSA));
static_assert(same(lt::DescAttribute::transb, CUBLASLT_MATMUL_DESC_TRANSB));
static_assert(same(lt::DescAttribute::fast_accumulation, CUBLASLT_MATMUL_DESC_FAST_ACCUM));
static_assert(same(lt::PreferenceAttribute::max_workspace_bytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES));
static_assert(same(lt::AlgoAttribute::id, CUBLASLT_ALGO_CONFIG_ID));
static_assert(same(lt::AlgoAttribute::tile, CUBLASLT_ALGO_CONFIG_TILE_ID));
static_assert(same(lt::AlgoAttribute::split_k, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
static_assert(same(lt::AlgoAttribute::stages, CUBLASLT_ALGO_CONFIG_STAGES_ID));
static_assert(same(lt::AlgoAttribute::cluster, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));

static_assert(sizeof(lt::Algo) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(lt::HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(lt::HeuristicResult, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(lt::HeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(lt::HeuristicResult, waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

// Functions with the same number of arguments, of the same sizes and kinds, are called alike.
template <class A, class B>
constexpr bool passed_alike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;
template <class Ours, class Theirs>
constexpr bool agree = false;
template <template <class...> class Entry, class Result, class... Ours, class... Theirs>
requires(sizeof...(Ours) == sizeof...(Theirs)) constexpr bool agree<Entry<Ours...>, Result(Theirs...)> =
    (passed_alike<Ours, Theirs> && ...) && sizeof(Result) == sizeof(int);

template <class Ours, class Theirs>
constexpr bool entries_agree(Ours lt::Api::*, Theirs*) {
  return agree<Ours, Theirs>;
}
template <class Ours, class Theirs>
constexpr bool entries_agree(Ours TimingDriver::*, Theirs*) {
  return agree<Ours, Theirs>;
}

static_assert(entries_agree(&lt::Api::create, &cublasLtCreate));
static_assert(entries_agree(&lt::Api::destroy, &cublasLtDestroy));
static_assert(entries_agree(&lt::Api::desc_create, &cublasLtMatmulDescCreate));
static_assert(entries_agree(&lt::Api::desc_destroy, &cublasLtMatmulDescDestroy));
static_assert(entries_agree(&lt::Api::desc_set, &cublasLtMatmulDescSetAttribute));
static_assert(entries_agree(&lt::Api::layout_create, &cublasLtMatrixLayoutCreate));
static_assert(entries_agree(&lt::Api::layout_destroy, &cublasLtMatrixLayoutDestroy));
static_assert(entries_agree(&lt::Api::preference_create, &cublasLtMatmulPreferenceCreate));
static_assert(entries_agree(&lt::Api::preference_destroy, &cublasLtMatmulPreferenceDestroy));
static_assert(entries_agree(&lt::Api::preference_set, &cublasLtMatmulPreferenceSetAttribute));
static_assert(entries_agree(&lt::Api::heuristic, &cublasLtMatmulAlgoGetHeuristic));
static_assert(entries_agree(&lt::Api::algo_get, &cublasLtMatmulAlgoConfigGetAttribute));
static_assert(entries_agree(&lt::Api::matmul, &cublasLtMatmul));

static_assert(entries_agree(&TimingDriver::device_get_pci_bus_id, &cuDeviceGetPCIBusId));
static_assert(entries_agree(&TimingDriver::memcpy_dtod_async, &cuMemcpyDtoDAsync_v2));

}  // namespace

// The toolkit's library has every declared entry point, and the headers' version.
TEST_CASE("the toolkit's cuBLASLt has the called functions") {
  std::string file;
  for (const std::string& candidate : lt::library_candidates(""))
    if (candidate.find("cuda") != std::string::npos) file = candidate;
  if (file.empty()) {
    ptxbuilder::test::skip("the toolkit here has headers of cuBLASLt, but no library");
    return;
  }
  const lt::Api api(file);
  CHECK(api.version() / 10000 == CUBLAS_VER_MAJOR);
  CHECK(api.loaded.describe(lt::Status::not_supported) == "CUBLAS_STATUS_NOT_SUPPORTED (15)");
}

}  // namespace ptxbuilder::test::cublaslt_layout_test
