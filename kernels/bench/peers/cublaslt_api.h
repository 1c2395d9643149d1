// Declares cuBLASLt's entry points, which are looked up in libcublasLt at run time, and their types and
// enumerators. tests/bench/cublaslt_layout_test.cpp compares all declarations with cublasLt.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/driver.h"

namespace ptxbuilder::bench::lt {

enum class Status : int { success = 0, not_supported = 15 };
enum class DataType : int { f32 = 0, f16 = 2, s8 = 3, s32 = 10, bf16 = 14, e4m3 = 28, e5m2 = 29 };
enum class ComputeType : int { f32 = 68, s32 = 72, f32_fast_tf32 = 77 };
enum class Operation : int32_t { n = 0, t = 1 };
enum class DescAttribute : int { transa = 3, transb = 4, fast_accumulation = 25 };
enum class PreferenceAttribute : int { max_workspace_bytes = 1 };
enum class AlgoAttribute : int { id = 0, tile = 1, split_k = 2, stages = 6, cluster = 8 };

using Handle = struct HandleTag*;
using Desc = struct DescTag*;
using Layout = struct LayoutTag*;
using Preference = struct PreferenceTag*;
struct Algo {
  uint64_t data[8];
};
struct HeuristicResult {
  Algo algo;
  size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

class Library {
 public:
  // Loads the library. If that fails, throws an Error with the reason from the loader.
  explicit Library(const std::string& path);

  const std::string& path() const { return path_; }
  void* symbol(const char* symbol) const;                       // throws Error if the symbol does not exist
  [[noreturn]] void fail(std::string_view call, Status) const;  // throws an Error that names the status
  std::string describe(Status) const;  // returns, for example, "CUBLAS_STATUS_NOT_SUPPORTED (15)"

 private:
  std::string path_;
  void* handle_ = nullptr;
};

// An entry point. Calling it throws Error if the status is not success.
template <class... Args>
class Entry {
 public:
  Entry(const Library& library, const char* name)
      : library_(&library), name_(name), function_(reinterpret_cast<Pointer>(library.symbol(name))) {}

  void operator()(Args... args) const {
    if (Status result = function_(args...); result != Status::success) library_->fail(name_, result);
  }
  // Calls the entry point and returns its status, for calls that may legitimately fail.
  [[nodiscard]] Status status(Args... args) const { return function_(args...); }

 private:
  using Pointer = Status (*)(Args...);

  const Library* library_;
  const char* name_;
  Pointer function_;
};

struct Api {
  explicit Api(const std::string& path) : loaded(path) {}
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  size_t version() const;  // returns, for example, 130100 for 13.1.0

  Library loaded;

  Entry<Handle*> create{loaded, "cublasLtCreate"};
  Entry<Handle> destroy{loaded, "cublasLtDestroy"};
  Entry<Desc*, ComputeType, DataType> desc_create{loaded, "cublasLtMatmulDescCreate"};
  Entry<Desc> desc_destroy{loaded, "cublasLtMatmulDescDestroy"};
  Entry<Desc, DescAttribute, const void*, size_t> desc_set{loaded, "cublasLtMatmulDescSetAttribute"};
  Entry<Layout*, DataType, uint64_t, uint64_t, int64_t> layout_create{loaded, "cublasLtMatrixLayoutCreate"};
  Entry<Layout> layout_destroy{loaded, "cublasLtMatrixLayoutDestroy"};
  Entry<Preference*> preference_create{loaded, "cublasLtMatmulPreferenceCreate"};
  Entry<Preference> preference_destroy{loaded, "cublasLtMatmulPreferenceDestroy"};
  Entry<Preference, PreferenceAttribute, const void*, size_t> preference_set{
      loaded, "cublasLtMatmulPreferenceSetAttribute"};
  Entry<Handle, Desc, Layout, Layout, Layout, Layout, Preference, int, HeuristicResult*, int*> heuristic{
      loaded, "cublasLtMatmulAlgoGetHeuristic"};
  Entry<const Algo*, AlgoAttribute, void*, size_t, size_t*> algo_get{loaded,
                                                                     "cublasLtMatmulAlgoConfigGetAttribute"};
  Entry<Handle, Desc, const void*, const void*, Layout, const void*, Layout, const void*, const void*, Layout,
        void*, Layout, const Algo*, void*, size_t, runtime::cu::Stream>
      matmul{loaded, "cublasLtMatmul"};
};

// Returns the paths at which libcublasLt may be found, the most likely first. If `given` is not empty, it is
// the only one. Otherwise the list has the names that the loader searches for, the files of the toolkits in
// CUDA_PATH and /usr/local/cuda, and the wheels of each python3 in PATH.
std::vector<std::string> library_candidates(const std::string& given);

// Returns the first candidate that can be loaded. If there is none, throws an Error that lists the candidates
// and explains what to do.
std::string find_library(const std::string& given);

}  // namespace ptxbuilder::bench::lt
