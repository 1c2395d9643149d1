/* Measures the host time of a matrix product that is called from C, with a kernel that is already compiled,
 * and compares it with a bare cuLaunchKernelEx of the same kernel.
 *
 *   host_cost [M N K]...      default: 256 x 128 x 256 and 2048 x 2048 x 512
 *
 * The bare launch is taken from a capture of the product. Bursts of the two kinds of calls alternate. Each
 * burst begins when the device is idle, so that no call waits for space in the stream's queue. The program
 * prints, in microseconds, the shortest time of a call of each kind, the difference of these two times, and
 * the median of the differences between adjacent bursts. The exit code is 77 if there is no GPU. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/c/ptxb.h"

enum { CALLS = 20, BURSTS = 2000 };

/* ---- Declarations from the CUDA driver API (stream, graph and execution control) ---- */

typedef struct {
  void* function; /* NULL if a CUkernel is launched */
  unsigned grid[3], block[3], shared_bytes;
  void **parameters, **extra;
  void *kernel, *context;
} kernel_node; /* CUDA_KERNEL_NODE_PARAMS_v2 */

typedef union {
  char pad[64];
  unsigned cluster[3];
  int is_allowed;
} attribute_value; /* CUlaunchAttributeValue */

typedef struct {
  int id;
  char pad[4];
  _Alignas(8) attribute_value value;
} attribute; /* CUlaunchAttribute */
enum { CLUSTER_DIMENSION = 4, PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

typedef struct {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  attribute* attributes;
  unsigned attribute_count;
} launch_config; /* CUlaunchConfig */

static struct {
  int (*context_get)(void**);
  int (*device_primary_context)(void**, int);
  int (*context_set)(void*);
  int (*stream_create)(void**, unsigned);
  int (*stream_synchronize)(void*);
  int (*begin_capture)(void*, int);
  int (*end_capture)(void*, void**);
  int (*graph_nodes)(void*, void**, size_t*);
  int (*node_parameters)(void*, kernel_node*);
  int (*node_attribute)(void*, int, attribute_value*);
  int (*launch)(const launch_config*, void*, void**, void**);
} cuda;

static void find(void* library, const char* name, void* entry) {
  *(void**)entry = dlsym(library, name);
  if (!*(void**)entry) {
    fprintf(stderr, "host_cost: libcuda.so.1 has no %s: a driver of CUDA 12.0 or newer is needed\n", name);
    exit(1);
  }
}

static void find_driver(void) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    printf("SKIPPED: %s\n", dlerror());
    exit(77);
  }
  find(library, "cuCtxGetCurrent", &cuda.context_get);
  find(library, "cuDevicePrimaryCtxRetain", &cuda.device_primary_context);
  find(library, "cuCtxSetCurrent", &cuda.context_set);
  find(library, "cuStreamCreate", &cuda.stream_create);
  find(library, "cuStreamSynchronize", &cuda.stream_synchronize);
  find(library, "cuStreamBeginCapture_v2", &cuda.begin_capture);
  find(library, "cuStreamEndCapture", &cuda.end_capture);
  find(library, "cuGraphGetNodes", &cuda.graph_nodes);
  find(library, "cuGraphKernelNodeGetParams_v2", &cuda.node_parameters);
  find(library, "cuGraphKernelNodeGetAttribute", &cuda.node_attribute);
  find(library, "cuLaunchKernelEx", &cuda.launch);
}

static void need(int status, const char* what) {
  if (!status) return;
  fprintf(stderr, "host_cost: %s failed: %d\n", what, status);
  exit(1);
}

static void ours(int status) {
  if (status == PTXB_OK) return;
  fprintf(stderr, "host_cost: %s\n", ptxb_error());
  exit(1);
}

/* ---- */

typedef struct {
  int64_t shape[2], strides[2];
  ptxb_tensor tensor;
} matrix;

static void fill(ptxb_device* device, matrix* m, int64_t rows, int64_t columns) {
  const size_t bytes = (size_t)(rows * columns) * 2;
  void *memory, *values = malloc(bytes);
  ours(ptxb_allocate(device, bytes, &memory));
  for (size_t i = 0; i < bytes / 2; ++i)
    ((uint16_t*)values)[i] = (uint16_t)(0x3f00 + i % 0x80); /* bf16, 0.5 to 1 */
  ours(ptxb_copy_in(device, memory, values, bytes));
  free(values);
  m->shape[0] = rows, m->shape[1] = columns, m->strides[0] = columns, m->strides[1] = 1;
  const ptxb_tensor t = {memory, {2, 0}, 2, {PTXB_BFLOAT, 16, 1}, m->shape, m->strides, 0};
  m->tensor = t;
}

