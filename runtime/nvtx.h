// Ranges for profilers such as Nsight Systems, through NVIDIA's tools extension (NVTX 3) but without its
// headers.
//
// A tool sets NVTX_INJECTION64_PATH to its library. The library is loaded at the first range, and stores its
// functions in a table that is passed to it. If the variable is not set, a range does nothing.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdlib>

namespace ptxbuilder::runtime {

namespace detail {

// The functions of NVTX's core, indexed by the numbers in nvtxTypes.h (NvtxCallbackIdCore).
class NvtxTool {
 public:
  static const NvtxTool& here() {
    static const NvtxTool tool;
    return tool;
  }

  bool is_there() const { return push() && pop(); }
  void push(const char* name) const { reinterpret_cast<int (*)(const char*)>(push())(name); }
  void pop_one() const { reinterpret_cast<int (*)()>(pop())(); }

 private:
  using Function = void (*)();
  static constexpr uint32_t kPushText = 9, kPop = 11, kCount = 16;
  static constexpr uint32_t kCoreModule = 1, kCallbacksTable = 1, kVersionTable = 3, kVersion = 3;

  // These structs correspond to NvtxExportTableCallbacks and NvtxExportTableVersionInfo.
  struct Callbacks {
    size_t bytes;
    int (*module_table)(uint32_t module, Function*** table, unsigned* last);
  };
  struct VersionInfo {
    size_t bytes;
    uint32_t version, reserved;
    void (*set_tool_version)(uint32_t);
  };

  NvtxTool() {
    const char* path = std::getenv("NVTX_INJECTION64_PATH");
    void* library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!library) return;
    using Start = int (*)(const void* (*table)(uint32_t));
    if (const auto start = reinterpret_cast<Start>(dlsym(library, "InitializeInjectionNvtx2"));
        !start || start(exported) == 0)
      functions() = {};
  }

  // Returns the table of functions. The tool sets them through pointers to the elements.
  static std::array<Function, kCount>& functions() {
    static std::array<Function, kCount> all = {};
    return all;
  }
  static Function push() { return functions()[kPushText]; }
  static Function pop() { return functions()[kPop]; }

  static const void* exported(uint32_t table) {
    static constexpr Callbacks callbacks = {sizeof(Callbacks), module_table};
    static constexpr VersionInfo version = {sizeof(VersionInfo), kVersion, 0, [](uint32_t) {}};
    return table == kCallbacksTable ? static_cast<const void*>(&callbacks)
           : table == kVersionTable ? static_cast<const void*>(&version)
                                    : nullptr;
  }
  static int module_table(uint32_t module, Function*** table, unsigned* last) {
    static std::array<Function*, kCount + 1> places = [] {
      std::array<Function*, kCount + 1> all = {};  // the first and the last element are null
      for (uint32_t i = 1; i < kCount; ++i) all[i] = &functions()[i];
      return all;
    }();
    if (module != kCoreModule) return 0;
    if (table) *table = places.data();
    if (last) *last = kCount;
    return 1;
  }
};

}  // namespace detail

// A range of time in this thread. Ranges may be nested.
class NvtxRange {
 public:
  // Returns whether a tool is attached. If none is, a range does not need a name.
  static bool is_on() { return detail::NvtxTool::here().is_there(); }

  explicit NvtxRange(const char* name) : is_pushed_(is_on()) {
    if (is_pushed_) detail::NvtxTool::here().push(name);
  }
  ~NvtxRange() {
    if (is_pushed_) detail::NvtxTool::here().pop_one();
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  bool is_pushed_;
};

}  // namespace ptxbuilder::runtime
