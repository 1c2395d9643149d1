// A tool that prints ranges as Nsight Systems would receive them, with NVIDIA's own header if it is
// installed.
#include <cstdint>
#include <cstdio>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
constexpr uint32_t kCallbacks = NVTX_ETID_CALLBACKS, kVersions = NVTX_ETID_VERSIONINFO,
                   kPush = NVTX_CBID_CORE_RangePushA, kPop = NVTX_CBID_CORE_RangePop,
                   kSize = NVTX_CBID_CORE_SIZE;
using Callbacks = NvtxExportTableCallbacks;
using Versions = NvtxExportTableVersionInfo;
using Table = NvtxFunctionTable;
using Function = NvtxFunctionPointer;
constexpr NvtxCallbackModule kCore = NVTX_CB_MODULE_CORE, kOther = NVTX_CB_MODULE_CUDA;
#else
constexpr uint32_t kCallbacks = 1, kVersions = 3, kPush = 9, kPop = 11, kSize = 16;
using Function = void (*)();
using Table = Function**;
struct Callbacks {
  size_t struct_size;
  int (*GetModuleFunctionTable)(uint32_t module, Table* table, unsigned* size);
};
struct Versions {
  size_t struct_size;
  uint32_t version, reserved0;
  void (*SetInjectionNvtxVersion)(uint32_t);
};
constexpr uint32_t kCore = 1, kOther = 2;
#endif

static int depth = 0;
static int push(const char* name) {
  std::printf("%d> %s\n", depth, name);
  return depth++;
}
static int pop() {
  std::printf("<%d\n", --depth);
  return depth;
}

extern "C" int InitializeInjectionNvtx2(const void* (*exported)(uint32_t)) {
  const auto* callbacks = static_cast<const Callbacks*>(exported(kCallbacks));
  const auto* versions = static_cast<const Versions*>(exported(kVersions));
  Table table = nullptr;
  unsigned size = 0;
  if (!callbacks || !versions || versions->version != 3 || exported(99) ||
      callbacks->struct_size < sizeof(Callbacks))
    return 0;
  if (callbacks->GetModuleFunctionTable(kOther, &table, &size) ||
      !callbacks->GetModuleFunctionTable(kCore, &table, &size))
    return 0;
  if (size != kSize || table[0] || table[size]) return 0;
  versions->SetInjectionNvtxVersion(3);
  *table[kPush] = reinterpret_cast<Function>(push);
  *table[kPop] = reinterpret_cast<Function>(pop);
  std::puts("attached");
  return 1;
}
