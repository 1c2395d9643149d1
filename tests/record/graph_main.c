/* Captures a fill, two launches and a copy, and adds a third launch explicitly. The graph is launched
 * three times, the last time with a different parameter. */
#include "driver_calls.h"

static const char ptx[] =
    ".version 8.6\n.target sm_90a\n.address_size 64\n"
    ".visible .entry scale(.param .u64 p, .param .u32 plus) {\n.reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
    "ld.param.u64 %rd0, [p]; ld.param.u32 %r0, [plus]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4;\n"
    "add.u64 %rd0, %rd0, %rd1; ld.global.u32 %r2, [%rd0]; mad.lo.u32 %r2, %r2, 3, %r0;\n"
    "st.global.u32 [%rd0], %r2;\nret;\n}\n.visible .entry nothing() { ret; }\n";

struct node {
  void* function;
  unsigned grid[3], block[3], shared;
  void **parameters, **extra, *kernel, *context;
};

int main(void) {
  enum { COUNT = 32 };
  void *module = opened(ptx), *scale, *nothing, *stream;
  void *graph, *exec, *nodes[8], *last;
  uint64_t p;
  uint32_t host[COUNT], plus, expected = 0;
  size_t count = 8;
  int i;
  CALL(cuModuleGetFunction, &scale, module, "scale");
  CALL(cuModuleGetFunction, &nothing, module, "nothing");
  CALL(cuMemAlloc, &p, sizeof host);
  CALL(cuStreamCreate, &stream, 1);
  void* parameters[] = {&p, &plus};
  CALL(cuStreamBeginCapture, stream, 0);
  CALL(cuMemsetD8Async, p, 0, sizeof host, stream);
  plus = 5;
  CALL(cuLaunchKernel, scale, 1, 1, 1, COUNT, 1, 1, 0, stream, parameters, NULL);
  CALL(cuLaunchKernel, nothing, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
  CALL(cuMemcpyDtoHAsync, host, p, sizeof host, stream);
  plus = 7;
  CALL(cuLaunchKernel, scale, 1, 1, 1, COUNT, 1, 1, 0, stream, parameters, NULL);
  CALL(cuStreamEndCapture, stream, &graph);
  CALL(cuGraphGetNodes, graph, nodes, &count);
  must(count == 5, "five nodes");
  plus = 9;
  struct node added = {scale, {1, 1, 1}, {COUNT, 1, 1}, 0, parameters, NULL, NULL, NULL};
  CALL(cuGraphAddKernelNode, &last, graph, nodes, count, &added);
  CALL(cuGraphInstantiate, &exec, graph, 0ull);
  CALL(cuGraphLaunch, exec, stream);
  CALL(cuGraphLaunch, exec, stream);
  plus = 11;
  CALL(cuGraphExecKernelNodeSetParams, exec, last, &added);
  CALL(cuGraphDestroy, graph);
  CALL(cuGraphLaunch, exec, stream);
  CALL(cuStreamSynchronize, stream);
  for (i = 0; i < COUNT; ++i) must(host[i] == 5, "an element is wrong within the graph");
  CALL(cuMemcpyDtoH, host, p, sizeof host);
  expected = (5 * 3 + 7) * 3 + 11;
  for (i = 0; i < COUNT; ++i) must(host[i] == expected, "an element is wrong");
  CALL(cuGraphExecDestroy, exec);
  printf("all are right\n");
  return 0;
}