/* Captures the product, and returns the launch in the resulting graph. */
static launch_config captured(ptxb_device* device, const ptxb_matmul* p, void* stream,
                              attribute attributes[2], kernel_node* node) {
  void *graph, *nodes[2];
  size_t count = 2;
  need(cuda.begin_capture(stream, 1), "cuStreamBeginCapture");
  ours(ptxb_matmul_run(device, p, NULL, 0, stream));
  need(cuda.end_capture(stream, &graph), "cuStreamEndCapture");
  need(cuda.graph_nodes(graph, nodes, &count), "cuGraphGetNodes");
  if (count != 1) {
    fprintf(stderr, "host_cost: the product is %zu launches; give one that is a single launch\n", count);
    exit(1);
  }
  need(cuda.node_parameters(nodes[0], node), "cuGraphKernelNodeGetParams");
  launch_config config = {.shared_bytes = node->shared_bytes, .stream = stream, .attributes = attributes};
  memcpy(config.grid, node->grid, sizeof config.grid);
  memcpy(config.block, node->block, sizeof config.block);
  memset(attributes, 0, 2 * sizeof *attributes);
  attribute_value cluster;
  need(cuda.node_attribute(nodes[0], CLUSTER_DIMENSION, &cluster), "cuGraphKernelNodeGetAttribute");
  if (cluster.cluster[0]) {
    attributes[config.attribute_count].id = CLUSTER_DIMENSION;
    attributes[config.attribute_count++].value = cluster;
  }
  /* matmul() launches with this attribute, but in a graph it belongs to an edge, and a graph of one node has
   * none. */
  attributes[config.attribute_count].id = PROGRAMMATIC_STREAM_SERIALIZATION;
  attributes[config.attribute_count++].value.is_allowed = 1;
  return config;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure(ptxb_device* device, void* stream, int64_t m, int64_t n, int64_t k) {
  matrix a, b, d;
  fill(device, &a, m, k), fill(device, &b, k, n), fill(device, &d, m, n);
  ptxb_matmul p = PTXB_MATMUL_INIT;
  p.a = &a.tensor, p.b = &b.tensor, p.d = &d.tensor;
  size_t bytes;
  ours(ptxb_matmul_workspace(device, &p, &bytes));
  if (bytes) {
    fprintf(stderr, "host_cost: the product needs a workspace; give one that does not\n");
    exit(1);
  }
  attribute attributes[2];
  kernel_node node;
  const launch_config config = captured(device, &p, stream, attributes, &node);
  void* function = node.function ? node.function : node.kernel; /* the driver accepts a CUkernel as a
                                                                   CUfunction */

  static double difference[BURSTS];
  double least[2] = {1e9, 1e9};
  for (int burst = 0; burst < BURSTS; ++burst) {
    double taken[2];
    for (int turn = 0; turn < 2; ++turn) {
      const bool is_bare = turn ^ (burst & 1); /* each kind runs first equally often */
      const double begin = now();
      for (int call = 0; call < CALLS; ++call) {
        if (is_bare)
          need(cuda.launch(&config, function, node.parameters, NULL), "cuLaunchKernelEx");
        else
          ours(ptxb_matmul_run(device, &p, NULL, 0, stream));
      }
      taken[is_bare] = (now() - begin) / CALLS;
      need(cuda.stream_synchronize(stream), "cuStreamSynchronize");
    }
    for (int i = 0; i < 2; ++i)
      if (taken[i] < least[i]) least[i] = taken[i];
    difference[burst] = taken[0] - taken[1];
  }
  qsort(difference, BURSTS, sizeof *difference, by_value);
  printf(
      "%lld x %lld x %lld: ptxb_matmul_run %.2f us, cuLaunchKernelEx %.2f us, difference %.2f us; median of "
      "differences %.2f us\n",
      (long long)m, (long long)n, (long long)k, least[0], least[1], least[0] - least[1],
      difference[BURSTS / 2]);
  ours(ptxb_free(device, a.tensor.data)), ours(ptxb_free(device, b.tensor.data)),
      ours(ptxb_free(device, d.tensor.data));
}

int main(int argc, char** argv) {
  if (argc % 3 != 1 || (argc > 1 && argv[1][0] == '-')) {
    fprintf(stderr, "usage: host_cost [M N K]...\n");
    return 2;
  }
  find_driver();
  ptxb_device* device;
  if (ptxb_open("cuda:0", &device)) {
    printf("SKIPPED: %s\n", ptxb_error());
    return 77;
  }
  void *context = NULL, *stream;
  need(cuda.context_get(&context), "cuCtxGetCurrent");
  if (!context) {
    need(cuda.device_primary_context(&context, 0), "cuDevicePrimaryCtxRetain");
    need(cuda.context_set(context), "cuCtxSetCurrent");
  }
  need(cuda.stream_create(&stream, 1), "cuStreamCreate");
  if (argc == 1) {
    measure(device, stream, 256, 128, 256);
    measure(device, stream, 2048, 2048, 512);
  }
  for (int i = 1; i < argc; i += 3)
    measure(device, stream, atoll(argv[i]), atoll(argv[i + 1]), atoll(argv[i + 2]));
  ptxb_close(device);
  return 0;
}
