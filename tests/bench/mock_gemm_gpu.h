// Declares what a test steers and sees of mock_gemm_gpu.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

struct MockGemmGpu {
  // This is to happen.
  int algorithms = 3;          // that the heuristic offers
  int refused_algorithms = 0;  // the first of them, by the matmul
  double error = 0;            // added to each element of D

  // This was asked.
  int matmuls = 0;
  int descriptors = 0;  // alive
  int compute_type = 0, fast_accumulation = -1;
  size_t workspace_bytes = 0, workspace_given = 0;
};

extern "C" MockGemmGpu* mock_gemm_gpu();
