// This file and mock_libcuda form one library, which contains a libcublasLt that multiplies on the CPU, and
// an NVML. A graph stores nothing, because recorded work runs at once.
#include "mock_gemm_gpu.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "kernels/bench/peers/cublaslt_api.h"
#include "kernels/measure/gpu.h"
#include "kernels/measure/random_matrix.h"

using namespace ptxbuilder;
using namespace ptxbuilder::bench;
using runtime::cu::Stream;
using Cuda = runtime::cu::Status;

namespace {

MockGemmGpu mock;

struct MockDesc {
  lt::ComputeType compute;
  lt::DataType scale;
  lt::Operation operations[2] = {};
};
struct MockLayout {
  lt::DataType type;
  uint64_t rows, columns;
  int64_t stride;
};

template <class T, class Handle>
T& as(Handle* handle) {
  return *reinterpret_cast<T*>(handle);
}

DType dtype(lt::DataType type) {
  switch (type) {
    case lt::DataType::f32:
      return DType::f32;
    case lt::DataType::f16:
      return DType::f16;
    case lt::DataType::bf16:
      return DType::bf16;
    case lt::DataType::e4m3:
      return DType::e4m3;
    case lt::DataType::e5m2:
      return DType::e5m2;
    case lt::DataType::s8:
      return DType::s8;
    case lt::DataType::s32:
      return DType::s32;
  }
  return DType::f32;
}

// Matrices are column-major: element [row, column] is at row + column * stride.
std::byte* place(const MockLayout& layout, const void* memory, uint64_t row, uint64_t column) {
  const size_t at = row + column * static_cast<uint64_t>(layout.stride);
  return static_cast<std::byte*>(const_cast<void*>(memory)) +
         at * static_cast<size_t>(size_of(dtype(layout.type)));
}

double read(const MockLayout& layout, const void* memory, uint64_t row, uint64_t column) {
  uint32_t bits = 0;
  std::memcpy(&bits, place(layout, memory, row, column), static_cast<size_t>(size_of(dtype(layout.type))));
  return decode(dtype(layout.type), bits);
}

double operand(const MockLayout& layout, lt::Operation operation, const void* memory, uint64_t row,
               uint64_t column) {
  const bool transposed = operation == lt::Operation::t;
  return transposed ? read(layout, memory, column, row) : read(layout, memory, row, column);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

MockGemmGpu* mock_gemm_gpu() { return &mock; }

Cuda cuDeviceGetPCIBusId(char* text, int bytes, runtime::cu::Ordinal) {
  std::snprintf(text, static_cast<size_t>(bytes), "0000:1B:00.0");
  return Cuda::success;
}
Cuda cuMemcpyDtoDAsync_v2(runtime::cu::DevicePtr to, runtime::cu::DevicePtr from, size_t bytes, Stream) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return Cuda::success;
}
size_t cublasLtGetVersion() { return 130100; }
const char* cublasLtGetStatusName(lt::Status status) {
  return status == lt::Status::not_supported ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_OF_MOCK";
}
lt::Status cublasLtCreate(lt::Handle* handle) {
  *handle = reinterpret_cast<lt::Handle>(uintptr_t{9});
  return lt::Status::success;
}
lt::Status cublasLtDestroy(lt::Handle) { return lt::Status::success; }
lt::Status cublasLtMatmulDescCreate(lt::Desc* desc, lt::ComputeType compute, lt::DataType scale) {
  ++mock.descriptors;
  mock.compute_type = static_cast<int>(compute);
  *desc = reinterpret_cast<lt::Desc>(new MockDesc{compute, scale});
  return lt::Status::success;
}
lt::Status cublasLtMatmulDescDestroy(lt::Desc desc) {
  --mock.descriptors;
  delete &as<MockDesc>(desc);
  return lt::Status::success;
}
lt::Status cublasLtMatmulDescSetAttribute(lt::Desc desc, lt::DescAttribute attribute, const void* value,
                                          size_t bytes) {
  if (attribute == lt::DescAttribute::fast_accumulation) {
    if (bytes != 1) return lt::Status::not_supported;
    mock.fast_accumulation = *static_cast<const int8_t*>(value);
    return lt::Status::success;
  }
  if (bytes != 4) return lt::Status::not_supported;
  const int which = attribute == lt::DescAttribute::transa ? 0 : 1;
  std::memcpy(&as<MockDesc>(desc).operations[which], value, 4);
  return lt::Status::success;
}
lt::Status cublasLtMatrixLayoutCreate(lt::Layout* layout, lt::DataType type, uint64_t rows, uint64_t columns,
                                      int64_t stride) {
  if (stride < static_cast<int64_t>(rows)) return lt::Status::not_supported;
  ++mock.descriptors;
  *layout = reinterpret_cast<lt::Layout>(new MockLayout{type, rows, columns, stride});
  return lt::Status::success;
}
lt::Status cublasLtMatrixLayoutDestroy(lt::Layout layout) {
  --mock.descriptors;
  delete &as<MockLayout>(layout);
  return lt::Status::success;
}
lt::Status cublasLtMatmulPreferenceCreate(lt::Preference* preference) {
  ++mock.descriptors;
  *preference = reinterpret_cast<lt::Preference>(uintptr_t{8});
  return lt::Status::success;
}
lt::Status cublasLtMatmulPreferenceDestroy(lt::Preference) {
  --mock.descriptors;
  return lt::Status::success;
}
lt::Status cublasLtMatmulPreferenceSetAttribute(lt::Preference, lt::PreferenceAttribute, const void* value,
                                                size_t bytes) {
  if (bytes != sizeof(size_t)) return lt::Status::not_supported;
  std::memcpy(&mock.workspace_bytes, value, bytes);
  return lt::Status::success;
}
lt::Status cublasLtMatmulAlgoGetHeuristic(lt::Handle, lt::Desc, lt::Layout, lt::Layout, lt::Layout,
                                          lt::Layout, lt::Preference, int asked, lt::HeuristicResult* results,
                                          int* found) {
  if (mock.algorithms == 0) return lt::Status::not_supported;
  *found = std::min(asked, mock.algorithms);
  for (int i = 0; i < *found; ++i) {
    results[i] = {};
    results[i].algo.data[0] = static_cast<uint64_t>(i);
  }
  return lt::Status::success;
}
lt::Status cublasLtMatmulAlgoConfigGetAttribute(const lt::Algo* algo, lt::AlgoAttribute attribute,
                                                void* value, size_t bytes, size_t* written) {
  const bool two_bytes = attribute == lt::AlgoAttribute::cluster;
  if (bytes != (two_bytes ? 2u : 4u)) return lt::Status::not_supported;
  const uint64_t number = 60 + algo->data[0];
  std::memcpy(value, &number, bytes);
  *written = bytes;
  return lt::Status::success;
}
lt::Status cublasLtMatmul(lt::Handle, lt::Desc desc_handle, const void* alpha, const void* a,
                          lt::Layout a_handle, const void* b, lt::Layout b_handle, const void* beta,
                          const void* c, lt::Layout c_handle, void* d, lt::Layout d_handle,
                          const lt::Algo* algo, void*, size_t workspace, Stream) {
  ++mock.matmuls;
  mock.workspace_given = workspace;
  if (algo->data[0] < static_cast<uint64_t>(mock.refused_algorithms)) return lt::Status::not_supported;
  const auto& desc = as<MockDesc>(desc_handle);
  const auto &la = as<MockLayout>(a_handle), &lb = as<MockLayout>(b_handle), &lc = as<MockLayout>(c_handle),
             &ld = as<MockLayout>(d_handle);
  const bool integer = desc.scale == lt::DataType::s32;
  auto scale = [&](const void* at) {
    return integer ? static_cast<double>(*static_cast<const int32_t*>(at))
                   : static_cast<double>(*static_cast<const float*>(at));
  };
  const uint64_t depth = desc.operations[0] == lt::Operation::t ? la.rows : la.columns;
  for (uint64_t column = 0; column < ld.columns; ++column)
    for (uint64_t row = 0; row < ld.rows; ++row) {
      double sum = 0;
      for (uint64_t k = 0; k < depth; ++k)
        sum += operand(la, desc.operations[0], a, row, k) * operand(lb, desc.operations[1], b, k, column);
      sum *= scale(alpha);
      if (scale(beta) != 0) sum += scale(beta) * read(lc, c, row, column);
      const uint64_t bits = encode(dtype(ld.type), sum + mock.error);
      std::memcpy(place(ld, d, row, column), &bits, static_cast<size_t>(size_of(dtype(ld.type))));
    }
  return lt::Status::success;
}

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  *device = &mock;
  return std::strcmp(bus, "0000:1B:00.0") == 0 ? 0 : 6;
}
int nvmlDeviceGetClockInfo(void*, int type, unsigned* mhz) {
  *mhz = 1755;
  return type == 1 ? 0 : 2;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 690500;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = 0x24;
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
