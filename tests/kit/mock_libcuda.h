// A mock of libcuda.so.1 that a test controls and observes. Its device memory is host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/driver.h"

struct MockDriver {
  using Status = ptxbuilder::runtime::cu::Status;

  // These variables control the driver's answers.
  Status init = Status::success;
  int device_count = 1;
  int major = 9, minor = 0;
  Status alloc = Status::success;
  int not_ready_answers =
      0;  // number of "not ready" answers to queries before another answer; -1 for an infinite number
  Status stream = Status::success;  // the status once a stream is ready
  Status load = Status::success;
  const char* jit_errors = "";
  Status get_function = Status::success;
  Status launch = Status::success;
  Status encode = Status::success;
  ptxbuilder::runtime::cu::Context stream_context = nullptr;  // the context of every stream
  std::vector<size_t> parameter_sizes;
  bool reads_ptx = false;  // each image is PTX, which defines the parameters and the cluster of its kernel
  int max_threads = 1024, static_shared = 0, max_cluster = 8;
  int required_cluster[3] = {0, 0, 0};

  // These variables record the requests.
  int context_retains = 0, context_releases = 0, stream_synchronizes = 0;
  int context_questions = 0, context_changes = 0;
  int streams = 0, events = 0, captured_graphs = 0,
      graphs = 0;     // number of existing streams, events, captured graphs, and graphs that can be launched
  int libraries = 0;  // number of loaded libraries
  int allocations = 0;  // number of allocations that have not been freed
  int launches = 0, records = 0, encodes = 0;
  int max_dynamic_shared = -1, non_portable = 0;
  ptxbuilder::runtime::cu::LaunchConfig config = {};
  ptxbuilder::runtime::cu::Context launch_context = nullptr;  // the current context at the last launch
  // Counts launches whose stream, tensor and number do not belong to the same thread. Thread n uses stream 16
  // + n, the tensor 128 n bytes after the first, and the number n.
  int mixed_launches = 0;
  bool capturing = false;
  ptxbuilder::runtime::cu::CaptureMode capture_mode =
      ptxbuilder::runtime::cu::CaptureMode::global;  // mode of the current capture
  int captures = 0, ended_captures = 0, relaxed_threads = 0;
  std::vector<ptxbuilder::runtime::cu::Stream> graph_launches;
  std::vector<ptxbuilder::runtime::cu::LaunchAttribute> attributes;
  std::vector<uint64_t> parameters;  // the first 8 bytes of each parameter of the last launch
  std::vector<uint32_t> box;         // of the last map
};

extern "C" MockDriver* mock_driver();
