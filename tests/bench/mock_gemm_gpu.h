// Declares the state that a test can control and observe in mock_gemm_gpu.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

struct MockGemmGpu {
  // These variables control the mock.
  int algorithms = 3;          // number of algorithms that the heuristic offers
  int refused_algorithms = 0;  // the matmul refuses this many of the first algorithms
  double error = 0;            // added to each element of D

  // These variables record the requests.
  int matmuls = 0;
  int descriptors = 0;  // number of descriptors that have not been destroyed
  int compute_type = 0, fast_accumulation = -1;
  size_t workspace_bytes = 0, workspace_given = 0;
};

extern "C" MockGemmGpu* mock_gemm_gpu();
